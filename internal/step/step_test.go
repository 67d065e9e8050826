package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

// world is an executor on virtual ports; each life of a run has one.
type world struct {
	*step.Executor
	clock *virtual.Clock
	rec   *virtual.Recorder
	acts  *virtual.Actions
	env   *environ.Environment
	soft  context.CancelFunc // the first interrupt
}

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// newWorld makes an executor of a workflow text. The model answers attempts; a
// shell command "exit N" fails with N where it is nil.
func newWorld(t *testing.T, text string, at time.Time, model func(*step.Call) virtual.Answer) *world {
	t.Helper()
	f, problems := workflow.Parse("flow.yml", []byte(text), workflow.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	w := &world{clock: virtual.NewClock(at)}
	w.rec = &virtual.Recorder{Clock: w.clock}
	w.acts = &virtual.Actions{Clock: w.clock, Model: model}
	soft, cancel := context.WithCancel(context.Background())
	w.soft = cancel
	life, end := step.NewLifecycle(w.clock, soft)
	t.Cleanup(end)
	w.Executor = &step.Executor{Clock: w.clock, Recorder: w.rec, Actions: w.acts, Run: "R", File: f, Life: life}
	w.env = environ.New(environ.Options{File: f, Run: "R", Dir: "/work", Now: w.clock.Now, Warn: w.NoteOnce,
		Command: func(context.Context, environ.Command) (string, error) { return "", errors.New("no commands here") }})
	if err := w.env.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.Values = w.env
	return w
}

// run executes the steps of the file.
func (w *world) run(ctx context.Context, past map[string]journal.StepRecord) (err error) {
	w.clock.Run(func() {
		err = w.Sequence(ctx, &step.Place{Scope: w.env.Scope, Dir: "/work", Env: w.env.Base(), Past: past}, w.File.Steps)
	})
	return err
}

// of gives the facts of a type.
func (w *world) of(typ event.Type) (list []event.Event) {
	for _, e := range w.rec.Facts() {
		if e.Type == typ {
			list = append(list, e)
		}
	}
	return list
}

// folded is what a later life of the run knows.
func folded(t *testing.T, facts []event.Event) map[string]journal.StepRecord {
	t.Helper()
	var st journal.State
	for _, e := range append([]event.Event{{Type: event.RunStarted}}, append(slices.Clone(facts), event.Event{Type: event.RunResumed})...) {
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return st.Steps
}

func exit(code int, stderr string) virtual.Answer {
	return virtual.Answer{Result: action.Result{ExitCode: code, Stderr: stderr},
		Failure: failure.From(&action.ExitError{Code: code, Stderr: stderr + "\n"})}
}

// TestInterruptWhileStarting: an attempt that fails while the run is ended at
// once is interrupted, whatever it fails of.
func TestInterruptWhileStarting(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld(t, "commands: [{shell: work, retry: {attempts: 3}, on_failure: {shell: repair}}]", start, func(*step.Call) virtual.Answer {
		cancel()
		return virtual.Answer{Failure: &failure.Failure{Class: "error", Message: "fork/exec /bin/sh: resource temporarily unavailable"}}
	})
	if err := w.run(ctx, nil); !errors.Is(err, step.ErrInterrupted) {
		t.Errorf("it ended with %v", err)
	}
	if n := len(w.of(event.AttemptFailed)) + len(w.of(event.StepFinished)); n != 0 {
		t.Errorf("%d facts say that something ended", n)
	}
}

// TestStopOfAHeldRun: a run that is stopped while it is held begins nothing of
// what waited for its turn.
func TestStopOfAHeldRun(t *testing.T) {
	var w *world
	w = newWorld(t, "commands: [{shell: one}, {shell: two, on_failure: {shell: repair}}]", start, func(*step.Call) virtual.Answer {
		w.Life.Hold()
		w.clock.Go(func() {
			_ = w.clock.Wait(context.Background(), time.Second, nil)
			w.Life.Halt(step.ErrInterrupted)
		})
		return virtual.Answer{}
	})
	if err := w.run(context.Background(), nil); !errors.Is(err, step.ErrInterrupted) {
		t.Errorf("it ended with %v", err)
	}
	if n := len(w.of(event.AttemptStarted)); n != 1 {
		t.Errorf("%d attempts were begun; want only the first", n)
	}
}

// TestPanicKeepsStack: a panic in an action fails its attempt, and the record
// has the stack.
func TestPanicKeepsStack(t *testing.T) {
	w := newWorld(t, "commands: [{shell: work, retry: {attempts: 2, initial_delay: 1s}}]", start, func(*step.Call) virtual.Answer { panic("boom") })
	err := w.run(context.Background(), nil)
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("it ended with %v", err)
	}
	failed := w.of(event.AttemptFailed)
	if len(failed) != 2 || failed[0].Class != "panic" {
		t.Fatalf("the attempts failed as %+v", failed)
	}
	var d struct{ Failure failure.Failure }
	if err := json.Unmarshal(failed[0].Data, &d); err != nil || !strings.Contains(d.Failure.Stack, "TestPanicKeepsStack") {
		t.Errorf("the stack is %q (%v)", d.Failure.Stack, err)
	}
}

// TestHandlersSeeFailureAfterResume interrupts a step between its failure and
// what reads it: the next life sees what this one would have seen.
func TestHandlersSeeFailureAfterResume(t *testing.T) {
	for name, text := range map[string]string{
		"a repair":     "commands: [{shell: work, id: w, on_failure: {max_attempts: 2, shell: 'repair ${error.exit_code} ${error.stderr} ${error.class}'}}]",
		"on_exit_code": "commands: [{shell: work, id: w, retry: {attempts: 1}, on_exit_code: {75: {shell: 'repair 75 ${error.stderr} ${error.class}'}}}]",
		"a fallback":   "commands: [{shell: work, id: w, retry: {attempts: 1, on_failure: {fallback: {command: 'repair ${error.exit_code} ${error.stderr} ${error.class}'}}}}]",
	} {
		t.Run(name, func(t *testing.T) {
			var lives [2]string
			ctx, cancel := context.WithCancel(context.Background())
			life, repairs := 0, 0
			model := func(c *step.Call) virtual.Answer {
				if strings.HasPrefix(c.Action.(*workflow.Shell).Text.String(), "repair") {
					repairs++
					got, err := c.Action.(*workflow.Shell).Text.Expand(c.Scope)
					if err != nil {
						t.Error(err)
					}
					lives[life] = got
					if life == 0 {
						cancel()
					}
					return virtual.Answer{Takes: time.Second}
				}
				if repairs > 1 {
					return virtual.Answer{}
				}
				return exit(75, "come back later")
			}
			w := newWorld(t, text, start, model)
			if err := w.run(ctx, nil); !errors.Is(err, step.ErrInterrupted) {
				t.Fatalf("the first life ended with %v", err)
			}
			life = 1
			again := newWorld(t, text, start.Add(time.Hour), model)
			if err := again.run(context.Background(), folded(t, w.rec.Facts())); err != nil {
				t.Errorf("the second life ended with %v", err)
			}
			if want := "repair 75 come back later exit"; lives[0] != want || lives[1] != want {
				t.Errorf("the handler read %q, and after the resume %q", lives[0], lives[1])
			}
			if n := len(again.of(event.AttemptFailed)); n != 0 {
				t.Errorf("the step failed again %d times before its handler ran", n)
			}
		})
	}
}

// A wait that a later life of the run continues counts as a wait there as well: what of it
// was left is not in the duration of the step.
func TestContinuedWaitIsAWait(t *testing.T) {
	made := 0
	model := func(*step.Call) virtual.Answer {
		if made++; made < 3 {
			return virtual.Answer{Takes: time.Second, Result: action.Result{ExitCode: 1}, Failure: failure.From(&action.ExitError{Code: 1})}
		}
		return virtual.Answer{Takes: time.Second}
	}
	const text = "commands: [{shell: work, retry: {attempts: 3, initial_delay: 10s, backoff: fixed}}]"
	w := newWorld(t, text, start, model)
	ctx, cancel := context.WithCancel(context.Background())
	w.Recorder = ending{w.rec, cancel}
	if err := w.run(ctx, nil); !errors.Is(err, step.ErrInterrupted) {
		t.Fatalf("the first life ended with %v", err)
	}
	again := newWorld(t, text, start.Add(4*time.Second), model)
	if err := again.run(context.Background(), folded(t, w.rec.Facts())); err != nil {
		t.Fatal(err)
	}
	end := again.of(event.StepFinished)[0]
	if !strings.Contains(string(end.Data), `"waited_ms":17000`) || end.DurationMS != 2000 {
		t.Errorf("it took %d ms, %s; want 2 s of work and 7 s + 10 s of waits", end.DurationMS, end.Data)
	}
}

// ending ends the run as soon as it hears of a wait.
type ending struct {
	step.Recorder
	end context.CancelFunc
}

func (r ending) Record(facts ...event.Event) error {
	err := r.Recorder.Record(facts...)
	if slices.ContainsFunc(facts, func(e event.Event) bool { return e.Type == event.RetryScheduled }) {
		r.end()
	}
	return err
}

// TestFailureAndWaitAreOneRecord: no crash can come between them.
func TestFailureAndWaitAreOneRecord(t *testing.T) {
	w := newWorld(t, "commands: [{shell: work, retry: {attempts: 3, initial_delay: 2s, backoff: fixed}}]", start, func(*step.Call) virtual.Answer { return exit(1, "no") })
	var records []string
	w.Recorder = recordLog{w.rec, &records}
	if err := w.run(context.Background(), nil); err == nil {
		t.Error("it succeeded")
	}
	want := []string{"step_started", "attempt_started", "attempt_failed retry_scheduled", "attempt_started", "attempt_failed retry_scheduled", "attempt_started", "attempt_failed", "step_finished"}
	if !slices.Equal(records, want) {
		t.Errorf("the records are %q", records)
	}
	if got := w.clock.Now().Sub(start); got != 4*time.Second {
		t.Errorf("it took %s", got)
	}
}

// TestRepairBeginsBehindARecord: what a handler mends may look well to a later life that knows
// nothing of the failure, so the failure is on the disk before the handler runs.
func TestRepairBeginsBehindARecord(t *testing.T) {
	for name, handler := range map[string]string{"on_failure": "on_failure: {shell: mend, max_attempts: 2}", "on_exit_code": "on_exit_code: {1: [{shell: mend}]}"} {
		t.Run(name, func(t *testing.T) {
			var log []string
			w := newWorld(t, "commands: [{shell: check, "+handler+"}]", start, func(c *step.Call) virtual.Answer {
				text := c.Action.(*workflow.Shell).Text.String()
				if log = append(log, text); text == "check" {
					return exit(1, "no")
				}
				return virtual.Answer{}
			})
			w.Recorder = recordLog{w.rec, &log}
			_ = w.run(context.Background(), nil) // the check never gets well
			failed, synced, mends := slices.Index(log, "attempt_failed"), slices.Index(log, "sync"), slices.Index(log, "mend")
			if failed < 0 || synced < failed || mends < synced {
				t.Errorf("the order is %q", log)
			}
		})
	}
}

type recordLog struct {
	step.Recorder
	log *[]string
}

func (r recordLog) Sync(ctx context.Context) error {
	*r.log = append(*r.log, "sync")
	return r.Recorder.Sync(ctx)
}

func (r recordLog) Record(facts ...event.Event) error {
	var names []string
	for _, e := range facts {
		names = append(names, string(e.Type))
	}
	*r.log = append(*r.log, strings.Join(names, " "))
	return r.Recorder.Record(facts...)
}

// TestNothingHappensUnrecorded: where facts are not kept, no step follows.
func TestNothingHappensUnrecorded(t *testing.T) {
	ran := 0
	w := newWorld(t, "commands: [{shell: work}, {shell: work}, {shell: work}]", start, func(*step.Call) virtual.Answer { ran++; return virtual.Answer{} })
	full := errors.New("no space left on device")
	w.Recorder = fullAfter{w.rec, 4, full}
	if err := w.run(context.Background(), nil); !errors.Is(err, full) {
		t.Errorf("it ended with %v", err)
	}
	if ran != 1 {
		t.Errorf("%d steps ran, want the one whose start could be kept", ran)
	}
}

// fullAfter keeps so many facts.
type fullAfter struct {
	*virtual.Recorder
	n   int
	err error
}

func (r fullAfter) Record(facts ...event.Event) error {
	if len(r.Facts()) >= r.n {
		return r.err
	}
	return r.Recorder.Record(facts...)
}

// TestForeachCountsRounds: a round that never began has not succeeded.
func TestForeachCountsRounds(t *testing.T) {
	got := ""
	w := newWorld(t, "commands: [{foreach: [a, b, c, d], do: [{shell: 'work ${item}'}], on_failure: {shell: 'told ${foreach.succeeded} ${foreach.failed} ${foreach.skipped} ${foreach.total}'}}]", start,
		func(c *step.Call) virtual.Answer {
			text, err := c.Action.(*workflow.Shell).Text.Expand(c.Scope)
			if err != nil {
				t.Error(err)
			}
			if text == "work b" {
				return exit(1, "no")
			}
			if strings.HasPrefix(text, "told") {
				got = text
			}
			return virtual.Answer{}
		})
	if err := w.run(context.Background(), nil); err != nil {
		t.Error(err)
	}
	if got != "told 1 1 2 4" {
		t.Errorf("the handler read %q", got)
	}
}

// TestTimeoutMayBeVariable: a span that data gives bounds each attempt; one that
// is no span fails the step and is not left out.
func TestTimeoutMayBeVariable(t *testing.T) {
	for limit, class := range map[string]string{"3s": "timeout", "90": "", "soon": "input"} {
		w := newWorld(t, "commands: [{foreach: ['"+limit+"'], do: [{shell: work, timeout: '${item}'}]}]", start,
			func(*step.Call) virtual.Answer { return virtual.Answer{Takes: time.Minute} })
		err := w.run(context.Background(), nil)
		if got := failure.From(err); class == "" && err != nil || class != "" && (got == nil || got.Class != class) {
			t.Errorf("timeout %s: %v", limit, err)
		}
	}
}

// TestOutcomesAreCountedApart: each step once, by how it ended.
func TestOutcomesAreCountedApart(t *testing.T) {
	w := newWorld(t, `
commands:
- shell: fine
- {shell: exit 1, retry: {attempts: 1, on_failure: {fallback: {command: fine}}}}
- {shell: exit 1, on_failure: {shell: fine}}
- {shell: exit 1, continue_on_error: true}
- {shell: fine, when: "1 > 2"}
- {validate: {shell: exit 1, on_incomplete: {shell: fine, max_attempts: 1, fail_workflow: false}}}
`, start, func(c *step.Call) virtual.Answer {
		if c.Action.(*workflow.Shell).Text.String() == "exit 1" {
			return exit(1, "no")
		}
		return virtual.Answer{}
	})
	if err := w.run(context.Background(), nil); err != nil {
		t.Error(err)
	}
	// The handler's step, the repair's step and the checks are parts of the six.
	want := event.Counts{Succeeded: 1, Skipped: 1, KindCounts: event.KindCounts{Degraded: 1, Recovered: 1, Tolerated: 1, Incomplete: 1}}
	if got := w.Tally.Counts(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// TestLateAgentDoesNotEndPause: an agent that began before a limit says nothing
// about whether the pause helped.
func TestLateAgentDoesNotEndPause(t *testing.T) {
	limited := virtual.Answer{Failure: &failure.Failure{Class: "rate_limit", Message: "later", RateLimited: true}}
	asked := 0
	w := newWorld(t, "commands: [{foreach: [slow, first, other], parallel: 3, do: [{claude: '/ask ${item}'}]}]", start, func(c *step.Call) virtual.Answer {
		asked++
		if v, _ := c.Scope.Lookup("item"); v.V == "slow" {
			return virtual.Answer{Takes: 40 * time.Second} // it ends in the second pause
		}
		if asked <= 4 {
			return limited
		}
		return virtual.Answer{}
	})
	if err := w.run(context.Background(), nil); err != nil {
		t.Error(err)
	}
	if got := w.clock.Now().Sub(start); got != 210*time.Second { // 30 s, 1 min, and 2 min after the late answer
		t.Errorf("it took %s, want 3m30s", got)
	}
}

// BenchmarkStep is a step whose first attempt fails, on virtual ports.
func BenchmarkStep(b *testing.B) {
	f, _ := workflow.Parse("flow.yml", []byte("commands: [{shell: work, retry: {attempts: 2}}]"), workflow.Options{})
	clock := virtual.NewClock(start)
	no := exit(1, "no")
	x := &step.Executor{Clock: clock, Recorder: &virtual.Recorder{Clock: clock, Forget: true}, File: f,
		Actions: &virtual.Actions{Clock: clock, Model: func(c *step.Call) virtual.Answer {
			if c.Number == 1 {
				return no
			}
			return virtual.Answer{Takes: time.Millisecond}
		}}}
	life, end := step.NewLifecycle(clock, context.Background())
	defer end()
	x.Life = life
	env := environ.New(environ.Options{File: f, Now: clock.Now, Warn: x.NoteOnce})
	if err := env.Load(context.Background()); err != nil {
		b.Fatal(err)
	}
	x.Values = env
	p := step.Place{Scope: env.Scope, Env: env.Base()}
	b.ReportAllocs()
	clock.Run(func() {
		for b.Loop() {
			if err := x.Sequence(context.Background(), &p, f.Steps); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "attempts/s")
}

// TestEarlierAgentLeavesPause: an agent that was asked before another one met a
// rate limit says nothing about it: its answer does not end the pause, of which a
// resume would then know nothing.
func TestEarlierAgentLeavesPause(t *testing.T) {
	met := false
	w := newWorld(t, "commands: [{foreach: [fast, slow], parallel: 2, do: [{claude: 'do ${item}'}]}]", start, func(c *step.Call) virtual.Answer {
		if slow, _ := c.Scope.Get("item").(string); slow == "slow" {
			return virtual.Answer{Takes: 5 * time.Second}
		}
		if met {
			return virtual.Answer{Takes: time.Second}
		}
		met = true
		return virtual.Answer{Takes: time.Second, Failure: &failure.Failure{Class: "rate_limit", RateLimited: true, RetryAfter: time.Minute, Message: "later"}}
	})
	if err := w.run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range w.rec.Facts() {
		if e.Type == event.RunPaused || e.Type == event.PauseEnded {
			said = append(said, fmt.Sprint(e.Type, " ", e.Time.Sub(start)))
		}
	}
	if want := []string{"run_paused 1s", "pause_ended 1m2s"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

// eager ends all waits as soon as it hears of one.
type eager struct {
	step.Recorder
	life *step.Lifecycle
}

func (r eager) Record(facts ...event.Event) error {
	err := r.Recorder.Record(facts...)
	for _, e := range facts {
		if e.Type == event.RetryScheduled {
			r.life.RetryNow()
		}
	}
	return err
}

// TestRetryNowAtOnce: who hears of a wait ends it, also before it has begun.
func TestRetryNowAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "- shell: exit 1\n  retry: {attempts: 3, initial_delay: 1h, max_delay: 1h, backoff: fixed}\n", start, nil)
	w.Recorder = eager{w.rec, w.Life}
	if err := w.run(t.Context(), nil); err == nil {
		t.Error("the step did not fail")
	}
	if n, took := len(w.of(event.RetryScheduled)), w.clock.Now().Sub(start); n != 2 || took >= time.Hour {
		t.Errorf("%d waits, and %s", n, took)
	}
}

// TestDeadlineKeepsTheCause: an attempt that the deadline of the policy ends has failed of
// nothing itself, so the error of the step says what the attempt before failed of.
func TestDeadlineKeepsTheCause(t *testing.T) {
	for _, c := range []struct {
		fails int
		want  string
	}{
		{0, `step "work" failed (deadline): the deadline of 1m is over`},
		{2, `step "work" failed after 3 attempts (deadline): the deadline of 1m is over; the attempt before failed: exit status 75: no licence`},
	} {
		made := 0
		w := newWorld(t, "commands: [{shell: work, retry: {attempts: 9, backoff: fixed, deadline: 1m}}]", start, func(*step.Call) virtual.Answer {
			if made++; made <= c.fails {
				return exit(75, "no licence")
			}
			return virtual.Answer{Takes: time.Hour}
		})
		err := w.run(t.Context(), nil)
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%v; want %s", err, c.want)
		}
		last := w.of(event.AttemptFailed)[c.fails]
		if last.Class != "timeout" || last.Status != "deadline" || !strings.HasSuffix(c.want, last.Message) {
			t.Errorf("%s %s: %s", last.Status, last.Class, last.Message)
		}
	}
}
