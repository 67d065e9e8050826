package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

// itemPage is how many work items are read at once.
const itemPage = 1000

// nearAmong limits the names that are compared with a misspelt one.
const nearAmong = 10_000

// called is the name of an event's item for a person; "" if the event has no item.
func called(e event.Event) string {
	if e.Type != event.ItemStarted && e.Type != event.ItemFinished && e.Type != event.ItemRetry {
		return oneLine(e.Item) // its label is that of a step
	}
	return oneLine(cmp.Or(e.Label, e.Item))
}

// itemNames are the names of the items of a run, according to its events.
type itemNames struct {
	ctx   context.Context
	r     *journal.Reader
	known map[int]string // by Index

	steps *timeline.Labels // created when needed, with edits
	edits map[int][]edit   // by Index, those of the items' data, the oldest first
}

// edit is the data of an item since the event with this number.
type edit struct {
	seq  int64
	data json.RawMessage
}

// at is an item as it was at the event with a number; 0 means now.
func (n *itemNames) at(index int, seq int64) (event.Item, error) {
	it, err := n.r.Item(n.ctx, index)
	for _, e := range n.edits[index] {
		if seq == 0 || e.seq < seq {
			it.Data = e.data
		}
	}
	return it, err
}

// readEdits finds the edits of all items.
func (n *itemNames) readEdits() {
	n.edits = map[int][]edit{}
	for e, err := range n.r.Events(n.ctx, 1, journal.EventFilter{Types: []event.Type{event.ItemRequeued}}) {
		if err != nil {
			return // only a name is affected
		}
		if data := e.EditedItem(); data != nil {
			n.edits[e.Index] = append(n.edits[e.Index], edit{e.Seq, data})
		}
	}
}

func namesIn(ctx context.Context, r *journal.Reader) *itemNames {
	return &itemNames{ctx: ctx, r: r, known: map[int]string{}}
}

// step is the name of an event's step for a person. For a step of an item, the item's values
// are filled in.
func (n *itemNames) step(e event.Event) string { return n.stepOf(e.Step, e.Label, e.Index, e.Seq) }

// stepOf is like step, at the event with a number; 0 means now.
func (n *itemNames) stepOf(path, label string, index int, seq int64) string {
	if index == 0 || label != "" && !strings.Contains(label, "$") {
		return cmp.Or(label, path)
	}
	if n.steps == nil {
		total := 0
		if st, err := n.r.State(n.ctx); err == nil {
			total = st.Items.Counts().Total
		}
		n.steps = timeline.LabelsOf(n.r.Header(), total)
		n.readEdits()
	}
	return cmp.Or(n.steps.Of(path, label, func() (event.Item, error) { return n.at(index, seq) }), path)
}

// of is the name of an event's item; "" if it has none.
func (n *itemNames) of(e event.Event) string {
	if e.Index == 0 {
		return ""
	}
	name := called(e)
	if e.Label == "" || name == oneLine(e.Item) {
		if name = n.known[e.Index]; name == "" {
			it, err := n.r.Item(n.ctx, e.Index)
			if err != nil {
				return oneLine(e.Item)
			}
			name = oneLine(it.Name())
		}
	}
	if len(n.known) < nearAmong {
		n.known[e.Index] = name
	}
	return name
}

