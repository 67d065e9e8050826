package engine_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

const tells = `echo "$BIDE_ATTEMPT $BIDE_LAST_EXIT ${BIDE_LAST_ERROR:-}" >> "@EV@/x"`

// tellsModule is a module that succeeds at its third attempt over all lives.
const (
	tellsModule = "- {name: Tells, result: String, shell: '" + tells + "; test $BIDE_ATTEMPT = 3 || exit 7'}"
	tellsCall   = "a = Tells() with retry: 1, delay: 300ms, jitter: none\nout a\n"
	calls       = "@DIR@/tells.cst:1:5: a = Tells: failed after 2 attempts: exit status 7"
)

// TestAttemptKnowsTheLast: a command can read the number of its attempt and how the attempt
// before it ended. This holds for retries of a step, rounds with a handler, the fallback,
// and new agents of an item.
func TestAttemptKnowsTheLast(t *testing.T) {
	const boom = "exit status %: `boom` $(touch @EV@/ran) \"q\""
	for name, c := range map[string]struct{ file, want string }{
		"a step": {`
commands:
  - shell: '` + tells + `; echo "\140boom\140 \$(touch @EV@/ran) \"q\"" >&2; exit $((BIDE_ATTEMPT + 2))'
    retry: {attempts: 3, initial_delay: 1ms}
    continue_on_error: true
`, "1  |2 3 E3|3 4 E4"},
		"rounds": {`
commands:
  - shell: '` + tells + `; test "$BIDE_ATTEMPT" = 3'
    on_failure: {max_attempts: 3, commands: [{shell: 'true'}]}
`, "1  |2 1 exit status 1|3 1 exit status 1"},
		"a fallback": {`
commands:
  - shell: 'exit 5'
    retry: {attempts: 2, initial_delay: 1ms, on_failure: {fallback: {command: '` + tells + `'}}}
`, "3 5 exit status 5"},
		"an item": {`
map:
  input: [1]
  agent_template:
    - shell: '` + tells + `; test "$BIDE_ATTEMPT" = 3 || exit 7'
error_policy: {retry_config: {attempts: 3, initial_delay: 1ms}}
`, "1  |2 7 exit status 7|3 7 exit status 7"},
		"a step of an item": {`
map:
  input: [1]
  agent_template:
    - shell: '` + tells + `; test "$BIDE_ATTEMPT" = 3 || exit 7'
      retry: {attempts: 2, initial_delay: 1ms}
error_policy: {retry_config: {attempts: 2, initial_delay: 1ms}}
`, "1  |2 7 exit status 7|2 7 exit status 7|3 7 exit status 7"},
		"a call of a pipeline": {`
commands:
  - pipeline: tells.cst
    retry: {attempts: 2, initial_delay: 1ms}
`, "1  |2 7 exit status 7|2 7 " + calls + "|3 7 exit status 7"},
		"in a text": {`
commands:
  - shell: 'echo ${BIDE_ATTEMPT} ${BIDE_LAST_EXIT:-none} >> @EV@/x; exit 4'
    retry: {attempts: 2, initial_delay: 1ms}
    continue_on_error: true
`, "1 none|2 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.modules(tellsModule)
			b.write("tells.cst", tellsCall)
			r := b.run(c.file)
			want := strings.ReplaceAll(c.want, "@DIR@", b.dir)
			for _, n := range []string{"3", "4"} {
				want = strings.ReplaceAll(want, "E"+n, strings.ReplaceAll(strings.ReplaceAll(boom, "%", n), "@EV@", r.ev))
			}
			if got := strings.ReplaceAll(r.file("x"), "\n", "|"); got != want {
				t.Errorf("the attempts saw\n%s\nwant\n%s%s", got, want, r.story())
			}
			r.want("ran", "-")
		})
	}
}

