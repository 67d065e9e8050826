package simulate

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// TestFitLimit: the rate and the burst of a server that answers 429 are found again in a
// run, and when it takes its tokens, whatever the run has met of it.
func TestFitLimit(t *testing.T) {
	t.Parallel()
	worlds := map[string]string{
		"asks for 1s":       "{rate: 10/1s, burst: 10, retry_after: 1s}",
		"until a token":     "{rate: 10/1s, burst: 10}",
		"asks for nothing":  "{rate: 10/1s, burst: 10, retry_after: none}",
		"at the answer":     "{rate: 10/1s, burst: 10, retry_after: 1s, taken: answer}",
		"quick and shallow": "{rate: 40/1s, burst: 3}",
		"slow and deep":     "{rate: 2/1s, burst: 60, retry_after: 3s}",
	}
	runs := 4
	if long {
		runs = 40
	}
	for name, limit := range worlds {
		world := exactly(modelOf(t, fmt.Sprintf("steps: {'*': {failures: {server_error: 0.05}, latency: {uniform: [20ms, 120ms]}, limit: %s}}", limit)))
		want := world.Steps["*"].Limit
		bursts, rates, whens := 0, 0, 0
		for seed := range uint64(runs) {
			f := mapped(t, 4+int(seed)%8, "attempts: 20, initial_delay: 200ms, max_delay: 2s, jitter: full")
			got := madeRun(t, f, world, 120, seed).Fit().Steps["map.agent_template[0]"].Limit
			if got == nil {
				t.Fatalf("%s, seed %d: no limit is found", name, seed)
			}
			if got.Burst == want.Burst {
				bursts++
			}
			if math.Abs(got.rate()/want.rate()-1) < 0.03 {
				rates++
			}
			if got.AtAnswer == want.AtAnswer {
				whens++
			}
			if got.RetryAfter != want.RetryAfter && !(want.RetryAfter == 0 && got.RetryAfter >= 0) {
				t.Errorf("%s, seed %d: it asks for %v, not for %v", name, seed, got.RetryAfter, want.RetryAfter)
			}
		}
		all := float64(runs)
		figure(t, "429, "+name+": runs in which the burst is found", float64(bursts), 0.95*all, all)
		figure(t, "429, "+name+": runs in which the rate is, to 3 %", float64(rates), 0.9*all, all)
		figure(t, "429, "+name+": runs in which it is when tokens are taken", float64(whens), 0.75*all, all)
	}
}

// TestFitLimitNoise: requests come to a server some time after they began, as on a busy machine, and eight
// workers that ask again and again take each token soon after it is there. That gives the
// bucket no tokens which it has not had.
func TestFitLimitNoise(t *testing.T) {
	t.Parallel()
	const perSecond = 25
	off := 0.0
	for seed := range uint64(4) {
		l := luck(mix(seed))
		x := &live{Target: &Target{Limit: &Limited{Count: perSecond, Per: time.Second, Burst: 10, RetryAfter: -1}}}
		x.begin(l)
		var next [8]time.Duration
		var list []*recorded
		for range 400 {
			w := 0
			for i := range next {
				if next[i] < next[w] {
					w = i
				}
			}
			a := &recorded{from: next[w], took: 40 * time.Millisecond}
			if _, limited := x.limited(a.from + l.exponential(15*time.Millisecond)); limited {
				a.took, a.failure = 5*time.Millisecond, failed("rate_limit", 0)
				next[w] += 200 * time.Millisecond
			}
			next[w] += a.took + time.Duration(l.unit()*float64(3*time.Millisecond))
			list = append(list, a)
		}
		off += (fitLimit(list, make([]bool, len(list))).best().rate()*1e9/perSecond - 1) / 4
	}
	figure(t, "429, requests come late: the rate is off by, in the mean", off, -0.03, 0.03)
}

