package bound_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/bound"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
	"pgregory.net/rapid"
)

// hinted is a failure after which a server asks for a wait.
type hinted struct{ wait time.Duration }

func (h hinted) Error() string                     { return "busy" }
func (h hinted) RetryAfter() (time.Duration, bool) { return h.wait, true }

var errRuled = errors.New("a failure that a rule is for")

// TestNoOperationGoesBeyond: whatever fails, in whatever order, and whatever the jitter
// draws, no operation makes more attempts or waits longer than its bound. rapid prints
// the seed of a failure.
func TestNoOperationGoesBeyond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := func(most time.Duration, name string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		schedule := func(name string) backoff.Schedule {
			s := backoff.Schedule{Initial: span(time.Minute, name+" initial"), Max: span(time.Hour, name+" max") + 1,
				Jitter: backoff.Jitter(rapid.IntRange(0, 4).Draw(t, name+" jitter")), JitterFactor: rapid.Float64Range(0.01, 1).Draw(t, name+" factor")}
			list := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, s.Initial, time.Second, time.Second, time.Minute}), 1, 9).Draw(t, name+" delays")
			s.Strategy = rapid.SampledFrom([]backoff.Strategy{nil, backoff.Fixed{}, backoff.Linear{}, backoff.Fibonacci{}, backoff.Custom{Delays: list}}).Draw(t, name)
			return s
		}
		p := retry.Policy{Attempts: rapid.IntRange(1, 30).Draw(t, "attempts"), Backoff: schedule("backoff")}
		if rapid.Bool().Draw(t, "budgeted") {
			p.Budget = span(time.Hour, "budget") + 1
		}
		if rapid.Bool().Draw(t, "timed") {
			p.Deadline = span(time.Hour, "deadline") + 1
		}
		if rapid.Bool().Draw(t, "ruled") {
			s := schedule("rule")
			r := retry.Rule{On: func(err error) bool { return errors.Is(err, errRuled) }, Attempts: rapid.IntRange(0, p.Attempts).Draw(t, "rule attempts"), Backoff: &s}
			if rapid.Bool().Draw(t, "rule budgeted") {
				r.Budget = span(time.Hour, "rule budget") + 1
			}
			p.Rules = []retry.Rule{r}
		}
		asked := bound.Asked{Servers: rapid.Bool().Draw(t, "asked")}
		if rapid.Bool().Draw(t, "waits for breakers") {
			p.If = func(error) bool { return true }
			asked.Breaker = span(5*time.Minute, "breaker")
		}
		kinds := []error{errors.New("down"), errRuled}
		if asked.Servers {
			kinds = append(kinds, hinted{time.Minute}, hinted{time.Hour})
		}
		if asked.Breaker > 0 {
			kinds = append(kinds, &circuit.OpenError{State: circuit.Open, RetryAfter: asked.Breaker}, &circuit.OpenError{State: circuit.Open, RetryAfter: asked.Breaker / 3})
		}
		most := bound.Of(p, asked)
		p.Rand = backoff.NewRand(rapid.Uint64().Draw(t, "draws"))
		now := time.Unix(0, 0)
		m := driver.NewMachine(&p, now)
		for {
			now = now.Add(span(time.Second, "takes"))
			d := m.Next(rapid.SampledFrom(kinds).Draw(t, "failure"), now)
			if d.Action != driver.ActionRetry {
				break
			}
			now = now.Add(d.Delay)
		}
		if s := m.State(); int64(s.Attempt) > most.Attempts.N || s.Slept > most.Waits.D {
			t.Fatalf("%d attempts and %v of waits, of %v at most: %+v", s.Attempt, s.Slept, most, p)
		}
	})
}

// TestRefusedIsNotExceeded: nor does one whose attempts a breaker refuses.
func TestRefusedIsNotExceeded(t *testing.T) {
	all := func(error) bool { return true }
	for _, p := range []retry.Policy{
		{Attempts: 3, If: all, Backoff: backoff.Schedule{Initial: time.Second}},
		{Attempts: 20_000, If: all, Backoff: backoff.Schedule{Initial: time.Second}},
		{Attempts: 20_000, If: all, Backoff: backoff.Schedule{Initial: time.Second}, Budget: time.Hour},
	} {
		began := time.Unix(0, 0)
		m := driver.NewMachine(&p, began)
		for m.Next(&circuit.OpenError{State: circuit.Open, RetryAfter: time.Minute}, began.Add(m.State().Slept)).Action == driver.ActionRetry {
		}
		if got := bound.Refused(p, time.Minute); got.D < m.State().Slept || bound.Of(p, bound.Asked{Breaker: time.Minute}).Waits.D < m.State().Slept {
			t.Errorf("%v of waits, %v at most: %+v", m.State().Slept, got, p)
		}
	}
}

// TestOfIsQuick: a bound of two thousand million attempts is there at once.
func TestOfIsQuick(t *testing.T) {
	p := retry.Policy{Attempts: 2_000_000_000, If: func(error) bool { return true }, Backoff: backoff.Schedule{Initial: time.Second, Jitter: backoff.Decorrelated}, Budget: math.MaxInt64}
	got := bound.Of(p, bound.Asked{Breaker: time.Second, Servers: true})
	if got.Attempts.N != 2_000_000_000 || got.Waits.D != math.MaxInt64 {
		t.Errorf("%+v", got)
	}
}

// TestBudgetAndRules: a rule that waits less leaves room for more attempts within the
// budget than the schedule of the policy does.
func TestBudgetAndRules(t *testing.T) {
	p := retry.Policy{Attempts: 9, Backoff: backoff.Schedule{Initial: 5 * time.Second, Strategy: backoff.Fixed{}}, Budget: 10 * time.Second}
	if got := bound.Of(p, bound.Asked{}); got.Attempts.N != 3 {
		t.Errorf("%v attempts without a rule", got.Attempts)
	}
	p.Rules = []retry.Rule{{On: func(error) bool { return true }, Backoff: &backoff.Schedule{Initial: time.Second, Strategy: backoff.Fixed{}}}}
	if got := bound.Of(p, bound.Asked{}); got.Attempts.N != 9 || got.Waits.D != 10*time.Second {
		t.Errorf("%+v with a rule", got)
	}
}
