package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/worktree"
)

// The items of a map have only shell steps and commit, several at a time. Each is in its
// own worktree, and the user's checkout stays on its branch.
func TestItemsThatCommitAreIsolated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(`
mode: mapreduce
map:
  input: seq 1 8
  max_parallel: 4
  agent_template:
    - shell: git checkout -q -b item-${item} && echo ${item} > f-${item} && git add . && git commit -qm "item ${item}" && ls > "$EV/seen-${item}"
`)
	r.status("succeeded")
	if r.sum.Items.Succeeded != 8 {
		t.Fatal(r.story())
	}
	for i := range 8 {
		name := string(rune('1' + i))
		if _, err := os.Stat(filepath.Join(b.dir, "f-"+name)); err != nil {
			t.Error(err)
		}
		seen, err := os.ReadFile(filepath.Join(b.ev, "seen-"+name))
		if err != nil || strings.Count(string(seen), "f-") != 1 {
			t.Errorf("item %s saw %q (%v)", name, seen, err)
		}
	}
	if err := sh(b.dir, `test "$(git symbolic-ref --short HEAD)" = main && test -z "$(git status --porcelain)" && test "$(git worktree list | wc -l)" = 1`); err != nil {
		t.Error(err)
	}
}

// With --isolation none, the items work in one tree, and the run says what that means.
func TestIsolationNoneSaysWhatItGivesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Isolation = "none"
	r := b.run(`
mode: mapreduce
map:
  input: [1, 2]
  max_parallel: 1
  agent_template:
    - shell: git commit -q --allow-empty -m "item ${item}"
`)
	r.status("succeeded")
	if !r.noted("isolation: none") {
		t.Fatal(r.story())
	}
}

// Inside a git hook, an alias or `git rebase --exec`, variables name the user's own
// repository and index. Steps in worktrees do not get these variables. Variables that the
// file sets stay.
func TestIsolatedInsideAHook(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	for _, name := range worktree.Elsewhere {
		b.setenv(name, filepath.Join(b.dir, ".git", "nowhere"))
	}
	r := b.run(`
mode: mapreduce
isolation: worktree
env: {GIT_PREFIX: own}
setup:
  - shell: echo setup > setup; git add setup; git commit -qm setup
map:
  input: [1, 2]
  agent_template:
    - shell: set -e; env | grep -o '^GIT_[A-Z_]*' | sort > $EV/seen-${item}; test "$GIT_PREFIX" = own; echo ${item} > f-${item}; git add .; git commit -qm "item ${item}"
reduce:
  - shell: set -e; git ls-files > listed; git add listed; git commit -qm listed
`)
	r.status("succeeded")
	if got := b.output("git show main:listed"); got != "f-1\nf-2\nfirst.txt\nsetup" {
		t.Errorf("main has %q", got)
	}
	seen := strings.Fields(r.file("seen-1"))
	for _, name := range worktree.Elsewhere {
		if slices.Contains(seen, name) && name != "GIT_PREFIX" {
			t.Errorf("items have %s", name)
		}
	}
}

// The attempt after a conflict starts from all that is merged by then, so the same work has
// no conflict again. Other attempts start from the snapshot of the map.
func TestTriedAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(`
mode: mapreduce
isolation: worktree
setup:
  - shell: echo setup > setup
map:
  input: [1, 2, 3]
  max_parallel: 3
  retry_config: {attempts: 2, backoff: fixed, initial_delay: 1ms}
  agent_template:
    - shell: |
        set -e
        echo ${item} >> $EV/begun; until [ $(wc -l < $EV/begun) -ge 3 ]; do sleep 0.01; done
        cat both > "$EV/seen-${item}-$BIDE_ATTEMPT" || true
        cat setup >> "$EV/seen-${item}-$BIDE_ATTEMPT"
        if [ ${item} = 3 ]; then echo 3 > third; else echo ${item} >> both; fi
`)
	r.status(event.Succeeded)
	both := strings.Fields(b.output("git show main:both"))
	if slices.Sort(both); !slices.Equal(both, []string{"1", "2"}) {
		t.Fatalf("main has %q\n%s", both, r.story())
	}
	if n := len(r.of(event.ItemRetry)); n != 1 {
		t.Errorf("%d items were tried again", n)
	}
	seen := r.file("seen-1-1") + " " + r.file("seen-2-1") + " " + r.file("seen-3-1")
	if seen != "setup setup setup" {
		t.Errorf("the first attempts saw %q", seen)
	}
	again := r.file("seen-1-2") + " " + r.file("seen-2-2")
	if again != "2\nsetup -" && again != "- 1\nsetup" {
		t.Errorf("the second attempt saw %q", again)
	}
}

