package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// resume continues with the last run of the bench, without its Soft.
func (b *bench) resume(ctx context.Context) *ran {
	b.t.Helper()
	r, err := b.tryResume(ctx)
	if err != nil {
		b.t.Fatalf("the run could not go on: %v", err)
	}
	return r
}

func (b *bench) tryResume(ctx context.Context) (*ran, error) {
	b.t.Helper()
	store, err := journal.OpenStore(b.home)
	if err != nil {
		b.t.Fatal(err)
	}
	r := &ran{bench: b}
	var mu sync.Mutex
	opt := b.opt
	opt.Store, opt.Soft = store, nil
	opt.Sinks = append(opt.Sinks, event.SinkFunc(func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Type == event.Output {
			r.shown += e.Message
			return
		}
		r.events = append(r.events, e)
	}))
	r.sum, err = engine.Resume(ctx, "", opt)
	return r, err
}

// interrupt asks the next run of the bench to stop after a time.
func (b *bench) interrupt(after time.Duration) {
	soft, stop := context.WithCancel(context.Background())
	b.opt.Soft = soft
	time.AfterFunc(after, stop)
}

const retryFlow = `
commands:
  - http: "http://example.test/first"
    id: one
  - http: "http://example.test/second"
    retry: {@RETRY@}
  - http: "http://example.test/third?${one.output}"
    capture: three
  - shell: echo "${three}" > $EV/end
`

// TestAnInterruptedWaitGoesOn: if a wait of 2 s was interrupted after 1 s, the resume waits
// only for the rest, or not at all if the rest is over by then.
func TestAnInterruptedWaitGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pause time.Duration // between the end of the run and its resume
		want  []float64     // the attempts of the second step
	}{
		{0, []float64{0, 2, 4}},
		{400 * time.Millisecond, []float64{0, 2, 4}},
		{time.Minute, []float64{0, 61, 63}},
	} {
		t.Run(fmt.Sprint(c.pause), func(t *testing.T) {
			v := &virtual{fails: func(path string, n int, _ time.Duration) bool { return path == "second" && n < 3 }}
			inTime(t, v, func(b *bench) {
				b.interrupt(time.Second)
				r := b.run(strings.Replace(retryFlow, "@RETRY@", "attempts: 3, initial_delay: 2s, backoff: fixed", 1))
				r.status(event.Interrupted)
				if r.sum.ExitStatus() != 130 {
					t.Errorf("exit status %d, want 130", r.sum.ExitStatus())
				}
				time.Sleep(c.pause)
				r = b.resume(context.Background())
				r.status(event.Succeeded)
				wantTimes(t, "second", v.times("second"), c.want)
				if v.count["first"] != 1 || v.count["third"] != 1 {
					t.Errorf("requests: %v", v.count)
				}
				r.want("end", "ok third")
				if n := len(r.of(event.StepFinished)); n != 3 {
					t.Errorf("%d steps finished after the resume, want 3", n)
				}
			})
		})
	}
}

// TestRetriesAndBudgetGoOn: attempts and the sum of waits are counted over all lives of a
// run. A pause counts towards a deadline, and towards a budget that expires.
func TestRetriesAndBudgetGoOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, retry string
		pause       time.Duration
		attempts    int
		why         string
	}{
		{"attempts", "attempts: 4, initial_delay: 2s, backoff: fixed", 0, 4, "after 4 attempts"},
		{"budget", "attempts: 99, initial_delay: 2s, backoff: fixed, retry_budget: 7s", 0, 4, "budget"},
		{"pause", "attempts: 99, initial_delay: 2s, backoff: fixed, retry_budget: 7s", 4 * time.Second, 4, "budget"},
		{"a night", "attempts: 3, initial_delay: 2s, backoff: fixed, retry_budget: 7s", 9 * time.Hour, 3, "after 3 attempts"},
		{"budget after a pause", "attempts: 99, initial_delay: 2s, backoff: fixed, retry_budget: 7s", time.Hour, 4, "budget"},
		{"expiry", "attempts: 99, initial_delay: 2s, backoff: fixed, retry_budget: 7s, retry_budget_expires: true", 4 * time.Second, 2, "expired"},
		{"deadline", "attempts: 99, initial_delay: 2s, backoff: fixed, deadline: 6s", 4 * time.Second, 2, "deadline"},
		{"no expiry", "attempts: 4, initial_delay: 2s, backoff: fixed", time.Hour, 4, "after 4 attempts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &virtual{fails: broken("second")}
			inTime(t, v, func(b *bench) {
				b.interrupt(3 * time.Second) // in the second wait
				r := b.run(strings.Replace(retryFlow, "@RETRY@", c.retry, 1))
				r.status(event.Interrupted)
				time.Sleep(c.pause)
				r = b.resume(context.Background())
				r.status(event.Failed)
				if v.count["second"] != c.attempts {
					t.Errorf("%d attempts, want %d: %v", v.count["second"], c.attempts, v.times("second"))
				}
				if !strings.Contains(r.sum.Message, c.why) || !strings.Contains(r.sum.Message, "500") {
					t.Errorf("message: %s", r.sum.Message)
				}
				if v.count["third"] != 0 {
					t.Error("the next step ran")
				}
			})
		})
	}
}

