package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
)

// The tests in virtual time run the whole engine with its journal in a bubble of package
// synctest. An agent's work is an HTTP request that a function answers, so there is no
// process to wait for.

// answers is a function that answers all requests.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(status int, text string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text))}, nil
}

// virtual answers requests, each after some time, and keeps when they came.
type virtual struct {
	took  time.Duration // of each answer
	quick string        // a path that is answered after 1 s
	slow  string        // a path that is answered after an hour
	// limited is a path that gets a 429 the first time, which asks to come back in 5 s.
	limited string
	// fails says whether the nth request for a path, at a time since the beginning, gets a
	// 500. nil: none does.
	fails func(path string, n int, at time.Duration) bool

	mu     sync.Mutex
	begin  time.Time
	count  map[string]int
	visits []visit
	now    int // requests in flight
	most   int
}

// visit is one request: its path, and when it came, in seconds since the beginning.
type visit struct {
	path string
	at   float64
}

func (v *virtual) client() *http.Client {
	v.begin, v.count = time.Now(), map[string]int{}
	return &http.Client{Transport: answers(v.answer)}
}

func (v *virtual) answer(r *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	v.mu.Lock()
	at := time.Since(v.begin)
	v.visits = append(v.visits, visit{path, at.Round(time.Millisecond).Seconds()})
	v.count[path]++
	n := v.count[path]
	v.now++
	v.most = max(v.most, v.now)
	v.mu.Unlock()
	defer func() { v.mu.Lock(); v.now--; v.mu.Unlock() }()
	took := v.took
	if path == v.quick {
		took = time.Second
	}
	if v.slow != "" && path == v.slow {
		took = time.Hour
	}
	select {
	case <-time.After(took):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if v.limited != "" && path == v.limited && n == 1 {
		res, err := reply(429, "too many requests")
		res.Header.Set("Retry-After", "5")
		return res, err
	}
	if v.fails != nil && v.fails(path, n, at) {
		return reply(500, "broken "+path)
	}
	return reply(200, "ok "+path)
}

// times gives the times of the requests for a path; with "", of all requests.
func (v *virtual) times(path string) []float64 {
	var out []float64
	for _, x := range v.visits {
		if path == "" || x.path == path {
			out = append(out, x.at)
		}
	}
	return out
}

// broken makes all requests for some paths fail.
func broken(paths ...string) func(string, int, time.Duration) bool {
	return func(path string, _ int, _ time.Duration) bool { return slices.Contains(paths, path) }
}

// inTime runs a test in virtual time.
func inTime(t *testing.T, v *virtual, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.opt.HTTP = v.client()
		f(b)
	})
}

// list is a map over the numbers 1 to n, each one request.
func list(n int, policy, mapKeys string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprint(i + 1)
	}
	return "mode: mapreduce\n" + policy + "\nmap:\n  input: [" + strings.Join(items, ", ") + "]\n" + mapKeys + `
  agent_template:
    - http: "http://example.test/${item}"
reduce:
  - http: "http://example.test/reduce"
`
}

