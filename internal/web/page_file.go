package web

import (
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/workflow"
)

type fileBody struct {
	Run      string
	Path     string
	Files    []string // all that the run is made of; more than one has links
	Lines    []fileLine
	Errors   int
	Warnings int
	Else     []diag.Problem // of other files, or of no place
	Left     int            // lines that are not shown
	Raw      string         // the address of the whole file
}

type fileLine struct {
	N        int
	Text     string
	Problems []diag.Problem
}

// maxLines bounds the lines of a file that are shown.
const maxLines = 20_000

// filePage shows the source as it ran.
func (p *pages) filePage(w http.ResponseWriter, r *http.Request, run *run) error {
	head, err := p.headOf(r, run, nil)
	if err != nil {
		return err
	}
	h := run.r.Header()
	b := fileBody{Run: run.id, Path: h.Path, Files: []string{h.Path}}
	for name := range h.Others {
		b.Files = append(b.Files, name)
	}
	slices.Sort(b.Files[1:])
	text := h.Source
	if name := r.URL.Query().Get("name"); name != "" && name != h.Path {
		var ok bool
		if text, ok = h.Others[name]; !ok {
			return &status{http.StatusNotFound, "The run was not made of such a file.", "The files that it was made of are those that its page lists."}
		}
		b.Path = name
	}
	problems, hidden := checked(h)
	b.Errors, b.Warnings = problems.Count()
	at := map[int][]diag.Problem{}
	for _, x := range problems {
		if x.File == b.Path && x.Line > 0 {
			at[x.Line] = append(at[x.Line], x)
		} else {
			b.Else = append(b.Else, x)
		}
	}
	lines := strings.Split(strings.TrimSuffix(strings.ToValidUTF8(string(text), "�"), "\n"), "\n")
	if r.URL.Query().Get("raw") != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, line := range lines {
			_, _ = io.WriteString(w, hidden.String(line)+"\n") // who went away needs no file
		}
		return nil
	}
	b.Left, b.Raw = max(0, len(lines)-maxLines), "?"+url.Values{"name": {b.Path}, "raw": {"1"}}.Encode()
	for i, line := range lines[:len(lines)-b.Left] {
		b.Lines = append(b.Lines, fileLine{i + 1, hidden.String(line), at[i+1]})
	}
	return p.show(w, "file", frame{Title: "File of " + head.Name, Run: head, Body: b})
}

// checked gives the problems of the file as it ran, and what hides the secrets
// that are in it.
func checked(h journal.Header) (diag.List, *mask.Masker) {
	if h.Kind == workflow.Dataflow.String() {
		_, problems := dataflow.Load(h.Path, "", func(path string) ([]byte, error) {
			b, err := h.ReadFile(path)
			if err != nil {
				return nil, fs.ErrNotExist
			}
			return b, nil
		})
		return problems, nil
	}
	f, problems := workflow.Parse(h.Path, h.Source, workflow.Options{Unfilled: true, ReadFile: h.ReadFile})
	return problems, timeline.Secrets(f)
}
