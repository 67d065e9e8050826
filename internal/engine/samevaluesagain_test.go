package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/letters"
)

// dieAgain is a life of a run that has ended: rerun and the step, from and the step, dlq and
// the data of items by index, or force.
func dieAgain(ctx context.Context, opt engine.Options, args []string) int {
	var sum *engine.Summary
	var err error
	switch args[0] {
	case "rerun", "from":
		sum, err = engine.Rerun(ctx, "", args[1], args[0] == "from", opt)
	case "dlq":
		q := letters.Requeue{Edited: map[int]json.RawMessage{}}
		for _, arg := range args[1:] {
			index, data, _ := strings.Cut(arg, "=")
			i, err := strconv.Atoi(index)
			if err != nil {
				return complain(err)
			}
			q.Edited[i] = json.RawMessage(data)
		}
		sum, err = engine.RetryDeadLetters(ctx, "", opt, q)
	case "force":
		opt.Force = true
		sum, err = engine.Resume(ctx, "", opt)
	default:
		err = fmt.Errorf("no life is called %s", args[0])
	}
	if err != nil {
		return complain(err)
	}
	return sum.ExitStatus()
}

// steps of the flow that is run again: $EV/world is old in the first life, and new later.
const againSteps = `
secrets: {S: hush-hush-hush}
env: {T: hush-hush-hush}
imports: [{path: sub.yml, alias: sub}]
commands:
  - {id: a, shell: 'printf "a\377 $(cat $EV/world) $T"', capture: a}
  - {id: b, shell: 'echo "b ${a} $(cat $EV/world)" | tee -a $EV/log; echo "try $BIDE_ATTEMPT" >&2; test $BIDE_ATTEMPT = 2', capture: b, retry: {attempts: 3, initial_delay: 1ms}}
  - id: c
    foreach: [1, 2]
    do: [{shell: 'echo "c ${item} ${b} $(cat $EV/world)" | tee -a $EV/log'}]
  - {id: d, shell: 'echo "d $(cat $EV/world)"; test $(cat $EV/world) = new', on_failure: {fail_workflow: false, capture: {why: error.output}, commands: [{shell: 'echo "dh ${error.output} ${error.exit_code}" >> $EV/log'}]}}
  - {id: e, workflow: sub, with: {p: '${b}'}, capture: got}
  - {id: f, pipeline: p.cst, with: {n: 4, s: ' ${T} '}}
  - {id: g, shell: 'test $(cat $EV/world) = new', continue_on_error: true}
  - {id: h, shell: 'echo "h ${a} ${b} ${c.output} ${d.output} ${d.success} ${why} ${got} ${f.output} ${g.success} ${last.output}" >> $EV/log'}
finally:
  - {id: i, shell: 'echo "i ${a} ${got} ${workflow.status}" >> $EV/log'}
`

var againFiles = map[string]string{
	"sub.yml": "parameters: {required: [p]}\ncommands:\n  - {id: s, shell: 'printf \"sub %s %s\" ${p} $(cat $EV/world)', capture: inner}\n  - {id: t, shell: 'echo \"t ${inner}\" >> $EV/log; echo \"gave ${inner}\"'}\n",
	"p.cst":   "in n: Int\nin s: String\nbig = n + 1\ntext = trim(s)\nout big\nout text\n",
}

const againMap = `
name: m
mode: mapreduce
secrets: {S: hush-hush-hush}
env: {T: hush-hush-hush}
setup:
  - {shell: 'echo "set up $(cat $EV/world)"', capture: s}
map:
  input: [{id: a, n: 12345678901234567890}, {id: b, n: 1.50}, {id: c, n: 3}, {id: d, n: 4}]
  max_parallel: 1
  agent_template:
    - {shell: 'printf "%s" "${item.n} ${s} $(cat $EV/world) $T"', capture: own, ISO}
    - shell: 'echo "1 ${item.id} ${own} ${item_index} $BIDE_ATTEMPT" >> $EV/log; echo "out ${own}"; case ${item.id} in a) ;; b) test $(cat $EV/world) = new;; c) test $(cat $EV/world) = new && test $BIDE_ATTEMPT != 1 ;; d) test ${item.n} = 5;; esac'
    - {shell: 'echo "2 ${item.id} ${last.output}" >> $EV/log'}
reduce:
  - {shell: 'echo "3 ${map.successful} ${map.failed} ${map.total} ${map.results[0].output} ${map.results[1].status} ${map.results[3].status} ${s} $(cat $EV/world)" >> $EV/log', capture: r, ISR}
  - shell: 'echo "4 ${r.success} ${last.exit_code} LS" >> $EV/log'
error_policy: {retry_config: {attempts: 2, initial_delay: 1ms}}
`

