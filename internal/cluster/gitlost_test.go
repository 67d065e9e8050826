package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/worktree"
)

// counted is a map of n items that commit. Each notes outside of git that it ran; those
// that wait do so until the file go is there.
func (s *setting) counted(n int, more string) string {
	s.repository(map[string]string{"items.jsonl": itemsText(n)})
	return fmt.Sprintf(`
name: counted
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: |
        echo "$BIDE_ITEM" >> %s
        %s
        echo "$BIDE_ITEM" > "$BIDE_ITEM.txt"
        git add -A && git commit -q -m "work on $BIDE_ITEM"
`, s.outside("ran"), more)
}

func (s *setting) outside(name string) string { return filepath.Join(filepath.Dir(s.dir), name) }

// ran counts how often items have begun.
func (s *setting) ran() map[string]int {
	s.t.Helper()
	text, err := os.ReadFile(s.outside("ran"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(text)) {
		n[strings.TrimSpace(line)]++
	}
	return n
}

// eachOnce looks whether the branch has the work of n items, each once.
func (s *setting) eachOnce(run string, n int) {
	s.t.Helper()
	s.mergeHome(run)
	files, subjects := s.content()
	times := map[string]int{}
	for _, subject := range subjects {
		times[subject]++
	}
	for i := range n {
		id := fmt.Sprintf("i%d", i)
		if files[id+".txt"] != id || times["work on "+id+"|Ada"] != 1 {
			s.t.Errorf("%s: %q, in %d commits", id, files[id+".txt"], times["work on "+id+"|Ada"])
		}
	}
	if len(subjects) != n+1 || len(files) != n+1 {
		s.t.Errorf("%d commits and %d files of %d items: %v", len(subjects), len(files), n, subjects)
	}
}

// begun takes a life of a run up to its map.
func (s *setting) begun(run string) *Coordinator {
	s.t.Helper()
	o := s.begin(run)
	begun := s.homeTask(&o, HomeTask{Run: run, Store: s.store.String(), Life: o.Life, Log: HomeLog(o.Life, 1), Begin: true})
	if begun.Config == nil {
		s.t.Fatalf("%+v: %+v", begun, s.events(run))
	}
	c, err := NewCoordinator(CoordinatorState{Run: run, Store: s.store.String(), Config: *begun.Config, Machine: begun.State, Order: o})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// ended takes a life of a run from its map to its end.
func (s *setting) ended(run string, c *Coordinator) string {
	s.t.Helper()
	c = s.lanes(run, c)
	return s.homeTask(&c.Order, HomeTask{Run: run, Store: s.store.String(), Life: c.Life, Log: HomeLog(c.Life, 2), After: true, Halt: c.Stopped()}).Status
}

// TestKilledAmidGit: lanes that are killed at any time cost the items that they have in
// work, and the branch has each item once.
func TestKilledAmidGit(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	s.kill, s.killWithin = 2, 400*time.Millisecond
	const n = 8
	run := s.submitGit(s.counted(n, ""))
	if status := s.driveGit(run); status != event.Succeeded {
		t.Fatalf("%s: %+v", status, s.events(run))
	}
	s.eachOnce(run, n)
	total := 0
	for _, times := range s.ran() {
		total += times
	}
	if total > n+s.killed {
		t.Errorf("%d items began %d times, with %d lanes killed", n, total, s.killed)
	}
}

// TestKilledBehindTheMerge: a worker that went down between the merge of an item and the
// record of its end has not lost the item, nor does it run again.
func TestKilledBehindTheMerge(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submitGit(s.counted(1, ""))
	c := s.begun(run)
	l, _, _ := c.Lease(time.Now())
	if _, err := s.workers[0].Lane(t.Context(), *l, nil, nil); err != nil {
		t.Fatal(err)
	}
	shared := s.store.Run(run)
	cut := int64(0)
	if _, err := shared.readLog(l.Log, 0, -1, func(text []byte, end int64) error {
		facts, err := eventsOf(text)
		for _, f := range facts {
			if f.Type == event.ItemMerging {
				cut = end
			}
		}
		return err
	}); err != nil || cut == 0 {
		t.Fatal(cut, err)
	}
	if err := os.Truncate(filepath.Join(shared.Path(), "lanes", l.Log+".log"), cut); err != nil {
		t.Fatal(err)
	}
	out, err := s.workers[1].Adopt(*l)
	if err != nil || out.Done != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := c.Lost(l.ID, out, time.Now()); err != nil {
		t.Fatal(err)
	}
	if status := s.onceMerged(run, s.ended(run, c)); status != event.Succeeded {
		t.Fatalf("%s: %+v", status, s.events(run))
	}
	s.eachOnce(run, 1)
	equal(t, "ran", s.ran(), map[string]int{"i0": 1})
}

// TestFrozenAmidGit: a lane that was given up merges nothing when it wakes up, neither in
// the same life of the run nor when a later one has begun.
func TestFrozenAmidGit(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]bool{"the same life": false, "a later life": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetting(t)
			// Who comes first waits; who comes second does not.
			text := s.counted(1, fmt.Sprintf("test \"$(wc -l < %s)\" -gt 1 || until test -e %s; do sleep 0.01; done", s.outside("ran"), s.outside("go")))
			run := s.submitGit(text)
			c := s.begun(run)
			l, _, _ := c.Lease(time.Now())
			ended := make(chan Settled, 1)
			frozen, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				out, err := s.workers[0].Lane(frozen, *l, nil, nil)
				if err == nil && !later {
					t.Error("a lane that was given up ended well")
				}
				ended <- out
			}()
			for s.ran()["i0"] == 0 {
				time.Sleep(time.Millisecond)
			}
			if later {
				c = s.begun(run)
			} else {
				out, err := s.workers[1].Adopt(*l)
				if err == nil {
					err = c.Lost(l.ID, out, time.Now())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(s.outside("go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if out := <-ended; out.Done > 0 {
				t.Errorf("the lane that was given up has ended items: %+v", out)
			}
			if status := s.onceMerged(run, s.ended(run, c)); status != event.Succeeded {
				t.Fatalf("%s: %+v", status, s.events(run))
			}
			s.eachOnce(run, 1)
			equal(t, "ran", s.ran(), map[string]int{"i0": 2})
		})
	}
}

// TestGitResumedElsewhere: a run of which the server lost all is resumed by another
// machine. What has ended does not run again, and that machine has the branch.
func TestGitResumedElsewhere(t *testing.T) {
	t.Parallel()
	t.Run("a directory", func(t *testing.T) { t.Parallel(); resumedElsewhere(t, newSetting(t)) })
	t.Run("a bucket", func(t *testing.T) { t.Parallel(); resumedElsewhere(t, inBucket(t, "resumed-elsewhere")) })
}

func resumedElsewhere(t *testing.T, s *setting) {
	const n = 4
	run := s.submitGit(s.counted(n, ""))
	c := s.begun(run)
	s.lose = true
	s.lanes(run, c)
	s.lose = false
	home, err := journal.OpenStore(s.outside("home2"))
	if err == nil {
		home.Refresh = Refresh(home)
		err = s.store.Adopt(home)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.home = home
	if status := s.driveGit(run); status != event.Succeeded {
		t.Fatalf("%s: %+v", status, s.events(run))
	}
	s.eachOnce(run, n)
	for id, times := range s.ran() {
		equal(t, id, times, 1)
	}
}

// TestACommitOfAFailedStepElsewhere: a step of the run that failed when it had committed is run again by a
// machine that has seen nothing of the run. As on one machine, it finds its changes uncommitted, and what
// was merged before it stays.
func TestACommitOfAFailedStepElsewhere(t *testing.T) {
	t.Parallel()
	const fails = "echo work >> work.txt; git add -A; git commit -qm work || { echo twice >> %[1]s; exit 1; }; echo more > more.txt; test -e %[2]s"
	for name, text := range map[string]string{
		"setup":  "setup:\n  - shell: echo before > before.txt\n  - shell: " + fails + "\n",
		"reduce": "setup:\n  - shell: echo before > before.txt\nreduce:\n  - shell: " + fails + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetting(t)
			s.repository(map[string]string{"items.jsonl": itemsText(2)})
			run := s.submitGit("name: fails\nmode: mapreduce\nmap:\n  input: items.jsonl\n  agent_template:\n    - shell: echo $BIDE_ITEM > $BIDE_ITEM.txt; git add -A; git commit -qm $BIDE_ITEM\n" +
				fmt.Sprintf(text, s.outside("twice"), s.outside("mended")))
			if status := s.drive(run); status != event.Failed {
				t.Fatalf("%s: %+v", status, s.events(run))
			}
			if err := os.WriteFile(s.outside("mended"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if status := s.driveGit(run); status != event.Succeeded {
				for _, e := range s.events(run) {
					t.Log(e.Type, e.Step, e.Item, e.Status, e.Message)
				}
				t.Fatal(status)
			}
			s.mergeHome(run)
			files, subjects := s.content()
			delete(files, "items.jsonl")
			equal(t, "files", files, map[string]string{"before.txt": "before", "i0.txt": "i0", "i1.txt": "i1", "more.txt": "more", "work.txt": "work\nwork"})
			if n := slices.Index(subjects, "work|Ada"); n < 0 || slices.Contains(subjects[n+1:], "work|Ada") {
				t.Errorf("commits: %q", subjects)
			}
			if _, err := os.Stat(s.outside("twice")); err == nil {
				t.Error("the step had nothing to commit")
			}
		})
	}
}

// again are items that commit, of which two fail behind their commit, until the file mended
// is there.
const again = `
name: again
mode: mapreduce
setup:
  - shell: echo prepared > notes.txt
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: |
        echo "$BIDE_ITEM" > "$BIDE_ITEM.txt"
        git add "$BIDE_ITEM.txt" && git commit -q -m "work on $BIDE_ITEM"
    - shell: case "$BIDE_ITEM" in i1|i3) test -e MENDED;; esac
reduce:
  - shell: ls *.txt > list; git add list; git commit -q -m "${map.successful} of ${map.total}"
`

// TestGitDeadLettersAgain: dead letters whose items commit are run again in a later life of
// the run, by lanes of which some are killed. What they commit comes upon what the lives
// before have merged, and the branches are those that one machine has.
func TestGitDeadLettersAgain(t *testing.T) {
	t.Parallel()
	for name, merged := range map[string]bool{"not merged yet": false, "merged by a person meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inBucket(t, "letters-"+fmt.Sprint(merged))
			s.kill, s.killWithin = 4, 400*time.Millisecond
			text := strings.ReplaceAll(again, "MENDED", s.outside("mended"))
			seed := map[string]string{"items.jsonl": itemsText(5)}
			s.repository(seed)
			run := s.submitGit(text)
			if status := s.drive(run); status != event.CompletedWithFailures {
				t.Fatalf("%s: %+v", status, s.events(run))
			}
			if merged {
				s.mergeHome(run)
			}
			if err := os.WriteFile(s.outside("mended"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			o := s.begin(run)
			o.Requeue([]Letter{{Index: 2, ID: "i1"}, {Index: 4, ID: "i3"}}, time.Now())
			if status := s.onceMerged(run, s.driveFrom(run, o)); status != event.Succeeded {
				t.Fatalf("%s: %+v", status, s.events(run))
			}
			s.mergeHome(run)
			files, subjects := s.content()

			one := newSetting(t)
			one.repository(seed)
			opt := one.options(strings.ReplaceAll(again, "MENDED", one.outside("mended")))
			opt.Isolation, opt.Yes = "worktree", merged
			if _, err := engine.Run(t.Context(), opt); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(one.outside("mended"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			opt.Yes = true
			sum, err := engine.RetryDeadLetters(t.Context(), "", opt, letters.Requeue{})
			if err != nil || sum.Status != event.Succeeded {
				t.Fatalf("%+v, %v", sum, err)
			}
			want, commits := one.content()
			equal(t, "files", files, want)
			equal(t, "commits", subjects, commits)
			equal(t, "branches", s.git("branch", "--format=%(refname:short)"), one.git("branch", "--format=%(refname:short)"))
		})
	}
}

// TestDamagedGit: a pack that is not what was written is found, and nobody works with it.
func TestDamagedGit(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submitGit(s.counted(1, ""))
	shared := s.store.Run(run)
	rep, err := shared.Verify()
	if err != nil || len(rep.Damaged) != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	path := filepath.Join(shared.Path(), "git", gitName(1))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(what, name string) {
		t.Helper()
		if rep, err = shared.Verify(); err != nil || len(rep.Damaged) != 1 || !strings.HasSuffix(rep.Damaged[0].Name, name) {
			t.Errorf("%s: %+v, %v", what, rep, err)
		}
	}
	put := func(path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	third := filepath.Join(filepath.Dir(path), gitName(3))
	put(third, whole)
	damaged("an entry behind one that is missing", "git/00000002")
	if err := os.Remove(third); err != nil {
		t.Fatal(err)
	}
	put(path, whole[:bytes.Index(whole, []byte("PACK"))])
	damaged("an entry without its pack", "git/00000001")
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-30] ^= 1
	put(path, flipped)
	damaged("another bit in a pack", "git/00000001")
	o := s.begin(run)
	if _, err := s.worker().Home(t.Context(), HomeTask{Run: run, Store: s.store.String(), Life: o.Life, Log: HomeLog(o.Life, 1), Begin: true}); err == nil {
		t.Error("a home task has begun")
	}
}

// TestEarlierLifeMergesNothing: who is of a life that is over learns of it from the chain.
func TestEarlierLifeMergesNothing(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submitGit(s.counted(1, ""))
	s.begin(run)
	g := gitShare{gitCopy: newGitCopy(s.store.Run(run)), mine: 1, all: func() []*writer { return nil }}
	if err := g.read(t.Context(), func(worktree.Origin, io.Reader) (*worktree.Repo, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	if err := g.pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.begin(run)
	if over := (*SupersededError)(nil); !errors.As(g.pull(t.Context()), &over) || over.Life != 1 || over.By != 2 {
		t.Errorf("%+v", over)
	}
}
