package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// Wherever git refuses a call of a merge queue, the run stops and says what to do. When
// that is done, it continues: everything is merged once, and verified. Hooks and signatures
// do not concern bide's own git and do not stop it.
func TestGitRefusesAMergeQueue(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		name    string
		trouble string // while the first merge is verified
		says    string // in the message of the run; "": nothing is refused
		mend    string // in the repository, before the resume
	}{
		{"the run's branch moves", "cd @WORKTREES@/$BIDE_RUN/run && echo by >by && git add by && git commit -qm by", "mend the cause, then `bide resume", "true"},
		{"the run's branch is deleted", "git update-ref refs/bak refs/heads/bide/$BIDE_RUN; git update-ref -d refs/heads/bide/$BIDE_RUN", "mend the cause, then `bide resume", "git update-ref refs/heads/bide/$(ls @RUNS@ | head -1) refs/bak"},
		{"the refs have a lock", "git pack-refs --all; touch @DIR@/.git/packed-refs.lock", "packed-refs.lock", "rm .git/packed-refs.lock"},
		{"the worktree of the verify is gone", "rm -rf \"$PWD\"", "mend the cause, then `bide resume", "true"},
		{"a hook refuses", "printf '#!/bin/sh\\nexit 1\\n' >@DIR@/.git/hooks/x; chmod +x @DIR@/.git/hooks/x; for h in pre-commit commit-msg pre-merge-commit reference-transaction post-checkout pre-push; do cp @DIR@/.git/hooks/x @DIR@/.git/hooks/$h; done", "", ""},
		{"signatures without a key", "git config --file @DIR@/.git/config commit.gpgsign true; git config --file @DIR@/.git/config user.signingkey nobody; git config --file @DIR@/.git/config gpg.program false", "", ""},
		{"the branches of items are deleted", "for b in $(git for-each-ref --format='%(refname)' refs/heads/bide-item/); do git update-ref -d $b; done", "", ""},
		{"an uncommitted file is in the way", "echo mine >@DIR@/f-1", "commit or stash first", "rm f-1"},
		{"another branch is checked out", "git -C @DIR@ switch -qc other", "it started from branch main", "git switch -q main"},
		{"the index is locked", "touch @DIR@/.git/index.lock", "index.lock", "rm .git/index.lock"},
		{"a merge is under way", "git -C @DIR@ update-ref MERGE_HEAD HEAD", "in the middle of something else", "git update-ref -d MERGE_HEAD"},
	} {
		if i%4 > 0 && chaos() == 0 {
			continue // BIDE_CHAOS=1 has all of them
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.git()
			b.opt.Yes = true
			fill := strings.NewReplacer("@DIR@", b.dir, "@RUNS@", b.home+"/runs", "@WORKTREES@", b.home+"/worktrees").Replace
			r, err := b.try(t.Context(), fmt.Sprintf(`
name: refused
mode: mapreduce
map:
  input: seq 1 3
  agent_template:
    - shell: echo ${item} >f-${item}
merge_queue:
  flaky: 0
  verify:
    - shell: %q
`, fill("test -e $EV/done || { touch $EV/done; "+c.trouble+"; }; true")))
			if err != nil {
				t.Fatal(err)
			}
			if c.says != "" {
				said := r.sum.Message + fmt.Sprint(r.events)
				if r.sum.Status == event.Succeeded || !strings.Contains(said, c.says) || r.sum.Message == "" {
					t.Errorf("%s: %s\n%s", r.sum.Status, r.sum.Message, r.story())
				}
				if err := sh(b.dir, fill(c.mend)); err != nil {
					t.Fatal(err)
				}
				r = b.resume(t.Context())
			}
			if r.sum.Status != event.Succeeded {
				t.Errorf("%s: %s\n%s", r.sum.Status, r.sum.Message, r.story())
			}
			for i := 1; i <= 3; i++ {
				if got := b.text(fmt.Sprintf("f-%d", i)); got != fmt.Sprintf("%d\n", i) {
					t.Errorf("f-%d is %q", i, got)
				}
				if got := b.output(fmt.Sprintf("git log --format=%%s --grep 'Bide-Item: %d$' main | wc -l", i-1)); got != "1" {
					t.Errorf("item %d was merged %s times", i-1, got)
				}
			}
			if bad := b.problems(); len(bad) > 0 {
				t.Errorf("the proof: %+v", bad)
			}
		})
	}
}

