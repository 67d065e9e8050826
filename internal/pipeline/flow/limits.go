package flow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Shared is what calls of one module have in common, in all flows that are
// made with it: throttles, slots, breakers, the cache. It is safe for
// concurrent use.
type Shared struct {
	opt SharedOptions
	all *limit.Limit // nil: no bound

	mu       sync.Mutex
	slots    map[string]bound[int]
	rates    map[string]bound[check.Rate]
	breakers map[string]*circuit.Breaker
	cache    *cache
}

// SharedOptions says what is shared. The zero value has no bound on attempts,
// and no disk cache.
type SharedOptions struct {
	// MaxParallel is how many attempts are made at once, over all modules; 0:
	// any number. Waits do not count.
	MaxParallel int
	// CacheDir is where `cache_backend: "disk"` keeps results; "": a pipeline
	// that wants it is refused.
	CacheDir string
	// Volatile keeps in memory what should be on disk: a simulation writes no
	// file.
	Volatile bool
	// Breakers is where the states of breakers are kept; nil: nowhere.
	Breakers circuit.Store
	// Clock is the time of all of it; nil: the machine's.
	Clock clock.Clock
	// Named says that there is a machine with named limits, which [Options].Hold takes. Without
	// it, a pipeline that names some is refused.
	Named bool
}

// Held is what an attempt holds of the limits of the machine.
type Held interface {
	// Context is that of what the attempt calls, which holds it too.
	Context(ctx context.Context) context.Context
	// Release gives it back when the attempt has ended with an error, or nil.
	Release(err error)
}

// NewShared returns what the flows of a run, or of a program, share.
func NewShared(o SharedOptions) *Shared {
	if o.Clock == nil {
		o.Clock = clock.Machine{}
	}
	s := &Shared{opt: o, slots: map[string]bound[int]{}, rates: map[string]bound[check.Rate]{}, breakers: map[string]*circuit.Breaker{}, cache: newCache(o)}
	if o.MaxParallel > 0 {
		s.all = slots(min(o.MaxParallel, math.MaxInt32), o.Clock)
	}
	return s
}

// slots is a number of slots, which is positive, on the clock.
func slots(n int, c clock.Clock) *limit.Limit {
	l, err := limit.New(onClock(limit.Config{Concurrency: n}, c))
	if err != nil {
		panic(err)
	}
	return l
}

func onClock(l limit.Config, c clock.Clock) limit.Config {
	if _, machine := c.(clock.Machine); !machine {
		l.Clock = c
	}
	return l
}

// options takes over what a with clause says.
func (s *site) options(function int, shared *Shared) error {
	o := s.node.Call.Options
	s.policy, s.priority = &o.Retry, o.Priority
	shared.mu.Lock()
	defer shared.mu.Unlock()
	key := s.target(function)
	var problems []error
	own := slices.Clone(s.limits)
	if o.Throttle.Count > 0 {
		l, err := bounded(shared.rates, key, o.Throttle, s, "throttle", func(r check.Rate) limit.Config {
			return onClock(limit.Config{Rate: r.Count, Per: r.Per}, shared.opt.Clock)
		})
		problems = append(problems, err)
		if l != nil {
			own = append(own, l)
		}
	}
	if o.Limit > 0 {
		l, err := bounded(shared.slots, key, o.Limit, s, "concurrency", func(n int) limit.Config { return onClock(limit.Config{Concurrency: n}, shared.opt.Clock) })
		problems = append(problems, err)
		if l != nil {
			own = append(own, l)
		}
	}
	for _, l := range o.Named {
		if !shared.opt.Named {
			problems = append(problems, s.problem(fmt.Sprintf("limits: %q", l.Name), errNoMachine))
			break
		}
		s.named = append(s.named, l.Name)
	}
	if o.Breaker != nil {
		b, err := shared.breakerOf(key, s.node.Label, o.Breaker)
		if s.breaker = b; b != nil && b.Driver().Timed() {
			own := o.Retry
			own.Timed = true
			s.policy = &own
		}
		problems = append(problems, err)
	}
	set, err := limit.Join(own...)
	if s.limits = set; err != nil {
		problems = append(problems, err)
	}
	if o.Cache > 0 {
		s.cache = shared.cache
		if o.Backend == "disk" && shared.opt.CacheDir == "" && !shared.opt.Volatile {
			problems = append(problems, s.problem(`cache_backend: "disk"`, errors.New("there is no directory for a cache on disk here; use \"memory\"")))
		}
	}
	return errors.Join(problems...)
}

