package timeline

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/pipeline/graph"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/workflow"
)

// maxFile bounds the files that are parsed for their plan, in bytes.
const maxFile = 4 << 20

// plan makes the rows of the steps that the run's file says will come. A file
// that cannot be read any more has none: the rows come as they begin.
func (t *Timeline) plan(h journal.Header) {
	if len(h.Source) == 0 || len(h.Source) > maxFile {
		return
	}
	if t.lists {
		f, _ := syntax.Parse(h.Path, h.Source)
		for _, n := range graph.Build(f).Nodes {
			if n.Kind == graph.Call && len(n.Lines) > 1 && !strings.HasSuffix(n.Lines[0], ")") {
				t.planned(n.Lines[0], n.Lines[0]+" = "+strings.TrimSuffix(n.Lines[1], "()"), "")
			}
		}
		return
	}
	f := File(h)
	if f == nil {
		return
	}
	if f.Map != nil {
		var o struct {
			MaxParallel int `json:"max_parallel"`
		}
		_ = json.Unmarshal(h.Options, &o) // none: what the file says holds
		if t.given = o.MaxParallel; t.given == 0 && f.Map.Parallel.Text == nil && f.Map.Adaptive == nil {
			t.given = f.Map.Parallel.N
		}
	}
	blocks := []struct {
		phase string
		steps []*workflow.Step
		there bool
	}{{"", f.Steps, true}, {"setup", of(f.Setup), f.Setup != nil}, {"map", nil, f.Map != nil}, {"reduce", of(f.Reduce), f.Reduce != nil}, {"merge", of(f.Merge), f.Merge != nil}, {"finally", of(f.Finally), f.Finally != nil}}
	hidden := Secrets(f)
	for _, b := range blocks {
		if b.phase != "" && b.there {
			t.planned(b.phase, b.phase, b.phase).Kind = Phase
		}
		for _, s := range b.steps {
			t.planned(s.Path, hidden.String(s.Label()), b.phase)
		}
	}
}

// File reads a workflow from what a run has recorded of it; nil if it cannot.
func File(h journal.Header) *workflow.File {
	f, _ := workflow.Parse(h.Path, h.Source, workflow.Options{Unfilled: true, ReadFile: h.ReadFile})
	return f
}

// StepAt finds the step of an address in the file of a run, or in those that it calls; nil if it
// is not there.
func StepAt(f *workflow.File, address string) *workflow.Step {
	path := event.Called(address)
	for len(path) > 1 && f != nil {
		f, path = called(f, path[0]), path[1:]
	}
	if f == nil || len(path) == 0 {
		return nil
	}
	return stepOf(f, path[0])
}

// stepOf finds the step of a path in its own file.
func stepOf(f *workflow.File, path string) (step *workflow.Step) {
	workflow.Walk(f, func(s *workflow.Step) {
		if s.Path == path {
			step = s
		}
	})
	return step
}

// called is the file that what has a path calls.
func called(f *workflow.File, path string) *workflow.File {
	for _, w := range f.Workflows {
		if path == "workflows."+w.Name {
			return w.File
		}
	}
	if s := stepOf(f, path); s != nil {
		if c, is := s.Action.(*workflow.Call); is && c.Target != nil {
			return c.Target.File
		}
	}
	return nil
}

// Secrets hides the secrets whose values are written in a file, which may be
// nil. What is too short to be masked is so everywhere.
func Secrets(f *workflow.File) *mask.Masker {
	m, _ := mask.New(workflow.Literals(f))
	return m
}

func of(b *workflow.Block) []*workflow.Step {
	if b == nil {
		return nil
	}
	return b.Steps
}

func (t *Timeline) planned(path, label, phase string) *Row {
	r := t.row(path, label, phase)
	r.order = len(t.rows)
	return r
}

// row gives the row of a path, and makes it.
func (t *Timeline) row(path, label, phase string) *Row {
	r := t.byPath[path]
	if r == nil {
		r = &Row{Path: path, Label: label, Phase: phase, Status: event.Pending, Seq: t.Seq}
		t.byPath[path] = r
		r.Parent = t.parent(path, phase)
		if r.Parent != nil {
			r.Depth = r.Parent.Depth + 1
			if r.Parent.Kind == List {
				r.Parent.Total++
			}
		}
		t.rows = append(t.rows, r)
	}
	if label != "" && (r.Began.IsZero() || r.Label == "") {
		r.Label = label // later events have it without the round that it is in
	}
	return r
}

// parent finds the row that a path is under. A path of a list's element has
// the list, which is made; every other one has its phase.
func (t *Timeline) parent(path, phase string) *Row {
	for around := range event.Around(path) {
		if r := t.byPath[around]; r != nil && r.Path != path {
			return r
		}
	}
	base := event.InFile(path)
	if i := strings.IndexByte(base, '['); t.lists && i > 0 && strings.Contains(base[i:], "].") {
		list := t.row(base[:i], "", phase)
		if list.Kind = List; list.Label == "" {
			list.Label = base[:i]
		}
		return list
	}
	if phase != "" && phase != path {
		if r := t.byPath[phase]; r != nil {
			return r
		}
	}
	return nil
}

// Row gives the row of a path; nil for none.
func (t *Timeline) Row(path string) *Row { return t.byPath[path] }

// Rows gives the tree from top to bottom: each row before those under it, those
// of the file in its order, others as they began.
func (t *Timeline) Rows() []*Row {
	under := map[*Row][]*Row{}
	for _, r := range t.rows {
		under[r.Parent] = append(under[r.Parent], r)
	}
	out := make([]*Row, 0, len(t.rows))
	var add func(*Row)
	add = func(parent *Row) {
		list := under[parent]
		slices.SortStableFunc(list, func(a, b *Row) int {
			if a.order > 0 && b.order > 0 {
				return cmp.Compare(a.order, b.order)
			}
			if a.Began.IsZero() != b.Began.IsZero() {
				if a.Began.IsZero() {
					return 1
				}
				return -1
			}
			return a.Began.Compare(b.Began)
		})
		for _, r := range list {
			out = append(out, r)
			add(r)
		}
	}
	add(nil)
	return out
}
