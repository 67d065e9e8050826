package unchanged

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// earlierRuns is how many earlier runs are looked at for what they know of items.
const earlierRuns = 16

// known is what is known of an item of this run, 56 bytes.
type known struct {
	id, whole            sum
	seq                  int64
	index                uint32
	steps, values, files tag
	run                  uint8 // its place in comparison.runs, from 1; 0: nothing is known
	state                journal.ItemStatus
}

// comparison finds out which items of a map are unchanged since an earlier run. It
// needs 56 bytes for each item, and 8 for each of a run that is looked at.
type comparison struct {
	m     *Map
	s     *prints
	items []known
	left  int // of which nothing is known yet
	runs  []*journal.Reader
	tags  map[*journal.Reader]*compared // what the runs have recorded of their values
	// landed are the merges by which the work of items came to the branch.
	landed []*worktree.Landed

	unchanged int
	since     string         // the youngest run that an unchanged item is of
	counts    map[string]int // items that run, by kind of reason
	unsure    map[string]int // those of kind whyUnknown, by reason
}

// compared is the data of items_compared.
type compared struct {
	Runs   []string          `json:"runs,omitempty"`
	Why    map[string]int    `json:"why,omitempty"`    // items that run, by reason
	Steps  string            `json:"steps,omitempty"`  // the tag of the steps
	Values map[string]string `json:"values,omitempty"` // tags of the values that the steps name, and of the environment
	// Reasons are why items run, in words, and Of says in an octet for each item which
	// of them holds, from 1; 0 for none. It is deflated.
	Reasons []string `json:"reasons,omitempty"`
	Of      []byte   `json:"reason_of,omitempty"`
}

// The kinds of reasons for which an item runs.
const (
	whyNew     = "new"
	whyFailed  = "failed"
	whySteps   = "steps"
	whyValues  = "values"
	whyFiles   = "files"
	whyUnknown = "unknown"
)

// Compare decides which items are unchanged since an earlier run, once in all
// lives of the run, and records their ends.
func (m *Map) Compare(ctx context.Context) (err error) {
	if m.prints, err = m.newPrints(ctx); err != nil {
		return err
	}
	if m.State.Compared {
		return m.restoreWhy(ctx)
	}
	c := comparison{m: m, s: m.prints, counts: map[string]int{}, unsure: map[string]int{}, tags: map[*journal.Reader]*compared{}}
	defer func() {
		for _, old := range c.runs {
			err = errors.Join(err, old.Close())
		}
	}()
	if !m.All {
		until, stop := m.Executor.Life.Until(ctx) // no step runs yet, to which an interrupt would leave time
		defer stop()
		if err := c.all(until); err != nil {
			return fmt.Errorf("map.skip_unchanged: %w", err)
		}
	}
	return c.record()
}

// all decides about all items.
func (c *comparison) all(ctx context.Context) error {
	if err := c.list(ctx); err != nil {
		return err
	}
	if err := c.ask(ctx); err != nil {
		return err
	}
	slices.SortFunc(c.items, func(a, b known) int { return cmp.Compare(a.index, b.index) })
	c.s.compared = map[string]sum{}
	defer func() { c.s.compared = nil }()
	const chunk = 256
	for list := range slices.Chunk(c.items, chunk) {
		if err := c.decide(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

// list takes the items of this run, by which they are.
func (c *comparison) list(ctx context.Context) error {
	c.items = make([]known, 0, c.m.Total)
	for from := 1; ; {
		page, err := c.m.Journal.Items(ctx, from, 1024)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, it := range page {
			if d := c.m.State.Items.Edited(it.Index); d != nil {
				it.Data = d
			}
			if !c.m.State.Items.At(it.Index).Status.Done() {
				c.items = append(c.items, known{id: c.s.id(it.Data), index: uint32(it.Index)})
			}
			from = it.Index + 1
		}
	}
	c.unchanged = c.m.State.Items.Counts().Unchanged // of a life that was cut short
	c.left = len(c.items)
	slices.SortFunc(c.items, func(a, b known) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.index, b.index))
	})
	return nil
}

