// Package guard puts layers around a call, in one declared order: retry, circuit
// breaker, limits, timeout.
//
//	get, err := guard.New(                    // outermost first
//		retry.Policy{Attempts: 4, Backoff: backoff.Default(), If: retry.Transient},
//		breaker,                              // *circuit.Breaker, shared by whoever shares the target
//		limit.Concurrency(8), limit.Rate(10, time.Second),
//		guard.Timeout(5*time.Second),
//		guard.Log(slog.Default()))
//
//	u, err := guard.Get(ctx, get, fetchUser)          // func(context.Context) (User, error)
//	err = guard.Do(ctx, get, save)                    // func(context.Context) error
//	u, err = guard.Or(ctx, get, fetchUser, cached)    // with a fallback
//
// A guard is made once and serves any number of calls at once. All of it is
// driven by [driver.Drive], whose rules hold: the breaker is asked before anything
// is waited for, slots and tokens are taken together when the attempt can begin,
// a wait for the next attempt holds none of them, what the function returned
// counts, and only ctx ends the call.
package guard

import (
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Layer is one of
//
//	retry.Policy       attempts and the waits between them
//	*circuit.Breaker   asked before, told after
//	*limit.Limit       waited for before
//	Timeout(d)         the end of the context of all that is within
//	Log(logger), Observe(f)   told of everything; their place does not matter
//	FallbackIf(f)      what Or answers; its place does not matter
//	Clock(c)           the time of waits and timeouts; its place does not matter
//
// GuardLayer does nothing: it marks the types that [New] takes, so that anything
// else does not compile.
type Layer interface{ GuardLayer() }

// Guard is layers around calls. It is safe for concurrent use.
type Guard struct {
	stages     []stage
	observer   retry.Observer
	fallbackIf func(error) bool
	clock      driver.Clock
	quick      bool // one stage, in which a call that succeeds needs no driver
}

// stage is what one run of the driver takes care of: a retry, and what is
// within it up to the next layer that is not within an attempt.
type stage struct {
	retries bool // there is a retry in it
	policy  retry.Policy
	breaker *circuit.Breaker
	limits  limit.Set
	judges  func(error) circuit.Outcome // the breaker's, if it has rules of its own
	filled  int                         // rank of the innermost layer so far
}

// The ranks of layers within a stage, from the outside. Breakers and limits are
// one: they are asked together.
const (
	rankRetry = iota + 1
	rankAdmission
	rankTimeout
)

// timeout, observer, fallbackIf and clock are the layers of their constructors.
type (
	timeout    time.Duration
	clock      struct{ driver.Clock }
	observer   retry.Observer
	fallbackIf func(error) bool
)

func (timeout) GuardLayer()    {}
func (clock) GuardLayer()      {}
func (observer) GuardLayer()   {}
func (fallbackIf) GuardLayer() {}

// Timeout ends the context of all that is within after d. The function is waited
// for all the same, and a success after it is a success. If d is not positive, [New]
// returns an error.
func Timeout(d time.Duration) Layer { return timeout(d) }

// Observe tells f of every attempt, wait, refusal and end. f must be quick and
// safe for concurrent use.
func Observe(f retry.Observer) Layer { return observer(f) }

// FallbackIf says of the error of the guarded call whether [Or] answers with its
// fallback, in place of [driver.Reason.Exhausted]. [retry.Until] makes errors of
// values.
func FallbackIf(f func(error) bool) Layer { return fallbackIf(f) }

// Clock has everything wait on c in place of the machine's clock, for a
// simulation. Limits and breakers have a clock of their own (limit.Config.Clock,
// circuit.Config.Now), to be given the same.
func Clock(c driver.Clock) Layer { return clock{c} }

// New returns the guard of some layers, outermost first. The error names every
// layer that is nil, unknown or not valid, and a breaker or limit that is there twice:
// it would be asked twice for one call.
func New(layers ...Layer) (*Guard, error) {
	g := &Guard{stages: make([]stage, 1)}
	var problems []error
	for i, layer := range layers {
		err := g.add(layer)
		if err == nil {
			err = once(layers[:i], layer)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("guard: layer %d: %w", i+1, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	for i := range g.stages {
		s := &g.stages[i]
		if !s.retries {
			s.policy.Attempts = 1
		}
		limits, err := limit.Join(s.limits...)
		if err != nil {
			return nil, err
		}
		s.limits = limits
		if s.breaker != nil && s.breaker.Driver().Judges() {
			s.judges = s.breaker.Driver().Judge
		}
		s.policy.Timed = s.policy.Timed || limits.Adaptive() || s.breaker != nil && s.breaker.Driver().Timed()
	}
	s := &g.stages[0]
	g.quick = len(g.stages) == 1 && g.observer == nil && s.plain()
	return g, nil
}

// Must returns the guard, or panics if there is an error: for variables of a
// package.
func Must(g *Guard, err error) *Guard {
	if err != nil {
		panic(err)
	}
	return g
}

// once reports that the breaker or limit of a layer is that of one before.
func once(before []Layer, layer Layer) error {
	shared := sharedOf(layer)
	for i, other := range before {
		if shared != nil && sharedOf(other) == shared {
			return fmt.Errorf("it is there twice, as layer %d already; leave one out", i+1)
		}
	}
	return nil
}

// sharedOf is the breaker or limit of a layer, nil if it has none.
func sharedOf(layer Layer) any {
	switch l := layer.(type) {
	case *circuit.Breaker:
		return l
	case *limit.Limit:
		return l
	case retry.Policy:
		if l.Breaker != nil {
			return l.Breaker
		}
	}
	return nil
}

// add puts one layer inside of those before.
func (g *Guard) add(layer Layer) error {
	switch l := layer.(type) {
	case nil:
		return errors.New("it is nil")
	case retry.Policy:
		return g.addPolicy(l)
	case *circuit.Breaker:
		if l == nil {
			return errors.New("it is a nil *circuit.Breaker")
		}
		if l.Driver() == nil {
			return errors.New("the breaker was not made; make it with circuit.New")
		}
		s := g.within(rankAdmission)
		if s.breaker != nil {
			s = g.next(rankAdmission)
		}
		s.breaker = l
	case *limit.Limit:
		if _, err := limit.Join(l); err != nil {
			return err
		}
		s := g.within(rankAdmission)
		s.limits = append(s.limits, l)
	case timeout:
		if l <= 0 {
			return fmt.Errorf("the timeout is %v; it must be positive", time.Duration(l))
		}
		s := g.within(rankTimeout)
		if s.policy.Timeout > 0 {
			s = g.next(rankTimeout)
		}
		s.policy.Timeout = time.Duration(l)
	case clock:
		if l.Clock == nil || g.clock != nil {
			return errors.New("there must be one clock that is not nil")
		}
		g.clock = l.Clock
	case observer:
		if l == nil {
			return errors.New("the observer is nil")
		}
		g.observe(retry.Observer(l))
	case fallbackIf:
		if l == nil || g.fallbackIf != nil {
			return errors.New("there must be one FallbackIf that is not nil")
		}
		g.fallbackIf = l
	default:
		return fmt.Errorf("a %T is no layer", layer)
	}
	return nil
}

func (g *Guard) addPolicy(p retry.Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	s := &g.stages[len(g.stages)-1]
	if s.filled > 0 {
		s = g.next(rankRetry)
	}
	s.filled = rankRetry
	if p.Timeout > 0 {
		s.filled = rankTimeout
	}
	s.retries, s.policy = true, p
	return nil
}

// within returns the stage into which a layer of the rank goes.
func (g *Guard) within(rank int) *stage {
	s := &g.stages[len(g.stages)-1]
	if s.filled > rank {
		return g.next(rank)
	}
	s.filled = rank
	return s
}

func (g *Guard) next(rank int) *stage {
	g.stages = append(g.stages, stage{filled: rank})
	return &g.stages[len(g.stages)-1]
}

func (g *Guard) observe(o retry.Observer) {
	if before := g.observer; before != nil {
		g.observer = func(e retry.Event) { before(e); o(e) }
		return
	}
	g.observer = o
}

// plain reports whether a call that is let through at once and succeeds needs
// nothing but its permit and its slots. It is then made without an operation:
// retry, breaker, slots and rate cost 61 to 93 ns so, and 180 to 259 ns and an
// allocation through the driver (BenchmarkStack/all, three pairs).
func (s *stage) plain() bool {
	return s.policy.Plain() && !s.limits.Adaptive()
}