func wantTimes(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestBreakerHoldsTheMap: five failures in a row open the breaker for 30 s. Then as many
// agents probe as are allowed, and no more.
func TestBreakerHoldsTheMap(t *testing.T) {
	t.Parallel()
	policy := "error_policy:\n  circuit_breaker: {failure_threshold: 5, timeout: 30s, success_threshold: 3, half_open_requests: 2}"
	down := func(_ string, _ int, at time.Duration) bool { return at < 40*time.Second }
	t.Run("one agent", func(t *testing.T) {
		v := &virtual{took: time.Second, fails: down}
		inTime(t, v, func(b *bench) {
			r := b.run(list(10, policy, "  max_parallel: 1"))
			r.status(event.CompletedWithFailures)
			// 5 fail, the breaker opens at 5 s; one probe fails at 36 s.
			wantTimes(t, "starts", v.times(""), []float64{0, 1, 2, 3, 4, 35, 66, 67, 68, 69, 70})
			var changes []string
			for _, e := range r.of(event.BreakerChanged) {
				if e.From != e.To {
					changes = append(changes, e.From+">"+e.To)
				}
			}
			if want := []string{"closed>open", "open>half_open", "half_open>open", "open>half_open", "half_open>closed"}; !slices.Equal(changes, want) {
				t.Errorf("changes %v, want %v", changes, want)
			}
			if r.sum.Items.Failed != 6 || r.sum.Items.Succeeded != 4 {
				t.Errorf("items %+v: those that were held back must not fail", r.sum.Items)
			}
		})
	})
	t.Run("many agents", func(t *testing.T) {
		v := &virtual{took: time.Second, fails: down}
		inTime(t, v, func(b *bench) {
			r := b.run(list(20, policy, "  max_parallel: 8"))
			r.status(event.CompletedWithFailures)
			// At 1 s four have failed and made room, before the fifth fails and opens the
			// breaker. Two probe at 31 s and fail. Two probe at 62 s and two at 63 s; the
			// third success closes it.
			got := v.times("")
			wantTimes(t, "starts", got[:18], []float64{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 31, 31, 62, 62, 63, 63})
			if got[18] < 64 {
				t.Errorf("the next starts: %v", got[18:])
			}
		})
	})
	t.Run("goes on after a resume", func(t *testing.T) {
		v := &virtual{took: time.Second, fails: down}
		inTime(t, v, func(b *bench) {
			flow := list(10, policy, "  max_parallel: 1")
			soft, stop := context.WithCancel(context.Background())
			b.opt.Soft = soft
			time.AfterFunc(3500*time.Millisecond, stop) // four have failed when it ends
			r := b.run(flow)
			r.status(event.Interrupted)
			time.Sleep(6 * time.Second) // nothing runs from 4 s to 10 s
			r = b.resume(context.Background())
			r.status(event.CompletedWithFailures)
			wantTimes(t, "starts", v.times("")[:7], []float64{0, 1, 2, 3, 10, 41, 42})
		})
	})
}

// TestMapStopsWhereThePolicySays counts the starts of agents, one after another, until a
// limit stops the map.
func TestMapStopsWhereThePolicySays(t *testing.T) {
	t.Parallel()
	failing := func(list ...int) func(string, int, time.Duration) bool {
		return func(path string, _ int, _ time.Duration) bool {
			for _, i := range list {
				if path == fmt.Sprint(i) {
					return true
				}
			}
			return false
		}
	}
	seq := func(from, to int) (out []int) {
		for i := from; i <= to; i++ {
			out = append(out, i)
		}
		return out
	}
	cases := []struct {
		name, policy string
		fails        []int
		starts       int // of 40 items; 40: it is not stopped
		failed       int
	}{
		{"max_failures", "max_failures: 10", seq(5, 40), 14, 10},
		{"max_failures not reached", "max_failures: 10", seq(32, 40), 40, 9},
		{"max_failures with retries counts items", "error_policy: {max_failures: 2, retry_config: {max_attempts: 3, initial_delay: 1s}}", []int{1, 2}, 7, 2},
		{"threshold needs ten finished", "failure_threshold: 0.25", seq(1, 40), 10, 10},
		{"threshold is reached by equality", "failure_threshold: 0.25", []int{4, 8, 12, 16, 20, 24, 28, 32, 36, 40}, 12, 3},
		{"threshold is missed by a little", "failure_threshold: 0.25", []int{5, 9, 13, 17, 21, 25, 29, 33, 37}, 40, 9},
		{"threshold of all", "failure_threshold: 1.0", seq(1, 40), 10, 10},
		{"threshold of all, and one is well", "failure_threshold: 1.0", seq(2, 40), 40, 39},
		{"threshold passed before ten have finished", "failure_threshold: 0.25", []int{1, 2, 3}, 10, 3},
		{"threshold is reached at the twelfth", "failure_threshold: 0.25", []int{10, 11, 12, 13, 14}, 12, 3},
		{"continue_on_failure", "continue_on_failure: false", []int{7, 9}, 7, 1},
		{"stop", "on_item_failure: stop", []int{3}, 3, 1},
		{"skip", "on_item_failure: skip", []int{3, 4}, 40, 2},
		{"dead letters stop nothing", "on_item_failure: dlq", seq(1, 40), 40, 40},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v := &virtual{took: time.Second, fails: failing(c.fails...)}
			inTime(t, v, func(b *bench) {
				r := b.run(list(40, c.policy, "  max_parallel: 1"))
				starts := len(v.visits)
				reduced := v.count["reduce"] > 0
				if reduced {
					starts--
				}
				if starts != c.starts {
					t.Errorf("%d starts, want %d: %v", starts, c.starts, v.visits)
				}
				stopped := strings.Contains(r.sum.Message, "stopped")
				last := v.visits[len(v.visits)-1].path
				if want := c.starts < 40; want != stopped || reduced == want {
					t.Errorf("stopped: %v, reduce ran: %v (last request %s); %s %s", stopped, reduced, last, r.sum.Status, r.sum.Message)
				}
				it := r.sum.Items
				failed := it.Failed
				if c.name == "skip" {
					failed = it.Skipped
				}
				if failed != c.failed || it.Succeeded+it.Failed+it.Skipped+it.Pending != 40 {
					t.Errorf("items %+v, want %d failed", it, c.failed)
				}
				want := 3
				if stopped {
					want = 1
				}
				if got := r.sum.ExitStatus(); got != want {
					t.Errorf("exit status %d, want %d", got, want)
				}
				if !stopped {
					return
				}
				// The others are pending; a resume continues with them.
				b.opt.HTTP = (&virtual{}).client()
				pending := it.Pending
				r = b.resume(context.Background())
				if r.sum.Items.Pending != 0 || r.sum.Items.Succeeded < pending {
					t.Errorf("after the resume: %+v, %s", r.sum.Items, r.sum.Message)
				}
			})
		})
	}
}