// TestDeadlineCountsFromTheFirstAttempt: a deadline counts from the first attempt, also if
// that attempt was interrupted before it could fail.
func TestDeadlineCountsFromTheFirstAttempt(t *testing.T) {
	t.Parallel()
	for name, flow := range map[string]string{
		"step": strings.Replace(retryFlow, "@RETRY@", "attempts: 99, initial_delay: 2s, backoff: fixed, deadline: 30m", 1),
		"item": `
mode: mapreduce
map:
  input: [1]
  max_parallel: 1
  retry_config: {attempts: 99, initial_delay: 2s, backoff: fixed, deadline: 30m}
  agent_template:
    - http: "http://example.test/second"
`,
	} {
		t.Run(name, func(t *testing.T) {
			v := &virtual{slow: "second", fails: broken("second")} // it takes an hour
			inTime(t, v, func(b *bench) {
				b.interrupt(3 * time.Second)
				b.run(flow).status(event.Interrupted)
				v.slow = ""
				time.Sleep(29 * time.Minute)
				start := time.Now()
				r := b.resume(context.Background())
				if took := time.Since(start); took > time.Minute || v.count["second"] > 40 {
					t.Errorf("it went on for %v and %d attempts, where a minute of its deadline was left: %s", took, v.count["second"], r.sum.Message)
				}
			})
		})
	}
}

// TestCommandBreakerGoesOn: an open breaker is open after a resume, and a closed one keeps
// its counts.
func TestCommandBreakerGoesOn(t *testing.T) {
	t.Parallel()
	flow := `
commands:
  - foreach: [1, 2, 3, 4, 5, 6]
    continue_on_error: true
    do:
      - http: "http://example.test/x"
        retry: {attempts: 1, circuit_breaker: {failure_threshold: 3, timeout: 30s, success_threshold: 1}}
      - http: "http://example.test/after"
`
	v := &virtual{took: time.Second, fails: broken("x")}
	inTime(t, v, func(b *bench) {
		b.interrupt(1500 * time.Millisecond) // two have failed when the run ends
		r := b.run(flow)
		r.status(event.Interrupted)
		b.resume(context.Background())
		if v.count["x"] != 3 {
			t.Errorf("%d requests, want 3: the breaker opens at the third failure; %v", v.count["x"], v.visits)
		}
	})
}

// TestChangedFile: a resume refuses a file that has changed, and shows the change. With
// --force it continues with the changed file.
func TestChangedFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	flow := "commands:\n  - shell: echo one >> $EV/log\n  - shell: exit 1\n"
	b.write("flow.yml", flow)
	p := b.start("bide", "run", "-q", "flow.yml")
	if status := p.wait(t); status != 1 {
		t.Fatalf("exit status %d, want 1: %s", status, p.out.String())
	}
	b.write("flow.yml", strings.Replace(flow, "exit 1", "echo two >> $EV/log", 1))
	p = b.start("bide", "resume", "-q")
	if status := p.wait(t); status != 2 {
		t.Errorf("exit status %d, want 2", status)
	}
	for _, want := range []string{"-   - shell: exit 1", "+   - shell: echo two", "--force"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("%q is missing in: %s", want, p.out.String())
		}
	}
	p = b.start("bide", "resume", "-q", "--force")
	if status := p.wait(t); status != 0 {
		t.Errorf("exit status %d, want 0: %s", status, p.out.String())
	}
	if got := strings.Join(b.lines(), " "); got != "one two" {
		t.Errorf("log: %s", got)
	}
	p = b.start("bide", "resume")
	if status := p.wait(t); status != 0 || !strings.Contains(p.out.String(), "nothing to resume") {
		t.Errorf("a finished run: exit status %d: %s", status, p.out.String())
	}
}

