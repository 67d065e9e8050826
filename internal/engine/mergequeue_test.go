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

// queueCheck is the check that the work of items must pass. A file with "bad" in it is red
// by itself. Some files are red only together.
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

// queueBench is a bench whose repository has the files that the items change.
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

// lands checks main after a run of queueFlow, from what its items do and with the check
// itself. Each item that is not on main must be a dead letter that says why.
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

// proven compares the dead letters and the proof of the run with main.
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

// Exactly the innocent items are merged, and each of the others says what it broke.
func TestMergeQueue(t *testing.T) {
	t.Parallel()
	b := queueBench(t)
	r := b.run(queueFlow(4))
	r.status("completed_with_failures")
	b.lands()
	if len(r.of(event.MergeVerified)) == 0 {
		t.Error("nothing was verified")
	}
	// One byte of a check's output, or a commit, is changed: the proof says so.
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
	if bad := b.problems(); len(bad) != 0 {
		t.Errorf("it is as it was: %+v", bad)
	}
	if err := sh(b.dir, "git branch kept && echo more >>src/a && git commit -qam more --amend"); err != nil {
		t.Fatal(err)
	}
	if bad := b.problems(); len(bad) != 2 || !strings.Contains(bad[0].Message, "which was not verified") || !strings.Contains(bad[1].Message, "is not in the history any more") {
		t.Errorf("the commit by which it landed was changed: %+v", bad)
	}
	if err := sh(b.dir, "git reset -q --hard kept"); err != nil {
		t.Fatal(err)
	}
	merge := b.output("git log -1 --format=%H --grep 'Bide-Item: i13$'")
	if err := sh(b.dir, "FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --msg-filter 'sed -e \"/^Bide-Evidence:/s/sha256:0/sha256:1/;t\" -e \"/^Bide-Evidence:/s/sha256:./sha256:0/\"' "+merge+"^..main"); err != nil {
		t.Fatal(err)
	}
	if bad := b.problems(); !slices.ContainsFunc(bad, func(p proof.Problem) bool { return p.Item == "i13" }) {
		t.Errorf("the merge of i13 was changed: %+v", bad)
	}
}

// problems gives the differences between the last run and its record.
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