// TestRunningAgentsEndWhenTheMapStops: no new item starts, and running items are completed.
func TestRunningAgentsEndWhenTheMapStops(t *testing.T) {
	t.Parallel()
	v := &virtual{took: time.Minute, fails: broken("1")}
	inTime(t, v, func(b *bench) {
		v.quick = "1"
		r := b.run(list(9, "max_failures: 1", "  max_parallel: 3"))
		r.status(event.Failed)
		if len(v.visits) != 3 || r.sum.Items.Succeeded != 2 || r.sum.Items.Pending != 6 {
			t.Errorf("%v; %+v", v.visits, r.sum.Items)
		}
	})
}

// TestItemRetriesHoldNoWorker: while item 1 waits 10 s, the only worker takes
// the others.
func TestItemRetriesHoldNoWorker(t *testing.T) {
	t.Parallel()
	v := &virtual{took: time.Second, fails: func(path string, n int, _ time.Duration) bool { return path == "1" && n < 3 }}
	inTime(t, v, func(b *bench) {
		r := b.run(list(4, "error_policy:\n  retry_config: {max_attempts: 3, initial_delay: 10s, backoff: exponential}", "  max_parallel: 1"))
		r.status(event.Succeeded)
		wantTimes(t, "item 1", v.times("1"), []float64{0, 11, 32})
		wantTimes(t, "item 4", v.times("4"), []float64{3})
	})
}

