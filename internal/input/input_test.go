package input

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/value"
	"pgregory.net/rapid"
)

// write puts a text into a file of a name.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read gives the items as lines "id: data", and the error.
func read(s Spec) (list []string, err error) {
	for it, err := range s.Items() {
		if err != nil {
			return list, err
		}
		list = append(list, it.ID+": "+string(it.Data))
	}
	return list, nil
}

// data gives the items without their ids.
func data(t testing.TB, s Spec) string {
	t.Helper()
	var out []string
	for it, err := range s.Items() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(it.Data))
	}
	return strings.Join(out, " ")
}

func parse(t testing.TB, text string) any {
	t.Helper()
	v, err := value.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func filter(t testing.TB, src string) *expr.Expr {
	t.Helper()
	e, err := expr.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func sortBy(t testing.TB, src string) *expr.Sort {
	t.Helper()
	s, err := expr.ParseSort(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKinds(t *testing.T) {
	const bom = "\uFEFF"
	for _, c := range []struct {
		name, text, path, want string
	}{
		{"a.json", `[1, "b", {"c": [2]}]`, "", `1 "b" {"c":[2]}`},
		{"a.json", `{"items": [1, 2]}`, "$.items", "1 2"},
		{"a.json", `{"items": [1, 2]}`, "", `{"items":[1,2]}`},
		{"a.json", `{"items": [1, 2]}`, "$.other", ""},
		{"a.json", `7`, "", "7"},
		{"a.json", `[]`, "", ""},
		{"a.json", bom + `[1, 2]`, "", "1 2"},
		{"a.json", "[1,\r\n2]\r\n", "", "1 2"},
		{"a.json", `[10, 10.0, 1e3, 12345678901234567890]`, "", "10 10.0 1e3 12345678901234567890"},
		{"a.jsonl", "1\n\n{\"a\": 2}\n\"x\"", "", `1 {"a":2} "x"`},
		{"a.ndjson", bom + "1\r\n2\r\n", "", "1 2"},
		{"a.jsonl", `{"v": [1, 2]}` + "\n" + `{"v": [3]}`, "$.v", "1 2 3"},
		{"a.jsonl", `{"v": 1}` + "\n" + `{"v": 2}`, "$[?@.v > 1]", `{"v":2}`},
		{"a.jsonl", `{"v": 1}` + "\n" + `{"v": 2}`, "$[*].v", "1 2"},
		{"a.csv", "name,n\nx,1\n\"y, z\",\"2\n3\"\n", "", `{"n":"1","name":"x"} {"n":"2\n3","name":"y, z"}`},
		{"a.csv", bom + "name,n\r\nx,1\r\n", "", `{"n":"1","name":"x"}`},
		{"a.csv", "name,,n\nx,y,1\n", "", `{"column_2":"y","n":"1","name":"x"}`},
		{"a.tsv", "name\tn\nx, y\t1\n", "", `{"n":"1","name":"x, y"}`},
		{"a.csv", "name\nx\ny\n", "$.name", `"x" "y"`},
		{"a.csv", "", "", ""},
		{"a.txt", "one\ntwo words\n\n3\n", "", `"one" "two words" 3`},
		{"a.txt", "one\r\ntwo\r\n", "", `"one" "two"`},
		{"a.txt", bom + "one\ntwo", "", `"one" "two"`},
		{"a.txt", `[1, 2]`, "", "1 2"},
		{"a.txt", "[1,\n 2]\n", "", "1 2"},
		{"a.txt", `{"a":1}` + "\n" + `{"a":2}`, "", `{"a":1} {"a":2}`},
		{"a.txt", "", "", ""},
	} {
		s := Spec{File: write(t, c.name, c.text), JSONPath: c.path}
		if got := data(t, s); got != c.want {
			t.Errorf("%s %q %s: %s\nwant %s", c.name, c.text, c.path, got, c.want)
		}
	}
}

func TestBrokenInputIsAnError(t *testing.T) {
	for _, c := range []struct{ name, text, path, want string }{
		{"a.json", `[1, 2`, "", "byte"},
		{"a.json", `[1, 2,`, "", "byte"},
		{"a.json", `[{"a": 1}, {"a": `, "", "byte"},
		{"a.json", `[1, 2] 3 4 }`, "", "byte"},
		{"a.json", `{"items": [1, 2], "more": `, "$.items", "byte"},
		{"a.json", `{"items": [1, 2], "more": `, "$..x", "line 1"},
		{"a.json", "", "", ""},
		{"a.json", `{"a": 1}`, "$[*]", "array"},
		{"a.jsonl", "1\n{\"a\": \n", "", "line 2"},
		{"a.jsonl", "1\nx\n", "", "line 2"},
		{"a.csv", "a,b\n1,2\n3\n", "", "line 3"},
		{"a.csv", "a,a\n1,2\n", "", "twice"},
		{"a.csv", "a\n\"x", "", "line 2"},
		{"none.json", "-", "", "no such file"},
	} {
		s := Spec{File: write(t, c.name, c.text), JSONPath: c.path}
		if c.text == "-" {
			s.File += ".not-there"
		}
		list, err := read(s)
		if err == nil {
			t.Errorf("%s %q %s: no error, items %q", c.name, c.text, c.path, list)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), filepath.Base(c.name)) {
			t.Errorf("%s %q %s: %v; want %q in it, and the file", c.name, c.text, c.path, err, c.want)
		}
	}
}

// TestAnyCutOffIsAnError: a JSON array that was cut off anywhere gives an
// error, not fewer items.
func TestAnyCutOffIsAnError(t *testing.T) {
	const text = `{"before": {"x": [1]}, "items": [{"a": "b\n"}, [1], "c", 12, true], "after": [2]}`
	for _, path := range []string{"$.items", "$.items[*]", "$.items[?@.a]", "$..a", "", "$.before.x"} {
		for cut := range len(text) {
			if _, err := read(Spec{File: write(t, "a.json", text[:cut]), JSONPath: path}); err == nil {
				t.Errorf("%s: no error for %q", path, text[:cut])
			}
		}
	}
}

func TestHugeLines(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	s := Spec{File: write(t, "a.txt", long+"\nshort\n")}
	list, err := read(s)
	if err != nil || len(list) != 2 || len(list[0]) != len(long)+5 {
		t.Errorf("%d items, %v", len(list), err)
	}
	_, err = read(Spec{File: write(t, "a.jsonl", `"`+strings.Repeat("x", MaxLine)+`"`+"\n1\n")})
	if err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a line that is too long: %v", err)
	}
}

func TestStages(t *testing.T) {
	list := parse(t, `[{"n":3,"g":"b"},{"n":1,"g":"a"},{"n":2,"g":"b"},{"n":5,"g":"c"},{"n":4,"g":"a"}]`).([]any)
	distinct, err := expr.ParsePath("g")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		s    Spec
		want string
	}{
		{"filter", Spec{Filter: filter(t, "n > 2")}, "3 5 4"},
		{"filter with item.", Spec{Filter: filter(t, "item.n > 2 && item.g != 'c'")}, "3 4"},
		{"sort", Spec{SortBy: sortBy(t, "n")}, "1 2 3 4 5"},
		{"sort descending, then by n", Spec{SortBy: sortBy(t, "g DESC, n ASC")}, "5 2 3 1 4"},
		{"distinct keeps the first", Spec{Distinct: distinct}, "3 1 5"},
		{"distinct after sort", Spec{Distinct: distinct, SortBy: sortBy(t, "n")}, "1 2 5"},
		{"offset", Spec{Offset: 2}, "2 5 4"},
		{"offset beyond the end", Spec{Offset: 9}, ""},
		{"max", Spec{Max: 2}, "3 1"},
		{"offset then max", Spec{Offset: 1, Max: 2}, "1 2"},
		{"all", Spec{Filter: filter(t, "n < 5"), SortBy: sortBy(t, "n DESC"), Distinct: distinct, Offset: 1, Max: 1}, "3"},
		{"distinct is before offset", Spec{Distinct: distinct, Offset: 2}, "5"},
	} {
		c.s.List = list
		var got []string
		for it, err := range c.s.Items() {
			if err != nil {
				t.Fatal(c.what, err)
			}
			got = append(got, value.Text(parse(t, string(it.Data)).(map[string]any)["n"]))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.what, got, c.want)
		}
		fromFile := c.s
		fromFile.List, fromFile.File = nil, write(t, "a.json", value.JSON(list))
		if a, b := data(t, c.s), data(t, fromFile); a != b {
			t.Errorf("%s: a file gives %s, a list %s", c.what, b, a)
		}
	}
}

