package guard_test

import (
	"context"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// newOf makes whatever a configuration is of.
func newOf(c any) (err error) {
	switch c := c.(type) {
	case retry.Policy:
		_, err = retry.New(c)
		if _, asLayer := guard.New(c); (err == nil) != (asLayer == nil) {
			return asLayer
		}
	case retry.QuotaConfig:
		_, err = retry.NewQuota(c)
	case backoff.Schedule:
		if err = c.Validate(); err != nil {
			_, err = retry.New(retry.Policy{Backoff: c})
		}
	case circuit.Config:
		_, err = circuit.New(c)
	case limit.Config:
		_, err = limit.New(c)
	case limit.AdaptiveConfig:
		_, err = limit.New(limit.Config{Adaptive: &c})
	case limit.ThrottleConfig:
		_, err = limit.New(limit.Config{Throttle: &c})
	case hedge.Config:
		_, err = hedge.New(c)
	}
	return err
}

// impossible are configurations with one mistake each, and the field that it is of.
var impossible = []struct {
	field  string
	config any
}{
	{"Attempts", retry.Policy{Attempts: -2}},
	{"Attempts", retry.Policy{Attempts: math.MinInt}},
	{"Deadline", retry.Policy{Attempts: retry.Unlimited}},
	{"Budget", retry.Policy{Budget: -1}},
	{"BudgetExpires", retry.Policy{BudgetExpires: true}},
	{"Deadline", retry.Policy{Deadline: -1}},
	{"Timeout", retry.Policy{Timeout: math.MinInt64}},
	{"RetryAfterMax", retry.Policy{RetryAfterMax: -1}},
	{"Rules[0].On", retry.Policy{Rules: []retry.Rule{{}}}},
	{"Rules[1].Attempts", retry.Policy{Rules: []retry.Rule{{On: retry.Network}, {On: retry.Network, Attempts: -1}}}},
	{"Rules[0].Attempts", retry.Policy{Attempts: 2, Rules: []retry.Rule{{On: retry.Network, Attempts: 3}}}},
	{"Rules[0].Budget", retry.Policy{Rules: []retry.Rule{{On: retry.Network, Budget: -1}}}},
	{"Rules[0].Budget", retry.Policy{Budget: 1, Rules: []retry.Rule{{On: retry.Network, Budget: 2}}}},
	{"Rules[0].Backoff", retry.Policy{Rules: []retry.Rule{{On: retry.Network, Backoff: &backoff.Schedule{Initial: -1}}}}},
	{"Backoff", retry.Policy{Backoff: backoff.Schedule{Initial: -1}}},
	{"Breaker", retry.Policy{Breaker: &circuit.Breaker{}}},
	{"Quota", retry.Policy{Quota: &retry.Quota{}}},

	{"Ratio", retry.QuotaConfig{Ratio: math.NaN()}},
	{"Ratio", retry.QuotaConfig{Ratio: math.Inf(1)}},
	{"Ratio", retry.QuotaConfig{Ratio: 1001}},
	{"Initial", retry.QuotaConfig{Initial: math.MaxInt}},
	{"Capacity", retry.QuotaConfig{Capacity: -1}},
	{"Capacity", retry.QuotaConfig{Capacity: 4, Initial: 5}},
	{"Capacity", retry.QuotaConfig{Capacity: math.MaxInt}},

	{"Initial", backoff.Schedule{Initial: -1}},
	{"Jitter", backoff.Schedule{Jitter: 99}},
	{"JitterFactor", backoff.Schedule{JitterFactor: math.NaN()}},
	{"JitterFactor", backoff.Schedule{JitterFactor: 1.01}},
	{"Strategy", backoff.Schedule{Strategy: (*backoff.Linear)(nil)}},
	{"Base", backoff.Schedule{Strategy: backoff.Exponential{Base: 0.99}}},
	{"Base", backoff.Schedule{Strategy: backoff.Exponential{Base: -2}}},
	{"Base", backoff.Schedule{Strategy: backoff.Exponential{Base: math.NaN()}}},
	{"Base", backoff.Schedule{Strategy: &backoff.Exponential{Base: math.Inf(1)}}},
	{"Delays[1]", backoff.Schedule{Strategy: backoff.Custom{Delays: []time.Duration{1, -1}}}},

	{"FailureThreshold", circuit.Config{FailureThreshold: -1}},
	{"FailureRate", circuit.Config{FailureRate: -0.1}},
	{"FailureRate", circuit.Config{FailureRate: 1.1}},
	{"FailureRate", circuit.Config{FailureRate: math.NaN()}},
	{"FailureThreshold", circuit.Config{FailureRate: 0.5, FailureThreshold: 5}},
	{"SlowCall", circuit.Config{SlowCall: -1, SlowRate: 0.5}},
	{"SlowRate", circuit.Config{SlowCall: 1}},
	{"SlowCall", circuit.Config{SlowRate: 0.5}},
	{"SlowRate", circuit.Config{SlowCall: 1, SlowRate: math.NaN()}},
	{"SlowRate", circuit.Config{SlowCall: 1, SlowRate: 2}},
	{"Window", circuit.Config{FailureRate: 0.5, Window: -1}},
	{"Window", circuit.Config{Window: 10}},
	{"Window", circuit.Config{FailureRate: 0.5, Window: 1 << 40}},
	{"Window", circuit.Config{FailureRate: 0.5, Window: 10, WindowTime: time.Second}},
	{"WindowTime", circuit.Config{FailureRate: 0.5, WindowTime: -1}},
	{"WindowTime", circuit.Config{FailureRate: 0.5, WindowTime: 9}},
	{"MinCalls", circuit.Config{FailureRate: 0.5, MinCalls: -1}},
	{"MinCalls", circuit.Config{FailureRate: 0.5, MinCalls: 11, Window: 10}},
	{"MinCalls", circuit.Config{FailureRate: 0.5, MinCalls: 101}},
	{"SuccessThreshold", circuit.Config{SuccessThreshold: -1}},
	{"Timeout", circuit.Config{Timeout: -1}},
	{"HalfOpenRequests", circuit.Config{HalfOpenRequests: -1}},
	{"HalfOpenRequests", circuit.Config{HalfOpenRequests: math.MaxInt}},
	{"Lease", circuit.Config{Lease: -1}},
	{"Key", circuit.Config{Key: "b"}},

	{"Concurrency", limit.Config{Concurrency: -1}},
	{"Concurrency", limit.Config{Concurrency: math.MaxInt}},
	{"Concurrency, Rate, Adaptive and Throttle", limit.Config{}},
	{"Concurrency, Rate, Adaptive and Throttle", limit.Config{Concurrency: 1, Rate: 1}},
	{"Rate", limit.Config{Rate: -1}},
	{"Per", limit.Config{Rate: 1, Per: -1}},
	{"Per", limit.Config{Concurrency: 1, Per: 1}},
	{"Burst", limit.Config{Rate: 1, Burst: -1}},
	{"Burst", limit.Config{Concurrency: 1, Burst: 1}},
	{"Burst", limit.Config{Rate: 1, Per: time.Hour, Burst: math.MaxInt}},
	{"Queue", limit.Config{Concurrency: 1, Queue: -2}},
	{"Queue", limit.Config{Throttle: &limit.ThrottleConfig{}, Queue: 1}},
	{"MaxWait", limit.Config{Concurrency: 1, MaxWait: -1}},
	{"ShedAfter", limit.Config{Concurrency: 1, ShedAfter: -1}},
	{"Clock", limit.Config{Concurrency: 1, Clock: farAway{}}},
	{"Initial", limit.AdaptiveConfig{Initial: -1}},
	{"Initial", limit.AdaptiveConfig{Initial: 9, Max: 8}},
	{"Min", limit.AdaptiveConfig{Min: -1}},
	{"Max", limit.AdaptiveConfig{Min: 5, Max: 4}},
	{"Max", limit.AdaptiveConfig{Max: math.MaxInt}},
	{"Tolerance", limit.AdaptiveConfig{Tolerance: 1}},
	{"Tolerance", limit.AdaptiveConfig{Tolerance: math.NaN()}},
	{"Tolerance", limit.AdaptiveConfig{Tolerance: math.Inf(1)}},
	{"Backoff", limit.AdaptiveConfig{Backoff: 1}},
	{"Backoff", limit.AdaptiveConfig{Backoff: math.NaN()}},
	{"Multiple", limit.ThrottleConfig{Multiple: 0.9}},
	{"Multiple", limit.ThrottleConfig{Multiple: math.NaN()}},
	{"Multiple", limit.ThrottleConfig{Multiple: math.Inf(1)}},
	{"Max", limit.ThrottleConfig{Max: 1.1}},
	{"Max", limit.ThrottleConfig{Max: -1}},
	{"Max", limit.ThrottleConfig{Max: math.NaN()}},
	{"MinCalls", limit.ThrottleConfig{MinCalls: -1}},
	{"Window", limit.ThrottleConfig{Window: -1}},
	{"Window", limit.ThrottleConfig{Window: 1}},

	{"Delay", hedge.Config{Delay: -1}},
	{"Quantile", hedge.Config{Quantile: 1}},
	{"Quantile", hedge.Config{Quantile: math.NaN()}},
	{"Max", hedge.Config{Max: -1}},
	{"Ratio", hedge.Config{Ratio: 1.1}},
	{"Ratio", hedge.Config{Ratio: math.NaN()}},
}

// farAway is a clock that begins with the zero time.
type farAway struct{}

func (farAway) Now() time.Time { return time.Time{} }

func (farAway) Wait(context.Context, time.Duration, <-chan struct{}) error { return nil }

// A setting that is not possible is an error of New, which names the field, says what
// it is, and what to do.
func TestImpossibleSettings(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range impossible {
		err := newOf(c.config)
		of := reflect.TypeOf(c.config).Name()
		field, _, _ := strings.Cut(c.field, "[")
		tried[of+"."+field] = true
		if err == nil {
			t.Errorf("%+v is accepted", c.config)
			continue
		}
		text := err.Error()
		mend := strings.Contains(text, "; ")
		if !strings.Contains(text, c.field) || !mend || strings.Contains(text, "\n") {
			t.Errorf("%s of %s: the error names no field, no mend, or more than one mistake:\n%s", c.field, of, text)
		}
	}
	// No number is left out.
	for _, c := range []any{retry.Policy{}, retry.QuotaConfig{}, backoff.Schedule{}, circuit.Config{}, limit.Config{}, limit.AdaptiveConfig{}, limit.ThrottleConfig{}, hedge.Config{}} {
		of := reflect.TypeOf(c)
		for i := range of.NumField() {
			f := of.Field(i)
			switch f.Type.Kind() {
			case reflect.Int, reflect.Int64, reflect.Float64, reflect.Uint8:
				if name := of.Name() + "." + f.Name; !tried[name] && name != "Schedule.Max" { // of which every value means something
					t.Errorf("no impossible %s is tried", name)
				}
			}
		}
		if _, empty := c.(limit.Config); !empty {
			if err := newOf(c); err != nil {
				t.Errorf("the zero %s is not accepted: %v", of.Name(), err)
			}
		}
	}
}

// Layers that cannot be are errors of New too.
func TestImpossibleLayers(t *testing.T) {
	for name, layer := range map[string]guard.Layer{"nil": nil, "a nil breaker": (*circuit.Breaker)(nil), "a nil limit": (*limit.Limit)(nil), "Timeout(0)": guard.Timeout(0),
		"Timeout(-1)": guard.Timeout(-1), "Observe(nil)": guard.Observe(nil), "Log(nil)": guard.Log(nil), "FallbackIf(nil)": guard.FallbackIf(nil), "Clock(nil)": guard.Clock(nil),
		"Concurrency(0)": limit.Concurrency(0), "Concurrency(-1)": limit.Concurrency(-1), "Rate(0)": limit.Rate(0, time.Second), "Rate in no time": limit.Rate(1, 0), "Rate in negative time": limit.Rate(1, -1)} {
		if _, err := guard.New(retry.Policy{}, layer); err == nil || !strings.HasPrefix(err.Error(), "guard: layer 2: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
