package engine_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestValidateResults: each shape of a result against a threshold. on_incomplete runs if
// the result is below it.
func TestValidateResults(t *testing.T) {
	for _, row := range []struct {
		shell      string
		threshold  string
		incomplete bool
	}{
		{`echo '{"completion_percentage": 90}'`, "90", false},
		{`echo '{"completion_percentage": 89.9}'`, "90", true},
		{`echo '{"completion_percentage": 99, "status": "incomplete"}'`, "100", true},
		{`echo '{"score": 95}'`, "95", false},
		{`echo '{"complete": true, "score": 100, "gaps": []}'`, "100", false},
		{`echo '{"complete": false, "gaps": ["a"]}'`, "100", true},
		{`echo '{"complete": true}'`, "100", false},
		{`echo '{"status": "complete"}'`, "100", false},
		{`echo '{"status": "failed"}'`, "1", true},
		{`echo fine`, "100", false},
		{`echo not fine; exit 1`, "100", true},
		{`echo 80`, "80", false},
		{`echo 79%`, "80", true},
		{`true`, "100", false},
		{`false`, "1", true},
	} {
		t.Run(row.shell+" "+row.threshold, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("commands:\n- validate:\n    shell: |\n      " + row.shell + "\n    threshold: " + row.threshold +
				"\n    on_incomplete: {shell: echo a >> @EV@/x, max_attempts: 1, fail_workflow: false}\n")
			r.status(event.Succeeded)
			if got := r.file("x") == "a"; got != row.incomplete {
				t.Errorf("incomplete is %v, want %v", got, row.incomplete)
			}
		})
	}
}

// TestValidateLoop: repairs until the result is complete, or as often as is allowed.
func TestValidateLoop(t *testing.T) {
	const check = `echo c >> @EV@/checks; n=$(cat @EV@/x 2>/dev/null | wc -l); echo "{\"completion_percentage\": $((n >= 3 ? 100 : n * 40)), \"missing\": [\"m$n\", \"k\"], \"gaps\": {\"g\": {\"severity\": \"high\"}}}"`
	for _, row := range []struct {
		more, status    string
		checks, repairs int
	}{
		{"max_attempts: 5", event.Succeeded, 4, 3},
		{"max_attempts: 2", event.Failed, 3, 2},
		{"", event.Failed, 3, 2},
		{"max_attempts: 1, fail_workflow: false", event.Succeeded, 2, 1},
	} {
		for _, beside := range []string{"", "  shell: 'true'\n"} {
			t.Run(row.more+beside, func(t *testing.T) {
				t.Parallel()
				more := strings.TrimSuffix(", "+row.more, ", ")
				dash := "- validate:\n"
				if beside != "" {
					dash = "- shell: 'true'\n  validate:\n"
				}
				r := newBench(t).run("commands:\n" + dash + "    shell: '" + strings.ReplaceAll(check, "'", "''") + "'\n    on_incomplete: {shell: 'echo ${validation.attempt_number} ${validation.completion} ${validation.missing} ${validation.missing_count} ${validation.gaps.g.severity} ${validation.status} >> @EV@/x'" + more + "}\n- shell: echo a > @EV@/y\n")
				r.status(row.status)
				if c, x := lineCount(r.file("checks")), lineCount(r.file("x")); c != row.checks || x != row.repairs {
					t.Errorf("%d checks and %d repairs, want %d and %d", c, x, row.checks, row.repairs)
				}
				if first, _, _ := strings.Cut(r.file("x"), "\n"); first != "1 0 m0 k 2 high incomplete" {
					t.Errorf("the repair read %q", first)
				}
				if got := r.file("y") == "a"; got != (row.status == event.Succeeded) {
					t.Errorf("the next step ran: %v", got)
				}
			})
		}
	}
}

