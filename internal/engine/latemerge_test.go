package engine_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// lateFlow has two items. The second is red together with src/user. Its verify uses V,
// which only setup sets.
const lateFlow = `
name: late
mode: mapreduce
setup:
  - shell: echo src/user
    capture: V
map:
  input: [a, b]
  agent_template:
    - shell: echo ${item} >src/${item}
merge_queue:
  flaky: 0
  verify: test ! -e ${V} -o ! -e src/b
`

// lateBench gives a bench with a run whose work was left in a branch. Since then, main has
// got src/user.
func lateBench(t *testing.T, flow string) *bench {
	t.Helper()
	b := newBench(t)
	b.git()
	b.write("src/first", "first\n")
	b.write("flow.yml", flow)
	if err := sh(b.dir, "git add -A && git commit -qm base"); err != nil {
		t.Fatal(err)
	}
	if status := b.start("bide", "run", "flow.yml").wait(t); status != 3 {
		t.Fatalf("exit status %d", status)
	}
	if err := sh(b.dir, "echo x >src/user && git add -A && git commit -qm user"); err != nil {
		t.Fatal(err)
	}
	return b
}

// mergeLater merges what the last run left, checks the exit status and the run's status
// after it, and gives what was printed.
func (b *bench) mergeLater(exit int, status string, args ...string) string {
	b.t.Helper()
	p := b.start("bide", append([]string{"worktree", "merge"}, args...)...)
	if got := p.wait(b.t); got != exit {
		b.t.Errorf("worktree merge: exit status %d, want %d: %s", got, exit, p.text())
	}
	var shown struct{ Status string }
	if err := json.Unmarshal([]byte(b.bide("show", "--json")), &shown); err != nil || shown.Status != status {
		b.t.Errorf("the run is %s, want %s (%v)", shown.Status, status, err)
	}
	return p.text()
}

// What `bide worktree merge` merges must pass the verify of the merge queue together with
// the branch as it is now, like the merge at the end of a run.
func TestMergeAfterTheEndIsVerified(t *testing.T) {
	t.Parallel()
	b := lateBench(t, lateFlow)
	was := b.output("git rev-parse main")
	said := b.mergeLater(1, event.CompletedWithFailures)
	if !strings.Contains(said, "fails the verify") || !strings.Contains(said, "--no-verify") {
		t.Errorf("it says %s", said)
	}
	if now := b.output("git rev-parse main; git status --porcelain -uno"); now != was {
		t.Errorf("main was at %s, and is at %s", was, now)
	}
	if err := sh(b.dir, "git rm -q src/user && echo y >src/other && git add -A && git commit -qm mended"); err != nil {
		t.Fatal(err)
	}
	if said = b.mergeLater(0, event.Succeeded); strings.Contains(said, "stays") {
		t.Errorf("it says %s", said)
	}
	if got := b.output("cat src/a src/b src/other; git branch --list 'bide*'; git worktree list | tail -n +2"); got != "a\nb\ny" {
		t.Errorf("main has %q", got)
	}
	if bad := b.problems(); len(bad) > 0 {
		t.Errorf("the proof: %+v", bad)
	}
}

// With --no-verify the work is merged, and neither the run nor its proof says that it is
// good.
func TestMergeWithoutTheVerify(t *testing.T) {
	t.Parallel()
	b := lateBench(t, lateFlow)
	if said := b.mergeLater(0, event.CompletedWithFailures, "--no-verify"); !strings.Contains(said, "is not verified") {
		t.Errorf("it says %s", said)
	}
	if got := b.output("cat src/a src/b src/user"); got != "a\nb\nx" {
		t.Errorf("main has %q", got)
	}
	if bad := b.problems(); len(bad) != 1 || !strings.Contains(bad[0].Message, "was not verified") {
		t.Errorf("the proof: %+v", bad)
	}
	if said := b.mergeLater(0, event.CompletedWithFailures); !strings.Contains(said, "merged already") {
		t.Errorf("it says %s", said)
	}
}