// findItem finds the work item that a person means: by its id, else by the name or the label
// that bide shows, else by its index. If there is none, its Index is 0, and near is a hint to
// append to a message.
func findItem(ctx context.Context, r *journal.Reader, name string) (it event.Item, near string, err error) {
	index, err := r.IndexOf(ctx, name)
	if err != nil {
		return event.Item{}, "", err
	}
	if index > 0 {
		it, err = r.Item(ctx, index)
		return it, "", err
	}
	var names []string
	var found []event.Item
	for from := 1; ; {
		list, err := r.Items(ctx, from, itemPage)
		if err != nil {
			return event.Item{}, "", err
		}
		for _, it := range list {
			is := it.Name()
			if oneLine(is) == name || is == name || is == it.ID+" ("+name+")" {
				found = append(found, it)
			}
			if len(names) < nearAmong {
				names = append(names, is)
			}
		}
		if len(list) == 0 {
			break
		}
		from = list[len(list)-1].Index + 1
	}
	if len(names) == 0 {
		return event.Item{}, "; it has no work items", nil
	}
	if len(found) == 0 {
		if found, err = labelled(ctx, r, name); err != nil {
			return event.Item{}, "", err
		}
	}
	if index, err := strconv.Atoi(name); err == nil && len(found) == 0 && index >= 0 {
		if found, err = r.Items(ctx, index+1, 1); err != nil {
			return event.Item{}, "", err
		}
		found = value.Filter(found, func(it event.Item) bool { return it.Index == index+1 })
	}
	switch {
	case len(found) == 1:
		return found[0], "", nil
	case len(found) > 1:
		return event.Item{}, "", usagef("%d items of run %s are called %s: name one by its id, %s, …", len(found), shortRun(r.Run()), visible(name),
			strings.Join([]string{visible(found[0].ID), visible(found[1].ID)}, ", "))
	}
	part, err := itemWith(ctx, r, name)
	if err != nil {
		return event.Item{}, "", err
	}
	if part.Index > 0 {
		return event.Item{}, fmt.Sprintf("; did you mean %q?", oneLine(part.Name())), nil
	}
	if hint := diag.DidYouMean(name, names); hint != "" && len(name) > 2 {
		return event.Item{}, "; " + hint, nil
	}
	return event.Item{}, fmt.Sprintf("; it has %s", someOf(names)), nil
}

// itemWith is the only item whose name has a word in it, as csv/37.csv has 37; its Index is 0 if
// there is none, or more than one. It looks at the first items of a long list.
func itemWith(ctx context.Context, r *journal.Reader, word string) (only event.Item, err error) {
	for from := 1; from <= nearAmong; {
		list, err := r.Items(ctx, from, itemPage)
		if err != nil || len(list) == 0 {
			return only, err
		}
		for _, it := range list {
			switch {
			case !holdsWord(oneLine(it.Name()), word):
			case only.Index > 0:
				return event.Item{}, nil
			default:
				only = it
			}
		}
		from = list[len(list)-1].Index + 1
	}
	return only, nil
}

// holdsWord reports whether a name has a word in it: a number that is no part of a longer
// number, or a text.
func holdsWord(name, word string) bool {
	digit := func(s string, at int) bool { return at >= 0 && at < len(s) && '0' <= s[at] && s[at] <= '9' }
	for from := 0; word != ""; {
		at := strings.Index(name[from:], word)
		if at < 0 {
			return false
		}
		at += from
		end := at + len(word)
		if !(digit(word, 0) && digit(name, at-1)) && !(digit(word, len(word)-1) && digit(name, end)) {
			return true
		}
		from = at + 1
	}
	return false
}

// itemWord is what a person writes for an item: its name, if that finds it, else its id.
func itemWord(ctx context.Context, r *journal.Reader, it event.Item) string {
	name := it.Name()
	if name == it.ID || strings.HasPrefix(name, it.ID+" (") {
		return it.ID
	}
	if found, _, err := findItem(ctx, r, name); err != nil || found.Index != it.Index {
		return it.ID
	}
	return name
}

// tellIndex reports that a number was taken as the index of an item, if it is in the name of
// another.
func tellIndex(ctx context.Context, r *journal.Reader, tell func(string, ...any), word string, it event.Item) error {
	if strings.Trim(word, "0123456789") != "" || holdsWord(oneLine(it.Name()), word) {
		return nil
	}
	other, err := itemWith(ctx, r, word)
	if err == nil && other.Index > 0 {
		tell("%s is the index of item %s (the first is 0); for item %s write its name", word, visible(it.Name()), visible(other.Name()))
	}
	return err
}

