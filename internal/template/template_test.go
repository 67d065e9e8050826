package template_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"pgregory.net/rapid"
)

func scope(t testing.TB) vars {
	t.Helper()
	item, err := value.Parse([]byte(`{"id": 7, "name": "n<1>", "f": 10.0, "big": 12345678901234567890, "ok": true, "none": null, "empty": "", "tags": ["a", "b"],
		"nums": [3, 1, 2, 2], "obj": {"b": 1, "a": [1]}, "list": [{"v": 1}, {"v": "x"}], "a b": "key", "json": "{\"k\": [5]}", "mixed": [1, [2, [3]]], "odd": ["x", null]}`))
	if err != nil {
		t.Fatal(err)
	}
	return vars{
		data: map[string]any{"item": item, "shell.output": "out\nline2", "shell": map[string]any{"output": "walked", "code": int64(3)}, "flat.name[0]": "flat",
			"step.files_added": "src/a.rs b.txt src/c.rs", "date:%Y-%m": "2026-11", "file:a/b.txt": "text", "cmd:ls | wc -l": "3", "lines": "one a\ntwo b\n"},
		trusted: map[string]any{"NAME": "val", "ARG_1": "first", "zero": int64(0), "off": false, "blank": "", "null": nil},
		env:     map[string]any{"HOME": "/root", "NAME": "env loses"},
	}
}

