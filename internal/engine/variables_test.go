package engine_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// values writes each text into a file, after the steps of head, and compares the result.
func (b *bench) values(head string, want map[string]string) {
	b.t.Helper()
	var steps strings.Builder
	var names []string
	for text := range want {
		names = append(names, text)
		steps.WriteString("  - write_file: {path: v" + strconv.Itoa(len(names)) + ", content: '" + strings.ReplaceAll(text, "'", "''") + "'}\n")
	}
	r := b.run(head + steps.String())
	r.status(event.Succeeded)
	for i, text := range names {
		got, err := os.ReadFile(filepath.Join(b.dir, "v"+strconv.Itoa(i+1)))
		if err != nil {
			b.t.Fatal(err)
		}
		if string(got) != want[text] {
			b.t.Errorf("%s is %q, want %q", text, got, want[text])
		}
	}
}

const prepared = `
env: {LEVEL: 3, NAME_: x}
commands:
  - shell: cat doc.json
    capture: doc
    capture_format: json
  - shell: printf 'one\ntwo\n'; echo bad >&2; exit 3
    id: step-1
    continue_on_error: true
    capture: got
`

const document = `{"n": 10, "f": 1.50, "big": 12345678901234567890, "e": 1e3, "t": true, "z": null, "s": "a b", "": 1,
 "list": [1, "b", 2.0], "objs": [{"p": "x", "q": 1}, {"p": "y"}], "o": {"k": "v", "d": {"e": [7]}}, "a b": {"c-d": 5}, "empty": [], "files": ["a.go", "b.md", "c.go"]}`

// TestValuesReadAsWritten: how each kind of value is written into a text.
func TestValuesReadAsWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("doc.json", document)
	b.values(prepared, map[string]string{
		"${doc.n} ${doc.f} ${doc.big} ${doc.e}": "10 1.50 12345678901234567890 1e3",
		"${doc.t}|${doc.z}|${doc.s}":            "true||a b",
		"${doc.list}":                           "1, b, 2.0",
		"${doc.objs}":                           `[{"p":"x","q":1},{"p":"y"}]`,
		"${doc.o}":                              `{"d":{"e":[7]},"k":"v"}`,
		"${doc.o.d.e[0]}":                       "7",
		"${doc.objs[1].p}":                      "y",
		"${doc.objs[*].p}":                      "x, y",
		`${doc["a b"].c-d}`:                     "5",
		"${doc.list|json}":                      `[1,"b",2.0]`,
		"${doc.s|json}":                         `"a b"`,
		"${doc.list|lines}":                     "1\nb\n2.0",
		"${doc.nothing|default:none}":           "none",
		"${doc.nothing:-none of ${doc.n}}":      "none of 10",
		"${doc.files:*.go}":                     "a.go, c.go",
		"${doc.files:json}":                     `["a.go","b.md","c.go"]`,
		"${doc.empty}":                          "",
		"${got}":                                "one\ntwo",
		"${got.output}":                         "one\ntwo",
		"${got.stderr} ${got.exit_code} ${got.success}":                  "bad 3 false",
		"${step-1.output|lines} ${step-1.exit_code}":                     "one\ntwo 3",
		"${shell.exit_code} ${shell.stderr}":                             "3 bad",
		"${LEVEL} ${env.LEVEL} ${env:LEVEL} $LEVEL":                      "3 3 3 3",
		"${UNKNOWN} $1 ${arr[0]} ${V%.*} $(date) ${#x}":                  "${UNKNOWN} $1 ${arr[0]} ${V%.*} $(date) ${#x}",
		"$$LEVEL $${LEVEL} \\${LEVEL}":                                   "$LEVEL ${LEVEL} ${LEVEL}",
		"${NOT_THERE:-d} ${LEVEL:-d} ${env.NOT_THERE:-e}":                "d 3 e",
		"${workflow.iteration} ${doc.objs[5].p:-none} ${doc.objs[-1].p}": "1 none y",
	})
}

