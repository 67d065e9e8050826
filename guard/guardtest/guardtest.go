// Package guardtest tries guards in virtual time: what a policy does in an
// outage of half an hour takes a test a moment.
//
//	func TestOutage(t *testing.T) {
//		got := guardtest.Simulate(t, guardtest.World{
//			Calls: 200, Every: 50 * time.Millisecond,
//			Latency: 20 * time.Millisecond, FailureRate: 0.05,
//			Outages: []guardtest.Outage{{From: 2 * time.Second, For: 5 * time.Second}},
//		}, func() *guard.Guard {
//			return guard.Must(guard.New(retry.Policy{Attempts: 5, Backoff: backoff.Default(), Rand: backoff.NewRand(1)}))
//		})
//		if got.Amplification() > 3 {
//			t.Errorf("%d attempts for %d calls", got.Attempts, got.Calls)
//		}
//	}
//
// It stands on testing/synctest, whose rules hold: what the guard waits for is
// the clock of the test, and nothing else. The package imports the standard
// library and the packages of this module that do so too.
package guardtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/guard"
)

// World is what calls are made of, and what they meet. Its zero value makes no
// call.
type World struct {
	// Calls is how many there are; at least 1. One begins each Every; 0: all at
	// once.
	Calls int
	Every time.Duration

	// Latency is how long each attempt takes. An attempt whose context ends first
	// returns its error.
	Latency time.Duration

	// FailureRate is the probability, from 0 to 1, that an attempt fails.
	FailureRate float64

	// Outages are times, from the first call on, in which every attempt fails.
	Outages []Outage

	// Rate and Per are how many attempts the target answers in a time; the others
	// fail with an error that is a rate limit and asks to come back when the time
	// is over.
	// 0: any number.
	Rate int
	Per  time.Duration

	// Err is what a failed attempt returns; nil: [ErrFailed].
	Err error

	// Seed is that of the luck. What happens to an attempt is drawn from the seed,
	// the number of the call and that of the attempt alone, so that guards that
	// are compared meet the same.
	Seed uint64
}

// Outage is a time in which every attempt fails.
type Outage struct{ From, For time.Duration }

// ErrFailed is what a failed attempt returns, if a [World] has no other error.
var ErrFailed = errors.New("guardtest: the attempt failed")

// limitedError is the answer to an attempt that is one too many.
type limitedError struct {
	error
	after time.Duration
}

// Unwrap gives the error of the world.
func (e *limitedError) Unwrap() error { return e.error }

// RetryAfter is how long the target asks to be left alone.
func (e *limitedError) RetryAfter() (time.Duration, bool) { return e.after, true }

// RateLimited is true.
func (e *limitedError) RateLimited() bool { return true }

// Bucket is the width of a bucket of Result.Load.
const Bucket = 100 * time.Millisecond

// Result is what came of the calls.
type Result struct {
	Calls, Succeeded, Failed int
	// Attempts is how many reached the target.
	Attempts int
	// Took is from the first call to the end of the last.
	Took time.Duration
	// Load is how many attempts began in each Bucket, Peak the most.
	Load []int
	Peak int
	// Errors are those of the calls, by their number; nil of one that succeeded.
	Errors []error
	// RecoveredAfter is how long after the end of the last outage the first
	// attempt succeeded; -1: there was no outage, or none succeeded.
	RecoveredAfter time.Duration
}

// Amplification is the attempts for each call.
func (r *Result) Amplification() float64 { return float64(r.Attempts) / float64(max(r.Calls, 1)) }

