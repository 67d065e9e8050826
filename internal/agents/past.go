package agents

import (
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// past is what earlier lives of the run have recorded of the steps of an item
// that they left in flight, by path. Its finished steps are not run again.
type past map[string]journal.StepRecord

// pasts are those of several items, by index.
type pasts = map[int]map[string]journal.StepRecord

// finished reports whether a step has ended, and its work is in the worktree.
func (p past) finished() bool {
	for _, rec := range p {
		if rec.Over() {
			return true
		}
	}
	return false
}

// elsewhere has the steps begin in another worktree than the one of the record.
func (p past) elsewhere() {
	for path, rec := range p {
		rec.From = nil
		p[path] = rec
	}
}

// failed reports whether an attempt at a step failed that the item has not got over.
func (p past) failed() bool {
	for _, rec := range p {
		if rec.Status == event.Failed || !rec.Over() && rec.Retry.Failures > 0 {
			return true
		}
	}
	return false
}

// cutShort reports whether the step of a template that ended last had been cut
// short before: what it left half done may be why it failed.
func (p past) cutShort(at step.Place, steps []*workflow.Step, ended []*step.Outcome) bool {
	for i := len(ended) - 1; i >= 0; i-- {
		if ended[i] != nil && ended[i].Status != "" {
			rec, ok := p[at.Path(steps[i].Path)]
			return ok && !rec.Over()
		}
	}
	return false
}

// boundary gives the path of the step of a template after which all that was
// begun was cut short; "" where there is none.
func (p past) boundary(at step.Place, steps []*workflow.Step) (last string) {
	for i, s := range steps {
		path := at.Path(s.Path)
		if rec, ok := p[path]; ok && rec.Over() {
			last = path
			continue
		}
		for other, rec := range p {
			if rec.Over() && strings.HasPrefix(other, steps[i].Path) {
				return "" // a part of it has ended
			}
		}
		break
	}
	return last
}
