package engine_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// sameFlows are workflows whose steps write down in $EV what they read. They decide by nothing
// that an execution which is cut short leaves behind.
var sameFlows = map[string]struct {
	files  map[string]string // beside the workflow file
	text   string
	git    bool
	exact  bool // what is lost of the record changes what the steps read
	status int
}{
	"what steps gave": {text: `
secrets: {S: hush-hush-hush}
env: {T: hush-hush-hush, EVIL: "a'b\"c $x ;"}
commands:
  - id: one
    shell: printf 'out\377 %s' "$T$EVIL"; printf 'err %s' "$T" >&2
    capture: o
    capture_streams: both
  - shell: 'echo "1 ${one.output} ${one.stderr} ${one.exit_code} ${one.success} ${o} ${o.stderr} ${o.exit_code} ${last.output} ${shell.output}" >> $EV/log'
  - {shell: 'printf ''{"b":[1.50,12345678901234567890],"a":"x y"}''', capture: j, capture_format: json}
  - {shell: 'printf "l1\nl2 \n"', capture: l, capture_format: lines}
  - {shell: 'echo 3.10', capture: n, capture_format: number}
  - {shell: 'exit 1', capture: yes, capture_format: boolean, continue_on_error: true, fail_workflow: false}
  - shell: 'echo "2 ${j} ${j.b[1]} ${j.a} ${l} ${l[1]} ${n} ${yes} ${last.exit_code} ${last.success}" >> $EV/log'
  - {id: rep, shell: 'echo made > one.md; echo made > two.md; echo ''{"name":"v"}''', outputs: {report: {file_pattern: '*.md'}, name: {json_path: $.name}, text: {value: 'of ${shell.output}'}}}
  - shell: 'echo "3 ${rep.report} ${rep.name} ${rep.text}" >> $EV/log'
  - write_file: {path: w.txt, content: 'w ${n} ${T}'}
  - {shell: 'cat w.txt', output_file: copy.txt}
  - shell: 'echo "4 $(cat copy.txt) ${write_file.output} ${last.output}" >> $EV/log'
`},
	"how steps failed": {text: `
secrets: {S: hush-hush-hush}
env: {T: hush-hush-hush}
commands:
  - shell: printf "out\\377$T"; printf "err $T" >&2; exit 3
    capture: c
    on_failure:
      capture: {why: error.message, what: error.output}
      fail_workflow: false
      commands:
        - shell: 'echo "1 ${error.class} ${error.message} ${error.exit_code} ${error.output} ${error.stderr} ${error.step} ${error.attempts} ${shell.output} ${c} ${c.exit_code}" >> $EV/log'
  - shell: 'echo "2 ${why} ${what} ${last.exit_code} ${c.exit_code}" >> $EV/log'
  - shell: 'echo "3 $BIDE_ATTEMPT $BIDE_LAST_EXIT $BIDE_LAST_ERROR $MODEL" >> $EV/log; echo "try $BIDE_ATTEMPT" >&2; test $BIDE_ATTEMPT = 3'
    retry: {attempts: 4, initial_delay: 1ms}
    env_by_attempt: [{MODEL: small}, {MODEL: "m ${last.exit_code}"}, {MODEL: large}]
  - shell: 'echo "4 ${last.success} ${last.stderr}" >> $EV/log'
  - shell: exit 5
    on_exit_code: {5: {shell: 'echo "5 ${error.exit_code} ${error.class}" >> $EV/log'}}
    continue_on_error: true
    fail_workflow: false
  - shell: exit 6
    retry: {attempts: 2, initial_delay: 1ms, on_failure: {fallback: {shell: 'echo "6 ${error.exit_code} ${error.attempts}" >> $EV/log; echo instead'}}}
  - shell: 'echo "7 ${last.output}" >> $EV/log'
  - shell: 'echo once'
    on_success: {shell: 'echo "8 ${last.output}" >> $EV/log'}
  - test: {command: 'test -e fixed', on_failure: {max_attempts: 3, commands: [{shell: 'echo "9 ${test.attempt} ${test.exit_code} $TEST_ATTEMPT" >> $EV/log; test ${test.attempt} != 2 || touch fixed'}]}}
  - shell: 'echo "10 ${last.success}" >> $EV/log'
`},
	"how a step with much to say failed": {text: `
secrets: {S: hush-hush-hush}
env: {T: hush-hush-hush}
commands:
  - shell: yes "$T \\377" | head -c 40001; yes "e $T" | head -c 20001 >&2; exit 3
    capture: c
    retry: {attempts: 2, initial_delay: 1ms}
    on_failure:
      max_attempts: 2
      capture: {what: error.output}
      commands:
        - shell: 'echo "1 $(printf "%s" "${error.output}" | cksum) $(printf "%s" "${error.stderr}" | cksum) $(printf "%s" "${c}" | cksum)" >> $EV/log'
  - shell: 'echo "2 $(printf "%s" "${what}" | cksum) $(printf "%s" "${c.output}" | cksum) $(printf "%s" "${last.stderr}" | cksum)" >> $EV/log'
`, status: 3},
	"checks and goals": {exact: true, text: `
commands:
  - shell: 'touch a'
    validate:
      shell: 'n=$(ls x* 2>/dev/null | wc -l); printf ''{"score":%d,"missing":["m%d"],"status":"incomplete"}'' $((n*40)) $n'
      threshold: 80
      on_incomplete:
        max_attempts: 4
        commands: [{shell: 'echo "1 ${validation.score} ${validation.missing} ${validation.attempt}" >> $EV/log; touch x${validation.attempt}'}]
  - shell: 'echo "2 ${validation.score} ${validation.missing_count} ${validation.status}" >> $EV/log'
  - goal_seek: {goal: 'be good', shell: 'echo "3 ${goal.text} ${goal.attempt}" >> $EV/log; touch g${goal.attempt}', validate: {shell: 'n=$(ls g* | wc -l); echo "score: $((n*50))"'}, threshold: 90, max_attempts: 4}
  - shell: 'echo "4 ${goal_seek.score} ${goal_seek.attempts}" >> $EV/log'
  - shell: 'test -e s && echo "5 second" >> $EV/log || { touch s; exit 1; }'
    retry: {attempts: 5, initial_delay: 1ms}
    step_validate: {commands: ['test -s $EV/log'], max_attempts: 2, retry_delay: 1ms}
`},
	"parts": {files: map[string]string{
		"sub.yml": "parameters: {required: [p]}\ncommands:\n  - {id: s, shell: 'printf \"sub %s\" ${p}', capture: inner}\n  - shell: 'echo \"sub ${inner} ${s.output}\" >> $EV/log; echo \"gave ${inner}\"'\n",
		"p.cst":   "in n: Int\nin s: String\nbig = n + 1\ntext = trim(s)\nout big\nout text\n",
	}, text: `
imports: [{path: sub.yml, alias: sub}]
commands:
  - {shell: 'printf 9007199254740993', capture: big, capture_format: number}
  - {workflow: sub, with: {p: 'x ${big}'}, capture: got}
  - shell: 'echo "1 ${got} ${last.output}" >> $EV/log'
  - {pipeline: p.cst, with: {n: '${big}', s: '  y '}, id: pipe}
  - shell: 'echo "2 ${pipe.output} ${pipeline.output}" >> $EV/log'
  - id: loop
    foreach: [p, q, r]
    parallel: 2
    do:
      - {shell: 'echo "${item}${index}"', capture: each}
      - foreach: {foreach: [1, 2], do: [{shell: 'echo "3 ${each} ${item}" >> $EV/log; echo "${each}${item}"'}]}
  - shell: 'echo "4 ${loop.output} ${foreach.results[1].output} ${foreach.succeeded} ${foreach.total}" >> $EV/log'
`},
	"calls of a pipeline": {files: map[string]string{
		"modules.yml": `modules:
  - {name: Echo, params: {s: String, n: Int, f: Float}, result: {s: String, n: Int, f: Float, l: List<Int>}, shell: 'echo "1 $INPUT_S $INPUT_N $INPUT_F" >> $EV/log; printf ''{"s":"%s","n":%s,"f":%s,"l":[%s,-7]}'' "$INPUT_S" $INPUT_N $INPUT_F $INPUT_N'}
  - {name: Third, params: {s: String}, result: String, shell: 'echo "2 $INPUT_S $BIDE_ATTEMPT $BIDE_LAST_EXIT" >> $EV/log; test $BIDE_ATTEMPT = 3 || exit 7; echo "t $INPUT_S"'}
  - {name: Fails, params: {s: String}, result: String, shell: 'echo "why $INPUT_S" >&2; exit 4'}
`,
		"p.cst": `use stdlib.collection
in s: String
in n: Int
a = Echo(s, n, 1.50)
b = map(a.l, (x) => Echo("x", x, 2.0))
c = Third(a.s) with retry: 3, delay: 1ms
d = Fails(c) with fallback: error.message
e = Fails(c) with retry: 1, delay: 1ms, fallback: error.class
f = map(a.l, (x) => Third("y") with retry: 2, delay: 1ms, fallback: error.class)
out a
out b
out c
out d
out e
out f
`,
	}, text: `
secrets: {S: hush-hush-hush}
env: {T: hush-hush-hush}
commands:
  - {pipeline: p.cst, with: {s: 'é ${T}', n: 9007199254740993}, id: p}
  - shell: 'echo "3 ${p.output}" >> $EV/log'
`},
	"a map": {text: `
name: m
mode: mapreduce
secrets: {S: hush-hush-hush}
env: {T: hush-hush-hush}
setup:
  - {shell: 'echo "set up"', capture: s}
map:
  input: [{id: a, n: 12345678901234567890, w: hush-hush-hush}, {id: b, n: 1.50, w: "x'y"}, {id: c, n: 3, w: z}, {id: d, n: 4, w: u}]
  max_parallel: 2
  agent_template:
    - {shell: 'printf "%s" "${item.n} ${item.w} ${s}"', capture: own}
    - shell: 'echo "1 ${item.id} ${own} ${item_index} $BIDE_ATTEMPT $BIDE_LAST_EXIT" >> $EV/log; echo "out ${own}"; test ${item.id} != d && { test ${item.id} != c || test $BIDE_ATTEMPT -gt 1; }'
reduce:
  - {shell: 'printf "%s" "${map.results_json}" > results.json; echo "2 ${map.successful} ${map.failed} ${map.total} ${map.results[0].output} ${map.results[3].status} ${s}" >> $EV/log', capture: r}
  - shell: 'echo "3 ${r.success} ${last.exit_code}" >> $EV/log'
error_policy: {on_item_failure: {custom: mend}, retry_config: {attempts: 2, initial_delay: 1ms}}
handlers:
  mend:
    - {shell: 'echo mended', capture: how}
    - shell: 'echo "4 ${item.id} ${error.exit_code} ${error.class} ${error.attempts} ${error.message} ${how} ${own}" >> $EV/log'
`, status: 3},
	"the end of a run": {text: `
commands:
  - {shell: 'echo a', capture: a}
  - {shell: 'echo "no $(echo more)" >&2; exit 9', id: bad, on_failure: {fail_workflow: true, strategy: cleanup, commands: [{shell: 'echo "1 ${error.exit_code} ${a}" >> $EV/log'}]}}
finally:
  - {shell: 'echo fin', capture: f}
  - shell: 'echo "2 ${workflow.status} ${workflow.class} ${workflow.message} ${f} ${a} ${last.output}" >> $EV/log'
`, status: 1},
	"items in worktrees": {git: true, exact: true, text: `
name: w
mode: mapreduce
isolation: worktree
setup:
  - {shell: 'echo 1 > seed.txt', auto_commit: true}
map:
  input: [{id: a}, {id: b}, {id: c}]
  max_parallel: 1
  agent_template:
    - {shell: 'echo ${item.id} > ${item.id}.txt', auto_commit: true, capture: made}
    - shell: 'echo "1 ${item.id} ${step.files_added} ${step.commit_count} $(cat seed.txt)" >> $EV/log; test ${item.id} != b || test $BIDE_ATTEMPT -gt 1'
    - {shell: 'printf "%s\n2\n" ${item.id} > ${item.id}.txt'}
    - shell: 'echo "2 ${item.id} ${step.files_modified} ${step.insertions} ${last.success}" >> $EV/log'
reduce:
  - shell: 'echo "3 ${map.results[1].files_modified} ${map.results[0].status} ${map.results[1].attempts} $(cat *.txt | sort | tr "\n" " ")" >> $EV/log'
error_policy: {retry_config: {attempts: 2, initial_delay: 1ms}}
`, status: 0},
	"a merge": {git: true, exact: true, text: `
name: m
mode: mapreduce
isolation: worktree
map:
  input: [{id: a}, {id: b}]
  max_parallel: 1
  agent_template:
    - {shell: 'echo ${item.id} > ${item.id}.txt', auto_commit: true}
merge:
  - {shell: 'echo before', capture: m}
  - shell: 'echo "1 ${merge.modified_files} ${merge.file_count} ${merge.target_branch} ${merge.commit_count} ${map.successful} ${m} $(grep -c item_id $BIDE_RESULTS_FILE)" >> $EV/log'
`},
	"a merge after reduce": {git: true, exact: true, text: `
name: m
mode: mapreduce
isolation: worktree
map:
  input: [{id: a}, {id: b}]
  agent_template:
    - {shell: 'echo ${item.id} > ${item.id}.txt', auto_commit: true}
reduce:
  - {shell: 'echo 2 > r.txt; echo reduced', auto_commit: true, capture: r}
merge:
  - shell: 'echo "1 ${merge.file_count} ${merge.commit_count} ${map.total} ${r} $(grep -c item_id $BIDE_RESULTS_FILE)" >> $EV/log'
`},
	"a repository": {git: true, exact: true, text: `
commands:
  - {shell: 'echo 1 > a.txt; echo 2 > b.txt', auto_commit: true}
  - shell: 'echo "1 ${step.files_added} ${step.files_modified} ${step.commit_count} ${step.insertions} ${workflow.commit_count}" >> $EV/log'
  - {shell: 'echo 3 > a.txt; rm -f b.txt', auto_commit: true}
  - shell: 'echo "2 ${step.files_modified} ${step.files_deleted} ${step.commit_count} ${workflow.files_added} ${workflow.commit_count}" >> $EV/log'
  - {shell: 'test -e d.txt && touch e.txt || { echo 5 > d.txt; exit 1; }', retry: {attempts: 2, initial_delay: 1ms}, auto_commit: true}
  - shell: 'echo "r ${step.files_added} ${step.commit_count}" >> $EV/log'
  - {shell: 'echo 4 > c.txt'}
  - shell: 'echo "3 ${step.files_added} ${git.untracked_files}" >> $EV/log'
`},
}

