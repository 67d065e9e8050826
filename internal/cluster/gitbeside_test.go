package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/worktree"
)

// broughtBranches are the branches of items that a run has brought home, each with the names
// of the files that it adds to main.
func (s *setting) broughtBranches(run string) (files []string) {
	s.t.Helper()
	if _, err := s.store.Run(run).Bring(s.t.Context(), ""); err != nil {
		s.t.Fatal(err)
	}
	for branch := range strings.Lines(s.git("for-each-ref", "--format=%(refname)", "refs/heads/bide-item/")) {
		files = append(files, strings.Fields(s.git("diff", "--name-only", "main..."+strings.TrimSpace(branch)))...)
	}
	slices.Sort(files)
	return files
}

// mergeItem merges a branch of an item as bide worktree merge does.
func (s *setting) mergeItem(run, branch string) {
	s.t.Helper()
	repo, err := worktree.Open(s.t.Context(), s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := repo.FindRun(s.t.Context(), worktree.RunOptions{ID: run})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := found.FinalMergeItem(s.t.Context(), branch, worktree.MergeOptions{Message: "item"}); err != nil {
		s.t.Error(err)
	}
}

// TestBringToNowhere: a repository that is not where the run was started is an error, and no
// end of what the store has.
func TestBringToNowhere(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	s.repository(map[string]string{"items.jsonl": itemsText(1)})
	run := s.submitGit("name: away\nmode: mapreduce\nmap:\n  input: items.jsonl\n  agent_template: [{shell: 'echo x > x'}]\n")
	s.drive(run)
	if err := os.Rename(s.dir, s.dir+".away"); err != nil {
		t.Fatal(err)
	}
	if is, err := s.store.Run(run).Bring(t.Context(), ""); err == nil || !strings.Contains(err.Error(), s.dir) {
		t.Errorf("%v, %v", is, err)
	}
	if is, err := s.store.Run(run).Bring(t.Context(), s.dir+".away"); err != nil || !is {
		t.Errorf("%v, %v", is, err)
	}
}

// TestWorkThatGoesWithTheClone: what neither a merge nor a branch can have is lost with the
// clone of the worker. The run says so, and is no success once its work is merged.
func TestWorkThatGoesWithTheClone(t *testing.T) {
	t.Parallel()
	head := "name: goes\nmode: mapreduce\nmap:\n  input: items.jsonl\n  agent_template:\n    - shell: |\n"
	for name, c := range map[string]struct{ text, told string }{
		"a repository": {head + "        echo x > $BIDE_ITEM; git init -q own; git -C own -c user.name=A -c user.email=a@example.org commit -q --allow-empty -m own\n",
			"item i0 made 1 git repository of its own below its worktree, whose files no commit of it can have: all of it goes with the clone of the worker"},
		"a submodule": {head + "        git -c protocol.file.allow=always submodule update -q --init; git -C sub -c user.name=A -c user.email=a@example.org commit -q --allow-empty -m own; git commit -qam moved\n",
			"item i0 left what no other repository has in 1 submodule: all of it goes with the clone of the worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetting(t)
			s.repository(map[string]string{"items.jsonl": itemsText(1)})
			other := newSetting(t)
			other.repository(map[string]string{"s": "s"})
			s.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.dir, "sub")
			s.git("commit", "-q", "-m", "sub")
			run := s.submitGit(c.text)
			equal(t, "status", s.driveGit(run), event.CompletedWithFailures)
			told := ""
			for _, e := range s.events(run) {
				if e.Type == event.Note {
					told += e.Message + "\n"
				}
			}
			for _, want := range []string{c.told, "1 item left what neither a merge nor a branch has"} {
				if !strings.Contains(told, want) {
					t.Errorf("%q is not told: %s", want, told)
				}
			}
			if strings.Contains(told, "kept as") || strings.Contains(told, "is in branches") {
				t.Errorf("%s", told)
			}
		})
	}
}