// TestValidateForms: commands, an agent, a result file, a schema, a prompt.
func TestValidateForms(t *testing.T) {
	for name, row := range map[string]struct{ text, status, x string }{
		"a list":           {"validate: [{shell: echo a >> @EV@/x}, {shell: echo 100}]", event.Succeeded, "a"},
		"commands":         {"validate: {commands: [{shell: echo a >> @EV@/x}, {shell: echo 100}]}", event.Succeeded, "a"},
		"command":          {"validate: {command: 'echo a >> @EV@/x; echo 100'}", event.Succeeded, "a"},
		"an agent":         {"validate: {claude: '/say {\"score\": 10}', on_incomplete: {claude: /sh echo a >> @EV@/x, max_attempts: 1}}", event.Failed, "a"},
		"a result file":    {"validate: {shell: 'echo \"{\\\"score\\\": 10}\" > res.json', result_file: res.json, on_incomplete: {shell: echo a >> @EV@/x, max_attempts: 1, fail_workflow: false}}", event.Succeeded, "a"},
		"no result file":   {"validate: {shell: 'true', result_file: res.json}", event.Failed, "-"},
		"a schema":         {"validate: {shell: 'echo \"{\\\"score\\\": 100}\"', expected_schema: {type: object, required: [gaps]}}", event.Failed, "-"},
		"a schema's file":  {"validate: {shell: 'echo \"{\\\"required\\\": [\\\"gaps\\\"]}\" > s.json; echo \"{\\\"score\\\": 100}\"', expected_schema: s.json}", event.Failed, "-"},
		"a file it fits":   {"validate: {shell: 'echo \"{\\\"required\\\": [\\\"score\\\"]}\" > s.json; echo \"{\\\"score\\\": 100}\"', expected_schema: s.json}", event.Succeeded, "-"},
		"no schema's file": {"validate: {shell: 'echo \"{\\\"score\\\": 100}\"', expected_schema: s.json}", event.Failed, "-"},
		"beside a step":    {"validate: [{shell: 'echo 100'}, {shell: 'echo \"{\\\"score\\\": 100}\" > res.json; echo 10', result_file: res.json}]\n- shell: echo ${validation.score} > @EV@/x", event.Succeeded, "100"},
		"a list after it":  {"validate: {shell: 'false', on_incomplete: [echo a >> @EV@/x, {shell: echo b >> @EV@/x}]}", event.Failed, "a\nb\na\nb"},
		"no on_incomplete": {"validate: {shell: 'false'}", event.Failed, "-"},
		"it may be":        {"validate: {shell: 'false', on_incomplete: continue}\n- shell: echo a > @EV@/x", event.Succeeded, "a"},
		"below":            {"validate: {shell: 'echo 40', threshold: 80}", event.Failed, "-"},
		"no score":         {"validate: {shell: 'echo all fine', threshold: 80}", event.Failed, "-"},
		"the exit status":  {"validate: {shell: 'echo all fine'}", event.Succeeded, "-"},
		"nothing is said":  {"validate: {shell: 'true', threshold: 80}", event.Succeeded, "-"},
		"a goal's":         {"goal_seek: {goal: x, shell: 'true', validate: {shell: 'echo fine'}, threshold: 90}", event.Failed, "-"},
		"a text's score":   {"validate: {claude: '/say I give it Score: 40/100', threshold: 80}", event.Failed, "-"},
		"a good one":       {"validate: {claude: '/say I give it Score: 80/100', threshold: 80}", event.Succeeded, "-"},
		"an agent's talk":  {"validate: {claude: /say it looks fine}", event.Failed, "-"},
		"a score below 0":  {"validate: {shell: 'echo \"score: -85\"', threshold: 80}", event.Failed, "-"},
		"a goal's below 0": {"goal_seek: {goal: x, shell: 'true', validate: 'echo score -85%', threshold: 80}", event.Failed, "-"},
		"a lone one":       {"validate: {shell: 'echo -85', threshold: 80}", event.Failed, "-"},
		"behind a dash":    {"validate: {shell: 'echo score - 85', threshold: 80}", event.Succeeded, "-"},
		"a score of 101":   {"validate: {shell: 'echo \"{\\\"score\\\": 101}\"'}", event.Failed, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("commands:\n- " + row.text + "\n")
			r.status(row.status)
			r.want("x", row.x)
		})
	}
}

// TestValidateTimeout: the timeout applies to one check, not to the repairs between checks.
// A check that takes too long fails the step.
func TestValidateTimeout(t *testing.T) {
	t.Parallel()
	r := newBench(t).run("commands: [{validate: {shell: 'test -e done', timeout: 3s, on_incomplete: {shell: 'sleep 3.5; touch done'}}}, {shell: echo a > @EV@/x}]")
	r.status(event.Succeeded)
	r.want("x", "a")
	r = newBench(t).run("commands: [{validate: {shell: sleep 300, timeout: 200ms, on_incomplete: {shell: echo a > @EV@/x}}}]")
	r.status(event.Failed)
	if r.sum.Class != "timeout" {
		t.Errorf("class %s: %s", r.sum.Class, r.sum.Message)
	}
	r.want("x", "-")
}

// TestOnIncompleteMustCommit: with commit_required, a repair that commits nothing fails.
func TestOnIncompleteMustCommit(t *testing.T) {
	t.Parallel()
	for repair, status := range map[string]string{"echo a": event.Failed, "echo a > f; git add f; git commit -qm f": event.Succeeded} {
		b := newBench(t)
		b.git()
		b.opt.Isolation = "none"
		b.run("commands: [{validate: {shell: test -e f, on_incomplete: {shell: '" + repair + "', commit_required: true}}}]").status(status)
	}
}