// TestCommandAndItemRetriesMultiply counts the attempts from outside.
func TestCommandAndItemRetriesMultiply(t *testing.T) {
	t.Parallel()
	v := &virtual{fails: broken("1")}
	inTime(t, v, func(b *bench) {
		r := b.run(`
mode: mapreduce
error_policy:
  retry_config: {max_attempts: 3, initial_delay: 20s, backoff: fixed}
map:
  input: [1, 2]
  agent_template:
    - http: "http://example.test/${item}"
      retry: {attempts: 4, initial_delay: 1s, backoff: linear}
    - http: "http://example.test/after-${item}"
`)
		r.status(event.CompletedWithFailures)
		wantTimes(t, "item 1", v.times("1"), []float64{0, 1, 3, 6, 26, 27, 29, 32, 52, 53, 55, 58})
		if v.count["2"] != 1 || v.count["after-2"] != 1 || v.count["after-1"] != 0 {
			t.Errorf("visits: %v", v.count)
		}
		if n := len(r.of(event.ItemRetry)); n != 2 {
			t.Errorf("%d item retries on record, want 2", n)
		}
		failed := 0
		for _, e := range r.of(event.AttemptFailed) {
			if e.Index == 1 {
				failed++
			}
		}
		if failed != 12 {
			t.Errorf("%d failed attempts on record, want 12", failed)
		}
		letters := b.letters()
		if len(letters) != 1 || letters[0].Attempts != 3 || len(letters[0].History) < 3 {
			t.Errorf("dead letters: %+v", letters)
		}
	})
}

// letters are the dead letters of the only run.
func (b *bench) letters() (out []journal.DeadLetter) {
	b.t.Helper()
	store, err := journal.OpenStore(b.home)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := store.Read("")
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Close()
	for l, err := range r.DeadLetters(context.Background(), journal.DeadLetterFilter{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// TestStartDelayIsARamp: the first agents start one after another.
func TestStartDelayIsARamp(t *testing.T) {
	t.Parallel()
	v := &virtual{took: time.Minute}
	inTime(t, v, func(b *bench) {
		r := b.run(list(8, "start_delay: 5s", "  max_parallel: 4"))
		r.status(event.Succeeded)
		wantTimes(t, "starts", v.times("")[:8], []float64{0, 5, 10, 15, 60, 65, 70, 75})
		if v.most != 4 {
			t.Errorf("%d at once, want 4", v.most)
		}
	})
}

// TestErrorsAreShownWhenThePolicySays checks the notes between the ends of items.
func TestErrorsAreShownWhenThePolicySays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ policy, want string }{
		{"error_collection: immediate", "fnfnfnfnfn"},
		{"error_collection: batched:2", "ffnnffnnfn"},
		{"error_collection: {batched: {size: 3}}", "fffnnnffnn"},
		{"error_collection: aggregate", "fffff"},
		{"name: x", "fffff"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			v := &virtual{fails: broken("1", "2", "3", "4", "5")}
			inTime(t, v, func(b *bench) {
				r := b.run(list(5, c.policy, "  max_parallel: 1"))
				got := ""
				for _, e := range r.events {
					switch {
					case e.Type == event.ItemFinished:
						got += "f"
					case e.Type == event.Note && strings.HasPrefix(e.Message, "item ") && strings.Contains(e.Message, " failed"):
						got += "n"
					}
				}
				if got != c.want {
					t.Errorf("%s, want %s%s", got, c.want, r.story())
				}
				if len(r.sum.Errors) != 1 || r.sum.Errors[0].Count != 5 {
					t.Errorf("summary: %+v", r.sum.Errors)
				}
			})
		})
	}
}

