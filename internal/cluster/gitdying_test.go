package cluster

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// dying is a bucket that goes out of reach at one of its writes: before it, or behind it, so
// that nobody hears that it was made.
type dying struct {
	flat
	mu     *sync.Mutex
	writes *int // until it is out of reach; negative: it stays
	behind bool
}

var errOutOfReach = errors.New("the bucket is out of reach")

func (d dying) there() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if *d.writes == 0 {
		return errOutOfReach
	}
	return nil
}

func (d dying) Create(name string, write func(io.Writer) error) error {
	d.mu.Lock()
	was := *d.writes
	if was > 0 {
		*d.writes--
	}
	d.mu.Unlock()
	if was == 0 || was == 1 && !d.behind {
		return errOutOfReach
	}
	err := d.flat.Create(name, write)
	if was == 1 && err == nil {
		err = errOutOfReach
	}
	return err
}

func (d dying) Read(name string, from int64) (io.ReadCloser, error) {
	if err := d.there(); err != nil {
		return nil, err
	}
	return d.flat.Read(name, from)
}

func (d dying) List(folder string) ([]string, error) {
	if err := d.there(); err != nil {
		return nil, err
	}
	return d.flat.List(folder)
}

// TestGoneAtEachWriteAmidGit: a worker whose bucket goes out of reach at any of its writes,
// with the write made or not, has lost no item that commits, and the branch has each once. An
// item whose merge is in the bucket does not run again. The short form has one write drawn;
// make cluster has all.
func TestGoneAtEachWriteAmidGit(t *testing.T) {
	t.Parallel()
	for _, behind := range []bool{false, true} {
		t.Run(fmt.Sprintf("made %v", behind), func(t *testing.T) {
			t.Parallel()
			if os.Getenv("BIDE_CLUSTER_GIT") == "" {
				gone(t, 1+rand.IntN(8), behind)
				return
			}
			for at := 1; gone(t, at, behind); at++ {
				if at > 40 {
					t.Fatal("so many writes")
				}
			}
		})
	}
}

// gone is a run whose first lane loses its bucket at a write; false where it does not make so
// many.
func gone(t *testing.T, at int, behind bool) (was bool) {
	t.Run(fmt.Sprint(at), func(t *testing.T) {
		s := inBucket(t, fmt.Sprintf("dying-%v-%d", behind, at))
		writes := -1
		s.store.o = dying{s.store.o.(flat), new(sync.Mutex), &writes, behind}
		openers.Lock()
		openers.open[s.store.text] = s.store.o
		openers.Unlock()
		d := s.store.o.(dying)
		set := func(n int) {
			d.mu.Lock()
			defer d.mu.Unlock()
			writes = n
		}
		const n = 3
		run := s.submitGit(strings.Replace(s.counted(n, ""), "max_parallel: 2", "max_parallel: 1", 1))
		c := s.begun(run)
		l, _, _ := c.Lease(time.Now())
		set(at)
		_, err := s.workers[0].Lane(t.Context(), *l, nil, nil)
		was = d.there() != nil
		set(-1)
		if was == (err == nil) {
			t.Errorf("the lane has ended with %v", err)
		}
		merged := 0
		if err := s.store.Run(run).gitEntries(0, func(e gitEntry, _ io.Reader) error {
			if e.Kind == gitMerged {
				merged++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		before := s.ran()
		out, err := s.workers[1].Adopt(*l)
		if err == nil {
			err = c.Lost(l.ID, out, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		if status := s.onceMerged(run, s.ended(run, c)); status != event.Succeeded {
			t.Fatalf("%s: %+v", status, s.events(run))
		}
		s.eachOnce(run, n)
		again := 0
		for id, times := range s.ran() {
			if before[id] > 0 {
				again += times - before[id]
			}
		}
		if begun := len(before); again > begun-merged {
			t.Errorf("%d items ran again, of %d begun and %d merged", again, begun, merged)
		}
		if rep, err := s.store.Run(run).Verify(); err != nil || len(rep.Damaged) > 0 {
			t.Errorf("%+v, %v", rep, err)
		}
		t.Logf("%d of %d merged, %d ran again", merged, n, again)
	})
	return was
}
