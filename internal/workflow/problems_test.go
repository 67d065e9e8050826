package workflow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

var (
	wantComment = regexp.MustCompile("# want(-1)? (`.*)$")
	wantPattern = regexp.MustCompile("`([^`]*)`")
)

// TestProblems checks the sources of testdata/problems. Each file has several
// cases, begun by a line "=== title". A comment
//
//	# want `regexp` `regexp`
//
// names the problems of its line ("want-1": of the line before), each matched
// against "column: severity: message [code]; suggestion". There must be no
// others, and each must have a suggestion.
func TestProblems(t *testing.T) {
	paths, err := filepath.Glob("testdata/problems/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range strings.Split("\n"+string(text), "\n=== ")[1:] {
			title, src, _ := strings.Cut(c, "\n")
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txt")+"/"+title, func(t *testing.T) { checkWants(t, src) })
		}
	}
}

func checkWants(t *testing.T, src string) {
	t.Helper()
	wants := map[int][]string{}
	for i, line := range strings.Split(src, "\n") {
		m := wantComment.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		at := i + 1
		if m[1] == "-1" {
			at--
		}
		for _, w := range wantPattern.FindAllStringSubmatch(m[2], -1) {
			wants[at] = append(wants[at], w[1])
		}
	}
	_, problems := parse(t, src)
	for _, p := range problems {
		text := fmt.Sprintf("%d: %s: %s [%s]; %s", p.Column, p.Severity, p.Message, p.Code, p.Suggestion)
		if p.Suggestion == "" {
			t.Errorf("line %d: no suggestion: %s", p.Line, text)
		}
		if !takeWant(wants, p.Line, text) {
			t.Errorf("line %d: not wanted: %s", p.Line, text)
		}
	}
	for line, left := range wants {
		t.Errorf("line %d: no problem like %q; there are:\n%v", line, left, problems)
	}
}

func takeWant(wants map[int][]string, line int, text string) bool {
	for i, w := range wants[line] {
		if regexp.MustCompile(w).MatchString(text) {
			wants[line] = append(wants[line][:i:i], wants[line][i+1:]...)
			if len(wants[line]) == 0 {
				delete(wants, line)
			}
			return true
		}
	}
	return false
}

// mistakes are lines of a step, each with one problem.
var mistakes = []string{
	"timeuot: 30", "timeout: 2 minutes", "retry: {attempts: 0}", "retry: {backof: fixed}", "retry: {backoff: expnential}", "capture_format: jsn",
	"commit_required: yes", "id: two words", "on_failure: {max_attempts: 0, claude: /x}", "when: 'a == '", "env: [A]", "retry: {jitter_factor: 3}",
	"retry: {retry_on: [netwrk]}", "retry: {initial_delay: 1 second}", "on_exit_code: {x: {shell: y}}", "capture_streams: all", "working_dir: [a]",
	"retry: {retry_budget: 0}", "auto_commit: maybe", "outputs: [a]", "validate: {threshold: 200, shell: a}", "do: [{shell: x}]",
	"retry: {on_failure: stopp}", "continue_on_eror: true", "on_success: {shel: x, shell: y}", "output_file: {a: b}", "capture: a b",
	"retry: {retry_on: [{pattern: '('}]}", "step_validate: {comands: [a], commands: [b]}", "clear_env: 1",
}

func bigFile() string {
	var b strings.Builder
	b.WriteString("name: big\ncommands:\n")
	for line, next := 2, 0; line < 2000; {
		fmt.Fprintf(&b, "  - shell: echo step %d ${shell.output}\n    timeout: 30s\n    retry: {attempts: 3, backoff: fibonacci}\n", line)
		line += 3
		if line/65 > next && next < len(mistakes) {
			key, _, _ := strings.Cut(mistakes[next], ":")
			text := b.String()
			for _, dup := range []string{"    timeout: 30s\n", "    retry: {attempts: 3, backoff: fibonacci}\n"} {
				if strings.HasPrefix(strings.TrimSpace(dup), key+":") {
					text = text[:strings.LastIndex(text, dup)] + strings.Replace(text[strings.LastIndex(text, dup):], dup, "", 1)
					line--
				}
			}
			b.Reset()
			b.WriteString(text + "    " + mistakes[next] + "\n")
			line++
			next++
		}
	}
	return b.String()
}

