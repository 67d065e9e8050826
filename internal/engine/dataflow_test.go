package engine_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// tries is a module that fails a number of times for a key, then gives the key, and leaves
// a line for each attempt.
const tries = `
- name: Tries
  params: {key: String, failures: Int}
  result: String
  shell: |
    echo "$INPUT_KEY" >> $EV/log
    if [ $(grep -cx "$INPUT_KEY" $EV/log) -le "$INPUT_FAILURES" ]; then echo "busy: $INPUT_KEY" >&2; exit 9; fi
    echo "did $INPUT_KEY"
`

// course gives what happened to a step: types, attempts, statuses.
func (r *ran) course(step string) string {
	var out []string
	for _, e := range r.events {
		if e.Step != step {
			continue
		}
		s := string(e.Type)
		switch e.Type {
		case event.AttemptStarted, event.AttemptFailed, event.RetryScheduled:
			s += fmt.Sprintf(" %d", e.Attempt)
		case event.StepFinished:
			s += fmt.Sprintf(" %s %d", e.Status, e.Attempts)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// times counts the lines of $EV/log that equal a text.
func (b *bench) times(text string) (n int) {
	b.t.Helper()
	for _, l := range b.lines() {
		if l == text {
			n++
		}
	}
	return n
}

// TestCallsAreOnRecord: the record has every attempt, wait, answer from the cache,
// fallback, skip and change of a breaker, with the path of the call.
func TestCallsAreOnRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(tries + `
- name: Join
  params: {a: String, b: String}
  result: String
  shell: echo "$INPUT_A, $INPUT_B"
`)
	r := b.pipeline(`
keys = ["x", "y"]
first = Tries("first", 2) with retry: 3, delay: 20ms, backoff: linear
bad = Tries("bad", 99) with retry: 1
after = Join(first, bad)
later = Join(after, "b")
safe = Tries("safe", 99) with retry: 1, fallback: "instead of " + error.module
one = Join("a", "b") with cache: 1h
two = Join(one, "b")
again = if (two != "") Join("a", "b") with cache: 1h else ""
each = map(keys, (k) => Tries(k, 1) with retry: 2)
broken = map(["p", "p", "p", "p"], (k) => Tries(k, 99) with breaker: 2/1h, concurrency: 1, on_error: skip)
out first
out later
out safe
out again
out each
out broken
`, nil)
	r.status(event.Failed)
	for step, want := range map[string]string{
		"first":         "step_started, attempt_started 1, attempt_failed 1, retry_scheduled 1, attempt_started 2, attempt_failed 2, retry_scheduled 2, attempt_started 3, step_finished succeeded 3",
		"bad":           "step_started, attempt_started 1, attempt_failed 1, retry_scheduled 1, attempt_started 2, attempt_failed 2, step_finished failed 2",
		"after":         "step_finished skipped 0",
		"later":         "step_finished skipped 0",
		"safe":          "step_started, attempt_started 1, attempt_failed 1, retry_scheduled 1, attempt_started 2, attempt_failed 2, step_finished degraded 2",
		"each[0].Tries": "step_started, attempt_started 1, attempt_failed 1, retry_scheduled 1, attempt_started 2, step_finished succeeded 2",
		"each[1].Tries": "step_started, attempt_started 1, attempt_failed 1, retry_scheduled 1, attempt_started 2, step_finished succeeded 2",
		"again":         "",
	} {
		if got := r.course(step); got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
	var cached []string
	for _, e := range r.of(event.StepFinished) {
		if strings.Contains(string(e.Data), `"cached":true`) {
			cached = append(cached, e.Step)
		}
	}
	if len(cached) != 1 || !strings.Contains(cached[0], "Join") {
		t.Errorf("from the cache: %q", cached)
	}
	if e := r.stepEvents("first", event.RetryScheduled); len(e) != 2 || e[0].DelayMS != 20 || e[1].DelayMS != 40 {
		t.Errorf("waits: %+v", e)
	}
	if e := r.stepEvents("bad", event.AttemptFailed); len(e) != 2 || e[0].ExitCode != 9 || e[0].Class != "exit" || !strings.Contains(string(e[0].Data), "busy: bad") {
		t.Errorf("failures: %+v", e)
	}
	if e := r.end("later"); !strings.Contains(e.Message, "bad = Tries") || !strings.Contains(e.Message, "flow.cst:4:7") || e.Class != "exit" {
		t.Errorf("skipped: %s: %s", e.Class, e.Message)
	}
	if e := r.end("each[1].Tries"); e.Label != "each[1] = Tries" {
		t.Errorf("label %q", e.Label)
	}
	opened := 0
	for _, e := range r.of(event.BreakerChanged) {
		if e.From == "closed" && e.To == "open" {
			opened++
		}
	}
	if n := b.times("p"); opened != 1 || n != 2 {
		t.Errorf("the breaker opened %d times after %d attempts, want once after 2", opened, n)
	}
	if r.sum.Steps.Failed != 1 || r.sum.Steps.Skipped != 2 {
		t.Errorf("counted: %+v", r.sum.Steps)
	}
	r.gave("first", "did first")
	r.gave("safe", "instead of Tries")
	r.gave("broken", []string{"", "", "", ""})
	if _, ok := r.sum.Outputs["later"]; ok {
		t.Error("an output that could not be computed is there")
	}
	for _, want := range []string{"flow.cst:4:7: bad = Tries: failed after 2 attempts: exit status 9: busy: bad"} {
		if r.sum.Message != filepath.Join(b.dir, want) {
			t.Errorf("the run says %q, want %q", r.sum.Message, want)
		}
	}
}

// TestFailFastOfAPipeline: the first failure ends running calls. Without fail_fast, calls
// that do not need the failed value are completed.
func TestFailFastOfAPipeline(t *testing.T) {
	t.Parallel()
	for _, fast := range []bool{false, true} {
		t.Run(fmt.Sprint(fast), func(t *testing.T) {
			b := newBench(t)
			b.opt.FailFast = fast
			b.modules(`
- {name: Bad, result: String, shell: "until [ -e $EV/began ]; do sleep 0.01; done; exit 1"}
- {name: Slow, result: String, shell: "touch $EV/began; @WAIT@; echo x > $EV/end; echo slow"}
`)
			manifest := filepath.Join(b.dir, "modules.yml")
			text, err := os.ReadFile(manifest)
			if err != nil {
				t.Fatal(err)
			}
			wait := "sleep 0.2"
			if fast {
				wait = "sleep 300"
			}
			b.write("modules.yml", strings.Replace(string(text), "@WAIT@", wait, 1))
			r := b.pipeline("out a = Bad()\nout b = Slow()\n", nil)
			r.status(event.Failed)
			b.quiet()
			if fast {
				r.want("end", "-")
				return
			}
			r.want("end", "x")
			r.gave("b", "slow")
		})
	}
}

// TestMaxParallelOfAPipeline limits how many attempts run at once, over all calls.
func TestMaxParallelOfAPipeline(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.MaxParallel = 3
	b.modules(`
- name: Count
  params: {i: Int}
  result: Int
  shell: |
    mkdir $EV/in-$INPUT_I $EV/seen-$INPUT_I; until [ $(ls -d $EV/seen-* | wc -l) -ge 3 ]; do sleep 0.01; done
    ls -d $EV/in-* | wc -l >> $EV/log; sleep 0.03; rmdir $EV/in-$INPUT_I; echo $INPUT_I
`)
	r := b.pipeline("in ns: List<Int>\nout a = map(ns, (i) => Count(i))\nout b = map(ns, (i) => Count(i + 100))\n", map[string]any{"ns": []any{1, 2, 3, 4, 5, 6}})
	r.status(event.Succeeded)
	for line := range strings.Lines(r.file("log")) { // the first three have waited for each other
		if n := strings.TrimSpace(line); len(n) != 1 || n > "3" {
			t.Errorf("%s at once, want 3", n)
		}
	}
}

// TestWaitsOfAPipelineHoldNoSlot: while one call waits because a server asked for it, other
// calls are made.
func TestWaitsOfAPipelineHoldNoSlot(t *testing.T) {
	t.Parallel()
	v := &virtual{took: time.Second}
	inTime(t, v, func(b *bench) {
		b.opt.HTTP.Transport = answers(func(q *http.Request) (*http.Response, error) {
			res, err := v.answer(q)
			if q.URL.Path == "/first" && v.count["first"] == 1 {
				res.StatusCode = http.StatusServiceUnavailable
				res.Header.Set("Retry-After", "60")
			}
			return res, err
		})
		b.opt.MaxParallel = 1
		b.modules(getModule)
		r := b.pipeline(`
out a = Get("first") with retry: 1, priority: critical
out rest = map(["b", "c", "d"], (p) => Get(p))
`, nil)
		r.status(event.Succeeded)
		wantTimes(t, "all", v.times(""), []float64{0, 1, 2, 3, 61})
		wantTimes(t, "first", v.times("first"), []float64{0, 61})
	})
}
