package stdlib_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// call evaluates a function of the library with the arguments of a JSON list;
// numbers with a point are Floats.
func call(t *testing.T, name, args string) (any, error) {
	t.Helper()
	fs := stdlib.Named(name)
	if len(fs) != 1 {
		t.Fatalf("%d functions are named %s", len(fs), name)
	}
	v, err := value.Parse([]byte(strings.ReplaceAll(args, ".0", ".00")))
	if err != nil {
		t.Fatal(err)
	}
	return fs[0].Eval(normal(v).([]any))
}

// normal makes Floats of numbers with a point.
func normal(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = normal(v[k])
		}
	case nil, bool, string, int64, float64:
	default:
		f, _ := value.Float(v)
		return f
	}
	return v
}

func TestFunctions(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"split", `["abc",""]`, `["abc"]`}, {"split", `["",""]`, `[""]`}, {"split", `["a,,b",","]`, `["a","","b"]`}, {"list-concat", "[[],[]]", "[]"}, {"add", "[2,3]", "5"}, {"add", "[2,0.5]", "2.5"}, {"subtract", "[2,3]", "-1"}, {"multiply", "[-4,3]", "-12"},
		{"divide", "[7,2]", "3"}, {"divide", "[-7,2]", "-3"}, {"divide", "[7,2.0]", "3.5"}, {"modulo", "[-7,3]", "-1"}, {"modulo", "[7.5,2.0]", "1.5"},
		{"max", "[2,3]", "3"}, {"min", "[2,3]", "2"}, {"max", "[2,2.5]", "2.5"}, {"abs", "[-3]", "3"}, {"abs", "[-2.5]", "2.5"}, {"negate", "[3]", "-3"},
		{"round", "[2.5]", "3"}, {"round", "[-2.5]", "-2"}, {"round", "[2.4]", "2"}, {"round", "[0.49999999999999994]", "0"}, {"round", "[-0.49999999999999994]", "0"}, {"round", "[-0.5000000000000001]", "-1"}, {"round", "[4503599627370497.0]", "4503599627370497"}, {"floor", "[-2.5]", "-3"}, {"ceil", "[2.1]", "3"},
		{"sqrt", "[9]", "3"}, {"power", "[2,10]", "1024"},
		{"concat", `["a","b"]`, `"ab"`}, {"string-length", `["aé😀"]`, "4"}, {"char-count", `["aé😀"]`, "3"},
		{"join", `[["a","b"],", "]`, `"a, b"`}, {"join", `[[],","]`, `""`}, {"split", `["a,,b",","]`, `["a","","b"]`}, {"split", `["",","]`, `[""]`}, {"split", `["a.b","."]`, `["a","b"]`},
		{"contains", `["abc","bc"]`, "true"}, {"trim", `["  a b\n"]`, `"a b"`}, {"replace", `["aaa","a","b"]`, `"bbb"`}, {"replace", `["a.c",".","$1"]`, `"a$1c"`},
		{"upper", `["aé"]`, `"AÉ"`}, {"lower", `["AÉ"]`, `"aé"`}, {"starts-with", `["abc","ab"]`, "true"}, {"ends-with", `["abc","ab"]`, "false"},
		{"substring", `["añb😀",1,3]`, `"ñb"`}, {"substring", `["abc",-5,99]`, `"abc"`}, {"substring", `["abc",2,1]`, `""`},
		{"index-of", `["añb","b"]`, "2"}, {"index-of", `["a","b"]`, "null"}, {"lines", `["a\r\nb\n"]`, `["a","b"]`}, {"lines", `[""]`, `[]`}, {"words", `[" a  b "]`, `["a","b"]`},
		{"matches", `["abc","^a.c$"]`, "true"}, {"string-is-empty", `[""]`, "true"},
		{"list-length", "[[1,2]]", "2"}, {"list-first", "[[1,2]]", "1"}, {"list-last", "[[1,2]]", "2"}, {"list-is-empty", "[[]]", "true"},
		{"list-sum", "[[1,2,3]]", "6"}, {"list-sum", "[[1.5,2.0]]", "3.5"}, {"list-concat", "[[1],[2]]", "[1,2]"}, {"list-contains", `[["a","b"],"b"]`, "true"}, {"list-contains", `[[1,2],3]`, "false"},
		{"list-reverse", "[[1,2,3]]", "[3,2,1]"}, {"list-get", "[[1,2],1]", "2"}, {"list-get", "[[1,2],2]", "null"}, {"list-get", "[[1,2],-1]", "null"}, {"list-append", "[[1],2]", "[1,2]"},
		{"list-take", "[[1,2,3],2]", "[1,2]"}, {"list-take", "[[1],-2]", "[]"}, {"list-drop", "[[1,2,3],2]", "[3]"}, {"list-drop", "[[1],5]", "[]"},
		{"list-unique", `[["a","b","a"]]`, `["a","b"]`}, {"list-sort", `[["b","a"]]`, `["a","b"]`}, {"list-sort", "[[3,1,2]]", "[1,2,3]"}, {"list-flatten", "[[[1],[2,3]]]", "[1,2,3]"},
		{"list-max", "[[1,3,2]]", "3"}, {"list-max", "[[]]", "null"}, {"list-min", `[["b","a"]]`, `"a"`}, {"list-average", "[[1,2]]", "1.5"}, {"list-average", "[[]]", "null"},
		{"list-range", "[1,4]", "[1,2,3]"}, {"list-range", "[4,1]", "[]"}, {"list-zip", `[[1,2],["a"]]`, `[{"first":1,"second":"a"}]`}, {"collect", "[[1]]", "[1]"},
		{"and", "[true,false]", "false"}, {"or", "[true,false]", "true"}, {"not", "[true]", "false"},
		{"eq-int", "[1,1]", "true"}, {"eq-string", `["a","b"]`, "false"}, {"eq", "[1,1.0]", "true"}, {"neq", `["a","b"]`, "true"},
		{"lt", "[1,2]", "true"}, {"lte", "[2,2]", "true"}, {"gt", "[1.5,1]", "true"}, {"gte", `["a","b"]`, "false"}, {"lt", "[9007199254740993,9007199254740992.0]", "false"},
		{"to-string", "[3]", `"3"`}, {"to-string", `[[1,{"a":null}]]`, `"[1, {a: }]"`}, {"to-string", "[[3.0,0.5]]", `"[3.0, 0.5]"`}, {"to-json", "[[3.0,3]]", `"[3.0,3]"`}, {"to-int", "[-2.9]", "-2"}, {"to-float", "[2]", "2"}, {"parse-int", `[" 42 "]`, "42"}, {"parse-int", `["4x"]`, "null"},
		{"parse-float", `["1e3"]`, "1000"}, {"parse-float", `["inf"]`, "null"}, {"to-json", `[{"b":[1],"a":"<"}]`, `"{\"a\":\"<\",\"b\":[1]}"`},
		{"map-get", `[{"a":1},"a"]`, "1"}, {"map-get", `[{"a":1},"b"]`, "null"}, {"map-get", `[{"1":"x"},1]`, `"x"`}, {"map-has", `[{"a":null},"a"]`, "true"}, {"map-keys", `[{"b":1,"a":2}]`, `["a","b"]`},
		{"map-values", `[{"b":1,"a":2}]`, "[2,1]"}, {"map-size", `[{"b":1}]`, "1"}, {"identity", `["x"]`, `"x"`},
	} {
		got, err := call(t, c.name, c.args)
		if err != nil || value.JSON(got) != c.want {
			t.Errorf("%s%s = %v %v, want %s", c.name, c.args, got, err, c.want)
		}
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"divide", "[1,0]", "Division by zero in stdlib.divide"}, {"divide", "[1.0,0]", "Division by zero in stdlib.divide"}, {"modulo", "[1,0]", "Division by zero in stdlib.modulo"},
		{"add", "[9223372036854775807,1]", "does not fit into 64 bits"}, {"subtract", "[-9223372036854775807,2]", "does not fit"}, {"multiply", "[4611686018427387904,2]", "does not fit"},
		{"multiply", "[-9223372036854775808,-1]", "does not fit"}, {"divide", "[-9223372036854775808,-1]", "does not fit"}, {"negate", "[-9223372036854775808]", "does not fit"}, {"abs", "[-9223372036854775808]", "does not fit"},
		{"multiply", "[1e300,1e300]", "not a finite number"}, {"sqrt", "[-1]", "not a finite number"}, {"round", "[1e19]", "does not fit"},
		{"list-first", "[[]]", "list is empty in list-first"}, {"list-last", "[[]]", "list is empty in list-last"}, {"list-sum", "[[9223372036854775807,1]]", "does not fit"},
		{"matches", `["a","("]`, "no regular expression"}, {"list-range", "[0,9223372036854775807]", "more than 10000000 elements"}, {"list-range", "[-9223372036854775808,9223372036854775807]", "more than 10000000 elements"},
	} {
		got, err := call(t, c.name, c.args)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s = %v %v, want the error %q", c.name, c.args, got, err, c.want)
		}
	}
	long := strings.Repeat("x", 1<<20)
	if _, err := stdlib.Named("replace")[0].Eval([]any{long, "x", strings.Repeat("y", 1<<10)}); err == nil {
		t.Error("replace makes a text of a gigabyte")
	}
}

