package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// worked gives a run with one merged agent.
func worked(w *world) *Run {
	run := w.run()
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "a.txt", "by the run\n")
	w.commitAll(a.Dir, "work")
	w.merge(run, a, MergeOptions{})
	w.remove(a)
	return run
}

func TestFinalMerge(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	w.write(w.dir, "mine.txt", "not in the way")
	w.write(w.dir, "sub/b.txt", "nor is this\n")
	k, err := run.Remove(t.Context())
	if err != nil || k.Commits != 2 || k.Branch != "bide/r1" {
		t.Fatalf("%+v %v", k, err)
	}
	if w.exists(w.root) {
		t.Error("the run's directory is left")
	}
	found, err := w.repo.FindRun(t.Context(), RunOptions{ID: "r1"}) // the worktree is not needed
	if err != nil {
		t.Fatal(err)
	}
	if _, err := found.NewAgent(t.Context(), "x", 1); err == nil {
		t.Error("an agent without the run's worktree")
	}
	res, err := found.FinalMerge(t.Context(), MergeOptions{})
	if err != nil || res.Commit == "" || res.Commits != 2 {
		t.Fatalf("%+v %v", res, err)
	}
	equal(t, "a.txt", w.read(w.dir, "a.txt"), "by the run\n")
	equal(t, "mine.txt", w.read(w.dir, "mine.txt"), "not in the way")
	equal(t, "parents", len(strings.Fields(w.git("log", "-1", "--format=%P"))), 2)
	if res, err = found.FinalMerge(t.Context(), MergeOptions{}); err != nil || res.Commit != "" {
		t.Errorf("again: %+v %v", res, err)
	}
	if k, err := found.Remove(t.Context()); err != nil || k.Branch != "" {
		t.Errorf("%+v %v", k, err)
	}
	equal(t, "all refs", w.git("for-each-ref", "--format=%(refname)"), "refs/heads/main")
}

func TestFinalMergeRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		prepare    func(w *world)
	}{
		{"uncommitted in the way", "a.txt; commit or stash first", func(w *world) { w.write(w.dir, "a.txt", "mine\n") }},
		{"another branch", "is on branch other now", func(w *world) { w.git("switch", "-q", "-c", "other") }},
		{"detached later", "has a detached HEAD now", func(w *world) { w.git("switch", "-q", "--detach") }},
		{"in a merge", "MERGE_HEAD", func(w *world) {
			w.git("switch", "-q", "-c", "x")
			w.write(w.dir, "x", "x")
			w.commitAll(w.dir, "x")
			w.git("switch", "-q", "main")
			w.git("merge", "-q", "--no-ff", "--no-commit", "x")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			run := worked(w)
			c.prepare(w)
			head, status := w.git("rev-parse", "HEAD"), w.git("status", "--porcelain")
			_, err := run.FinalMerge(t.Context(), MergeOptions{})
			var no *CannotMerge
			if !errors.As(err, &no) || !strings.Contains(err.Error(), c.want) || !strings.Contains(no.Command, "git merge --no-ff bide/r1") || ByHand(err) != "" {
				t.Fatal(err)
			}
			equal(t, "HEAD", w.git("rev-parse", "HEAD"), head)
			equal(t, "status", w.git("status", "--porcelain"), status)
		})
	}
}

func TestFinalMergeFromDetachedHead(t *testing.T) {
	w := newWorld(t)
	w.git("switch", "-q", "--detach")
	run := worked(w)
	_, err := run.FinalMerge(t.Context(), MergeOptions{})
	var no *CannotMerge
	if !errors.As(err, &no) || strings.Contains(no.Command, "switch") || ByHand(err) != no.Command {
		t.Fatal(err)
	}
	out := w.gitIn("/", "-C", w.dir, "merge", "-q", "--no-ff", "-m", "m", "bide/r1")
	equal(t, "by hand", out, "")
	if k, err := run.Remove(t.Context()); err != nil || k.Branch != "" {
		t.Errorf("%+v %v", k, err)
	}
}