func TestFilterError(t *testing.T) {
	_, err := read(Spec{List: []any{"("}, Filter: filter(t, "item =~ item")})
	if err == nil || !strings.Contains(err.Error(), "filter") {
		t.Errorf("a bad pattern: %v", err)
	}
}

func TestIDs(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`["a", "b"]`, "0 1"},
		{`[{"id": "x"}, {"id": "y"}]`, "x y"},
		{`[{"id": 7}, {"id": 8.5}, {"id": true}]`, "7 8.5 true"},
		{`[{"id": "x"}, {"id": "x"}, {"id": "x"}]`, "x 1 2"},
		{`[{"id": "1"}, {"id": "1"}, {}]`, "1 1~2 2"},
		{`[{"id": ""}, {"id": null}, {"id": [1]}, {"id": {}}, {}]`, "0 1 2 3 4"},
		{`[{"id": "` + strings.Repeat("x", 201) + `"}]`, "0"},
		{`[{"id": "a/b ../\n"}]`, "a/b ../\n"},
	} {
		var got []string
		for it, err := range (Spec{File: write(t, "a.json", c.text)}).Items() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, it.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}

// TestIDsAreUnique for any list.
func TestIDsAreUnique(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		list := rapid.SliceOf(rapid.Custom(func(r *rapid.T) any {
			id := rapid.SampledFrom([]any{nil, "a", "0", "1", "2", "1~2", int64(1), 1.5, true}).Draw(r, "id")
			if id == nil {
				return "plain"
			}
			return map[string]any{"id": id}
		})).Draw(r, "list")
		seen := map[string]bool{}
		for it, err := range (Spec{List: list}).Items() {
			if err != nil {
				r.Fatal(err)
			}
			if seen[it.ID] {
				r.Fatalf("the id %q is there twice in %v", it.ID, list)
			}
			seen[it.ID] = true
		}
		if len(seen) != len(list) {
			r.Fatalf("%d items of %d", len(seen), len(list))
		}
	})
}