// TestAKillChangesNoValue: whenever a run is killed or interrupted, what its steps read after a resume is what
// they read in a run that nobody ended. The normal run takes some of the events, from a random one on.
func TestAKillChangesNoValue(t *testing.T) {
	t.Parallel()
	for name, flow := range sameFlows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := every(17)
			if flow.git {
				by = every(61)
			}
			fresh := func() *bench { return flowBench(t, flow.git, flow.files, flow.text) }
			b := fresh()
			p := b.start("bide", "run", "-q", "-y", "flow.yml")
			if status := p.wait(t); status != flow.status {
				t.Fatalf("status %d, want %d\n%s\n%s", status, flow.status, p.text(), b.read())
			}
			want := b.read()
			events, _ := b.recordedEvents()
			all := len(events)
			for at := 1 + rand.IntN(by); ; at += by {
				b, when := fresh(), []string{"committed", "interrupted", "at-once"}[at/by%3]
				if flow.exact && when == "at-once" {
					when = "committed"
				}
				p := b.start("die-at", strconv.Itoa(at), when, "-y")
				status := p.wait(t)
				b.quiet()
				last := status != -1 && (when != "interrupted" || at > all)
				if status == -1 || status == 130 {
					p = b.start("bide", "resume", "-q")
					status = p.wait(t)
					b.quiet()
					if strings.Contains(p.text(), "there is nothing to resume") {
						status = flow.status
					}
				}
				if got := b.read(); got != want || status != flow.status {
					t.Fatalf("ended at event %d, %s: status %d, want %d; the steps read\n%s\nwant\n%s\n%s", at, when, status, flow.status, got, want, p.text())
				}
				if last {
					return
				}
			}
		})
	}
}