// TestAgentTimeouts: what happens to an item whose agent takes too long.
func TestAgentTimeouts(t *testing.T) {
	t.Parallel()
	slow := func(config string) string {
		return `
mode: mapreduce
error_policy: {retry_config: {max_attempts: 2, initial_delay: 1s}}
map:
  input: [slow, b, c]
  max_parallel: 1
` + config + `
  agent_template:
    - http: "http://example.test/${item}"
    - http: "http://example.test/more-${item}"
`
	}
	for _, c := range []struct {
		config string
		want   event.ItemCounts
		slow   int // requests for the slow item
	}{
		{"  agent_timeout_secs: 90", event.ItemCounts{Total: 3, Succeeded: 2, Failed: 1}, 1},
		{"  timeout_config: {agent_timeout_secs: 90, timeout_action: dlq}", event.ItemCounts{Total: 3, Succeeded: 2, Failed: 1}, 1},
		{"  timeout_config: {agent_timeout_secs: 90, timeout_action: graceful_terminate}", event.ItemCounts{Total: 3, Succeeded: 2, Failed: 1}, 1},
		{"  timeout_config: {agent_timeout_secs: 90, timeout_action: retry}", event.ItemCounts{Total: 3, Succeeded: 2, Failed: 1}, 2},
		{"  timeout_config: {agent_timeout_secs: 90, timeout_action: skip}", event.ItemCounts{Total: 3, Succeeded: 2, Skipped: 1}, 1},
		{"  timeout_config: {agent_timeout_secs: 90, timeout_action: fail}", event.ItemCounts{Total: 3, Failed: 1, Pending: 2}, 1},
	} {
		t.Run(c.config, func(t *testing.T) {
			v := &virtual{took: time.Minute}
			inTime(t, v, func(b *bench) {
				b.opt.HTTP.Transport = answers(func(r *http.Request) (*http.Response, error) {
					if strings.HasSuffix(r.URL.Path, "slow") {
						v.mu.Lock()
						v.count["slow"]++
						v.mu.Unlock()
						<-r.Context().Done()
						return nil, r.Context().Err()
					}
					return reply(200, "fine")
				})
				began := time.Now()
				r := b.run(slow(c.config))
				if r.sum.Items != c.want || v.count["slow"] != c.slow {
					t.Errorf("items %+v, want %+v; %d requests, want %d%s", r.sum.Items, c.want, v.count["slow"], c.slow, r.story())
				}
				if took, most := time.Since(began), time.Duration(c.slow)*91*time.Second; took > most || took < 90*time.Second {
					t.Errorf("it took %v, want at most %v", took, most)
				}
			})
		})
	}
}

// TestTimeoutStopsTheProcessTree: no process of an agent that took too long is left
// running, even if it ignores SIGTERM or has left its group.
func TestTimeoutStopsTheProcessTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(`
mode: mapreduce
map:
  input: [1, 2]
  agent_timeout: 3s
  timeout_config: {cleanup_grace_period_secs: 1}
  agent_template:
    - shell: |
        setsid sleep 1001 &
        sh -c 'trap "" TERM; sleep 1002 & wait; sleep 1003' &
        echo begun >> $EV/log
        wait
        sleep 1004
`)
	r.status(event.CompletedWithFailures)
	if got := r.file("log"); got != "begun\nbegun" {
		t.Errorf("log: %q", got)
	}
	for _, l := range b.letters() {
		if l.Class != "timeout" {
			t.Errorf("item %s: class %s: %s", l.ID, l.Class, l.Message)
		}
	}
	if left := living("EV=" + b.ev); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
}