// TestAllMistakesOfALargeFile asks for each of 30 mistakes in a file of 2,000
// lines with line, column and suggestion.
func TestAllMistakesOfALargeFile(t *testing.T) {
	src := bigFile()
	lines := strings.Split(src, "\n")
	best := time.Hour
	var problems diag.List
	for range 5 { // the best of some, in processor time: others use the machine too
		start := processorTime(t)
		_, problems = parse(t, src)
		best = min(best, processorTime(t)-start)
	}
	if len(problems) != len(mistakes) {
		t.Errorf("%d problems for %d mistakes in %d lines:\n%v", len(problems), len(mistakes), len(lines), problems)
	}
	for _, p := range problems {
		if p.Line < 3 || p.Column < 5 || p.Suggestion == "" {
			t.Errorf("incomplete: %v", p)
		} else if i := mistakeAt(lines[p.Line-1]); i < 0 {
			t.Errorf("not at a mistake: %v\n%s", p, lines[p.Line-1])
		}
	}
	t.Logf("%d lines in %v", len(lines), best)
	if !raceEnabled && best > 50*time.Millisecond {
		t.Errorf("reading took %v; the bound is 50 ms", best)
	}
}

// processorTime is what this process has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func mistakeAt(line string) int {
	for i, m := range mistakes {
		if strings.TrimSpace(line) == m {
			return i
		}
	}
	return -1
}

func TestStrictMakesErrors(t *testing.T) {
	for src, n := range map[string]int{
		"commands: [{shell: a, timeuot: 3}]\nversion: 2\n":                                                            2,
		"{mode: mapreduce, map: {input: [1, 2], agent_template: [{shell: 'echo hi > out.txt'}, {shell: 'echo {}'}]}}": 2,
	} {
		_, lax := parse(t, src)
		if e, w := lax.Count(); e != 0 || w != n {
			t.Errorf("%s: %d errors and %d warnings; want 0 and %d", src, e, w, n)
		}
		_, strict := workflow.Parse("f.yml", []byte(src), workflow.Options{Strict: true})
		if e, w := strict.Count(); e != n || w != 0 {
			t.Errorf("%s, strict: %d errors and %d warnings; want %d and 0", src, e, w, n)
		}
	}
}