// Simulate makes the calls of a world through a guard, in virtual time, and
// gives what came of them. build is called once, within the virtual time. Give
// the policies a source of jitter of their own (backoff.NewRand), or each run of
// the test draws other delays.
//
// A world that cannot be ends the test.
func Simulate(t *testing.T, w World, build func() *guard.Guard) *Result {
	t.Helper()
	if err := w.check(); err != nil {
		t.Fatal(err)
	}
	r := &Result{Calls: w.Calls, RecoveredAfter: -1, Errors: slices.Repeat([]error{nil}, w.Calls)}
	synctest.Test(t, func(t *testing.T) {
		s := &scene{World: w, result: r, began: time.Now()}
		g := build()
		var all sync.WaitGroup
		for i := range w.Calls {
			if i > 0 && w.Every > 0 {
				time.Sleep(w.Every)
			}
			all.Go(func() {
				attempt := uint64(0)
				r.Errors[i] = guard.Do(t.Context(), g, func(ctx context.Context) error {
					attempt++
					return s.attempt(ctx, uint64(i), attempt)
				})
			})
		}
		all.Wait()
		r.Took = time.Since(s.began)
	})
	for _, err := range r.Errors {
		if err == nil {
			r.Succeeded++
		} else {
			r.Failed++
		}
	}
	for _, n := range r.Load {
		r.Peak = max(r.Peak, n)
	}
	return r
}

// check names all that is wrong with a world.
func (w *World) check() error {
	var errs []error
	if w.Calls < 1 {
		errs = append(errs, errors.New("guardtest: Calls must be at least 1"))
	}
	if w.Every < 0 || w.Latency < 0 {
		errs = append(errs, errors.New("guardtest: Every and Latency must not be negative"))
	}
	if !(w.FailureRate >= 0 && w.FailureRate <= 1) {
		errs = append(errs, errors.New("guardtest: FailureRate must be from 0 to 1"))
	}
	if w.Rate < 0 || w.Rate > 0 && w.Per <= 0 {
		errs = append(errs, errors.New("guardtest: a Rate is positive, and needs a Per"))
	}
	for _, o := range w.Outages {
		if o.From < 0 || o.For <= 0 {
			errs = append(errs, errors.New("guardtest: an outage must not begin before the calls, and takes some time"))
		}
	}
	return errors.Join(errs...)
}

// scene is a world while calls are made in it.
type scene struct {
	World
	began time.Time

	mu     sync.Mutex
	result *Result
	window int64 // the present Per, and how many were answered in it
	used   int
}

// attempt is one that reaches the target.
func (s *scene) attempt(ctx context.Context, call, n uint64) error {
	now := time.Since(s.began)
	err := s.outcome(now, call, n)
	if s.Latency > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(s.Latency):
		}
	}
	if err == nil {
		s.succeeded()
	}
	return err
}

// outcome counts an attempt and says what becomes of it.
func (s *scene) outcome(now time.Duration, call, n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Attempts++
	for len(s.result.Load) <= int(now/Bucket) {
		s.result.Load = append(s.result.Load, 0)
	}
	s.result.Load[now/Bucket]++
	failed := s.Err
	if failed == nil {
		failed = ErrFailed
	}
	for _, o := range s.Outages {
		if now >= o.From && now < o.From+o.For {
			return failed
		}
	}
	if s.Rate > 0 {
		window := int64(now / s.Per)
		if window != s.window {
			s.window, s.used = window, 0
		}
		if s.used++; s.used > s.Rate {
			return &limitedError{failed, time.Duration(window+1)*s.Per - now}
		}
	}
	if unit(s.Seed, call, n) < s.FailureRate {
		return failed
	}
	return nil
}

// succeeded notes how soon after the last outage the first attempt succeeded.
func (s *scene) succeeded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := time.Duration(-1)
	for _, o := range s.Outages {
		end = max(end, o.From+o.For)
	}
	if now := time.Since(s.began); end >= 0 && now >= end && s.result.RecoveredAfter < 0 {
		s.result.RecoveredAfter = now - end
	}
}

// unit draws a number from 0 to less than 1 for an attempt: the finalizer of
// splitmix64 over all that it depends on.
func unit(parts ...uint64) float64 {
	x := uint64(0)
	for _, p := range parts {
		x += p + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return float64(x>>11) / (1 << 53)
}
