package worktree

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	found, err := w.repo.FindRun(t.Context(), "r1") // the worktree is not needed
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
			if !errors.As(err, &no) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "git merge --no-ff bide/r1") {
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
	if !errors.As(err, &no) || strings.Contains(no.Command, "switch") {
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
	if _, err := w.repo.FindRun(t.Context(), "nope"); err == nil || !strings.Contains(err.Error(), "bide worktree ls") {
		t.Error(err)
	}
	if _, err := w.repo.FindRun(t.Context(), "../x"); err == nil {
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
