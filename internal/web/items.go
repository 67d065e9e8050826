package web

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

// A cell is one work item in the grid of a map, in one byte: its status in the
// lower three bits, whether it needed more than one attempt, and in the upper
// four the place of its error class plus one; 14 is every class after the 13th. An
// item that is unchanged since an earlier run has a cell of its own, which those
// leave free.
const (
	cellStatus  = 0b0000_0111
	cellRetried = 0b0000_1000
	classShift  = 4
	maxClasses  = 14

	cellUnchanged = 0b1111_0100
)

// maxPoints bounds the waits that are kept to be drawn.
const maxPoints = 20_000

// items is the fold over the events of a run's work items: a few bytes for
// each item, and four for each event.
type items struct {
	cells []byte
	tries []uint16 // attempts at each item, the first 65,535
	again []uint16 // those that its steps made after the first; nil while there are none
	last  []uint32 // the number of each item's last event
	moved []uint32 // the number of the event that changed its cell last
	// prev gives, for the number of an event, that of the event before it of
	// the same item; 0 for none.
	prev    []uint32
	counts  [journal.ItemUnchanged + 1]int
	due     waiting
	classes []classCount
	letters map[int]letter
	groups  map[string]*group
	lacking bool             // a group has lost its example
	merging map[int]struct{} // items whose work waits to be merged
	// verified is the number of the last merge_verified that is green; 0 for none.
	verified int64
	left     map[int]bool // items whose work was left in a branch, and whether they succeeded
	leftBad  int          // how many of them did not
	rate     []bucket
	pace     timeline.Pace
	waits    []point
	skipped  int // waits that have no point
	// bands are the bounds between which a policy draws the delay after the attempt of a
	// number. policies are the steps whose own policies they are of, the first "" for that
	// of the items.
	bands    map[bandKey][2]time.Duration
	policies []string
	worked   time.Duration
	spent    time.Duration // of it, in attempts that failed
	requeued map[int]int64 // items that had failed for good and were run again: the event that says so
	rescued  int           // items that ended well after a failure
	began    map[int]int64 // when the attempt at an item began, in ns
	// lost is the time that failed attempts of steps took in the present attempt at each
	// item.
	lost map[int]time.Duration
}

type classCount struct {
	Class string
	Count int
}

// letter is an open dead letter.
type letter struct {
	group *group
	seq   int64 // the number of the event that tells of it
}

// group is the open dead letters of one class and one pattern of message.
type group struct {
	ID, Class, Pattern string
	Step               string // the failed one, where the pattern names no cause
	// Example is the message of one of them, the letter of the item of: "" and 0 from when
	// that one is none any more until another is read.
	Example string
	of      int
	Count   int
}

// bucket is what happened to items in one second.
type bucket struct {
	second                int64
	good, failed, retried uint32
}

// maxPolicies bounds the steps whose waits are told apart; those beyond are of the last.
const maxPolicies = 100

// bandKey is an attempt under one policy.
type bandKey struct{ of, attempt uint16 }

// point is a wait that happened.
type point struct {
	of      uint16 // its place in items.policies
	attempt uint16
	source  uint8 // its place in timeline.Sources
	delay   int32 // milliseconds
	at      int64 // ns since 1970
}