func TestFinalMergeConflict(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	w.write(w.dir, "a.txt", "by the user\n")
	w.commitAll(w.dir, "mine")
	w.write(w.dir, "sub/b.txt", "uncommitted\n")
	_, err := run.FinalMerge(t.Context(), MergeOptions{})
	var conflict *Conflict
	if !errors.As(err, &conflict) || conflict.Dir != w.dir {
		t.Fatal(err)
	}
	equal(t, "status", w.git("status", "--porcelain"), " M sub/b.txt")
	res, err := run.FinalMerge(t.Context(), MergeOptions{Resolve: func(_ context.Context, c ConflictInfo) error {
		w.write(c.Dir, "a.txt", "both\n")
		w.gitIn(c.Dir, "add", "a.txt")
		return nil
	}})
	if err != nil || !res.Resolved {
		t.Fatal(err)
	}
	equal(t, "status", w.git("status", "--porcelain"), " M sub/b.txt")
	equal(t, "committed", w.git("show", "HEAD:a.txt"), "both")
}

func TestRunRemoveRescues(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "left.txt", "uncommitted")
	k, err := run.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "rescued", k.Rescued, []string{"left.txt"})
	equal(t, "work", w.git("show", k.Branch+":left.txt"), "uncommitted")
	if w.exists(run.Dir) {
		t.Error("the worktree is still there")
	}
	if again, err := run.Remove(t.Context()); err != nil || again.Branch != k.Branch {
		t.Errorf("again: %+v %v", again, err)
	}
}

func TestListAndClean(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	merged := w.agent(run, "merged", 1)
	w.write(merged.Dir, "m.txt", "m")
	w.commitAll(merged.Dir, "m")
	w.merge(run, merged, MergeOptions{})
	dirty := w.agent(run, "dirty", 1)
	w.write(dirty.Dir, "d.txt", "12345")
	ahead := w.agent(run, "ahead", 2)
	w.write(ahead.Dir, "x.txt", "x")
	w.commitAll(ahead.Dir, "x")

	infos, err := w.repo.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Info{}
	for _, i := range infos {
		got[cmp.Or(i.Branch, i.Item)] = i
	}
	for branch, want := range map[string]Info{
		"bide/r1":                 {Run: "r1", Unmerged: 4, Path: run.Dir},
		"merged":                  {Run: "r1", Item: "merged", Path: merged.Dir},
		"bide-item/r1/=41/1":      {},
		"dirty":                   {Run: "r1", Item: "dirty", Uncommitted: 1, Path: dirty.Dir},
		"ahead":                   {Run: "r1", Item: "ahead", Unmerged: 1, Path: ahead.Dir},
		"bide-item/r1/one/1":      {},
		"bide-item/r1/one/1.head": {},
	} {
		i := got[branch]
		if want.Run != "" && i.Bytes < 10 {
			t.Errorf("%s: %d bytes", branch, i.Bytes)
		}
		i.Bytes, i.Branch, i.Commit, i.stray = 0, "", "", false
		equal(t, branch, i, want)
	}
	if none, err := w.repo.List(t.Context(), "r2"); err != nil || len(none) != 0 {
		t.Errorf("%v %v", none, err)
	}

	clean := func(o CleanOptions) map[string]string {
		done, err := w.repo.Clean(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		why := map[string]string{}
		for _, c := range done {
			if c.Removed != (c.Why == "") {
				t.Errorf("%+v", c)
			}
			why[strings.TrimPrefix(strings.TrimPrefix(cmp.Or(c.Branch, c.Item), "bide-item/r1/"), "bide/")] = c.Why
		}
		return why
	}
	if why := clean(CleanOptions{Busy: func(run string) bool { return run == "r1" }, Force: true}); why["merged"] != "the run continues" {
		t.Errorf("%v", why)
	}
	if why := clean(CleanOptions{DryRun: true}); why["merged"] != "" || !w.exists(merged.Dir) {
		t.Errorf("%v", why)
	}
	why := clean(CleanOptions{})
	if why["merged"] != "" || !strings.Contains(why["dirty"], "1 file uncommitted") || !strings.Contains(why["ahead"], "1 commit not merged") || !strings.Contains(why["r1"], "not merged") {
		t.Errorf("%v", why)
	}
	if w.exists(merged.Dir) || !w.exists(dirty.Dir) || !w.exists(ahead.Dir) || !w.exists(run.Dir) {
		t.Error("the wrong worktrees are gone")
	}
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	if why := clean(CleanOptions{Force: true}); len(why) != 3 {
		t.Errorf("%v", why)
	}
	equal(t, "all refs", w.git("for-each-ref", "--format=%(refname)"), "refs/heads/main")
	equal(t, "worktrees", strings.Count(w.git("worktree", "list"), "\n"), 0)
	if w.exists(w.root) {
		t.Error("the run's directory is left")
	}
}

func TestFindRunUnknown(t *testing.T) {
	w := newWorld(t)
	if _, err := w.repo.FindRun(t.Context(), RunOptions{ID: "nope"}); err == nil || !strings.Contains(err.Error(), "bide worktree ls") {
		t.Error(err)
	}
	if _, err := w.repo.FindRun(t.Context(), RunOptions{ID: "../x"}); err == nil {
		t.Error("accepted")
	}
}

func TestContext(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.write(w.dir, "before.txt", "uncommitted before\n")
	from, err := w.repo.Mark(ctx, w.dir)
	if err != nil {
		t.Fatal(err)
	}
	nothing, err := w.repo.Context(ctx, w.dir, from)
	if err != nil || len(nothing.FilesChanged) != 0 || nothing.CommitCount != 0 {
		t.Fatalf("%+v %v", nothing, err)
	}
	w.write(w.dir, "a.txt", "one\ntwo\n")
	w.write(w.dir, "new\nline é.txt", "1\n2\n3\n")
	w.commitAll(w.dir, "first")
	w.write(w.dir, "loose.txt", "l\n")
	w.write(w.dir, "x.log", "ignored")
	w.write(w.dir, "bin", "\x00\x01\n")
	if err := os.Remove(filepath.Join(w.dir, "sub/b.txt")); err != nil {
		t.Fatal(err)
	}
	got, err := w.repo.Context(ctx, filepath.Join(w.dir), from)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "added", got.FilesAdded, []string{"bin", "loose.txt", "new\nline é.txt"})
	equal(t, "modified", got.FilesModified, []string{"a.txt"})
	equal(t, "deleted", got.FilesDeleted, []string{"sub/b.txt"})
	equal(t, "changed", len(got.FilesChanged), 5)
	equal(t, "commits", got.Commits, []string{w.git("rev-parse", "HEAD")})
	equal(t, "lines", []int{got.Insertions, got.Deletions, got.CommitCount}, []int{5, 1, 1})
}

