package expr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/value"
	"pgregory.net/rapid"
)

const itemJSON = `{
	"name": "main.rs", "path": "src/main.rs", "severity": "high", "score": 5, "ratio": 10.0, "text5": "5",
	"enabled": true, "off": "false", "none": null, "empty": "", "tags": ["a", "b", 7], "nums": [1, 2],
	"other_score": 5, "nested": {"deep": [{"v": 1}, {"v": 2}], "length": "mine"}, "über": "ja",
	"captured": "{\"ok\": true, \"list\": [3]}", "a b": 1, "not": 1, "test-step": {"exit_code": 3},
	"File": {"score": 4}, "Function": {"unified_score": {"final_score": 11}}
}`

func item(t testing.TB) expr.Resolver {
	t.Helper()
	v, err := value.Parse([]byte(itemJSON))
	if err != nil {
		t.Fatal(err)
	}
	return expr.Item(v)
}

func TestEval(t *testing.T) {
	for _, c := range []struct {
		src  string
		want any
	}{
		// literals and paths
		{"5", int64(5)}, {"'a b'", "a b"}, {`"a\nb"`, "a\nb"}, {`'it\'s'`, "it's"}, {"-1.5", -1.5}, {"null", nil}, {"true", true},
		{"name", "main.rs"}, {"item.name", "main.rs"}, {"${name}", "main.rs"}, {"${item.name}", "main.rs"}, {"$name", "main.rs"},
		{"nested.deep[0].v", int64(1)}, {"nested.deep[-1].v", int64(2)}, {"nested.deep.[1].v", int64(2)}, {"nested.deep.1.v", int64(2)},
		{"nested.deep[*].v", []any{int64(1), int64(2)}}, {`["a b"]`, []any{"a b"}}, {`item["a b"]`, int64(1)}, {"über", "ja"},
		{"missing", nil}, {"missing.deeper", nil}, {"tags[9]", nil}, {"captured.ok", true}, {"captured.list[0]", int64(3)},
		{"test-step.exit_code", int64(3)}, {"${test-step.exit_code != 0}", true}, {"${enabled && score > 4}", true},
		// equality
		{"score == 5", true}, {"score = 5", true}, {"score == 5.0", true}, {"score != 5", false}, {"text5 == 5", true}, {"score == '5'", true},
		{"ratio == 10", true}, {"'true' == true", true}, {"enabled == 'true'", true}, {"missing == null", true}, {"none == null", true},
		{"missing == other_missing", true}, {"score == other_score", true}, {"score == name", false}, {"severity == 'high'", true},
		{"severity == high", true}, {"severity != high", false}, {"score == high", false}, {"tags == ['a', 'b', 7]", true}, {"score == -5", false},
		// order
		{"score >= 5", true}, {"score > 5", false}, {"score < 10", true}, {"score <= 4", false}, {"text5 < 10", true}, {"'10' < '9'", true},
		{"missing < 5", false}, {"missing >= 5", false}, {"tags < 5", false}, {"name < 5", false}, {"name >= 5", false},
		// words
		{"'a' in tags", true}, {"7 in tags", true}, {"'z' in tags", false}, {"'z' not in tags", true}, {"score in [1, 5]", true}, {"text5 in [5]", true},
		{"severity in ['high', 'critical']", true}, {"severity in [high, critical]", true}, {"severity NOT IN [low]", true}, {"'main' in name", true},
		{"tags contains 'b'", true}, {"tags contains b", true}, {"name contains main", true}, {"name contains 'xx'", false}, {"nested contains 'deep'", true},
		{"missing contains 'a'", false}, {"name starts_with 'main'", true}, {"name ends_with '.rs'", true}, {"score starts_with 5", true},
		{`path matches '\.rs$' && enabled == true`, true}, {`path =~ "^src/"`, true}, {`path !~ '^src/'`, false}, {`missing =~ '.*'`, false},
		{"'${name}' =~ name", true}, {"missing is null", true}, {"name is not null", true},
		// functions
		{"contains(name, 'main')", true}, {"contains(name, main)", true}, {"contains(tags, 7)", true}, {"starts_with(name, main)", true},
		{"ends_with(name, .rs)", true}, {`matches(path, '\.rs$')`, true}, {`matches(path, \.rs$)`, true}, {`matches(path, ^(src|lib)/)`, true},
		{"length(tags)", int64(3)}, {"length(tags) > 2", true}, {"length(tags, 3)", true}, {"len(über)", int64(2)}, {"length(missing)", int64(0)},
		{"tags.length", int64(3)}, {"nested.length", "mine"}, {"lower('ÄB')", "äb"}, {"upper(severity)", "HIGH"}, {"trim('  x ')", "x"},
		{"exists(name)", true}, {"exists(missing)", false}, {"exists(none)", true}, {"name.exists", true}, {"${missing.exists}", false}, {"exists(nested.deep)", true},
		{"is_null(none)", true}, {"is_null(missing)", true}, {"is_not_null(name)", true}, {"is_number(score)", true}, {"is_number(text5)", false},
		{"is_string(name)", true}, {"is_bool(enabled)", true}, {"is_array(tags)", true}, {"is_object(nested)", true}, {"default(missing, 3)", int64(3)},
		{"default(missing, word)", "word"},
		// logic and precedence
		{"severity == 'high' || severity == 'critical'", true}, {"File.score >= 10 OR Function.unified_score.final_score >= 10", true},
		{"item.enabled", true}, {"!item.enabled", false}, {"not enabled", false}, {"!off && enabled", true}, {"!enabled && missing", false},
		{"not score == 6", true}, {"!score == 6", false}, {"true || false && false", true}, {"(true || false) && false", false},
		{"not (enabled and missing)", true}, {"true AND NOT false", true}, {"not not enabled", true}, {"item.not == 1", true}, {"not == 1", true},
		{"enabled && name", true}, {"score || false", true},
		// texts with values, defaults
		{"'${name}' == 'main.rs'", true}, {"'x ${score} y'", "x 5 y"}, {"'${missing}' == ''", true}, {`'a${' == 'a${'`, true}, {`'a{2}$' `, "a{2}$"},
		{"${missing:-high} == 'high'", true}, {"${missing|default:false}", false}, {"${score:-9}", int64(5)}, {"${empty:-'q r'}", "q r"},
	} {
		e, err := expr.Parse(c.src)
		if err != nil {
			t.Errorf("Parse(%s): %v", c.src, err)
			continue
		}
		got, err := e.Eval(item(t))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s = %#v, %v; want %#v", c.src, got, err, c.want)
		}
		b, err := e.EvalBool(item(t))
		if err != nil || b != value.Truthy(c.want) {
			t.Errorf("EvalBool(%s) = %v, %v; want %v", c.src, b, err, value.Truthy(c.want))
		}
		if e.String() != c.src {
			t.Errorf("String() = %q, want %q", e.String(), c.src)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		src    string
		offset int
		want   string // in the message or the suggestion
	}{
		{"", 0, "a value is expected"},
		{"score ==", 8, "not the end"},
		{"score == 5 5", 11, "operator or the end"},
		{"score & 5", 6, "did you mean &&"},
		{"score | 5", 6, "did you mean ||"},
		{"name contians 'x'", 5, `did you mean "contains"`},
		{"(score == 5", 0, "not closed"},
		{"score == 5)", 10, "closes nothing"},
		{"'abc", 0, "quote is not closed"},
		{"${score", 0, "not closed"},
		{"score in [1, 2", 9, "not closed"},
		{"score == 1 == 2", 11, "do not chain"},
		{"lenght(tags)", 0, `did you mean "length"`},
		{"contains(name)", 0, "2 arguments"},
		{"length()", 0, "1 or 2 arguments"},
		{"exists(5)", 0, "takes a name"},
		{"name =~ '('", 5, "no regular expression"},
		{"matches(name, '[')", 0, "no regular expression"},
		{"a && && b", 5, "a value is expected"},
		{"a and or b", 6, "a value is missing"},
		{"tags[x]", 5, "an index is a number"},
		{"tags[0", 4, "not closed"},
		{"name.", 5, "after the dot"},
		{"5x", 0, "a value is expected"},
		{strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200), 100, "nested more than"},
		{strings.Repeat("!", 500) + "a", 101, "nested more than"},
		{strings.Repeat("a", 70000), 65536, "longer than"},
		{"a" + strings.Repeat(".b", 300), 511, "more than 256"},
	} {
		_, err := expr.Parse(c.src)
		var se *expr.SyntaxError
		if !errors.As(err, &se) {
			t.Errorf("Parse(%.40q) = %v, want a SyntaxError", c.src, err)
			continue
		}
		if se.Offset != c.offset || !strings.Contains(se.Error(), c.want) {
			t.Errorf("Parse(%.40q): offset %d, %v; want offset %d with %q", c.src, se.Offset, err, c.offset, c.want)
		}
	}
}