// take takes the next event of the run.
func (t *items) take(f *journal.Fact) {
	seq, index := f.Seq(), f.Index()
	for int64(len(t.prev)) <= seq {
		t.prev = append(t.prev, 0)
	}
	if index <= 0 {
		t.own(f)
		return
	}
	if index > maxItems {
		return
	}
	t.grow(index)
	i := index - 1
	t.prev[seq], t.last[i] = t.last[i], uint32(seq)
	before := t.cells[i]
	defer func() {
		if t.cells[i] != before {
			t.moved[i] = uint32(seq)
		}
	}()
	if f.Type() == event.ItemMerging && f.Status() == event.Pending {
		value.Put(&t.merging, index, struct{}{})
		return
	}
	switch f.Type() {
	case event.ItemStarted, event.ItemRetry, event.ItemFinished, event.ItemReturned, event.ItemRequeued:
		delete(t.merging, index)
	}
	switch f.Type() {
	case event.ItemStarted:
		t.set(i, journal.ItemRunning)
		t.attempt(i, f.Attempt())
		value.Put(&t.began, index, f.Nanos())
	case event.ItemRetry:
		t.set(i, journal.ItemWaiting)
		t.due.put(index, f.Nanos()+f.Delay()*1e6)
		t.per(f).retried++
		t.ended(index, f, false)
		t.point(f)
	case event.AttemptStarted:
		if f.Again() {
			t.tryAgain(i)
		}
	case event.AttemptFailed:
		if t.began[index] != 0 {
			value.Put(&t.lost, index, t.lost[index]+time.Duration(f.Duration())*time.Millisecond)
		}
	case event.RetryScheduled:
		t.per(f).retried++
		t.point(f)
	case event.ItemHandlerDue:
		t.set(i, journal.ItemHandling)
		t.ended(index, f, false)
	case event.ItemFinished:
		t.finished(i, f)
	case event.ItemReturned:
		if f.Status() == event.Running {
			return // it runs again already
		}
		t.set(i, journal.ItemPending)
		if f.Attempt() > 0 {
			t.ended(index, f, false)
		}
	case event.ItemRequeued:
		value.Put(&t.requeued, index, seq)
		t.set(i, journal.ItemPending)
		t.class(i, "")
		t.forget(index)
	case event.ItemRemoved:
		if t.status(i) == journal.ItemDeadLettered {
			t.set(i, journal.ItemFailed)
		}
		t.forget(index)
	}
}

// maxItems is the highest index that is believed.
const maxItems = 1 << 24

// own takes an event of the run itself.
func (t *items) own(f *journal.Fact) {
	switch f.Type() {
	case event.RunResumed, event.ItemsCompared, event.PhaseStarted, event.RunControlled:
		if e, err := f.Event(); err == nil {
			t.pace.Apply(e)
		}
	}
	switch f.Type() {
	case event.ItemsReady:
		if n := f.Total(); n <= maxItems {
			t.grow(n)
		}
	case event.MergeVerified:
		if f.Status() == event.Succeeded {
			t.verified = f.Seq()
		}
	case event.RunResumed, event.RunFinished:
		t.settle(uint32(f.Seq()))
	case event.Note:
		if e, err := f.Event(); err == nil && (e.Class == event.Merged || e.Class == event.Unmerged) {
			t.merged(e.Data)
		}
	case event.RunControlled:
		if e, err := f.Event(); err == nil && e.Label == journal.RetryNow {
			t.due.begin(f.Nanos())
		}
	}
}

// merged takes note of whose work was merged after the end of the run.
func (t *items) merged(data json.RawMessage) {
	var d event.MergedItems
	if json.Unmarshal(data, &d) != nil {
		return // the note tells of none
	}
	for _, index := range d.Items {
		t.noLeft(index)
	}
}

// noLeft takes note that no work of an item is left in a branch.
func (t *items) noLeft(index int) {
	if good, ok := t.left[index]; ok && !good {
		t.leftBad--
	}
	delete(t.left, index)
}

// settle makes pending what was in flight.
func (t *items) settle(seq uint32) {
	if t.counts[journal.ItemRunning] == 0 {
		return
	}
	for i := range t.cells {
		if t.status(i) == journal.ItemRunning {
			t.set(i, journal.ItemPending)
			t.moved[i] = seq // no event of the item says so
		}
	}
	clear(t.began)
	clear(t.lost)
}

func (t *items) status(i int) journal.ItemStatus { return statusOf(t.cells[i]) }

// statusOf is the status that a cell tells.
func statusOf(cell byte) journal.ItemStatus {
	if cell == cellUnchanged {
		return journal.ItemUnchanged
	}
	return journal.ItemStatus(cell & cellStatus)
}

func (t *items) grow(n int) {
	if more := n - len(t.cells); more > 0 {
		t.counts[journal.ItemPending] += more
		t.cells = slices.Grow(t.cells, more)[:n]
		t.tries = slices.Grow(t.tries, more)[:n]
		t.last = slices.Grow(t.last, more)[:n]
		t.moved = slices.Grow(t.moved, more)[:n]
	}
}

func (t *items) set(i int, s journal.ItemStatus) {
	t.counts[t.status(i)]--
	t.counts[s]++
	switch {
	case s == journal.ItemUnchanged:
		t.cells[i] = cellUnchanged
	case t.cells[i] == cellUnchanged:
		t.cells[i] = byte(s)
	default:
		t.cells[i] = t.cells[i]&^cellStatus | byte(s)
	}
	if s != journal.ItemWaiting {
		t.due.drop(i + 1)
	}
}

