package types_test

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func TestDecode(t *testing.T) {
	cases := []struct{ typ, in, out, err string }{
		{typ: "Int", in: "3", out: "3"},
		{typ: "Int", in: "3.0", out: "3"},
		{typ: "Int", in: "1e3", out: "1000"},
		{typ: "Int", in: "3.5", err: "it must be Int, but is the number 3.5"},
		{typ: "Int", in: "99999999999999999999", err: "it must be Int"},
		{typ: "Int", in: `"3"`, err: `it must be Int, but is the string "3"`},
		{typ: "Float", in: "3", out: "3.0"},
		{typ: "Float", in: "1e999", err: "it must be Float"},
		{typ: "Boolean", in: "1", err: "it must be Boolean"},
		{typ: "Optional<Int>", in: "null", out: "null"},
		{typ: "Int", in: "null", err: "it must be Int, but is null"},
		{typ: "{a: Int}", in: `{"a":1,"b":2}`, out: `{"a":1}`},
		{typ: "{a: Int, b: Optional<Int>}", in: `{"a":1}`, out: `{"a":1,"b":null}`},
		{typ: "{a: Int, b: {c: List<Int>}}", in: `{"b":{"c":[1,"x",true]}}`, err: `the field "a" is missing; b.c[1]: it must be Int, but is the string "x"; b.c[2]: it must be Int, but is the boolean true`},
		{typ: "{a: Int, ...}", in: `{"a":1,"z":[2]}`, out: `{"a":1,"z":[2]}`},
		{typ: "Map<String, Float>", in: `{"a":1}`, out: `{"a":1.0}`},
		{typ: "Map<Int, Int>", in: `{"1":2}`, out: `{"1":2}`},
		{typ: "Map<Int, Int>", in: `{"x":2}`, err: `the key "x" is not Int`},
		{typ: "Int | String", in: `"a"`, out: `"a"`},
		{typ: "Int | String", in: `5`, out: `5`},
		{typ: "Int | String", in: `{"tag":"String","value":"x"}`, out: `"x"`},
		{typ: "Int | String", in: `{"tag":"Int","value":"x"}`, err: "value: it must be Int"},
		{typ: "Int | String", in: `true`, err: "it must be Int | String, but is the boolean true"},
		{typ: "Int | Float", in: `5`, out: `5`},
		{typ: "Int | Float", in: `5.0`, out: `5.0`},
		{typ: "Float | Int", in: `5`, out: `5`},
		{typ: "{a: Int} | {a: Int, b: Int}", in: `{"a":1,"b":2}`, out: `{"a":1,"b":2}`},
		{typ: "{a: Int} | {a: Int, b: Int}", in: `{"a":1,"c":2}`, out: `{"a":1}`},
		{typ: "{tag: String, value: Int} | Int", in: `{"tag":"x","value":1}`, out: `{"tag":"x","value":1}`},
		{typ: "List<Int> | List<String>", in: `["a"]`, out: `["a"]`},
		{typ: "List<Int> | String", in: `{"tag":"List","value":[1]}`, out: `[1]`},
	}
	for _, c := range cases {
		in, err := value.Parse([]byte(c.in))
		if err != nil {
			t.Fatal(err)
		}
		typ := parse(t, c.typ)
		got, err := types.Decode(in, typ)
		switch {
		case c.err != "":
			if err == nil || !contains(err.Error(), c.err) {
				t.Errorf("%s of %s: error %v, want %q", c.in, c.typ, err, c.err)
			}
		case err != nil:
			t.Errorf("%s of %s: %v", c.in, c.typ, err)
		default:
			if text := value.JSON(types.Encode(got)); text != c.out {
				t.Errorf("%s of %s is %s, want %s", c.in, c.typ, text, c.out)
			}
			if !types.Conforms(got, typ) {
				t.Errorf("%v does not conform to %s", got, c.typ)
			}
		}
	}
}