var errNoMachine = errors.New("named limits are those of a machine, and a Go program has none; use concurrency or throttle")

func (s *site) problem(option string, err error) error {
	return &NodeError{Label: s.node.Label, Pos: s.plan.Pos(s.node), Source: option, Err: err}
}

// target names what the limits and the breaker of a site protect. Two manifests
// may have a module of one name each. The calls inside an application may be
// applications of the same function: limits of its own for each keep them from
// waiting for each other.
func (s *site) target(function int) string {
	if s.node.Op == plan.Apply {
		return fmt.Sprintf("%s (%s %d:%d)", s.node.Label, s.plan.File(), function, s.node.Span.Start)
	}
	d, ok := module.Describe(s.node.Call.Module)
	if !ok {
		return s.node.Label
	}
	return fmt.Sprintf("%s (%s)", d.Name, filepath.Join(d.Dir, filepath.Base(d.Pos.File)))
}

// bound is a limit with what was said of it first.
type bound[R comparable] struct {
	rate R
	at   diag.Pos
	*limit.Limit
}

// bounded gives the limit of a target. Of two that differ neither could be kept.
func bounded[R comparable](m map[string]bound[R], target string, rate R, s *site, option string, config func(R) limit.Config) (*limit.Limit, error) {
	known, ok := m[target]
	if !ok {
		l, err := limit.New(config(rate))
		if err != nil {
			return nil, s.problem(fmt.Sprintf("%s: %v", option, rate), err)
		}
		known = bound[R]{rate, s.plan.Pos(s.node), l}
		m[target] = known
	}
	if known.rate != rate {
		return known.Limit, s.problem(fmt.Sprintf("%s: %v", option, rate),
			fmt.Errorf("the module %s has '%s: %v' at %s, and there is one limit for all its calls; give both the same", s.node.Label, option, known.rate, known.at))
	}
	return known.Limit, nil
}

// breakerOf gives the breaker of a module that is configured so.
func (s *Shared) breakerOf(target, module string, c *circuit.Config) (*circuit.Breaker, error) {
	name := target + " " + option.BreakerText(c)
	if b := s.breakers[name]; b != nil {
		return b, nil
	}
	own := *c
	own.Name, own.Now = module, s.opt.Clock.Now
	if s.opt.Breakers != nil {
		own.Key, own.Store = name, s.opt.Breakers
	}
	b, err := circuit.New(own)
	if err != nil {
		return nil, err
	}
	s.breakers[name] = b
	return b, nil
}

// admission lets the attempts of a call begin.
type admission struct {
	guard.Admission
	op *operation
}

// newAdmission returns that of a call which has a breaker, or limits.
func newAdmission(op *operation) *admission {
	return &admission{op: op, Admission: guard.Admission{Breaker: op.s.breaker, Priority: op.s.priority}}
}

