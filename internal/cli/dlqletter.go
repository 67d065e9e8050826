package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry/driver"
)

// letterInfo is a dead letter, with what list, export and show share.
type letterInfo struct {
	Run           string          `json:"run"`
	Item          string          `json:"item"`
	Index         int             `json:"index"` // from 0, like item_index
	Label         string          `json:"label,omitempty"`
	CorrelationID string          `json:"correlation_id"`
	Data          json.RawMessage `json:"data"` // the item's
	Time          time.Time       `json:"time"`
	Attempts      int             `json:"attempts"`
	Class         string          `json:"class"`
	Message       string          `json:"message"`
	Step          string          `json:"step,omitempty"`
	StepLabel     string          `json:"step_label,omitempty"`
	ExitCode      int             `json:"exit_code"`
	Worktree      string          `json:"worktree,omitempty"`
	Branch        string          `json:"branch,omitempty"`
	Log           string          `json:"log,omitempty"`
	Eligible      bool            `json:"eligible"`
	RetriesEnded  string          `json:"retries_ended,omitempty"` // why, of the item's own retries

	place int // of the item in the list, from 1
	last  mapper.Letter
	value any // the item's data
}

func letterOf(l journal.DeadLetter) (*letterInfo, error) {
	i := &letterInfo{Item: l.ID, Index: event.Number(l.Index), place: l.Index, Data: l.Item, Time: l.Time, Attempts: l.Tries, Class: l.Class, Message: l.Message}
	if len(l.Letter) > 0 {
		if err := json.Unmarshal(l.Letter, &i.last); err != nil {
			return nil, fmt.Errorf("dead letter %s: %w", visible(l.ID), err)
		}
	}
	i.last.Stdout, i.last.Stderr = i.last.Printed()
	x := i.last
	i.CorrelationID, i.Step, i.StepLabel, i.ExitCode = x.CorrelationID, x.Step, x.StepLabel, x.ExitCode
	if n := len(l.History); n > 0 { // the last is the letter, whose data has the exit status in older journals only
		i.Label, i.ExitCode = l.History[n-1].Label, cmp.Or(x.ExitCode, l.History[n-1].ExitCode)
	}
	i.Worktree, i.Branch, i.Log, i.Eligible, i.RetriesEnded = x.Worktree, x.Branch, x.Log, x.Eligible, x.RetriesEnded
	if len(l.Item) == 0 {
		i.Data = json.RawMessage("null")
	}
	var err error
	if i.value, err = value.Parse(i.Data); err != nil {
		return nil, fmt.Errorf("dead letter %s: its data: %w", visible(l.ID), err)
	}
	return i, nil
}

// item is the work item of a dead letter.
func (i *letterInfo) item() event.Item {
	return event.Item{Index: i.place, ID: i.Item, Data: i.Data}
}

// names are the names of an item for a person: its name, or its id with the label from the
// file.
func (i *letterInfo) names() (name, label string) {
	name, label = oneLine(i.item().Name()), oneLine(i.Label)
	if label == "" || label == name || label == visible(i.Item) {
		return name, ""
	}
	return visible(i.Item), label
}

// Lookup finds the value of a name of a filter in a dead letter.
func (i *letterInfo) Lookup(p expr.Path) (any, bool) {
	if v, ok := i.field(p[0].Name); ok && !p[0].IsIndex && !p[0].All {
		return expr.Walk(v, p[1:])
	}
	return expr.Item(i.value).Lookup(p)
}

