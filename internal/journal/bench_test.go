package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// cpu is the processor time of this process so far.
func cpu(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// typical is the events of an item that succeeds at once.
func typical(i int) []event.Event {
	id := fmt.Sprint("item-", i)
	return []event.Event{
		{Type: event.ItemStarted, Phase: "map", Index: i, Item: id, Attempt: 1},
		{Type: event.ItemFinished, Phase: "map", Index: i, Item: id, Status: event.Succeeded, Attempts: 1, DurationMS: 12, Data: json.RawMessage(`{"output":"some text that a command printed"}`)},
	}
}

// BenchmarkAppend appends events as fast as the journal takes them, and has
// them on the disk at the end.
func BenchmarkAppend(b *testing.B) {
	j := newJournal(b, newStore(b))
	events := make([]event.Event, 0, 2000)
	for i := range 1000 {
		events = append(events, typical(i+1)...)
	}
	b.ReportAllocs()
	before := cpu(b)
	for i := 0; b.Loop(); i++ {
		if err := j.Append(events[i%len(events)]); err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// BenchmarkAppendPaced appends four events for an item, 3000 items a second:
// what a map of very short commands does.
func BenchmarkAppendPaced(b *testing.B) {
	j := newJournal(b, newStore(b))
	before := cpu(b)
	tick := time.NewTicker(time.Second / 3000)
	defer tick.Stop()
	for i := 0; b.Loop(); i++ {
		<-tick.C
		for range 2 {
			for _, e := range typical(i%1000 + 1) {
				if err := j.Append(e); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/item")
}

// BenchmarkSync appends one event and waits until it is on the disk.
func BenchmarkSync(b *testing.B) {
	j := newJournal(b, newStore(b))
	before := cpu(b)
	for b.Loop() {
		if err := j.Append(event.Event{Type: event.Note}); err != nil {
			b.Fatal(err)
		}
		if err := j.Sync(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// BenchmarkState folds 200,000 finished items.
func BenchmarkState(b *testing.B) {
	s := newStore(b)
	j := newJournal(b, s)
	const n = 200_000
	if _, _, err := j.PutItems(b.Context(), list(n)); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		add(b, j, typical(i+1)...)
	}
	if err := j.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Run("fold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			st, err := j.State(context.Background())
			if err != nil || st.Items.Counts().Succeeded != n {
				b.Fatal(st, err)
			}
		}
	})
	b.Run("results", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got := count(b, j.Results(context.Background())); got != n {
				b.Fatal(got)
			}
		}
	})
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			j, err := s.Open("")
			if err != nil {
				b.Fatal(err)
			}
			if err := j.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func count[T any](t testing.TB, seq iter.Seq2[T, error]) (n int) {
	for _, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// BenchmarkPutItems records a million items of 100 bytes.
func BenchmarkPutItems(b *testing.B) {
	s := newStore(b)
	data := fmt.Appendf(nil, `{"x":"%092d"}`, 7)
	for b.Loop() {
		j := newJournal(b, s)
		n, _, err := j.PutItems(b.Context(), func(yield func(event.Item, error) bool) {
			for range 1_000_000 {
				if !yield(event.Item{ID: "item", Data: data}, nil) {
					return
				}
			}
		})
		if err != nil || n != 1_000_000 {
			b.Fatal(n, err)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.Sys)/(1<<20), "MB")
	}
}

// BenchmarkCreate makes a run and closes it.
func BenchmarkCreate(b *testing.B) {
	s := newStore(b)
	for b.Loop() {
		j, err := s.Create(header())
		if err != nil {
			b.Fatal(err)
		}
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
