package guard

import (
	"context"
	"time"

	"github.com/bide-dev/bide/circuit"
	circuitdriver "github.com/bide-dev/bide/circuit/driver"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry/driver"
)

// Admission lets the attempts of one operation begin, for whoever drives it with
// [driver.Drive]: the breaker first, then slots and tokens together. The zero
// Admission lets everything through. It is for one operation at a time. A breaker
// with Config.SlowCall needs retry.Policy.Timed.
type Admission struct {
	Breaker  *circuit.Breaker // nil: none
	Limits   limit.Set
	Priority int // of those who wait, the greater goes first

	ticket circuitdriver.Ticket
}

// Admit implements driver.Admission. What has to wait for its limits gives its
// ticket back meanwhile, for one of a half-open breaker is lent for a time only,
// and asks again before it begins.
func (a *Admission) Admit(ctx context.Context, _ int, queued func(driver.Source, time.Duration)) error {
	if err := a.ask(); err != nil {
		return err
	}
	if a.Limits.Try() {
		return nil
	}
	a.answer(circuit.Neutral, 0)
	r := limit.Request{Priority: a.Priority}
	if queued != nil {
		r.Queued = func(l *limit.Limit, d time.Duration) { queued(sourceOf(l), d) }
	}
	if err := a.Limits.Acquire(ctx, r); err != nil {
		return err
	}
	admitted := false
	defer func() {
		if !admitted { // or the breaker's OnChange panics
			a.Limits.Cancel()
		}
	}()
	err := a.ask()
	admitted = err == nil
	return err
}

func sourceOf(l *limit.Limit) driver.Source {
	if l.IsRate() {
		return driver.SourceRateLimit
	}
	return driver.SourceLimit
}

// Done implements driver.Admission. The breaker is told first, so that who gets
// the slot next meets what this attempt has taught it.
func (a *Admission) Done(e driver.End) {
	defer a.Limits.Release(limit.Result{Took: e.Took, Err: e.Err, Ignore: e.Outcome == circuit.Neutral})
	a.answer(e.Outcome, e.Took)
}

func (a *Admission) ask() (err error) {
	if a.Breaker != nil {
		a.ticket, err = a.Breaker.Driver().Admit()
	}
	return err
}

func (a *Admission) answer(o circuit.Outcome, took time.Duration) {
	if a.Breaker != nil {
		a.Breaker.Driver().Answer(a.ticket, o, took)
	}
}