// store is the example document of RFC 9535, section 1.5.
const store = `{ "store": {
    "book": [
      { "category": "reference", "author": "Nigel Rees", "title": "Sayings of the Century", "price": 8.95 },
      { "category": "fiction", "author": "Evelyn Waugh", "title": "Sword of Honour", "price": 12.99 },
      { "category": "fiction", "author": "Herman Melville", "title": "Moby Dick", "isbn": "0-553-21311-3", "price": 8.99 },
      { "category": "fiction", "author": "J. R. R. Tolkien", "title": "The Lord of the Rings", "isbn": "0-395-19395-8", "price": 22.99 }
    ],
    "bicycle": { "color": "red", "price": 399 }
} }`

// TestRFC9535Examples are the examples of section 1.5, table 2.
func TestRFC9535Examples(t *testing.T) {
	titles := func(v []any) string {
		var out []string
		for _, e := range v {
			m, ok := e.(map[string]any)
			if !ok {
				out = append(out, value.Text(e))
				continue
			}
			out = append(out, strings.Fields(value.Text(m["title"]))[0])
		}
		return strings.Join(out, ",")
	}
	for _, c := range []struct {
		path, want string
		sorted     bool
	}{
		{"$.store.book[*].author", "Nigel Rees,Evelyn Waugh,Herman Melville,J. R. R. Tolkien", false},
		{"$..author", "Evelyn Waugh,Herman Melville,J. R. R. Tolkien,Nigel Rees", true},
		{"$.store..price", "12.99,22.99,399,8.95,8.99", true},
		{"$..book[2].author", "Herman Melville", false},
		{"$..book[2].publisher", "", false},
		{"$..book[2]", "Moby", false},
		{"$..book[-1]", "The", false},
		{"$..book[0,1]", "Sayings,Sword", false},
		{"$..book[:2]", "Sayings,Sword", false},
		{"$..book[?@.isbn]", "Moby,The", false},
		{"$..book[?@.price<10]", "Sayings,Moby", false},
		{"$.store.book[?@.price < 10 && @.category == 'fiction'].title", "Moby Dick", false},
	} {
		got, err := Path(t.Context(), c.path, parse(t, store))
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		text := titles(got)
		if c.sorted {
			parts := strings.Split(text, ",")
			slices.Sort(parts)
			text = strings.Join(parts, ",")
		}
		if text != c.want {
			t.Errorf("%s: %s, want %s", c.path, text, c.want)
		}
	}
	if got, err := Path(t.Context(), "$.store.*", parse(t, store)); err != nil || len(got) != 2 {
		t.Errorf("$.store.*: %d values, %v", len(got), err)
	}
}

