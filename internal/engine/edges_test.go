package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// TestComputedValuesEndWithRun: a command that computes a value ends with the run: a value
// of an env block before the first step or at each use, or a value in a text.
func TestComputedValuesEndWithRun(t *testing.T) {
	const slow = "touch @EV@/begun; sleep 30"
	for name, text := range map[string]string{
		"in a text":     "commands: [{shell: 'echo \"${cmd:" + slow + "}\"'}]",
		"an env block":  "env: {SLOW: {command: " + slow + "}}\ncommands: [{shell: 'true'}]",
		"at each use":   "env: {SLOW: {command: 'test -e @EV@/f && { " + slow + "; }; touch @EV@/f', cache: false}}\ncommands: [{shell: 'true'}]",
		"a step's env":  "commands: [{shell: 'true', env: {SLOW: {command: " + slow + "}}}]",
		"a deaf one":    "commands: [{shell: 'true', env: {SLOW: {command: \"trap '' TERM; " + slow + "\"}}}]",
		"a deaf step":   "commands: [{shell: \"trap '' TERM; " + slow + "\"}]",
		"deaf items":    "map: {input: [1, 2], agent_template: [{shell: \"trap '' TERM; " + slow + "\"}]}",
		"a deaf input":  "map: {input: \"trap '' TERM; " + slow + "; echo 1\", agent_template: [{shell: 'true'}]}",
		"a file's name": "commands: [{shell: 'true', output_file: '${cmd:" + slow + "}'}]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			thrice(t, func() string {
				b := newBench(t)
				ctx, cancel := context.WithCancel(context.Background())
				cut := make(chan time.Time, 1)
				go func() {
					b.appears("begun")
					cut <- time.Now()
					cancel()
				}()
				r, err := b.try(ctx, text)
				if err != nil {
					t.Fatal(err)
				}
				took := time.Since(<-cut)
				r.status(event.Interrupted)
				if took > 9*time.Second { // the grace of a command is 10 s
					return fmt.Sprintf("the run ended %s after it was interrupted", took)
				}
				return ""
			})
		})
	}
}

// TestItemsTimeout: a timeout that an item has, and the timeouts in timeout_config by the
// id and the name of a step.
func TestItemsTimeout(t *testing.T) {
	for name, text := range map[string]string{
		"of the item":  "map: {input: [{limit: 200ms}], agent_template: [{shell: sleep 300, timeout: '${item.limit}'}]}",
		"by id":        "map: {input: [1], timeout_config: {timeout_policy: per_command, command_timeouts: {slow: 200ms}}, agent_template: [{shell: sleep 300, id: slow}]}",
		"by name":      "map: {input: [1], timeout_config: {timeout_policy: per_command, command_timeouts: {Be slow: 200ms}}, agent_template: [{shell: sleep 300, name: Be slow}]}",
		"over a kind":  "map: {input: [1], timeout_config: {timeout_policy: per_command, command_timeouts: {shell: 1h, slow: 200ms}}, agent_template: [{shell: sleep 300, id: slow}]}",
		"of the agent": "parameters: {optional: [{name: limit, default: 200ms}]}\nmap: {input: [1], agent_timeout: '${limit}', agent_template: [{shell: sleep 300}]}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r := newBench(t).run("mode: mapreduce\n" + text)
			if took := time.Since(began); took > patience {
				t.Errorf("it took %s", took)
			}
			r.status(event.CompletedWithFailures)
			if end := r.of(event.ItemFinished); len(end) != 1 || end[0].Class != "timeout" {
				t.Errorf("the item ended as %+v", end)
			}
		})
	}
}