// until waits for a line in $EV/log.
func (b *bench) until(line string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		for _, l := range b.lines() {
			if l == line {
				return
			}
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the line %q does not come; there are %q", line, b.lines())
		}
	}
}

// TestSecondProcessIsRefused: the error names the process that has the run.
func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("flow.yml", "commands:\n  - shell: echo begun >> $EV/log; sleep 60\n")
	first := b.start("bide", "run", "-q", "flow.yml")
	b.until("begun")
	second := b.start("bide", "resume", "-q")
	if status := second.wait(t); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	if want := fmt.Sprintf("process %d", first.Process.Pid); !strings.Contains(second.out.String(), want) {
		t.Errorf("%q is missing in: %s", want, second.out.String())
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	first.wait(t)
}

// TestSignals: the first signal lets running steps end and starts no others. The second one
// stops immediately. After both, the run can be resumed, and nothing is left running.
func TestSignals(t *testing.T) {
	t.Parallel()
	const flow = `commands:
  - shell: echo begun >> $EV/log; i=0; while [ ! -e $EV/go ] && [ $i -lt 600 ]; do sleep 0.05; i=$((i+1)); done; echo ended >> $EV/log
  - shell: echo next >> $EV/log
`
	for _, c := range []struct {
		name    string
		signals []syscall.Signal
		status  int
		log     string
	}{
		{"soft", []syscall.Signal{syscall.SIGINT}, 130, "begun ended"},
		{"hard", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 130, "begun"},
		{"terminated", []syscall.Signal{syscall.SIGTERM}, 143, "begun ended"},
		{"terminated hard", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, 143, "begun"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.write("flow.yml", flow)
			p := b.start("bide", "run", "-q", "flow.yml")
			b.until("begun")
			for i, s := range c.signals {
				if i > 0 {
					p.waitFor(t, "interrupted")
				}
				if err := p.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			if len(c.signals) == 1 {
				p.waitFor(t, "interrupted")
				b.touch("go")
			}
			if status := p.wait(t); status != c.status {
				t.Errorf("exit status %d, want %d: %s", status, c.status, p.text())
			}
			if !strings.Contains(p.text(), "bide resume") {
				t.Errorf("the command to go on with is missing: %s", p.text())
			}
			if got := strings.Join(b.lines(), " "); got != c.log {
				t.Errorf("log: %s, want %s", got, c.log)
			}
			b.quiet()
			b.touch("go")
			p = b.start("bide", "resume", "-q")
			if status := p.wait(t); status != 0 {
				t.Errorf("resume: exit status %d: %s", status, p.text())
			}
			want := "begun ended next"
			if c.log == "begun" {
				want = "begun begun ended next" // it was in flight
			}
			if got := strings.Join(b.lines(), " "); got != want {
				t.Errorf("log: %s, want %s", got, want)
			}
		})
	}
}

func (b *bench) touch(name string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.ev, name), nil, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// TestExitStatuses of the real binary.
func TestExitStatuses(t *testing.T) {
	t.Parallel()
	const items = "mode: mapreduce\nmap:\n  input: [1, 2]\n  agent_template:\n    - shell: test ${item} = 1\n"
	for _, c := range []struct {
		flow string
		args []string
		want int
	}{
		{"commands:\n  - shell: 'true'\n", nil, 0},
		{"commands:\n  - shell: 'false'\n", nil, 1},
		{"commands:\n  - shell: 'true'\n    retry: {attempts: 0}\n", nil, 2},
		{items, nil, 3},
		{items, []string{"--allow-failed-items"}, 0},
		{"max_failures: 1\n" + items, nil, 1},
		{"on_item_failure: skip\n" + items, nil, 3},
		{"commands:\n  - shell: 'true'\n", []string{"--no-such-flag"}, 2},
	} {
		b := newBench(t)
		b.write("flow.yml", c.flow)
		p := b.start("bide", append([]string{"run", "-q", "flow.yml"}, c.args...)...)
		if got := p.wait(t); got != c.want {
			t.Errorf("%v of\n%s: exit status %d, want %d: %s", c.args, c.flow, got, c.want, p.out.String())
		}
	}
}