// TestErrorTimestamp: error.timestamp is the time at which the attempt failed, before and
// after a kill, in a handler and in that of an exit status.
func TestErrorTimestamp(t *testing.T) {
	t.Parallel()
	const later = `s=$(date +%s); while test "$(date +%s)" = "$s"; do sleep 0.05; done`
	const tell = "      - shell: echo '${error.timestamp}' >>told\n"
	for name, text := range map[string]string{
		"handler": "- shell: exit 3\n  on_failure:\n      - shell: |\n          " + later + "\n" + tell,
		"rerun":   "- shell: exit 3\n  on_failure:\n    max_attempts: 1\n    fail_workflow: false\n    commands:\n      - shell: |\n          " + later + "\n" + tell,
		"status":  "- shell: exit 3\n  on_exit_code:\n    3:\n      - shell: |\n          " + later + "\n" + tell,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at++ {
				b := newBench(t)
				b.write("flow.yml", text)
				p := b.start("die-at", strconv.Itoa(at), "committed", "-y")
				killed := p.wait(t) == -1
				if killed {
					p = b.start("bide", "resume", "-q")
					p.wait(t)
				}
				events, _ := b.recordedEvents()
				var want []string
				for _, e := range events {
					if e.Type == event.AttemptFailed && e.ExitCode == 3 {
						want = []string{e.Time.UTC().Format(time.RFC3339)}
					}
				}
				told, err := os.ReadFile(filepath.Join(b.dir, "told"))
				if err != nil {
					t.Fatal(err)
				}
				// What a kill cut off is told again.
				if got := slices.Compact(strings.Fields(string(told))); len(want) == 0 || !slices.Equal(got, want) {
					t.Errorf("killed at event %d: told %q, want %q\n%s", at, got, want, p.text())
				}
				if !killed {
					return
				}
			}
		})
	}
}

// flowBench is a bench with a flow.yml and more files.
func flowBench(t *testing.T, git bool, files map[string]string, text string) *bench {
	t.Helper()
	b := newBench(t)
	if git {
		b.git()
	}
	for file, text := range files {
		b.write(file, text)
	}
	b.write("flow.yml", text)
	return b
}

var took = regexp.MustCompile(`,"duration_ms":\d+`)

// read is what the steps of a run have written down, each text once, and the results.
func (b *bench) read() string {
	lines := b.lines()
	slices.Sort(lines)
	text := strings.Join(slices.Compact(lines), "\n")
	results, err := os.ReadFile(filepath.Join(b.dir, "results.json"))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, ".git")); err == nil {
		text += "\n" + b.output("git ls-tree -r main && git status --porcelain --untracked-files=no")
	}
	return fmt.Sprintf("%q", text+"\n"+took.ReplaceAllString(string(results), ""))
}
