package circuit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
)

// journal is a store that keeps what a file would: JSON.
type journal struct {
	t     *testing.T
	last  map[string][]byte
	saved []string
}

func newJournal(t *testing.T) *journal { return &journal{t: t, last: map[string][]byte{}} }

func (j *journal) Load(key string) (s circuit.Snapshot, ok bool) {
	text, ok := j.last[key]
	if ok {
		if err := json.Unmarshal(text, &s); err != nil {
			j.t.Fatal(err)
		}
	}
	return s, ok
}

func (j *journal) Save(key string, before, after circuit.Snapshot) {
	text, err := json.Marshal(after)
	if err != nil {
		j.t.Fatal(err)
	}
	j.last[key] = text
	j.saved = append(j.saved, fmt.Sprintf("%s %v %d→%v %d", key, before.State, before.Failures, after.State, after.Failures))
}

// life is a breaker of a process that has just started.
func (j *journal) life(c circuit.Config) *circuit.Breaker {
	j.t.Helper()
	c.Key, c.Store = "b", j
	b, err := circuit.New(c)
	if err != nil {
		j.t.Fatal(err)
	}
	return b
}

// use makes an attempt that takes so long.
func use(b *circuit.Breaker, o circuit.Outcome, took time.Duration) error {
	ticket, err := b.Driver().Admit()
	if err == nil {
		b.Driver().Answer(ticket, o, took)
	}
	return err
}

// TestLives takes a breaker through four lives: what the first saved, the second
// begins with.
func TestLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		config := circuit.Config{FailureThreshold: 2, SuccessThreshold: 1, Timeout: time.Minute, HalfOpenRequests: 1}
		first := j.life(config)
		for _, o := range []circuit.Outcome{circuit.Success, circuit.Failure, circuit.Neutral} {
			if err := use(first, o, 0); err != nil {
				t.Fatal(err)
			}
		}
		second := j.life(config) // one failure is recorded: one more opens it
		if err := use(second, circuit.Failure, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		third := j.life(config)
		var open *circuit.OpenError
		if err := use(third, circuit.Success, 0); !errors.As(err, &open) {
			t.Errorf("the open breaker let an attempt through: %v", err)
		}
		time.Sleep(40 * time.Second)
		if _, err := third.Driver().Admit(); err != nil { // a probe whose process dies
			t.Fatal(err)
		}
		fourth := j.life(config)
		if err := use(fourth, circuit.Success, 0); err != nil {
			t.Errorf("the probe of a former life holds the breaker: %v", err)
		}
		want := []string{"b closed 0→closed 1", "b closed 1→open 0", "b open 0→half_open 0", "b half_open 0→closed 0"}
		if !slices.Equal(j.saved, want) {
			t.Errorf("saved %q\nwant %q", j.saved, want)
		}
	})
	if _, err := circuit.New(circuit.Config{FailureThreshold: -1}); err == nil {
		t.Error("a configuration that cannot be was accepted")
	}
}

// TestLivesOfRates ends the process after each call: a rate opens the breaker with
// the same call as in one life, whatever the window is of.
func TestLivesOfRates(t *testing.T) {
	slow := 10 * time.Second
	calls := []struct {
		outcome circuit.Outcome
		took    time.Duration
	}{{circuit.Success, 0}, {circuit.Failure, 0}, {circuit.Success, slow}, {circuit.Success, 0}, {circuit.Failure, slow}, {circuit.Success, slow},
		{circuit.Success, slow}, {circuit.Failure, 0}, {circuit.Failure, 0}, {circuit.Failure, 0}}
	for _, config := range []circuit.Config{
		{FailureRate: 0.5, Window: 6, MinCalls: 4},
		{FailureRate: 0.45, WindowTime: time.Minute, MinCalls: 4},
		{SlowCall: time.Second, SlowRate: 0.6, Window: 5, MinCalls: 4},
		{SlowCall: time.Second, SlowRate: 0.4, WindowTime: time.Minute, MinCalls: 4},
		{SlowCall: time.Second, SlowRate: 1, FailureThreshold: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal(t)
			one, err := circuit.New(config)
			if err != nil {
				t.Fatal(err)
			}
			opened := false
			for i, c := range calls {
				many := j.life(config)
				use(one, c.outcome, c.took)
				use(many, c.outcome, c.took)
				if one.State() != many.State() {
					t.Fatalf("%+v: after call %d one life is %v, and many are %v", config, i, one.State(), many.State())
				}
				opened = opened || one.State() == circuit.Open
				time.Sleep(time.Second)
			}
			if !opened {
				t.Errorf("%+v never opened", config)
			}
		})
	}
}

// TestSlowCallsKeepTheThreshold: a rate of slow calls does not take the place of
// failures in a row.
func TestSlowCallsKeepTheThreshold(t *testing.T) {
	b, err := circuit.New(circuit.Config{SlowCall: time.Second, SlowRate: 0.5, FailureThreshold: 3})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := use(b, circuit.Failure, 0); err != nil {
			t.Fatal(err)
		}
	}
	if b.State() != circuit.Open {
		t.Error("three failures in a row did not open it")
	}
}

// TestBreakerClockSetBack: a breaker that is open lets a probe through after its timeout
// at the latest, however far its clock is set back.
func TestBreakerClockSetBack(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	b, err := circuit.New(circuit.Config{FailureThreshold: 1, Timeout: 30 * time.Second, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := use(b, circuit.Failure, 0); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Hour)
	var open *circuit.OpenError
	if _, err := b.Driver().Admit(); !errors.As(err, &open) || open.RetryAfter != 30*time.Second {
		t.Errorf("refused with %v", err)
	}
	now = now.Add(29 * time.Second)
	if _, err := b.Driver().Admit(); !errors.As(err, &open) || open.RetryAfter != time.Second {
		t.Errorf("refused with %v", err)
	}
	now = now.Add(time.Second)
	if _, err := b.Driver().Admit(); err != nil {
		t.Errorf("after its timeout: %v", err)
	}
}

// TestConfigIsJSON: every number of a configuration comes back from its JSON.
func TestConfigIsJSON(t *testing.T) {
	c := circuit.Config{FailureThreshold: 1, FailureRate: 0.5, SlowCall: 2, SlowRate: 0.25, Window: 3, WindowTime: 4, MinCalls: 5, SuccessThreshold: 6,
		Timeout: 7, HalfOpenRequests: 8, Lease: 9}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back circuit.Config
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(back); string(again) != string(text) || back.Lease != 9 || back.SlowRate != 0.25 {
		t.Errorf("%s came back as %s", text, again)
	}
}
