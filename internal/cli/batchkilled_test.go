package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// killedBatch is a batch that is killed at a place and continued: each life is a process. Its
// items end in an order of their own, and what is recorded is in the journal only once
// somebody waits for it, or the process is slow.
type killedBatch struct {
	t     *testing.T
	st    *journal.Store
	run   string
	order bool
	slow  bool // every event is in the journal at once
	out   strings.Builder
	torn  bool // killed between an output and its note
}

type killed struct{}

// life is one process of the batch, killed at a place, counted from 1; 0: at none. It gives
// how many places it came to.
func (b *killedBatch) life(at int) (places int) {
	var j *journal.Journal
	var err error
	again := b.run != ""
	if again {
		j, err = b.st.Open(b.run)
	} else {
		j, err = b.st.Create(journal.Header{Name: "batch", Kind: "mapreduce"})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.run = j.Run()
	jobs := newJobs(b.st, jobsShown{Order: b.order})
	if again {
		jobs.run = b.run
	}
	var recorded []event.Event // and not in the journal yet
	in := int64(0)             // the last one that is
	commit := func() {
		if err := errors.Join(j.RecordAll(recorded), j.Written(j.Appended())); err != nil {
			b.t.Fatal(err)
		}
		if n := len(recorded); n > 0 {
			in = recorded[n-1].Seq
		}
		recorded = nil
	}
	defer func() {
		if r := recover(); r != nil && r != (killed{}) {
			panic(r)
		}
		if err := j.Close(); err != nil {
			b.t.Error(err)
		}
		if n := jobs.notes; n != nil {
			n.f.Close()
		}
	}()
	place := func() {
		if places++; places == at {
			panic(killed{})
		}
	}
	jobs.journaled(func(seq int64) error {
		if seq > in {
			place()
			commit()
			place()
		}
		return nil
	})
	show := func(e event.Event) bool {
		place()
		b.out.WriteString(e.Message)
		b.torn = true
		place()
		b.torn = false
		return true
	}
	last := j.Appended()
	tell := func(e event.Event) {
		place()
		last++
		e.Run, e.Seq = b.run, last
		recorded = append(recorded, e)
		if b.slow {
			commit()
		}
		if err := jobs.take(e, show); err != nil {
			b.t.Fatal(err)
		}
	}
	done, ran := map[int]bool{}, map[int]bool{} // items; their steps, which do not run again
	if again {
		r, err := b.st.Read(b.run)
		if err != nil {
			b.t.Fatal(err)
		}
		for e, err := range r.Events(b.t.Context(), 1, journal.EventFilter{Types: []event.Type{event.StepFinished, event.ItemFinished}}) {
			if err != nil {
				b.t.Fatal(err)
			}
			ran[e.Index] = true
			done[e.Index] = e.Type == event.ItemFinished
		}
		r.Close()
		tell(event.Event{Type: event.RunResumed})
	} else {
		tell(event.Event{Type: event.RunStarted})
	}
	for _, i := range []int{3, 1, 2} {
		if done[i] {
			continue
		}
		out, _ := json.Marshal(map[string]any{"output": fmt.Sprintf("<%d>\n", i)})
		tell(event.Event{Type: event.ItemStarted, Index: i, Item: fmt.Sprint(i)})
		if !ran[i] {
			tell(event.Event{Type: event.StepFinished, Index: i, Item: fmt.Sprint(i), Step: "s", Status: event.Succeeded, Data: out})
		}
		tell(event.Event{Type: event.ItemFinished, Index: i, Item: fmt.Sprint(i), Status: event.Succeeded})
	}
	tell(event.Event{Type: event.RunFinished, Status: event.Succeeded})
	commit()
	if _, err := jobs.rest(show, jobsDone); err != nil {
		b.t.Fatal(err)
	}
	return places
}

// TestBatchKilledAtEveryPlace: a batch is killed at every place, so is the resume, and the
// next resume ends. All outputs are there once, with -k in order: only the one
// that was written and not noted when the process was killed may come again.
func TestBatchKilledAtEveryPlace(t *testing.T) {
	t.Parallel()
	st, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []killedBatch{{order: true}, {order: true, slow: true}, {}} {
		begin := func() *killedBatch { return &killedBatch{t: t, st: st, order: how.order, slow: how.slow} }
		all := begin().life(0)
		if all < 14 {
			t.Fatalf("%d places", all)
		}
		for first := 1; first <= all; first++ {
			second := first*7%all + 1
			b, again := begin(), 0
			for _, at := range []int{first, second, 0} {
				if b.life(at); b.torn {
					again, b.torn = again+1, false
				}
			}
			checkOnce(t, b.out.String(), how.order, again, fmt.Sprintf("order %v, slow %v, killed at %d and %d", how.order, how.slow, first, second))
		}
	}
}

// checkOnce reports outputs that are missing, come twice or, with -k, out of order. again is
// how many may come a second time.
func checkOnce(t *testing.T, out string, order bool, again int, when string) {
	t.Helper()
	seen := map[string]int{}
	before := ""
	for line := range strings.Lines(out) {
		if seen[line]++; seen[line] > 1 {
			again--
		}
		if order && line < before {
			t.Errorf("%s: out of order:\n%s", when, out)
			return
		}
		before = line
	}
	if len(seen) != 3 || again < 0 {
		t.Errorf("%s: %d of 3 outputs, %d too often:\n%s", when, len(seen), -again, out)
	}
}