// TestChangedImport: an imported file is as much a part of a run as the workflow itself,
// however the workflow was named.
func TestChangedImport(t *testing.T) {
	for _, name := range []string{"flow.yml", "@DIR@/flow.yml"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			t.Chdir(b.dir)
			b.write("flow.yml", "imports: [{path: sub.yml, alias: sub}]\ncommands: [{workflow: sub}]\n")
			b.write("sub.yml", "commands: [{shell: exit 1}]\n")
			f, problems := workflow.Load(b.fill(name), workflow.Options{})
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			store, err := journal.OpenStore(b.home)
			if err != nil {
				t.Fatal(err)
			}
			opt := b.opt
			opt.Dir, opt.Store, opt.File = b.dir, store, f
			if sum, err := engine.Run(context.Background(), opt); err != nil || sum.Status != event.Failed {
				t.Fatalf("the run ended %+v, %v", sum, err)
			}
			b.write("sub.yml", "commands: [{shell: echo mended > @EV@/x}]\n")
			t.Chdir(filepath.Dir(b.dir)) // where a resume runs does not matter
			opt.File = nil
			var changed *engine.ChangedError
			if _, err := engine.Resume(context.Background(), "", opt); !errors.As(err, &changed) || filepath.Base(changed.Path) != "sub.yml" || !strings.Contains(changed.Diff, "mended") {
				t.Fatalf("a resume with a changed import: %v", err)
			}
			opt.Force = true
			if sum, err := engine.Resume(context.Background(), "", opt); err != nil || sum.Status != event.Succeeded {
				t.Errorf("a resume by force ended %+v, %v", sum, err)
			}
			if got, err := os.ReadFile(filepath.Join(b.ev, "x")); string(got) != "mended\n" {
				t.Errorf("the import that is there now was not run: %q, %v", got, err)
			}
		})
	}
}

// TestResumeOfFinishedRun: the resume ends as the run ended. A process that was killed
// after recording the end may not have reported it.
func TestResumeOfFinishedRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run("commands: [{shell: echo a >> @EV@/x}]")
	r.status(event.Succeeded)
	again, err := b.tryResume(context.Background())
	if told := again.of(event.RunFinished); len(told) != 1 || told[0].Status != event.Succeeded || told[0].Run == "" {
		t.Errorf("those who watch are told %+v", told)
	}
	if !errors.As(err, new(*engine.FinishedError)) || again.sum == nil || again.sum.Status != event.Succeeded || again.sum.Steps != r.sum.Steps {
		t.Errorf("the resume ended %+v, %v", again.sum, err)
	}
	r.want("x", "a")
}

// TestTextAgentsAreCounted: for an agent that answers with a text, the usage is not known,
// but its calls are counted. (Package workflow says that a budget cannot limit such
// agents.)
func TestTextAgentsAreCounted(t *testing.T) {
	t.Parallel()
	const text = "agents: {helper: {command: [sh, -c, 'echo an answer'], output: text}}\ncommands: [{helper: /ask}, {helper: /ask}]\n"
	r := newBench(t).run(text + "max_cost: 1\n")
	r.status(event.Succeeded)
	if u := r.sum.Usage; u == nil || u.Calls != 2 {
		t.Errorf("usage %+v, want 2 calls", u)
	}
}

// TestGraceOfTimeout: a command that ignores SIGTERM after a timeout is ended within the
// grace: the one that the file sets for a map, and 10 s elsewhere.
func TestGraceOfTimeout(t *testing.T) {
	for _, c := range []struct {
		name, text  string
		least, most time.Duration
	}{
		{"in a map", "mode: mapreduce\nmap: {input: [1], timeout_config: {cleanup_grace_period_secs: 1}, agent_template: [{shell: @SLOW@, timeout: 2s}]}", 3 * time.Second, 12 * time.Second},
		{"at once", "mode: mapreduce\nmap: {input: [1], timeout_config: {cleanup_grace_period: 0}, agent_template: [{shell: @SLOW@, timeout: 2s}]}", 2 * time.Second, 10 * time.Second},
		{"outside", "commands: [{shell: @SLOW@, timeout: 2s}]", 12 * time.Second, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			thrice(t, func() string {
				began := time.Now()
				newBench(t).run(strings.ReplaceAll(c.text, "@SLOW@", `"trap '' TERM; while :; do sleep 0.1; done"`))
				if took := time.Since(began); took < c.least || took > c.most {
					return fmt.Sprintf("it took %s, want %s to %s", took, c.least, c.most)
				}
				return ""
			})
		})
	}
}