func TestBadPatternFromDataIsAnError(t *testing.T) {
	e, err := expr.Parse("name =~ pattern")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		pattern string
		want    bool
		bad     bool
	}{{"^a", true, false}, {"(", false, true}, {"^b", false, false}, {"^a", true, false}} {
		got, err := e.EvalBool(expr.Item(map[string]any{"name": "abc", "pattern": c.pattern}))
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%d: %q: %v, %v", i, c.pattern, got, err)
		}
	}
}

func TestRefs(t *testing.T) {
	e, err := expr.Parse("item.a == 5 && '${b.c}' != d[0] || env:HOME && status == done && x in [y, z.z] && contains(p, q) && exists(r)")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range e.Refs() {
		got = append(got, p.String())
	}
	want := []string{"item.a", "b.c", "d[0]", "env.HOME", "status", "x", "z.z", "p", "r"}
	if !slices.Equal(got, want) {
		t.Errorf("Refs() = %q, want %q", got, want)
	}
}

func TestItemThatIsNoObject(t *testing.T) {
	for _, src := range []string{"item == 'line'", "item.item == 'line'", "'${item}' starts_with 'li'"} {
		e, err := expr.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := e.EvalBool(expr.Item("line")); !ok || err != nil {
			t.Errorf("%s: %v, %v", src, ok, err)
		}
	}
	e, err := expr.Parse("item.item == 1")
	if err != nil {
		t.Fatal(err)
	}
	if ok, _ := e.EvalBool(expr.Item(map[string]any{"item": int64(1)})); !ok {
		t.Error("an item's own field named item is not found")
	}
	if ok, err := e.EvalBool(nil); ok || err != nil {
		t.Errorf("without a resolver: %v, %v", ok, err)
	}
}

