package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

// entry is a run in the list of runs.
type entry struct {
	ID, Name, Path, Kind, Status string
	Started, Finished            time.Time
	Latest                       time.Time // of its last event; zero while it is not known
	Items                        journal.Counts
	Steps                        event.Counts
	Step                         string // the step that runs or has failed
	Message                      string
	Params                       string        // as they were given, for the search
	OnMachines                   bool          // other machines have the run, or had it
	ran                          time.Duration // how long processes had it, until since
	since                        time.Time
	version                      int64 // of the list, when it changed last
	stamp                        stamp
}

// stamp tells whether a run's journal may have changed.
type stamp struct {
	db, wal int64 // times of their last change, in ns
	size    int64
}

// list knows all runs. Those that are over are read once; a run is read again
// when its files have changed.
type list struct {
	st   *journal.Store
	runs *runs

	mu      sync.Mutex
	entries map[string]*entry
	order   []string // ids, newest first
	version int64    // counts the changes
	over    int64    // counts those of runs that are over
	many    int      // runs that are on many machines, or were

	rolling int
	err     error
}

const (
	lookEvery = time.Second // how often the list looks for news
	// recent is how many of the newest runs are looked at each time; of the
	// others, as many in turn.
	recent = 200
)

// watch keeps the list until ctx ends.
func (l *list) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		l.refresh(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// refresh looks for runs that are new, gone or changed.
func (l *list) refresh(ctx context.Context) {
	ids, err := l.ids()
	l.mu.Lock()
	l.err = err
	if err == nil {
		l.setOrder(ids)
	}
	look := l.due()
	l.mu.Unlock()
	for _, id := range look {
		if ctx.Err() != nil {
			return
		}
		l.lookAt(ctx, id)
	}
}

// overVersion is how often a run that is over has changed.
func (l *list) overVersion() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// touch has the pages that show the list ask for it again.
func (l *list) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
}

// ids gives the ids of the runs, newest first.
func (l *list) ids() ([]string, error) {
	dir := filepath.Join(l.st.Dir, "runs")
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	out := make([]string, 0, len(names))
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), ".") {
			out = append(out, n.Name())
		}
	}
	slices.Reverse(out) // ReadDir sorts them
	return out, nil
}

// setOrder takes the ids that there are. l.mu is held.
func (l *list) setOrder(ids []string) {
	if l.entries == nil {
		l.entries = map[string]*entry{}
	}
	there := make(map[string]bool, len(ids))
	for _, id := range ids {
		there[id] = true
	}
	for id := range l.entries {
		if !there[id] {
			l.put(id, nil)
			l.version++
			l.over++
		}
	}
	l.order = ids
}

// due gives the runs to look at now: those never read, those that run, the
// newest, and some of the others in turn. l.mu is held.
func (l *list) due() []string {
	var out []string
	n := len(l.order)
	for i, id := range l.order {
		e := l.entries[id]
		turn := n > 0 && (i-l.rolling%n+n)%n < recent
		if e == nil || i < recent || turn || e.Status == event.Running {
			out = append(out, id)
		}
	}
	l.rolling += recent
	return out
}

func (l *list) lookAt(ctx context.Context, id string) {
	s, err := stampOf(l.st.RunDir(id))
	if err != nil {
		return // removed since
	}
	l.mu.Lock()
	old := l.entries[id]
	l.mu.Unlock()
	if old != nil && old.stamp == s && old.Status != event.Running {
		return
	}
	e := l.readEntry(ctx, id)
	if ctx.Err() != nil {
		return
	}
	e.stamp = s
	l.mu.Lock()
	defer l.mu.Unlock()
	same := false
	if old != nil {
		before := *old
		before.stamp, e.version = s, before.version
		same = before == e
	}
	if !same {
		l.version++
		e.version = l.version
	}
	if !same && (e.Status != event.Running || old != nil && old.Status != event.Running) {
		l.over++
	}
	l.put(id, &e)
}

// put sets what is known of a run; nil: it is gone. l.mu is held.
func (l *list) put(id string, e *entry) {
	if old := l.entries[id]; old != nil && old.OnMachines {
		l.many--
	}
	if e == nil {
		delete(l.entries, id)
		return
	}
	if e.OnMachines {
		l.many++
	}
	value.Put(&l.entries, id, e)
}

// onMachines is how many runs are on many machines, or were.
func (l *list) onMachines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.many
}

