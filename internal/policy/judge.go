package policy

import (
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/retry/driver"
)

// Judged is what the item-level retry policy says about a failed attempt. Where
// agents run far from the machine, it is asked there, where the error is: then
// it comes with the [Outcome], and the machine keeps to it.
type Judged struct {
	// Again says that there is another attempt, after Delay.
	Again bool          `json:"again,omitempty"`
	Delay time.Duration `json:"delay,omitempty"`
	// State is that of the retries with this decision in it.
	State driver.State `json:"state,omitzero"`
	// Reason is why there is no further attempt.
	Reason driver.Reason `json:"reason,omitempty"`
	Class  string        `json:"class,omitempty"`
	// LeftOut is that of the Outcome.
	LeftOut bool `json:"left_out,omitempty"`

	wait event.Wait
}

// Judge says what becomes of an item of a lease whose agent ended, as far as that
// depends on nothing but the item. It changes nothing, and may be called by many
// goroutines at once where nothing else is asked of the machine. A rate limit is
// for the machine of all lanes to judge.
func (m *Machine) Judge(l Leased, o Outcome, now time.Time) (Verdict, *Judged) {
	v := Verdict{Item: l.Item, Attempt: l.Attempt}
	switch {
	case o.OK:
		v.Fate = ItemSucceeded
	case o.Cancelled, o.Shortage:
		v.Fate = ItemReturned
	case o.RateLimited && m.cfg.RateLimitMaxWait > 0:
		v.Fate = ItemPaused
	default:
		st := driver.State{Began: now}
		if l.Retry != nil {
			st = *l.Retry
		}
		j := m.judge(st, o, now)
		m.apply(&v, j, now)
		return v, &j
	}
	return v, nil
}

// judge asks the item-level policy about a failed attempt.
func (m *Machine) judge(st driver.State, o Outcome, now time.Time) Judged {
	if o.Judged != nil {
		return *o.Judged
	}
	j := Judged{Class: driver.Class(o.Err), State: st, LeftOut: o.LeftOut}
	if m.cfg.Retry == nil || o.LeftOut {
		return j
	}
	prev := st.Prev
	pol := *m.cfg.Retry
	drawing := event.Drawing{From: pol.Rand}
	pol.Rand = &drawing
	d, after := decideRetry(&pol, st, withHint(o.Err, o.RetryAfter), now)
	j.State, j.Reason = after, d.Reason
	if d.Action == driver.ActionRetry {
		j.Again, j.Delay, j.Reason = true, d.Delay, driver.ReasonNone
		j.wait = event.Waited(&pol, after, d.Delay, prev, d.RetryAfter, drawing.Take())
	}
	return j
}

// apply says what a judgement makes of an item.
func (m *Machine) apply(v *Verdict, j Judged, now time.Time) {
	v.Retry, v.Reason = j.State, j.Reason
	if j.Again {
		v.Fate, v.Delay, v.NotBefore, v.Wait = ItemRetry, j.Delay, now.Add(j.Delay), j.wait
		return
	}
	if v.Fate, v.Handler = m.fateOfFailed(); j.LeftOut {
		v.Fate, v.Handler = ItemSkipped, ""
	}
}