// letterFields are the names that a filter can use, beside the fields of the item.
var letterFields = []struct {
	name string
	of   func(*letterInfo) any
}{
	{"item", func(i *letterInfo) any { return i.value }},
	{"id", func(i *letterInfo) any { return i.Item }},
	{"index", func(i *letterInfo) any { return int64(i.Index) }},
	{"class", func(i *letterInfo) any { return i.Class }},
	{"message", func(i *letterInfo) any { return i.Message }},
	{"group", func(i *letterInfo) any { return failure.Sign(i.Class, i.Step, i.Message).ID() }},
	{"attempts", func(i *letterInfo) any { return int64(i.Attempts) }},
	{"step", func(i *letterInfo) any { return i.Step }},
	{"step_label", func(i *letterInfo) any { return i.StepLabel }},
	{"exit_code", func(i *letterInfo) any { return int64(i.ExitCode) }},
	{"correlation_id", func(i *letterInfo) any { return i.CorrelationID }},
	{"time", func(i *letterInfo) any { return i.Time.UTC().Format(time.RFC3339) }},
	{"age", func(i *letterInfo) any {
		return value.FromNumber(strconv.FormatFloat(time.Since(i.Time).Seconds(), 'f', 3, 64))
	}},
	{"worktree", func(i *letterInfo) any { return i.Worktree }},
	{"branch", func(i *letterInfo) any { return i.Branch }},
	{"eligible", func(i *letterInfo) any { return i.Eligible }},
	{"retries_ended", func(i *letterInfo) any { return i.RetriesEnded }},
}

// letterNames are the names of letterFields.
func letterNames() (names []string) {
	for _, f := range letterFields {
		names = append(names, f.name)
	}
	return names
}

func (i *letterInfo) field(name string) (any, bool) {
	for _, f := range letterFields {
		if f.name == name {
			return f.of(i), true
		}
	}
	return nil, false
}

// filterNames finds the names of a filter that no dead letter has.
type filterNames struct {
	unseen map[string]bool
	known  map[string]bool // the fields of the items seen so far
}

func namesOf(e *expr.Expr) *filterNames {
	n := &filterNames{unseen: map[string]bool{}, known: map[string]bool{}}
	if e == nil {
		return n
	}
	for _, p := range e.Refs() {
		name, own := p[0].Name, true
		if name == "item" && len(p) > 1 && p[1].Name != "" {
			name, own = p[1].Name, false
		}
		if name != "" && !(own && slices.Contains(letterNames(), name)) {
			n.unseen[name] = true
		}
	}
	return n
}

// note adds the names of an item's fields.
func (n *filterNames) note(l journal.DeadLetter) {
	if len(n.unseen) == 0 {
		return
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(l.Item, &fields) != nil {
		return // not an object, so it has no fields
	}
	for name := range fields {
		delete(n.unseen, name)
		n.known[name] = true
	}
}

// err reports the names that no dead letter has.
func (n *filterNames) err() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(n.unseen)) {
		hint := cmp.Or(diag.DidYouMean(name, append(slices.Sorted(maps.Keys(n.known)), letterNames()...)), "see bide dlq --help")
		if _, isClass := driver.MatcherByName(name); isClass || name == "exit" || name == "conflict" || name == "agent" {
			hint = fmt.Sprintf("for a class write class == %q", name)
		}
		errs = append(errs, fmt.Errorf("--filter: no dead letter and no item has %s; %s", visible(name), hint))
	}
	return misused(errs...)
}

// checkNames reports the names of a filter that no dead letter of a run has.
func checkNames(ctx context.Context, r *journal.Reader, f letterFilter) error {
	names, some := namesOf(f.expr), false
	for l, err := range r.DeadLetters(ctx, journal.DeadLetterFilter{}) {
		if len(names.unseen) == 0 {
			break
		}
		if err != nil {
			return err
		}
		some = true
		names.note(l)
	}
	if !some {
		return nil // every name is known
	}
	return names.err()
}

// eachLetter calls each with the dead letters of a run that match.
func eachLetter(ctx context.Context, r *journal.Reader, f letterFilter, each func(*letterInfo, journal.DeadLetter) error) error {
	for l, err := range r.DeadLetters(ctx, f.journal()) {
		if err != nil {
			return err
		}
		if ok, err := f.accept(l); err != nil {
			return err
		} else if !ok {
			continue
		}
		i, err := letterOf(l)
		if err != nil {
			return err
		}
		i.Run = r.Run()
		if err := each(i, l); err != nil {
			return err
		}
	}
	return nil
}

// check reports what the filter names and the run does not have.
func (f letterFilter) check(ctx context.Context, r *journal.Reader, tell func(string, ...any)) error {
	if err := resolveItems(ctx, r, tell, f.ids); err != nil {
		return err
	}
	return checkNames(ctx, r, f)
}