func TestExpand(t *testing.T) {
	for src, want := range map[string]string{
		"": "", "plain $ text $": "plain $ text $", "a ${item.id} b": "a 7 b", "${item.name}": "n<1>", "${item.f}": "10.0", "${item.big}": "12345678901234567890", "${item.ok}": "true",
		"[${item.none}]": "[]", "${item.tags}": "a, b", "${item.obj}": `{"a":[1],"b":1}`, "${item.list}": `[{"v":1},{"v":"x"}]`, "${item.list[*].v}": "1, x", "${item.list[-1].v}": "x",
		`${item["a b"]}`: "key", `${item['a b']}`: "key", "${item.tags[0]}": "a", "${item.tags.[1]}": "b", "${item.json.k[0]}": "5", "${ item.id }": "7",
		// flat names first, then the longest prefix
		"${shell.output}": "out\nline2", "${shell.code}": "3", "${flat.name[0]}": "flat",
		// $NAME
		"$NAME-$ARG_1 $NAMES $1 $HOME": "val-first $NAMES $1 $HOME", "${NAME}S": "valS",
		// unknown text stays
		"${item.nope} ${foo.bar} ${arr[0]} ${V%.*} ${#x} ${V:0:3} $(x) `y` ${": "${item.nope} ${foo.bar} ${arr[0]} ${V%.*} ${#x} ${V:0:3} $(x) `y` ${",
		"${} ${ } ${1} ${a b} ${a.} ${.a} ${V/${item.id}/x} ${nope|json}":      "${} ${ } ${1} ${a b} ${a.} ${.a} ${V/7/x} ${nope|json}",
		// escapes
		"$$ $${item.id} $$NAME \\${item.id} \\$NAME \\$nope \\\\${item.id}": "$ ${item.id} $NAME ${item.id} $NAME \\$nope \\\\7", "$$$NAME": "$val",
		// defaults: missing, null or empty; the environment between
		"${nope:-d}": "d", "${item.none:-d}": "d", "${item.empty:-d}": "d", "${item.id:-d}": "7", "${zero:-d}": "0", "${off:-d}": "false", "${HOME:-d}": "/root", "${NAME:-d}": "val", "${blank:-d}": "d",
		"${nope:-}": "", "${nope:-a ${item.id} ${nope2:-${NAME}}}!": "a 7 val!", "${item.nope:-${item.tags|json}}": `["a","b"]`, "${a.b:-x:-y}": "x:-y",
		"${nope|default:x}": "x", "${nope|default:'q r'}": "q r", "${item.id|default:x}": "7", "${nope|default:${item.id}}": "7", "${nope|default:a|upper}": "A",
		"${env.HOME} ${env:HOME} ${env.NOPE} ${env:NOPE:-e}": "/root /root ${env.NOPE} e",
		// filters and the older spellings
		"${item.tags|json}": `["a","b"]`, "${item.name|json}": `"n<1>"`, "${item.none|json}": "null", "${item.tags|lines}": "a\nb", "${lines|lines}": "one a\ntwo b", "${lines|count}": "12", "${lines|lines|count}": "2",
		"${item.tags|comma}": "a,b", "${item.tags|join: - }": "a - b", `${item.tags|join:"\n"}`: "a\nb", "${item.tags|join:}": "ab", "${lines|lines|json}": `["one a","two b"]`, "${lines|first}": "one a", "${lines|last|upper}": "TWO B",
		"${item.nums|sum} ${item.nums|avg} ${item.nums|min} ${item.nums|max} ${item.nums|median} ${item.nums|count}": "8 2 1 3 2 4", "${item.nums|variance} ${item.nums|stddev}": "0.5 0.7071067811865476",
		"${item.nums|sort} ${item.nums|unique} ${item.nums|reverse}": "1, 2, 2, 3 3, 1, 2 2, 2, 1, 3", "${item.mixed|flatten}": "1, 2, 3", "${item.obj|keys} ${item.obj|values|json}": "a, b [[1],1]",
		"${item.list|length} ${item.obj|count} ${item.none|count} ${item.name|len}": "2 2 0 4", "${item.name|raw|upper|lower|trim}": "n<1>", "${item.name|sh}": "'n<1>'", "${item.odd}": "x, ",
		"${step.files_added:*.rs}": "src/a.rs src/c.rs", "${step.files_added:json}": `["src/a.rs","b.txt","src/c.rs"]`, "${step.files_added:newline}": "src/a.rs\nb.txt\nsrc/c.rs", "${step.files_added:comma}": "src/a.rs,b.txt,src/c.rs", "${item.tags:comma}": "a,b", "${item.tags:a*}": "a", "${nope:json}": "${nope:json}",
		// providers are looked up whole
		"${date:%Y-%m}": "2026-11", "${file:a/b.txt|upper}": "TEXT", "${cmd:ls | wc -l}": "3", "${cmd:ls | wc -l|json}": `"3"`, "${uuid}": "${uuid}",
	} {
		text, err := template.Parse(src)
		if err != nil {
			t.Errorf("Parse(%q): %v", src, err)
			continue
		}
		if got, err := text.Expand(scope(t)); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", src, got, err, want)
		}
		if text.String() != src {
			t.Errorf("String() = %q, want %q", text.String(), src)
		}
	}
}

func TestFilterErrors(t *testing.T) {
	for src, want := range map[string]string{
		"ab ${item.id|jsn}":   `did you mean "json"`,
		"ab ${item.name|sum}": "is no number",
		"ab ${item.tags|avg}": "is no number",
		"ab ${item.id|keys}":  "not an object",
	} {
		text, err := template.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		_, err = text.Expand(scope(t))
		var se *expr.SyntaxError
		if !errors.As(err, &se) || se.Offset != 3 || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q at 3", src, err, want)
		}
		if _, err := text.Shell(scope(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q in a shell: %v", src, err)
		}
	}
	deep := strings.Repeat("${a:-", 50) + strings.Repeat("}", 50)
	if _, err := template.Parse(deep); err == nil || !strings.Contains(err.Error(), "nested more than") {
		t.Errorf("50 nested defaults: %v", err)
	}
}

