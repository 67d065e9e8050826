package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/workflow"
)

// TestOnFailureForms: each form in which people write on_failure, with what the step (n),
// its handler (h) and the next step (y) did.
func TestOnFailureForms(t *testing.T) {
	// heals fails until its handler has run twice.
	const heals = `echo a >> @EV@/n; test "$(cat @EV@/h 2>/dev/null | wc -l)" -ge 2`
	const fails = `echo a >> @EV@/n; exit 1`
	for _, row := range []struct {
		name, shell, handler string
		status               string
		n, h                 int
		next                 bool
	}{
		{"true", fails, "true", event.Succeeded, 1, 0, true},
		{"false", fails, "false", event.Failed, 1, 0, false},
		{"a text", fails, "echo a >> @EV@/h", event.Succeeded, 1, 1, true},
		{"a text that is a prompt", fails, "/sh echo a >> @EV@/h", event.Succeeded, 1, 1, true},
		{"a text that fails", fails, "echo a >> @EV@/h; exit 1", event.Failed, 1, 1, false},
		{"a list of texts", fails, "['echo a >> @EV@/h', 'echo b >> @EV@/h']", event.Succeeded, 1, 2, true},
		{"a list of steps", fails, "[{shell: echo a >> @EV@/h}, {claude: /sh echo b >> @EV@/h}]", event.Succeeded, 1, 2, true},
		{"a step", fails, "{shell: echo a >> @EV@/h}", event.Succeeded, 1, 1, true},
		{"a step, fail_workflow", fails, "{shell: echo a >> @EV@/h, fail_workflow: true}", event.Failed, 1, 1, false},
		{"a step, max_attempts", heals, "{shell: echo a >> @EV@/h, max_attempts: 5}", event.Succeeded, 3, 2, true},
		{"a step, max_retries", fails, "{shell: echo a >> @EV@/h, max_retries: 3}", event.CompletedWithFailures, 3, 2, true},
		{"a step, retry_original", fails, "{shell: echo a >> @EV@/h, retry_original: true, fail_workflow: true}", event.Failed, 2, 1, false},
		{"an agent: three runs in all", fails, "{claude: /sh echo a >> @EV@/h}", event.CompletedWithFailures, 3, 2, true},
		{"an agent, fail_workflow: false", fails, "{claude: /sh echo a >> @EV@/h, fail_workflow: false}", event.Succeeded, 3, 2, true},
		{"an agent, fail_workflow", fails, "{claude: /sh echo a >> @EV@/h, fail_workflow: true}", event.Failed, 3, 2, false},
		{"an agent that heals", heals, "{claude: /sh echo a >> @EV@/h, fail_workflow: true}", event.Succeeded, 3, 2, true},
		{"an agent, max_attempts 4", fails, "{claude: /sh echo a >> @EV@/h, max_attempts: 4, fail_workflow: true}", event.Failed, 4, 3, false},
		{"an agent, max_attempts 1", fails, "{claude: /sh echo a >> @EV@/h, max_attempts: 1}", event.Succeeded, 1, 1, true},
		{"an agent that fails", fails, "{claude: /sh echo a >> @EV@/h; false, max_attempts: 3, fail_workflow: true}", event.Failed, 3, 2, false},
		{"handler_failure_fatal", fails, "{claude: /sh echo a >> @EV@/h; false, max_attempts: 3, handler_failure_fatal: true, fail_workflow: true}", event.Failed, 1, 1, false},
		{"commands", fails, "{commands: [{shell: echo a >> @EV@/h}, echo b >> @EV@/h]}", event.Succeeded, 1, 2, true},
		{"commands, recovery", fails, "{commands: [{shell: echo a >> @EV@/h}], strategy: recovery}", event.Succeeded, 1, 1, true},
		{"commands, fallback", fails, "{commands: [{shell: echo a >> @EV@/h}], strategy: fallback}", event.Succeeded, 1, 1, true},
		{"commands, cleanup", fails, "{commands: [{shell: echo a >> @EV@/h}], strategy: cleanup}", event.Failed, 1, 1, false},
		{"commands, continue_on_error", fails, "{commands: [{shell: exit 1, continue_on_error: true}, {shell: echo b >> @EV@/h}]}", event.Succeeded, 1, 1, true},
		{"commands with a timeout", fails, "{commands: [{shell: sleep 300}], timeout: 200ms}", event.Failed, 1, 0, false},
		{"fail_workflow: false alone", fails, "{fail_workflow: false}", event.Succeeded, 1, 0, true},
		{"fail_workflow: true alone", fails, "{fail_workflow: true}", event.Failed, 1, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("commands:\n- shell: " + row.shell + "\n  on_failure: " + row.handler + "\n- shell: echo a > @EV@/y\n")
			r.status(row.status)
			if n := lineCount(r.file("n")); n != row.n {
				t.Errorf("the step ran %d times, want %d", n, row.n)
			}
			if n := lineCount(r.file("h")); n != row.h {
				t.Errorf("the handler ran %d times, want %d", n, row.h)
			}
			if got := r.file("y") == "a"; got != row.next {
				t.Errorf("the next step ran: %v, want %v", got, row.next)
			}
		})
	}
}