// TestWorkBesideTheBranch: what steps commit on branches of their own and leave, and what they
// leave in git's stash, is in a clone that goes with its worker. It comes home in branches, and
// the run says that it is not merged.
func TestWorkBesideTheBranch(t *testing.T) {
	t.Parallel()
	head := "name: beside\nmode: mapreduce\nmap:\n  input: items.jsonl\n  max_parallel: 2\n  agent_template:\n    - shell: |\n"
	commit := func(name string) string { return "echo x > " + name + "; git add -A; git commit -qm " + name + "\n" }
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"branches of items": {head + "        at=$(git rev-parse HEAD); git checkout -q -b first-$BIDE_ITEM; " + commit("one-$BIDE_ITEM") +
			"        git checkout -q -b second-$BIDE_ITEM $at; " + commit("two-$BIDE_ITEM") + "        git checkout -q --detach $at\n",
			[]string{"one-i0", "one-i1", "two-i0", "two-i1"}},
		"the stash of items":                      {head + "        echo x > $BIDE_ITEM; git add -A; git stash -q\n", []string{"i0", "i1"}},
		"branches that items have gone back from": {head + "        " + commit("one-$BIDE_ITEM") + "        git branch saved-$BIDE_ITEM; git reset -q --hard HEAD~1\n", []string{"one-i0", "one-i1"}},
		"worktrees of items": {head + "        git worktree add -q --detach ../own-$BIDE_ITEM; cd ../own-$BIDE_ITEM; " + commit("one-$BIDE_ITEM") + "        echo x > two-$BIDE_ITEM\n",
			[]string{"one-i0", "one-i1", "two-i0", "two-i1"}},
		"worktrees that items remove": {head + "        git worktree add -q -b own-$BIDE_ITEM ../own-$BIDE_ITEM; cd ../own-$BIDE_ITEM; " + commit("one-$BIDE_ITEM") + "        rm -rf $PWD\n", []string{"one-i0", "one-i1"}},
		"a worktree of setup":         {"name: beside\nmode: mapreduce\nsetup:\n  - shell: git worktree add -q --detach ../own; echo x > ../own/a\nmap:\n  input: items.jsonl\n  agent_template: [{shell: 'true'}]\n", []string{"a"}},
		"branches that are merged":    {strings.Replace(head, "map:", "setup:\n  - shell: echo x > notes\nmap:", 1) + "        git checkout -q -b b-$BIDE_ITEM; echo x > $BIDE_ITEM; git add $BIDE_ITEM; git commit -qm $BIDE_ITEM; git worktree add -q --detach ../own-$BIDE_ITEM\n", nil},
		"what is taken back":          {head + "        echo x > $BIDE_ITEM; git add -A; test $BIDE_ITEM = i1 || { git stash -q; git stash pop -q; }; git checkout -q -b b-$BIDE_ITEM; git commit -qm $BIDE_ITEM\n", nil},
		"setup and reduce": {"name: beside\nmode: mapreduce\nsetup:\n  - shell: echo x > a; git add -A; git stash -q\nmap:\n  input: items.jsonl\n  agent_template: [{shell: 'true'}]\nreduce:\n  - shell: |\n" +
			"        at=$(git symbolic-ref --short HEAD); git checkout -q -b own; " + commit("b") + "        git tag -a -m t t; git tag blob $(git rev-parse HEAD:b); git checkout -q --detach; " +
			commit("d") + "        git tag -a -m u u; git checkout -q $at; echo x > c; git add -A; git stash -q\n",
			[]string{"a", "b", "b", "c", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetting(t)
			s.repository(map[string]string{"items.jsonl": itemsText(2), "base": "b\n"})
			run := s.submitGit(c.text)
			status, want := s.drive(run), event.CompletedWithFailures
			if c.want == nil {
				status, want = s.onceMerged(run, status), event.Succeeded
			}
			equal(t, "status", status, want)
			equal(t, "files", s.broughtBranches(run), c.want)
			if name == "branches of items" { // nothing but these was committed
				s.mergeItem(run, "bide-item/"+run+"/i1/1.head")
				equal(t, "merged", s.git("ls-tree", "--name-only", "main", "one-i1"), "one-i1")
			}
		})
	}
}

// TestBranchesOfItemsAtOnce: items that work side by side, each on a branch of its own, leave
// nothing beside the work that is merged, whoever of them ends first.
func TestBranchesOfItemsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	const n = 16
	s.repository(map[string]string{"items.jsonl": itemsText(n)})
	run := s.submitGit("name: at-once\nmode: mapreduce\nsetup:\n  - shell: echo x > notes\nmap:\n  input: items.jsonl\n  max_parallel: 6\n  agent_template:\n    - shell: |\n" +
		"        git checkout -q -b b-$BIDE_ITEM; for n in 1 2 3; do echo $n > $BIDE_ITEM; git add $BIDE_ITEM; git commit -qm $BIDE_ITEM-$n; done\n")
	equal(t, "status", s.driveGit(run), event.Succeeded)
	equal(t, "files", len(s.broughtBranches(run)), 0)
}
