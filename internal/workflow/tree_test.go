package workflow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

func TestAnchorsAndMergeKeys(t *testing.T) {
	f := clean(t, `commands:
  - &base {shell: a, timeout: 3, retry: &r {attempts: 4}}
  - <<: *base
    shell: b
  - <<: [{timeout: 9}, *base]
    retry: *r
`)
	if got := briefs(f.Steps); got != "shell:a shell:b shell:a" {
		t.Errorf("steps %s", got)
	}
	if f.Steps[1].Timeout.D.Seconds() != 3 || f.Steps[2].Timeout.D.Seconds() != 9 || f.Steps[2].Retry.Attempts != 4 {
		t.Errorf("timeouts %v %v", f.Steps[1].Timeout.D, f.Steps[2].Timeout.D)
	}
	for src, code := range map[string]string{
		"commands: [{<<: 3, shell: a}]":       "bad-merge-key",
		"commands: [{<<: [3], shell: a}]":     "bad-merge-key",
		"commands: &a [{shell: b}, *a]":       "alias-cycle",
		bomb():                                "alias-bomb",
		strings.Repeat("[", 300):              "too-deep",
		strings.Repeat("- ", 300) + "shell":   "too-deep",
		"commands: [{shell: \"\x01\"}]":       "yaml-syntax",
		"commands:\n\t- shell: a":             "yaml-syntax",
		"commands: [{shell: a}":               "yaml-syntax",
		strings.Repeat("# line\n", 3_000_000): "file-too-large",
	} {
		src := src
		if code == "too-deep" && src[0] == '[' {
			src += strings.Repeat("]", 300)
		}
		_, problems := parse(t, src)
		if firstCode(problems) != code {
			t.Errorf("%.60q: %v; want %s", src, problems, code)
		}
	}
}

// bomb is a text of few lines that stands for billions of values.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return b.String()
}

func TestScalarsAsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"0777": "0777", "yes": "yes", "no": "no", "on": "on", "1_000": "1_000", "1.50": "1.50", "0x1F": "0x1F", "~": "", "2024-01-01": "2024-01-01",
		"1e3": "1e3", "true": "true", "'x': y": "", "10.0": "10.0", "!!str 12": "12", ".5": ".5", "+3": "+3", "1:30": "1:30",
	} {
		if strings.Contains(text, "': ") {
			continue
		}
		f := clean(t, "env: {A: "+text+"}\ncommands: [{shell: a}]")
		if got := f.Env[0].Text.String(); got != want {
			t.Errorf("%s became %q; want %q", text, got, want)
		}
	}
}

// TestPlacesInScalars has an error in every kind of scalar, at a known place.
func TestPlacesInScalars(t *testing.T) {
	for _, c := range []struct {
		name, src string
		line, col int
	}{
		{"plain", "commands:\n  - shell: echo é ${nobody.x}", 2, 19},
		{"double", "commands:\n  - shell: \"a\\tb ${nobody.x}\"", 2, 18},
		{"single", "commands:\n  - shell: 'it''s'' ${nobody.x}'", 2, 21},
		{"literal", "commands:\n  - shell: |\n      one\n\n        two ${nobody.x}\n", 5, 13},
		{"folded", "commands:\n  - shell: >\n      one\n      two ${nobody.x}\n", 4, 11},
		{"plain lines", "commands:\n  - shell: one\n      two ${nobody.x}\n", 3, 11},
		{"quoted lines", "commands:\n  - shell: \"one\n      two ${nobody.x}\"\n", 3, 11},
		{"flow", `{"commands": [{"shell": "aé\u00e9 ${nobody.x}"}]}`, 1, 35},
		{"anchor", "commands:\n  - shell: &x echo ${nobody.x}", 2, 20},
	} {
		_, problems := parse(t, c.src)
		if len(problems) != 1 || problems[0].Line != c.line || problems[0].Column != c.col {
			t.Errorf("%s: %v; want line %d, column %d", c.name, problems, c.line, c.col)
		}
	}
}

func TestJSONFiles(t *testing.T) {
	f := clean(t, "{\n\t\"commands\": [\n\t\t{\"shell\": \"echo \\ud83d\\ude00 \\/\"}\n\t]\n}")
	if got := briefs(f.Steps); got != "shell:echo 😀 /" {
		t.Errorf("steps %s", got)
	}
}

func TestSyntaxErrorNamesTheLine(t *testing.T) {
	var b strings.Builder
	b.WriteString("commands:\n")
	for i := range 400 {
		fmt.Fprintf(&b, "  - shell: echo %d\n", i)
		if i == 300 {
			b.WriteString("   when: x\n")
		}
	}
	_, problems := parse(t, b.String())
	if len(problems) != 1 || problems[0].Line != 303 {
		t.Errorf("%v; want line 303", problems)
	}
}

func TestLoadReadsFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flow.yml")
	if err := os.WriteFile(path, []byte("extends: base\nenv: {A: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "base.yml"), []byte("commands: [{shell: a}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, problems := workflow.Load(path, workflow.Options{})
	if len(problems) > 0 || briefs(f.Steps) != "shell:a" {
		t.Errorf("%v", problems)
	}
	f, problems = workflow.Load(filepath.Join(dir, "none.yml"), workflow.Options{})
	if f != nil || firstCode(problems) != "cannot-read" {
		t.Errorf("%v", problems)
	}
}

// FuzzParse asks that no text whatever makes the parser panic or hang, and
// that every problem has a place, a code and a message.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/problems/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split(string(text), "\n=== ") {
			f.Add([]byte(c))
		}
	}
	for _, info := range workflow.Fields() {
		place := ""
		if len(info.Places) > 0 {
			place = info.Places[0]
		}
		src, _ := source(info, place)
		f.Add([]byte(src))
	}
	f.Add([]byte(bomb()))
	f.Fuzz(func(t *testing.T, src []byte) {
		file, problems := workflow.Parse("flow.yml", src, workflow.Options{ReadFile: others.read})
		if file == nil && !problems.HasErrors() {
			t.Fatal("nothing understood and no error")
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Code == "" || p.Message == "" {
				t.Fatalf("incomplete problem %+v", p)
			}
		}
		if file != nil {
			workflow.Walk(file, func(s *workflow.Step) {
				if s.Action == nil || s.Path == "" {
					t.Fatalf("incomplete step %+v", s)
				}
			})
			workflow.Formerly(file)
		}
	})
}