// TestFitLimitBusy: on a machine that is so busy that requests come a good part of a token
// late, and answers too, the rate is found, and the burst to a token: not a bucket of which
// any answer is as likely.
func TestFitLimitBusy(t *testing.T) {
	t.Parallel()
	const late = 60 * time.Millisecond
	for seed := range uint64(10) {
		l := luck(mix(seed + 1))
		x := &live{Target: &Target{Limit: &Limited{Count: 10, Per: time.Second, Burst: 10, RetryAfter: time.Second}}}
		x.begin(l)
		next := make([]time.Duration, 6+seed%5) // when each worker asks
		var list []*recorded
		for done := 0; done < 80; {
			w := 0
			for i := range next {
				if next[i] < next[w] {
					w = i
				}
			}
			before := l.exponential(late)
			a := &recorded{from: next[w], took: before + time.Duration((30+90*l.unit())*float64(time.Millisecond))}
			if l.unit() < 0.5 {
				a.took += l.exponential(late)
			}
			next[w] += a.took
			if _, limited := x.limited(a.from + before); limited {
				a.failure = failed("rate_limit", time.Second)
				next[w] += time.Second + time.Duration(l.unit()*float64(100*time.Millisecond)) + l.exponential(late)
			} else {
				done++
			}
			list = append(list, a)
		}
		got := fitLimit(list, make([]bool, len(list))).best()
		if rate := got.rate() * 1e9; math.Abs(rate/10-1) > 0.05 || got.Burst < 9 || got.Burst > 11 {
			t.Errorf("seed %d: %.4g a second, and a burst of %d", seed, rate, got.Burst)
		}
	}
}

// TestForesightLimit: real servers that answer 429, whose buckets share no code with the
// model's. Where the machine is late by a part of a token, the burst is found to that.
func TestForesightLimit(t *testing.T) {
	if !long {
		t.Skip("the long form: make foresight")
	}
	const runs, perSecond, burst = 10, 10, 10
	found, rates, whens := 0, 0, 0
	for i := range runs {
		var mu sync.Mutex
		atAnswer := i%2 == 1
		var late time.Duration // by which the machine was at most
		var taken []time.Time  // of the tokens that are not back yet
		take := func() bool {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			for len(taken) > 0 && now.Sub(taken[0]) >= time.Second/perSecond { // one comes back after another
				back := taken[0].Add(time.Second / perSecond)
				if taken = taken[1:]; len(taken) > 0 && taken[0].Before(back) {
					taken[0] = back
				}
			}
			if len(taken) >= burst {
				return false
			}
			taken = append(taken, now)
			return true
		}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ok := atAnswer || take()
			takes, began := time.Duration(30+mix(hash(r.URL.Path))%90)*time.Millisecond, time.Now()
			time.Sleep(takes) // of the server
			mu.Lock()
			late = max(late, time.Since(began)-takes)
			mu.Unlock()
			if atAnswer {
				ok = take()
			}
			if !ok {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(429)
			}
		}))
		f := parsed(t, "w.yml", fmt.Sprintf("map:\n  input: [%s]\n  max_parallel: %d\n  agent_template: [{http: '%s/${item}', retry: {attempts: 30, initial_delay: 100ms, jitter: full}}]\n", list(80), 6+i%5, s.URL))
		rec, _ := really(t, f)
		s.Close()
		got := rec.Fit().Steps["map.agent_template[0]"].Limit
		if got == nil {
			t.Fatal("no limit is found")
		}
		if off := float64(got.Burst - burst); math.Abs(off) <= math.Round(late.Seconds()*perSecond) {
			found++
		}
		if math.Abs(got.rate()*1e9/perSecond-1) < 0.05 {
			rates++
		}
		if got.AtAnswer == atAnswer {
			whens++
		}
		t.Logf("burst %d, %.4g a second, at the answer: %v, really %v; the machine was %s late", got.Burst, got.rate()*1e9, got.AtAnswer, atAnswer, late)
	}
	figure(t, "429, real servers: runs in which the burst is found", float64(found), runs-1, runs)
	figure(t, "429, real servers: runs in which the rate is, to 5 %", float64(rates), runs-1, runs)
	figure(t, "429, real servers: runs in which it is when tokens are taken", float64(whens), runs-2, runs)
}
