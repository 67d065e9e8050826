package limits

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/clock"
)

// ahead is a clock that is ahead of that of the machine.
type ahead struct {
	clock.Machine
	by time.Duration
}

func (a ahead) Now() time.Time { return time.Now().Add(a.by) }

// wanting is one that waits for the limit a: by which home, when and how urgently.
type wanting struct {
	name     string
	home     int
	priority int
	later    time.Duration
}

// served gives the names of some in the order in which they got the one slot of a that
// somebody held until all of them waited.
func served(t *testing.T, list ...wanting) string {
	t.Helper()
	home := t.TempDir()
	write(t, home, "limits:\n  a: {slots: 1}\n")
	homes := []*Home{Open(home, nil), Open(home, nil)} // as two processes have it
	for _, h := range homes {
		defer h.Close()
	}
	holding, err := homes[0].Take(t.Context(), request("a"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stale*4/5) // then the others heed a ticket no longer
	defer cancel()
	var mu sync.Mutex
	var order []string
	var done sync.WaitGroup
	for i, w := range list {
		r := request("a")
		r.Priority, r.Clock = w.priority, ahead{by: w.later}
		done.Go(func() {
			l, err := homes[w.home].Take(ctx, r)
			if err != nil {
				t.Error(w.name, err)
				return
			}
			mu.Lock()
			order = append(order, w.name)
			mu.Unlock()
			l.Release()
		})
		for placed := 0; placed <= i && ctx.Err() == nil; { // it is in the queue
			names, err := os.ReadDir(filepath.Join(home, "limits", "a", "waiting"))
			if err != nil {
				t.Fatal(err)
			}
			placed = len(names)
		}
	}
	holding.Release()
	done.Wait()
	return strings.Join(order, " ")
}

func TestThoseOfGreaterPriorityGoFirst(t *testing.T) {
	for name, homes := range map[string][5]int{"one process": {}, "two processes": {0, 1, 0, 1, 1}} {
		got := served(t, wanting{"first", homes[0], 0, 0}, wanting{"low", homes[1], -30, 0}, wanting{"second", homes[2], 0, 0},
			wanting{"critical", homes[3], 50, 0}, wanting{"high", homes[4], 30, 0})
		if want := "critical high first second low"; got != want {
			t.Errorf("%s: they went in the order %s, want %s", name, got, want)
		}
	}
}

// Nobody waits for ever: each point of priority is worth half a second, and whoever has
// waited longer by more than that goes first all the same.
func TestPriorityOvertakesNobodyWhoHasWaitedLongEnough(t *testing.T) {
	for home := range 2 {
		got := served(t, wanting{"low", 0, -30, 0}, wanting{"at39", home, 50, 39 * time.Second})
		got += " " + served(t, wanting{"low", 0, -30, 0}, wanting{"at41", home, 50, 41 * time.Second})
		if want := "at39 low low at41"; got != want {
			t.Errorf("they went in the order %s, want %s", got, want)
		}
	}
}

// Whatever comes, is given up and goes before others: everybody who still wants a slot gets
// one, and nothing is left.
func TestTurnsAreNotLost(t *testing.T) {
	home := t.TempDir()
	write(t, home, "limits:\n  a: {slots: 2}\n  b: {slots: 1}\n")
	homes := []*Home{Open(home, nil), Open(home, nil)}
	for _, h := range homes {
		defer h.Close()
	}
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var done sync.WaitGroup
	for i := range 200 {
		r := request([][]string{{"a"}, {"b"}, {"a", "b"}}[random.IntN(3)]...)
		r.Priority = random.IntN(101) - 50
		h, gives, holds := homes[random.IntN(2)], random.IntN(3) == 0, time.Duration(random.IntN(2000))*time.Microsecond
		done.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			waits := 0
			r.Waits = func(*Block) {
				if waits++; gives && waits == 1+i%2 {
					cancel()
				}
			}
			l, err := h.Take(ctx, r)
			switch {
			case err == nil:
				time.Sleep(holds)
				l.Release()
			case !gives:
				t.Errorf("seed %d: %d: %v", seed, i, err)
			}
		})
	}
	done.Wait()
	for _, name := range []string{"a", "b"} {
		if s := status(t, homes[0], name); len(s.Held)+len(s.Waiting) != 0 {
			t.Errorf("at the end: %+v", s)
		}
	}
	for _, h := range homes {
		for names, l := range h.lines {
			if l.first != nil || len(l.next) > 0 {
				t.Errorf("somebody still stands in the line of %s", names)
			}
		}
	}
}

// A simulation serves them in the same order.
func TestAloneServesByPriority(t *testing.T) {
	c := &Config{Limits: map[string]Limit{"a": {Name: "a", Slots: 1}}}
	a, err := NewAlone(c, clock.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	holding, err := a.Take(t.Context(), request("a"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []int
	var done sync.WaitGroup
	for i, priority := range []int{0, -30, 50} {
		r := request("a")
		waits := make(chan struct{})
		r.Priority, r.Waits = priority, func(*Block) { close(waits) }
		done.Go(func() {
			l, err := a.Take(t.Context(), r)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			l.Release()
		})
		<-waits
		for a.limits["a"][0].Waiting() <= i {
			time.Sleep(time.Millisecond) // from being told to standing in the queue
		}
	}
	holding.Release()
	done.Wait()
	if !slices.Equal(order, []int{2, 0, 1}) {
		t.Error(fmt.Sprint("they went in the order ", order))
	}
}
