package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/template"
	"pgregory.net/rapid"
)

// hostile are items that would do something if they were not data.
var hostile = []string{"a", "a b", "$(touch pwned)", "`touch pwned`", "'; touch pwned; '", `"; touch pwned; "`, "*", "~", "a\\", "${item}", "$HOME", "é", "{}", "|x", "&", ">o"}

// TestWordsStayWords: whatever words a command is given as, and whatever the
// item is, a shell sees the words with the item in them.
func TestWordsStayWords(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		pieces := append([]string{"{}", "{#}", "{/}", "x", "=", "'", `"`, "$", "${item}", "$$", "\\", " "}, hostile...)
		words := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 4), func(p []string) string { return "w" + strings.Join(p, "") }), 1, 3).Draw(t, "words")
		i := newBatchItem(rapid.SampledFrom(hostile).Draw(t, "item"), 7)
		text := shellOfWords(append([]string{"printf", "<%s>"}, words...))
		var want strings.Builder
		for _, w := range words {
			want.WriteString("<" + i.fill(w, func(s string) string { return s }) + ">")
		}
		if got := shellRuns(t, dir, text, i); got != want.String() {
			t.Fatalf("%q with %q is %q in a shell, which prints %q, want %q", words, i.Arg, text, got, want.String())
		}
	})
}

// TestPlaceholdersInQuotes: in a text too an item is a part of a word, in any
// quotes.
func TestPlaceholdersInQuotes(t *testing.T) {
	dir := t.TempDir()
	for _, item := range hostile {
		i := newBatchItem(item, 1)
		got := shellRuns(t, dir, shellOfText(`printf '<%s>' "a{}b" 'c{}d' e{}f \"{#}`), i)
		if want := "<a" + item + "b><c" + item + "d><e" + item + `f><"1>`; got != want {
			t.Errorf("with %q: %q, want %q", item, got, want)
		}
	}
}

// TestPlaceholdersInsideOfOthers: so it is in a command inside of quotes, in a
// here-document and where a number is reckoned with.
func TestPlaceholdersInsideOfOthers(t *testing.T) {
	dir := t.TempDir()
	for _, item := range hostile {
		i := newBatchItem(item, 3)
		for text, want := range map[string]string{
			`printf '<%s>' "a$(printf '[%s]' {} 'x{}' "y{}")b"`:                      "<a[" + item + "][x" + item + "][y" + item + "]b>",
			`printf '<%s>' "$(printf '[%s]' "$(printf %s {})")"`:                     "<[" + item + "]>",
			"cat <<EOF\n({})\nEOF":                                                   "(" + item + ")\n",
			"cat <<'EOF'\n({} '{}')\nEOF":                                            "(" + item + " '" + item + "')\n",
			"cat <<EOF\n$(printf '[%s]' {})\nEOF":                                    "[" + item + "]\n",
			`printf '<%s>' $(({#} * 2)) "$(( {#}+1 ))"`:                              "<6><4>",
			`v=; printf '<%s>' "${v:-{}}" {}; case {} in x) ;; esac`:                 "<" + item + "><" + item + ">",
			`if [ {} = x ]; then :; fi; for v in {} {}; do printf '<%s>' "$v"; done`: "<" + item + "><" + item + ">",
		} {
			if got := shellRuns(t, dir, shellOfText(text), i); got != want {
				t.Errorf("%s with %q: %q, want %q", text, item, got, want)
			}
		}
	}
}

// itemScope has an item for a text of a step.
type itemScope batchItem

func (s itemScope) Lookup(name string) (template.Value, bool) {
	fields := map[string]any{}
	b, err := json.Marshal(batchItem(s))
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	return template.Value{V: fields, Origin: template.Data}, err == nil && name == "item"
}

func (itemScope) Env(string) (template.Value, bool) { return template.Value{}, false }

// shellRuns gives what is printed by a text with an item.
func shellRuns(t interface {
	Helper()
	Fatalf(string, ...any)
}, dir, src string, i batchItem) string {
	t.Helper()
	text, err := template.Parse(src)
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	c, err := text.Shell(itemScope(i))
	if err != nil {
		t.Fatalf("%s with %q: %v", src, i.Arg, err)
	}
	cmd := exec.Command("sh", "-c", c.Line())
	cmd.Dir, cmd.Env = dir, append(os.Environ(), c.Env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s with %q: %v: %s", src, i.Arg, err, out)
	}
	return string(out)
}

func TestBatchItem(t *testing.T) {
	for arg, want := range map[string]batchItem{
		"d/x.tar.gz": {NoExt: "d/x.tar", Name: "x.tar.gz", Dir: "d", Stem: "x.tar"},
		"x":          {NoExt: "x", Name: "x", Dir: ".", Stem: "x"},
		"d.e/x":      {NoExt: "d.e/x", Name: "x", Dir: "d.e", Stem: "x"},
		".profile":   {NoExt: ".profile", Name: ".profile", Dir: ".", Stem: ".profile"},
		"/a/.b.c":    {NoExt: "/a/.b", Name: ".b.c", Dir: "/a", Stem: ".b"},
	} {
		want.ID, want.Arg, want.Number = arg, arg, 4
		if got := newBatchItem(arg, 4); got != want {
			t.Errorf("%s: %+v, want %+v", arg, got, want)
		}
	}
}