// ask looks what earlier runs know, the last one first, until all is known.
func (c *comparison) ask(ctx context.Context) error {
	h := c.m.Journal.Header()
	ids, err := c.m.Store.Earlier(c.m.Journal.Run(), earlierRuns, func(o journal.Header) bool {
		return o.Name == h.Name && o.Path == h.Path && o.Dir == h.Dir && o.Kind == h.Kind
	}, c.lost)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if c.left == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		old, err := c.m.Store.Read(id)
		if err == nil {
			c.runs = append(c.runs, old)
			err = c.read(ctx, old)
		}
		if err != nil && ctx.Err() == nil {
			c.lost(id, err)
		}
	}
	return nil
}

// lost tells of a run whose journal cannot be read: what it alone knew runs again.
func (c *comparison) lost(run string, err error) {
	c.m.Executor.Note("skip_unchanged: run %s cannot be read, and what only it has ended runs again: %v", run, err)
}

// read takes what a run knows of the items of this one.
func (c *comparison) read(ctx context.Context, old *journal.Reader) error {
	run := uint8(len(c.runs))
	// Those that were cut short, or whose run kept no fingerprints: they may have
	// undone what an older run knows. It is their data that says which they were.
	type bareItem struct {
		index int
		state journal.ItemStatus
	}
	var bare []bareItem
	err := old.Lasts(ctx, func(index int, seq int64, state journal.ItemStatus, data string) error {
		p, ok := printOf(data)
		if !ok {
			if state.Done() {
				state = journal.ItemPending
			} else {
				state = journal.ItemRunning
			}
			bare = append(bare, bareItem{index, state})
			return nil
		}
		c.found(known{id: p.id, whole: p.whole, seq: seq, steps: p.steps, values: p.values, files: p.files, run: run, state: state})
		return nil
	})
	if err != nil || len(bare) == 0 {
		return err
	}
	slices.SortFunc(bare, func(a, b bareItem) int { return cmp.Compare(a.index, b.index) })
	for len(bare) > 0 && c.left > 0 {
		page, err := old.Items(ctx, bare[0].index, 1024)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, it := range page {
			if len(bare) > 0 && bare[0].index == it.Index {
				c.found(known{id: c.s.id(it.Data), run: run, state: bare[0].state})
				bare = bare[1:]
			}
		}
	}
	return nil
}

// found notes what a run knows of an item, where no younger one knows it. Of items
// that are alike, each is known once.
func (c *comparison) found(k known) {
	i, ok := slices.BinarySearchFunc(c.items, k.id, func(e known, id sum) int { return bytes.Compare(e.id[:], id[:]) })
	if !ok {
		return
	}
	for ; i < len(c.items) && c.items[i].id == k.id; i++ {
		if c.items[i].run == 0 {
			k.index = c.items[i].index
			c.items[i] = k
			c.left--
			return
		}
	}
}

// decide decides about some items, in their order.
func (c *comparison) decide(ctx context.Context, list []known) error {
	ends, err := c.ends(ctx, list)
	if err != nil {
		return err
	}
	var facts []event.Event
	for i := 0; i < len(list); {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		page, err := c.m.Items(ctx, int(list[i].index), 256)
		if err != nil {
			return err
		}
		for _, it := range page {
			if i == len(list) {
				break
			}
			if it.Index != int(list[i].index) {
				continue
			}
			fact, err := c.one(ctx, &list[i], it, ends[i])
			if err != nil {
				return err
			}
			if fact != nil {
				facts = append(facts, *fact)
			}
			i++
		}
	}
	if len(facts) == 0 {
		return nil
	}
	if err := c.m.Executor.Recorder.Record(facts...); err != nil {
		return err
	}
	for _, f := range facts {
		if err := c.m.State.Apply(f); err != nil {
			return err
		}
	}
	return nil
}

// ends reads how the items ended in earlier runs; the zero event where it is not
// known.
func (c *comparison) ends(ctx context.Context, list []known) ([]event.Event, error) {
	out := make([]event.Event, len(list))
	for n, old := range c.runs {
		var at []int
		var seqs []int64
		for i, k := range list {
			if int(k.run) == n+1 && k.seq > 0 {
				at, seqs = append(at, i), append(seqs, k.seq)
			}
		}
		if len(seqs) == 0 {
			continue
		}
		events, err := old.At(ctx, seqs)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return nil, cause
			}
			c.lost(old.Run(), err)
			continue // they run
		}
		for i, e := range events {
			out[at[i]] = e
		}
	}
	return out, nil
}

