package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

func newStore(t testing.TB) *Store {
	t.Helper()
	s, err := OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func header() Header {
	return Header{
		Name: "nightly", Path: "/w/nightly.yml", Kind: "mapreduce", Dir: "/w", Source: []byte("map:\n"),
		Others: map[string][]byte{"lib.yml": []byte("x")}, Params: json.RawMessage(`{"a":1}`),
		Options: json.RawMessage(`{"max_parallel":3}`), BideVersion: "0.1",
	}
}

func newJournal(t testing.TB, s *Store) *Journal {
	t.Helper()
	j, err := s.Create(header())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil && j.Err() == ErrClosed {
			t.Errorf("close: %v", err)
		}
	})
	return j
}

func add(t testing.TB, j *Journal, events ...event.Event) {
	t.Helper()
	for _, e := range events {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var out []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// list gives n items with data.
func list(n int) iter.Seq2[event.Item, error] {
	return func(yield func(event.Item, error) bool) {
		for i := range n {
			if !yield(event.Item{ID: fmt.Sprintf("item-%d", i+1), Data: fmt.Appendf(nil, `{"n":%d}`, i+1)}, nil) {
				return
			}
		}
	}
}

func TestEventsComeBackAsTheyWere(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	at := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	want := []event.Event{
		{Type: event.RunStarted, Label: "nightly", Data: json.RawMessage(`{"x":[1,2]}`)},
		{Type: event.StepStarted, Phase: "setup", Step: "setup[0]", Label: "say \"hé\""},
		{Type: event.AttemptFailed, Step: "setup[0]", Attempt: 2, Class: "exit", Message: "boom\nline", ExitCode: 7, DurationMS: 1234},
		{Type: event.RetryScheduled, Step: "setup[0]", Attempt: 2, DelayMS: 5000},
		{Type: event.ItemFinished, Item: "a b", Index: 3, Status: event.Succeeded, Attempts: 4, DurationMS: 9, Data: json.RawMessage(`"x"`)},
		{Type: event.BreakerChanged, Label: "api", From: "closed", To: "open"},
		{Type: event.ItemsReady, Total: 17},
		{Type: "word_of_tomorrow", Status: "strange", Message: "kept"},
	}
	for i := range want {
		want[i].Time = at.Add(time.Duration(i) * time.Nanosecond)
		got, err := j.Record(want[i])
		want[i].Seq, want[i].Run = int64(i+1), j.Run()
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want[i]) {
			t.Fatalf("Record: %v, %v", got, err)
		}
	}
	check := func(r *Reader) {
		t.Helper()
		got := collect(t, r.Events(t.Context(), 0, EventFilter{}))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
	check(&j.Reader)
	r, err := s.Read(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	check(r)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	check(r)
	if err := r.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	j2, err := s.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer j2.Close()
	check(&j2.Reader)
	if e, err := j2.Record(event.Event{Type: event.Note}); err != nil || e.Seq != int64(len(want)+1) {
		t.Errorf("the number after reopening is %d, %v", e.Seq, err)
	}
	got, want2 := j2.Header(), header()
	want2.Run, want2.Started = j.Run(), got.Started
	if fmt.Sprint(got) != fmt.Sprint(want2) || got.Started.IsZero() {
		t.Errorf("header %+v", got)
	}
	if made := j.Header(); fmt.Sprint(made) != fmt.Sprint(got) {
		t.Errorf("the header was %+v when it was made, and is read as %+v", made, got)
	}
	if fi, err := os.Stat(j2.Dir()); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

func TestAppendRefuses(t *testing.T) {
	j := newJournal(t, newStore(t))
	for _, e := range []event.Event{{}, {Type: event.Note, Data: json.RawMessage(`{"a"`)}, {Type: event.ItemStarted, Index: -1}} {
		if err := j.Append(e); err == nil {
			t.Errorf("%+v was taken", e)
		}
	}
	add(t, j, event.Event{Type: event.Output, Message: "shown only"}, event.Event{Type: event.Note})
	got := collect(t, j.Events(t.Context(), 1, EventFilter{}))
	if len(got) != 1 || got[0].Type != event.Note || got[0].Time.IsZero() {
		t.Errorf("got %v", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(event.Event{Type: event.Note}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := j.Sync(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Sync after Close: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestEventFilter(t *testing.T) {
	j := newJournal(t, newStore(t))
	for i := range 3000 {
		add(t, j,
			event.Event{Type: event.ItemStarted, Index: i%7 + 1, Item: fmt.Sprint("i", i%7+1), Attempt: 1},
			event.Event{Type: event.StepStarted, Step: fmt.Sprintf("commands[%d]", i%5)})
	}
	for _, c := range []struct {
		f    EventFilter
		from int64
		want int
	}{
		{EventFilter{}, 0, 6000},
		{EventFilter{}, 5991, 10},
		{EventFilter{Types: []event.Type{event.ItemStarted}}, 1, 3000},
		{EventFilter{Types: []event.Type{event.ItemStarted, event.StepStarted}}, 1, 6000},
		{EventFilter{Types: []event.Type{event.ItemFinished}}, 1, 0},
		{EventFilter{Index: 7}, 1, 428},
		{EventFilter{Item: "i1"}, 1, 429},
		{EventFilter{Step: "commands[4]"}, 1, 600},
		{EventFilter{Step: "commands[4]", Index: 1}, 1, 0},
	} {
		if got := collect(t, j.Events(t.Context(), c.from, c.f)); len(got) != c.want {
			t.Errorf("%+v from %d: %d events, want %d", c.f, c.from, len(got), c.want)
		}
	}
	n := 0
	for range j.Events(t.Context(), 1, EventFilter{}) {
		if n++; n == 3 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range j.Events(ctx, 1, EventFilter{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}

// TestManySteps has many step paths.
func TestManySteps(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	n := 4500
	for i := range n {
		add(t, j, event.Event{Type: event.StepStarted, Step: fmt.Sprintf("do[%d]", i)},
			event.Event{Type: event.StepFinished, Step: fmt.Sprintf("do[%d]", i), Status: event.Succeeded})
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, err := s.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, i := range []int{0, n - 1} {
		if got := collect(t, j.Events(t.Context(), 1, EventFilter{Step: fmt.Sprintf("do[%d]", i)})); len(got) != 2 {
			t.Errorf("step %d has %d events", i, len(got))
		}
	}
	st, err := j.State(t.Context())
	if err != nil || len(st.Steps) != n {
		t.Errorf("%d steps, %v", len(st.Steps), err)
	}
}

func TestRecordIsConcurrent(t *testing.T) {
	j := newJournal(t, newStore(t))
	done := make(chan error)
	for g := range 8 {
		go func() {
			for i := range 500 {
				if err := j.Append(event.Event{Type: event.Note, Message: fmt.Sprintf("%d-%d", g, i)}); err != nil {
					done <- err
					return
				}
				if i%100 == 0 {
					if err := j.Sync(t.Context()); err != nil {
						done <- err
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	next := map[string]int{}
	events := collect(t, j.Events(t.Context(), 1, EventFilter{}))
	for _, e := range events {
		g, i, _ := strings.Cut(e.Message, "-")
		if i != fmt.Sprint(next[g]) {
			t.Fatalf("goroutine %s: %s after %d", g, i, next[g])
		}
		next[g]++
	}
	if len(events) != 4000 {
		t.Errorf("%d events", len(events))
	}
}

func TestFollow(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	add(t, j, event.Event{Type: event.RunStarted})
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := s.Read(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []event.Type
	for e, err := range r.Follow(t.Context(), 1, EventFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Type)
		switch e.Type { // each comes only after the one before was seen
		case event.RunStarted:
			add(t, j, event.Event{Type: "brand_new_word"})
		case "brand_new_word":
			add(t, j, event.Event{Type: event.RunFinished, Status: event.Succeeded})
		}
	}
	if len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

func TestFollowEndsWithItsProcessAndContext(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	add(t, j, event.Event{Type: event.RunStarted})
	r, err := s.Read("")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range r.Follow(ctx, 1, EventFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		cancel() // the sequence ends here, without an error
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(collect(t, r.Follow(t.Context(), 1, EventFilter{}))); n != 1 {
		t.Errorf("%d events", n)
	}
}

// TestQueueIsBounded has a writer that cannot write: callers wait once the
// queue is full, and continue when it can.
func TestQueueIsBounded(t *testing.T) {
	for _, c := range []struct {
		size, want int // of each event's data; events that the queue takes
	}{{0, maxQueued}, {1 << 20, 64}} {
		j := newJournal(t, newStore(t))
		data := json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", max(c.size-2, 0))))
		j.connMu.Lock()
		done := make(chan error)
		total := c.want * 5 / 2
		go func() {
			for range total {
				if err := j.Append(event.Event{Type: event.Note, Data: data}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		queued := func() (n int, full bool) {
			j.mu.Lock()
			defer j.mu.Unlock()
			return len(j.queue), len(j.queue) >= maxQueued || j.queued+len(data) > maxQueuedBytes
		}
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
			n, full := queued()
			if n > c.want {
				t.Fatalf("%d events are queued", n)
			}
			if full {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d events are queued, and no more come", n)
			}
		}
		select {
		case err := <-done:
			t.Fatalf("all were taken: %v", err)
		default:
		}
		j.connMu.Unlock()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if n := count(t, j.Events(t.Context(), 1, EventFilter{Types: []event.Type{event.Note}})); n != total {
			t.Errorf("%d events", n)
		}
	}
}