// Work that was verified is merged without a second verify. It counts as good also with
// --no-verify.
func TestMergeAfterTheEndOfWhatWasVerified(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.write("flow.yml", `
mode: mapreduce
map:
  input: [a, b]
  agent_template:
    - shell: echo ${item} >${item}
merge_queue:
  verify: echo run >>@EV@/verifies
`)
	if err := sh(b.dir, "git add -A && git commit -qm base"); err != nil {
		t.Fatal(err)
	}
	if status := b.start("bide", "run", "flow.yml").wait(t); status != 3 {
		t.Fatalf("exit status %d", status)
	}
	before := b.evidence("verifies")
	b.mergeLater(0, event.Succeeded, "--no-verify")
	if after := b.evidence("verifies"); after != before || b.text("a")+b.text("b") != "a\nb\n" {
		t.Errorf("verifies before: %q, after: %q", before, after)
	}
	if bad := b.problems(); len(bad) > 0 {
		t.Errorf("the proof: %+v", bad)
	}
}

// A merge that was refused at the end of a run is also refused afterwards. It leaves no
// branch that claims to have work, and once nothing is in the way it merges, even after the
// worktree is gone.
func TestMergeOfARefusedRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.write("src/first", "first\n")
	b.write("flow.yml", lateFlow+`
reduce:
  - shell: cd @DIR@ && echo x >src/user && git add -A && git commit -qm user
`)
	if err := sh(b.dir, "git add -A && git commit -qm base"); err != nil {
		t.Fatal(err)
	}
	if status := b.start("bide", "run", "-y", "flow.yml").wait(t); status != 1 {
		t.Fatalf("exit status %d", status)
	}
	b.mergeLater(1, event.Failed)
	if err := sh(b.dir, "git rm -q src/user && git commit -qm mended && rm -rf "+b.home+"/worktrees/*/run"); err != nil {
		t.Fatal(err)
	}
	if said := b.mergeLater(3, event.Succeeded); strings.Contains(said, "stays") || !strings.Contains(said, "was made again from its branch") {
		t.Errorf("it says %s", said)
	}
	if got := b.output("cat src/a src/b; git branch --list 'bide*'; git worktree list | tail -n +2"); got != "a\nb" {
		t.Errorf("main has %q", got)
	}
}

// If the file of the run cannot be read, its verify cannot run.
func TestMergeWithoutTheFile(t *testing.T) {
	t.Parallel()
	b := lateBench(t, "secrets: {S: a-long-secret-value}"+lateFlow)
	b.output("git rm -q src/user flow.yml && git commit -qm gone")
	said := b.mergeLater(1, event.CompletedWithFailures)
	if !strings.Contains(said, "put the file back") || !strings.Contains(said, "--no-verify") {
		t.Errorf("it says %s", said)
	}
	b.mergeLater(0, event.CompletedWithFailures, "--no-verify")
	if got := b.output("cat src/a src/b"); got != "a\nb" {
		t.Errorf("main has %q", got)
	}
}

// A check that was red before the items began, and was allowed to be, does not prevent the
// merge after the end either.
func TestMergeAfterTheEndWithARedBase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.write("flow.yml", `
mode: mapreduce
map:
  input: [a]
  agent_template:
    - shell: echo ${item} >${item}
  evidence: {checks: [test -e mended, test ! -e bad]}
merge_queue: {flaky: 0}
`)
	if err := sh(b.dir, "git add -A && git commit -qm base"); err != nil {
		t.Fatal(err)
	}
	if status := b.start("bide", "run", "--allow-red-base", "flow.yml").wait(t); status != 3 {
		t.Fatalf("exit status %d", status)
	}
	for _, c := range []struct {
		name   string
		exit   int
		status string
	}{{"bad", 1, event.CompletedWithFailures}, {"good", 0, event.Succeeded}} {
		if err := sh(b.dir, "git rm -q --ignore-unmatch bad; echo x >"+c.name+" && git add -A && git commit -qm user"); err != nil {
			t.Fatal(err)
		}
		b.mergeLater(c.exit, c.status)
	}
}