// one decides about an item: it gives the end of one that is unchanged, or notes
// why it runs.
func (c *comparison) one(ctx context.Context, k *known, it event.Item, end event.Event) (*event.Event, error) {
	kind, why := c.older(k, end)
	if kind == whyNew { // nothing to compare it with
		c.because(it.Index, kind, why)
		return nil, nil
	}
	stored, err := c.m.Stored(ctx, it)
	if err != nil {
		return nil, err
	}
	var d mapper.Result
	if kind == "" {
		now := c.s.item(ctx, c.m.Place, stored, it)
		if err := context.Cause(ctx); err != nil {
			return nil, err // it is not for want of anything that it could not be read
		}
		if kind, why = c.differ(k, &now, end); kind == "" {
			kind, why = c.usable(ctx, it, end, &d)
		}
	}
	if kind != "" {
		c.because(it.Index, kind, why)
		return nil, nil
	}
	c.unchanged++
	c.since = max(c.since, "run "+d.Since)
	return &event.Event{Type: event.ItemFinished, Time: c.m.Executor.Clock.Now(), Phase: "map", Item: it.ID, Label: c.m.Label(it), Index: it.Index,
		Status: event.Unchanged, Message: "unchanged since run " + d.Since, Data: step.Data(d)}, nil
}

// older looks at how an item ended; kind is "" where it ended well.
func (c *comparison) older(k *known, end event.Event) (kind, why string) {
	if k.run == 0 {
		return whyNew, "new"
	}
	run := c.runs[k.run-1].Run()
	switch {
	case k.state == journal.ItemFailed, k.state == journal.ItemDeadLettered:
		return whyFailed, "failed in run " + run
	case k.state == journal.ItemSkipped:
		return whyFailed, "skipped in run " + run
	case k.state == journal.ItemRunning:
		return whyFailed, "cut short in run " + run
	case k.state == journal.ItemPending || end.Seq == 0:
		return whyUnknown, noPrint(run)
	}
	return "", ""
}

// differ says what has changed since an item ended well; kind is "" for nothing.
func (c *comparison) differ(k *known, now *imprint, end event.Event) (kind, why string) {
	switch {
	case now.unsure != "":
		return whyUnknown, now.unsure
	case k.whole == (sum{}):
		return whyUnknown, noPrint(c.runs[k.run-1].Run())
	case now.whole == k.whole:
		return "", ""
	case now.steps != k.steps:
		return whySteps, "its steps have changed"
	case now.values != k.values:
		return whyValues, c.value(c.runs[k.run-1]) + " has changed"
	case now.files != k.files:
		return whyFiles, c.file(now, end) + " has changed"
	}
	return whyUnknown, "its place in the list has changed, which its steps read"
}

// value names a value that has changed since a run.
func (c *comparison) value(old *journal.Reader) string {
	then := c.tags[old]
	if then == nil {
		then = &compared{}
		for e, err := range old.Events(context.Background(), 1, journal.EventFilter{Types: []event.Type{event.ItemsCompared}}) {
			if err != nil || json.Unmarshal(e.Data, then) != nil {
				then = &compared{}
				break
			}
		}
		c.tags[old] = then
	}
	return changedName(then.Values, c.s.named, "a value that its steps name")
}

// file names a file that has changed since an item ended.
func (c *comparison) file(now *imprint, end event.Event) string {
	var d mapper.Result
	if json.Unmarshal(end.Data, &d) != nil {
		return "a file"
	}
	return changedName(d.Inputs, now.inputs, "a file")
}

// changedName is the first name whose tags differ.
func changedName(then, now map[string]string, other string) string {
	first := ""
	for _, m := range []map[string]string{then, now} {
		for name := range m {
			if then[name] != now[name] && (first == "" || name < first) {
				first = name
			}
		}
	}
	if len(then) == 0 || first == "" {
		return other
	}
	return strings.TrimPrefix(first, "env.")
}

