package engine_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// roundsFlow is a workflow with rounds, and what must be true after a run of it was killed
// at some event, resumed, and has ended.
type roundsFlow struct {
	text   string
	files  []string // files that exist before, below ev
	git    bool     // in a repository
	status int      // of a completed run
	check  func(b *bench, events []event.Event) (wrong string)
	// exact says that the log may have more lines than the check allows if a part of the
	// record is lost.
	exact bool
}

// moving moves a file of the inbox in two steps. Each step can tell that it is done
// already, because it may be cut short after its effect.
const moving = `
      - shell: test -e $EV/work/${item} || test -e $EV/done/${item} || mv $EV/inbox/${item} $EV/work/${item}
      - shell: 'echo done ${item} >> $EV/log; test -e $EV/done/${item} || mv $EV/work/${item} $EV/done/${item}'`

func moved(names ...string) func(*bench, []event.Event) string {
	return func(b *bench, _ []event.Event) string {
		if got := b.output("ls " + b.ev + "/done"); got != strings.Join(names, "\n") {
			return fmt.Sprintf("done are %q of %q", got, names)
		}
		return ""
	}
}

var roundsFlows = map[string]roundsFlow{
	"moves the files that it lists": {
		text:  "commands:\n  - foreach: ls $EV/inbox\n    do:" + moving + "\n  - shell: test ${foreach.total} = 4",
		files: []string{"inbox/a", "inbox/b", "inbox/c", "inbox/d"},
		check: moved("a", "b", "c", "d"),
	},
	"several at a time": {
		text:  "commands:\n  - foreach: {foreach: ls $EV/inbox, parallel: 2, do: [" + `{shell: 'test -e $EV/work/${item} || test -e $EV/done/${item} || mv $EV/inbox/${item} $EV/work/${item}'}, {shell: 'test -e $EV/done/${item} || mv $EV/work/${item} $EV/done/${item}'}` + "]}",
		files: []string{"inbox/a", "inbox/b", "inbox/c", "inbox/d"},
		check: moved("a", "b", "c", "d"),
	},
	"one inside another": {
		text: "commands:\n  - foreach: ls $EV/boxes\n    do:\n      - shell: 'echo ${item}'\n        capture: box\n      - foreach: ls $EV/boxes/${box}\n        do:\n" +
			"          - shell: test -e $EV/done/${item} || mv $EV/boxes/${box}/${item} $EV/done/${item}\n",
		files: []string{"boxes/x/a", "boxes/x/b", "boxes/y/c"},
		check: moved("a", "b", "c"),
	},
	"inside a map": {
		text: "mode: mapreduce\nmap:\n  input: [{id: x}, {id: y}]\n  max_parallel: 1\n  agent_template:\n    - foreach: ls $EV/boxes/${item.id}\n      do:\n" +
			"        - shell: test -e $EV/done/${foreach.item} || mv $EV/boxes/${item_id}/${foreach.item} $EV/done/${foreach.item}\n",
		files: []string{"boxes/x/a", "boxes/x/b", "boxes/y/c"},
		check: moved("a", "b", "c"),
	},
	"values of all kinds, a secret in one": {
		text: "secrets: {S: hush-hush-hush}\nenv: {T: hush-hush-hush}\ncommands:\n  - foreach: 'echo \"[12345678901234567890, 1.50, [2, 3], \\\"$T\\\", null, \\\"x y\\\"]\"'\n    do:\n      - shell: printf '%s\\n' \"${item}\" | wc -c >> $EV/log\n",
		check: func(b *bench, _ []event.Event) string {
			lines := b.lines()
			slices.Sort(lines)
			if got := strings.Join(strings.Fields(strings.Join(slices.Compact(lines), " ")), " "); got != "1 15 21 4 5" {
				return "the values have " + got + " bytes"
			}
			return ""
		},
	},
	"rounds that fail and may": {
		text:   "commands:\n  - foreach: {foreach: ls $EV/inbox, continue_on_error: true, do: [{shell: 'rm -f $EV/inbox/${item}; echo ${item} >> $EV/log; test ${item} != b'}]}\n  - shell: test ${foreach.succeeded} = 2 && test ${foreach.failed} = 1 && test ${foreach.total} = 3",
		files:  []string{"inbox/a", "inbox/b", "inbox/c"},
		exact:  true,
		check:  func(b *bench, _ []event.Event) string { return twiceAtMost(b, 1) },
		status: 0,
	},
	"a handler of a step that aborts its retries": {
		text:  "commands:\n  - shell: echo try >> $EV/log; exit 7\n    retry: {attempts: 3, initial_delay: 1ms, abort_on: [{exit_code: [7]}]}\n    on_failure: {max_attempts: 4, fail_workflow: true, commands: [{shell: 'echo repair >> $EV/log'}]}\n",
		exact: true,
		check: func(b *bench, events []event.Event) string {
			if e := lastEnd(events, "commands[0]"); e.Attempts != 4 || e.Status != event.Failed {
				return fmt.Sprintf("the step is %s after %d attempts", e.Status, e.Attempts)
			}
			lines := b.lines()
			if n := slices.IndexFunc(events, func(e event.Event) bool { return e.Type == event.StepFinished && e.Step == "commands[0]" }); events[n].Seq != lastEnd(events, "commands[0]").Seq {
				return "" // killed after it had failed: the resume tried it again
			}
			tries := 0
			for i, l := range lines {
				if l == "try" && i > 0 && lines[i-1] == "try" {
					tries++ // an attempt that was cut short
				}
			}
			if n := len(lines); tries > 1 || n < 7 || n > 8 {
				return fmt.Sprintf("the attempts are %q", lines)
			}
			return ""
		},
		status: 1,
	},
	"a handler of a step without a bound": {
		text: "commands:\n  - shell: 'echo x >> $EV/n; test $(wc -l < $EV/n) -ge 7'\n    retry: {attempts: unlimited, initial_delay: 1ms, backoff: fixed, deadline: 1h}\n    on_failure: {max_attempts: 4, commands: [{shell: 'echo repair >> $EV/log'}]}\n",
		check: func(b *bench, events []event.Event) string {
			if e := lastEnd(events, "commands[0]"); e.Status != event.Succeeded || len(b.lines()) > 0 {
				return fmt.Sprintf("the step is %s after %d attempts; the handler did %q", e.Status, e.Attempts, b.lines())
			}
			return ""
		},
	},
	"a handler that makes up for its step": {
		text:  "commands:\n  - shell: echo try >> $EV/log; exit 1\n    retry: {attempts: 2, initial_delay: 1ms}\n    on_failure: {commands: [{shell: 'echo ${error.message} > $EV/said; echo mend >> $EV/log'}]}\n  - shell: echo next >> $EV/log\n",
		exact: true,
		check: func(b *bench, events []event.Event) string {
			if e := lastEnd(events, "commands[0]"); e.Status != event.Succeeded {
				return "the step is " + e.Status
			}
			if said := b.output("cat " + b.ev + "/said"); !strings.Contains(said, "exit status 1") {
				return "the handler reads " + said
			}
			return twiceAtMost(b, 2)
		},
	},
	"outputs that stand in logs": {
		text: "commands:\n  - foreach: {foreach: [a, b, c], do: [{shell: 'yes ${item} | head -c 20001', capture: it}, {shell: 'printf \"%s\" \"${it}\"; echo ${item}'}]}\n    id: loop\n" +
			"  - shell: 'printf \"%s\" \"${foreach.results[1].output}\" > $EV/second; printf \"%s\" \"${loop.output}\" > $EV/all'\n    when: foreach.results[2].output contains \"c\\nc\"\n",
		check: func(b *bench, _ []event.Event) string {
			want := make([]string, 3)
			for i, l := range []string{"a", "b", "c"} {
				want[i] = strings.TrimRight(strings.Repeat(l+"\n", 20000)[:20001], "\n") + l
			}
			for name, text := range map[string]string{"second": want[1], "all": strings.Join(want, "\n")} {
				if got, err := os.ReadFile(filepath.Join(b.ev, name)); err != nil || string(got) != text {
					return fmt.Sprintf("%s has %d bytes of %d: %v", name, len(got), len(text), err)
				}
			}
			return ""
		},
	},
	"outputs and values that are no UTF-8": {
		text: `secrets: {S: hush-hush-hush}
env: {T: hush-hush-hush}
commands:
  - shell: printf "x\\377y$T"; printf 'e\376' >&2
    capture: got
  - shell: printf '%s' "${shell.output}${shell.stderr}" > $EV/last
  - foreach: printf 'a\377\nb\376\n'
    do:
      - shell: printf '%s' "${item}"
      - shell: printf '%s' "${item}${shell.output}" | tee $EV/round-${index}
  - shell: printf "out\\375$T"; printf "err\\374$T" >&2; exit 3
    on_failure: {shell: 'printf %s "${error.output}|${error.stderr}|${error.message}" > $EV/failed'}
  - shell: printf '%s' "${got}${got.stderr}${foreach.results[1].output}" > $EV/got
`,
		check: func(b *bench, _ []event.Event) string {
			for name, want := range map[string]string{
				"last": "x\xffyhush-hush-hushe\xfe", "round-0": "a\xffa\xff", "round-1": "b\xfeb\xfe",
				"failed": "out\xfdhush-hush-hush|err\xfchush-hush-hush|exit status 3: err\xfc***", "got": "x\xffyhush-hush-hushe\xfeb\xfeb\xfe",
			} {
				if got, err := os.ReadFile(filepath.Join(b.ev, name)); err != nil || string(got) != want {
					return fmt.Sprintf("%s has %q, want %q: %v", name, got, want, err)
				}
			}
			return ""
		},
	},
	"numbers as they were written": {
		text: `commands:
  - shell: printf '{"id":9007199254740993,"large":12345678901234567890,"beyond":1e400,"price":1.50,"list":[0.1e1,-0]}'
    capture: got
    capture_format: json
  - shell: printf 3.0
    capture: number
    capture_format: number
  - shell: echo between
  - shell: printf '%s %s %s' '${got}' ${got.id} ${number} > $EV/got
`,
		check: func(b *bench, _ []event.Event) string {
			const want = `{"beyond":1e400,"id":9007199254740993,"large":12345678901234567890,"list":[0.1e1,-0],"price":1.50} 9007199254740993 3.0`
			if got, err := os.ReadFile(filepath.Join(b.ev, "got")); err != nil || string(got) != want {
				return fmt.Sprintf("got has %q, want %q: %v", got, want, err)
			}
			return ""
		},
	},
	"iterations": {
		text: "max_iterations: 4\ncommands:\n  - shell: echo ${workflow.iteration} >> $EV/log; test ${workflow.iteration} -ge 3 || echo x >> first.txt\n",
		git:  true,
		check: func(b *bench, _ []event.Event) string {
			lines := b.lines()
			slices.Sort(lines)
			if got := slices.Compact(lines); !slices.Equal(got, []string{"1", "2", "3"}) {
				return fmt.Sprintf("the iterations are %q", got)
			}
			return ""
		},
	},
}