func TestManyProblemsAreBounded(t *testing.T) {
	list := make([]any, 1000)
	_, err := types.Decode(list, types.ListOf(types.Int))
	if err == nil || len(err.(*types.ValueError).Problems) != 11 {
		t.Errorf("%v", err)
	}
}

func TestTaggedByDeclaredName(t *testing.T) {
	small := types.RecordOf(types.Field{Name: "a", Type: types.Int}).Named("Small")
	big := types.RecordOf(types.Field{Name: "a", Type: types.Int}, types.Field{Name: "b", Type: types.Int}).Named("Big")
	u := types.UnionOf(small, big)
	v, err := types.Decode(map[string]any{"tag": "Small", "value": map[string]any{"a": int64(1), "b": int64(2)}}, u)
	if err != nil || types.Member(v, u) != 0 {
		t.Errorf("%v %v", v, err)
	}
	v, err = types.Decode(map[string]any{"a": int64(1), "b": int64(2)}, u)
	if err != nil || types.Member(v, u) != 1 {
		t.Errorf("%v %v", v, err)
	}
}

func TestZero(t *testing.T) {
	for typ, want := range map[string]string{
		"String": `""`, "Int": "0", "Float": "0.0", "Boolean": "false", "List<Int>": "[]", "Seq<Int>": "[]", "Map<String, Int>": "{}",
		"Optional<Int>": "null", "{a: Int, b: {c: String}}": `{"a":0,"b":{"c":""}}`, "String | Int": `""`, "Int | String": "0",
	} {
		tt := parse(t, typ)
		if got := value.JSON(types.Encode(types.Zero(tt))); got != want {
			t.Errorf("the zero of %s is %s, want %s", typ, got, want)
		}
	}
}

func TestFromText(t *testing.T) {
	for _, c := range []struct{ typ, text, out string }{
		{"String", "3", `"3"`}, {"Optional<String>", "null", `"null"`}, {"Int", "3", "3"}, {"List<Int>", "[1, 2]", "[1,2]"}, {"Int | String", "abc", `"abc"`}, {"Boolean", "true", "true"},
	} {
		v, err := types.FromText(c.text, parse(t, c.typ))
		if err != nil || value.JSON(v) != c.out {
			t.Errorf("%q as %s: %v %v", c.text, c.typ, v, err)
		}
	}
	if _, err := types.FromText("abc", types.Int); err == nil || !contains(err.Error(), `it is the string "abc"`) {
		t.Error(err)
	}
	for _, typ := range []string{"String", "Optional<String>", "Int | String"} {
		if v, err := types.FromText("x\xff", parse(t, typ)); err == nil || !contains(err.Error(), "it is no UTF-8 text") {
			t.Errorf("%s: %q, %v", typ, v, err)
		}
	}
	if _, err := types.FromText("abc", types.ListOf(types.Int)); err == nil || !contains(err.Error(), "it is no JSON; write it as in '[1]'") {
		t.Error(err)
	}
}

// anyType draws a type without functions and variables.
func anyType(depth int) *rapid.Generator[*types.Type] {
	simple := rapid.SampledFrom([]*types.Type{types.String, types.Int, types.Float, types.Boolean})
	if depth == 0 {
		return simple
	}
	return rapid.Custom(func(t *rapid.T) *types.Type {
		inner := anyType(depth - 1)
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 0:
			return types.ListOf(inner.Draw(t, "elem"))
		case 1:
			return types.SeqOf(inner.Draw(t, "elem"))
		case 2:
			return types.OptionalOf(inner.Draw(t, "elem"))
		case 3:
			return types.MapOf(types.String, inner.Draw(t, "elem"))
		case 4:
			return types.UnionOf(inner.Draw(t, "a"), inner.Draw(t, "b"))
		case 5, 6:
			var fields []types.Field
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "names") {
				fields = append(fields, types.Field{Name: name, Type: inner.Draw(t, "field")})
			}
			return types.RecordOf(fields...)
		}
		return simple.Draw(t, "simple")
	})
}