// TestShellTextIsLeftAlone: the shell's own syntax reaches the shell.
func TestShellTextIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - shell: |
      V=file.txt; set -- p q
      echo "$1 ${2} ${V%.*} $(echo sub) ${#V} $((1+2)) ${W:-dflt} $$" | sed 's/ [0-9]*$//' > @EV@/x
      echo 'a b c' | awk '{print $2, $NF}' >> @EV@/x
      for i in 1 2; do echo "i=$i ${i}" >> @EV@/x; done
      bash -c 'arr=(x y); echo "${arr[1]} ${#arr[@]} ${arr[@]:0:1}"' >> @EV@/x
`)
	r.status(event.Succeeded)
	r.want("x", "p q file sub 8 3 dflt\nb c\ni=1 1\ni=2 2\ny 2 x")
}

// TestBuiltins: uuid, date:, file:, cmd:, ARG, workflow.* and paths.
func TestBuiltins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("note.txt", "from a file\n")
	b.opt.Args = []string{"first"}
	b.setenv("SEEN", "outside")
	b.write("lib/part.txt", "part")
	r := b.run(`
name: builtins
commands:
  - shell: |
      printf '%s\n' "${uuid}" "${uuid}" > @EV@/uuid
      printf '%s\n' "${date:%Y-%m-%d}" "${date:2006}" > @EV@/date
      printf '%s\n' "${file:note.txt}" "${file:lib/part.txt}" "${cmd:echo from a command}" "${env.SEEN}" "${env:SEEN}" "${ARG}" "${ARG_1}" "${INDEX} ${TOTAL}" > @EV@/x
      printf '%s\n' "${workflow.name}" "${PROJECT_ROOT}" "${WORKTREE}" > @EV@/w
      printf '%s\n' "${workflow.id}" "$BIDE_RUN" > @EV@/id
`)
	r.status(event.Succeeded)
	ids := strings.Split(r.file("uuid"), "\n")
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if len(ids) != 2 || !uuid.MatchString(ids[0]) || !uuid.MatchString(ids[1]) {
		t.Errorf("the ids are %q", ids)
	}
	if day := time.Now().Format("2006-01-02"); !strings.HasPrefix(r.file("date"), day[:4]) || !strings.Contains(r.file("date"), "\n"+day[:4]) {
		t.Errorf("the dates are %q", r.file("date"))
	}
	r.want("x", "from a file\npart\nfrom a command\noutside\noutside\nfirst\nfirst\n0 1")
	r.want("w", "builtins\n"+b.dir+"\n"+b.dir)
	r.want("id", r.sum.Run+"\n"+r.sum.Run)
}

// TestItemVariables: what an agent reads about its item, in each form of input.
func TestItemVariables(t *testing.T) {
	for _, row := range []struct{ input, text, want string }{
		{`[{"id": "i1", "n": 1.0, "deep": {"l": [1, 2]}}]`, "${item.id} ${item.n} ${item.deep.l[1]} ${item_id} ${item_index} ${item_total}", "i1 1.0 2 i1 0 1"},
		{`[{"a": 1}]`, "${item}|${item_json}|${item|json}", `{"a":1}|{"a":1}|{"a":1}`},
		{`["plain"]`, "${item} ${item_json}", `plain "plain"`},
		{`[10]`, "${item}", "10"},
		{`[[1, 2]]`, "${item} ${item[0]}", "1, 2 1"},
	} {
		t.Run(row.input, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("items.json", row.input)
			r := b.run("map:\n  input: items.json\n  agent_template:\n    - write_file: {path: v, content: '" + row.text + "'}\n    - shell: cp v @EV@/x\n")
			r.status(event.Succeeded)
			r.want("x", row.want)
		})
	}
	t.Run("lines", func(t *testing.T) {
		r := newBench(t).run("map:\n  input: printf 'a b\\nc\\n'\n  agent_template:\n    - shell: echo \"${item}|${item.item}|${item_index}\" > @EV@/${item_index}\n")
		r.status(event.Succeeded)
		r.want("0", "a b|a b|0")
		r.want("1", "c|c|1")
	})
}

// TestMapVariables: what reduce reads, with aggregates over the results.
func TestMapVariables(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
env: {LEVEL: 3}
setup:
  - shell: echo prepared
    capture: prep
map:
  input: [{id: a, n: 3}, {id: b, n: 1}, {id: c, n: 0}]
  max_parallel: 1
  agent_template:
    - shell: echo "got ${item.n}"; exit $((${item.n} == 0))
reduce:
  - shell: echo "${map.total} ${map.successful} ${map.succeeded} ${map.failed} ${map.skipped} ${map.success_rate}" > @EV@/counts
  - shell: echo "${map.results[0].output} ${map.results[1].item_id} ${map.results[*].status} ${map.results|length}" > @EV@/results
  - shell: cmp "${map.results_file}" "$BIDE_RESULTS_FILE" && grep -c item_id "${map.results_file}" > @EV@/file; printf '%s' "${map.results_json}" | cksum > @EV@/a; printf '%s' "${map.results|json}" | cksum > @EV@/b
  - shell: echo "${LEVEL} ${prep} ${map.results[2].error|default:none} ${map.results[2].success}" > @EV@/env
`)
	r.status(event.CompletedWithFailures)
	r.want("counts", "3 2 2 1 0 66.67")
	r.want("results", "got 3 b succeeded, succeeded, dead_lettered 3")
	r.want("file", "3")
	if !strings.HasPrefix(r.file("env"), "3 prepared ") || !strings.HasSuffix(r.file("env"), " false") {
		t.Errorf("env is %q", r.file("env"))
	}
}