// entry gives a copy of what is known of a run; nil where that is nothing.
func (l *list) entry(id string) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	if e == nil {
		return nil
	}
	known := *e
	return &known
}

func stampOf(dir string) (s stamp, err error) {
	info, err := os.Stat(filepath.Join(dir, "journal.db"))
	if err != nil {
		return s, err
	}
	s.db, s.size = info.ModTime().UnixNano(), info.Size()
	if wal, err := os.Stat(filepath.Join(dir, "journal.db-wal")); err == nil {
		s.wal = wal.ModTime().UnixNano()
		s.size += wal.Size()
	}
	return s, nil
}

// unreadable is the status of a run whose journal cannot be read.
const unreadable = timeline.Unreadable

// readEntry reads what the list tells of a run: of one that is over, its header
// and its last event.
func (l *list) readEntry(ctx context.Context, id string) entry {
	e := entry{ID: id}
	r, err := l.st.Read(id)
	if err != nil {
		e.Status, e.Message = unreadable, err.Error()
		return e
	}
	defer r.Close() // it was read only: there is nothing to lose
	h := r.Header()
	e.Name, e.Path, e.Kind, e.Started, e.Params = h.Title(), h.Path, h.Kind, h.Started, paramsOf(h)
	e.Name = cmp.Or(e.Name, filepath.Base(h.Path))
	e.OnMachines = r.IsElsewhere()
	if err := l.fill(ctx, &e, r); err != nil {
		e.Status, e.Message = unreadable, err.Error()
	}
	return e
}

func (l *list) fill(ctx context.Context, e *entry, r *journal.Reader) error {
	held, err := r.InUse()
	if err != nil {
		return err
	}
	last, err := r.Last(ctx)
	if err != nil {
		return err
	}
	if !held && last > 0 {
		events, err := r.At(ctx, []int64{last})
		if err != nil {
			return err
		}
		if end := events[0]; end.Type == event.RunFinished {
			resumed, err := resumedSoon(ctx, r, e.Started)
			if err != nil {
				return err
			}
			if e.ended(end, resumed) {
				return nil
			}
		}
	}
	if held {
		// Its fold continues where it was.
		return l.runs.with(e.ID, func(r *run) error {
			return r.look(ctx, func() { e.tell(r.line, &r.items) })
		})
	}
	line := timeline.New(r.Header())
	var it items
	_, err = r.Scan(ctx, 1, func(f *journal.Fact) error {
		it.take(f)
		return line.Take(f)
	})
	line.Gone()
	err = errors.Join(err, it.examples(ctx, r))
	e.tell(line, &it)
	return err
}

// ended takes the event that ended the run, and says whether it tells all that
// the list does. resumed says that another process had begun it, soon before.
func (e *entry) ended(end event.Event, resumed bool) bool {
	var d struct {
		Items  journal.Counts  `json:"items"`
		Steps  event.Counts    `json:"steps"`
		Errors []journal.Cause `json:"errors"`
	}
	lacks := func(c journal.Cause) bool { return c.Example == "" }
	if end.Status == event.Failed || json.Unmarshal(end.Data, &d) != nil || slices.ContainsFunc(d.Errors, lacks) {
		return false // which step has failed is told by the steps
	}
	e.ran = time.Duration(end.DurationMS) * time.Millisecond
	if resumed || end.Time.Sub(e.Started) > e.ran+idle {
		return false // this is how long its last process had it
	}
	e.Status, e.Finished, e.Latest, e.Message, e.Items, e.Steps = end.Status, end.Time, end.Time, end.Message, d.Items, d.Steps
	if c := mostFrequent(d.Errors); e.Status == event.CompletedWithFailures && c.Count > 0 {
		e.Message = itemsFailed(c.Count, d.Items.Failed, c.Class, c.Example)
	}
	return true
}