// TestResumedAttemptKnowsTheLast: the same holds if another process made the attempt
// before, for a step and for an item.
func TestResumedAttemptKnowsTheLast(t *testing.T) {
	for name, file := range map[string]string{
		"a step": "commands:\n  - shell: '" + tells + "; test $BIDE_ATTEMPT != 1 || exit 9'\n    retry: {attempts: 2, initial_delay: 300ms}\n",
		"an item": "map:\n  input: [1]\n  agent_template:\n    - shell: '" + tells + "; test $BIDE_ATTEMPT != 1 || exit 9'\n" +
			"error_policy: {retry_config: {attempts: 2, initial_delay: 300ms}}\n",
		"a call": "commands:\n  - pipeline: tells.cst\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.modules(strings.Replace(tellsModule, "test $BIDE_ATTEMPT = 3 || exit 7", "test $BIDE_ATTEMPT != 1 || exit 9", 1))
			b.write("tells.cst", tellsCall)
			soft, stop := context.WithCancel(context.Background())
			b.opt.Soft = soft
			b.opt.Sinks = []event.Sink{event.SinkFunc(func(e event.Event) {
				if e.Type == event.RetryScheduled || e.Type == event.ItemRetry {
					stop()
				}
			})}
			r := b.run(file)
			r.status(event.Interrupted)
			store, err := journal.OpenStore(b.home)
			if err != nil {
				t.Fatal(err)
			}
			opt := b.opt
			opt.Soft, opt.Sinks, opt.Store = nil, nil, store
			sum, err := engine.Resume(context.Background(), r.sum.Run, opt)
			if err != nil || sum.Status != event.Succeeded {
				t.Fatalf("the resume ended %+v: %v", sum, err)
			}
			r.want("x", "1  \n2 9 exit status 9")
		})
	}
}

// TestByAttempt: the settings that differ from one attempt to the next.
func TestByAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(`
commands:
  - shell: 'echo "$LEVEL $SAME" >> @EV@/x; test "$LEVEL" = high'
    env: {SAME: s, LEVEL: none}
    env_by_attempt: [{LEVEL: low}, {LEVEL: middle}, {LEVEL: high}]
    retry: {attempts: 3, initial_delay: 1ms}
  - shell: 'test "$BIDE_ATTEMPT" = 3 || sleep 300'
    timeout_by_attempt: [100ms, 200ms, 10m]
    retry: {attempts: 3, initial_delay: 1ms}
`)
	r.status(event.Succeeded)
	r.want("x", "low s\nmiddle s\nhigh s")
	failed := r.of(event.AttemptFailed)
	if len(failed) != 4 || !strings.Contains(failed[2].Message, "after 100ms") || !strings.Contains(failed[3].Message, "after 200ms") {
		t.Errorf("the failures are %v", failed)
	}
}

// TestStall: a command that prints nothing for too long is ended, with all that it started,
// and may be tried again. A command that keeps printing is not ended.
func TestStall(t *testing.T) {
	t.Parallel()
	thrice(t, func() string {
		r := newBench(t).run("commands: [{shell: 'for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done', stall_timeout: 3s}]")
		if r.sum.Status != event.Succeeded {
			return r.sum.Message
		}
		return ""
	})
	// Another attempt follows an attempt that is slow to begin.
	r := newBench(t).run(`
commands:
  - shell: 'echo begins; (sleep 30; echo late > @EV@/late) & test "$BIDE_ATTEMPT" != 1 || { echo $! > @EV@/pid; wait; }'
    stall_timeout: 1s
    retry: {attempts: 99, initial_delay: 1ms, backoff: fixed, retry_on: [timeout]}
  - claude: /sh sleep 300
    stall_timeout: 1s
    continue_on_error: true
  - {shell: exit 3, stall_timeout: 10m, continue_on_error: true}
`)
	r.status(event.Succeeded)
	failed := r.of(event.AttemptFailed)
	last := len(failed) - 1
	if last < 2 || failed[last].Message != "exit status 3" {
		t.Fatalf("the failures are %v", failed)
	}
	for _, e := range failed[:last] {
		if e.Class != "timeout" || !strings.Contains(e.Message, "printed nothing for 1s and was stopped") {
			t.Errorf("the failure is %s: %s", e.Class, e.Message)
		}
	}
	if b, err := os.ReadFile("/proc/" + r.file("pid") + "/cmdline"); err == nil && len(b) > 0 {
		t.Error("what the command has started is still there")
	}
}

// TestContinueSession: if the step says so, another attempt of an agent continues the
// session of the attempt before it.
func TestContinueSession(t *testing.T) {
	t.Parallel()
	for _, yes := range []bool{true, false} {
		b := newBench(t)
		more := ""
		if yes {
			more = "\n    continue_session: true"
		}
		r := b.run("commands:\n  - claude: '/sh tr \"\\\\0\" \" \" < /proc/$PPID/cmdline >> @EV@/argv.log; test $BIDE_ATTEMPT = 2'\n" +
			"    retry: {attempts: 2, initial_delay: 1ms}" + more + "\n")
		r.status(event.Succeeded)
		argv := r.file("argv.log")
		if got := strings.Contains(argv, "--resume session-1"); got != yes {
			t.Errorf("with continue_session %t the agents were started as\n%s", yes, argv)
		}
	}
}