// TestGitContext: what a step and the workflow changed, in a real repository.
func TestGitContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Isolation = "none"
	r := b.run(`
commands:
  - shell: echo new > new.go; echo more >> first.txt; git add -A; git commit -qm one; echo n > note.md; git add -A; git commit -qm two
  - shell: |
      echo "${step.files_added}|${step.files_modified}|${step.files_deleted}|${step.files_changed}|${step.commit_count}|${step.insertions}|${step.deletions}" > @EV@/step
      echo "${step.files_added:*.go}|${step.files_added|json}|${step.commits|length}" > @EV@/filters
  - shell: git rm -q new.go; git commit -qm three; echo u > untracked.txt
  - shell: |
      echo "${step.files_deleted}|${step.commit_count}" > @EV@/second
      echo "${workflow.files_added}|${workflow.files_modified}|${workflow.files_deleted}|${workflow.commit_count}" > @EV@/all
`)
	r.status(event.Succeeded)
	r.want("step", "new.go note.md|first.txt||first.txt new.go note.md|2|3|0")
	r.want("filters", `new.go|["new.go","note.md"]|2`)
	r.want("second", "new.go|1")
	if got := r.file("all"); !strings.HasPrefix(got, "note.md") || !strings.HasSuffix(got, "|3") {
		t.Errorf("workflow.* is %q", got)
	}
}

// TestLargeValues: for a value that is too large for the environment, the error says where
// to find it, and the file exists.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(`
map:
  input: [1, 2]
  agent_template:
    - shell: head -c 120000 /dev/zero | tr '\0' x
reduce:
  - shell: echo "${map.results}" > /dev/null
    on_failure: {shell: 'echo "${error.message}" > @EV@/why'}
  - shell: wc -c < "${map.results_file}" | tr -d ' ' > @EV@/size
`)
	r.status(event.Succeeded)
	if !strings.Contains(r.file("why"), "map.results_file") {
		t.Errorf("the error is %q, want one that names map.results_file", r.file("why"))
	}
	if n := r.file("size"); len(n) < 6 {
		t.Errorf("the file has %s bytes", n)
	}
}

// TestGitState: git.* is the working tree as a step, or its when, finds it. A variable of
// the file that is called git stays.
func TestGitState(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Isolation = "none"
	r := b.run(`