// TestAnItemThatKillsBide: the item becomes a dead letter at the fifth time, and the others
// are completed.
func TestAnItemThatKillsBide(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("flow.yml", `
mode: mapreduce
durability: strict # each start is on record before its process can do harm
map:
  input: [a, killer, c]
  max_parallel: 1
  agent_template:
    - shell: |
        echo "${item} $BIDE_ATTEMPT ${BIDE_RECOVERED:-0}" >> $EV/log
        if [ ${item} = killer ]; then kill -9 $PPID; sleep 60; fi
reduce:
  - shell: echo ${map.successful} ${map.failed} > $EV/sum
`)
	p := b.start("bide", "run", "-q", "flow.yml")
	status := p.wait(t)
	lives := 1
	for status == -1 && lives < 20 {
		b.quiet()
		p = b.start("bide", "resume", "-q")
		status = p.wait(t)
		lives++
	}
	if status != 3 || lives != 6 {
		t.Errorf("exit status %d in life %d, want 3 in life 6: %s", status, lives, p.out.String())
	}
	if got, want := strings.Join(b.lines(), ", "), "a 1 0, killer 1 0, killer 1 1, killer 1 2, killer 1 3, killer 1 4, c 1 0"; got != want {
		t.Errorf("log: %s\nwant %s", got, want)
	}
	letters := b.letters()
	if len(letters) != 1 || letters[0].ID != "1" || !strings.Contains(letters[0].Message, "5 times") {
		t.Errorf("dead letters: %+v", letters)
	}
}

// TestStandardWorkflowKilledAtRandom: each recorded step runs once, and variables are
// restored.
func TestStandardWorkflowKilledAtRandom(t *testing.T) {
	t.Parallel()
	const flow = `
commands:
  - shell: echo s1 >> $EV/log; echo one
    id: first
  - foreach: [a, b, c]
    do:
      - shell: echo s2-${item} >> $EV/log; sleep 0.01
  - shell: echo s3 >> $EV/log; test $(grep -c s3 $EV/log) -ge 3
    retry: {attempts: 60, initial_delay: 20ms, backoff: fixed}
  - shell: echo '{"a":[1,2]}'
    capture: data
    capture_format: json
  - shell: echo "s5 ${first.output} ${data.a[1]}" >> $EV/log
  - shell: echo s6 >> $EV/log; exit 4
    on_failure:
      - shell: echo s7 >> $EV/log
  - shell: echo "s8 ${first.output} ${data.a[0]}" >> $EV/log
`
	paths := map[string]string{"commands[0]": "s1", "commands[1].do[0]@0": "s2-a", "commands[1].do[0]@1": "s2-b", "commands[1].do[0]@2": "s2-c",
		"commands[2]": "s3", "commands[4]": "s5", "commands[5]": "s6", "commands[6]": "s8"}
	var mu sync.Mutex
	seen := map[string]bool{}
	killing(t, 10, 6, func(t *testing.T, _ int, rnd *rand.Rand, kills *int) {
		b := newBench(t)
		b.write("flow.yml", flow)
		args := []string{"run", "-q", "flow.yml"}
		for life := 0; ; life++ {
			before := len(b.lines())
			events, state := b.recordedEvents()
			done := map[string]bool{}
			mu.Lock()
			for _, e := range events {
				if e.Type == event.StepFinished && paths[e.Step] != "" && e.Status != event.Failed {
					done[paths[e.Step]] = true
					seen[e.Step] = true
				}
			}
			mu.Unlock()
			if state.Status == event.Succeeded {
				break
			}
			after := time.Duration(-1)
			if life < 4 {
				after = 20*time.Millisecond + time.Duration(rnd.Int64N(int64(170*time.Millisecond)))
			}
			p := b.start("bide", args...)
			status := p.crash(t, after)
			b.quiet()
			for _, line := range b.lines()[before:] {
				word, _, _ := strings.Cut(line, " ")
				if done[word] {
					b.blame(&toll.twice, "%s ran again after its end was recorded", line)
				}
			}
			switch {
			case status > 0:
				b.blame(&toll.status, "exit status %d: %s", status, p.out.String())
			case status < 0:
				*kills++
			}
			if events, _ := b.recordedEvents(); events != nil {
				args = []string{"resume", "-q"}
			}
		}
		lines := b.lines()
		if last := lines[len(lines)-1]; last != "s8 one 1" {
			b.blame(&toll.lost, "the last line is %q of %q", last, lines)
		}
	})
	for path := range paths {
		if !seen[path] {
			t.Errorf("no step %s is on record: %v", path, seen)
		}
	}
}

