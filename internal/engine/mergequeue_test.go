package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/proof"
	"github.com/bide-dev/bide/internal/worktree"
)

// queueCheck is what the work of items must pass. A file with "bad" in it is red by
// itself; some files are red together only.
const queueCheck = `grep -rql bad src && { echo "bad in src"; exit 1; }
test -e src/left -a -e src/right && { echo "left and right"; exit 1; }
test -e src/new -a -e src/renamed && { echo "new uses what was renamed"; exit 1; }
test "$(cat keep_test.go)" = keep
`

// queueItems is what the items of queueFlow do.
var queueItems = []string{
	"echo a >src/a", "echo bad >src/b", "echo one >src/shared", "echo two >src/shared", "echo x >src/renamed", "echo x >src/new",
	"echo h >src/h", "echo x >src/left", "echo j >src/j", "echo x >src/right", "echo x >keep_test.go", "echo m >src/m", "rm src/gone", "echo o >src/o",
}

// queueFlow is a map of queueItems with a merge queue.
func queueFlow(parallel int) string {
	var list []string
	for i, do := range queueItems {
		list = append(list, fmt.Sprintf("{id: i%02d, do: %q}", i, do))
	}
	return fmt.Sprintf(`
name: queue
mode: mapreduce
map:
  input: [%s]
  max_parallel: %d
  agent_template:
    - shell: "${item.do|raw}"
    - shell: echo "end ${item.id}" >> $EV/log
  evidence:
    checks: [sh check.sh]
    paths: ['src/**', '*.go']
    protect: ['*_test.go']
merge_queue:
  batch: 4
error_policy:
  max_recoveries: 1000
`, strings.Join(list, ", "), parallel)
}

// queueBench is a bench whose repository has what the items change.
func queueBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	b.write("check.sh", queueCheck)
	b.write("src/shared", "zero\n")
	b.write("src/gone", "gone\n")
	b.write("keep_test.go", "keep\n")
	if err := sh(b.dir, "git add -A && git commit -qm base"); err != nil {
		t.Fatal(err)
	}
	return b
}

// lands checks what a run of queueFlow has on main, by what its items do and by the check
// itself, and that each item that is not there is a dead letter that says why.
func (b *bench) lands() {
	t := b.t
	t.Helper()
	if err := sh(b.dir, "sh check.sh"); err != nil {
		t.Errorf("main does not pass: %v", err)
	}
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(b.dir, name))
		return err == nil
	}
	for _, name := range []string{"src/a", "src/h", "src/j", "src/m", "src/o"} {
		if want := strings.TrimPrefix(name, "src/") + "\n"; b.text(name) != want {
			t.Errorf("%s is %q on main", name, b.text(name))
		}
	}
	if has("src/gone") || has("src/b") || b.text("keep_test.go") != "keep\n" {
		t.Errorf("src/gone, src/b or keep_test.go is not as it must be:\n%s", b.output("git status --short; ls src"))
	}
	for _, pair := range [][2]string{{"src/left", "src/right"}, {"src/renamed", "src/new"}} {
		if has(pair[0]) == has(pair[1]) {
			t.Errorf("%s is there: %v, %s: %v; one of them must be", pair[0], has(pair[0]), pair[1], has(pair[1]))
		}
	}
	if shared := b.text("src/shared"); shared != "one\n" && shared != "two\n" {
		t.Errorf("src/shared is %q", shared)
	}
	if got := b.output("git status --porcelain -uno; git worktree list | tail -n +2"); got != "" {
		t.Errorf("left over: %s", got)
	}
	b.proven(has)
}