commands:
  - shell: |
      echo a > staged.go; git add staged.go; echo b >> first.txt; echo c > untracked.md
      git rev-parse HEAD > @EV@/head
  - shell: echo "${git.staged_files}|${git.unstaged_files}|${git.untracked_files}|${git.modified_files}|${git.branch}|${git.staged_files|pattern:**/*.go|basename}" > @EV@/state
  - shell: test "${git.commit}" = "$(cat @EV@/head)" && git add -A && git commit -qm all && git rm -q first.txt
  - shell: echo "${git.deleted_files}|${git.changed_files|json}" > @EV@/after
    when: "${git.unstaged_files|length} == 0"
  - shell: echo no > @EV@/when
    when: "${git.branch} != 'main'"
`)
	r.status(event.Succeeded)
	r.want("state", "staged.go|first.txt|untracked.md|first.txt staged.go|main|staged.go")
	r.want("after", `first.txt|["first.txt"]`)
	if r.file("when") != "-" {
		t.Error("the condition does not read git.branch")
	}

	b = newBench(t)
	b.git()
	r = b.run(`
env: {X: "1"}
commands:
  - shell: echo '{"branch":"own"}'
    capture: git
    capture_format: json
  - shell: echo "${git.branch}" > @EV@/own
`)
	r.status(event.Succeeded)
	r.want("own", "own")
}

// TestUnsetIsTold: if a command fails, the message names the variables in its text that
// nothing has set, because the shell only says that it cannot read them.
func TestUnsetIsTold(t *testing.T) {
	t.Parallel()
	r := newBench(t).run("map: {input: [{id: 1}], agent_template: [{shell: 'test ${item.path} ${item.id} ${item.size|default:0} ${arr[0]}', on_failure: {shell: 'echo \"${error.message}\" > @EV@/why; exit 1'}}]}")
	why := r.file("why")
	if !strings.Contains(why, "nothing has set ${item.path}: the item has id; write ${item.path:-} where it may be missing") || strings.Contains(why, "item.id") || strings.Contains(why, "size") {
		t.Errorf("the error is %q", why)
	}
	r = newBench(t).run(`commands: [{shell: 'echo ${env:BIDE_TEST_NOT_SET}'}]`)
	if why := r.story(); !strings.Contains(why, "nothing has set ${env:BIDE_TEST_NOT_SET}; write ${env:BIDE_TEST_NOT_SET:-} where it may be missing") {
		t.Errorf("the error of a variable of the environment is not told:%s", why)
	}
}

// TestAFieldThatAnItemLacks: the error says so, and what the item has, before a process
// starts, and the step is not tried again. A condition that reads a similar name says so
// once.
func TestAFieldThatAnItemLacks(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`map:
  input: [{id: 1, attempts: 2}, {id: 2, attempts: 3}]
  max_parallel: 1
  agent_template:
    - {shell: "echo a >> @EV@/when", when: "item.attempt == 2"}
    - {shell: "echo a >> @EV@/n; echo ${item.attempt}", retry: {attempts: 3, initial_delay: 1ms}}
    - shell: "true"
error_policy: {retry_config: {max_attempts: 3, initial_delay: 1ms}}
`)
	if got := strings.Count(r.file("n"), "a"); got != 0 {
		t.Errorf("%d processes were started%s", got, r.story())
	}
	if got := len(r.of(event.AttemptFailed)); got != 2 {
		t.Errorf("%d attempts failed, want one for each item%s", got, r.story())
	}
	want := "nothing has set ${item.attempt}: the item has attempts, id; did you mean ${item.attempts}? (or write ${item.attempt:-} where it may be missing)"
	for _, e := range r.of(event.ItemFinished) {
		if e.Class != "input" || !strings.Contains(e.Message, want) || strings.Contains(e.Message, "ubstitution") {
			t.Errorf("%s: %s", e.Class, e.Message)
		}
	}
	n := 0
	for _, e := range r.of(event.Note) {
		if strings.Contains(e.Message, "its when reads item.attempt, which is not there; did you mean item.attempts?") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d notes of the condition, want 1%s", n, r.story())
	}
}
