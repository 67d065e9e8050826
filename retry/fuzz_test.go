package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// TestMachinesOfAllKinds takes machines of policies that Validate accepts through
// failures, with hints and clocks of all kinds: none exceeds its bounds, and one that
// goes through JSON at each step decides what the other does, unless the clock was set
// back between two lives.
func TestMachinesOfAllKinds(t *testing.T) {
	random := rand.New(rand.NewPCG(29, 1))
	spans := []time.Duration{0, 1, time.Millisecond, time.Second, time.Hour, math.MaxInt64, math.MaxInt64 - 1}
	span := func() time.Duration { return spans[random.IntN(len(spans))] }
	pick := func(n ...int) int { return n[random.IntN(len(n))] }
	ends := map[driver.Reason]int{}
	for round := range 20_000 {
		p := driver.Policy{
			Attempts: pick(0, 1, 2, 5, 100, math.MaxInt, retry.Unlimited), Budget: span(), Deadline: span(), RetryAfterMax: span(),
			Backoff: backoff.Schedule{Initial: span(), Max: span(), Jitter: backoff.Jitter(random.IntN(5))}, Rand: backoff.NewRand(uint64(round)),
		}
		if random.IntN(3) == 0 {
			p.Rules = []retry.Rule{{On: retry.Is(errFlaky), Attempts: pick(0, 1, 3), Budget: span(), Backoff: &backoff.Schedule{Initial: span(), Strategy: backoff.Fibonacci{}}}}
		}
		if p.Validate() != nil {
			continue
		}
		now := time.Unix(int64(random.IntN(1<<30)), 0)
		back := round%4 == 0 // the clock is set back at times
		m, plain := driver.NewMachine(&p, now), driver.NewMachine(&p, now)
		for n := 1; n <= 50; n++ {
			if now = now.Add(time.Duration(random.Int64N(int64(time.Hour)))); back {
				now = now.Add(-time.Duration(random.Int64N(int64(time.Hour))))
			}
			err := errFlaky
			switch random.IntN(3) {
			case 0:
				err = retry.After(time.Duration(random.Int64N(math.MaxInt64)), errFlaky)
			case 1:
				err = retry.After(span(), errors.New("another"))
			}
			seed := uint64(round*100 + n)
			p.Rand = backoff.NewRand(seed)
			d := m.Next(err, now)
			s := m.State()
			if d.Delay < 0 || s.Slept < 0 || p.Budget > 0 && s.Slept > p.Budget || d.Action == driver.ActionRetry && (s.Attempt >= max(p.Attempts, 3) && p.Attempts > 0 ||
				p.Deadline > 0 && now.Sub(s.Began) > p.Deadline) {
				t.Fatalf("round %d, attempt %d: %+v in %+v, policy %+v", round, n, d, s, p)
			}
			p.Rand = backoff.NewRand(seed)
			if other := plain.Next(err, now); other != d && !back {
				t.Fatalf("round %d, attempt %d: %+v, after JSON %+v", round, n, d, other)
			}
			if d.Action != driver.ActionRetry {
				ends[d.Reason]++
				break
			}
			text, jerr := json.Marshal(plain.State())
			if jerr != nil {
				t.Fatal(jerr)
			}
			var state driver.State
			if jerr := json.Unmarshal(text, &state); jerr != nil {
				t.Fatal(jerr)
			}
			var again driver.Decision
			if plain, again = driver.ResumeMachine(&p, state, now); again.Action == driver.ActionRetry && again.Delay > d.Delay {
				t.Fatalf("round %d, attempt %d: a wait of %v became %v", round, n, d.Delay, again.Delay)
			}
			if again.Action != driver.ActionRetry && !back {
				t.Fatalf("round %d, attempt %d: %+v, and resumed %+v", round, n, d, again)
			}
		}
	}
	for _, want := range []driver.Reason{driver.ReasonAttempts, driver.ReasonBudget, driver.ReasonDeadline, driver.ReasonRetryAfter} {
		if ends[want] < 100 {
			t.Errorf("only %d ends by %v", ends[want], want)
		}
	}
}

// Waits and timeouts of any length that a policy may have end with the caller's context,
// at once.
func TestHugeTimes(t *testing.T) {
	for _, huge := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2} {
		for name, p := range map[string]retry.Policy{
			"backoff":     {Backoff: backoff.Schedule{Initial: huge, Max: backoff.Unlimited}},
			"budget":      {Backoff: backoff.Schedule{Initial: huge, Max: backoff.Unlimited}, Budget: huge},
			"deadline":    {Attempts: retry.Unlimited, Backoff: backoff.Schedule{Initial: time.Hour, Max: time.Hour}, Deadline: huge},
			"timeout":     {Timeout: huge, Backoff: backoff.Schedule{Initial: huge, Max: backoff.Unlimited}},
			"retry-after": {RetryAfterMax: huge, Attempts: 5},
		} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, cancel)
				began, calls := time.Now(), 0
				err := retry.Do(ctx, retry.Must(retry.New(p)), func(context.Context) error {
					calls++
					return retry.After(huge-1, errFlaky)
				})
				if name != "retry-after" && errors.Is(err, retry.ErrRetryAfter) { // the default bound
					return
				}
				if took := time.Since(began); !errors.Is(err, context.Canceled) || took != time.Minute || calls != 1 {
					t.Errorf("%s of %v: %v after %v and %d calls", name, huge, err, took, calls)
				}
			})
		}
	}
}
