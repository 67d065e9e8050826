package types_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// TestDefects holds the defects of the original that types and values could
// have; the numbers are those of ../DEFECTS.md.
func TestDefects(t *testing.T) {
	for _, c := range []struct {
		name, typ, in string
		member        int // which member of a union the value is of
		out           string
	}{
		{"R6 a value of a union is itself, not a pair of tag and value", "Int | String", `"x"`, 1, `"x"`},
		{"R6 the tagged form is read", "Int | String", `{"tag":"Int","value":3}`, 0, "3"},
		{"R6 members of one kind", "List<Int> | List<String>", `["a"]`, 1, `["a"]`},
		{"R6 in a list", "List<Int | {a: Int}>", `[1,{"a":2}]`, -1, `[1,{"a":2}]`},
		{"R6 none or one of several", "Optional<Int | String>", `null`, -1, "null"},
		{"R8 the record with the most fields that fit", "{a: Int} | {a: Int, b: Int}", `{"a":1,"b":2}`, 1, `{"a":1,"b":2}`},
		{"R34 an absent optional field is none", "{a: Int, b: Optional<Int>}", `{"a":1}`, -1, `{"a":1,"b":null}`},
		{"R34 in a nested record", "List<{r: {b: Optional<String>}}>", `[{"r":{}}]`, -1, `[{"r":{"b":null}}]`},
		{"R34 an absent field of a member", "{a: Optional<Int>, k: Int} | String", `{"k":1}`, 0, `{"a":null,"k":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := value.Parse([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			typ := parse(t, c.typ)
			v, err := types.Decode(in, typ)
			if err != nil {
				t.Fatal(err)
			}
			if got := value.JSON(types.Encode(v)); got != c.out {
				t.Errorf("%s, want %s", got, c.out)
			}
			if typ.Kind == types.UnionKind && types.Member(v, typ) != c.member {
				t.Errorf("member %d, want %d", types.Member(v, typ), c.member)
			}
		})
	}
	t.Run("R13 a number out of range is an error", func(t *testing.T) {
		for _, in := range []string{"9223372036854775808", "-9223372036854775809", "1e400"} {
			v, err := value.Parse([]byte(in))
			if err != nil {
				continue // refused even earlier
			}
			if got, err := types.Decode(v, types.Int); err == nil {
				t.Errorf("%s is read as %v", in, got)
			}
		}
	})
}