// A worktree that somebody has removed may have had something uncommitted: its branch is merged, and
// the exit status says that once.
func TestMergeAfterTheWorktreeIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.write("flow.yml", "isolation: worktree\ncommands:\n  - shell: echo made > made\n")
	if err := sh(b.dir, "git add -A && git commit -qm base"); err != nil {
		t.Fatal(err)
	}
	if status := b.start("bide", "run", "flow.yml").wait(t); status != 3 {
		t.Fatalf("exit status %d", status)
	}
	if err := os.RemoveAll(filepath.Join(b.home, "worktrees")); err != nil {
		t.Fatal(err)
	}
	if said := b.mergeLater(3, event.Succeeded); !strings.Contains(said, "what was uncommitted in it is lost") {
		t.Errorf("it says %s", said)
	}
	if got := b.output("cat made; git branch --list 'bide*'; git worktree list | tail -n +2"); got != "made" {
		t.Errorf("main has %q", got)
	}
	if said := b.mergeLater(0, event.Succeeded); !strings.Contains(said, "merged already") {
		t.Errorf("it says %s", said)
	}
}

// interruptedFlow has steps of its own before and behind a map whose items commit, and leave something
// uncommitted.
const interruptedFlow = `
name: interrupted
mode: mapreduce
isolation: worktree
setup:
  - shell: echo s >setup && git add setup && git commit -qm setup
  - shell: echo u >uncommitted
map:
  input: [1, 2, 3]
  max_parallel: 2
  agent_template:
    - shell: echo ${item} >one-${item} && git add one-${item} && git commit -qm "one ${item}"
    - shell: cat one-${item} one-${item} >two-${item}
reduce:
  - shell: cat one-* two-* >all && git add all && git commit -qm all
`

// TestMergeOfAnInterruptedRun: a run is killed or interrupted at each event (some of them in a normal run),
// merged, and resumed. Between the two main has no half of a step, and at the end it has all that the file says, each
// commit once.
func TestMergeOfAnInterruptedRun(t *testing.T) {
	t.Parallel()
	by := every(9)
	for at := 2 + rand.IntN(by); ; at += by {
		b := newBench(t)
		b.git()
		b.write("flow.yml", interruptedFlow)
		if err := sh(b.dir, "git add -A && git commit -qm base"); err != nil {
			t.Fatal(err)
		}
		ended := b.start("die-at", strconv.Itoa(at), []string{"committed", "at-once", "interrupted"}[at/by%3])
		if got := ended.wait(t); got != -1 && got != 130 {
			if at < 30 {
				t.Fatalf("the run has only %d events: %s", at, ended.text())
			}
			return
		}
		b.quiet()
		_, state := b.recordedEvents()
		whole := state.Status != event.Running && state.Status != event.Interrupted
		said := b.start("bide", "worktree", "merge")
		status := said.wait(t)
		switch tree := b.output("git ls-tree --name-only main"); {
		case status == 1 || status == 2:
			if tree != "first.txt\nflow.yml" {
				t.Errorf("event %d: refused, and main has %q", at, tree)
			}
		case status == 3 && !whole, status == 0 && whole:
		default:
			t.Errorf("event %d: worktree merge: exit status %d: %s", at, status, said.text())
		}
		if !whole {
			if r := b.start("bide", "resume", "-y"); r.wait(t) != 0 {
				t.Errorf("event %d: %s\nresume: %s", at, said.text(), r.text())
			}
		}
		for what, want := range map[string]string{
			"for f in $(git ls-tree --name-only main); do echo $f $(git show main:$f | grep -v : | tr '\\n' ' '); done | grep -v flow.yml": "all 1 2 3 1 1 2 2 3 3\nfirst.txt first\none-1 1\none-2 2\none-3 3\nsetup s\ntwo-1 1 1\ntwo-2 2 2\ntwo-3 3 3\nuncommitted u",
			"git log --format=%s main | grep -x -e setup -e 'one .' -e all | sort":                                                         "all\none 1\none 2\none 3\nsetup",
			"git status --porcelain; git worktree list | tail -n +2; git branch --list 'bide*'; git fsck --no-dangling":                    "",
		} {
			if got := b.output(what); got != want {
				t.Errorf("event %d (%s): %s:\n%s\nwant\n%s\nmerge: %s", at, state.Phase, what, got, want, said.text())
			}
		}
		if t.Failed() {
			return
		}
	}
}