func TestOriginAndValue(t *testing.T) {
	for _, c := range []struct {
		src    string
		origin template.Origin
		value  any // nil: not exactly one known reference
	}{
		{"text", template.Trusted, nil}, {"${NAME}", template.Trusted, "val"}, {"$NAME", template.Trusted, "val"}, {"${NAME} ${item.id}", template.Data, nil}, {"${item.id}", template.Data, int64(7)},
		{"${item.id|raw}", template.Trusted, int64(7)}, {"${item.tags|count}", template.Data, int64(2)}, {"${nope:-d}", template.Trusted, "d"}, {"${nope:-${item.id}}", template.Data, int64(7)},
		{"${nope}", template.Trusted, nil}, {" ${item.id}", template.Data, nil}, {"${item.list[0]}", template.Data, map[string]any{"v": int64(1)}}, {"${HOME:-x}", template.Data, "/root"},
	} {
		text, err := template.Parse(c.src)
		if err != nil {
			t.Fatal(err)
		}
		_, origin, err := text.ExpandOrigin(scope(t))
		if err != nil || origin != c.origin {
			t.Errorf("%q: origin %v, %v", c.src, origin, err)
		}
		v, ok := text.Value(scope(t))
		if ok != (c.value != nil) || !reflect.DeepEqual(v.V, c.value) || ok && v.Origin != c.origin {
			t.Errorf("%q: Value %#v, %v", c.src, v, ok)
		}
	}
}

type rawScope struct{ vars }

func (rawScope) Lookup(string) (template.Value, bool) {
	return template.Value{V: map[string]any{"a": int64(1), "b": []any{}}, Raw: `{"b":[], "a":1}`, Origin: template.Data}, true
}

func TestRawJSONIsKept(t *testing.T) {
	for src, want := range map[string]string{"${item}": `{"b":[], "a":1}`, "${item|json}": `{"b":[], "a":1}`, "${item|keys}": "a, b"} {
		text, err := template.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := text.Expand(rawScope{}); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", src, got, err, want)
		}
	}
}

func TestRefs(t *testing.T) {
	text, err := template.Parse("a ${item.x|json} $NAME ${p:-q ${r.s}} $${no} \\${no} ${V%.*} ${date:%Y} ${z|default:1} ${w|nope}")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range text.Refs() {
		got = append(got, fmt.Sprintf("%d %s [%s] %v %v %s", r.Offset, r.Name, r.Path, r.Default, r.Bare, r.Problem))
	}
	want := []string{"2 item.x [item.x] false false ", "17 NAME [NAME] false true ", "23 p [p] true false ", "30 r.s [r.s] false false ", "60 date:%Y [] false false ",
		"71 z [z] true false ", `86 w [w] false false there is no filter "nope"`}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Refs:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for src, want := range map[string]bool{"": true, "a $1 ${V%x}": true, "$x": false, "$$": false, "${x}": false} {
		if text, err := template.Parse(src); err != nil || text.IsLiteral() != want {
			t.Errorf("IsLiteral(%q) = %v, %v", src, !want, err)
		}
	}
}

func TestResolver(t *testing.T) {
	r := template.Resolver(scope(t))
	for src, want := range map[string]bool{"shell.output contains 'line2'": true, "${item.id} == 7": true, "env.HOME == '/root'": true, "item.tags[1] == b": true, "nope.exists": false, "item.id.exists": true} {
		e, err := expr.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.EvalBool(r); err != nil || got != want {
			t.Errorf("%s = %v, %v", src, got, err)
		}
	}
}