func lineCount(s string) int {
	if s == "-" {
		return 0
	}
	return strings.Count(s, "\n") + 1
}

// TestHandlerVariables: what a handler can read about the failure.
func TestHandlerVariables(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - shell: echo out; echo err >&2; exit 4
    name: the step
    on_failure:
      commands:
        - shell: printf '%s|' "${error.exit_code}" "${error.stderr}" "${error.step}" "${error.class}" "${error.attempts}" "${error.message}" "${shell.output}" "${test.exit_code}" "$TEST_ATTEMPT" "${test.attempt}" >> @EV@/x
      max_attempts: 2
      capture: {why: error.stderr}
  - shell: echo "${why}" > @EV@/why
  - test: {command: "echo T; exit 2", on_failure: {shell: "printf %s \"${test.output}\" | tr '\\n' ' ' > @EV@/test", max_attempts: 2}}
`)
	r.status(event.CompletedWithFailures) // two repairs did not repair their steps
	r.want("x", "4|err|the step|exit|1|exit status 4: err|out|4|1|1|")
	r.want("why", "err")
	r.want("test", "STDOUT: T STDERR: ")
}

// TestHandlerMustCommit: a handler with commit_required that commits nothing fails.
func TestHandlerMustCommit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ handler, status string }{
		{"echo a > f", event.Failed},
		{"echo a > f && git add f && git commit -qm f", event.Succeeded},
	} {
		b := newBench(t)
		b.git()
		b.opt.Isolation = "none"
		r := b.run("commands:\n- shell: exit 1\n  on_failure: {commands: [{shell: '" + row.handler + "'}], commit_required: true}\n")
		r.status(row.status)
	}
}

// TestRetriesAndRepairsMultiply: each round of a step with its handler has the step's own
// attempts.
func TestRetriesAndRepairsMultiply(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - shell: echo a >> @EV@/n; exit 1
    retry: {attempts: 2, initial_delay: 1ms}
    on_failure: {claude: /sh echo a >> @EV@/h, max_attempts: 3, fail_workflow: true}
`)
	r.status(event.Failed)
	if n, h := lineCount(r.file("n")), lineCount(r.file("h")); n != 6 || h != 2 {
		t.Errorf("%d runs and %d repairs, want 6 and 2", n, h)
	}
}

// TestTimeoutKillsTheGroup: what a step has started ends with the step.
func TestTimeoutKillsTheGroup(t *testing.T) {
	for _, key := range []string{"timeout: 300ms", "timeout: 0.3", "timeout_secs: 0.3", "timeout: {secs: 0, nanos: 300000000}"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := b.run(`
commands:
  - shell: (sleep 300; echo a > @EV@/late) & sleep 300
    ` + key + `
    continue_on_error: true
  - shell: echo a > @EV@/y
`)
			r.status(event.Succeeded)
			b.quiet()
			r.want("late", "-")
			r.want("y", "a")
			if got := r.of(event.AttemptFailed); len(got) != 1 || got[0].Class != "timeout" {
				t.Errorf("the failed attempts are %+v", got)
			}
		})
	}
}

// TestTimeoutsAround: the timeouts of the workflow, of a block, of a foreach, of a called
// workflow, and of each action that contains steps.
func TestTimeoutsAround(t *testing.T) {
	const sleeps = "[{shell: sleep 300}]"
	for name, text := range map[string]string{
		"the workflow":      "timeout: 300ms\ncommands: " + sleeps,
		"setup":             "setup: {timeout: 300ms, commands: " + sleeps + "}\nmap: {input: [1], agent_template: [{shell: 'true'}]}",
		"setup, a variable": "env: {T: 1}\nsetup: {timeout: $T, commands: " + sleeps + "}\nmap: {input: [1], agent_template: [{shell: 'true'}]}",
		"reduce":            "map: {input: [1], agent_template: [{shell: 'true'}]}\nreduce: {timeout: 300ms, commands: " + sleeps + "}",
		"foreach":           "commands: [{foreach: {items: [1], timeout: 300ms, do: " + sleeps + "}}]",
		"a step of steps":   "commands: [{foreach: [1], timeout: 300ms, do: " + sleeps + "}]",
		"validate":          "commands: [{validate: {timeout: 300ms, commands: " + sleeps + "}}]",
		"goal_seek":         "commands: [{goal_seek: {goal: g, timeout_seconds: 0.3, shell: sleep 300, validate: {shell: 'true'}}}]",
		"metadata":          "commands: [{shell: sleep 300, metadata: {timeout: 0.3}}]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			r := newBench(t).run(text)
			r.status(event.Failed)
			if r.sum.Class != "timeout" || time.Since(start) > patience {
				t.Errorf("class %s after %v: %s", r.sum.Class, time.Since(start), r.sum.Message)
			}
		})
	}
}

