package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/workflow"
)

// A run knows its steps by their places in the file. If a file that has changed has other steps in the
// places of those that have ended, each of them would be taken to have ended, or the same work would be
// done twice.

// MovedError says that steps of a run which have ended are at other places in the file now.
type MovedError struct {
	Path  string // of the file
	Moved []Moved
}

// Moved is a place in a file with another step than the one that has ended there.
type Moved struct{ At, Was, Is string }

func (e *MovedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has other steps in the places of steps that have ended, by which the run knows them:", e.Path)
	for i, m := range e.Moved {
		if i == 5 {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Moved)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s is %q now, and was %q", m.At, head(m.Is), head(m.Was))
	}
	b.WriteString("\nput new steps behind those that have ended, and leave these in their order; or start a new run")
	return b.String()
}

// head is the beginning of a text of a step.
func head(text string) string { return (*mask.Masker)(nil).Text(text).Head(120) }

// sameSteps gives a *MovedError where the file that a run continues with, or the one of its last life, is
// not as it was recorded, and has other steps in the places of steps that have ended and do not run again.
func sameSteps(ctx context.Context, j *journal.Journal, st *journal.State, opt Options, rev revision) error {
	if opt.Part != nil || j.Header().Kind == workflow.Dataflow.String() {
		return nil
	}
	path, changed := changedFile(j.Header(), nil)
	if !st.FileChanged && (changed == "" || !opt.Force) {
		return nil
	}
	moved, err := movedSteps(ctx, j, st, opt.File, rev)
	if err == nil && len(moved) > 0 {
		err = &MovedError{files.Below(cmp.Or(path, j.Header().Path)), moved}
	}
	return err
}

// spot is where a step was executed.
type spot struct {
	index   int // of the item; 0: in the run itself
	address string
}

// movedSteps gives the places where a file has another step than the record, of a run that continues with
// a file that has changed, but for the steps that run again. A step whose text was changed in its place is
// the same step.
func movedSteps(ctx context.Context, j *journal.Journal, st *journal.State, f *workflow.File, rev revision) (list []Moved, err error) {
	ended := map[spot]string{} // what each step that has ended is called
	for e, err := range j.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.StepFinished}}) {
		if err != nil {
			return nil, err
		}
		over := e.Phase == "finally" || rev.outdates && (e.Phase == "reduce" || e.Phase == "merge") // they run again
		if e.Index == 0 {
			_, known := st.Steps[e.Step]
			over = over || !known || slices.Contains(rev.again, e.Step)
		} else {
			status := st.Items.At(e.Index).Status
			over = over || status != journal.ItemPending && status != journal.ItemWaiting
		}
		if over || e.Status == event.Failed || e.Status == event.Interrupted || strings.Contains(e.Step, "#") {
			delete(ended, spot{e.Index, e.Step})
			continue
		}
		ended[spot{e.Index, e.Step}] = e.Label
	}
	moved := map[string]Moved{}
	old, hidden := timeline.File(j.Header()), timeline.Secrets(f)
	for _, known := range []func(*workflow.Step) string{(*workflow.Step).Label, identity} {
		name := func(s *workflow.Step) string { return hidden.String(known(s)) } // as the record has it
		was, is := names(old, name), names(f, name)
		at := map[string][2]string{}
		for s, label := range ended {
			step, before := timeline.StepAt(f, s.address), timeline.StepAt(old, s.address)
			if step == nil {
				continue
			}
			had := label // the last life may have had another file, of which the record has the labels
			if before != nil && before.Label() == label {
				had = name(before)
			} else if step.Label() == label {
				continue
			}
			if name(step) != had {
				at[strings.Join(event.Called(s.address), " > ")] = [2]string{had, name(step)}
				was[place(step)] = had
			}
		}
		for place, m := range at {
			if cameTo(was, is, m[0]) || cameTo(is, was, m[1]) {
				moved[place] = Moved{place, m[0], m[1]}
			}
		}
	}
	return slices.SortedFunc(maps.Values(moved), func(a, b Moved) int { return strings.Compare(a.At, b.At) }), nil
}

// identity is what a step is known by: its name, or all of what it does. Many scripts have the same first
// line, which is their label.
func identity(s *workflow.Step) string {
	return cmp.Or(s.Name, s.ID, workflow.ActionText(s.Action))
}

func place(s *workflow.Step) string { return filepath.Base(s.Pos.File) + " " + s.Path }

// names gives what the steps of a file, which may be nil, and of those that it calls are called, by place.
func names(f *workflow.File, name func(*workflow.Step) string) map[string]string {
	all := map[string]string{}
	if f != nil {
		workflow.WalkAll(f, func(s *workflow.Step) { all[place(s)] = name(s) })
	}
	return all
}

// cameTo reports whether a label is at a place in one file where it is not in the other.
func cameTo(other, file map[string]string, label string) bool {
	for place, is := range file {
		if is == label && other[place] != label {
			return true
		}
	}
	return false
}