// TestResumeOfAFailedStepTriesItAgain: what the steps before it set is restored.
func TestResumeOfAFailedStepTriesItAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(`
commands:
  - shell: echo a >> $EV/log; echo word
    capture: w
  - shell: test -e $EV/mended
  - shell: echo ${w} >> $EV/log
`)
	r.status(event.Failed)
	b.touch("mended")
	r = b.resume(context.Background())
	r.status(event.Succeeded)
	r.want("log", "a\nword")
	_, err := b.tryResume(context.Background())
	var over *engine.FinishedError
	if !errors.As(err, &over) {
		t.Errorf("resume of a finished run: %v", err)
	}
}

// TestNotMadeDurable: where what a step did cannot be made durable the run fails, and says so.
// Nothing has ended by it that is not on the disk: one resume, and each commit is there once.
func TestNotMadeDurable(t *testing.T) {
	t.Parallel()
	const marks = `"$(git rev-parse --path-format=absolute --git-common-dir)/bide-steps"`
	const breaks = `; test -e $EV/mended || { mv ` + marks + ` $EV/marks; touch ` + marks + `; }`
	for name, text := range map[string]string{
		"step":    "  - shell: echo a > a; git add a; git commit -qm a" + breaks + "\n  - shell: echo b > b; git add b; git commit -qm b\n",
		"foreach": "  - foreach: [a, b]\n    do:\n      - shell: echo ${item} > ${item}; git add ${item}; git commit -qm ${item}" + breaks + "\n",
		"goes on": "  - foreach:\n      foreach: [a, b]\n      continue_on_error: true\n      do:\n        - shell: echo ${item} > ${item}; git add ${item}; git commit -qm ${item}" + breaks + "\n",
		"success": "  - shell: 'true'\n    continue_on_error: true\n    on_success: {shell: '" + "echo a > a; git add a; git commit -qm a" + breaks + "'}\n  - shell: echo b > b; git add b; git commit -qm b\n",
		"handler": "  - shell: test -e a\n    on_failure:\n      shell: echo a > a; git add a; git commit -qm a" + breaks + "\n      max_attempts: 3\n  - shell: echo b > b; git add b; git commit -qm b\n",
		"retried": "  - shell: echo a > a; git add a; git commit -qm a" + breaks + "\n    retry: {attempts: 5, initial_delay: 1ms}\n    on_failure: {shell: touch $EV/handled}\n  - shell: echo b > b; git add b; git commit -qm b\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.git()
			b.opt.Yes = true
			r := b.run("isolation: worktree\ncommands:\n" + text)
			r.status(event.Failed)
			if !strings.Contains(r.sum.Message, "cannot be made durable") {
				t.Errorf("the run says %q", r.sum.Message)
			}
			if err := sh(b.dir, "rm "+marks+" && mv "+b.ev+"/marks "+marks); err != nil {
				t.Fatal(err)
			}
			b.touch("mended")
			b.resume(context.Background()).status(event.Succeeded)
			if got := b.output("git log --no-merges --topo-order --reverse --format=%s main | tail -n 2 | xargs"); got != "a b" {
				t.Errorf("the commits are %q", got)
			}
			if has := b.contents("main"); has["a"] != "a\n" || has["b"] != "b\n" {
				t.Errorf("main has %q", has)
			}
			if _, err := os.Stat(filepath.Join(b.ev, "handled")); err == nil {
				t.Error("the handler of the step ran")
			}
		})
	}
}

