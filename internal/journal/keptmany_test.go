package journal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// wildRun is a run of a map with many events: items that fail, are tried again, become
// dead letters, are requeued, edited and purged.
func wildRun(rnd *rand.Rand, items, events int) (list []event.Event) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	tell := func(e event.Event) {
		at = at.Add(time.Duration(rnd.IntN(1000)) * time.Microsecond)
		e.Time = at
		list = append(list, e)
	}
	tell(event.Event{Type: event.RunStarted})
	for len(list) < events {
		i := 1 + rnd.IntN(items)
		e := event.Event{Index: i, Item: fmt.Sprint("item-", i)}
		switch rnd.IntN(9) {
		case 0:
			e.Type, e.Attempt = event.ItemStarted, 1+rnd.IntN(3)
		case 1:
			e.Type, e.Attempt, e.Class, e.Message = event.ItemRetry, 1+rnd.IntN(3), "exit", "exit status 7"
		case 2:
			e.Type, e.Step, e.Attempt = event.AttemptStarted, "map.agent_template[0]", 1+rnd.IntN(3)
		case 3:
			e.Type, e.Status, e.Attempts = event.ItemFinished, []string{event.Succeeded, event.Unchanged}[rnd.IntN(2)], 1
			e.Data = []byte([]string{`{"output":"\"kind\":1"}`, `{"kind":"recovered"}`}[rnd.IntN(2)])
		case 4:
			e.Type, e.Status, e.Attempts = event.ItemFinished, []string{event.Failed, event.Interrupted, event.Skipped}[rnd.IntN(3)], 2
		case 5, 6:
			e.Type, e.Status, e.Attempts, e.Class, e.Message = event.ItemFinished, event.DeadLettered, 2, []string{"exit", "timeout"}[rnd.IntN(2)], "no luck"
			e.Data = []byte(fmt.Sprintf(`{"exit_code":%d}`, rnd.IntN(9)))
		case 7:
			e.Type = event.ItemRequeued
			if rnd.IntN(2) == 0 {
				e.Data = []byte(fmt.Sprintf(`{"item":{"edited":%d}}`, len(list)))
			}
		case 8:
			e.Type = event.ItemRemoved
		}
		tell(e)
	}
	tell(event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures, DurationMS: 900})
	return list
}

// naive is what a run comes to, by a fold that shares nothing with the readers: for each
// item what its events say, looked at from the end.
type naive struct {
	letters map[int][]int64 // by item: the numbers of the events of its failures
	edits   map[int]string
	again   map[int]int
	kinds   []int64 // the last ends of items that have a kind
}

func naively(list []event.Event) (n naive) {
	n = naive{letters: map[int][]int64{}, edits: map[int]string{}, again: map[int]int{}}
	of := map[int][]int{}
	for i, e := range list {
		of[e.Index] = append(of[e.Index], i)
	}
	for index, places := range of {
		if index == 0 {
			continue
		}
		var last event.Event // that decides
		for _, p := range slices.Backward(places) {
			if e := list[p]; e.Type == event.ItemFinished || e.Type == event.ItemRequeued || e.Type == event.ItemRemoved {
				last = e
				break
			}
		}
		for _, p := range slices.Backward(places) { // a letter that is purged is no end
			if e := list[p]; e.Type == event.ItemFinished || e.Type == event.ItemRequeued {
				if e.Status == event.Succeeded && strings.Contains(string(e.Data), "recovered") {
					n.kinds = append(n.kinds, int64(p+1))
				}
				break
			}
		}
		for _, p := range slices.Backward(places) {
			if e := list[p]; e.Type == event.AttemptStarted && e.Attempt > 1 {
				n.again[index]++
			}
		}
		if last.Type != event.ItemFinished || last.Status != event.DeadLettered {
			continue
		}
		letter := false
		for _, p := range slices.Backward(places) {
			e := list[p]
			letter = letter || e.Type == event.ItemFinished
			if letter && (e.Type == event.ItemRetry || e.Type == event.ItemFinished && e.Status != event.Succeeded) {
				n.letters[index] = append(n.letters[index], int64(p+1))
			}
			if e.Type == event.ItemRequeued && len(e.Data) > 0 && n.edits[index] == "" {
				n.edits[index] = string(e.Data)
			}
		}
		slices.Reverse(n.letters[index])
	}
	return n
}

