// Package hedge makes a second attempt beside a first one that is slow, and
// takes what comes first. (After Dean and Barroso, "The Tail at Scale", 2013.)
//
//	h, err := hedge.New(hedge.Config{})
//	v, err := hedge.Get(ctx, h, fetch)
//	v, err = guard.Get(ctx, g, hedge.Func(h, fetch)) // within other layers
//
// The second attempt begins when the first has taken longer than most do, by
// default longer than 95 of 100, which the hedge learns. A quota bounds how many
// more calls the target gets, whatever happens to it: when all calls become
// slow, hedging all of them would be the end of it.
//
// It calls the function in goroutines of its own, which nothing else of this library
// does: a hedge is a function around yours and no layer of a guard, so that the
// program shows where two calls may run at once.
//
// Hedge only what may be done twice. A value that comes when another has won is
// dropped: what must be closed the function closes itself once its context has
// ended with [ErrLost].
package hedge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Config is the settings of a [Hedge]. The zero value is usable: every zero
// field means its default.
type Config struct {
	// Delay is how long the attempt before is waited for; 0 means that it is
	// learned from Quantile.
	Delay time.Duration

	// Quantile is the share of calls that are not to be hedged, between 0 and
	// 1; 0 means 0.95. It is not used if Delay is set.
	Quantile float64

	// Max is how many further attempts one call may make; 0 means 1.
	Max int

	// Ratio bounds the further attempts of all calls together, as a share of
	// their number, more than 0 and at most 1; 0 means 0.05.
	Ratio float64

	// HedgeIf says of an error whether the next attempt is to follow it, at once
	// and whatever the delay; nil means that none is: an error of the first attempt
	// that comes before the delay is the result. Attempts that run already are
	// waited for in any case.
	HedgeIf func(error) bool

	// Observer, if not nil, is told of each further attempt, in its goroutine: a
	// [retry.Hedged], whose Attempt counts the attempts of the call, from 2.
	Observer retry.Observer
}

// Hedge learns how long calls take and counts how many were made twice. It is
// safe for concurrent use. It is for calls of one kind, to one target.
type Hedge struct {
	config Config

	mu      sync.Mutex
	times   []time.Duration // of the last calls, a ring
	at      int
	fresh   int           // since delay was computed
	delay   time.Duration // after which a call is hedged; 0: not yet known
	balance float64       // further attempts there may be
}

const (
	// kept is how many times are kept, least how many are needed before a
	// quantile means something, and each how many come before it is computed
	// anew.
	kept, least, each = 500, 20, 25

	// saved is how many further attempts can be saved up.
	saved = 10
)

// New returns a hedge, or an error that names every setting out of its range.
func New(c Config) (*Hedge, error) {
	var problems []error
	problem := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf("hedge: "+format, args...))
		}
	}
	problem(c.Delay < 0, "Delay is %v; it must be positive, or 0 to learn it", c.Delay)
	problem(!(c.Quantile >= 0 && c.Quantile < 1), "Quantile is %v; it must be between 0 and 1, where 0.99 is 99 %%, or 0 for 0.95", c.Quantile)
	problem(c.Max < 0, "Max is %d; it must be 1 or more, or 0 for 1", c.Max)
	problem(!(c.Ratio >= 0 && c.Ratio <= 1), "Ratio is %v; it must be from 0 to 1, or 0 for 0.05", c.Ratio)
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	c.Quantile = cmp.Or(c.Quantile, 0.95)
	c.Max = cmp.Or(c.Max, 1)
	c.Ratio = cmp.Or(c.Ratio, 0.05)
	return &Hedge{config: c, delay: c.Delay, balance: 1}, nil
}

// Must returns the hedge, or panics if there is an error: for variables of a
// package.
func Must(h *Hedge, err error) *Hedge {
	if err != nil {
		panic(err)
	}
	return h
}

// Delay returns after how long a call is hedged now; 0 if that is not known
// yet.
func (h *Hedge) Delay() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.delay
}

// begin counts a call and returns when to hedge it.
func (h *Hedge) begin() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.balance = min(h.balance+h.config.Ratio, saved)
	return h.delay
}

// take asks the quota for one further attempt.
func (h *Hedge) take() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.balance < 1 {
		return false
	}
	h.balance--
	return true
}

// took learns how long a first attempt took, or at least took. How soon a target fails
// says nothing about how soon it answers.
func (h *Hedge) took(d time.Duration) {
	if h.config.Delay > 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.times) < kept {
		h.times = append(h.times, d)
	} else {
		h.times[h.at] = d
		h.at = (h.at + 1) % kept
	}
	if h.fresh++; h.fresh >= each && len(h.times) >= least {
		h.fresh = 0
		sorted := slices.Sorted(slices.Values(h.times))
		rank := int(math.Ceil(h.config.Quantile * float64(len(sorted))))
		h.delay = max(sorted[min(max(rank-1, 0), len(sorted)-1)], 1)
	}
}