// A run with a merge queue that is killed at any event ends with the same result: no branch
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
		if !strings.Contains(b.output("git log --format=%s main"), "bide: queue") { // the first life was not killed, and nobody approved the merge
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

// A verify that is sometimes red by chance makes the queue refuse no item.
func TestMergeQueueFlaky(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	n, verify := 30, "test $((n % 5)) -gt 1" // red two times in a row, out of five
	if os.Getenv("BIDE_FIGURES") != "" {
		n, verify = 200, "test $(od -An -N2 -tu2 /dev/urandom) -gt 6553" // red one time in ten, by chance
	}
	r := b.run(fmt.Sprintf(`
mode: mapreduce
map:
  input: seq 1 %d
  max_parallel: 6
  agent_template:
    - shell: echo ${item} >f-${item}
merge_queue:
  batch: 3
  flaky: 2
  verify: "echo x >>$EV/verifies; n=$(wc -l <$EV/verifies); %s"
`, n, verify))
	r.status("succeeded")
	red := 0
	for _, e := range r.of(event.MergeVerified) {
		if e.Status == event.Failed {
			red++
		}
	}
	t.Logf("%d items: the verify ran %d times, %d times in vain, and %d were believed to be red", n, strings.Count(r.file("verifies"), "x"), len(r.of(event.AttemptFailed)), red)
	for i := 1; i <= n; i++ {
		if got := b.text(fmt.Sprintf("f-%d", i)); got != fmt.Sprintf("%d\n", i) {
			t.Errorf("f-%d is %q", i, got)
		}
	}
	if n := strings.Count(r.file("verifies"), "x"); n < 12 {
		t.Errorf("only %d verifies ran", n)
	}
}

// A merge queue costs only its verifies, and agents do not wait for it. BIDE_FIGURES=1 is
// the long form: 100 branches, 8 at a time, with a verify of one second.
func TestMergeQueueCost(t *testing.T) {
	t.Parallel()
	n, batch, verify := 12, 4, 100*time.Millisecond
	if os.Getenv("BIDE_FIGURES") != "" {
		n, batch, verify = 100, 8, time.Second
	}
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(fmt.Sprintf(`
mode: mapreduce
map:
  input: seq 1 %d
  max_parallel: 8
  agent_template:
    - shell: echo ${item} >f-${item}
merge_queue: {batch: %d, flaky: 0, verify: sleep %g}
`, n, batch, verify.Seconds()))
	r.status("succeeded")
	var sum, agents, all time.Duration
	verified := r.of(event.MergeVerified)
	for _, e := range verified {
		sum += time.Duration(e.DurationMS) * time.Millisecond
	}
	began := r.of(event.ItemStarted)[0].Time
	for _, e := range r.of(event.ItemMerging) {
		agents = max(agents, e.Time.Sub(began))
	}
	for _, e := range r.of(event.ItemFinished) {
		all = max(all, e.Time.Sub(began))
	}
	best := time.Duration(float64(n) / float64(batch) * float64(verify))
	t.Logf("%d items, batches of %d: %d verifies in %v, %.2f times %v; the last agent ended after %v, the last merge after %v, %.2f times", n, batch, len(verified), sum, sum.Seconds()/best.Seconds(), best, agents, all, all.Seconds()/best.Seconds())
	if most := (n+batch-1)/batch + 2; len(verified) > most { // the first batches have only the items that have arrived by then
		t.Errorf("%d verifies, at most %d", len(verified), most)
	}
	if n == 100 && sum.Seconds() > 1.3*best.Seconds() {
		t.Errorf("%v of verifying, at most %v", sum, best*13/10)
	}
	for i := 1; i <= n; i++ {
		if b.text(fmt.Sprintf("f-%d", i)) == "" {
			t.Errorf("f-%d is not there", i)
		}
	}
}

// The commit that items start from is checked before any item runs. With --allow-red-base,
// an item need not pass what fails there.
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

// An item that is tried again gets the result of the check. What a check leaves behind is
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

// A check sees what the item committed, and nothing else that the item or a check before it
// left in the worktree: neither files that git ignores nor changes. What worktree.setup
// left stays. An item whose work is only ignored files is told so, as without checks.
func TestEvidenceIsOfWhatIsCommitted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	b.write(".gitignore", "*.log\n")
	if err := sh(b.dir, "git add -A && git commit -qm base"); err != nil {
		t.Fatal(err)
	}
	r := b.run(`
mode: mapreduce
worktree:
  setup: echo deps >deps.log
map:
  input: [{n: whole, do: "echo x >whole"}, {n: half, do: "echo x >half; echo x >needed.log"}, {n: nothing, do: "echo x >needed.log"}]
  agent_template:
    - shell: "${item.do|raw}"
  evidence:
    checks:
      - test -e deps.log && echo changed >>first.txt && echo x >made
      - test ! -e needed.log && test ! -e made && test "$(git status --porcelain)" = ""
`)
	r.status("succeeded")
	if got := b.output("git ls-files"); got != ".gitignore\nfirst.txt\nhalf\nwhole" {
		t.Errorf("main has %q\n%s", got, r.story())
	}
	if !strings.Contains(r.story(), "left nothing in its worktree but 1 path that git ignores (needed.log), which no merge has") {
		t.Error(r.story())
	}
}

// If the user's branch moves while items run, later merges are made on top of it. An item
// that breaks with it is refused, and all others land.
func TestMergeQueueAndAMovedBranch(t *testing.T) {
	t.Parallel()
	b := queueBench(t)
	r := b.run(`
mode: mapreduce
map:
  input: [{n: first}, {n: left}, {n: other}]
  max_parallel: 1
  agent_template:
    - shell: echo x >src/${item.n}
    - shell: cd @DIR@ && test -e src/right || { echo x >src/right && git add src/right && git commit -qm right; }
      when: ${item.n} == 'left'
merge_queue:
  verify: sh check.sh
`)
	r.status("completed_with_failures")
	for name, want := range map[string]string{"src/first": "x\n", "src/left": "", "src/other": "x\n", "src/right": "x\n"} {
		if b.text(name) != want {
			t.Errorf("%s is %q on main\n%s", name, b.text(name), r.story())
		}
	}
	if e := ended(r.events, "1"); e == nil || e.Class != "merge_check" || !strings.Contains(e.Message, "left and right") {
		t.Errorf("left ended with %+v", e)
	}
	if bad := b.problems(); len(bad) > 0 {
		t.Errorf("the proof: %+v", bad)
	}
}