// TestInertFieldsAreTold: the file gets a warning for a field without effect.
func TestInertFieldsAreTold(t *testing.T) {
	t.Parallel()
	for _, f := range workflow.Fields() {
		if f.Object != "step" || f.Inert == "" {
			continue
		}
		text := "commands: [{shell: a, " + f.Key + ": " + f.Example + "}]"
		if f.Key == "analyze" {
			text = "commands: [{analyze: {}}]"
		}
		_, problems := workflow.Parse("flow.yml", []byte(text), workflow.Options{})
		found := false
		for _, p := range problems {
			found = found || strings.Contains(p.Message, f.Key)
		}
		if !found {
			t.Errorf("%s: nobody is told that it has no effect", f.Key)
		}
	}
	if _, problems := workflow.Parse("flow.yml", []byte("commands: [{handler: {name: x}}]"), workflow.Options{}); !problems.HasErrors() {
		t.Error("handler: is no error")
	}
}

// TestWhen: conditions as people write them.
func TestWhen(t *testing.T) {
	for when, want := range map[string]bool{
		"${n} >= 10": true, "n > 9": true, "${n} == '10'": true, "${n} == 10": true, "n < 9 || flag": true,
		"${flag}": true, "${flag} == true": true, "${no}": false, "!no && flag": true, "not no and flag": true,
		"${word} == 'a b'": true, "word contains 'a'": true, "word =~ '^a'": true, "starts_with(word, 'b')": false,
		"${build-step.exit_code != 0}": true, "${build-step.success}": false, "${flag && n > 3}": true,
		"n in [1, 10]": true, "exists(nothing)": false, "${env.LEVEL} == 3": true, "${LEVEL} == 3": true,
		"true": true, "false": false, "list.length == 2": true, "length(list) > 2": false,
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run(`
env: {LEVEL: 3}
commands:
  - {shell: exit 3, id: build-step, continue_on_error: true}
  - {shell: echo 10, capture: n, capture_format: number}
  - {shell: "true", capture: flag, capture_format: boolean}
  - {shell: echo false, capture: no, capture_format: boolean}
  - {shell: echo a b, capture: word}
  - {shell: "echo '[1,2]'", capture: list, capture_format: json}
  - shell: echo a > @EV@/x
    when: "` + when + `"
`)
			r.status(event.Succeeded)
			if got := r.file("x") == "a"; got != want {
				t.Errorf("%s is %v", when, got)
			}
			if !want && r.sum.Steps.Skipped != 1 {
				t.Errorf("%d steps were skipped, want one", r.sum.Steps.Skipped)
			}
		})
	}
}

// TestCommitOptions: what auto_commit commits, and how.
func TestCommitOptions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Isolation = "none"
	r := b.run(`
commands:
  - shell: echo a > a.txt; echo b > b.log; mkdir -p d; echo c > d/c.txt
    name: make files
    auto_commit: {include_files: ['*.txt', 'd/*'], exclude_files: ['a.*'], message: 'files of ${shell.exit_code}'}
  - shell: git log -1 --format=%s > @EV@/message; git show --format= --name-only > @EV@/files
  - shell: git add -A && git commit -qm one && echo z > z.txt && git add -A && git commit -qm two
    auto_commit: {squash: true, message: both}
  - shell: git log -1 --format=%s > @EV@/squashed; git rev-list --count HEAD > @EV@/count
  - shell: echo y > y.txt
    auto_commit: {message: 'bad', message_pattern: '^good'}
    on_failure: {shell: 'echo "${error.message}" > @EV@/pattern'}
`)
	r.status(event.Succeeded)
	r.want("message", "files of 0")
	r.want("files", "d/c.txt")
	r.want("squashed", "both")
	r.want("count", "3")
	if !strings.Contains(r.file("pattern"), "message_pattern") {
		t.Errorf("the error is %q", r.file("pattern"))
	}
}

// TestCommitOutsideGit: a commit that is impossible is an error, and the predecessor's
// switch works.
func TestCommitOutsideGit(t *testing.T) {
	t.Parallel()
	r := newBench(t).run("commands: [{shell: 'true', commit_required: true}]")
	r.status(event.Failed)
	if !strings.Contains(r.sum.Message, "git") {
		t.Errorf("the message is %q", r.sum.Message)
	}
	b := newBench(t)
	b.git()
	b.setenv("PRODIGY_NO_COMMIT_VALIDATION", "true")
	b.run("commands: [{shell: 'true', commit_required: true}]").status(event.Succeeded)
}