// resumedSoon reports whether a second process took a run within the first moment of it:
// the times of its last event do not tell, see idle.
func resumedSoon(ctx context.Context, r *journal.Reader, started time.Time) (resumed bool, err error) {
	_, err = r.Scan(ctx, 1, func(f *journal.Fact) error {
		if resumed = f.Type() == event.RunResumed; resumed || f.Time().After(started.Add(idle)) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return resumed, err
}

// errEnough ends the reading of events.
var errEnough = errors.New("enough")

// idle is how long a run of one process may have been made before it began.
const idle = time.Second

// tell takes what a fold over the run's events says.
func (e *entry) tell(line *timeline.Timeline, it *items) {
	e.since = line.Latest
	e.ran = line.Took(e.since)
	e.Status, e.Finished, e.Latest, e.Message, e.Items = cmp.Or(line.Status, event.Running), line.Finished, line.Latest, line.Message, it.tally()
	e.Items.KindCounts = line.ItemKinds
	if first := it.firstGroup(); e.Status == event.CompletedWithFailures && first != nil {
		e.Message = itemsFailed(first.Count, e.Items.Failed, first.Class, first.Example)
	}
	for _, row := range line.Rows() {
		if row.Kind != timeline.Step || event.Aside(row.Path) {
			continue
		}
		if n := e.Steps.Of(row.Status); n != nil {
			*n++
		}
		switch row.Status {
		case event.Failed, event.Running, timeline.Waiting, event.Interrupted:
			e.Step = row.Label
		}
	}
}

// mostFrequent is the cause of which there are most.
func mostFrequent(list []journal.Cause) (most journal.Cause) {
	for _, c := range list {
		if c.Count > most.Count {
			most = c
		}
	}
	return most
}

// firstGroup is the group of dead letters that has most of them; nil where there is none.
func (t *items) firstGroup() (first *group) {
	for _, g := range t.groups {
		if g.Count > 0 && (first == nil || g.Count > first.Count || g.Count == first.Count && g.ID < first.ID) {
			first = g
		}
	}
	return first
}

// itemsFailed says of what most items failed.
func itemsFailed(n, all int, class, example string) string {
	text := fmt.Sprintf("%s × %s: %s", timeline.Number(n), class, example)
	if all > n {
		text = fmt.Sprintf("%s × %s, %s otherwise: %s", timeline.Number(n), class, timeline.Number(all-n), example)
	}
	return text
}

// paramsOf is what a run was started with, for the search.
func paramsOf(h journal.Header) string {
	var parts []string
	for _, v := range h.Given() {
		parts = append(parts, v.Name+"="+v.Value)
	}
	var o struct {
		Args []string `json:"args"`
	}
	if json.Unmarshal(h.Options, &o) == nil {
		parts = append(parts, o.Args...)
	}
	return diag.ClipBytes(strings.Join(parts, " "), 2000)
}

// query says which runs are wanted.
type query struct {
	Text     string
	Statuses []string
	From     int // how many of those that fit are left out
}

func (q *query) fits(e *entry) bool {
	if len(q.Statuses) > 0 && !slices.Contains(q.Statuses, e.Status) {
		return false
	}
	for _, word := range strings.Fields(strings.ToLower(q.Text)) {
		if !strings.Contains(strings.ToLower(e.Name), word) && !strings.Contains(strings.ToLower(e.Params), word) &&
			!strings.Contains(strings.ToLower(e.ID), word) && !strings.Contains(strings.ToLower(e.Path), word) {
			return false
		}
	}
	return true
}

// found is a page of the list.
type found struct {
	Entries []entry
	Fit     int // how many runs fit
	All     int
	ToRead  int // runs that were not read yet
	// OnMachines is how many runs in progress are on many machines, whether they fit or not.
	OnMachines int
	Counts     map[string]int
	Version    int64
}

// find gives at most n of the runs that fit, newest first.
func (l *list) find(q query, n int) (found, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := found{All: len(l.order), Counts: map[string]int{}, Version: l.version}
	any := query{Text: q.Text}
	for _, id := range l.order {
		e := l.entries[id]
		if e == nil {
			out.ToRead++
			continue
		}
		if e.OnMachines && e.Status == event.Running {
			out.OnMachines++
		}
		if any.fits(e) {
			out.Counts[e.Status]++
		}
		if !q.fits(e) {
			continue
		}
		if out.Fit++; out.Fit > q.From && len(out.Entries) < n {
			out.Entries = append(out.Entries, *e)
		}
	}
	return out, l.err
}

// all gives copies of all entries that were read.
func (l *list) all() []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]*entry, 0, len(l.entries))
	for _, id := range l.order {
		if e := l.entries[id]; e != nil {
			kept := *e
			list = append(list, &kept)
		}
	}
	return list
}

// since gives the entries that changed after a version of the list.
func (l *list) since(version int64) (changed []entry, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version == l.version {
		return nil, l.version
	}
	for _, id := range l.order {
		if e := l.entries[id]; e != nil && e.version > version {
			changed = append(changed, *e)
		}
	}
	return changed, l.version
}