func TestCommitted(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "items.json", "[]")
	a := w.agent(run, "one", 1)
	if got, err := a.Committed(t.Context()); err != nil || got.CommitCount != 0 || len(got.FilesChanged) != 0 {
		t.Fatalf("%+v %v", got, err)
	}
	w.write(a.Dir, "r.txt", "r\n")
	w.commitAll(a.Dir, "work")
	w.write(a.Dir, "loose.txt", "l")
	got, err := a.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "committed", []any{got.FilesAdded, got.FilesChanged, got.CommitCount, got.Insertions}, []any{[]string{"r.txt"}, []string{"r.txt"}, 1, 1})
	if _, err := w.repo.Between(t.Context(), Point{Commit: a.Base}, Point{}); err == nil {
		t.Error("a zero point is accepted")
	}
	if got, err = w.repo.Between(t.Context(), Point{Commit: "main"}, Point{Commit: w.gitIn(a.Dir, "rev-parse", "HEAD")}); err != nil || len(got.FilesAdded) != 2 {
		t.Errorf("by name: %+v %v", got, err)
	}
}

func TestOldGit(t *testing.T) {
	w := serialWorld(t)
	bin := t.TempDir()
	w.write(bin, "git", "#!/bin/sh\necho git version 2.30.1\n")
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	if _, err := Open(t.Context(), w.dir); !errors.Is(err, ErrNoGit) || !strings.Contains(err.Error(), "2.30.1 is too old") {
		t.Error(err)
	}
}

func TestContextBeforeTheFirstCommit(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	w.gitIn(dir, "init", "-q")
	r := w.open(dir)
	from, err := r.Mark(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	w.write(dir, "x", "x\n")
	w.commitAll(dir, "first")
	got, err := r.Context(t.Context(), dir, from)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "context", []any{got.FilesAdded, got.CommitCount}, []any{[]string{"x"}, 1})
}