// valueOf draws a value of a type.
func valueOf(t *rapid.T, typ *types.Type) any {
	switch typ.Kind {
	case types.StringKind:
		return rapid.SampledFrom([]string{"", "x", "1", "null"}).Draw(t, "string")
	case types.IntKind:
		return rapid.Int64().Draw(t, "int")
	case types.FloatKind:
		return rapid.SampledFrom([]float64{0, 1, -2.5, 1e20, 0.1}).Draw(t, "float")
	case types.BooleanKind:
		return rapid.Bool().Draw(t, "bool")
	case types.ListKind, types.SeqKind:
		out := make([]any, rapid.IntRange(0, 2).Draw(t, "n"))
		for i := range out {
			out[i] = valueOf(t, typ.Elem)
		}
		return out
	case types.MapKind:
		out := map[string]any{}
		for range rapid.IntRange(0, 2).Draw(t, "n") {
			out[rapid.SampledFrom([]string{"k", "a"}).Draw(t, "key")] = valueOf(t, typ.Elem)
		}
		return out
	case types.OptionalKind:
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return valueOf(t, typ.Elem)
	case types.UnionKind:
		return valueOf(t, rapid.SampledFrom(typ.Members).Draw(t, "member"))
	}
	out := map[string]any{}
	for _, f := range typ.Fields {
		out[f.Name] = valueOf(t, f.Type)
	}
	return out
}

func TestRelationsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyType(2).Draw(t, "a"), anyType(2).Draw(t, "b"), anyType(2).Draw(t, "c")
		if !types.Subtype(a, a) || !types.Equal(a, a) {
			t.Fatalf("%s is no subtype of itself", a)
		}
		if lub := types.LUB(a, b); !types.Subtype(a, lub) || !types.Subtype(b, lub) {
			t.Fatalf("LUB(%s, %s) = %s is no upper bound", a, b, lub)
		}
		if types.Subtype(a, b) && types.Subtype(b, c) && !types.Subtype(a, c) {
			t.Fatalf("%s <: %s <: %s, but not the first of the last", a, b, c)
		}
		if v := valueOf(t, a); types.Subtype(a, b) && !types.Conforms(v, b) {
			t.Fatalf("%s <: %s, but %v conforms to the first only", a, b, v)
		}
	})
}

func TestValuesSurviveJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := anyType(3).Draw(t, "type")
		v := valueOf(t, typ)
		if !types.Conforms(v, typ) || types.Member(v, typ) < 0 && (v != nil || typ.Kind != types.OptionalKind) {
			t.Fatalf("%v is no %s", v, typ)
		}
		parsed, err := value.Parse([]byte(value.JSON(types.Encode(v))))
		if err != nil {
			t.Fatal(err)
		}
		back, err := types.Decode(parsed, typ)
		if err != nil {
			t.Fatalf("%v of %s: %v", v, typ, err)
		}
		if !types.Conforms(back, typ) {
			t.Fatalf("%v of %s came back as %v, which is none", v, typ, back)
		}
		// An object may be a record or a map, and only a person knows which.
		if !contains(typ.String(), "Map<") {
			again, err := value.Parse([]byte(value.JSON(types.Encode(back))))
			if err != nil || !reflect.DeepEqual(parsed, again) {
				t.Fatalf("%v of %s came back as %v", v, typ, back)
			}
		}
		if !types.Conforms(types.Zero(typ), typ) {
			t.Fatalf("the zero of %s is none", typ)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"Int", "List<{a: Int}>", "{a: Int, ...}", "A | B", "Map<", "{", "Optional<Optional<Int>>", "Int\nout x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		typ, err := types.Parse(text)
		if err != nil {
			return
		}
		again, err := types.Parse(typ.String())
		if err != nil || !types.Equal(typ, again) {
			t.Errorf("%q prints as %s, which is %v %v", text, typ, again, err)
		}
	})
}