func TestBadPaths(t *testing.T) {
	for _, p := range []string{"", "store", "$.[", "$[?", "$[?(@.a", "$['a"} {
		if _, err := parsePath(p); err == nil {
			t.Errorf("%q is no JSONPath, and there is no error", p)
		}
	}
}

// TestFiltersCompareNumbers whatever their spelling.
func TestFiltersCompareNumbers(t *testing.T) {
	doc := `{"items": [{"n": 1}, {"n": 2.0}, {"n": 3e0}, {"n": "4"}]}`
	s := Spec{File: write(t, "a.json", doc), JSONPath: "$.items[?@.n >= 2]"}
	if got, want := data(t, s), `{"n":2.0} {"n":3e0}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// What they find is as it was written, also where a float cannot hold it.
	doc = `[{"id": 12345678901234567891, "l": [1.0]}, {"id": 12345678901234567890, "l": [2.50]}]`
	for path, want := range map[string]string{
		"$[?@.id]":       `{"id":12345678901234567891,"l":[1.0]} {"id":12345678901234567890,"l":[2.50]}`,
		"$[?@.id].id":    "12345678901234567891 12345678901234567890",
		"$[*].l[?@ > 0]": "1.0 2.50",
	} {
		if got := data(t, Spec{File: write(t, "a.json", doc), JSONPath: path}); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		list := parse(t, doc).([]any)
		if got := data(t, Spec{List: list, JSONPath: path}); got != want {
			t.Errorf("%s of a list: %s, want %s", path, got, want)
		}
	}
}

// A path into null finds nothing.
func TestPathIntoNull(t *testing.T) {
	for path, want := range map[string]int{"$": 1, "$.a": 0, "$[*]": 0, "$[?@.b].a": 0, "$..a": 0} {
		if found, err := Path(t.Context(), path, nil); err != nil || len(found) != want {
			t.Errorf("%s: %v, %v", path, found, err)
		}
	}
}

// What is behind an empty array is found.
func TestPathBehindAnEmptyArray(t *testing.T) {
	doc, err := value.Parse([]byte(`{"items": [[], [{"a": 1}], null, [{"a": null}]]}`))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := Path(t.Context(), "$.items[*]..a", doc); err != nil || value.JSON(found) != "[1,null]" {
		t.Errorf("%v, %v", found, err)
	}
}

// shape makes JSON documents with members items, a and b.
func shape(depth int) *rapid.Generator[any] {
	leaf := rapid.SampledFrom([]any{nil, true, "", "x", "a b", json.Number("0"), json.Number("10.0"), json.Number("-3e2")})
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(shape(depth-1), 0, 4), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"items", "a", "b"}), shape(depth-1), 0, 3), func(m map[string]any) any { return m }))
}

// TestStreamIsTheWholeDocument: reading a document piece by piece gives what
// evaluating the path on the whole of it gives.
func TestStreamIsTheWholeDocument(t *testing.T) {
	paths := []string{"", "$", "$.items", "$.items[*]", "$.items[*].a", "$.items[*].a[*]", "$['items']", `$["items"].a`, "$[*]", "$[*].a",
		"$.a.items[*].b", "$.items[?@.a]", "$.items[?@.a == 'x']", "$[?@.b].a", "$.items[*]..a"}
	rapid.Check(t, func(r *rapid.T) {
		doc := shape(4).Draw(r, "document")
		path := rapid.SampledFrom(paths).Draw(r, "path")
		text := value.JSON(doc)
		if rapid.Bool().Draw(r, "spaced") {
			var v any
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&v); err != nil {
				r.Fatal(err)
			}
			b, err := json.MarshalIndent(v, " ", "\t")
			if err != nil {
				r.Fatal(err)
			}
			text = "\n" + string(b) + "\n"
		}
		whole, err := value.Parse([]byte(text))
		if err != nil {
			r.Fatal(err)
		}
		var want, got []any
		if err := (Spec{JSONPath: path}).expand(whole, func(x raw) error { want = append(want, x.v); return nil }); err != nil {
			r.Fatal(err)
		}
		err = (Spec{JSONPath: path}).document(strings.NewReader(text), func(x raw) error {
			if x.text != nil {
				if v, err := value.Parse(x.text); err != nil || !reflect.DeepEqual(v, x.v) {
					r.Fatalf("the text %s is not the value %v: %v", x.text, x.v, err)
				}
			}
			got = append(got, x.v)
			return nil
		})
		if err != nil {
			// A path that wants an array and meets another thing says so.
			if strings.Contains(err.Error(), "wants an array") {
				return
			}
			r.Fatalf("%s of %s: %v", path, text, err)
		}
		if g, w := value.JSON(got), value.JSON(want); g != w {
			r.Fatalf("%s of %s:\nstream %s\nwhole  %s", path, text, g, w)
		}
	})
}

// TestStreamNeedsNoMemory reads many items without holding them.
func TestStreamNeedsNoMemory(t *testing.T) {
	const n = 50_000
	var b strings.Builder
	b.WriteString(`{"meta": {"items": [1]}, "items": [`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id": %d, "text": "%s"}`, i, strings.Repeat("x", 100))
	}
	b.WriteString("]}")
	s := Spec{File: write(t, "a.json", b.String()), JSONPath: "$.items[*]", Filter: filter(t, "id >= 49990"), SortBy: sortBy(t, "id DESC")}
	list, err := read(s)
	if err != nil || len(list) != 10 || !strings.HasPrefix(list[0], "49999: ") {
		t.Errorf("%d items, %v", len(list), err)
	}
}

