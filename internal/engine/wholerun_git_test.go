package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// Whole runs of isolated maps: random workflows, with the real git and real processes, are
// killed at their records. What git says about the target branch and the user's checkout is
// compared with an undisturbed run of the same workflow.

func init() { parts["whole"] = wholeMain }

// wholeMain runs the workflow of the working directory, or continues its run, and ends with
// SIGKILL at the n-th event of this life; 0: at none.
func wholeMain() int {
	at, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return complain(err)
	}
	home, err := journal.Home()
	if err != nil {
		return complain(err)
	}
	store, err := journal.OpenStore(home)
	if err != nil {
		return complain(err)
	}
	n := 0
	opt := engine.Options{Store: store, Sinks: []event.Sink{event.SinkFunc(func(event.Event) {
		if n++; n != at {
			return
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		select {}
	})}}
	opt.Dir, opt.Yes = ".", true
	if _, err := store.Find(""); err != nil {
		return dieRun(context.Background(), opt)
	}
	sum, err := engine.Resume(context.Background(), "", opt)
	if err != nil && !errors.As(err, new(*engine.FinishedError)) {
		return complain(err)
	}
	return sum.ExitStatus()
}

// gitPlan is a random workflow with an isolated map.
type gitPlan struct {
	items, parallel, files int
	setup, commits, clash  bool
	fails                  int // the item that fails once, after it has left something; 0: none
	late                   int // the step before which it fails
}

func newGitPlan(seed uint64) *gitPlan {
	r := rand.New(rand.NewPCG(seed, 22))
	p := &gitPlan{items: 1 + r.IntN(3), parallel: 1 + r.IntN(2), files: 1 + r.IntN(5), setup: r.IntN(2) == 0, commits: r.IntN(2) == 0, clash: r.IntN(4) == 0, late: r.IntN(2)}
	if r.IntN(2) == 0 {
		p.fails = 1 + r.IntN(p.items)
	}
	if p.clash {
		p.parallel = 1 // so that the second item always has the conflict
	}
	return p
}

// file gives the workflow. $EV is outside of git; it says which items have failed. A step
// that was cut short runs again in the tree as it left it. So the second step finds the
// file of the first where the file was, or where the step itself has moved it. The file of
// the third, which may have begun, is never in the second step's commit.
func (p *gitPlan) file() string {
	var b strings.Builder
	b.WriteString("name: whole\nmode: mapreduce\nisolation: worktree\nerror_policy: {max_recoveries: 1000, retry_config: {max_attempts: 3, initial_delay: 1ms, backoff: fixed}}\n")
	if p.setup {
		b.WriteString("setup:\n  - shell: echo setup > setup.txt; echo base > both.txt\n")
	}
	b.WriteString("map:\n  input: [")
	for i := range p.items {
		fmt.Fprintf(&b, "{id: i%d}, ", i+1)
	}
	fail := fmt.Sprintf("if [ ${item.id} = i%d ] && [ ! -e $EV/failed ]; then touch $EV/failed; echo junk > junk; git add junk; exit 1; fi", p.fails)
	early, late := fail, "true"
	if p.late == 1 {
		early, late = late, early
	}
	fmt.Fprintf(&b, "]\n  max_parallel: %d\n  agent_template:\n", p.parallel)
	fmt.Fprintf(&b, "    - shell: mkdir -p out/${item.id}; for i in $(seq %d); do echo \"${item.id} $i\" > out/${item.id}/f$i; done\n", p.files)
	fmt.Fprintf(&b, "    - shell: |\n        %s\n        test -e out/${item.id}/f1 || test -e out/${item.id}/moved || echo ${item.id} >> $EV/lost\n        mv out/${item.id}/f1 out/${item.id}/moved\n", early)
	if p.clash {
		b.WriteString("        echo ${item.id} > both.txt\n")
	}
	if p.commits {
		fmt.Fprintf(&b, "        %s\n        git add -A -- . ':!out/*/end'; git commit -qm \"work ${item.id}\"\n", late)
	} else {
		fmt.Fprintf(&b, "        %s\n", late)
	}
	b.WriteString("    - shell: echo end > out/${item.id}/end; echo out-${item.id}\nreduce:\n  - shell: echo ${map.successful}/${map.total} > $EV/sum\n")
	return b.String()
}