// proven holds the dead letters and the proof of the run against main.
func (b *bench) proven(has func(string) bool) {
	t := b.t
	t.Helper()
	store, err := journal.OpenStore(b.home)
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Read("")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	p, err := proof.Read(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	repo, err := worktree.Open(t.Context(), b.dir)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := proof.Verify(t.Context(), repo, p)
	if err != nil || len(problems) > 0 {
		t.Errorf("the proof: %v %+v", err, problems)
	}
	if len(p.Items) != len(queueItems) {
		t.Fatalf("%d items have ended, want %d", len(p.Items), len(queueItems))
	}
	why := map[string]string{}
	for _, it := range p.Items {
		if it.Status != event.Succeeded {
			why[it.ID] = it.Class + ": " + it.Message
			if got := b.output("git branch --list '" + it.Branch + "'"); got == "" || it.Branch == "" {
				t.Errorf("the work of %s is in no branch (%q)", it.ID, it.Branch)
			}
			continue
		}
		if in := b.output("git log --format=%s --grep 'Bide-Item: " + it.ID + "$' main"); strings.Count(in, "\n") != 0 || in == "" {
			t.Errorf("the merges of %s on main: %q, want one", it.ID, in)
		}
	}
	want := map[string]string{"i01": "evidence: the check ", "i10": "evidence: it changed keep_test.go"}
	loser := func(a, b, name string) string {
		if has(name) {
			return b
		}
		return a
	}
	want[loser("i07", "i09", "src/left")] = "merge_check: it is good without item"
	want[loser("i04", "i05", "src/renamed")] = "merge_check: it is good without item"
	want["i03"] = "conflict: "
	if b.text("src/shared") == "two\n" {
		delete(want, "i03")
		want["i02"] = "conflict: "
	}
	for id, text := range want {
		if !strings.HasPrefix(why[id], text) {
			t.Errorf("%s: %q, want %q", id, why[id], text)
		}
	}
	if len(why) != len(want) {
		t.Errorf("not merged: %v; want %v", why, want)
	}
}

func (b *bench) text(name string) string {
	text, _ := os.ReadFile(filepath.Join(b.dir, name))
	return string(text)
}

// Exactly the innocent items are merged, and each of the others says what it did.
func TestMergeQueue(t *testing.T) {
	t.Parallel()
	b := queueBench(t)
	r := b.run(queueFlow(4))
	r.status("completed_with_failures")
	b.lands()
	if len(r.of(event.MergeVerified)) == 0 {
		t.Error("nothing was verified")
	}
	// A byte of what a check printed, or a commit, is another one: the proof says so.
	var d mapper.Result
	for _, e := range r.of(event.ItemFinished) {
		if e.Item == "i01" {
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d.Evidence == nil || len(d.Evidence.Checks) != 1 || d.Evidence.Checks[0].ExitCode != 1 {
		t.Fatalf("the evidence of i01: %+v", d.Evidence)
	}
	name := d.Evidence.Checks[0].File
	text, err := os.ReadFile(name)
	if err != nil || strings.TrimSpace(string(text)) != "bad in src" {
		t.Errorf("the check printed %q (%v)", text, err)
	}
	if err := os.WriteFile(name, []byte("bad in srd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if bad := b.problems(); len(bad) != 1 || bad[0].Item != "i01" {
		t.Errorf("a byte of i01 was changed: %+v", bad)
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	merge := b.output("git log -1 --format=%H --grep 'Bide-Item: i13$'")
	if err := sh(b.dir, "FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --msg-filter 'sed s/Bide-Evidence:.sha256:./Bide-Evidence:\\ sha256:0/' "+merge+"^..main"); err != nil {
		t.Fatal(err)
	}
	if bad := b.problems(); !slices.ContainsFunc(bad, func(p proof.Problem) bool { return p.Item == "i13" }) {
		t.Errorf("the merge of i13 was changed: %+v", bad)
	}
}

// problems gives what is not as the last run has it on record.
func (b *bench) problems() []proof.Problem {
	b.t.Helper()
	store, err := journal.OpenStore(b.home)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := store.Read("")
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := proof.Read(b.t.Context(), r)
	if cerr := r.Close(); err != nil || cerr != nil {
		b.t.Fatal(err, cerr)
	}
	repo, err := worktree.Open(b.t.Context(), b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	list, err := proof.Verify(b.t.Context(), repo, p)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// A run with a merge queue that is killed at any event comes to the same end: no branch
// is lost, none is merged twice, and nothing is merged unverified.
func TestMergeQueueKilled(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	runs := 3
	if n := chaos(); n > 0 {
		runs = n
	}
	kills := 0
	for range runs {
		at := 2 + rnd.IntN(220)
		b := queueBench(t)
		b.write("flow.yml", queueFlow(3))
		p := b.start("die-at", strconv.Itoa(at), []string{"at-once", "committed"}[rnd.IntN(2)])
		status := p.wait(t)
		for life := 0; status == -1; life++ {
			if kills++; life > 20 {
				t.Fatalf("seed %d, event %d: the run does not end", seed, at)
			}
			b.quiet()
			p = b.start("bide", "resume", "-y", "-q")
			if life < 3 {
				status = p.crash(t, time.Duration(rnd.Int64N(int64(2*time.Second))))
			} else {
				status = p.wait(t)
			}
			if status > 0 && status != 3 {
				t.Fatalf("seed %d, event %d: resume: exit status %d: %s", seed, at, status, p.text())
			}
		}
		b.quiet()
		if !strings.Contains(b.output("git log --format=%s main"), "bide: queue") { // the first life was not killed, and asked nobody
			if err := sh(b.dir, "git merge -q --no-ff $(git for-each-ref --format='%(refname:short)' 'refs/heads/bide/*') -m 'bide: queue'; git worktree prune"); err != nil {
				t.Fatal(err)
			}
		}
		if b.lands(); t.Failed() {
			t.Fatalf("seed %d, event %d, %d kills: %s", seed, at, kills, p.text())
		}
	}
	t.Logf("%d runs, %d kills", runs, kills)
}

// A verify that is red by chance now and then refuses nobody.
func TestMergeQueueFlaky(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(`
mode: mapreduce
map:
  input: seq 1 30
  max_parallel: 6
  agent_template:
    - shell: echo ${item} >f-${item}
merge_queue:
  batch: 3
  flaky: 2
  # red two times in a row, of five
  verify: echo x >>$EV/verifies; n=$(wc -l <$EV/verifies); test $((n % 5)) -gt 1
`)
	r.status("succeeded")
	for i := 1; i <= 30; i++ {
		if got := b.text(fmt.Sprintf("f-%d", i)); got != fmt.Sprintf("%d\n", i) {
			t.Errorf("f-%d is %q", i, got)
		}
	}
	if n := strings.Count(r.file("verifies"), "x"); n < 12 {
		t.Errorf("only %d verifies ran", n)
	}
}

// What the items start from is checked before any of them runs. With --allow-red-base an
// item need not pass what fails there.
func TestRedBase(t *testing.T) {
	t.Parallel()
	const flow = `
mode: mapreduce
map:
  input: [{n: a}, {n: bad}]
  agent_template:
    - shell: echo ${item.n} >>$EV/ran; echo x >f-${item.n}
  evidence:
    checks: ["test -e missing", "test ! -e f-bad", "test -e f-${item.n}"]
`
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(flow)
	r.status("failed")
	if !strings.Contains(r.sum.Message, `the base is red: the check "test -e missing" fails`) || !strings.Contains(r.sum.Message, "--allow-red-base") {
		t.Errorf("it says %q", r.sum.Message)
	}
	if ran, _ := os.ReadFile(filepath.Join(b.ev, "ran")); len(ran) > 0 {
		t.Errorf("items ran: %s", ran)
	}
	b = newBench(t)
	b.git()
	b.opt.Yes, b.opt.AllowRedBase = true, true
	r = b.run(flow)
	r.status("completed_with_failures")
	if b.text("f-a") != "x\n" || b.text("f-bad") != "" {
		t.Error(r.story())
	}
}

// An item that is tried again is told what the check found; what a check leaves behind is
// nobody's work.
func TestEvidenceIsToldToTheNextAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	b.write("check.sh", "touch left-behind; grep -q good f || { echo 'f is not good'; exit 1; }")
	b.write("f", "good\n")
	if err := sh(b.dir, "git add -A && git commit -qm base"); err != nil {
		t.Fatal(err)
	}
	r := b.run(`
mode: mapreduce
map:
  input: [{n: a}]
  agent_template:
    - shell: |
        echo "${evidence.check}: ${evidence.output}" >>$EV/told
        case "${evidence.output}" in *"not good"*) echo good and new >f;; *) echo worse >f;; esac
  evidence:
    checks: [sh check.sh]
  error_policy:
    retry_config: {attempts: 2, initial_delay: 1ms}
`)
	r.status("succeeded")
	if got := r.file("told"); got != ": \nsh check.sh: f is not good" {
		t.Errorf("the attempts were told %q", got)
	}
	if b.text("f") != "good and new\n" || b.text("left-behind") != "" {
		t.Error(b.output("git log --stat"))
	}
}

// Where the user's branch has moved and what is merged fails there, it is not merged.
func TestMergeQueueAndAMovedBranch(t *testing.T) {
	t.Parallel()
	b := queueBench(t)
	r, err := b.try(context.Background(), `
mode: mapreduce
map:
  input: [{n: left}, {n: other}]
  agent_template:
    - shell: echo x >src/${item.n}
    - shell: cd @DIR@ && test -e src/right || { echo x >src/right && git add src/right && git commit -qm right; }
      when: ${item.n} == 'left'
merge_queue:
  verify: sh check.sh
`)
	if err != nil {
		t.Fatal(err)
	}
	if r.sum.Status == event.Succeeded || b.text("src/left") != "" || !strings.Contains(r.sum.Message, "left and right") {
		t.Error(r.sum.Status, r.sum.Message, r.story())
	}
	if got := b.output("git log --format=%s -1 main"); got != "right" {
		t.Errorf("main is at %q", got)
	}
}

// What setup left uncommitted and an item removes is gone with a merge queue too, and
// stays where the item is refused.
func TestMergeQueueTakesAwayWhatSetupLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(`
mode: mapreduce
setup:
  - shell: echo x >goes; echo x >stays
map:
  input: [{n: goes}, {n: stays}]
  agent_template:
    - shell: rm ${item.n}; echo x >did-${item.n}
merge_queue:
  verify: test ! -e did-stays
`)
	r.status("completed_with_failures")
	if got := b.output("git ls-files"); got != "did-goes\nfirst.txt\nstays" {
		t.Errorf("main has %q\n%s", got, r.story())
	}
}