const againCommits = `
commands:
  - {id: a, shell: 'echo 1 > a.txt', auto_commit: true}
  - {id: b, shell: 'cat $EV/world > b.txt; echo "b ${step.files_added}" >> $EV/log', auto_commit: true}
  - {id: c, shell: 'cat a.txt b.txt > c.txt; cat $EV/world > c2.txt; echo "c ${workflow.commit_count}" >> $EV/log', auto_commit: true}
  - {id: d, shell: 'echo "d $(cat *.txt | tr "\n" " ") ${step.files_added} ${git.untracked_files}" >> $EV/log'}
`

// sameAgain are lives of runs that have ended, of which what they read is written down.
var sameAgain = map[string]struct {
	files  map[string]string
	text   string
	then   string // the text of the second life; "": it is the same
	git    bool
	life   []string
	first  int // the statuses of the first life and of the second
	status int
}{
	"from the first step":   {files: againFiles, text: againSteps, life: []string{"from", "a"}},
	"from a foreach on":     {files: againFiles, text: againSteps, life: []string{"from", "c"}},
	"a step alone":          {files: againFiles, text: againSteps, life: []string{"rerun", "b"}},
	"a tolerated step":      {files: againFiles, text: againSteps, life: []string{"rerun", "g"}},
	"a part":                {files: againFiles, text: againSteps, life: []string{"rerun", "e"}},
	"dead letters":          {text: strings.NewReplacer(", ISO", "", ", ISR", "", "LS", "").Replace(againMap), life: []string{"dlq", `4={"id": "d", "n": 5, "big": 9007199254740993}`}, first: 3},
	"letters in worktrees":  {git: true, text: strings.NewReplacer("own, ISO", "own}\n    - {shell: 'cat $EV/world > ${item.id}.txt', auto_commit: true", "r, ISR", "r}\n  - {shell: 'cat *.txt > all.md', auto_commit: true", "LS", `$(cat *.txt | tr "\n" " ")`).Replace(againMap), life: []string{"dlq", `4={"id": "d", "n": 5, "big": 9007199254740993}`}, first: 3},
	"a step that commits":   {git: true, text: againCommits, life: []string{"rerun", "b"}},
	"from one that commits": {git: true, text: againCommits, life: []string{"from", "b"}},
	"a list of workflows": {files: map[string]string{
		"one.yml": "commands:\n  - {id: s, shell: 'echo \"one $(cat $EV/world)\" | tee -a $EV/log', capture: first}\n  - {id: t, shell: 'echo \"two ${first}\" | tee -a $EV/log', capture: second}\n",
		"two.yml": "parameters: {required: [p]}\ncommands:\n  - {id: u, shell: 'echo \"three ${p} $(cat $EV/world)\" >> $EV/log'}\n",
	}, text: "workflows:\n  a: {source: one.yml, outputs: [second]}\n  b: {source: two.yml, inputs: {p: a.second}, depends_on: [a]}\n", life: []string{"from", "s"}},
	"from reduce":     {text: strings.NewReplacer(", ISO", "", ", ISR", "", "LS", "").Replace(againMap), life: []string{"from", "reduce[0]"}, first: 3, status: 3},
	"a step of setup": {text: strings.NewReplacer(", ISO", "", ", ISR", "", "LS", "").Replace(againMap), life: []string{"rerun", "setup[0]"}, first: 3, status: 3},
	"calls of a pipeline": {files: map[string]string{
		"modules.yml": `modules:
  - {name: Echo, params: {s: String, n: Int}, result: {s: String, n: Int, l: List<Int>}, shell: 'echo "1 $INPUT_S $INPUT_N $(cat $EV/world)" >> $EV/log; printf ''{"s":"%s","n":%s,"l":[%s,-7]}'' "$INPUT_S$(cat $EV/world)" $INPUT_N $INPUT_N'}
  - {name: Third, params: {s: String}, result: String, shell: 'echo "2 $INPUT_S $BIDE_ATTEMPT" >> $EV/log; test $BIDE_ATTEMPT != 1 || exit 7; echo "t $INPUT_S"'}
  - {name: Fails, params: {s: String}, result: String, shell: 'echo "why $INPUT_S" >&2; exit 4'}
`,
		"p.cst": `use stdlib.collection
in s: String
in n: Int
a = Echo(s, n)
b = map(a.l, (x) => Echo("x", x))
c = Third(a.s) with retry: 3, delay: 1ms
d = Fails(c) with fallback: error.message
out a
out b
out c
out d
`}, text: "commands:\n  - {pipeline: p.cst, with: {s: 'é', n: 9007199254740993}, id: p}\n  - {shell: 'echo \"3 ${p.output} $(cat $EV/world)\" >> $EV/log'}\n", life: []string{"from", "p"}},
	"with a changed file": {files: againFiles, first: 1, text: strings.Replace(againSteps, ", continue_on_error: true", "", 1),
		then: strings.Replace(strings.Replace(againSteps, ", continue_on_error: true", "", 1), "  - {id: g", "  - {id: f2, shell: 'echo \"f2 ${a} ${f.output}\" | tee -a $EV/log', capture: more}\n  - {id: g", 1), life: []string{"force"}},
}