// usable takes what an item gave in an earlier run, where all of it is there.
func (c *comparison) usable(ctx context.Context, it event.Item, end event.Event, d *mapper.Result) (kind, why string) {
	if err := json.Unmarshal(end.Data, d); err != nil {
		return whyUnknown, "run " + end.Run + " does not say what it gave"
	}
	d.Since = cmp.Or(d.Since, end.Run)
	if d.Kind != "" && d.Kind != event.Recovered {
		return whyFailed, d.Kind + " in run " + d.Since
	}
	if len(d.Commits) > 0 {
		if why := c.undone(ctx, d); why != "" {
			return whyUnknown, why
		}
	}
	if name := c.lacks(it); name != "" {
		return whyUnknown, c.m.Env.Mask().String(name) + ", which it wrote in run " + d.Since + ", is gone"
	}
	if d.File != "" {
		name, err := c.m.takeOutput(it.Index, d.File)
		if err != nil {
			return whyUnknown, "its output of run " + d.Since + " is gone"
		}
		d.File = name
	}
	if _, err := os.Stat(d.Log); err != nil {
		d.Log = ""
	}
	d.Worktree = ""
	return "", ""
}

// lacks gives a file that the steps of an item write in any case, by output_file or
// write_file, and that is not there; "" for none. In a worktree of the item it is its
// commits that say so.
func (c *comparison) lacks(it event.Item) string {
	p := c.m.Place
	var err error
	if p.Scope, err = p.Scope.ForItem(it, c.m.Total, 0); err != nil {
		return ""
	}
	for _, s := range c.m.File.Map.Template.Steps {
		text := s.OutputFile
		if a, ok := s.Action.(*workflow.WriteFile); ok && s.WorkingDir == nil {
			text = a.Path
		}
		if text == nil || s.When != nil || !isKnown(p, text) {
			continue
		}
		name, err := text.Expand(p.Scope)
		if err != nil || c.m.Isolated && !filepath.IsAbs(name) {
			continue
		}
		if _, err := p.File(text, name).Stat(); errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
	return ""
}

// undone says why what an item has committed is not in what the run works on; "" where it is.
func (c *comparison) undone(ctx context.Context, d *mapper.Result) string {
	missing := "its commits of run " + d.Since + " are not in the branch (not merged, or squashed or rebased)"
	if c.m.Repo == nil {
		return missing
	}
	tip := d.Commits[len(d.Commits)-1]
	i := slices.IndexFunc(c.landed, func(l *worktree.Landed) bool { return l.Has(tip) })
	if i < 0 {
		l, err := c.m.Repo.LandedWith(ctx, tip)
		if err != nil || l == nil {
			return missing
		}
		i = len(c.landed)
		c.landed = append(c.landed, l)
	}
	if gone, err := c.landed[i].Undone(ctx, d.Commits, d.Files); err != nil || gone {
		return "what it changed in run " + d.Since + " was undone since, or is gone"
	}
	return ""
}

// takeOutput takes over the file of an item's output from another run, which may
// be removed before this one is.
func (m *Map) takeOutput(index int, from string) (string, error) {
	const name = "unchanged" // which no step writes to: it may be the other run's file by another name
	to := m.Journal.OutputFile(index, name, 1, "output")
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a life that was cut short
		return "", err
	}
	if os.Link(from, to) == nil {
		return to, nil
	}
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	out, err := m.Journal.NewOutput(index, name, 1, "output")
	if err != nil {
		return "", errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	return to, errors.Join(err, out.Close(), in.Close())
}

// record tells what was decided.
func (c *comparison) record() error {
	m := c.m
	d := compared{Why: c.counts, Steps: c.s.steps.tag().String(), Values: c.s.named, Reasons: m.why.text, Of: deflated(m.why.of)}
	for _, old := range c.runs {
		d.Runs = append(d.Runs, old.Run())
	}
	e := event.Event{Type: event.ItemsCompared, Phase: "map", Total: c.unchanged, Message: c.text(m.Total), Data: step.Data(d)}
	if err := m.Executor.Recorder.Record(e); err != nil {
		return err
	}
	return m.State.Apply(e)
}