// TestPipesNobodyWrites: an interrupt ends the wait for a file that is a pipe, wherever a
// file is read, and also a long read. Nothing counts as failed then.
func TestPipesNobodyWrites(t *testing.T) {
	for name, text := range map[string]string{
		"env_files":               "env_files: [pipe]\ncommands: [{shell: 'true'}]",
		"a secret":                "secrets: {X: {provider: file, key: pipe}}\ncommands: [{shell: 'true'}]",
		"in a text":               "commands: [{shell: 'echo ${file:pipe}'}]",
		"result_file":             "commands: [{shell: echo 1, validate: {shell: 'true', result_file: pipe}}]",
		"expected_schema":         "commands: [{shell: echo 1, validate: {shell: 'true', expected_schema: pipe}}]",
		"a pipeline":              "parameters: {optional: [{name: x, default: pipe}]}\ncommands: [{pipeline: '${x}'}]",
		"input of foreach":        "commands: [{foreach: {input: pipe, do: [{shell: 'true'}]}}]",
		"a long query of foreach": "commands: [{foreach: {input: big.json, json_path: '$..[*]..[*]..[*]', do: [{shell: 'true'}]}}]",
		"foreach of an item":      "isolation: none\nmap: {input: [{a: 1}], agent_template: [{foreach: {input: pipe, do: [{shell: 'true'}]}}]}",
		"input of the map":        "map: {input: pipe.json, agent_template: [{shell: 'true'}]}",
	} {
		both := func(t *testing.T, soft bool) {
			t.Parallel()
			b := newBench(t)
			for _, name := range []string{"pipe", "pipe.json"} {
				if err := syscall.Mkfifo(filepath.Join(b.dir, name), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			if strings.Contains(text, "big.json") {
				b.write("big.json", "["+strings.Repeat("["+strings.Repeat("[1,[1,1]],", 300)+"1],", 600)+"1]")
			}
			if soft {
				b.opt.Soft, b.opt.Grace, ctx = ctx, time.Millisecond, context.Background()
			}
			done := make(chan *ran, 1)
			go func() {
				r, err := b.try(ctx, text)
				if err != nil {
					t.Error(err)
				}
				done <- r
			}()
			select {
			case r := <-done:
				r.status(event.Interrupted)
				if failed := r.of(event.AttemptFailed); len(failed) > 0 {
					t.Errorf("an attempt has failed: %s", failed[0].Message)
				}
				for _, e := range append(r.of(event.StepFinished), r.of(event.ItemFinished)...) {
					if e.Status == event.Failed || e.Status == event.DeadLettered {
						t.Errorf("%s %s has failed: %s", e.Step, e.Item, e.Message)
					}
				}
			case <-time.After(patience):
				t.Fatal("it waits on")
			}
		}
		t.Run(name, func(t *testing.T) { both(t, false) })
		t.Run(name+", softly", func(t *testing.T) { both(t, true) })
	}
}

// TestPathsOfData: a path from data cannot lead out of the working directory; it is an
// error. A path that the author writes may.
func TestPathsOfData(t *testing.T) {
	const outside = "echo '[1]' > @EV@/out.json; echo 'in x: Int' > @EV@/out.cst; echo @EV@/out"
	for name, step := range map[string]string{
		"output_file":                       "{shell: echo hi, output_file: '${out}.json'}",
		"a file of foreach":                 "{foreach: {input: '${out}.json', do: [{shell: 'true'}]}}",
		"a file beside foreach":             "{foreach: {input: '${up}/ev/out.json', do: [{shell: 'true'}]}}",
		"result_file":                       "{shell: echo hi, validate: {shell: 'true', result_file: '${out}.json'}}",
		"expected_schema":                   "{shell: echo 1, validate: {shell: echo 1, expected_schema: '${out}.json'}}",
		"a pipeline":                        "{pipeline: '${out}.cst'}",
		"working_dir":                       "{shell: 'true', working_dir: '${up}'}",
		"an output that a command computes": "{shell: echo hi, output_file: '${cmd:echo ../x}'}",
		"write_file":                        "{write_file: {path: '${up}/x', content: x}}",
		"write_file that comes back":        "{write_file: {path: 'a/${up}/x', content: x, create_dirs: true}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("commands:\n  - {shell: \"" + outside + "\", capture: out}\n  - {shell: echo .., capture: up}\n  - " + step + "\n")
			r.status(event.Failed)
			if end := r.of(event.RunFinished)[0]; !strings.Contains(end.Message, "leads out of the working directory") && !strings.Contains(end.Message, "is absolute") && !strings.Contains(end.Message, "leads upwards") {
				t.Errorf("it ended: %s", end.Message)
			}
		})
	}
	t.Run("input of a map", func(t *testing.T) {
		t.Parallel()
		text := "setup: [{shell: \"" + outside + "\", capture: out}]\nmap: {input: '${out}.json', agent_template: [{shell: 'true'}]}\n"
		r := newBench(t).run(text)
		r.status(event.Failed)
		if end := r.of(event.RunFinished)[0]; !strings.Contains(end.Message, "leads out of the working directory") {
			t.Errorf("it ended: %s", end.Message)
		}
		newBench(t).run(strings.Replace(text, "${out}", "${out|raw}", 1)).status(event.Succeeded)
		newBench(t).run(strings.Replace(text, "${out}", "@EV@/out", 1)).status(event.Succeeded)
	})
	t.Run("what we made", func(t *testing.T) {
		t.Parallel()
		r := newBench(t).run("map: {input: [1, 2], agent_template: [{shell: 'true'}]}\nreduce: [{foreach: {input: '${map.results_file}', do: [{shell: 'true'}]}}]\n")
		r.status(event.Succeeded)
	})
}

