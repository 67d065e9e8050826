package letters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

func newJournal(t *testing.T, kind string) *journal.Journal {
	t.Helper()
	store, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Create(journal.Header{Name: "x", Kind: kind, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func appendAll(t *testing.T, j *journal.Journal, facts ...event.Event) {
	t.Helper()
	for _, e := range facts {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// letter is what the oracle knows of an item: what is thought of it is what was done last.
type letter struct {
	open  bool
	seq   int64
	class string
	data  string
}

func itemOf(i int) event.Item {
	return event.Item{ID: fmt.Sprint("i", i), Data: fmt.Appendf(nil, `{"n":%d}`, i)}
}

// TestLettersFound plays items that fail, are requeued, edited, removed and succeed, and
// compares with a table what is found, by filters, by a function, and by references of which
// some are out of date; and then what is recorded of those that run again.
func TestLettersFound(t *testing.T) {
	t.Parallel()
	const items = 12
	classes := []string{"exit", "timeout", "network"}
	for seed := range uint64(25) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		ctx := context.Background()
		j := newJournal(t, "mapreduce")
		n, digest, err := j.PutItems(ctx, iter.Seq2[event.Item, error](func(yield func(event.Item, error) bool) {
			for i := range items {
				if !yield(itemOf(i+1), nil) {
					return
				}
			}
		}))
		if err != nil || n != items {
			t.Fatal(n, err)
		}
		appendAll(t, j, event.Event{Type: event.RunStarted}, event.Event{Type: event.ItemsReady, Total: items, Data: json.RawMessage(`{"digest":"` + digest + `"}`)})
		seq := int64(2)
		var was [items + 1]letter
		var refs []journal.LetterRef
		for range 40 {
			i := 1 + rnd.IntN(items)
			it := &was[i]
			e := event.Event{Phase: "map", Item: fmt.Sprint("i", i), Index: i}
			switch {
			case it.open && rnd.IntN(3) == 0:
				e.Type, it.open = event.ItemRemoved, false
			case it.open:
				e.Type, it.open = event.ItemRequeued, false
				if rnd.IntN(2) == 0 {
					it.data = fmt.Sprintf(`{"edited":%d}`, rnd.IntN(100))
					e.Data = json.RawMessage(`{"item":` + it.data + `}`)
				}
			case rnd.IntN(4) == 0:
				e.Type, e.Status, e.Attempts = event.ItemFinished, event.Succeeded, 1
			default:
				it.class = classes[rnd.IntN(len(classes))]
				e.Type, e.Status, e.Attempts, e.Class = event.ItemFinished, event.DeadLettered, 1, it.class
				it.open, it.seq = true, seq+1
				refs = append(refs, journal.LetterRef{Index: i, Seq: seq + 1})
			}
			seq++
			appendAll(t, j, e)
		}
		odd := func(l journal.DeadLetter) (bool, error) { return l.Index%2 == 1, nil }
		for name, q := range map[string]struct {
			Requeue
			wants func(i int, l letter) bool
		}{
			"all":       {Requeue{}, func(int, letter) bool { return true }},
			"a class":   {Requeue{Filter: journal.DeadLetterFilter{Classes: []string{"exit"}}}, func(_ int, l letter) bool { return l.class == "exit" }},
			"ids":       {Requeue{Filter: journal.DeadLetterFilter{IDs: []string{"i3", "i4", "i5"}}}, func(i int, _ letter) bool { return i >= 3 && i <= 5 }},
			"odd, exit": {Requeue{Filter: journal.DeadLetterFilter{Classes: []string{"exit"}}, Accept: odd}, func(i int, l letter) bool { return l.class == "exit" && i%2 == 1 }},
		} {
			var want []journal.LetterRef
			for i, l := range was {
				if l.open && q.wants(i, l) {
					want = append(want, journal.LetterRef{Index: i, Seq: l.seq})
				}
			}
			list, err := q.Find(ctx, &j.Reader)
			if len(want) == 0 && !errors.Is(err, ErrNoDeadLetters) || len(want) > 0 && err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
			if got := refsOf(list); !slices.Equal(got, want) {
				t.Fatalf("seed %d, %s: found %v, want %v", seed, name, got, want)
			}
		}
		// References: the latest of each letter counts, and one that is no letter any more is none.
		var want []journal.LetterRef
		for i, l := range was {
			if l.open {
				want = append(want, journal.LetterRef{Index: i, Seq: l.seq})
			}
		}
		rnd.Shuffle(len(refs), func(a, b int) { refs[a], refs[b] = refs[b], refs[a] })
		list, err := stillOpen(ctx, &j.Reader, refs)
		if err != nil || !slices.Equal(refsOf(list), want) {
			t.Fatalf("seed %d: of references %v are open, want %v: %v", seed, refsOf(list), want, err)
		}
		edited := map[int]json.RawMessage{}
		for _, l := range list {
			if rnd.IntN(2) == 0 {
				was[l.Index].data = fmt.Sprintf(`{"again":%d}`, l.Index)
				edited[l.Index] = json.RawMessage(was[l.Index].data)
			}
		}
		if err := Record(ctx, j, list, edited); err != nil {
			t.Fatal(err)
		}
		st, err := j.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if c := st.Items.Counts(); c.DeadLettered != 0 {
			t.Fatalf("seed %d: %d dead letters are left", seed, c.DeadLettered)
		}
		for _, l := range list {
			if st.Items.At(l.Index).Status != journal.ItemPending {
				t.Fatalf("seed %d: item %d is not pending", seed, l.Index)
			}
		}
		for i := 1; i <= items; i++ {
			if got := string(st.Items.Edited(i)); got != was[i].data {
				t.Fatalf("seed %d: item %d has the data %q, want %q", seed, i, got, was[i].data)
			}
		}
	}
	j := newJournal(t, "mapreduce")
	q := Requeue{Edited: map[int]json.RawMessage{3: json.RawMessage(`{"n":`)}}
	if _, err := q.Find(context.Background(), &j.Reader); err == nil || !strings.Contains(err.Error(), "item 3") {
		t.Errorf("edited data that is no JSON: %v", err)
	}
}

func refsOf(list []journal.DeadLetter) (refs []journal.LetterRef) {
	for _, l := range list {
		refs = append(refs, journal.LetterRef{Index: l.Index, Seq: l.Seq})
	}
	return refs
}

// node is a step as a tree: the oracle of which steps are in which reads no addresses.
type node struct {
	path, rounds string // as step.Address makes them
	kind         string
	does         string // of which kind are those in it that are no handlers
	parent       *node
	label        string
	seq          int
}

func (n *node) address() string { return n.path + n.rounds }

// child is the i-th of its kind that is in n.
func (n *node) child(kind string, i int) *node {
	c := &node{kind: kind, parent: n, path: n.path, rounds: n.rounds}
	switch kind {
	case "do":
		c.path += ".do[0]"
		c.rounds += fmt.Sprint("@", i)
	case "handler":
		c.path += fmt.Sprintf(".on_failure[%d]", i)
		c.rounds += "#1"
	case "case":
		c.path += fmt.Sprintf(".cases[%d]", i)
	case "called": // a step of a file that n calls
		c.path = fmt.Sprintf("commands[%d]", i)
		c.rounds += "/" + n.address()
	case "call": // of a pipeline that n runs
		c.path = n.address() + "/" + fmt.Sprintf("xs[%d].C", i)
	}
	return c
}

func (n *node) around(other *node) bool {
	for at := other.parent; at != nil; at = at.parent {
		if at == n {
			return true
		}
	}
	return false
}

// TestStepsAgain: the steps that run again with one are those around it, those in it, and,
// from it on, those that began after it.
func TestStepsAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		var nodes []*node
		for i := range 3 + rnd.IntN(16) {
			n := &node{path: fmt.Sprintf("commands[%d]", i)}
			if len(nodes) > 0 && rnd.IntN(4) > 0 {
				in := nodes[rnd.IntN(len(nodes))]
				kinds := []string{"do", "handler", "case", "called", "call"}
				if in.kind == "call" {
					kinds = []string{"called"} // its module is a workflow
				}
				kind, before := kinds[rnd.IntN(len(kinds))], 0
				if in.does == "" && kind != "handler" {
					in.does = kind
				} else if kind != "handler" {
					kind = in.does
				}
				for _, o := range nodes {
					if o.parent == in && o.kind == kind {
						before++
					}
				}
				n = in.child(kind, before)
			}
			n.label = fmt.Sprint("step ", i)
			nodes = append(nodes, n)
		}
		j := newJournal(t, "workflow")
		appendAll(t, j, event.Event{Type: event.RunStarted})
		for i, n := range nodes { // a step begins after the one around it
			n.seq = i
			appendAll(t, j, event.Event{Type: event.StepStarted, Step: n.address(), Label: n.label})
		}
		for _, n := range slices.Backward(nodes) {
			appendAll(t, j, event.Event{Type: event.StepFinished, Step: n.address(), Label: n.label, Status: event.Succeeded})
		}
		st, err := j.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			for _, onward := range []bool{false, true} {
				var want []string
				for _, o := range nodes {
					if o == n || o.around(n) || n.around(o) || onward && o.seq > n.seq {
						want = append(want, o.address())
					}
				}
				slices.Sort(want)
				name := []string{n.address(), n.label}[rnd.IntN(2)]
				got, err := Steps(ctx, j, st, name, onward)
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("seed %d: %s, onward %v: %q, want %q: %v", seed, name, onward, got, want, err)
				}
			}
		}
		var none *NoStepError
		if _, err := Steps(ctx, j, st, "step 00", false); !errors.As(err, &none) || !strings.Contains(err.Error(), "step 0") {
			t.Errorf("seed %d: a step that is not there: %v", seed, err)
		}
	}
}