// TestSignatures checks every function against its own signature: it must
// survive zero values of the types that its variables may take, without
// changing its arguments, and give a value of its result's type.
func TestSignatures(t *testing.T) {
	for _, f := range stdlib.All() {
		if f.Doc == "" || f.Namespace == "" || (f.Eval == nil) == (f.Each == nil) || stdlib.Lookup(f.Qualified()) != f {
			t.Errorf("%s is not complete", f.Qualified())
		}
		if f.Eval == nil {
			continue
		}
		var b types.Bindings
		args := make([]any, len(f.Sig.Params))
		for i, p := range f.Sig.Params {
			typ := concrete(p.Type)
			if !b.Match(p.Type, typ) {
				t.Fatalf("%s does not take %s", f.Qualified(), typ)
			}
			args[i] = types.Zero(typ)
		}
		before := value.JSON(args)
		v, err := f.Eval(args)
		if err == nil && !types.Conforms(v, b.Apply(f.Sig.Result)) {
			t.Errorf("%s%s = %v, which is no %s", f.Qualified(), before, v, b.Apply(f.Sig.Result))
		}
		if value.JSON(args) != before {
			t.Errorf("%s changes its arguments", f.Qualified())
		}
	}
}

// concrete puts Int in the place of variables.
func concrete(t *types.Type) *types.Type {
	var b types.Bindings
	for _, name := range []string{"T", "U", "K", "N", "O", "S"} {
		b.Match(types.VarOf(name), types.Int)
	}
	return b.Apply(t)
}