// TestWhereAndWhatToDo: mistakes whose message has to say where they are and
// what to write in their place.
func TestWhereAndWhatToDo(t *testing.T) {
	for _, c := range []struct{ src, code, at, suggestion string }{
		{"commands:\n  - shell: make\n   timeout: 5\n", "yaml-syntax", "flow.yml:3:4", "begin this line with 4 blanks"},
		{"commands:\n  - shell: [make\n   timeout: 5\n", "yaml-syntax", "flow.yml:2:3", "brackets and quotes"},
		{"commands:\n  - shell: \"make\n", "yaml-syntax", "flow.yml:2:3", "never closed"},
		{"commands:\n  - shell: \"make\" when: x\n", "yaml-syntax", "flow.yml:2:3", "when: is a key: begin a line with it, 4 blanks in"},
		{"commands:\n  - shell: make\n      when: x\n", "yaml-syntax", "flow.yml:3:7", "when: is a key: begin a line with it, 4 blanks in"},
		{"commands:\n  - shell: echo: a: b\n", "yaml-syntax", "flow.yml:2:16", "put quotes around a text"},
		{"commands: [{shell: a, when: '${x} ==='}]", "bad-expression", "flow.yml:1:37", "the operators are =="},
		{"commands: [{shell: a, when: 'x > 3 &&'}]", "bad-expression", "flow.yml:1:38", "remove the operator"},
		{"commands: [{shell: a, when: 'x > )'}]", "bad-expression", "flow.yml:1:34", "score >= 5"},
		{"agents: {helper: {cmd: [x]}}\ncommands: [{helper: do it}]", "missing-key", "flow.yml:1:18", "command: [helper"},
		{"agents: {helper: {command: [x], program: y}}\ncommands: [{helper: do it}]", "unknown-key", "flow.yml:1:33", `did you mean "command"?`},
		{"commands: [{shell: a, auto_commit: true, commit_message: b}]", "unknown-key", "flow.yml:1:42", `commit_config: {message_template: …}`},
		{"map: {input: [a], concurrency: 3, agent_template: [{shell: a}]}", "unknown-key", "flow.yml:1:19", `did you mean "max_parallel"?`},
		{"map: {input: [a], timeout: 3m, agent_template: [{shell: a}]}", "unknown-key", "flow.yml:1:19", `did you mean "agent_timeout"?`},
		{"map: {input: [a], budget: {cost: 5}, agent_template: [{shell: a}]}", "unknown-key", "flow.yml:1:19", `did you mean "item_budget"?`},
		{"map: {input: [a], on_conflict: x, agent_template: [{shell: a}]}", "unknown-key", "flow.yml:1:19", `a step under merge:`},
		{"commands: [{shell: a, retry: {times: 3}}]", "unknown-key", "flow.yml:1:31", `did you mean "attempts"?`},
		{"commands: [{shell: a, retry: {on: [timeout]}}]", "unknown-key", "flow.yml:1:31", `did you mean "retry_on"?`},
		{"commands: [{shell: a, retry: {max: 3s}}]", "unknown-key", "flow.yml:1:31", `did you mean "max_delay"?`},
		{"commands: [{shell: a, max_retries: 3}]", "unknown-key", "flow.yml:1:23", `write retry: {attempts: 4}, which counts the first run too`},
		{"commands: [{shell: a, on_error: b}]", "unknown-key", "flow.yml:1:23", `did you mean "on_failure"?`},
		{"commands: [{shell: a, when: always()}]", "bad-expression", "flow.yml:1:29", `stands under finally:`},
		{"commands: [{shell: a, when: success()}]", "bad-expression", "flow.yml:1:29", `leave it out`},
		{"commands: [{shell: a, depends_on: b}]", "unknown-key", "flow.yml:1:23", `steps run in their order`},
		{"on: push\ncommands: [{shell: a}]", "unknown-key", "flow.yml:1:1", `there are no triggers`},
		{"map: {foreach: [a], agent_template: [{shell: a}]}", "missing-key", "flow.yml:1:6", `did you mean "input" where it says "foreach"?`},
		{"imports: [{path: other.yml, alias: deploy}]\ncommands: [{workflow: deploi}]", "unknown-workflow", "flow.yml:2:23", `did you mean "deploy"?`},
		{"imports: [{path: ci.yml, alias: ci}]\ncommands: [{workflow: ci, with: {levle: x}}]", "unknown-parameter", "flow.yml:2:34", `did you mean "level"?`},
		{"imports: [{path: ci.yml, alias: ci}]\ncommands: [{workflow: ci, with: {speling: x}}]", "unknown-parameter", "flow.yml:2:34", "write ${speling} in"},
		{"template: {name: ci, source: ci.yml, with: {speling: x}}", "unknown-parameter", "flow.yml:1:45", "write ${speling} in"},
		{"templates: {t: {parameters: [a], steps: [{shell: '${a}'}]}}\ncommands: [{use: t, with: {a: 1, speling: '${ARG}'}}]", "unknown-parameter", "flow.yml:2:34", "write ${speling} in"},
		{"workflows: {main: {source: ci.yml, with: {speling: x}}}", "unknown-parameter", "flow.yml:1:43", "write ${speling} in"},
		{"templates: {a: {parameters: [x], steps: [{shell: '${x}'}]}}\ncommands: [{shell: b}, {use: a}]", "missing-parameter", "flow.yml:2:30", "with: of the step"},
		{"commands: [{foreach: {items: [a], steps: []}}]", "empty-action", "flow.yml:1:35", "do: [{shell:"},
	} {
		_, problems := parse(t, c.src)
		var seen []string
		for _, p := range problems {
			if p.Severity == diag.Error || p.Code == c.code {
				seen = append(seen, p.Code)
			}
		}
		if len(seen) != 1 || seen[0] != c.code {
			t.Errorf("%s\nhas %v, want %s alone:\n%v", c.src, seen, c.code, problems)
			continue
		}
		for _, p := range problems {
			if p.Code == c.code && (p.Pos.String() != c.at || !strings.Contains(p.Suggestion, c.suggestion)) {
				t.Errorf("%s\nis told of at %s with %q", c.src, p.Pos, p.Suggestion)
			}
		}
	}
}

// TestTheirTimeoutIsProposed: the timeout of another program is proposed with its number.
func TestTheirTimeoutIsProposed(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"- {shell: a, timeout-minutes: 10}":   "write timeout: 10m",
		"- {shell: a, timeoutSec: 45}":        "write timeout: 45s",
		"- {shell: a, timeout-minutes: '$x'}": "write timeout: 5m",
	} {
		_, problems := workflow.Parse("w.yml", []byte(src), workflow.Options{})
		if len(problems) == 0 || problems[0].Suggestion != want {
			t.Errorf("%s: %v, want the suggestion %q", src, problems, want)
		}
	}
}
