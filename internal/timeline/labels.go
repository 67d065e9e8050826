package timeline

import (
	"cmp"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// Labels tells what the steps of work items did. A journal has of each step the label as
// it is in the file, by which steps are found and counted: what one item made of it is not
// recorded a million times, but filled in when somebody reads it.
type Labels struct {
	steps  map[string]*workflow.Step
	hidden *mask.Masker
	given  []journal.Given
	total  int
}

// LabelsOf makes the labels of a run whose map has so many items.
func LabelsOf(h journal.Header, total int) *Labels {
	l := &Labels{given: h.Given(), total: total, steps: map[string]*workflow.Step{}}
	if len(h.Source) == 0 || len(h.Source) > maxFile || h.Kind == workflow.Dataflow.String() {
		return l
	}
	f := File(h)
	if f == nil {
		return l
	}
	l.hidden = Secrets(f)
	workflow.WalkAll(f, func(s *workflow.Step) {
		if _, ok := l.steps[s.Path]; !ok {
			l.steps[s.Path] = s
		}
	})
	return l
}

// Of is the label of a step with the values of an item in it, given the recorded one, which
// is "" where an event has none. Values that are not the item's stay as the file has them.
// It is "" where nothing is recorded and the file has no such step. item is asked only where
// the label needs it.
func (l *Labels) Of(path, recorded string, item func() (event.Item, error)) string {
	if recorded != "" && !strings.Contains(recorded, "$") {
		return recorded
	}
	own, _, rounds := strings.Cut(path, "@")
	s := l.steps[own]
	if s == nil {
		return recorded
	}
	label := l.hidden.String(s.Label())
	fill := s.Filled
	if recorded != "" && recorded != label { // of a file that has changed since the run began
		label = recorded
		fill = func(sc template.Scope, m *mask.Masker) string { return workflow.FillLabel(recorded, sc, m) }
	}
	if rounds || !strings.Contains(label, "$") { // ${item} of a foreach is another
		return label
	}
	it, err := item()
	if err != nil {
		return label // it is only a name
	}
	sc := vars.New(nil)
	for _, g := range l.given {
		sc.SetTrusted(g.Name, g.Value)
	}
	inside, err := sc.ForItem(it, l.total, 0)
	if err != nil {
		return label
	}
	return cmp.Or(fill(inside, l.hidden), label)
}