// TestAKillOfASecondLifeChangesNoValue: a run has ended; steps or dead letters of it run again, in
// a world that has changed, and are killed or interrupted at each event. After a resume they have
// read what they read in a life that nobody ended. The normal run takes some of the events,
// from a random one on.
func TestAKillOfASecondLifeChangesNoValue(t *testing.T) {
	t.Parallel()
	for name, flow := range sameAgain {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := every(47)
			if flow.git {
				by = every(307)
			}
			ended := func() (*bench, int) {
				b := flowBench(t, flow.git, flow.files, flow.text)
				b.world("old")
				p := b.start("bide", "run", "-q", "-y", "flow.yml")
				if status := p.wait(t); status != flow.first {
					t.Fatalf("the first life: status %d, want %d\n%s\n%s", status, flow.first, p.text(), b.read())
				}
				events, _ := b.recordedEvents()
				b.world("new")
				if flow.then != "" {
					b.write("flow.yml", flow.then)
				}
				return b, len(events)
			}
			life := func(b *bench, at int, when string) *process {
				return b.start("die-at", append([]string{strconv.Itoa(at), when, "-y"}, flow.life...)...)
			}
			b, before := ended()
			p := life(b, math.MaxInt64, "committed")
			if status := p.wait(t); status != flow.status {
				t.Fatalf("status %d, want %d\n%s\n%s", status, flow.status, p.text(), b.read())
			}
			want := b.read()
			for at := before + 1 + rand.IntN(by); ; at += by {
				b, _ := ended()
				when := []string{"committed", "interrupted", "at-once"}[at/by%3]
				p := life(b, at, when)
				status := p.wait(t)
				b.quiet()
				last := status != -1 && status != 130
				if !last {
					if at%2 == 0 && flow.life[0] != "dlq" && !flow.git {
						p = life(b, math.MaxInt64, "committed") // which runs it once more, where it has ended
					} else {
						p = b.start("bide", "resume", "-q", "-y", "--force")
					}
					status = p.wait(t)
					b.quiet()
					if strings.Contains(p.text(), "there is nothing to resume") {
						status = flow.status
					}
				}
				if got := b.read(); got != want || status != flow.status {
					t.Fatalf("ended at event %d (of the second life %d), %s: status %d, want %d; the steps read\n%s\nwant\n%s\n%s", at, at-before, when, status, flow.status, got, want, p.text())
				}
				if last {
					return
				}
			}
		})
	}
}

// world says what world the steps of the next life are in.
func (b *bench) world(is string) {
	b.t.Helper()
	if err := os.WriteFile(b.ev+"/world", []byte(is), 0o644); err != nil {
		b.t.Fatal(err)
	}
}