// TestStepsThatAreNot: a label of two steps, and a step before a map.
func TestStepsThatAreNot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j := newJournal(t, "mapreduce")
	appendAll(t, j, event.Event{Type: event.RunStarted},
		event.Event{Type: event.StepFinished, Phase: "setup", Step: "setup[0]", Label: "make", Status: event.Succeeded},
		event.Event{Type: event.StepFinished, Phase: "setup", Step: "setup[1]", Label: "make", Status: event.Succeeded},
		event.Event{Type: event.StepFinished, Phase: "reduce", Step: "reduce[0]", Label: "sum", Status: event.Failed})
	st, err := j.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		onward bool
		want   string // of the error; "": it runs
	}{
		{"make", false, "2 steps have that label; name it by its path, such as setup[0]"},
		{"setup[0]", true, "before the map"},
		{"setup[0]", false, ""},
		{"reduce[0]", true, ""},
	} {
		list, err := Steps(ctx, j, st, c.name, c.onward)
		if c.want == "" && (err != nil || !slices.Equal(list, []string{c.name})) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, onward %v: %q, %v", c.name, c.onward, list, err)
		}
	}
	// A process that was to run it again was killed: it is no name that nobody knows.
	appendAll(t, j, event.Event{Type: event.StepRequeued, Step: "reduce[0]"})
	if st, err = j.State(ctx); err != nil {
		t.Fatal(err)
	}
	if list, err := Steps(ctx, j, st, "sum", true); err != nil || len(list) > 0 {
		t.Errorf("a step that is to run again already: %q, %v", list, err)
	}
}

