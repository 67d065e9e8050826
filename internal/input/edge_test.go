package input_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/bide-dev/bide/internal/input"
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func items(s input.Spec) (string, error) {
	var list []string
	for it, err := range s.Items() {
		if err != nil {
			return strings.Join(list, " "), err
		}
		list = append(list, string(it.Data))
	}
	return strings.Join(list, " "), nil
}

// What a pipe gives is looked at twice where its name does not say what it is.
func TestPipesOfAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"items", "items.txt", "items.json", "items.jsonl"} {
		path := filepath.Join(t.TempDir(), name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Skip(err)
		}
		text := "[1, 2]"
		if strings.HasSuffix(name, "l") {
			text = "1\n2\n"
		}
		written := make(chan error, 1)
		go func() { written <- os.WriteFile(path, []byte(text), 0o600) }()
		if got, err := items(input.Spec{File: path, Context: t.Context()}); err != nil || got != "1 2" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
}

// A text that is no UTF-8 is refused, with its place: changed, it would name a
// file that does not exist.
func TestNoUTF8IsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, path, where string }{
		{"a.json", "[\"ok\",\n \"x\xff\"]", "", "line 2, byte 4: 0xff"},
		{"a.json", "[\"ok\",\n \"x\xff\"]", "$..x", "line 2, byte 4: 0xff"},
		{"a.jsonl", "1\n{\"id\":\"\xc3\"}\n", "", "line 2, byte 8: 0xc3"},
		{"a.csv", "id,name\n1,caf\xe9\n", "", "line 2, byte 6: 0xe9"},
		{"a.txt", "one\ncaf\xe9\n", "", "line 2, byte 4: 0xe9"},
		{"a.txt", "one\ncaf\xc3", "", "line 2, byte 4: 0xc3"}, // cut off
	} {
		_, err := items(input.Spec{File: file(t, c.name, c.text), JSONPath: c.path})
		if err == nil || !strings.Contains(err.Error(), c.where) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s %q: %v", c.name, c.text, err)
		}
	}
	// Characters that are cut by the reads are whole characters.
	long := strings.Repeat("é€😀", 30_000)
	got, err := items(input.Spec{File: file(t, "a.txt", "a"+long+"\n"+long+"\n")})
	if want := fmt.Sprintf("%q %q", "a"+long, long); err != nil || got != want {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if err := iotest.TestReader(input.UTF8(iotest.HalfReader(strings.NewReader(long))), []byte(long)); err != nil {
		t.Error(err)
	}
}

// A path finds things in one order, that of RFC 9535 with the names of objects
// sorted: what is above comes first.
func TestDescendInOrder(t *testing.T) {
	t.Parallel()
	const text = `{"b":[1,{"x":2,"b":{"b":7}}],"a":{"x":3,"y":[4,{"x":9}]}}`
	for path, want := range map[string]string{
		"$..x":    `3 9 2`,
		"$..b":    `[1,{"b":{"b":7},"x":2}] {"b":7} 7`,
		"$..*":    `{"x":3,"y":[4,{"x":9}]} [1,{"b":{"b":7},"x":2}] 3 [4,{"x":9}] 4 {"x":9} 9 1 {"b":{"b":7},"x":2} {"b":7} 2 7`,
		"$..[0]":  `4 1`,
		"$.*":     `{"x":3,"y":[4,{"x":9}]} [1,{"b":{"b":7},"x":2}]`,
		"$.a.y":   `4 {"x":9}`,
		"$.*..x":  `3 9 2`,
		"$..y[1]": `{"x":9}`,
	} {
		if got, err := items(input.Spec{File: file(t, "a.json", text), JSONPath: path}); err != nil || got != want {
			t.Errorf("%s: %s, %v\nwant %s", path, got, err, want)
		}
	}
}

// Of what nobody asks for nothing is made.
func TestMaxItemsBoundsAPath(t *testing.T) {
	var list []any
	for i := range 100_000 {
		list = append(list, map[string]any{"a": i, "b": []int{i, i}})
	}
	b, err := json.Marshal([]any{list})
	if err != nil {
		t.Fatal(err)
	}
	held := func(path string) uint64 {
		s := input.Spec{File: file(t, "a.json", string(b)), JSONPath: path, Max: 3}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if got, err := items(s); err != nil || got == "" {
			t.Fatal(got, err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	one, all := held("$[0][0]"), held("$..a")
	t.Logf("allocated: %d KiB for one value, %d KiB for 3 of all", one>>10, all>>10)
	// The document itself is held both times; the text of the first is 3 MB.
	if all > one+1<<20 {
		t.Errorf("allocated %d MiB for 3 items, %d MiB for one value of the same document", all>>20, one>>20)
	}
}
