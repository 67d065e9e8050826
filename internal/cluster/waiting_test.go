//go:build !race

package cluster

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// TestManyWait: where all items fail and wait for long, no more are begun than the
// coordinator can hand over in one message of the server, 2 MB; and once they are
// due, the map continues to its end. It has no second goroutine, and takes eight times as long with the
// race detector: make bounds runs it.
func TestManyWait(t *testing.T) {
	t.Parallel()
	for _, lanes := range []int{1, 200} {
		const items, message = 60_000, 2 << 20
		random := rand.New(rand.NewPCG(1, 2))
		m, err := policy.New(policy.Config{MaxParallel: lanes, Retry: &retry.Policy{Attempts: 2}}, items)
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCoordinator(CoordinatorState{Config: Config{Config: policy.Config{MaxParallel: lanes}, Retried: true}, Machine: m.State()})
		if err != nil {
			t.Fatal(err)
		}
		now, most, waiting, ended := time.Unix(1_700_000_000, 123_456_789), 0, 0, 0
		for rounds := 0; ; rounds++ {
			var open []*Lease
			l, until, over := c.Lease(now)
			for ; l != nil; l, until, over = c.Lease(now) {
				open = append(open, l)
			}
			if over {
				break
			}
			if len(open) == 0 && until.IsZero() || rounds > 10_000 {
				t.Fatalf("%d lanes: nothing is handed out, and nothing is due; %d items have ended", lanes, ended)
			}
			if len(open) == 0 {
				now = until.Add(10 * time.Minute)
				continue
			}
			for _, l := range open {
				s := Settled{Prefix: Prefix{Log: l.Log, Length: 1 << 20, Digest: strings.Repeat("0", 64)}, Took: time.Second}
				leased, _ := l.items()
				for i, it := range leased {
					if len(s.Odd) == cmp.Or(l.Odd, maxOdd) {
						break
					}
					if s.Done++; it.Attempt > 1 {
						ended++
						continue
					}
					delay := time.Hour + time.Duration(random.Int64N(int64(time.Hour)))
					now = now.Add(time.Duration(random.Int64N(int64(time.Millisecond))))
					s.Odd = append(s.Odd, Odd{At: i, Kind: oddFailed, Judged: &policy.Judged{Again: true, Delay: delay, Class: "network",
						State: driver.State{Attempt: 1, Slept: delay, Prev: delay, Began: now, FirstFailure: now, Due: now.Add(delay)}}})
				}
				if err := c.Settle(l.ID, s, now); err != nil {
					t.Fatal(err)
				}
			}
			if _, ok := c.Next(); ok {
				c.Recorded()
			}
			n := c.m.Counts().Retrying
			if waiting = max(waiting, n); n < waiting || n < maxWaiting {
				continue
			}
			most = max(most, compressed(t, c.State()))
			again, err := NewCoordinator(c.State()) // all that wait are due, and lanes have them
			if err != nil {
				t.Fatal(err)
			}
			for due := now.Add(3 * time.Hour); ; {
				if l, _, _ := again.Lease(due); l == nil {
					break
				}
			}
			most = max(most, compressed(t, again.State()))
			elsewhere, err := NewCoordinator(again.State())
			if err != nil {
				t.Fatal(err)
			}
			if a, b := again.Leases(), elsewhere.Leases(); len(a) == 0 || !reflect.DeepEqual(a, b) {
				t.Fatalf("%+v\n%+v", a, b)
			}
		}
		t.Logf("%d lanes: a state of at most %d bytes, compressed, with %d that wait", lanes, most, waiting)
		if ended != items || most > message {
			t.Errorf("%d lanes: %d of %d items ended; the state had %d bytes", lanes, ended, items, most)
		}
	}
}

// compressed is the length of a state as it is sent.
func compressed(t *testing.T, s CoordinatorState) int {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z, err := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	if err == nil {
		_, err = z.Write(text)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Len()
}
