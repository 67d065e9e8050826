package mapper

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
)

// disk is a memory that knows which of its facts are on the disk, where a sync
// takes a while.
type disk struct {
	step.Details
	memory
	synced, syncs int
}

func (d *disk) Sync(context.Context) error {
	d.mu.Lock()
	n := len(d.facts)
	d.syncs++
	d.mu.Unlock()
	time.Sleep(200 * time.Microsecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = max(d.synced, n)
	return nil
}

// open counts the ends of items that are not on the disk, and says whether an
// item's start is.
func (d *disk) open(index, attempt int) (ends int, started bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, f := range d.facts {
		if f.Type == event.ItemStarted && f.Index == index && f.Attempt == attempt {
			started = i < d.synced
		}
		if (f.Type == event.ItemFinished || f.Type == event.ItemRetry) && i >= d.synced {
			ends++
		}
	}
	return ends, started
}

// TestStrictSyncsOnceAnItem: an item's start is on the disk before its process
// starts, and its end before its worker continues, to another item or out of the
// map; where the two come together, one sync is for both.
func TestStrictSyncsOnceAnItem(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		for _, failing := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				const n = 50
				d, made := &disk{memory: memory{left: -1}}, n
				tab := &table{run: func(_ *Map, a Attempt) Ending {
					ends, started := d.open(a.Item.Index, a.Number)
					if !started {
						t.Errorf("item %d starts, and its start is not on the disk", a.Item.Index)
					}
					if ends >= workers { // of the others, at most
						t.Errorf("item %d starts, and the ends of %d are not on the disk, of %d workers", a.Item.Index, ends, workers)
					}
					time.Sleep(time.Duration(a.Item.Index%3+1) * time.Millisecond)
					if failing && a.Number == 1 && a.Item.Index%3 == 0 {
						return broken("once")
					}
					return Ending{}
				}}
				if failing {
					made += n / 3
				}
				r := &reads{}
				x, err := New(Options{Policy: policy.Config{MaxParallel: workers, Retry: once(2, time.Millisecond)}, Total: n, Clock: clock.Machine{}, Recorder: d,
					Items: r.items1(n), Template: tab, Name: "run", Strict: true})
				if err != nil {
					t.Fatal(err)
				}
				x.Run(t.Context())
				if c := x.Outcome().Counts; c.Succeeded != n {
					t.Fatalf("%+v", c)
				}
				if ends, _ := d.open(0, 0); ends > 0 {
					t.Errorf("the map is over, and the ends of %d items are not on the disk", ends)
				}
				if d.syncs > made+2*workers {
					t.Errorf("%d syncs for %d starts by %d workers", d.syncs, made, workers)
				}
			})
		}
	}
}
