package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/worktree"
)

// repository makes the directory of a setting a git repository with a first commit.
func (s *setting) repository(files map[string]string) {
	s.t.Helper()
	s.git("init", "-q", "-b", "main")
	s.git("config", "user.name", "Ada")
	s.git("config", "user.email", "ada@example.org")
	for name, text := range files {
		s.write(name, text)
	}
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "start")
}

func (s *setting) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// submitGit makes a run whose agents work in worktrees.
func (s *setting) submitGit(text string) string {
	s.t.Helper()
	opt := s.options(text)
	opt.Isolation, opt.AllowRedBase = "worktree", s.allowRed
	h, err := engine.Plan(opt)
	if err != nil {
		s.t.Fatal(err)
	}
	repo, err := worktree.Open(s.t.Context(), s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	p := Plan{Protocol: Protocol, Header: h}
	shared, err := s.store.Create(p)
	if err == nil {
		err = shared.PutGit(s.t.Context(), repo)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	j, err := Make(s.home, s.store, p)
	if err == nil {
		err = j.Close()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return h.Run
}

// driveGit is drive of a run whose work is not merged yet: it gives how the run has ended
// once that is.
func (s *setting) driveGit(run string) string {
	s.t.Helper()
	return s.onceMerged(run, s.drive(run))
}

func (s *setting) onceMerged(run, status string) string {
	s.t.Helper()
	r, err := s.home.Read(run)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	sum, err := r.Summary(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if sum.Left.OnlyMerge() && status == event.CompletedWithFailures {
		return sum.Left.Once
	}
	return status
}

// mergeHome merges the branch of a run as a person does who runs bide worktree merge.
func (s *setting) mergeHome(run string) {
	s.t.Helper()
	if _, err := s.store.Run(run).Bring(s.t.Context(), ""); err != nil {
		s.t.Fatal(err)
	}
	repo, err := worktree.Open(s.t.Context(), s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := repo.FindRun(s.t.Context(), worktree.RunOptions{ID: run})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := found.FinalMerge(s.t.Context(), worktree.MergeOptions{}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := found.Remove(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// content is what main has: its files, and the subjects of the commits that are no merges,
// sorted.
func (s *setting) content() (files map[string]string, subjects []string) {
	s.t.Helper()
	files = map[string]string{}
	for name := range strings.Lines(s.git("ls-tree", "-r", "--name-only", "main")) {
		name = strings.TrimSpace(name)
		files[name] = s.git("show", "main:"+name)
	}
	for line := range strings.Lines(s.git("log", "--no-merges", "--format=%s|%an", "main")) {
		subjects = append(subjects, strings.TrimSpace(line))
	}
	slices.Sort(subjects)
	return files, subjects
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

const committing = `
name: committing
mode: mapreduce
setup:
  - shell: echo prepared > notes.txt
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: |
        test "$(cat notes.txt)" = prepared
        echo "$BIDE_ITEM" > "$BIDE_ITEM.txt"
        git add -A && git commit -q -m "work on $BIDE_ITEM"
reduce:
  - shell: ls *.txt > list && git add list && git commit -q -m "${map.successful} of ${map.total}"
`

// TestAgentsCommitOnManyWorkers: the items of a map commit in worktrees, on two workers of
// which each has a clone. The branch has each commit once, as on one machine.
func TestAgentsCommitOnManyWorkers(t *testing.T) {
	t.Run("a directory", func(t *testing.T) { t.Parallel(); agentsCommit(t, newSetting(t)) })
	t.Run("a bucket", func(t *testing.T) {
		t.Parallel()
		s := inBucket(t, "agents-commit")
		s.kill = 4
		agentsCommit(t, s)
	})
}

func agentsCommit(t *testing.T, s *setting) {
	s.repository(map[string]string{"items.jsonl": itemsText(6), "a": "a"})
	run := s.submitGit(committing)
	if status := s.driveGit(run); status != event.Succeeded {
		t.Fatalf("%s: %+v", status, s.events(run))
	}
	s.mergeHome(run)
	want := map[string]string{"items.jsonl": strings.TrimSpace(itemsText(6)), "a": "a", "notes.txt": "prepared"}
	subjects := []string{"start|Ada", "6 of 6|Ada", "bide: committing|Ada"}
	list := "notes.txt\n"
	for i := range 6 {
		want[fmt.Sprintf("i%d.txt", i)] = fmt.Sprintf("i%d", i)
		subjects = append(subjects, fmt.Sprintf("work on i%d|Ada", i))
	}
	list = "i0.txt\ni1.txt\ni2.txt\ni3.txt\ni4.txt\ni5.txt\nnotes.txt"
	want["list"] = list
	slices.Sort(subjects)
	files, got := s.content()
	equal(t, "files", files, want)
	equal(t, "commits", got, subjects)
	if _, err := os.Stat(filepath.Join(s.dir, "i0.txt")); err != nil {
		t.Error(err)
	}
}

// oneMachine runs the same text on one machine, in a repository of its own, and gives its
// content.
func (s *setting) oneMachine(text string, seed map[string]string) (status string, files map[string]string, subjects []string) {
	s.t.Helper()
	one := newSetting(s.t)
	one.repository(seed)
	opt := one.options(text)
	opt.Isolation, opt.Yes = "worktree", true
	sum, err := engine.Run(s.t.Context(), opt)
	if err != nil {
		s.t.Fatal(err)
	}
	files, subjects = one.content()
	return sum.Status, files, subjects
}

// TestGitAsOnOneMachine: what becomes of the work of items is the same on many machines
// and on one.
func TestGitAsOnOneMachine(t *testing.T) {
	t.Parallel()
	head := "name: alike\nmode: mapreduce\nmap:\n  input: items.jsonl\n  max_parallel: 3\n"
	for name, c := range map[string]struct{ text, status string }{
		"left uncommitted":    {head + "  agent_template:\n    - shell: echo $BIDE_ITEM > $BIDE_ITEM.txt\n", event.Succeeded},
		"not to be committed": {head + "  agent_template:\n    - shell: echo $BIDE_ITEM > $BIDE_ITEM.txt\n      auto_commit: false\n", event.CompletedWithFailures},
		"commit_required": {head + "  agent_template:\n    - shell: case $BIDE_ITEM in i2) ;; *) echo $BIDE_ITEM > $BIDE_ITEM.txt; git add -A; git commit -qm $BIDE_ITEM;; esac\n      commit_required: true\n",
			event.CompletedWithFailures},
		"a second attempt": {head + "  agent_template:\n    - shell: |\n        echo $BIDE_ATTEMPT > $BIDE_ITEM.txt; git add -A; git commit -qm \"$BIDE_ITEM $BIDE_ATTEMPT\"; test $BIDE_ITEM-$BIDE_ATTEMPT != i3-1\n" +
			"  retry_config: {attempts: 2, backoff: fixed, initial_delay: 10ms}\n", event.Succeeded},
		"a conflict, and again upon what is merged": {head + "  agent_template:\n    - shell: |\n        printf '%s\\n' \"$BIDE_ITEM\" >> all; sort -o all all; git commit -qam add\n" +
			"  retry_config: {attempts: 9, backoff: fixed, initial_delay: 1ms}\n", event.Succeeded},
		"files of setup that items remove": {"name: alike\nmode: mapreduce\nsetup:\n  - shell: touch left.i0 left.i1 left.more; git rm -q --cached base; echo 2 >> items.jsonl.more\n" +
			"map:\n  input: items.jsonl\n  max_parallel: 2\n  agent_template:\n    - shell: rm -f left.$BIDE_ITEM; echo x > $BIDE_ITEM; git add $BIDE_ITEM; git commit -qam $BIDE_ITEM\n" +
			"reduce:\n  - shell: ls > seen\n  - shell: git log --oneline | wc -l | tr -d ' ' > count; git add -A; git commit -qm counted\n", event.Succeeded},
	} {
		if name != "a conflict, and again upon what is merged" && os.Getenv("BIDE_CLUSTER_GIT") == "" {
			continue // make cluster has the others
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetting(t)
			seed := map[string]string{"items.jsonl": itemsText(5), "all": "0\n", "base": "b\n"}
			status, files, subjects := s.oneMachine(c.text, seed)
			s.repository(seed)
			run := s.submitGit(c.text)
			drive := s.driveGit
			if name == "not to be committed" {
				drive = s.drive
			}
			equal(t, "status", drive(run), status)
			equal(t, "status of one machine", status, c.status)
			if name != "not to be committed" {
				s.mergeHome(run)
			}
			got, commits := s.content()
			equal(t, "files", got, files)
			equal(t, "commits", commits, subjects)
		})
	}
}

// checked are items that have to show something before they are merged: i1 does at its second
// attempt, which reads what the check printed, and i2 changes what it must not.
const checked = `
name: checked
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  retry_config: {attempts: 2, initial_delay: 10ms}
  agent_template:
    - shell: |
        printf %s "${evidence.output}" | tail -n 1 > $BIDE_ITEM.txt
        test $BIDE_ITEM != i2 || echo changed > items.jsonl
        git add -A && git commit -q -m "work on $BIDE_ITEM"
  evidence:
    checks:
      - test -e items.jsonl
      - test "$BIDE_ITEM" != i1 || grep "not shown" i1.txt || { seq 3; echo not shown; exit 1; }
    protect: [items.jsonl]
reduce:
  - shell: ls *.txt > list; git add list; git commit -q -m "${map.successful} of ${map.total}"
`

// evidenceOf is what the ends of the items of a run in a home say of the checks.
func evidenceOf(t *testing.T, home *journal.Store, run string) string {
	t.Helper()
	r, err := home.Read(run)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	list := map[int]string{}
	for e, err := range r.Events(t.Context(), 1, journal.EventFilter{Types: []event.Type{event.ItemFinished}}) {
		var d struct{ Evidence *mapper.Evidence }
		if err == nil && len(e.Data) > 0 {
			err = json.Unmarshal(e.Data, &d)
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Index == 0 || e.Status == event.Interrupted {
			continue
		}
		text := fmt.Sprintf("%s: %s %s %s:", e.Item, e.Status, e.Class, e.Message)
		if d.Evidence != nil {
			for _, c := range d.Evidence.Checks {
				printed := []byte{}
				if c.File != "" {
					if printed, err = os.ReadFile(c.File); err != nil {
						t.Error(err)
					}
				}
				text += fmt.Sprintf(" %s %d %q %s", c.Status, c.ExitCode, printed, c.Digest)
			}
			text += fmt.Sprint(d.Evidence.Refused)
		}
		list[e.Index] = text
	}
	return fmt.Sprint(list)
}

// TestEvidenceOnManyWorkers: items show on each worker what they show on one machine, and
// only what has shown it is merged.
func TestEvidenceOnManyWorkers(t *testing.T) {
	t.Parallel()
	s, one := inBucket(t, "evidence"), newSetting(t)
	s.kill, s.killWithin = 4, 400*time.Millisecond
	seed := map[string]string{"items.jsonl": itemsText(4)}
	one.repository(seed)
	opt := one.options(checked)
	opt.Isolation, opt.Yes = "worktree", true
	sum, err := engine.Run(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	s.repository(seed)
	run := s.submitGit(checked)
	equal(t, "status", s.driveGit(run), sum.Status)
	s.mergeHome(run)
	equal(t, "what is shown", evidenceOf(t, s.home, run), evidenceOf(t, one.home, sum.Run))
	files, subjects := s.content()
	want, commits := one.content()
	equal(t, "files", files, want)
	equal(t, "commits", subjects, commits)
	if files["i1.txt"] != "not shown" || files["i2.txt"] != "" || files["i3.txt"] != "" {
		t.Errorf("%q", files)
	}
}

// TestRedBaseOnManyWorkers: where a check fails on what the items start from, none of them
// runs, unless the run was begun with --allow-red-base.
func TestRedBaseOnManyWorkers(t *testing.T) {
	t.Parallel()
	for name, allow := range map[string]bool{"refused": false, "allowed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetting(t)
			s.allowRed = allow
			s.repository(map[string]string{"items.jsonl": itemsText(2)})
			run := s.submitGit("mode: mapreduce\nmap:\n  input: items.jsonl\n  evidence: {checks: ['test -e missing']}\n  agent_template:\n    - shell: echo x > $BIDE_ITEM; git add -A; git commit -q -m $BIDE_ITEM\n")
			status := s.driveGit(run)
			began, message := 0, ""
			for _, e := range s.events(run) {
				if message = e.Message; e.Type == event.ItemStarted {
					began++
				}
			}
			if allow && (status != event.Succeeded || began != 2) || !allow && (status != event.Failed || began != 0 || !strings.Contains(message, "the base is red")) {
				t.Errorf("%s, %d items: %s", status, began, message)
			}
		})
	}
}