// A file that is changed twice within the granularity of file times, to the
// same size, must not be taken for unchanged.
func TestMarkSeesQuickChanges(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.write(w.dir, "a.txt", "aaa\n")
		w.commitAll(w.dir, "a")
		from, err := w.repo.Mark(t.Context(), w.dir)
		if err != nil {
			t.Fatal(err)
		}
		w.write(w.dir, "a.txt", "bbb\n")
		got, err := w.repo.Context(t.Context(), w.dir, from)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.FilesModified) != 1 {
			t.Fatalf("round %d: %+v", i, got)
		}
		if i == 4 {
			break
		}
		w.write(w.dir, "a.txt", "ccc\n")
		w.commitAll(w.dir, "c")
	}
}

func TestAutoCommit(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	commit := func(dir string, o CommitOptions) string {
		t.Helper()
		id, err := w.repo.AutoCommit(ctx, dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if id := commit(w.dir, CommitOptions{Message: "m"}); id != "" {
		t.Errorf("a commit of nothing: %s", id)
	}
	since := w.git("rev-parse", "HEAD")
	w.write(w.dir, "src/deep/x.go", "x")
	w.write(w.dir, "src/deep/x_test.go", "x")
	w.write(w.dir, "notes.md", "n")
	w.write(w.dir, "staged.md", "s")
	w.git("add", "staged.md")
	if err := os.Remove(filepath.Join(w.dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	id := commit(w.dir, CommitOptions{Message: "# not a comment line\nfirst", Include: []string{"*.go", "a.txt"}, Exclude: []string{"*_test.go"}, Author: "Ann <ann@x>"})
	equal(t, "files", w.git("show", "--name-status", "--format=", id), "D\ta.txt\nA\tsrc/deep/x.go")
	equal(t, "author", w.git("log", "-1", "--format=%an <%ae> %cn"), "Ann <ann@x> bide")
	equal(t, "left", w.git("status", "--porcelain"), "A  staged.md\n?? notes.md\n?? src/deep/x_test.go")

	commit(filepath.Join(w.dir, "src"), CommitOptions{Message: "in a subdirectory", Include: []string{"deep/*"}})
	equal(t, "files", w.git("show", "--name-only", "--format=", "HEAD"), "src/deep/x_test.go")
	id = commit(filepath.Join(w.dir, "src"), CommitOptions{Message: "all", SquashSince: since})
	equal(t, "one commit", w.git("rev-list", "--count", since+".."+id), "1")
	equal(t, "files", w.git("show", "--name-only", "--format=%s", id), "all\n\na.txt\nnotes.md\nsrc/deep/x.go\nsrc/deep/x_test.go\nstaged.md")
	equal(t, "left", w.git("status", "--porcelain"), "")

	w.write(w.dir, ":odd [name]*", "o")
	commit(w.dir, CommitOptions{Message: "odd", Include: []string{":odd*"}})
	equal(t, "left", w.git("status", "--porcelain"), "")
	w.write(w.dir, "y", "y")
	for _, o := range []CommitOptions{{}, {Message: " \n"}, {Message: "m", Author: "nobody"}, {Message: "m", Author: " <x>"}, {Message: "m", SquashSince: strings.Repeat("0", 39) + "1"}} {
		if _, err := w.repo.AutoCommit(ctx, w.dir, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	w.git("config", "gpg.program", "/bin/false")
	w.write(w.dir, "z", "z")
	if _, err := w.repo.AutoCommit(ctx, w.dir, CommitOptions{Message: "m", Sign: true}); err == nil {
		t.Error("committed without the signature that was asked for")
	}
}

func TestIdentity(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, "x", "x")
	id, err := w.repo.AutoCommit(t.Context(), w.dir, CommitOptions{Message: "m"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "ours where none is configured", w.git("log", "-1", "--format=%an <%ae>", id), "bide <bide@localhost>")
	w.git("config", "user.name", "Una")
	w.git("config", "user.email", "una@x")
	w.repo = w.open(w.dir)
	w.write(w.dir, "y", "y")
	if id, err = w.repo.AutoCommit(t.Context(), w.dir, CommitOptions{Message: "m"}); err != nil {
		t.Fatal(err)
	}
	equal(t, "the configured one", w.git("log", "-1", "--format=%an <%ae> %cn", id), "Una <una@x> Una")
}

func TestRequireCommit(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	since := w.git("rev-parse", "HEAD")
	var none *NoCommitError
	if err := w.repo.RequireCommit(ctx, w.dir, since); !errors.As(err, &none) || len(none.Uncommitted) != 0 {
		t.Error(err)
	}
	w.write(w.dir, "x", "x")
	if err := w.repo.RequireCommit(ctx, w.dir, since); !errors.As(err, &none) || !strings.Contains(err.Error(), "1 file is uncommitted (x)") {
		t.Error(err)
	}
	w.commitAll(w.dir, "x")
	if err := w.repo.RequireCommit(ctx, w.dir, since); err != nil {
		t.Error(err)
	}
	// Going back is no commit.
	now := w.git("rev-parse", "HEAD")
	w.git("reset", "-q", "--hard", since)
	if made, err := w.repo.HasNewCommits(ctx, w.dir, now); err != nil || made {
		t.Error(made, err)
	}
	if made, err := w.repo.HasNewCommits(ctx, w.dir, ""); err != nil || !made {
		t.Error(made, err)
	}
}

// A run that was killed between the merge of an agent's work and the end of its
// branch leaves that: the end of the run deletes it, and what was done again, and
// keeps what is not merged.
func TestRunRemoveDeletesMergedBranchesOfAgents(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	w.git("branch", itemBranch("r1", "merged", 1), "bide/r1")
	w.git("branch", itemBranch("r1", "empty", 1), "main")
	// One that was killed behind its commit, and did the same in its next life.
	w.git("branch", itemBranch("r1", "again", 1), w.git("commit-tree", "-p", "main", "-m", "the same", w.git("rev-parse", "bide/r1^{tree}")))
	w.git("branch", itemBranch("r2", "another", 1), "main")
	tree := w.git("rev-parse", "main^{tree}")
	w.git("branch", itemBranch("r1", "kept", 1), w.git("commit-tree", "-p", "main", "-m", "work", tree))
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	if k, err := run.Remove(t.Context()); err != nil || k.Branch != "" {
		t.Fatalf("%+v %v", k, err)
	}
	equal(t, "branches", w.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/"+itemBranches), itemBranch("r1", "kept", 1)+"\n"+itemBranch("r2", "another", 1))
}

// TestFinalMergesAtTheSameTime: runs that end at the same time are merged into the user's
// checkout one after the other, and each is.
func TestFinalMergesAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	const runs = 5
	var all []*Run
	for i := range runs {
		repo := w.open(w.dir) // as another process has it
		run, err := repo.NewRun(t.Context(), RunOptions{ID: fmt.Sprintf("r%d", i), Root: fmt.Sprintf("%s-%d", w.root, i)})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 20 {
			w.write(run.Dir, fmt.Sprintf("of-%d/%d", i, n), "x\n")
		}
		w.write(run.Dir, fmt.Sprintf("%d", i), "x\n")
		w.commitAll(run.Dir, "work")
		all = append(all, run)
	}
	errs := make(chan error, runs)
	for _, run := range all {
		go func() {
			_, err := run.FinalMerge(t.Context(), MergeOptions{})
			errs <- err
		}()
	}
	for range all {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	equal(t, "merges", len(strings.Fields(w.git("rev-list", "--merges", "main"))), runs)
	equal(t, "files", len(strings.Fields(w.git("ls-tree", "-r", "--name-only", "main"))), 3+runs*21)
	equal(t, "status", w.git("status", "--porcelain"), "")
	equal(t, "private names", w.git("for-each-ref", "--format=%(refname)", "refs/bide/*/final"), "")
}

// TestFinalMergeBesideACommitOfTheUser: the user commits while the merge comes into the
// checkout. The commit stays, and the checkout is as it was.
func TestFinalMergeBesideACommitOfTheUser(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	o := MergeOptions{Verify: func(context.Context, string, string) error {
		if !w.exists(filepath.Join(w.dir, "mine")) {
			w.write(w.dir, "mine", "mine\n")
			w.commitAll(w.dir, "mine")
		}
		return nil
	}}
	if _, err := run.FinalMerge(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	equal(t, "a.txt", w.read(w.dir, "a.txt"), "by the run\n")
	equal(t, "the user's commit", w.git("log", "-1", "--format=%s", "HEAD^1"), "mine")
	equal(t, "status", w.git("status", "--porcelain"), "")
}

// TestFinalMergeAfterTheBranchWasMoved: an item moves the user's branch from its worktree. The
// checkout follows, and what the user has changed there stays.
func TestFinalMergeAfterTheBranchWasMoved(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, "mine", "before\n")
	w.commitAll(w.dir, "mine")
	run := w.run()
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "a.txt", "by one\n")
	w.write(a.Dir, "new", "new\n")
	w.commitAll(a.Dir, "one")
	w.gitIn(a.Dir, "update-ref", "refs/heads/main", "HEAD")
	w.write(a.Dir, "sub/b.txt", "by one\n")
	w.commitAll(a.Dir, "two")
	w.merge(run, a, MergeOptions{})
	w.remove(a)
	w.write(w.dir, "mine", "mine\n")
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	if run.CaughtUp == "" {
		t.Error("it is not told")
	}
	equal(t, "a.txt", w.read(w.dir, "a.txt"), "by one\n")
	equal(t, "new", w.read(w.dir, "new"), "new\n")
	equal(t, "sub/b.txt", w.read(w.dir, "sub/b.txt"), "by one\n")
	equal(t, "mine", w.read(w.dir, "mine"), "mine\n")
	equal(t, "status", w.git("status", "--porcelain"), " M mine")
}

// A user who commits while the merge is under way does not end it: it is made upon what the
// user has then.
func TestFinalMergeAfterCommitsOfTheUser(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	n := 0
	res, err := run.FinalMerge(t.Context(), MergeOptions{Verify: func(context.Context, string, string) error {
		if n++; n < 5 {
			w.write(w.dir, "mine.txt", strings.Repeat("m", n))
			w.commitAll(w.dir, "mine")
		}
		return nil
	}})
	if err != nil || res.Commit == "" {
		t.Fatalf("%+v %v", res, err)
	}
	equal(t, "tries", n, 5)
	equal(t, "a.txt", w.git("show", "HEAD:a.txt"), "by the run")
	equal(t, "mine.txt", w.git("show", "HEAD:mine.txt"), "mmmm")
	equal(t, "in the checkout", w.read(w.dir, "a.txt")+w.read(w.dir, "mine.txt"), "by the run\nmmmm")
	equal(t, "status", w.git("status", "--porcelain"), "")

}

// One who never stops does end it.
func TestFinalMergeWhileTheUserKeepsCommitting(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	n := 0
	_, err := run.FinalMerge(t.Context(), MergeOptions{Verify: func(context.Context, string, string) error {
		n++
		w.write(w.dir, "mine.txt", strings.Repeat("m", n))
		w.commitAll(w.dir, "mine")
		return nil
	}})
	if !errors.As(err, new(*CannotMerge)) || !strings.Contains(err.Error(), "while the merge was under way") || n != mostMoves+1 {
		t.Fatalf("%d: %v", n, err)
	}
	equal(t, "status", w.git("status", "--porcelain"), "")
	if got := w.git("show", "HEAD:a.txt"); got == "by the run" {
		t.Error("it is merged all the same")
	}
}

// A lock of the user's index is told once, in words of ours, and the merge is made when it is gone.
func TestFinalMergeMeetsALock(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	lock := filepath.Join(w.dir, ".git", "index.lock")
	_, err := run.FinalMerge(t.Context(), MergeOptions{Verify: func(context.Context, string, string) error {
		return os.WriteFile(lock, nil, 0o600)
	}})
	if !errors.As(err, new(*CannotMerge)) || strings.Count(err.Error(), "index.lock") != 1 || strings.Contains(err.Error(), "fatal") || !strings.Contains(err.Error(), "merge again when it has ended") {
		t.Fatal(err)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "a.txt", w.git("show", "HEAD:a.txt")+w.read(w.dir, "a.txt"), "by the runby the run\n")
	equal(t, "status", w.git("status", "--porcelain"), "")
}

// A branch in the place of the directory of ours is named before anything is made.
func TestBranchInTheWayOfOurs(t *testing.T) {
	for _, name := range []string{"bide", "bide-item"} {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, packed), func(t *testing.T) {
				w := newWorld(t)
				w.git("branch", name)
				if packed {
					w.git("pack-refs", "--all")
				}
				_, err := w.repo.NewRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
				if err == nil || !strings.Contains(err.Error(), "branch "+name+" is in the way") || !strings.Contains(err.Error(), "git branch -m "+name+" NAME") {
					t.Fatalf("packed %v: %v", packed, err)
				}
				w.git("branch", "-m", name, "other")
				if _, err := w.repo.NewRun(t.Context(), RunOptions{ID: "r1", Root: w.root}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestFinalMergeCutShortAndTheUserMovesOn: a final merge is killed when its files are in the
// user's checkout, and the user goes on there before the resume. What the user has committed
// stays, no branch but the run's target gets the work, and it is there once.
func TestFinalMergeCutShortAndTheUserMovesOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		half   bool      // the files are there, and not in the index
		cut    [2]string // what the files have; "": all of it
		user   func(w *world)
		branch string // on which the user is
	}{
		{name: "nothing", user: func(w *world) {}},
		{name: "nothing, files only", half: true, user: func(w *world) {}},
		{name: "commits all", user: func(w *world) { w.write(w.dir, "mine", "mine\n"); w.commitAll(w.dir, "mine") }},
		{name: "commits what is staged", user: func(w *world) {
			w.write(w.dir, "mine", "mine\n")
			w.git("add", "mine")
			w.git("commit", "-qm", "mine")
		}},
		{name: "commits a file alone", user: func(w *world) {
			w.write(w.dir, "mine", "mine\n")
			w.git("add", "mine")
			w.git("commit", "-qm", "mine", "--only", "mine")
		}},
		{name: "commits a file alone, files only", half: true, user: func(w *world) {
			w.write(w.dir, "mine", "mine\n")
			w.git("add", "mine")
			w.git("commit", "-qm", "mine", "--only", "mine")
		}},
		{name: "commits a part", user: func(w *world) { w.git("commit", "-qm", "a part", "--only", "a.txt") }},
		{name: "a new branch", branch: "other", user: func(w *world) { w.git("checkout", "-q", "-b", "other") }},
		{name: "a new branch with a commit", branch: "other", user: func(w *world) {
			w.git("checkout", "-q", "-b", "other")
			w.write(w.dir, "mine", "mine\n")
			w.git("add", "mine")
			w.git("commit", "-qm", "mine", "--only", "mine")
		}},
		{name: "a new branch with all", branch: "other", user: func(w *world) {
			w.git("checkout", "-q", "-b", "other")
			w.commitAll(w.dir, "all of it")
		}},
		{name: "commits a file alone, one is cut", half: true, cut: [2]string{"by t", "n"}, user: func(w *world) {
			w.write(w.dir, "mine", "mine\n")
			w.git("add", "mine")
			w.git("commit", "-qm", "mine", "--only", "mine")
		}},
		{name: "a new branch, one is cut", half: true, cut: [2]string{"by t", "n"}, branch: "other", user: func(w *world) { w.git("checkout", "-q", "-b", "other") }},
		{name: "nothing, by a power cut", half: true, cut: [2]string{strings.Repeat("\x00", len("by the run\n")), "n\x00\x00"}, user: func(w *world) {}},
		{name: "commits a file alone, by a power cut", half: true, cut: [2]string{"by \x00\x00\x00 run\n", "\x00\x00\x00\x00"}, user: func(w *world) {
			w.write(w.dir, "mine", "mine\n")
			w.git("add", "mine")
			w.git("commit", "-qm", "mine", "--only", "mine")
		}},
		{name: "puts it away", user: func(w *world) { w.git("stash", "-q", "-u") }},
		{name: "takes it back", user: func(w *world) { w.git("reset", "-q", "--hard") }},
		{name: "a detached HEAD", branch: "HEAD", user: func(w *world) { w.git("checkout", "-q", "--detach") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			a := w.agent(run, "one", 1)
			w.write(a.Dir, "a.txt", "by the run\n")
			w.write(a.Dir, "new/n.txt", "new\n")
			w.commitAll(a.Dir, "work")
			w.merge(run, a, MergeOptions{})
			w.remove(a)
			old := strings.TrimSpace(w.git("rev-parse", "HEAD"))
			merged := strings.TrimSpace(w.git("commit-tree", run.Branch+"^{tree}", "-p", old, "-p", run.Branch, "-m", "merge"))
			w.git("update-ref", privateRef(run.ID, "final"), merged)
			w.git("read-tree", "-m", "-u", old, merged)
			if c.half {
				w.git("read-tree", old)
			}
			if c.cut[0] != "" {
				w.write(w.dir, "a.txt", c.cut[0])
				w.write(w.dir, "new/n.txt", c.cut[1])
			}
			c.user(w)
			mine := strings.TrimSpace(w.git("rev-parse", "HEAD"))
			_, err := run.FinalMerge(t.Context(), MergeOptions{})
			if c.branch != "" {
				if !errors.As(err, new(*CannotMerge)) || !strings.Contains(err.Error(), "it started from branch main") {
					t.Fatalf("%v", err)
				}
				equal(t, "HEAD", strings.TrimSpace(w.git("rev-parse", "HEAD")), mine)
				equal(t, "main", strings.TrimSpace(w.git("rev-parse", "main")), old)
				equal(t, "status", w.git("status", "--porcelain"), "")
				w.git("checkout", "-q", "main")
				_, err = run.FinalMerge(t.Context(), MergeOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "a.txt", w.git("show", "main:a.txt"), "by the run")
			equal(t, "new", w.git("show", "main:new/n.txt"), "new")
			equal(t, "branch", strings.TrimSpace(w.git("symbolic-ref", "--short", "HEAD")), "main")
			equal(t, "status", w.git("status", "--porcelain"), "")
			equal(t, "in the checkout", w.read(w.dir, "a.txt")+w.read(w.dir, "new/n.txt"), "by the run\nnew\n")
			equal(t, "private names", w.git("for-each-ref", "--format=%(refname)", privateRef(run.ID, "final")), "")
			if c.branch == "" {
				w.git("merge-base", "--is-ancestor", mine, "main")
			}
		})
	}
}

// TestFinalMergeCutShortAndTheUserPutsSomethingThere: a git that is killed leaves the beginning
// of a file, and no link and no pipe. Nobody reads through either.
func TestFinalMergeCutShortAndTheUserPutsSomethingThere(t *testing.T) {
	for name, c := range map[string]struct {
		put func(path string) error
		is  fs.FileMode
	}{
		"a link to nothing":      {func(path string) error { return os.Symlink("/nothing/here", path) }, fs.ModeSymlink},
		"a link to such a start": {func(path string) error { return os.Symlink("start", path) }, fs.ModeSymlink},
		"a pipe":                 {func(path string) error { return exec.Command("mkfifo", path).Run() }, fs.ModeNamedPipe},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := worked(w)
			w.write(w.dir, ".git/info/exclude", "start\n")
			w.write(w.dir, "start", "b")
			old := strings.TrimSpace(w.git("rev-parse", "HEAD"))
			changes, err := w.repo.diffTrees(t.Context(), old, run.Branch)
			w.must(err)
			merged := strings.TrimSpace(w.git("commit-tree", run.Branch+"^{tree}", "-p", old, "-p", run.Branch, "-m", "merge"))
			w.git("update-ref", privateRef(run.ID, "final"), merged)
			path := filepath.Join(w.dir, changes[0].path)
			w.must(os.RemoveAll(path))
			w.must(c.put(path))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := run.FinalMerge(ctx, MergeOptions{}); !errors.As(err, new(*CannotMerge)) {
				t.Fatalf("%v", err)
			}
			if info, err := os.Lstat(path); err != nil || info.Mode().Type() != c.is {
				t.Fatalf("%v %v", info, err)
			}
			w.must(os.Remove(path))
			w.git("checkout", "-q", "--", ".")
			if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
				t.Fatal(err)
			}
			equal(t, "status", w.git("status", "--porcelain"), "")
		})
	}
}

// TestFinalMergeIntoABranchThatIsGone: the user renamed the branch that the run started from.
// A person can merge, and bide cannot know into what.
func TestFinalMergeIntoABranchThatIsGone(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	w.git("branch", "-m", "main", "trunk")
	_, err := run.FinalMerge(t.Context(), MergeOptions{})
	var no *CannotMerge
	if !errors.As(err, &no) || !strings.Contains(err.Error(), "there is no branch main any more") || ByHand(err) == "" || strings.Contains(no.Command, "switch") {
		t.Fatalf("%v, by hand %q", err, ByHand(err))
	}
	w.git("merge", "-q", "--no-ff", "-m", "m", "bide/r1")
	if k, err := run.Remove(t.Context()); err != nil || k.Branch != "" {
		t.Errorf("%+v %v", k, err)
	}
}