// TestACommitOfAFailedStepIsTakenBack: a step that failed when it had committed, as one does
// whose git was killed at its very end, finds its changes uncommitted when a resume runs it
// again, in each part of a run. What somebody has committed since stays as it is.
func TestACommitOfAFailedStepIsTakenBack(t *testing.T) {
	t.Parallel()
	const fails = "echo work >> work.txt; git add -A; git commit -qm work || { echo twice >> $EV/twice; exit 1; }; echo more > more.txt; test -e $EV/mended"
	for name, text := range map[string]string{
		"commands": "isolation: worktree\ncommands:\n  - shell: echo a > a.txt; git add -A; git commit -qm a\n  - shell: " + fails + "\n",
		"first":    "isolation: worktree\ncommands:\n  - shell: " + fails + "\n",
		"setup":    "mode: mapreduce\nisolation: worktree\nsetup:\n  - shell: " + fails + "\nmap:\n  input: [1]\n  agent_template:\n    - shell: echo ${item} > item.txt\n",
		"reduce":   "mode: mapreduce\nisolation: worktree\nmap:\n  input: [1]\n  agent_template:\n    - shell: echo ${item} > item.txt\nreduce:\n  - shell: " + fails + "\n",
	} {
		for _, by := range []string{"", "somebody"} {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.git()
				b.opt.Yes = true
				r := b.run(text)
				r.status(event.Failed)
				commits := "1"
				if by != "" {
					commits = "2"
					trees := strings.Split(b.output("git worktree list --porcelain | sed -n 's/^worktree //p'"), "\n")
					if err := sh(trees[len(trees)-1], "rm -f more.txt; echo mine > mine.txt; git add -A; git commit -qm mine"); err != nil {
						t.Fatal(err)
					}
				}
				b.touch("mended")
				r = b.resume(context.Background())
				r.status(event.Succeeded)
				has := b.contents("main")
				if has["more.txt"] != "more\n" || has["mine.txt"] != map[string]string{"somebody": "mine\n"}[by] {
					t.Errorf("main has %q", has)
				}
				if n := b.output("git log --format=%s main | grep -c '^work$'"); n != commits {
					t.Errorf("%s commits of the step are on main", n)
				}
				if _, err := os.Stat(filepath.Join(b.ev, "twice")); err == nil {
					t.Error("the step had nothing to commit")
				}
			})
		}
	}
}

// TestStopRequest: a file in the run's directory stops the run like an interrupt, without a
// signal to a pid. The next process ignores it.
func TestStopRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	store, err := journal.OpenStore(b.home)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	ask := func(id string) {
		r, err := store.Read(id)
		if err != nil {
			t.Error(err)
			return
		}
		if err := errors.Join(r.RequestStop(journal.StopRequest{PID: os.Getpid(), Time: time.Now()}), r.Close()); err != nil {
			t.Error(err)
		}
	}
	b.opt.Sinks = []event.Sink{event.SinkFunc(func(e event.Event) {
		if e.Type == event.StepFinished {
			once.Do(func() { ask(e.Run) })
		}
	})}
	r := b.run(`
mode: mapreduce
map:
  input: seq 1 400
  max_parallel: 1
  agent_template:
    - shell: sleep 0.01; echo ${item} >> $EV/done
`)
	r.status(event.Interrupted)
	b.opt.Sinks = nil
	r = b.resume(context.Background())
	r.status(event.Succeeded)
	if got := len(strings.Split(strings.TrimSpace(r.file("done")), "\n")); got != 400 {
		t.Errorf("%d items ran", got)
	}
}

// TestNULInAnID: an id with a NUL is refused before any work is done.
func TestNULInAnID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("items.json", `[{"id": "a"}, {"id": "b\u0000c"}]`)
	r := b.run(`
mode: mapreduce
map:
  input: items.json
  agent_template:
    - shell: echo ${item.id} >> $EV/done
`)
	r.status(event.Failed)
	if !strings.Contains(r.sum.Message, `item 2`) || !strings.Contains(r.sum.Message, "NUL") {
		t.Errorf("message: %s", r.sum.Message)
	}
	if _, err := os.Stat(filepath.Join(b.ev, "done")); err == nil {
		t.Error("an item ran")
	}
}
