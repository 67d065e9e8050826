package plan_test

import (
	"github.com/bide-dev/bide/internal/worst"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// FuzzCompile feeds any text to parser, checker and planner.
func FuzzCompile(f *testing.F) {
	files, err := filepath.Glob("../check/testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split("\n"+string(data), "\n--- ")[1:] {
			_, src, _ := strings.Cut(c, "\n")
			f.Add(src)
		}
	}
	f.Add(chainSource(20))
	var counts counting
	env := environment(f, counts.modules()...)
	f.Fuzz(func(t *testing.T, src string) {
		file, problems := syntax.Parse("fuzz.cst", []byte(src))
		// The checker must survive what the parser made of wrong sources.
		program, more := check.Check(file, env)
		for _, p := range more {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Errorf("a problem without place or text: %+v", p)
			}
		}
		if problems.HasErrors() || program == nil {
			return
		}
		p, err := plan.New(program)
		if err != nil {
			t.Fatal(err)
		}
		if p.Hash() == "" || worst.Calls(p).Worst.Time.D < 0 {
			t.Error("no hash, or a negative time")
		}
	})
}
