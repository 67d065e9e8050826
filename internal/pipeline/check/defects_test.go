package check_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// The defects of the original that the checker could have are in
// testdata/defects.txt and here; the numbers are those of ../DEFECTS.md.

// TestR16EveryProblemIsPrinted prints every problem that the sources of
// testdata have: each shows its code, its place, the line and a caret below it.
func TestR16EveryProblemIsPrinted(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	env := newEnv(t)
	codes := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range strings.Split("\n"+string(data), "\n--- ")[1:] {
			name, src, _ := strings.Cut(c, "\n")
			lines := strings.Split(src, "\n")
			for i, line := range lines {
				lines[i] = wantComment.ReplaceAllString(line, "")
			}
			src = strings.Join(lines, "\n")
			_, problems := run(env, src)
			for _, p := range problems {
				codes[p.Code] = true
				var b bytes.Buffer
				diag.Print(&b, p, []byte(src), diag.Style{})
				for _, want := range []string{fmt.Sprintf("test.cst:%d:%d", p.Line, p.Column), p.Code, p.Message, p.Suggestion, strings.TrimSpace(lines[p.Line-1]), "^"} {
					if !strings.Contains(b.String(), want) {
						t.Errorf("%s: no %q in\n%s", name, want, b.String())
					}
				}
			}
		}
	}
	for _, code := range []string{"E001", "E002", "E003", "E004", "E005", "E006", "E007", "E010", "E012", "E013", "E014", "E015", "E016", "E017",
		"redefined", "delay-without-retry", "backoff-without-delay", "backoff-without-retry", "cache-backend-without-cache", "high-retry-count"} {
		if !codes[code] {
			t.Errorf("no source of testdata has the problem %s", code)
		}
	}
}

// R15: a warning does not hinder a pipeline, and is not lost because of it.
func TestR15WarningsComeWithTheProgram(t *testing.T) {
	p, problems := run(newEnv(t), "in id: Int\nx = Fetch(id) with delay: 1s\nout x")
	if p == nil || len(problems) != 1 || problems[0].Severity != diag.Warning || problems[0].Line != 2 || problems[0].Column != 20 || problems[0].EndColumn != 29 {
		t.Errorf("%v %+v", p != nil, problems)
	}
}

// R17 and R18: what the checker says of the worst case is what the waits add up
// to: a fixed delay is not capped, a growing one is, and nothing overflows.
func TestR17R18WorstCase(t *testing.T) {
	for clause, want := range map[string]time.Duration{
		"retry: 2, delay: 1min":                                               2 * time.Minute,
		"retry: 2, delay: 1min, max_delay: 10s":                               20 * time.Second,
		"retry: 3, delay: 20s, backoff: linear":                               80 * time.Second,
		"retry: 40, delay: 1s, backoff: exponential":                          (31 + 35*30) * time.Second,
		"retry: 999999, delay: 300d, backoff: exponential, max_delay: 36500d": 1<<63 - 1,
	} {
		p, problems := run(newEnv(t), "in id: Int\nx = Fetch(id) with "+clause+"\nout x")
		if p == nil {
			t.Fatal(problems)
		}
		if got := p.Assigns[0].Value.(*check.Call).Options.Retries().Waits.D; got != want {
			t.Errorf("%s: %v, want %v", clause, got, want)
		}
	}
}

// R3: a call without options has none, and one with some has no others.
func TestR3NoOptionsByThemselves(t *testing.T) {
	p, _ := run(newEnv(t), "in id: Int\nx = Fetch(id)\ny = Fetch(id) with retry: 1\nout x")
	if o := p.Assigns[0].Value.(*check.Call).Options; o != nil {
		t.Errorf("%+v", o)
	}
	if o := p.Assigns[1].Value.(*check.Call).Options; o.Retry.Timeout != 0 || o.Deadline != 0 || o.Text != "retry:1 ;" {
		t.Errorf("%+v", o)
	}
}

// R38: the sources that the repository shows are checked, so none can be wrong.
func TestR38ShippedSources(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.cst")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if p, problems := run(newEnv(t), string(src)); p == nil || len(problems) > 0 {
			t.Errorf("%s: %v", file, problems)
		}
		f, _ := syntax.Parse(file, src)
		if again := syntax.Format(f); !bytes.Equal(again, src) {
			t.Errorf("%s is not formatted", file)
		}
	}
}

var tableRow = regexp.MustCompile(`(?m)^\| R(\d+) \|`)
var namedTest = regexp.MustCompile("`(Test\\w+)`")

// TestTableOfDefects holds ../DEFECTS.md to what there is: a row for each
// number, and tests of the names that it gives.
func TestTableOfDefects(t *testing.T) {
	table, err := os.ReadFile("../DEFECTS.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range tableRow.FindAllStringSubmatch(string(table), -1) {
		if row[1] != strconv.Itoa(i+1) {
			t.Fatalf("row %d is R%s", i+1, row[1])
		}
	}
	if n := len(tableRow.FindAll(table, -1)); n != 38 {
		t.Errorf("%d rows", n)
	}
	tests := map[string]bool{}
	for _, pattern := range []string{"../*/*_test.go", "../../*/*_test.go", "../../../*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(src, -1) {
				tests[string(m[1])] = true
			}
		}
	}
	for _, m := range namedTest.FindAllSubmatch(table, -1) {
		if !tests[string(m[1])] {
			t.Errorf("the table names %s, which is not there", m[1])
		}
	}
}