func TestPathString(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"a", "a"}, {"a.b-c.d_e", "a.b-c.d_e"}, {"a.[0].b", "a[0].b"}, {"a[ -1 ]", "a[-1]"}, {"a.*.b", "a[*].b"}, {"a[*]", "a[*]"},
		{`a['x.y']`, `a["x.y"]`}, {`a["q\"q"]`, `a["q\"q"]`}, {`["a b"].c`, `["a b"].c`}, {`[0]`, `[0]`}, {"a.0", "a.0"},
	} {
		p, err := expr.ParsePath(c.src)
		if err != nil || p.String() != c.want {
			t.Errorf("ParsePath(%s) = %v, %v; want %s", c.src, p, err, c.want)
			continue
		}
		again, err := expr.ParsePath(p.String())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%s does not read back: %v, %v", p, again, err)
		}
	}
	for _, bad := range []string{"", "a b", ".a", "a..b", "a[", "a[x]", "5", "a]", "a-", `a["x]`, "${a}", "a%"} {
		if p, err := expr.ParsePath(bad); err == nil {
			t.Errorf("ParsePath(%q) = %v, want an error", bad, p)
		}
	}
}

func TestWalk(t *testing.T) {
	v, err := value.Parse([]byte(`{"a": [{"b": [1, 2]}, {"b": [3]}, {"c": 4}], "m": {"y": 2, "x": 1}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{"a[*].b", "[[1,2],[3]]"}, {"a[*].b[*]", "[1,2,3]"}, {"a[*].zz", "[]"}, {"m[*]", "[1,2]"}, {"m.*", "[1,2]"}, {"a[-1].c", "4"}, {"m.x[*]", "none"}, {"a.b", "none"}, {"a[3]", "none"}, {"a[-4]", "none"}, {"m[0]", "none"},
	} {
		p, err := expr.ParsePath(c.path)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := expr.Walk(v, p)
		s := "none"
		if ok {
			s = value.JSON(got)
		}
		if s != c.want {
			t.Errorf("%s: %s, want %s", c.path, s, c.want)
		}
	}
}

func TestSort(t *testing.T) {
	for _, c := range []struct{ by, items, want string }{
		{"n", `[3, 1, null, 2]`, `[1,2,3,null]`},
		{"item.n DESC", `[3, 1, null, 2]`, `[3,2,1,null]`},
		{"${n} desc nulls first", `[3, 1, null, 2]`, `[null,3,2,1]`},
		{"n NULLS FIRST", `[3, null, 1]`, `[null,1,3]`},
		{"n", `["b", 10, "a", 9.5, true, [1], {}, "10", false]`, `[false,true,9.5,10,"10","a","b",[1],{}]`},
		{"n", `[10.0, 9, 1e400, 100000000000000000000, 2]`, `[2,9,10.0,100000000000000000000,1e400]`},
		{"n.length DESC", `["a", "ccc", "bb"]`, `["ccc","bb","a"]`},
	} {
		s, err := expr.ParseSort(c.by)
		if err != nil {
			t.Errorf("ParseSort(%s): %v", c.by, err)
			continue
		}
		v, err := value.Parse([]byte(c.items))
		if err != nil {
			t.Fatal(err)
		}
		items := v.([]any)
		slices.SortStableFunc(items, func(a, b any) int {
			return s.Compare(s.Keys(expr.Item(map[string]any{"n": a})), s.Keys(expr.Item(map[string]any{"n": b})))
		})
		if got := value.JSON(items); got != c.want {
			t.Errorf("sort by %s: %s, want %s", c.by, got, c.want)
		}
	}
	s, err := expr.ParseSort("File.score DESC NULLS LAST, Function.score ASC, name")
	if err != nil || len(s.Refs()) != 3 || s.Refs()[0].String() != "File.score" || s.String() == "" {
		t.Fatalf("%v, %v", s, err)
	}
	if s.Compare([]any{nil, int64(1), "x"}, []any{nil, int64(1), "y"}) != -1 {
		t.Error("the third key does not decide")
	}
	for src, want := range map[string]string{"": "a name", "a DSEC": `did you mean "DESC"`, "a,": "a name", "a NULLS": "FIRST or LAST", "a b": "a comma", "${a": "} is expected"} {
		if _, err := expr.ParseSort(src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseSort(%q) = %v, want %q", src, err, want)
		}
	}
}

func anyValue() *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Int64Range(-3, 3), func(i int64) any { return i }),
		rapid.Map(rapid.Float64Range(-3, 3), func(f float64) any { return f }),
		rapid.SampledFrom([]any{json.Number("1e500"), json.Number("-1e500"), json.Number("2.0"), json.Number("99999999999999999999"), "2", "", "b"}))
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(scalar, 0, 2), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), scalar, 0, 2), func(m map[string]any) any { return m }))
}

func TestOrderIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyValue().Draw(t, "a"), anyValue().Draw(t, "b"), anyValue().Draw(t, "c")
		if expr.Order(a, b) != -expr.Order(b, a) || expr.Order(a, a) != 0 {
			t.Fatalf("not antisymmetric: %v %v", a, b)
		}
		if expr.Order(a, b) <= 0 && expr.Order(b, c) <= 0 && expr.Order(a, c) > 0 {
			t.Fatalf("not transitive: %v %v %v", a, b, c)
		}
	})
}

func TestComparisonsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := expr.Item(map[string]any{"a": anyValue().Draw(t, "a"), "b": anyValue().Draw(t, "b")})
		get := func(src string) bool {
			e, err := expr.Parse(src)
			if err != nil {
				t.Fatal(err)
			}
			v, err := e.EvalBool(r)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if get("a == b") == get("a != b") || get("a == b") != get("b == a") || get("a < b") != get("b > a") || get("a < b") && get("a >= b") {
			t.Fatal("the comparisons contradict each other")
		}
		if get("not (a == b)") != get("a != b") || get("a in [b]") != get("a == b") {
			t.Fatal("not and in do not follow ==")
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"$", "!$", "a == ", "a == 5 && b in ['x', y]", "${a.b[0]:-d} != 'q${c}'", "matches(path, \\.rs$)", "!(a or not b) AND x.exists", `["k"][*].a =~ "^x"`, "a NULLS FIRST, b DESC", "length(a, 3) is not null", "-.5e3 <= +1"} {
		f.Add(s)
	}
	r := item(f)
	f.Fuzz(func(t *testing.T, src string) {
		if e, err := expr.Parse(src); err == nil {
			_, _ = e.Eval(r) // only a panic or a hang is wrong here
			e.Refs()
		} else {
			var se *expr.SyntaxError
			if !errors.As(err, &se) || se.Offset < 0 || se.Offset > len(src) {
				t.Fatalf("%q: %v", src, err)
			}
		}
		if s, err := expr.ParseSort(src); err == nil {
			s.Compare(s.Keys(r), s.Keys(r))
		}
		if p, err := expr.ParsePath(src); err == nil {
			again, err := expr.ParsePath(p.String())
			if err != nil || !reflect.DeepEqual(p, again) {
				t.Fatalf("%q: %q reads back as %v, %v", src, p.String(), again, err)
			}
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	e, err := expr.Parse("item.severity == 'high' && score >= 5")
	if err != nil {
		b.Fatal(err)
	}
	r := item(b)
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := e.EvalBool(r); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func ExampleParse() {
	e, err := expr.Parse(`item.score >= 5 && path matches '\.rs$'`)
	if err != nil {
		fmt.Println(err)
		return
	}
	ok, err := e.EvalBool(expr.Item(map[string]any{"score": int64(7), "path": "src/main.rs"}))
	fmt.Println(ok, err)
	_, err = expr.Parse("score > 5 adn true")
	fmt.Println(err)
	// Output:
	// true <nil>
	// at byte 10: an operator or the end is expected here, not "adn true"; did you mean "and"?
}

func TestNeeds(t *testing.T) {
	for src, want := range map[string]string{
		"item.a > 3 && b == 'x'":                                      "item.a b",
		"!a || not b || c == null || d is not null":                   "",
		"exists(a) && is_number(b) && default(c, 1) == 1 && d.exists": "",
		"${a:-1} == 1 && a.length > 2":                                "a.length",
		"!(a > 1)":                                                    "a",
		"b != null":                                                   "",
	} {
		e, err := expr.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range e.Needs() {
			got = append(got, p.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s needs %v, want %s", src, got, want)
		}
	}
}
