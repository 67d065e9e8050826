package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/internal/step/virtual"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// TestWaitsEndInOrder: tasks that wait wake by time, and those of one moment in
// the order in which they began to wait.
func TestWaitsEndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		delays := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 20).Draw(t, "delays")
		c := virtual.NewClock(start)
		var ended []int
		c.Run(func() {
			c.Together(len(delays), func(i int) {
				if err := c.Wait(context.Background(), time.Duration(delays[i])*time.Second, nil); err != nil {
					t.Error(err)
				}
				if got := c.Now().Sub(start); got != time.Duration(delays[i])*time.Second {
					t.Errorf("task %d goes on at %s, want %ds", i, got, delays[i])
				}
				ended = append(ended, i) // one task runs at a time
			})
		})
		want := slices.Collect(func(yield func(int) bool) {
			for i := range delays {
				if !yield(i) {
					return
				}
			}
		})
		slices.SortStableFunc(want, func(a, b int) int { return delays[a] - delays[b] })
		if !slices.Equal(ended, want) {
			t.Fatalf("the order is %v, want %v", ended, want)
		}
	})
}

// TestTurns: the turns of a moment come in the order of their numbers, after what else is
// due then, whoever waits for them first; a timeout that Later puts off ends between two.
func TestTurns(t *testing.T) {
	c := virtual.NewClock(start)
	moment := start.Add(time.Second)
	turn := func(n uint64) virtual.Turn { return virtual.Turn{At: moment, Number: n} }
	c.Later = func(context.Context) (virtual.Turn, bool) { return turn(1), true }
	var list []string
	add := func(what string) { list = append(list, what) }
	c.After(time.Second, func() { add("last") })
	c.Run(func() {
		c.Together(5, func(i int) {
			switch i {
			case 3:
				_ = c.Wait(context.Background(), time.Second, nil)
				add("due")
			case 4:
				ctx, cancel := c.WithTimeout(context.Background(), time.Second, errors.New("late"))
				defer cancel()
				if err := c.WaitTurn(ctx, turn(7)); err == nil {
					t.Error("the timeout has not ended the wait")
				}
				add("timeout")
			default:
				if err := c.WaitTurn(context.Background(), turn(2-uint64(i))); err != nil {
					t.Error(err)
				}
				add(fmt.Sprint(2 - i))
			}
		})
		if err := c.WaitTurn(context.Background(), virtual.Turn{At: start}); err != nil || !c.Now().Equal(moment) {
			t.Errorf("a turn that is over ends at %s: %v", c.Now(), err)
		}
		_ = c.Wait(context.Background(), time.Second, nil)
	})
	if got := strings.Join(list, " "); got != "due 0 1 timeout 2 last" {
		t.Errorf("the order is %q", got)
	}
}

func TestTimeoutEndsWait(t *testing.T) {
	c := virtual.NewClock(start)
	late := errors.New("late")
	c.Run(func() {
		ctx, cancel := c.WithTimeout(context.Background(), time.Minute, late)
		defer cancel()
		inner, done := c.WithTimeout(ctx, time.Hour, errors.New("later"))
		defer done()
		if err := c.Wait(inner, 2*time.Hour, nil); err != late {
			t.Errorf("the wait ended with %v", err)
		}
		if got := c.Now().Sub(start); got != time.Minute {
			t.Errorf("it is %s later", got)
		}
		done()
		cancel()
		if err := c.Wait(context.Background(), 2*time.Hour, nil); err != nil || c.Now().Sub(start) != 2*time.Hour+time.Minute {
			t.Errorf("a timeout that was called off has an effect: %v, %s", err, c.Now().Sub(start))
		}
	})
}

// TestReadyEndsWait: a channel that another task closes or sends on.
func TestReadyEndsWait(t *testing.T) {
	c := virtual.NewClock(start)
	ready, token := make(chan struct{}), make(chan struct{}, 1)
	var said []string
	say := func(format string, args ...any) {
		said = append(said, c.Now().Sub(start).String()+" "+fmt.Sprintf(format, args...))
	}
	c.Run(func() {
		c.Together(4, func(i int) {
			switch i {
			case 0:
				say("%v", c.Wait(context.Background(), -1, ready))
			case 1:
				say("%v", c.Wait(context.Background(), time.Hour, token))
			case 2:
				say("%v", c.Wait(context.Background(), 2*time.Second, token))
			case 3:
				if err := c.Wait(context.Background(), time.Second, nil); err != nil {
					t.Error(err)
				}
				token <- struct{}{} // for one of them
				close(ready)
			}
		})
	})
	if got := strings.Join(said, ", "); got != "1s <nil>, 1s <nil>, 2s <nil>" {
		t.Error(got)
	}
}

func TestNothingIsDue(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a wait for ever ended")
		}
	}()
	c := virtual.NewClock(start)
	c.Run(func() { _ = c.Wait(context.Background(), -1, make(chan struct{})) })
}

// BenchmarkWait is a wait of one of several tasks.
func BenchmarkWait(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := virtual.NewClock(start)
			c.Run(func() {
				c.Together(n, func(i int) {
					for range b.N / n {
						_ = c.Wait(context.Background(), time.Duration(1+i)*time.Millisecond, nil)
					}
				})
			})
		})
	}
}

// TestTogetherEndsWithAll: the end of a context under which somebody has waited before
// does not end the wait for those who run together.
func TestTogetherEndsWithAll(t *testing.T) {
	c := virtual.NewClock(start)
	c.Run(func() {
		ctx, cancel := c.WithTimeout(context.Background(), 2*time.Second, errors.New("late"))
		defer cancel()
		other := 0
		c.Together(2, func(i int) {
			if i == 1 { // keeps the end of the context from being forgotten
				_ = c.Wait(ctx, time.Hour, nil)
				return
			}
			if err := c.Wait(ctx, time.Second, nil); err != nil {
				t.Error(err)
			}
			c.Together(2, func(int) {
				if err := c.Wait(context.Background(), time.Minute, nil); err != nil {
					t.Error(err)
				}
				other++
			})
			if other != 2 {
				t.Errorf("%d of 2 had ended", other)
			}
		})
	})
}
