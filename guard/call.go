package guard

import (
	"context"
	"errors"
	"sync"

	"github.com/bide-dev/bide/circuit"
	circuitdriver "github.com/bide-dev/bide/circuit/driver"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

var (
	errNilFunc    = errors.New("guard: the function is nil")
	errNilContext = errors.New("guard: the context is nil")
	errUnmade     = errors.New("guard: the guard is nil or was not made; make it with New")
)

// Get calls fn under the guard and returns what it came to. If a retry is among
// the layers, the error is an *[retry.Error]; otherwise it is what fn returned,
// the refusal of a breaker or limit, a *[retry.TimeoutError], or the end of ctx
// as a *[retry.Error]. fn is called in the goroutine of the caller, one call after
// the other. A nil ctx, g or fn is an error.
func Get[T any](ctx context.Context, g *Guard, fn func(context.Context) (T, error)) (T, error) {
	if fn == nil || g == nil || len(g.stages) == 0 || ctx == nil {
		var zero T
		return zero, notCalled(g, fn == nil)
	}
	if !g.quick || ctx.Err() != nil {
		return within(ctx, g, g.stages, fn)
	}
	s := &g.stages[0]
	var ticket circuitdriver.Ticket
	if s.breaker != nil {
		var err error
		if ticket, err = s.breaker.Driver().Admit(); err != nil {
			return staged(ctx, g, s, nil, fn)
		}
	}
	if !s.limits.Try() {
		s.answer(ticket, circuit.Neutral)
		return staged(ctx, g, s, nil, fn)
	}
	v, err := call(ctx, s, ticket, fn)
	if err == nil {
		return v, nil
	}
	return staged(ctx, g, s, err, fn)
}

func notCalled(g *Guard, isNil bool) error {
	switch {
	case isNil:
		return errNilFunc
	case g == nil || len(g.stages) == 0:
		return errUnmade
	}
	return errNilContext
}

// Do is [Get] for a function without a value.
func Do(ctx context.Context, g *Guard, fn func(context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	_, err := Get(ctx, g, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// Or is [Get] with something to do instead: fallback is called once with the
// error if the call failed in the end, and its value takes the call's place. If
// it fails too, the error is both, the call's first. There is no fallback for a
// call that its caller has ended. [FallbackIf] changes when there is one.
func Or[T any](ctx context.Context, g *Guard, fn func(context.Context) (T, error), fallback func(context.Context, error) (T, error)) (T, error) {
	if fallback == nil {
		var zero T
		return zero, errors.New("guard: the fallback is nil")
	}
	v, err := Get(ctx, g, fn)
	if ctx == nil || ctx.Err() != nil || !g.fallsBack(err) {
		return v, err
	}
	once := retry.Policy{Attempts: 1}
	instead, failure := driver.Drive(ctx, &driver.Operation{Policy: &once}, func(ctx context.Context, _ int) (T, error) { return fallback(ctx, err) })
	if failure == nil {
		return instead, nil
	}
	var zero T
	return zero, errors.Join(err, bare(failure))
}

func (g *Guard) fallsBack(err error) bool {
	if err == nil || err == errNilFunc || err == errUnmade {
		return false
	}
	if g.fallbackIf != nil {
		return g.fallbackIf(err)
	}
	ended, ok := err.(*retry.Error)
	return !ok || ended.Reason.Exhausted()
}

// call makes a first attempt that was let through, and gives everything back
// however it ends.
func call[T any](ctx context.Context, s *stage, ticket circuitdriver.Ticket, fn func(context.Context) (T, error)) (v T, err error) {
	outcome, returned := circuit.Failure, false
	defer func() {
		if !returned {
			err = driver.Recovered(recover())
		}
		if s.breaker == nil {
			s.release()
		} else {
			s.done(ticket, outcome)
		}
	}()
	v, err = fn(ctx)
	returned = true
	if err == nil {
		outcome = circuit.Success
	} else if s.breaker != nil {
		outcome = s.judge(ctx, err)
	}
	return v, err
}

func (s *stage) answer(ticket circuitdriver.Ticket, o circuit.Outcome) {
	if s.breaker != nil {
		s.breaker.Driver().Answer(ticket, o, 0) // one that is timed is not quick
	}
}

// done tells the breaker and gives the slots back, though its listener should panic.
func (s *stage) done(ticket circuitdriver.Ticket, o circuit.Outcome) {
	defer s.release()
	s.answer(ticket, o)
}

func (s *stage) release() { s.limits.Release(limit.Result{}) }

// judge says of the error of an attempt that returned what it means to the
// breaker.
func (s *stage) judge(ctx context.Context, err error) circuit.Outcome {
	if ctx.Err() == context.Canceled {
		return circuit.Neutral
	}
	return s.breaker.Driver().Judge(err)
}

// within runs the outermost of some stages around the others.
func within[T any](ctx context.Context, g *Guard, stages []stage, fn func(context.Context) (T, error)) (T, error) {
	if len(stages) == 1 {
		return staged(ctx, g, &stages[0], nil, fn)
	}
	return staged(ctx, g, &stages[0], nil, func(ctx context.Context) (T, error) { return within(ctx, g, stages[1:], fn) })
}

// staged drives one stage. first is the error of its first attempt, if that was
// made already.
func staged[T any](ctx context.Context, g *Guard, s *stage, first error, fn func(context.Context) (T, error)) (T, error) {
	op := driver.Operation{Policy: &s.policy, Observer: g.observer, Clock: g.clock, First: first}
	if s.breaker != nil || len(s.limits) > 0 {
		a := admissions.Get().(*Admission)
		*a = Admission{Breaker: s.breaker, Limits: s.limits, Priority: limit.PriorityFrom(ctx)}
		defer admissions.Put(a) // by then it has given everything back
		op.Admission, op.Judge = a, s.judges
	}
	v, err := driver.Drive(ctx, &op, func(ctx context.Context, _ int) (T, error) { return fn(ctx) })
	if err != nil && !s.retries {
		err = bare(err)
	}
	return v, err
}

// admissions are those that serve no operation: without them each call that needs
// the driver would make one on the heap.
var admissions = sync.Pool{New: func() any { return new(Admission) }}

// bare is the error of an operation of one attempt: that of the attempt, or the
// refusal. What ended it from outside stays as it is.
func bare(err error) error {
	if e, ok := err.(*retry.Error); ok && e.Last != nil && e.Reason.Exhausted() {
		return e.Last
	}
	return err
}