// twiceAtMost checks that at most one line of the log is there once more than expected.
func twiceAtMost(b *bench, each int) string {
	count, more := map[string]int{}, 0
	for _, l := range b.lines() {
		if count[l]++; count[l] > each {
			more++
		}
	}
	if more > 1 {
		return fmt.Sprintf("the log is %q", b.lines())
	}
	return ""
}

func lastEnd(events []event.Event, step string) (last event.Event) {
	for _, e := range events {
		if e.Type == event.StepFinished && e.Step == step {
			last = e
		}
	}
	return last
}

// TestRoundsKilledAtEachEvent ends a run with rounds at each of its events and resumes it.
// The normal run takes some of them.
func TestRoundsKilledAtEachEvent(t *testing.T) {
	t.Parallel()
	for name, flow := range roundsFlows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := every(7)
			for at := 1 + rand.IntN(by); at < 200; at += by {
				b := newBench(t)
				if flow.git {
					b.git()
				}
				for _, f := range flow.files {
					if err := os.MkdirAll(filepath.Dir(filepath.Join(b.ev, f)), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(b.ev, f), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				for _, d := range []string{"work", "done"} {
					if err := os.Mkdir(filepath.Join(b.ev, d), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				b.write("flow.yml", flow.text)
				when := []string{"at-once", "committed"}[at/by%2]
				if flow.exact {
					when = "committed"
				}
				p := b.start("die-at", strconv.Itoa(at), when)
				status := p.wait(t)
				b.quiet()
				last := status != -1
				if !last {
					r := b.start("bide", "resume", "-q")
					status = r.wait(t)
					b.quiet()
					if strings.Contains(r.text(), "there is nothing to resume") {
						status = flow.status
					}
					p = r
				}
				events, _ := b.recordedEvents()
				wrong := flow.check(b, events)
				if status != flow.status {
					wrong += fmt.Sprintf(" exit status %d, want %d", status, flow.status)
				}
				if wrong != "" {
					t.Fatalf("killed at event %d, %s: %s\n%s", at, when, wrong, p.text())
				}
				if last {
					return
				}
			}
			t.Fatal("the run has no end")
		})
	}
}
