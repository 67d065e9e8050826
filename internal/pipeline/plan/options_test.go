package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/retry/driver"
)

// optionsOf compiles a call with a with clause and gives what became of it.
func optionsOf(t *testing.T, clause string) *check.Options {
	t.Helper()
	with := ""
	if clause != "" {
		with = " with " + clause
	}
	p := compile(t, environment(t), "in s: String\nx = Trim(s)"+with+"\nout x")
	for i := range p.Funcs[0].Nodes {
		if n := &p.Funcs[0].Nodes[i]; n.Op == plan.Call {
			return n.Call.Options
		}
	}
	t.Fatal("there is no call")
	return nil
}

// TestSchedules drives the machine of package retry with the policies that
// clauses become: the number of attempts, and every wait between them.
func TestSchedules(t *testing.T) {
	cases := []struct {
		clause string
		waits  string // between the attempts, in seconds
	}{
		{"retry: 0", ""},
		{"retry: 3", "0 0 0"},
		{"retry: 3, delay: 1s", "1 1 1"},
		{"retry: 4, delay: 1s, backoff: linear", "1 2 3 4"},
		{"retry: 5, delay: 1s, backoff: exponential", "1 2 4 8 16"},
		{"retry: 10, delay: 1s, backoff: exponential", "1 2 4 8 16 30 30 30 30 30"},
		{"retry: 5, delay: 500ms, backoff: exponential", "0.5 1 2 4 8"},
		{"retry: 5, delay: 2s, backoff: linear", "2 4 6 8 10"},
		{"retry: 6, delay: 1s, backoff: fibonacci", "1 1 2 3 5 8"},
		{"retry: 2, delay: 1min", "60 60"}, // R17: what is fixed is not capped
		{"retry: 3, delay: 1min, max_delay: 10s", "10 10 10"},
		{"retry: 4, delay: 20s, backoff: linear", "20 30 30 30"},
		{"retry: 3, delay: 1min, backoff: exponential, max_delay: 2min", "60 120 120"},
		{"retry: 4, delay: 1s, backoff: exponential, budget: 5s", "1 2"},
		{"delay: 1s", ""},
		{"backoff: exponential, retry: 2", "0 0"},
		{"retry: 3, retry_on: [network]", ""},
		{"retry: 3, abort_on: [pattern(\"^down$\")]", ""},
		{"retry: 1, retry_on: [timeout, pattern(\"down\")]", "0"},
	}
	for _, c := range cases {
		o := optionsOf(t, c.clause)
		if err := o.Retry.Validate(); err != nil {
			t.Errorf("%s: %v", c.clause, err)
		}
		m := driver.NewMachine(&o.Retry, time.Time{})
		var waits []string
		for {
			d := m.Next(errors.New("down"), time.Time{})
			if d.Action != driver.ActionRetry {
				break
			}
			waits = append(waits, fmt.Sprint(d.Delay.Seconds()))
		}
		if got := strings.Join(waits, " "); got != c.waits {
			t.Errorf("%s waits %q, want %q", c.clause, got, c.waits)
		}
	}
}

func TestOptionValues(t *testing.T) {
	o := optionsOf(t, "timeout: 30s, deadline: 2min, cache: 1h, cache_backend: \"disk\", throttle: 100/1min, concurrency: 3, priority: background, lazy, on_error: log, breaker: 5/30s, retry: 1, delay: 1ms, jitter: equal")
	if o.Retry.Timeout != 30*time.Second || o.Deadline != 2*time.Minute || o.Cache != time.Hour || o.Backend != "disk" || o.Throttle != (check.Rate{Count: 100, Per: time.Minute}) ||
		o.Limit != 3 || o.Priority != 0 || !o.Lazy || o.OnError != check.Log || option.BreakerText(o.Breaker) != "5/30s" || o.Retry.Backoff.Jitter != backoff.Equal {
		t.Errorf("%+v", o)
	}
	for word, want := range map[string]int{"critical": 100, "high": 80, "normal": 50, "low": 20, "background": 0, "10": 10} {
		if got := optionsOf(t, "priority: "+word).Priority; got != want {
			t.Errorf("priority %s is %d", word, got)
		}
	}
	if o := optionsOf(t, "cache: 1s"); o.Backend != "memory" {
		t.Error(o.Backend)
	}
}

func TestPolicies(t *testing.T) {
	p := compile(t, environment(t), `
policy flaky = retry: 5, delay: 1s, backoff: exponential
policy patient = policy: flaky, timeout: 1min, retry: 7
in s: String
a = Trim(s) with policy: flaky
b = Trim(s) with policy: patient, delay: 2s
out a
`)
	var got []string
	for i := range p.Funcs[0].Nodes {
		if n := &p.Funcs[0].Nodes[i]; n.Op == plan.Call {
			r := n.Call.Options.Retry
			got = append(got, fmt.Sprint(n.Call.Name, r.Attempts, r.Backoff.Initial, r.Timeout))
		}
	}
	if want := "[a6 1s 0s b8 2s 1m0s]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