// A merge queue works with every other feature of a map: killed while an item's work waits
// in the queue, the run continues, and everything is merged once.
func TestMergeQueueWith(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ name, keys, step, reduce, want string }{
		{"a large output", "", "seq 1 9000", "echo \"${map.results[0].output}\" | tail -1 >>$EV/log; echo \"${map.results[3].output}\" | wc -l >>$EV/log", "9000\n9000\n"},
		{"canaries", "canary: 2", "echo ${item} >>$EV/log", "true", "1\n2\n3\n4\n"},
		{"limits", "limits: one", "mkdir $EV/alone && sleep 0.05 && rmdir $EV/alone && echo ${item} >>$EV/log", "true", "1\n2\n3\n4\n"},
		{"unchanged items", "skip_unchanged: true", "echo ${item} >>$EV/log", "true", "1\n2\n3\n4\n"},
		{"an order", "", "echo ${item} >>$EV/log", "true", "1\n2\n3\n4\n"},
	} {
		if i > 1 && chaos() == 0 {
			continue // BIDE_CHAOS=1 has all of them
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.git()
			if c.name == "limits" {
				b.bide("limits", "set", "one", "slots=1")
			}
			order := "ended"
			if c.name == "an order" {
				order = "index"
			}
			b.write("flow.yml", b.fill(fmt.Sprintf(`
name: with
mode: mapreduce
map:
  input: seq 1 4
  max_parallel: 2
  %s
  agent_template:
    - shell: echo ${item} >f-${item}
    - shell: %s
  evidence: {checks: [test ! -e bad]}
merge_queue: {batch: 2, order: %s}
reduce:
  - shell: %s
`, c.keys, c.step, order, c.reduce)))
			if err := sh(b.dir, "git add -A && git commit -qm flow"); err != nil {
				t.Fatal(err)
			}
			if status := b.start("die-at", "item_merging/1", "committed").wait(t); status != -1 {
				t.Fatalf("exit status %d", status)
			}
			b.quiet()
			p := b.start("bide", "resume", "-y")
			if status := p.wait(t); status != 0 {
				t.Fatalf("resume: exit status %d: %s", status, p.text())
			}
			lines := b.lines()
			slices.Sort(lines)
			if got := strings.Join(slices.Compact(lines), "\n") + "\n"; got != strings.Join(slices.Compact(strings.SplitAfter(c.want, "\n")), "") {
				t.Errorf("the steps wrote %q, want %q", got, c.want)
			}
			for i := 1; i <= 4; i++ {
				if got := b.text(fmt.Sprintf("f-%d", i)); got != fmt.Sprintf("%d\n", i) {
					t.Errorf("f-%d is %q", i, got)
				}
				if got := b.output(fmt.Sprintf("git log --format=%%s --grep 'Bide-Item: %d$' main | wc -l", i-1)); got != "1" {
					t.Errorf("item %d was merged %s times", i-1, got)
				}
			}
			if bad := b.problems(); len(bad) > 0 {
				t.Errorf("the proof: %+v", bad)
			}
			if c.name == "unchanged items" {
				if said := b.bide("run", "-y", "flow.yml"); !strings.Contains(said, "3 unchanged") && !strings.Contains(said, "4 unchanged") || len(b.lines()) > 5 { // for the item in flight, the commit that it started from is not known
					t.Errorf("it ran again: %s %q", said, b.lines())
				}
			}
		})
	}
}
