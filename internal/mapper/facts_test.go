package mapper

import (
	"encoding/json"
	"testing"

	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/value/valuetest"
	"pgregory.net/rapid"
)

// TestFactsAreThoseOfMarshal: what is written member by member is the text that
// encoding/json gives.
func TestFactsAreThoseOfMarshal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Letter
		valuetest.Fill(t, &l)
		for _, x := range []struct {
			v       any
			members func(*value.Object)
		}{{l, l.appendTo}, {l.Result, l.Result.appendTo}} {
			want, err := json.Marshal(x.v)
			if got := step.Object(x.members); err == nil && string(got) != string(want) {
				t.Fatalf("%s\nis not\n%s", got, want)
			}
		}
	})
}