// Each dead letter that is retried starts from all that is merged by then, including the
// work of the dead letters before it.
func TestRetriedOnTopOfTheOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(`
mode: mapreduce
isolation: worktree
map:
  input: [1, 2, 3]
  max_parallel: 3
  agent_template:
    - shell: |
        set -e
        echo ${item} >> $EV/begun; until [ $(wc -l < $EV/begun) -ge 3 ]; do sleep 0.01; done
        echo ${item} >> both
`)
	r.status(event.CompletedWithFailures)
	if n := r.sum.Items.Failed; n != 2 {
		t.Fatalf("%d items have a conflict%s", n, r.story())
	}
	store, err := journal.OpenStore(b.home)
	if err != nil {
		t.Fatal(err)
	}
	opt := b.opt
	opt.Store, opt.MaxParallel = store, 1
	sum, err := engine.RetryDeadLetters(t.Context(), "", opt, letters.Requeue{})
	if err != nil || sum.Status != event.Succeeded {
		t.Errorf("%+v, %v", sum, err)
	}
	both := strings.Fields(b.output("git show main:both"))
	if slices.Sort(both); !slices.Equal(both, []string{"1", "2", "3"}) {
		t.Errorf("main has %q%s", both, r.story())
	}
}

// After a run was merged, an item that is retried or run again starts from the branch as it
// is then. It sees the repair that a person has committed, whatever the failed items left.
func TestRetriedOnTopOfTheMend(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"nothing is left":     {"item": `sh check.sh ${item}; echo ${item} > ${item}.txt`},
		"a file is left":      {"item": `echo ${item} > ${item}.txt; sh check.sh ${item}`},
		"a commit is left":    {"item": `echo ${item} > ${item}.txt; git add .; git commit -qm ${item}; sh check.sh ${item}`},
		"and reduce commits":  {"item": `echo ${item} > ${item}.txt; sh check.sh ${item}`, "reduce": "\nreduce:\n  - shell: echo $(( $(cat count) + 1 )) > count\n"},
		"and a step is rerun": {"item": `echo ${item} > ${item}.txt; sh check.sh ${item}`, "reduce": "\nreduce:\n  - shell: echo $(( $(cat count) + 1 )) > count\n", "rerun": "reduce[0]"},
		"merged by hand":      {"item": `echo ${item} > ${item}.txt; sh check.sh ${item}`, "reduce": "\nreduce:\n  - shell: echo $(( $(cat count) + 1 )) > count\n", "by hand": "git merge -q --no-ff $(git branch --list 'bide/*' --format='%(refname:short)')"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.git()
			b.opt.Yes = files["by hand"] == ""
			b.output("echo 'test $1 != b' > check.sh; echo 0 > count; git add .; git commit -qm check")
			r := b.run("mode: mapreduce\nisolation: worktree\nmap:\n  input: [a, b]\n  agent_template:\n    - shell: |\n        set -e\n        " + files["item"] + "\n" + files["reduce"])
			r.status(event.CompletedWithFailures)
			if by := files["by hand"]; by != "" {
				b.output(by)
			}
			b.output("echo true > check.sh; git commit -qam mend")
			store, err := journal.OpenStore(b.home)
			if err != nil {
				t.Fatal(err)
			}
			opt := b.opt
			opt.Store, opt.Yes = store, true
			sum, err := engine.RetryDeadLetters(t.Context(), "", opt, letters.Requeue{})
			if err != nil || sum.Status != event.Succeeded {
				t.Errorf("%+v, %v", sum, err)
			}
			lives := 2
			if step := files["rerun"]; step != "" {
				lives++
				if sum, err = engine.Rerun(t.Context(), "", step, false, opt); err != nil || sum.Status != event.Succeeded {
					t.Errorf("%+v, %v", sum, err)
				}
			}
			if files["reduce"] == "" {
				lives = 0
			}
			want := map[string]string{"a.txt": "a", "b.txt": "b", "check.sh": "true", "count": fmt.Sprint(lives)}
			for name, text := range want {
				if got := strings.TrimSpace(b.output("git show main:" + name)); got != text {
					t.Errorf("main has %q as %s, want %q", got, name, text)
				}
			}
			if got := b.output("git branch --list 'bide/*'"); strings.TrimSpace(got) != "" {
				t.Errorf("branches are left: %s", got)
			}
			rd, err := store.Read("")
			if err != nil {
				t.Fatal(err)
			}
			for e, err := range rd.Events(t.Context(), 1, journal.EventFilter{Types: []event.Type{event.Note}}) {
				if err != nil || strings.Contains(e.Message, "by somebody") {
					t.Errorf("told is: %s%v", e.Message, err)
				}
			}
			if err := rd.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// If a run is not merged, its retried items do not see later commits, and the run says so.
func TestRetriedBehindTheMend(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.output("echo 'test $1 != b' > check.sh; git add .; git commit -qm check")
	b.run("mode: mapreduce\nisolation: worktree\nmap:\n  input: [a, b]\n  agent_template:\n    - shell: echo ${item} > ${item}.txt; sh check.sh ${item}\n").status(event.CompletedWithFailures)
	b.output("echo true > check.sh; git commit -qam mend")
	store, err := journal.OpenStore(b.home)
	if err != nil {
		t.Fatal(err)
	}
	opt := b.opt
	opt.Store = store
	if sum, err := engine.RetryDeadLetters(t.Context(), "", opt, letters.Requeue{}); err != nil || sum.Status != event.CompletedWithFailures {
		t.Errorf("%+v, %v", sum, err)
	}
	rd, err := store.Read("")
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	told := 0
	for e, err := range rd.Events(t.Context(), 1, journal.EventFilter{Types: []event.Type{event.Note}}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Message, "main has 1 commit that the run's work is not merged with yet") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("it is told %d times", told)
	}
}