func TestTextIsSafeForConcurrentUse(t *testing.T) {
	text, err := template.Parse(`cmd "${x}" ${y} $z`)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				// Trusted text changes what is parsed; more shapes than are remembered.
				s := vars{data: map[string]any{"x": fmt.Sprint(g, i)}, trusted: map[string]any{"z": fmt.Sprint("t", i%100)}}
				if i%2 == 0 {
					s.data["y"] = int64(i)
				}
				c, err := text.Shell(s)
				if err != nil || i%2 == 0 && (len(c.Argv) != 4 || c.Argv[1] != fmt.Sprint(g, i) || c.Argv[3] != fmt.Sprint("t", i%100)) {
					t.Errorf("%+v, %v", c, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A text without any $ is itself, and values put in do not disturb the rest.
func TestExpandProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.StringMatching(`[a-z {}"'|:\n-]*`).Draw(t, "before")
		after := rapid.StringMatching(`[a-z {}"'|:\n-]*`).Draw(t, "after")
		x := rapid.String().Draw(t, "x")
		text, err := template.Parse(before + "${x}" + after)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := text.Expand(data(x)); err != nil || got != before+x+after {
			t.Fatalf("%q, %v", got, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a ${b.c[0]:-${d|json}} $E $$ \\${x}", "${a['}']|join:, }", "${cmd:a|b}", "${V%${x}} ${#x} ${", "$${x} $$$x", "${x:*.rs}${x:json}", "${x|default:${y}|sh}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		text, err := template.Parse(src)
		if err != nil {
			return
		}
		none := vars{}
		got, err := text.Expand(none)
		if err == nil && !strings.Contains(src, "$$") && !strings.Contains(src, `\$`) && !strings.Contains(src, ":-") && !strings.Contains(src, "default") && got != src {
			t.Fatalf("%q became %q with nothing known", src, got)
		}
		c, err := text.Shell(none)
		if err == nil && text.IsLiteral() && c.Argv == nil && c.Script != src {
			t.Fatalf("the script of %q is %q", src, c.Script)
		}
		if _, err := text.Shell(data("$(touch pwned)")); err != nil {
			var se *expr.SyntaxError
			if !errors.As(err, &se) || se.Offset < 0 || se.Offset > len(src) {
				t.Fatalf("%q: %v", src, err)
			}
		}
	})
}

// Whatever the value, printf prints it and nothing else happens.
func FuzzShell(f *testing.F) {
	for _, v := range hostile {
		f.Add(v, uint8(len(v)))
	}
	templates := []string{`printf '%s' "<${x}>"`, `printf '%s' '<${x}>'; true`, `sh -c 'printf "%s" "<${x}>"'`, `y=${x}; printf '<%s>' "$y"`}
	f.Fuzz(func(t *testing.T, x string, n uint8) {
		if strings.Contains(x, "\x00") {
			return
		}
		c, err := shellOf(t, templates[int(n)%len(templates)], data(x))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run(t, "sh", c); err != nil || out != "<"+x+">" {
			t.Fatalf("%q: %q, %v\n%+v", x, out, err, c)
		}
	})
}

func BenchmarkShell(b *testing.B) {
	for name, src := range map[string]string{"argv": "cmd ${item.id}", "script": `cmd "${item.id}" | sort`, "nested": `sh -c 'a ${item.name} b'`} {
		b.Run(name, func(b *testing.B) {
			text, err := template.Parse(src)
			if err != nil {
				b.Fatal(err)
			}
			s := scope(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := text.Shell(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkExpand(b *testing.B) {
	text, err := template.Parse("Look at ${item.name} (${item.id}).")
	if err != nil {
		b.Fatal(err)
	}
	s := scope(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := text.Expand(s); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleText_Shell() {
	text, err := template.Parse(`grep "${item.word}" notes.txt > '${item.word}.out'`)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := text.Shell(vars{data: map[string]any{"item": map[string]any{"word": `"; rm -rf ~; "`}}})
	fmt.Println(c.Script, err)
	fmt.Println(c.Env)
	// Output:
	// grep "${BIDE_V1}" notes.txt > ''"${BIDE_V1}"'.out' <nil>
	// [BIDE_V1="; rm -rf ~; "]
}

func ExampleText_Expand() {
	text, err := template.Parse("Fix ${item.path}: ${item.errors|join:; } (${item.owner:-nobody})")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text.Expand(vars{data: map[string]any{"item": map[string]any{"path": "a.go", "errors": []any{"x", "y"}}}}))
	// Output: Fix a.go: x; y (nobody) <nil>
}

func TestMain(m *testing.M) {
	os.Unsetenv("BIDE_V1")
	os.Exit(m.Run())
}