// If the branch moves after the last item was merged, and fails together with the merged
// work, it is left unchanged.
func TestMergeQueueAndABranchThatMovesLate(t *testing.T) {
	t.Parallel()
	b := queueBench(t)
	r, err := b.try(context.Background(), `
mode: mapreduce
map:
  input: [{n: left}, {n: other}]
  agent_template:
    - shell: echo x >src/${item.n}
merge_queue:
  verify: sh check.sh
reduce:
  - shell: cd @DIR@ && echo x >src/right && git add src/right && git commit -qm right
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

// downFlow is a map whose verify fails while $EV/down exists. Item 3 makes that file. An
// item with "bad" in it fails in any case.
const downFlow = `
name: down
mode: mapreduce
map:
  input: seq 1 12
  max_parallel: 3
  agent_template:
    - shell: |
        if [ ${item} = 3 ]; then touch $EV/down; fi
        if [ ${item} = 7 ]; then echo bad >f-7; else echo ${item} >f-${item}; fi
merge_queue:
  batch: 4
  flaky: 0
  verify: echo x >>$EV/verifies; test ! -e $EV/down || { echo "no database" >&2; exit 1; }; ! grep -qs bad f-*
error_policy:
  same_error:
    probe: {initial_delay: @DELAY@, backoff: fixed}
    on_hold:
      - shell: echo "${hold.items} ${hold.message}" >>$EV/told; @MEND@
`

func (b *bench) downLanded(events []event.Event) {
	b.t.Helper()
	for i := 1; i <= 12; i++ {
		want := fmt.Sprintf("%d\n", i)
		if i == 7 {
			want = ""
		}
		if got := b.text(fmt.Sprintf("f-%d", i)); got != want {
			b.t.Errorf("f-%d is %q", i, got)
		}
	}
	for _, e := range events {
		if e.Type == event.ItemFinished && e.Status != event.Interrupted && (e.Status == event.Succeeded) == (e.Item == "6") || e.Type == event.ItemRetry {
			b.t.Errorf("%+v", e)
		}
	}
	var held []string
	for _, e := range events {
		if e.Label == event.MergeQueue && e.Type != event.HoldProbe {
			held = append(held, string(e.Type))
		}
	}
	if got := fmt.Sprint(held); got != "[hold_started hold_ended]" {
		b.t.Errorf("the queue: %s", got)
	}
}

// While the base fails the verify, the queue is on hold like a map: no item is blamed,
// on_hold runs once, agents continue, and the hold ends when the verify passes.
func TestMergeQueueIsHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(strings.NewReplacer("@DELAY@", "50ms", "@MEND@", "test $(grep -c . $EV/verifies) -gt 5 || sleep 0.3; rm $EV/down").Replace(downFlow))
	r.status("completed_with_failures")
	b.downLanded(r.events)
	if told := r.file("told"); strings.Count(told, "fails: exit status 1: no database") != 1 {
		t.Errorf("on_hold was told %q", told)
	}
	started := r.of(event.HoldStarted)[0]
	if !strings.HasPrefix(started.Message, "the merge queue is held: what is merged so far fails the verify, and no item is to blame: ") || !strings.Contains(started.Message, "no database") {
		t.Errorf("it says %q", started.Message)
	}
}

// What is committed to the user's branch during a hold of the queue is verified together
// with the merged work: a repair there ends the hold.
func TestMergeQueueIsMendedByACommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(`
isolation: worktree
map:
  input: seq 1 3
  agent_template:
    - shell: echo ${item} >f-${item}
merge_queue:
  flaky: 0
  verify: test -e mend
error_policy:
  same_error:
    max_hold: 1m
    probe: {initial_delay: 50ms, backoff: fixed}
    on_hold:
      - shell: cd "@DIR@" && echo mended >mend && git add mend && git commit -qm mend -- mend
`)
	r.status("succeeded")
	for name, want := range map[string]string{"f-1": "1\n", "f-2": "2\n", "f-3": "3\n", "mend": "mended\n"} {
		if got := b.text(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// A hold of the queue survives the process: the next process waits until the probe is due,
// and still has the items that wait. bide control RUN probe verifies immediately.
func TestMergeQueueIsHeldThroughAKill(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.write("flow.yml", b.fill(strings.NewReplacer("@DELAY@", "1h", "@MEND@", "true").Replace(downFlow)))
	p := b.start("bide", "run", "-y", "flow.yml")
	p.waitFor(t, "the merge queue is held")
	// A run that is not strict may lose in a kill what it told a few milliseconds before.
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if _, state := b.recordedEvents(); state.QueueHold != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no record has the hold")
		}
	}
	p.crash(t, 0)
	b.quiet()
	_, state := b.recordedEvents()
	if state.QueueHold == nil || state.Hold != nil {
		t.Fatalf("on record: %s, %s", state.QueueHold, state.Hold)
	}
	before := strings.Count(b.evidence("verifies"), "x")
	if shown := b.bide("show"); !strings.Contains(shown, "held      the merge queue is held: what is merged so far fails the verify") {
		t.Errorf("show says:\n%s", shown)
	}
	p = b.start("bide", "resume", "-y")
	p.waitFor(t, "the merge queue is still held")
	if after := strings.Count(b.evidence("verifies"), "x"); after != before {
		t.Errorf("%d verifies before the probe", after-before)
	}
	if err := os.Remove(filepath.Join(b.ev, "down")); err != nil {
		t.Fatal(err)
	}
	b.bide("control", "last", "probe")
	if status := p.wait(t); status != 3 {
		t.Fatalf("exit status %d: %s", status, p.text())
	}
	events, _ := b.recordedEvents()
	b.downLanded(events)
}

// If an interrupt comes while items wait in the queue, they keep waiting: the run is
// interrupted, and a resume merges them.
func TestMergeQueueIsInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.write("flow.yml", b.fill(strings.NewReplacer("@DELAY@", "1h", "@MEND@", "true").Replace(downFlow)))
	p := b.start("bide", "run", "-y", "flow.yml")
	p.waitFor(t, "the merge queue is held")
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := p.wait(t); status != 130 || !strings.Contains(p.text(), "bide resume") {
		t.Fatalf("exit status %d: %s", status, p.text())
	}
	if err := os.Remove(filepath.Join(b.ev, "down")); err != nil {
		t.Fatal(err)
	}
	p = b.start("bide", "resume", "-y")
	p.waitFor(t, "the merge queue is still held")
	b.bide("control", "last", "probe")
	if status := p.wait(t); status != 3 {
		t.Fatalf("exit status %d: %s", status, p.text())
	}
	events, _ := b.recordedEvents()
	b.downLanded(events)
}

// With action: stop, the run stops instead of being held, and a resume continues.
func TestMergeQueueStopsInsteadOfAHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	flow := strings.NewReplacer("@DELAY@", "1h", "@MEND@", "true").Replace(downFlow)
	r, err := b.try(t.Context(), strings.Replace(flow, "same_error:", "same_error:\n    action: stop", 1))
	if err != nil {
		t.Fatal(err)
	}
	if r.sum.Status != event.Failed || !strings.Contains(r.sum.Message, "no item is to blame") || !strings.Contains(r.sum.Message, "mend the cause, then `bide resume") {
		t.Errorf("%s: %s", r.sum.Status, r.sum.Message)
	}
	if err := os.Remove(filepath.Join(b.ev, "down")); err != nil {
		t.Fatal(err)
	}
	b.resume(t.Context()).status("completed_with_failures")
	for i := 1; i <= 12; i++ {
		if got := b.text(fmt.Sprintf("f-%d", i)); (got != "") == (i == 7) {
			t.Errorf("f-%d is %q", i, got)
		}
	}
}

// evidence gives the content of a file that the steps of a run write.
func (b *bench) evidence(name string) string {
	text, _ := os.ReadFile(filepath.Join(b.ev, name))
	return string(text)
}

// bide runs the program to its end and gives what it printed.
func (b *bench) bide(args ...string) string {
	b.t.Helper()
	p := b.start("bide", args...)
	p.wait(b.t)
	return p.text()
}

// If an item removes a file that setup left uncommitted, it is removed with a merge queue
// too. If the item is refused, the file stays.
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
