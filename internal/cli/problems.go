package cli

import (
	"maps"
	"os"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/workflow"
)

// sourceTexts are texts of files, to be shown with their problems.
type sourceTexts struct {
	of   map[string][]byte // by path
	hide *mask.Masker      // secrets in the texts
}

// sources are the texts of a workflow; none if it is nil.
func sources(f *workflow.File) (s sourceTexts) {
	if f == nil {
		return s
	}
	s.of = map[string][]byte{f.Path: f.Source}
	maps.Copy(s.of, f.Others)
	s.hide, _ = mask.New(workflow.Literals(f)) // a run reports secrets that are too short
	return s
}

// sourceOf reads the text of a file that was not read before.
func sourceOf(path string) sourceTexts {
	text, err := os.ReadFile(path)
	if err != nil || dataflow.IsPipeline(path) {
		return sourceTexts{of: map[string][]byte{path: text}}
	}
	f, _ := workflow.Load(path, workflow.Options{Unfilled: true}) // for its secrets
	s := sources(f)
	s.of = map[string][]byte{path: text}
	return s
}

// problems prints the problems of a file, with their source lines.
func (s *streams) problems(list diag.List, src sourceTexts) {
	st := s.style(s.err)
	if st.Width = s.columns(s.err); st.Width > 0 {
		st.Fold = func(line, by string) string { return fold(line, st.Width, by) }
	}
	read := map[string]sourceTexts{}
	for _, p := range list {
		from := src
		if from.of[p.File] == nil && p.File != "" {
			if _, ok := read[p.File]; !ok {
				read[p.File] = sourceOf(p.File)
			}
			from = read[p.File]
		}
		st.Hide = from.hide
		diag.Print(s.err, p, from.of[p.File], st)
	}
}