// TestWorktree: agents work, and commits are made, in a worktree of the run's own, which is
// merged at the end.
func TestWorktree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(`
commands:
  - shell: pwd > @EV@/where; echo a > made.txt && git add made.txt && git commit -qm made
    commit_required: true
  - shell: echo "${step.commit_count} ${workflow.files_added}" > /dev/null
merge:
  - shell: echo "${merge.source_branch} ${merge.target_branch} ${merge.commit_count} ${merge.file_list} ${merge.modified_files} ${merge.file_count}" > @EV@/merge; git branch --show-current > @EV@/branch
  - shell: test -d "${merge.worktree}" && test "${merge.session_id}" = "${workflow.id}" && echo "${merge.commit_ids}" | grep -c . > @EV@/ids
  - claude: /say conflicts ${merge.conflicts|length} ${merge.conflicts} commit ${merge.commit}.
`)
	r.status(event.Succeeded)
	if r.file("where") == b.dir {
		t.Error("the step ran in the user's own tree")
	}
	r.want("merge", r.file("branch")+" main 1 made.txt made.txt 1")
	r.want("ids", "1")
	r.want("agent.log", "/say conflicts 0  commit .") // without a conflict
	if got := b.output("git branch --show-current; cat made.txt; git status --porcelain"); got != "main\na" {
		t.Errorf("after the merge the repository is %q", got)
	}
}

// TestRunOptions: --args, --map, -n and --fail-fast.
func TestRunOptions(t *testing.T) {
	t.Parallel()
	const each = "commands: [{shell: 'echo ${ARG} ${INDEX} ${TOTAL} >> @EV@/x; test ${ARG} != b'}]"
	t.Run("args", func(t *testing.T) {
		b := newBench(t)
		b.opt.Args = []string{"a", "b", "c"}
		r := b.run(each)
		r.status(event.Failed)
		r.want("x", "a 0 3\nb 1 3\nc 2 3")
	})
	t.Run("fail-fast", func(t *testing.T) {
		b := newBench(t)
		b.opt.Args, b.opt.FailFast = []string{"a", "b", "c"}, true
		r := b.run(each)
		r.status(event.Failed)
		r.want("x", "a 0 3\nb 1 3")
	})
	t.Run("positions", func(t *testing.T) {
		b := newBench(t)
		b.opt.Args = []string{"one", "two words"}
		r := b.run("commands: [{shell: 'echo \"${ARG_1},${ARG_2}\" > @EV@/x'}]")
		r.want("x", "one,two words")
	})
	t.Run("map", func(t *testing.T) {
		b := newBench(t)
		b.opt.Files = []string{"/p/a file$(touch pwned).txt", "/p/b.md"}
		r := b.run("commands: [{shell: 'echo \"$FILE|${FILE_NAME}|${FILE_STEM}|${FILE_PATH}|${ARG}|${INDEX}\" >> @EV@/x'}, {shell: 'ls > @EV@/ls'}]")
		r.status(event.Succeeded)
		r.want("x", "/p/a file$(touch pwned).txt|a file$(touch pwned).txt|a file$(touch pwned)|/p/a file$(touch pwned).txt|/p/a file$(touch pwned).txt|0\n/p/b.md|b.md|b|/p/b.md|/p/b.md|1")
		r.want("ls", "")
	})
	t.Run("iterations", func(t *testing.T) {
		b := newBench(t)
		b.opt.MaxIterations = 3
		r := b.run("commands: [{shell: 'echo ${workflow.iteration} ${ITERATION} >> @EV@/x'}]")
		r.want("x", "1 1\n2 2\n3 3")
	})
	t.Run("max_iterations", func(t *testing.T) {
		r := newBench(t).run("max_iterations: 2\ncommands: [{shell: 'echo ${workflow.iteration} >> @EV@/x'}]")
		r.want("x", "1\n2")
	})
	t.Run("iterations that change nothing", func(t *testing.T) {
		b := newBench(t)
		b.git()
		b.opt.Isolation, b.opt.MaxIterations = "none", 5
		r := b.run("commands: [{shell: 'echo ${ITERATION} >> @EV@/x; test ${ITERATION} -gt 1 || echo a > new.txt'}]")
		r.want("x", "1\n2")
	})
	t.Run("max-parallel", func(t *testing.T) {
		b := newBench(t)
		b.opt.MaxParallel = 1
		r := b.run("map: {input: [1, 2, 3], max_parallel: 3, agent_template: [{shell: 'mkdir @EV@/lock && sleep 0.1 && rmdir @EV@/lock'}]}")
		r.status(event.Succeeded)
	})
}