// TestStepValidate: the checks of a step, with what they expect.
func TestStepValidate(t *testing.T) {
	for _, row := range []struct {
		check string
		ok    bool
		runs  int
	}{
		{"echo c >> @EV@/c", true, 1},
		{"[echo c >> @EV@/c, exit 1]", false, 1},
		{"{commands: [{command: echo c >> @EV@/c; exit 3, expect_exit_code: 3}]}", true, 1},
		{"{commands: [{command: echo c >> @EV@/c; echo built ok, expect_output: 'ok$'}]}", true, 1},
		{"{commands: [{command: echo c >> @EV@/c; echo built, expect_output: 'ok$'}]}", false, 1},
		{"{commands: [echo c >> @EV@/c, exit 1], success_criteria: any}", true, 1},
		{"{commands: [echo c >> @EV@/c, exit 1, 'true'], success_criteria: {at_least: 2}}", true, 1},
		{"{commands: [echo c >> @EV@/c, exit 1], success_criteria: {at_least: 2}}", false, 1},
		{"{commands: [echo c >> @EV@/c; exit 1], max_attempts: 3, retry_delay: 10ms}", false, 3},
		{"{commands: ['echo c >> @EV@/c; test $(wc -l < @EV@/c) -ge 2'], max_attempts: 3, retry_delay: 10ms}", true, 2},
		{"{commands: [sleep 300], timeout: 200ms}", false, 0},
		{"{commands: [echo c >> @EV@/c; exit 1], ignore_failure: true}", true, 1},
		{"{commands: [{claude: /sh echo c >> @EV@/c}]}", true, 1},
		{"{commands: [{command: /sh echo c >> @EV@/c; false, command_type: claude}]}", false, 1},
	} {
		t.Run(row.check, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("commands:\n- shell: 'true'\n  step_validate: " + row.check + "\n")
			if ok := r.sum.Status == event.Succeeded; ok != row.ok {
				t.Errorf("it passed: %v, want %v%s", ok, row.ok, r.story())
			}
			if n := lineCount(r.file("c")); n != row.runs {
				t.Errorf("the check ran %d times, want %d", n, row.runs)
			}
		})
	}
}

// TestGoalSeek: until the score is reached, or as often as is allowed.
func TestGoalSeek(t *testing.T) {
	const steps = "shell: 'echo ${goal.attempt} ${goal.text} >> @EV@/x', validate: {shell: 'echo \"score: $(($(wc -l < @EV@/x) * 30))\"'}"
	for _, row := range []struct {
		more, status string
		runs         int
		output       string
	}{
		{"threshold: 80, max_attempts: 5", event.Succeeded, 3, "90"},
		{"threshold: 80, max_attempts: 2, fail_on_incomplete: false", event.Succeeded, 2, "60"},
		{"threshold: 80, max_attempts: 2", event.Failed, 2, ""},
		{"threshold: 80, max_attempts: 2, fail_on_incomplete: true", event.Failed, 2, ""},
		{"threshold: 80", event.Succeeded, 3, "90"},
	} {
		t.Run(row.more, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("commands:\n- goal_seek: {goal: all done, " + steps + ", " + row.more + "}\n- shell: echo \"${last.output}\" > @EV@/out\n")
			r.status(row.status)
			if n := lineCount(r.file("x")); n != row.runs {
				t.Errorf("%d attempts, want %d", n, row.runs)
			}
			if row.output != "" {
				r.want("out", row.output)
			}
			s, steps := r.sum.Steps, 2 // the rounds are not steps of the workflow
			if row.status == event.Failed {
				steps = 1
			}
			if n := s.Succeeded + s.Failed + s.Incomplete; n != steps {
				t.Errorf("%d steps are counted, want %d: %+v", n, steps, s)
			}
			if first, _, _ := strings.Cut(r.file("x"), "\n"); first != "1 all done" {
				t.Errorf("the attempt read %q", first)
			}
		})
	}
}

// TestAGoalWhoseScoreIsUnreadable: a goal is not reached by the exit status of a check that
// means to print a score, and prints none that can be read. A check that prints no score at
// all is judged by its exit status.
func TestAGoalWhoseScoreIsUnreadable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"score: n/a":               event.Failed,
		"Score = unknown":          event.Failed,
		`{"result": "bad"}`:        event.Failed,
		`{"score": null}`:          event.Failed,
		`"score": "none"`:          event.Failed,
		"all 12 tests have passed": event.Succeeded,
		"scoreboard: drawn":        event.Succeeded,
		"":                         event.Succeeded,
		"score: 100":               event.Succeeded,
	} {
		b := newBench(t)
		b.write("text", text)
		r := b.run("commands:\n- goal_seek: {goal: g, shell: 'true', validate: {shell: 'cat text'}, max_attempts: 1}\n")
		r.status(want)
		if want == event.Failed && !strings.Contains(r.sum.Message, "score") {
			t.Errorf("%s: %s", text, r.sum.Message)
		}
	}
}

// TestACheckThatWasCutShort: what a check printed is no score if the check was killed, or
// if a command in it does not exist. Its plain exit status does not matter.
func TestACheckThatWasCutShort(t *testing.T) {
	t.Parallel()
	for check, want := range map[string]string{
		"echo score: 95; exit 1":          event.Succeeded,
		"echo score: 95; kill -9 $$":      event.Failed,
		"echo score: 95; no-such-program": event.Failed,
	} {
		r := newBench(t).run("commands: [{goal_seek: {goal: g, shell: 'true', validate: '" + check + "', threshold: 90, max_attempts: 1}}]\n")
		r.status(want)
		if want == event.Failed && !strings.Contains(r.sum.Message, "the check did not run to its end") {
			t.Errorf("%s: %s", check, r.sum.Message)
		}
	}
}