// Admit asks the breaker, and takes a slot and a token together. The turn of the
// call is over as soon as it waits.
func (a *admission) Admit(ctx context.Context, n int, queued func(driver.Source, time.Duration)) (err error) {
	op := a.op
	defer op.fr.pass(op.at)
	if !op.s.limited() {
		return a.Admission.Admit(ctx, n, queued)
	}
	if a.Limits, err = op.limits(ctx); err != nil {
		return err
	}
	own := func() error {
		return a.Admission.Admit(op.fr.x.softly(ctx), n, func(s driver.Source, d time.Duration) {
			if queued != nil {
				queued(s, d)
			}
			op.fr.pass(op.at)
		})
	}
	hold := op.fr.x.opt.Hold
	if len(op.s.named) == 0 || hold == nil || op.c == nil {
		return own()
	}
	for {
		if err = own(); err != nil {
			return err
		}
		waited := false
		op.machine, err = hold(ctx, op.c, n, op.s.named, func() {
			if !waited { // whoever waits for the machine holds nothing else
				waited = true
				a.giveBack()
			}
			op.fr.pass(op.at)
		})
		switch {
		case err != nil && !waited:
			a.giveBack()
			return err
		case err != nil, !waited:
			return err
		}
		if ok, err := a.again(ctx, n); ok {
			return nil
		} else if op.release(nil); err != nil {
			return err
		}
	}
}

// giveBack gives back what an attempt has that does not begin.
func (a *admission) giveBack() {
	a.Limits.Cancel()
	a.alone(func() { a.Admission.Done(driver.End{Outcome: circuit.Neutral}) })
}

// again takes it again, if it can be had at once.
func (a *admission) again(ctx context.Context, n int) (ok bool, err error) {
	if !a.Limits.Try() {
		return false, nil
	}
	if a.alone(func() { err = a.Admission.Admit(ctx, n, nil) }); err != nil {
		a.Limits.Cancel()
	}
	return err == nil, err
}

// alone has f meet the breaker without the limits.
func (a *admission) alone(f func()) {
	set := a.Limits
	a.Limits = nil
	f()
	a.Limits = set
}

// Done gives everything back.
func (a *admission) Done(e driver.End) {
	a.op.release(e.Err)
	a.Admission.Done(e)
}

// release gives back what the attempt holds of the machine.
func (op *operation) release(err error) {
	if op.machine != nil {
		op.machine.Release(err)
		op.machine = nil
	}
}

// held are the slots that an attempt has. What it calls may need some of them
// too, and waits for them would have no end: it goes through the attempt's own,
// one call at a time.
type held struct {
	clock clock.Clock
	outer *held
	slots limit.Set

	mu   sync.Mutex
	lent map[*limit.Limit]*limit.Limit
}

type heldKey struct{}

// limits are those of the attempts of a call.
func (op *operation) limits(ctx context.Context) (limit.Set, error) {
	outer, _ := ctx.Value(heldKey{}).(*held)
	if op.s.nests {
		op.held = &held{clock: op.clock(), outer: outer, slots: op.s.limits}
	}
	if outer == nil {
		return op.s.limits, nil
	}
	set := make([]*limit.Limit, len(op.s.limits))
	for i, l := range op.s.limits {
		set[i] = outer.lend(l)
	}
	return limit.Join(set...)
}

// lend gives a limit, or what stands for it inside an attempt that has it.
func (h *held) lend(l *limit.Limit) *limit.Limit {
	for ; h != nil; h = h.outer {
		if l.IsRate() || !slices.Contains(h.slots, l) {
			continue
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.lent == nil {
			h.lent = map[*limit.Limit]*limit.Limit{}
		}
		if h.lent[l] == nil {
			h.lent[l] = slots(1, h.clock)
		}
		return h.lent[l]
	}
	return l
}

// patience waits until something is closed, and ends early with the context or
// the soft end of the run.
func (op *operation) patience(ctx context.Context, ready <-chan struct{}) error {
	op.fr.pass(op.at)
	ctx, stop := op.fr.x.untilSoft(ctx)
	defer stop()
	if op.clock().Wait(ctx, -1, ready) == nil {
		return nil
	}
	if err := op.fr.x.stopping(op.fr.ctx); err != nil {
		return err
	}
	return &retry.Error{Reason: driver.ReasonDeadline, Attempts: op.made, Last: op.overdue()}
}