// gitRun is a completed run of a plan.
type gitRun struct {
	*bench
	status int
	events int // events of its first life, if that was completed
	lives  []string
}

// run takes a plan to its end, with a kill at an event of each life.
func (p *gitPlan) run(t *testing.T, kills ...int) *gitRun {
	t.Helper()
	r := &gitRun{bench: newBench(t)}
	r.git()
	r.write("flow.yml", p.file())
	if err := sh(r.dir, "git add . && git commit -qm flow"); err != nil {
		t.Fatal(err)
	}
	r.write("mine.txt", "of the user\n")
	for _, at := range append(kills, 0) {
		x := r.start("whole", strconv.Itoa(at))
		r.status = x.wait(t)
		r.quiet()
		r.lives = append(r.lives, fmt.Sprintf("killed at %d: %d: %s", at, r.status, x.text()))
		if r.status >= 0 {
			break
		}
	}
	events, _ := r.recordedEvents()
	r.events = len(events)
	return r
}

// content gives what the target branch has, the subjects of its commits, and how the items
// have ended.
func (r *gitRun) content() string {
	ends := map[string]string{}
	events, _ := r.recordedEvents()
	for _, e := range events {
		if e.Type == event.ItemFinished {
			ends[e.Item] = e.Status
		}
	}
	return fmt.Sprint(ends, "\n", r.output(`git ls-tree -r main | cut -d ' ' -f 3; git log --no-merges --format=%s main | sort; cat $(dirname "$PWD")/ev/sum`))
}

// allMerged reports whether the items of a plan have succeeded, items with conflicts one
// after the other, and whether the target branch has the work of all of them.
func (r *gitRun) allMerged(p *gitPlan) bool {
	want := ""
	for i := range p.items {
		want += fmt.Sprintf("out/i%d/end\n", i+1)
	}
	return r.status == 0 && r.output("git ls-tree -r --name-only main | grep '/end$' | sort") == strings.TrimSuffix(want, "\n") &&
		r.output("cat ../ev/sum") == fmt.Sprintf("%d/%d", p.items, p.items)
}

// left gives what a run has left behind and should not have.
func (r *gitRun) left() string {
	return r.output(`
		[ "$(cat mine.txt)" = "of the user" ] || echo "mine.txt is not the user's"
		git status --porcelain | grep -vxF '?? mine.txt'
		git worktree list --porcelain | grep '^worktree' | tail -n +2
		find .git -name '*.lock' ! -path .git/bide.lock; [ ! -e .git/MERGE_HEAD ] || echo MERGE_HEAD
		git fsck --no-dangling 2>&1 | grep -v '^notice'
		[ ! -e "$(dirname "$PWD")/ev/lost" ] || cat "$(dirname "$PWD")/ev/lost"; true`)
}

// TestWholeGitRuns kills runs at their records. With BIDE_WHOLE_GIT, the number of
// workflows, it kills at each record, and otherwise at a few.
func TestWholeGitRuns(t *testing.T) {
	t.Parallel()
	first, n := fromEnv(t, "BIDE_WHOLE_FROM", 0), fromEnv(t, "BIDE_WHOLE_GIT", 0)
	all := n > 0
	for i := range max(n, 2) {
		seed := uint64(first + i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := newGitPlan(seed)
			calm := p.run(t)
			if left := calm.left(); left != "" || calm.status != 0 && !(p.clash && p.items > 1 && calm.status == 3) {
				t.Fatalf("undisturbed: %q, left %q\n%s", calm.lives, left, p.file())
			}
			r := rand.New(rand.NewPCG(seed, 23))
			for at := 1; at <= calm.events; at++ {
				if !all && r.IntN(calm.events) > 1 {
					continue
				}
				kills := []int{at}
				for r.IntN(3) == 0 {
					kills = append(kills, 1+r.IntN(12))
				}
				got := p.run(t, kills...)
				if left := got.left(); left == "" && p.clash && got.allMerged(p) {
					continue // the second began after a kill, from the commit with the first one's work
				} else if left != "" || got.status != calm.status || got.content() != calm.content() {
					t.Errorf("seed %d, kills %v: left %q, status %d, and\n%s\nwant status %d and\n%s\n%q\n%s", seed, kills, left, got.status, got.content(), calm.status, calm.content(), got.lives, p.file())
				}
				if err := os.RemoveAll(filepath.Dir(got.dir)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
