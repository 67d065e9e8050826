package types_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/types"
)

func parse(t testing.TB, text string) *types.Type {
	t.Helper()
	typ, err := types.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func TestPrintAndParse(t *testing.T) {
	for _, text := range []string{
		"String", "Int", "Float", "Boolean", "List<Int>", "Seq<String>", "Map<String, Int>", "Optional<Float>",
		"{}", "{a: Int}", "{a: Int, b: List<{c: String}>}", "Int | String", "{a: Int} | {b: Int} | String", "{a: Int, ...}", "{...}",
		"Optional<Int | String>", "List<Int | List<Int>>",
	} {
		if got := parse(t, text).String(); got != text {
			t.Errorf("%q prints as %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"Candidates<Int>": "Seq<Int>", "Int | Int": "Int", "Optional<Optional<Int>>": "Optional<Int>", "List[Int]": "List<Int>",
		"{a: Int} + {b: Int, a: String}": "{a: String, b: Int}", "{a: Int, b: Int}|String": "{a: Int, b: Int} | String",
		"Result<Int>": "{ok: Boolean, value: Optional<Int>, error: Optional<{message: String, class: String, module: String, attempts: Int}>}",
	} {
		if got := parse(t, text).String(); got != want {
			t.Errorf("%q prints as %q, want %q", text, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"Strin":             `Undefined type: Strin; did you mean "String"?`,
		"Foo<Int>":          "Undefined type: Foo<...>",
		"List":              "Undefined type: List; it takes 1 argument, as in List<String>",
		"Map<Int>":          "Undefined type: Map<...>; Map takes 2 arguments, as in Map<String, Int>",
		"bool":              `Undefined type: bool; did you mean "Boolean"?`,
		"Int + String":      "Cannot merge types: Int + String; only records, and lists of records, can be merged",
		"List<Int, ...}":    "is not a type",
		"Int in y: String":  "is not a type",
		"Int\nin y: String": "is not a type",
		"":                  "is not a type",
		"{a: }":             "is not a type",
		"3":                 "is not a type",
	} {
		_, err := types.Parse(text)
		if err == nil || !contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestSubtype(t *testing.T) {
	open := types.OpenRecordOf(types.Field{Name: "a", Type: types.Int})
	cases := []struct {
		s, t string
		want bool
	}{
		{"Int", "Int", true},
		{"Int", "Float", false},
		{"Int", "String", false},
		{"List<Int>", "Seq<Int>", true},
		{"Seq<Int>", "List<Int>", false},
		{"List<{a: Int, b: Int}>", "List<{a: Int}>", true},
		{"List<{a: Int}>", "List<{a: Int, b: Int}>", false},
		{"{a: Int, b: String}", "{b: String}", true},
		{"{b: String}", "{a: Int, b: String}", false},
		{"{a: {b: Int, c: Int}}", "{a: {b: Int}}", true},
		{"{a: Int}", "{a: String}", false},
		{"{b: Int, a: String}", "{a: String, b: Int}", true},
		{"Map<String, {a: Int, b: Int}>", "Map<String, {a: Int}>", true},
		{"Map<{a: Int, b: Int}, Int>", "Map<{a: Int}, Int>", false},
		{"Int", "Int | String", true},
		{"Int | String", "Int", false},
		{"Int | String", "String | Int", true},
		{"Int | String", "String | Float | Int", true},
		{"{a: Int, b: Int}", "{a: Int} | String", true},
		{"Int", "Optional<Int>", true},
		{"Optional<Int>", "Int", false},
		{"Optional<Int>", "Optional<Int | String>", true},
		{"{a: Int}", "{a: Int, ...}", true},
		{"{a: Int, b: Int}", "{a: Int, ...}", true},
		{"{b: Int}", "{a: Int, ...}", false},
		{"{a: Int, ...}", "{a: Int}", false},
	}
	for _, c := range cases {
		if got := types.Subtype(parse(t, c.s), parse(t, c.t)); got != c.want {
			t.Errorf("%s <: %s is %v", c.s, c.t, got)
		}
	}
	if !types.Subtype(types.Nothing, open) || !types.Subtype(types.Invalid, types.Int) || !types.Subtype(types.Int, types.Invalid) {
		t.Error("Nothing and Invalid fit everywhere")
	}
	f := func(param, result string) *types.Type {
		return types.FuncOf([]*types.Type{parse(t, param)}, parse(t, result))
	}
	if !types.Subtype(f("{a: Int}", "List<Int>"), f("{a: Int, b: Int}", "Seq<Int>")) {
		t.Error("a function may take more and give less")
	}
	if types.Subtype(f("{a: Int, b: Int}", "Int"), f("{a: Int}", "Int")) {
		t.Error("a function must not ask for more")
	}
}

func TestBounds(t *testing.T) {
	cases := []struct{ a, b, lub string }{
		{"Int", "Int", "Int"},
		{"Int", "String", "Int | String"},
		{"Int", "Float", "Int | Float"},
		{"List<Int>", "Seq<Int>", "Seq<Int>"},
		{"{a: Int, b: Int}", "{a: Int}", "{a: Int}"},
		{"Int | String", "Float", "Int | String | Float"},
		{"Int", "Optional<Int>", "Optional<Int>"},
		{"List<Int>", "List<String>", "List<Int> | List<String>"},
	}
	for _, c := range cases {
		a, b := parse(t, c.a), parse(t, c.b)
		if got := types.LUB(a, b).String(); got != c.lub {
			t.Errorf("LUB(%s, %s) = %s, want %s", a, b, got, c.lub)
		}
	}
}

func TestBindings(t *testing.T) {
	v, n := types.VarOf("T"), types.VarOf("N", types.Int, types.Float)
	cases := []struct {
		params []*types.Type
		args   []string
		result *types.Type
		want   string // "" if it does not match
	}{
		{[]*types.Type{v}, []string{"Int"}, types.ListOf(v), "List<Int>"},
		{[]*types.Type{types.SeqOf(v)}, []string{"List<String>"}, v, "String"},
		{[]*types.Type{types.ListOf(v)}, []string{"Seq<String>"}, v, ""},
		{[]*types.Type{v, v}, []string{"{a: Int, b: Int}", "{a: Int}"}, v, "{a: Int}"},
		{[]*types.Type{v, v}, []string{"Int", "String"}, v, ""},
		{[]*types.Type{n, n}, []string{"Int", "Float"}, n, "Float"},
		{[]*types.Type{n, n}, []string{"Int", "Int"}, n, "Int"},
		{[]*types.Type{n}, []string{"String"}, n, ""},
		{[]*types.Type{types.MapOf(types.String, v)}, []string{"Map<String, Int>"}, types.OptionalOf(v), "Optional<Int>"},
		{[]*types.Type{types.OptionalOf(v)}, []string{"Int"}, v, "Int"},
		{[]*types.Type{types.RecordOf(types.Field{Name: "x", Type: v})}, []string{"{x: Int, y: Int}"}, v, "Int"},
	}
	for _, c := range cases {
		var b types.Bindings
		ok := true
		for i, p := range c.params {
			ok = ok && b.Match(p, parse(t, c.args[i]))
		}
		if got := b.Apply(c.result).String(); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%v with %v: %v %s, want %q", c.params, c.args, ok, got, c.want)
		}
	}
}

func TestMerge(t *testing.T) {
	for _, c := range [][3]string{
		{"{a: Int, b: Int}", "{b: String}", "{a: Int, b: String}"},
		{"List<{a: Int}>", "{b: Int}", "List<{a: Int, b: Int}>"},
		{"{a: Int}", "Seq<{b: Int}>", "Seq<{a: Int, b: Int}>"},
		{"List<{a: Int}>", "Seq<{b: Int}>", "Seq<{a: Int, b: Int}>"},
	} {
		if got := types.Merge(parse(t, c[0]), parse(t, c[1])).String(); got != c[2] {
			t.Errorf("%s + %s = %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestTooLarge(t *testing.T) {
	typ := types.Int
	for range 20 {
		typ = types.RecordOf(types.Field{Name: "a", Type: typ}, types.Field{Name: "b", Type: typ})
	}
	if !typ.TooLarge() || typ.String() != "a type with more than 10000 parts" {
		t.Error(typ.String())
	}
}