// TestLeftInputsGo: a life of the run that was killed left the output of an input's
// command, which may hold secrets. A resume removes it.
func TestLeftInputsGo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run("commands: [{shell: test -e @EV@/go}]")
	r.status(event.Failed)
	left := filepath.Join(r.sum.Dir, "input-4711")
	if err := os.WriteFile(left, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	b.mark("go")
	b.resume(context.Background()).status(event.Succeeded)
	if _, err := os.Stat(left); err == nil {
		t.Error("it is there still")
	}
}

// panicking are actions that panic.
type panicking struct{ step.Actions }

func (panicking) Run(context.Context, *step.Call) (action.Result, error) { panic("boom") }

// TestStackAfterResume: an earlier life of the run recorded a failure from a panic. It
// becomes a dead letter with its stack.
func TestStackAfterResume(t *testing.T) {
	t.Parallel()
	inTime(t, &virtual{}, func(b *bench) {
		b.opt.Composed = func(x *step.Executor) { x.Actions = panicking{x.Actions} }
		b.interrupt(time.Second)
		b.run("map:\n  input: [1]\n  agent_template: [{http: 'http://example.test/x', retry: {attempts: 3, initial_delay: 1h, retry_budget: 90m, retry_budget_expires: true}}]\n").status(event.Interrupted)
		time.Sleep(2 * time.Hour)
		r := b.resume(context.Background())
		r.status(event.CompletedWithFailures)
		if len(r.of(event.AttemptStarted)) > 0 {
			t.Error("another attempt was made")
		}
		var l mapper.Letter
		var message string
		for _, e := range r.of(event.ItemFinished) {
			message = e.Message
			if err := json.Unmarshal(e.Data, &l); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(l.Stack, "panicking") || !strings.Contains(message, "boom") {
			t.Errorf("the dead letter says %q with the stack %q", message, l.Stack)
		}
	})
}
