package value_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/bide-dev/bide/internal/value"
)

func parse(t *testing.T, s string) any {
	t.Helper()
	v, err := value.Parse([]byte(s))
	if err != nil {
		t.Fatalf("Parse(%s): %v", s, err)
	}
	return v
}

func TestNumbersKeepTheirText(t *testing.T) {
	for _, s := range []string{"10", "10.0", "1.5", "0.1", "1e400", "12345678901234567890", "-0", "1e3", "100000000000000000000000", "1E5", "-7"} {
		if got := value.Text(parse(t, s)); got != s {
			t.Errorf("%s reads as %s", s, got)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`"a b"`: "a b", `null`: "", `true`: "true", `["a", 1, true]`: "a, 1, true", `[]`: "",
		`{"b": 1, "a": [1, 2]}`: `{"a":[1,2],"b":1}`, `[[1], 2]`: `[[1],2]`, `{"x": "<&>"}`: `{"x":"<&>"}`,
	} {
		if got := value.Text(parse(t, in)); got != want {
			t.Errorf("Text(%s) = %q, want %q", in, got, want)
		}
	}
}

func TestParseRefusesMore(t *testing.T) {
	for _, s := range []string{"", " ", "1 2", "{} x", "{", "nul"} {
		if v, err := value.Parse([]byte(s)); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, v)
		}
	}
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b any
		want bool
	}{
		{int64(5), 5.0, true}, {int64(5), json.Number("5.00"), true}, {"5", int64(5), true}, {"5", "5.0", false},
		{"true", true, true}, {"True", true, true}, {"yes", true, false}, {nil, nil, true}, {nil, "", false}, {"", nil, false},
		{int64(1), true, false}, {0.1, json.Number("0.10"), true}, {"a", "a", true},
		{[]any{int64(1), "2"}, []any{1.0, int64(2)}, true}, {map[string]any{"a": int64(1)}, map[string]any{"a": "1"}, true},
		{map[string]any{"a": int64(1)}, map[string]any{"b": int64(1)}, false}, {"abc", int64(0), false},
		{json.Number("1e999999999"), int64(1), false},
	} {
		if got := value.Equal(c.a, c.b); got != c.want {
			t.Errorf("Equal(%#v, %#v) = %v, want %v", c.a, c.b, got, c.want)
		}
		if got := value.Equal(c.b, c.a); got != c.want {
			t.Errorf("Equal(%#v, %#v) = %v, want %v: it must be symmetric", c.b, c.a, got, c.want)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b any
		want int
		ok   bool
	}{
		{int64(2), 10.0, -1, true}, {"2", int64(10), -1, true}, {"2", "10", 1, true}, {"a", "b", -1, true},
		{false, true, -1, true}, {nil, int64(1), 0, false}, {[]any{}, []any{}, 0, false}, {"x", int64(1), 0, false},
		{json.Number("1e400"), math.MaxFloat64, 1, true},
	} {
		got, ok := value.Compare(c.a, c.b)
		if got != c.want || ok != c.ok {
			t.Errorf("Compare(%#v, %#v) = %d, %v; want %d, %v", c.a, c.b, got, ok, c.want, c.ok)
		}
	}
}

func TestTruthy(t *testing.T) {
	for _, v := range []any{nil, false, "", "0", "false", "FALSE", int64(0), 0.0, json.Number("0.0"), []any{}, map[string]any{}} {
		if value.Truthy(v) {
			t.Errorf("%#v is true", v)
		}
	}
	for _, v := range []any{true, "no", "x", int64(-1), 0.1, []any{nil}, map[string]any{"a": nil}} {
		if !value.Truthy(v) {
			t.Errorf("%#v is false", v)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.50,1e400,"x",null]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := value.Parse(b)
		if err != nil {
			return
		}
		again, err := value.Parse([]byte(value.JSON(v)))
		if err != nil || !value.Equal(v, again) {
			t.Errorf("%q is written as %s and read as %v, %v", b, value.JSON(v), again, err)
		}
		value.Text(v)
		value.Truthy(v)
	})
}