func (t *items) attempt(i, n int) {
	if n > 1 {
		t.cells[i] |= cellRetried
	}
	t.tries[i] = max(t.tries[i], uint16(min(n, 1<<16-1)))
}

// tryAgain takes an attempt that a step of an item makes after its first.
func (t *items) tryAgain(i int) {
	t.cells[i] |= cellRetried
	if more := len(t.cells) - len(t.again); more > 0 {
		t.again = slices.Grow(t.again, more)[:len(t.cells)]
	}
	t.again[i] = min(t.again[i], 1<<16-2) + 1
}

// triesOf is how often something was tried for an item.
func (t *items) triesOf(i int) int {
	n := int(t.tries[i])
	if i < len(t.again) {
		n += int(t.again[i])
	}
	return n
}

func (t *items) finished(i int, f *journal.Fact) {
	t.attempt(i, f.Attempt())
	s := journal.StatusOf(f.Status())
	good := s == journal.ItemSucceeded
	t.noLeft(i + 1)
	if strings.Contains(f.Data(), `"branch":"`) {
		if value.Put(&t.left, i+1, good); !good {
			t.leftBad++
		}
	}
	t.ended(i+1, f, good)
	t.set(i, s)
	switch {
	case !s.Done(), s == journal.ItemUnchanged: // nothing was done for it
		return
	case good:
		t.pace.End(f.Time())
		t.per(f).good++
		t.class(i, "")
		if t.cells[i]&cellRetried != 0 {
			t.rescued++
		}
	default:
		t.pace.End(f.Time())
		t.per(f).failed++
		t.class(i, f.Class())
	}
	if s == journal.ItemDeadLettered {
		t.deadLetter(i, f)
	}
}

// ended takes the end of an attempt at an item.
func (t *items) ended(index int, f *journal.Fact, good bool) {
	from, ok := t.began[index]
	if !ok {
		return
	}
	lost := t.lost[index]
	delete(t.began, index)
	delete(t.lost, index)
	d := time.Duration(max(0, f.Nanos()-from))
	t.worked += d
	if !good {
		lost = d
	}
	t.spent += lost
}

// class sets the error class of an item; "" for none.
func (t *items) class(i int, class string) {
	if n := t.cells[i] >> classShift; n > 0 {
		t.classes[n-1].Count--
		t.cells[i] &= 1<<classShift - 1
	}
	if class == "" {
		return
	}
	n := slices.IndexFunc(t.classes, func(c classCount) bool { return c.Class == class })
	if n < 0 {
		if len(t.classes) == maxClasses {
			n = maxClasses - 1
		} else {
			if n = len(t.classes); n == maxClasses-1 {
				class = "other"
			}
			t.classes = append(t.classes, classCount{Class: class})
		}
	}
	t.classes[n].Count++
	t.cells[i] |= byte(n+1) << classShift
}

func (t *items) deadLetter(i int, f *journal.Fact) {
	t.set(i, journal.ItemDeadLettered)
	t.forget(i + 1)
	class, message := f.Class(), f.Message()
	sign := failure.Sign(class, journal.FailedStep(f.Data()), message)
	id := sign.ID()
	g := t.groups[id]
	if g == nil {
		g = &group{ID: id, Class: class, Pattern: sign.Pattern}
		if step := journal.FailedLabel(f.Data()); failure.Unnamed(message, step) {
			g.Step = step
		}
		value.Put(&t.groups, id, g)
	}
	if g.of == 0 {
		g.exemplify(i+1, message)
	}
	g.Count++
	value.Put(&t.letters, i+1, letter{g, f.Seq()})
}

func (g *group) exemplify(index int, message string) {
	g.of, g.Example = index, diag.ClipBytes(message, 500)
}