// TestLeftRequests: what a request named that came too late runs again, unless it is no
// letter any more or a later one.
func TestLeftRequests(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j := newJournal(t, "mapreduce")
	if _, _, err := j.PutItems(ctx, func(yield func(event.Item, error) bool) {
		for i := range 4 {
			if !yield(itemOf(i+1), nil) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	dead := func(i int) event.Event {
		return event.Event{Type: event.ItemFinished, Phase: "map", Item: fmt.Sprint("i", i), Index: i, Status: event.DeadLettered, Attempts: 1, Class: "exit"}
	}
	appendAll(t, j, event.Event{Type: event.RunStarted}, event.Event{Type: event.ItemsReady, Total: 4}, dead(1), dead(2), dead(3),
		event.Event{Type: event.ItemRequeued, Item: "i2", Index: 2}, dead(2), event.Event{Type: event.ItemRemoved, Item: "i3", Index: 3})
	req := journal.RetryRequest{Of: []journal.LetterRef{{Index: 1, Seq: 3}, {Index: 2, Seq: 4}, {Index: 3, Seq: 5}}, Edited: map[int]json.RawMessage{1: json.RawMessage(`{"n":100}`)}}
	if err := j.RequestRetry(req); err != nil {
		t.Fatal(err)
	}
	n, err := Left(ctx, j, func(e map[int]json.RawMessage) (map[int]json.RawMessage, error) { return e, nil })
	if err != nil || n != 1 {
		t.Fatalf("%d letters run again, want 1: %v", n, err)
	}
	st, err := j.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]journal.ItemStatus{1: journal.ItemPending, 2: journal.ItemDeadLettered} {
		if got := st.Items.At(i).Status; got != want {
			t.Errorf("item %d is %v, want %v", i, got, want)
		}
	}
	if got := string(st.Items.Edited(1)); got != `{"n":100}` {
		t.Errorf("item 1 has the data %s", got)
	}
	if n, err := Left(ctx, j, func(e map[int]json.RawMessage) (map[int]json.RawMessage, error) { return e, nil }); n != 0 || err != nil {
		t.Errorf("the request is carried out again: %d, %v", n, err)
	}
}