// someOf lists the first of many names.
func someOf(names []string) string {
	const most = 3
	some := value.Map(names[:min(most, len(names))], func(n string) string { return oneLine(n) })
	if len(names) > most {
		some = append(some, "…")
	}
	return strings.Join(some, ", ")
}

// labelled returns the items with a label.
func labelled(ctx context.Context, r *journal.Reader, label string) (found []event.Item, err error) {
	seen := map[int]bool{}
	for e, err := range r.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.ItemStarted, event.ItemFinished}}) {
		if err != nil {
			return nil, err
		}
		if e.Label == "" || seen[e.Index] || e.Label != label && called(e) != label {
			continue
		}
		seen[e.Index] = true
		found = append(found, event.Item{Index: e.Index, ID: e.Item})
	}
	return found, nil
}

// resolveItem is the id of the item that a person means; "" if there is none.
func resolveItem(ctx context.Context, r *journal.Reader, tell func(string, ...any), name string) (string, error) {
	if name == "" {
		return "", nil
	}
	names := []string{name}
	err := resolveItems(ctx, r, tell, names)
	return names[0], err
}

// resolveItems replaces what people call the items by their ids, and reports names that no
// work item has. It tells which item a number means, if that may be a surprise.
func resolveItems(ctx context.Context, r *journal.Reader, tell func(string, ...any), names []string) error {
	var errs []error
	for i, name := range names {
		it, near, err := findItem(ctx, r, name)
		switch {
		case errors.As(err, new(usageError)):
			errs = append(errs, err)
		case err != nil:
			return err
		case it.Index == 0:
			errs = append(errs, fmt.Errorf("run %s has no work item %s%s", shortRun(r.Run()), visible(name), near))
		default:
			if err := tellIndex(ctx, r, tell, name, it); err != nil {
				return err
			}
			names[i] = it.ID
		}
	}
	return misused(errs...)
}

// itemInstead finds the work item that a name for which there is no run belongs to, and the
// newest run that suits the command and has it; "" if there is none. Of an item that only has
// the name as a part, exact is false.
func (a *app) itemInstead(ctx context.Context, name string, arg runArg, err error) (run string, it event.Item, exact bool) {
	if missing, ok := errors.AsType[*journal.NotFoundError](err); !ok || name == "" || missing.Ambiguous || missing.Runs > 0 || len(missing.Near) > 0 {
		return "", it, false
	}
	last, err := a.meant(ctx, "", arg)
	if err != nil || last.ID == "" || arg.changes && last.other {
		return "", it, false
	}
	err = a.reading(last.ID, func(r *journal.Reader) (err error) {
		if it, _, err = findItem(ctx, r, name); err != nil || it.Index > 0 {
			exact = true
			return err
		}
		it, err = itemWith(ctx, r, name)
		return err
	})
	if err != nil || it.Index == 0 {
		return "", event.Item{}, false
	}
	return last.ID, it, exact
}

// orItem is the error for a RUN that names no run. It also names the work item that the user
// may have meant, of the newest run that suits the command.
func (a *app) orItem(ctx context.Context, name string, arg runArg, err error) error {
	run, it, exact := a.itemInstead(ctx, name, arg, err)
	if run == "" {
		return err
	}
	word := it.ID
	if err := a.reading(run, func(r *journal.Reader) error {
		word = itemWord(ctx, r, it)
		return nil
	}); err != nil {
		return err
	}
	which := "a work item of this name"
	if !exact {
		which = "the work item " + visible(it.Name())
	}
	word = diag.ShellWord(word)
	return usagef("there is no run %s; the last run%s has %s: bide logs --item %s; if it failed, bide dlq show %s, and bide dlq retry --item %s to run it again", visible(name), spaced(arg.what), which, word, word, word)
}