// examples finds an example for each group whose own is no letter any more.
func (t *items) examples(ctx context.Context, r *journal.Reader) error {
	if !t.lacking {
		return nil
	}
	first := map[*group]int{}
	for index, l := range t.letters {
		if l.group.of == 0 && (first[l.group] == 0 || index < first[l.group]) {
			first[l.group] = index
		}
	}
	indexes := slices.Sorted(maps.Values(first))
	events, err := r.At(ctx, value.Map(indexes, func(index int) int64 { return t.letters[index].seq }))
	if err != nil {
		return err
	}
	for n, e := range events {
		t.letters[indexes[n]].group.exemplify(indexes[n], e.Message)
	}
	t.lacking = false
	return nil
}

// againSince gives the items that were run again after an event.
func (t *items) againSince(seq int64) (list []int) {
	for index, at := range t.requeued {
		if at > seq {
			list = append(list, index)
		}
	}
	return list
}

// forget takes an item's dead letter away.
func (t *items) forget(index int) {
	if l, ok := t.letters[index]; ok {
		l.group.Count--
		if l.group.of == index {
			l.group.of, l.group.Example, t.lacking = 0, "", true
		}
		delete(t.letters, index)
	}
}

// per is the bucket of an event's second.
func (t *items) per(f *journal.Fact) *bucket {
	second := f.Nanos() / 1e9
	if n := len(t.rate); n > 0 && t.rate[n-1].second >= second {
		return &t.rate[n-1] // clocks that go back count for the last second
	}
	t.rate = append(t.rate, bucket{second: second})
	return &t.rate[len(t.rate)-1]
}

func (t *items) point(f *journal.Fact) {
	if len(t.waits) == maxPoints {
		t.skipped++
		return
	}
	attempt := uint16(min(max(f.Attempt(), 0), 1<<16-1))
	of := t.policyOf(f)
	least, greatest := member(f.Data(), `"least_ns":`), member(f.Data(), `"greatest_ns":`)
	if greatest > 0 {
		key := bandKey{of, attempt}
		band, ok := t.bands[key]
		if !ok {
			band[0] = least
		}
		value.Put(&t.bands, key, [2]time.Duration{min(band[0], least), max(band[1], greatest)})
	}
	source := max(0, slices.Index(timeline.Sources, timeline.SourceOf(f.Data())))
	t.waits = append(t.waits, point{
		of: of, attempt: attempt, source: uint8(source), delay: int32(min(f.Delay(), 1<<31-1)), at: f.Nanos(),
	})
}

// policyOf is whose policy a wait is of: that of the items, or of a step in them.
func (t *items) policyOf(f *journal.Fact) uint16 {
	if t.policies == nil {
		t.policies = []string{""}
	}
	path := ""
	if f.Type() == event.RetryScheduled {
		path, _, _ = strings.Cut(f.Step(), "@") // its rounds have the same
	}
	at := slices.Index(t.policies, path)
	if at < 0 && len(t.policies) < maxPolicies {
		at, t.policies = len(t.policies), append(t.policies, path)
	}
	if at < 0 {
		at = len(t.policies) - 1
	}
	return uint16(at)
}

// member is a whole number in the text of a JSON object; 0 for none.
func member(data, name string) time.Duration {
	i := strings.Index(data, name)
	if i < 0 {
		return 0
	}
	rest := data[i+len(name):]
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.ParseInt(rest[:end], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n)
}

// tally is how many items are in each status.
func (t *items) tally() journal.Counts {
	n := &t.counts
	return journal.Counts{
		Total: len(t.cells), Succeeded: n[journal.ItemSucceeded], Failed: n[journal.ItemFailed] + n[journal.ItemDeadLettered],
		Skipped: n[journal.ItemSkipped], Unchanged: n[journal.ItemUnchanged],
		Pending: n[journal.ItemPending] + n[journal.ItemWaiting] + n[journal.ItemRunning] + n[journal.ItemHandling],
		Running: n[journal.ItemRunning], Waiting: n[journal.ItemWaiting], DeadLettered: n[journal.ItemDeadLettered],
	}
}

// tally is how many items are in each status, and how those of a run that has ended did.
func (run *run) tally() journal.Counts {
	c := run.items.tally()
	c.KindCounts = run.line.ItemKinds
	return c
}

// history gives the numbers of an item's events, in order.
func (t *items) history(index int) []int64 {
	if index < 1 || index > len(t.last) {
		return nil
	}
	var out []int64
	for seq := t.last[index-1]; seq != 0; seq = t.prev[seq] {
		out = append(out, int64(seq))
	}
	slices.Reverse(out)
	return out
}
