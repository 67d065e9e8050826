package stdlib_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/stdlib"
)

// TestDefects holds the defects of the original that the library could have;
// the numbers are those of ../DEFECTS.md.
func TestDefects(t *testing.T) {
	for _, c := range []struct {
		defect, name, args string
		want               any
		err                string
	}{
		{"R9", "add", "[1.5,2.0]", 3.5, ""},
		{"R9", "add", "[1,2.0]", 3.0, ""},
		{"R9", "divide", "[1,2.0]", 0.5, ""},
		{"R9", "list-sum", "[[0.5,0.25]]", 0.75, ""},
		{"R9", "lt", "[1,1.5]", true, ""},
		{"R9", "divide", "[1,0]", nil, "Division by zero in stdlib.divide"},
		{"R9", "divide", "[1.5,0.0]", nil, "Division by zero"},
		{"R13", "add", "[9223372036854775807,1]", nil, "64 bits"},
		{"R13", "subtract", "[-9223372036854775808,1]", nil, "64 bits"},
		{"R13", "multiply", "[4611686018427387904,2]", nil, "64 bits"},
		{"R13", "negate", "[-9223372036854775808]", nil, "64 bits"},
		{"R13", "abs", "[-9223372036854775808]", nil, "64 bits"},
		{"R13", "divide", "[-9223372036854775808,-1]", nil, "64 bits"},
		{"R13", "list-sum", "[[9223372036854775807,1]]", nil, "64 bits"},
		{"R13", "to-int", "[1e300]", nil, "64 bits"},
		{"R13", "round", "[1e300]", nil, "64 bits"},
	} {
		got, err := call(t, c.name, c.args)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s %s%s: %v, error %v, want %q", c.defect, c.name, c.args, got, err, c.err)
			}
		case err != nil:
			t.Errorf("%s %s%s: %v", c.defect, c.name, c.args, err)
		case got != c.want:
			t.Errorf("%s %s%s is %v, want %v", c.defect, c.name, c.args, got, c.want)
		}
	}
}

// R10: the functions behind operators are there without imports, whatever else
// has their names.
func TestR10OperatorsAreFunctions(t *testing.T) {
	for _, f := range []*stdlib.Func{stdlib.AddFunc, stdlib.SubFunc, stdlib.MulFunc, stdlib.DivFunc, stdlib.EqFunc, stdlib.NeFunc,
		stdlib.LtFunc, stdlib.LeFunc, stdlib.GtFunc, stdlib.GeFunc, stdlib.NotFunc, stdlib.NegFunc, stdlib.ConcatFunc} {
		if f == nil || f.Eval == nil || f.Name == "" {
			t.Errorf("%+v", f)
		}
	}
}