// ErrLost is the cause of the context of an attempt beside which another came
// first.
var ErrLost = fmt.Errorf("hedge: another attempt came first: %w", context.Canceled)

var (
	errNilFunc    = errors.New("hedge: the function is nil")
	errNilContext = errors.New("hedge: the context is nil")
	errUnmade     = errors.New("hedge: the hedge is nil or was not made; make it with New")
)

// Func returns fn as a function that is hedged: [Get] to call later, in a guard or
// another layer. Of a nil fn it is nil.
func Func[T any](h *Hedge, fn func(context.Context) (T, error)) func(context.Context) (T, error) {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context) (T, error) { return Get(ctx, h, fn) }
}

// Do is [Get] for a function without a value.
func Do(ctx context.Context, h *Hedge, fn func(context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	_, err := Get(ctx, h, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// Get calls fn, and again beside it as the hedge says, and returns what succeeds
// first. The contexts of the others then end, and Get waits for them: when it
// returns, nothing of it runs. If all fail, the error is that of the first. A
// panic is a failed attempt, with a *[retry.PanicError], and so is one of
// Config.HedgeIf or Config.Observer. If ctx has ended before the call, fn is not
// called, and the error is the cause of ctx. A nil ctx, h or fn is an error too.
func Get[T any](ctx context.Context, h *Hedge, fn func(context.Context) (T, error)) (T, error) {
	if fn == nil || h == nil || h.config.Max == 0 || ctx == nil || ctx.Err() != nil {
		var zero T
		return zero, notCalled(ctx, h, fn == nil)
	}
	r := &race[T]{hedge: h, fn: fn, delay: h.begin()}
	r.ctx, r.lose = context.WithCancelCause(ctx)
	defer r.lose(nil)
	began := time.Now()
	if r.delay > 0 {
		r.mu.Lock()
		r.timer = time.AfterFunc(r.delay, func() { r.another() })
		r.mu.Unlock()
	}
	defer r.end()
	r.attempt(1)
	if r.succeeded() {
		h.took(time.Since(began)) // or until when another has won
	}
	for r.another() { // as long as all have failed in a way that one more may answer
	}
	r.end()
	return r.value, r.err
}

// notCalled says why a function is not called.
func notCalled(ctx context.Context, h *Hedge, isNil bool) error {
	switch {
	case isNil:
		return errNilFunc
	case h == nil || h.config.Max == 0:
		return errUnmade
	case ctx == nil:
		return errNilContext
	}
	return context.Cause(ctx)
}

// race are the attempts of one call.
type race[T any] struct {
	hedge *Hedge
	fn    func(context.Context) (T, error)
	ctx   context.Context
	lose  context.CancelCauseFunc
	delay time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	over    bool // no further attempt begins
	won     bool
	beside  int
	value   T
	err     error // of the first that failed
	running sync.WaitGroup
}

// another makes a further attempt and reports whether it did: not if it is over
// or the quota is used up.
func (r *race[T]) another() bool {
	r.mu.Lock()
	if r.over || r.ctx.Err() != nil || r.beside >= r.hedge.config.Max || !r.hedge.take() {
		r.mu.Unlock()
		return false
	}
	r.beside++
	r.running.Add(1)
	if r.timer != nil && r.beside < r.hedge.config.Max {
		r.timer.Reset(r.delay)
	}
	number := r.beside + 1
	r.mu.Unlock()
	defer r.running.Done()
	r.attempt(number)
	return true
}

// attempt makes one attempt and notes what became of it, in whatever way the
// observer, the function and HedgeIf end.
func (r *race[T]) attempt(number int) {
	var v T
	var err error
	returned := false
	defer func() {
		if !returned {
			err = driver.Recovered(recover())
		}
		again, asked := false, false
		defer func() {
			if !asked {
				err = driver.Recovered(recover())
			}
			r.note(v, err, again)
		}()
		again = err != nil && r.hedge.config.HedgeIf != nil && r.hedge.config.HedgeIf(err)
		asked = true
	}()
	if o := r.hedge.config.Observer; o != nil && number > 1 {
		o(retry.Event{Type: retry.Hedged, Time: time.Now(), Attempt: number})
	}
	v, err = r.fn(r.ctx)
	returned = true
}

// succeeded reports whether an attempt has succeeded.
func (r *race[T]) succeeded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.won
}

// note keeps the end of an attempt; again: one more may answer it.
func (r *race[T]) note(v T, err error, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.won:
		return
	case err == nil:
		r.won, r.value, r.err, r.over = true, v, nil, true
		r.lose(ErrLost)
	case r.err == nil:
		r.err = err
	}
	if !again {
		r.over = true
	}
}

// end begins no further attempt and waits for those that run.
func (r *race[T]) end() {
	r.mu.Lock()
	r.over = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.running.Wait()
}
