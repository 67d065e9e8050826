package workflow_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/workflow"
)

// TestLiterals: a secret whose value is in the file is told of, and no text of the file that
// is recorded or shown has it, however YAML spells it.
func TestLiterals(t *testing.T) {
	for _, c := range []struct {
		value, gone string // as it is written, and what of it must not be left
		inFile      bool
	}{
		{"plainpass12", "plainpass12", true},
		{"'abc$xdefgh'", "abc$xdefgh", true},
		{"$lowercase", "$lowercase", true},
		{"'pa$$w0rd1234'", "pa$$w0rd1234", true},
		{`"tr\\${x}abc"`, "abc", true},
		{"'it''s-a-secret'", "s-a-secret", true},
		{`"caf\xe9-secret"`, "-secret", true},
		{"\"two line\n    flow scalar\"", "flow scalar", true},
		{"two line\n    plain scalar", "plain scalar", true},
		{">-\n    folded text\n    of two lines", "of two lines", true},
		{"|\n    a block\n    as it is", "as it is", true},
		{"!!str &anchor 'it''s-tagged'", "s-tagged", true},
		{"{value: 'it''s-in-a-map'}", "s-in-a-map", true},
		{"{provider: value, key: 'it''s-a-key'}", "s-a-key", true},
		{"$TOKEN", "", false},
		{"Bearer $TOKEN", "", false},
		{"Bearer ${env:TOKEN}", "", false},
		{"Bearer $LEVEL", "", false},
		{"$UNSET", "", false},
		{"${env:TOKEN}", "", false},
		{"UNSET", "", false},
	} {
		text := "env: {LEVEL: low}\nsecrets:\n  S: " + c.value + "\ncommands: [{shell: a}]\n"
		f, problems := workflow.Parse("w.yml", []byte(text), workflow.Options{LookupEnv: func(name string) (string, bool) { return "a-token", name == "TOKEN" }})
		if told := len(problems) == 1 && problems[0].Code == "secret-in-file"; told != c.inFile || !told && len(problems) > 0 {
			t.Errorf("%s: %v", c.value, problems)
		}
		m, _ := mask.New(workflow.Literals(f))
		if kept := m.String(text); c.inFile == (kept == text) || c.inFile && strings.Contains(kept, c.gone) {
			t.Errorf("%s is kept as\n%s", c.value, kept)
		}
	}
}

// TestLiteralsOfOtherFiles: what a file takes in has its secrets hidden, as it spells them.
func TestLiteralsOfOtherFiles(t *testing.T) {
	src := files{"main.yml": "extends: base.yml\ncommands: [{shell: a}]\n", "base.yml": "secrets: {S: 'it''s-a-secret'}\n"}
	f, _ := load(src, workflow.Options{})
	if got := slices.Sorted(maps.Values(workflow.Literals(f))); !slices.Equal(got, []string{"it''s-a-secret", "it's-a-secret"}) {
		t.Errorf("%q", got)
	}
}