// TestEarlyEnd stops reading without an error.
func TestEarlyEnd(t *testing.T) {
	for _, s := range []Spec{
		{File: write(t, "a.json", "[1,2,3]")},
		{File: write(t, "a.jsonl", "1\n2\n3\n")},
		{File: write(t, "a.csv", "a\n1\n2\n")},
		{List: []any{1, 2, 3}},
		{List: []any{1, 2, 3}, SortBy: sortBy(t, "item")},
	} {
		n := 0
		for _, err := range s.Items() {
			if err != nil {
				t.Error(err)
			}
			n++
			break
		}
		if n != 1 {
			t.Errorf("%d items", n)
		}
	}
}

func FuzzItems(f *testing.F) {
	f.Add("a.json", `{"items":[1,{"id":2}]}`, "$.items[*]")
	f.Add("a.jsonl", "1\n{\"a\":2}\n", "$.a")
	f.Add("a.csv", "a,b\n1,2\n", "")
	f.Add("a.txt", "x\ny", "$..a")
	f.Fuzz(func(t *testing.T, name, text, path string) {
		ext := filepath.Ext(name)
		if len(ext) > 8 || strings.ContainsAny(ext, "/\x00") {
			ext = ".json"
		}
		n := 0
		for it, err := range (Spec{File: write(t, "f"+ext, text), JSONPath: path}).Items() {
			if err != nil {
				break
			}
			if !json.Valid(it.Data) || it.ID == "" {
				t.Fatalf("item %q: %q", it.ID, it.Data)
			}
			n++
		}
	})
}
