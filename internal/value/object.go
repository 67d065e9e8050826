package value

import (
	"encoding/json"
	"fmt"
)

// Object is an object of JSON that is read as [Parse] reads it: its numbers are what they
// were written as. Without it they are float64, and an id above 2^53 becomes another one.
type Object map[string]any

// UnmarshalJSON reads an object, or null as nil.
func (o *Object) UnmarshalJSON(text []byte) error {
	v, err := Parse(text)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		*o = nil
	case map[string]any:
		*o = v
	default:
		return fmt.Errorf("a %s stands for an object", Kind(v))
	}
	return nil
}

var _ json.Unmarshaler = (*Object)(nil)