// What is kept of a run with many events is what the events come to, in every life of the
// run, and whatever becomes of the files.
func TestKeptOfManyEvents(t *testing.T) {
	s := newStore(t)
	j, err := s.Create(header())
	if err != nil {
		t.Fatal(err)
	}
	dir, rnd := j.Dir(), rand.New(rand.NewPCG(7, 7))
	const items = 300
	var all []event.Event
	live := func(list []event.Event) {
		t.Helper()
		all = append(all, list...)
		add(t, j, list...)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		want := naively(all)
		err := s.with(t.Context(), func(r *Reader) error {
			sum, err := r.Summary(t.Context())
			if err != nil {
				return err
			}
			letters := map[int][]int64{}
			for l, err := range r.DeadLetters(t.Context(), DeadLetterFilter{}) {
				if err != nil {
					return err
				}
				for _, e := range l.History {
					letters[l.Index] = append(letters[l.Index], e.Seq)
				}
				end := all[l.Seq-1]
				if end.Index != l.Index || end.Message != l.Message || end.Class != l.Class || l.Tries != end.Attempts+want.again[l.Index] {
					return fmt.Errorf("letter %+v, event %+v, again %d", l, end, want.again[l.Index])
				}
				if edited := want.edits[l.Index]; edited != "" && edited != fmt.Sprintf(`{"item":%s}`, l.Item) {
					return fmt.Errorf("item %d has the data %s, want %s", l.Index, l.Item, edited)
				}
			}
			if !maps.EqualFunc(letters, want.letters, slices.Equal) {
				return fmt.Errorf("the letters are %v, want %v", letters, want.letters)
			}
			st, err := r.State(t.Context())
			if err != nil {
				return err
			}
			kinds := st.Items.Kinds()
			slices.Sort(kinds)
			if slices.Sort(want.kinds); !slices.Equal(kinds, want.kinds) {
				return fmt.Errorf("the ends with a kind are %v, want %v", kinds, want.kinds)
			}
			// The total is what the events give in memory.
			st, err = Facts{Events: numbered(all)}.State(t.Context())
			if err != nil {
				return err
			}
			total := st.Items.Counts()
			total.KindCounts = sum.Items.KindCounts
			if sum.Items != total || sum.Status != st.Status || !sum.Finished.Equal(st.Finished) {
				return fmt.Errorf("the total is %+v, want %+v", sum, total)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	files := func() []string {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(dir, keptOthers+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}

	live(wildRun(rnd, items, keptFrom))
	check("folded")
	if len(files()) != 2 {
		t.Fatalf("these are kept: %v", files())
	}
	check("kept")
	for _, name := range files() {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]byte{nil, text[:len(text)/2], append(slices.Clone(text[:len(text)-1]), text[len(text)-1]+1)} {
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			check("torn")
		}
	}

	// A next life: what is kept of the one before does not count.
	if j, err = s.Open(""); err != nil {
		t.Fatal(err)
	}
	live(append([]event.Event{{Type: event.RunResumed, Time: all[len(all)-1].Time.Add(time.Hour)}}, wildRun(rnd, items, 50)[1:]...))
	check("after a next life")
	check("kept again")

	// One pass gives and keeps the same.
	for _, name := range files() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	err = s.with(t.Context(), func(r *Reader) error {
		o, err := r.Outcome(t.Context(), func(f *Fact) error { n++; return nil })
		if err == nil && (!maps.Equal(o.Again, naively(all).again) || !o.Last.Equal(all[len(all)-1].Time)) {
			err = fmt.Errorf("%v, %v", o.Again, o.Last)
		}
		return err
	})
	if err != nil || n != len(all) || len(files()) != 2 {
		t.Fatalf("%v; %d events of %d; kept: %v", err, n, len(all), files())
	}
	check("after one pass")

	// Another end of the events with the same number is another journal.
	err = s.with(t.Context(), func(r *Reader) error {
		was, ok, err := r.end(t.Context())
		if err != nil || !ok {
			return cmp.Or(err, fmt.Errorf("nothing is to be kept"))
		}
		other := was
		other.Row[0]++
		storeKept(filepath.Join(dir, keptOthers+"x"), other, []string{"of another journal"})
		got, err := Kept(t.Context(), r, "x", func() ([]string, error) { return []string{"of this one"}, nil })
		if err == nil && !reflect.DeepEqual(got, []string{"of this one"}) {
			err = fmt.Errorf("%v", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func numbered(list []event.Event) []event.Event {
	out := slices.Clone(list)
	for i := range out {
		out[i].Seq = int64(i + 1)
	}
	return out
}

// with gives f a reader of the last run.
func (s *Store) with(_ context.Context, f func(*Reader) error) error {
	r, err := s.Read("")
	if err != nil {
		return err
	}
	defer r.Close()
	return f(r)
}

// What a list has folded of an interrupted run is the state from which it continues, unless
// something has happened since.
func TestStateLeftByAList(t *testing.T) {
	s := newStore(t)
	j, err := s.Create(header())
	if err != nil {
		t.Fatal(err)
	}
	list := wildRun(rand.New(rand.NewPCG(3, 3)), 40, 400)
	list[100] = event.Event{Type: event.StepStarted, Step: "setup[0]", Attempt: 1, Time: list[99].Time}
	add(t, j, list[:len(list)-1]...)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	listed := func() *folded {
		t.Helper()
		for sum, err := range s.Runs(t.Context()) {
			if err != nil || sum.Status != event.Interrupted {
				t.Fatalf("%+v, %v", sum, err)
			}
		}
		if s.left == nil {
			t.Fatal("no state is left")
		}
		return s.left
	}
	// continued opens the run and gives its state, and that of a fold.
	continued := func() (got, want *State) {
		t.Helper()
		if j, err = s.Open(""); err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if s.left != nil {
			t.Error("the state is left for another one")
		}
		if got, err = j.State(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want, err = j.State(t.Context()); err != nil { // it is taken once
			t.Fatal(err)
		}
		return got, want
	}
	left := listed()
	got, want := continued()
	if got != left.state || got == want || !reflect.DeepEqual(got, want) || want.Steps["setup[0]"].Recoveries != 1 {
		t.Errorf("the state that was left is\n%+v\nthat of a fold\n%+v", got, want)
	}
	left = listed()
	other, err := OpenStore(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if j, err = other.Open(""); err != nil {
		t.Fatal(err)
	}
	add(t, j, event.Event{Type: event.RunResumed, Time: list[len(list)-1].Time})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	got, want = continued()
	if got == left.state || !reflect.DeepEqual(got, want) || got.Resumes != 1 {
		t.Errorf("after another life the state is\n%+v\nthat of a fold\n%+v", got, want)
	}
}