func TestListsAreNotShared(t *testing.T) {
	list := append(make([]any, 0, 10), int64(1))
	a, err := stdlib.Named("list-append")[0].Eval([]any{list, int64(2)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = stdlib.Named("list-append")[0].Eval([]any{list, int64(3)}); err != nil {
		t.Fatal(err)
	}
	if got := value.JSON(a); got != "[1,2]" {
		t.Errorf("a later append changed an earlier result to %s", got)
	}
}

func TestLog(t *testing.T) {
	var wrote string
	v, err := stdlib.Log(func(m string) { wrote = m }).Call(t.Context(), []any{"hello"})
	if err != nil || v != "hello" || wrote != "hello" {
		t.Errorf("%v %v %q", v, err, wrote)
	}
}

func samples() map[string]module.Module {
	ms := map[string]module.Module{}
	for _, m := range stdlib.Samples() {
		ms[m.Name()] = m
	}
	return ms
}

func TestSamples(t *testing.T) {
	for _, c := range []struct {
		name string
		args []any
		want string
	}{
		{"Uppercase", []any{"a"}, `"A"`}, {"Lowercase", []any{"A"}, `"a"`}, {"Trim", []any{" a "}, `"a"`}, {"Replace", []any{"aba", "a", "c"}, `"cbc"`},
		{"WordCount", []any{"a b  c"}, "3"}, {"TextLength", []any{"abc"}, "3"}, {"Contains", []any{"abc", "b"}, "true"}, {"SplitLines", []any{"a\nb"}, `["a","b"]`}, {"SplitLines", []any{""}, `[""]`}, {"Split", []any{"a-b", "-"}, `["a","b"]`},
		{"SumList", []any{[]any{int64(1), int64(2)}}, "3"}, {"Max", []any{[]any{}}, "0"}, {"Min", []any{[]any{}}, "0"}, {"Average", []any{[]any{}}, "0"}, {"Max", []any{[]any{int64(1), int64(2)}}, "2"}, {"Min", []any{[]any{int64(1), int64(2)}}, "1"}, {"Average", []any{[]any{int64(1), int64(2)}}, "1.5"},
		{"FilterGreaterThan", []any{[]any{int64(1), int64(5)}, int64(2)}, "[5]"}, {"MultiplyEach", []any{[]any{int64(1), int64(5)}, int64(2)}, "[2,10]"}, {"Range", []any{int64(1), int64(3)}, "[1,2,3]"}, {"FormatNumber", []any{int64(-1234567)}, `"-1,234,567"`},
	} {
		m := samples()[c.name]
		v, err := m.Call(t.Context(), c.args)
		if err != nil || value.JSON(v) != c.want || !types.Conforms(v, m.Result()) {
			t.Errorf("%s%v = %v %v, want %s", c.name, c.args, v, err, c.want)
		}
	}
}

// A List without elements is an empty one, never null: every function that gives
// a List is tried with empty texts, lists and maps.
func TestEmptyLists(t *testing.T) {
	empty := map[types.Kind]any{types.StringKind: "", types.IntKind: int64(0), types.FloatKind: 0.0, types.BooleanKind: false, types.VarKind: int64(0),
		types.ListKind: []any{}, types.SeqKind: []any{}, types.MapKind: map[string]any{}}
	n := 0
	for _, f := range stdlib.All() {
		if !f.Sig.Result.IsSequence() {
			continue
		}
		n++
		var v any
		var err error
		if f.Each != nil {
			v, err = f.Each.Combine([]any{}, []any{})
		} else {
			args := make([]any, len(f.Sig.Params))
			for i, p := range f.Sig.Params {
				args[i] = empty[p.Type.Kind]
			}
			v, err = f.Eval(args)
		}
		if list, ok := v.([]any); err != nil || !ok || list == nil {
			t.Errorf("%s gives %#v, %v", f.Qualified(), v, err)
		}
	}
	if n < 15 {
		t.Errorf("only %d functions give a List", n)
	}
}

func TestFlakySamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms := samples()
		arg := []any{"x"}
		for i := 1; i <= 6; i++ {
			if _, err := ms["FlakyService"].Call(t.Context(), arg); (err == nil) != (i%3 == 0) {
				t.Errorf("call %d of FlakyService: %v", i, err)
			}
		}
		if _, err := ms["AlwaysFailsService"].Call(t.Context(), arg); err == nil {
			t.Error("AlwaysFailsService does not fail")
		}
		took := func(name string) time.Duration {
			start := time.Now()
			if _, err := ms[name].Call(t.Context(), arg); err != nil {
				t.Error(err)
			}
			return time.Since(start)
		}
		for name, want := range map[string]time.Duration{"SlowQuery": 500 * time.Millisecond, "SlowApiCall": time.Second, "ExpensiveCompute": 2 * time.Second, "DeepAnalysis": 1500 * time.Millisecond} {
			if got := took(name); got != want {
				t.Errorf("%s takes %v", name, got)
			}
		}
		if a, b := took("TimeoutProneService"), took("TimeoutProneService"); a != 3*time.Second || b != 100*time.Millisecond {
			t.Errorf("TimeoutProneService takes %v, then %v", a, b)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := ms["SlowApiCall"].Call(ctx, arg); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call whose context is done gives %v", err)
		}
	})
}

func TestAddIntAndFloat(t *testing.T) {
	if v, err := stdlib.AddFunc.Eval([]any{int64(math.MaxInt64), 1.0}); err != nil || v != float64(math.MaxInt64)+1 {
		t.Error(v, err)
	}
}
