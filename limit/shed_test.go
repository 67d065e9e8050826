package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/limit"
)

// A target of 10 slots that are each busy for 100 ms is asked so many times a second
// for so long. What is returned is how many were served and refused, and the
// longest waits of those who came at once or later.
func ask(t *testing.T, l *limit.Limit, perSecond int, during, later time.Duration) (served, refused int, after, lateAfter time.Duration) {
	type end struct {
		late   bool
		waited time.Duration
		err    error
	}
	start := time.Now()
	ends := make(chan end, 1<<16)
	n := int(during.Seconds() * float64(perSecond))
	for range n {
		go func() {
			began := time.Now()
			var waited time.Duration
			err := limit.Do(t.Context(), l, func(context.Context) error {
				waited = time.Since(began)
				time.Sleep(100 * time.Millisecond)
				return nil
			})
			if err != nil {
				waited = time.Since(began)
			}
			ends <- end{began.Sub(start) >= later, waited, err}
		}()
		time.Sleep(sec / time.Duration(perSecond))
	}
	for range n {
		e := <-ends
		switch {
		case e.err == nil:
			served++
		case errors.Is(e.err, limit.ErrRefused):
			refused++
		default:
			t.Fatal(e.err)
		}
		if after = max(after, e.waited); e.late {
			lateAfter = max(lateAfter, e.waited)
		}
	}
	return served, refused, after, lateAfter
}

func TestAQueueThatDoesNotDrainSheds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := limit.Concurrency(10)
		if served, refused, after, _ := ask(t, plain, 200, 10*sec, 0); served != 2000 || refused != 0 || after < 9*sec {
			t.Errorf("without it %d are served, the last after %v, and %d refused", served, after, refused)
		}
		l := limitOf(limit.Config{Concurrency: 10, ShedAfter: 2 * sec})
		// A burst of a second that drains in another refuses nobody.
		if served, refused, after, _ := ask(t, l, 150, sec, 0); served != 150 || refused != 0 || after < 400*time.Millisecond {
			t.Errorf("of a burst %d are served, the last after %v, and %d refused", served, after, refused)
		}
		time.Sleep(sec)
		// At twice what it can do the slots stay full, and nobody waits for long once
		// that is known.
		if served, _, after, late := ask(t, l, 200, 20*sec, 2*sec); served < 2000 || after > 2*sec || late > 100*time.Millisecond {
			t.Errorf("of 4000 %d are served, the longest wait is %v, and %v of who came later", served, after, late)
		}
		if l.Waiting() != 0 || l.InUse() != 0 {
			t.Errorf("%d wait, %d in use", l.Waiting(), l.InUse())
		}
		// What it was is not held against it.
		if served, refused, _, _ := ask(t, l, 50, 5*sec, 0); served != 250 || refused != 0 {
			t.Errorf("afterwards %d of 250 are served", served)
		}
	})
}

// Once the queue is known not to drain, the bound is a twentieth.
func TestShedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitOf(limit.Config{Concurrency: 1, ShedAfter: 2 * sec, MaxWait: 10 * sec})
		s := join(t, l)
		acquire(t, s) // and never given back
		began := time.Now()
		first := make(chan time.Duration)
		go func() {
			if s.Acquire(t.Context(), limit.Request{}) == nil {
				t.Error("it gets what nobody gives back")
			}
			first <- time.Since(began)
		}()
		time.Sleep(1950 * time.Millisecond)
		second := time.Now()
		if err := s.Acquire(t.Context(), limit.Request{}); !errors.Is(err, limit.ErrRefused) || time.Since(second) != 100*time.Millisecond {
			t.Errorf("the second is told after %v: %v", time.Since(second), err)
		}
		if after := <-first; after != 2*sec {
			t.Errorf("the first is told after %v", after)
		}
		third := time.Now() // the queue was empty: it may drain again
		if err := s.Acquire(t.Context(), limit.Request{}); !errors.Is(err, limit.ErrRefused) || time.Since(third) != 2*sec {
			t.Errorf("the third is told after %v: %v", time.Since(third), err)
		}
	})
}
