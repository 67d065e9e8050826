package syntax

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// errorCase is one source of testdata/errors, with the errors that are
// written beside its lines.
type errorCase struct {
	name, src string
	want      map[int][]string
}

var (
	caseHead = regexp.MustCompile(`(?m)^-- (.*) --\n`)
	wantText = regexp.MustCompile("`([^`]*)`")
)

func errorCases(t testing.TB) []errorCase {
	files, err := filepath.Glob("testdata/errors/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases (%v)", err)
	}
	var list []errorCase
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		heads := caseHead.FindAllStringSubmatchIndex(string(data), -1)
		for i, h := range heads {
			end := len(data)
			if i+1 < len(heads) {
				end = heads[i+1][0]
			}
			c := errorCase{
				name: filepath.Base(file) + "/" + string(data[h[2]:h[3]]),
				src:  strings.TrimRight(string(data[h[1]:end]), "\n"),
				want: map[int][]string{},
			}
			for n, line := range strings.Split(c.src, "\n") {
				if _, after, ok := strings.Cut(line, "# want"); ok {
					for _, m := range wantText.FindAllStringSubmatch(after, -1) {
						c.want[n+1] = append(c.want[n+1], m[1])
					}
				}
			}
			list = append(list, c)
		}
	}
	return list
}

func TestErrors(t *testing.T) {
	for _, c := range errorCases(t) {
		t.Run(c.name, func(t *testing.T) {
			_, list := Parse("x.cst", []byte(c.src))
			for _, p := range list {
				text := p.Message
				if p.Suggestion != "" {
					text += "; " + p.Suggestion
				}
				want := c.want[p.Line]
				if len(want) == 0 {
					t.Errorf("line %d: unexpected error: %s", p.Line, text)
					continue
				}
				if !strings.Contains(text, want[0]) {
					t.Errorf("line %d: got  %s\n        want %s", p.Line, text, want[0])
				}
				c.want[p.Line] = want[1:]
			}
			for line, rest := range c.want {
				for _, w := range rest {
					t.Errorf("line %d: missing error: %s", line, w)
				}
			}
		})
	}
}