// TestCustomHandler: the handler gets the item and its error, and the item counts as
// handled.
func TestCustomHandler(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(`
mode: mapreduce
error_policy:
  on_item_failure: {custom: tell}
handlers:
  tell:
    - shell: echo "${item} ${error.class} ${error.attempts}" >> $EV/told
map:
  input: [a, b]
  max_parallel: 1
  agent_template:
    - shell: test ${item} = b
reduce:
  - shell: echo ${map.failed} ${map.successful} > $EV/sum
`)
	r.want("told", "a exit 1")
	r.want("sum", "1 1")
	if n := len(b.letters()); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// TestInterruptedHandler: an interrupt between the end of an item and the first step of its
// handler does not lose the handler, and the handler reads the same values.
func TestInterruptedHandler(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	soft, stop := context.WithCancel(context.Background())
	defer stop()
	b.opt.Soft = soft
	b.opt.Sinks = []event.Sink{event.SinkFunc(func(e event.Event) {
		if e.Type == event.StepFinished && e.Item != "" && e.Status == event.Failed {
			stop()
		}
	})}
	b.setenv("BIDE_TEST_SECRET", "hunter2hunter2")
	r := b.run(`
mode: mapreduce
error_policy:
  on_item_failure: {custom: tell}
handlers:
  tell:
    - shell: echo "${item} ${found} ${error.class} ${error.exit_code} ${error.attempts}" >> $EV/told
map:
  input: [a, b]
  max_parallel: 1
  agent_template:
    - shell: echo "x y"
      capture: found
    - shell: test ${item} = b || exit 7
reduce:
  - shell: echo ${map.failed} ${map.successful} > $EV/sum
`)
	r.status(event.Interrupted)
	if _, err := os.Stat(filepath.Join(b.ev, "told")); err == nil {
		t.Fatal("the handler ran before the interrupt")
	}
	if n := len(r.of(event.ItemHandlerDue)); n != 1 {
		t.Fatalf("%d handlers are due%s", n, r.story())
	}
	b.opt.Sinks = nil
	r = b.resume(context.Background())
	r.status(event.CompletedWithFailures)
	r.want("told", "a x y exit 7 1")
	r.want("sum", "1 1")
	if n := r.sum.Errors; len(n) != 1 || n[0].Count != 1 {
		t.Errorf("errors %+v", n)
	}
}

// TestRetryOfItemsThenDeadLetter: on_item_failure: retry without retry_config means the
// default policy, and then a dead letter.
func TestRetryOfItemsThenDeadLetter(t *testing.T) {
	t.Parallel()
	v := &virtual{fails: broken("2")}
	inTime(t, v, func(b *bench) {
		r := b.run(list(3, "on_item_failure: retry", "  max_parallel: 3"))
		r.status(event.CompletedWithFailures)
		wantTimes(t, "item 2", v.times("2"), []float64{0, 1, 3})
		if n := len(b.letters()); n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	})
}

// TestDeadLettersAfterTheCauseIsMended runs 2,000 items of which 30 % fail.
func TestDeadLettersAfterTheCauseIsMended(t *testing.T) {
	t.Parallel()
	const n = 2000
	b := newBench(t)
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"id":"n%04d","bad":%v}`+"\n", i, i%10 < 3)
	}
	b.write("items.jsonl", text.String())
	flow := `
mode: mapreduce
error_policy:
  retry_config: {max_attempts: 2, initial_delay: 1ms, backoff: fixed}
map:
  input: items.jsonl
  max_parallel: 4
  agent_template:
    - shell: test ${item.bad} = false -o -e $EV/mended
reduce:
  - shell: cp ${map.results_file} $EV/results.jsonl; echo ${map.successful}/${map.failed}/${map.total} >> $EV/sums
`
	r := b.run(flow)
	r.status(event.CompletedWithFailures)
	if got := len(b.letters()); got != n*3/10 {
		t.Fatalf("%d dead letters, want %d", got, n*3/10)
	}
	if err := os.WriteFile(filepath.Join(b.ev, "mended"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	store, err := journal.OpenStore(b.home)
	if err != nil {
		t.Fatal(err)
	}
	opt := b.opt
	opt.Store = store
	sum, err := engine.RetryDeadLetters(context.Background(), "", opt, letters.Requeue{})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Status != event.Succeeded || sum.Items != (event.ItemCounts{Total: n, Succeeded: n}) {
		t.Errorf("%s %+v %s", sum.Status, sum.Items, sum.Message)
	}
	r.want("sums", "1400/600/2000\n2000/0/2000")
	results, err := resultLines(r.file("results.jsonl"))
	if err != nil || len(results) != n {
		t.Fatalf("reduce saw %d results: %v", len(results), err)
	}
	for i, res := range results {
		if res.ID != fmt.Sprintf("n%04d", i) || !res.Success {
			t.Errorf("result %d: %+v", i, res)
		}
	}
	// Each history is whole: two attempts of the first round, one of the second.
	rd, err := store.Read("")
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	starts, retries := map[int][]int{}, 0
	for e, err := range rd.Events(context.Background(), 1, journal.EventFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case event.ItemStarted:
			starts[e.Index] = append(starts[e.Index], e.Attempt)
		case event.ItemRetry:
			retries++
		}
	}
	for i := range n {
		want := []int{1}
		if i%10 < 3 {
			want = []int{1, 2, 3}
		}
		if !slices.Equal(starts[i+1], want) {
			t.Errorf("item %d: attempts %v, want %v", i, starts[i+1], want)
		}
	}
	if retries != n*3/10 {
		t.Errorf("%d retries on record, want %d", retries, n*3/10)
	}
	if _, err := engine.RetryDeadLetters(context.Background(), "", opt, letters.Requeue{}); err == nil {
		t.Error("there is nothing to retry, and no error")
	}
}

// TestRateLimitPausesTheMap: when an agent answers "later", all agents wait, no attempt is
// used up, and no item fails.
func TestRateLimitPausesTheMap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	began := time.Now()
	r := b.run(`
mode: mapreduce
map:
  input: [1, 2, 3, 4]
  max_parallel: 2
  agent_template:
    - claude: /limit @EV@/limited 2
`)
	r.status(event.Succeeded)
	if took := time.Since(began); took < time.Second {
		t.Errorf("it took %v: nobody waited", took)
	}
	if n := len(r.of(event.RunPaused)); n < 1 {
		t.Errorf("%d pauses told", n)
	}
	if n := len(r.of(event.AttemptFailed)) + len(r.of(event.ItemRetry)); n > 0 {
		t.Errorf("%d attempts were used up%s", n, r.story())
	}
	if n := len(strings.Split(r.file("agent.log"), "\n")); n < 5 || n > 6 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// TestRateLimitLongerThanMaxWait: such a limit stops the map, also if it rejects two agents
// at once. No item is to blame. A resume also respects max_wait: before the end of the
// limit it stops without asking, and after it, it continues.
func TestRateLimitLongerThanMaxWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	flow := `
mode: mapreduce
max_wait: 1s
map:
  input: [1, 2, 3]
  max_parallel: 2
  agent_template:
    - shell: echo ${item} >> $EV/begun
    - shell: until test $(wc -l < $EV/begun) -ge 2; do sleep 0.01; done
    - claude: /limit @EV@/limited${item} 600
`
	r := b.run(flow)
	for range 2 {
		r.status(event.Failed)
		if it := r.sum.Items; it.Pending != 3 || it.Failed != 0 || !strings.Contains(r.sum.Message, "longer than max_wait") {
			t.Errorf("items %+v: %s", it, r.sum.Message)
		}
		r = b.resume(context.Background())
	}
	if n := len(r.of(event.AgentUsage)); n > 2 {
		t.Errorf("agents were asked %d times", n)
	}
}

// TestRateLimitLongerThanMaxWaitForAll: no item waits for the end of such a limit: not an
// item that asks its agent later, nor one that is waiting for a shorter limit. Their
// finished steps do not run again, and the map ends immediately.
func TestRateLimitLongerThanMaxWaitForAll(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"at once": "9999", "after a shorter one": "600"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.opt.Sinks = append(b.opt.Sinks, event.SinkFunc(func(e event.Event) {
				if e.Type == event.RunPaused {
					b.write("paused", "")
				}
			}))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r, err := b.try(ctx, `
mode: mapreduce
max_wait: 20m
agents:
  late: {command: [sh, -c, 'until [ -e paused ]; do sleep 0.02; done; sleep 0.3; echo "API Error: 429 RESOURCE_EXHAUSTED. Please retry in 99999s"; exit 1', '${prompt}']}
map:
  input: [1, 2, 3]
  max_parallel: 3
  agent_template:
    - shell: echo ${item} >> $EV/first; test ${item} != 2 || until [ -e paused ]; do sleep 0.02; done
    - late: go on
      when: ${item == 3 && '`+first+`' == '600'}
    - claude: /limit @EV@/limited-${item} `+first+`
`)
			if err != nil || ctx.Err() != nil {
				t.Fatalf("%v, %v", err, ctx.Err())
			}
			r.status(event.Failed)
			if it := r.sum.Items; it.Pending != 3 || it.Failed != 0 || !strings.Contains(r.sum.Message, "rate limit") {
				t.Errorf("items %+v: %s", it, r.sum.Message)
			}
			if n := len(r.of(event.ItemRetry)); n > 0 {
				t.Errorf("%d items are tried again%s", n, r.story())
			}
			if lines := strings.Fields(r.file("first")); len(lines) != 3 {
				t.Errorf("first steps: %q", lines)
			}
		})
	}
}

// TestCostBudget: once the budget is spent, no new item starts, and a running agent is
// completed.
func TestCostBudget(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	flow := `
mode: mapreduce
max_cost: @COST@
map:
  input: [1, 2, 3, 4, 5]
  max_parallel: 1
  agent_template:
    - claude: /say a
    - claude: /say b
    - shell: echo ${item} >> $EV/done
`
	r := b.run(strings.Replace(flow, "@COST@", "0.75", 1)) // each answer costs 0.25
	r.status(event.Failed)
	r.want("done", "1\n2")
	if it := r.sum.Items; it.Succeeded != 2 || it.Pending != 3 || it.Failed != 0 {
		t.Errorf("items %+v", it)
	}
	if !strings.Contains(r.sum.Message, "max_cost") {
		t.Errorf("message: %s", r.sum.Message)
	}
	if r.sum.Usage == nil || r.sum.Usage.CostUSD != 1 {
		t.Errorf("usage: %+v", r.sum.Usage)
	}
	// A resume with the same budget starts nothing; with a larger one it continues.
	r = b.resume(context.Background())
	r.status(event.Failed)
	r.want("done", "1\n2")
	b.write("flow.yml", strings.Replace(flow, "@COST@", "10", 1))
	b.opt.Force = true
	r = b.resume(context.Background())
	r.status(event.Succeeded)
	r.want("done", "1\n2\n3\n4\n5")
	if r.sum.Usage == nil || r.sum.Usage.CostUSD != 2.5 {
		t.Errorf("usage of all lives: %+v", r.sum.Usage)
	}
}

// TestAsRecorded: if asked for, dead letters run again with the recorded file and imports,
// although these have changed.
func TestAsRecorded(t *testing.T) {
	t.Parallel()
	for _, changed := range []string{"flow.yml", "sub.yml"} {
		t.Run(changed, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("sub.yml", "commands: [{shell: 'echo was >> @EV@/x; test -e @EV@/go'}]\n")
			b.write("flow.yml", "imports: [{path: sub.yml, alias: sub}]\nmap: {input: [1], agent_template: [{workflow: sub}]}\n")
			text, err := os.ReadFile(filepath.Join(b.dir, "flow.yml"))
			if err != nil {
				t.Fatal(err)
			}
			b.run(string(text)).status(event.CompletedWithFailures)
			b.write(changed, "commands: [{shell: echo is >> @EV@/x}]\n")
			if err := os.WriteFile(filepath.Join(b.ev, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			store, err := journal.OpenStore(b.home)
			if err != nil {
				t.Fatal(err)
			}
			opt := b.opt
			opt.Store = store
			sum, err := engine.RetryDeadLetters(t.Context(), "", opt, letters.Requeue{AsRecorded: true})
			if err != nil || sum.Status != event.Succeeded {
				t.Fatalf("%+v, %v", sum, err)
			}
			if got := (&ran{bench: b}).file("x"); got != "was\nwas" {
				t.Errorf("it ran %q", got)
			}
		})
	}
}

// itemResult is what a reduce step reads about an item in map.results_file.
type itemResult struct {
	ID      string `json:"item_id"`
	Success bool
	Output  string
}

// resultLines reads what a map.results_file has: one JSON object a line.
func resultLines(text string) (results []itemResult, err error) {
	for line := range strings.Lines(text) {
		var one itemResult
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return nil, fmt.Errorf("line %d, %.80q: %w", len(results)+1, line, err)
		}
		results = append(results, one)
	}
	return results, nil
}
