package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// SchemaError is a result that does not fit its schema.
type SchemaError struct{ Err error }

func (e *SchemaError) Error() string {
	return "the result does not fit expected_schema: " + e.Err.Error()
}

// Class is "validation".
func (e *SchemaError) Class() string { return "validation" }

// fits checks a JSON text against a JSON Schema of the workflow file. A schema
// that refers to others is refused: nothing is fetched.
func fits(schema any, text string) error {
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource("expected_schema.json", schema); err != nil {
		return &SchemaError{err}
	}
	s, err := c.Compile("expected_schema.json")
	if err != nil {
		return fmt.Errorf("expected_schema: %w", err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return &SchemaError{fmt.Errorf("it is no JSON: %w", err)}
	}
	if err := s.Validate(v); err != nil {
		return &SchemaError{err}
	}
	return nil
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("a schema cannot refer to " + url)
}
