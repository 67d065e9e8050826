package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is a real repository in a temporary directory, with one commit.
type world struct {
	t    *testing.T
	dir  string
	repo *Repo
	root string // for the worktrees of run r1
}

// TestMain keeps the machine's own git configuration out of the tests.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "bide-worktree-test-")
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": home, "EMAIL": ""} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if err := os.RemoveAll(home); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func newWorld(t *testing.T) *world {
	t.Parallel()
	return serialWorld(t)
}

// serialWorld is for tests that change the environment.
func serialWorld(t *testing.T) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: filepath.Join(dir, "repo"), root: filepath.Join(dir, "state", "worktrees", "r1")}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.git("init", "-q", "-b", "main")
	w.write(w.dir, "a.txt", "one\n")
	w.write(w.dir, "sub/b.txt", "b\n")
	w.write(w.dir, ".gitignore", "*.log\n")
	w.git("add", "-A")
	w.git("-c", "user.name=U", "-c", "user.email=u@x", "commit", "-q", "-m", "start")
	w.repo = w.open(w.dir)
	return w
}

func (w *world) open(dir string) *Repo {
	w.t.Helper()
	r, err := Open(w.t.Context(), dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) gitIn(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@x", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@x")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v in %s: %v\n%s", args, dir, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// leaveConflict begins a merge that ends in a conflict.
func (w *world) leaveConflict(dir, branch string) {
	w.t.Helper()
	cmd := exec.Command("git", "-c", "user.name=T", "-c", "user.email=t@x", "merge", "--no-ff", branch)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil {
		w.t.Fatalf("no conflict: %s", out)
	}
	w.gitIn(dir, "rev-parse", "--verify", "MERGE_HEAD")
}

func (w *world) git(args ...string) string { w.t.Helper(); return w.gitIn(w.dir, args...) }

func (w *world) write(dir, name, text string) {
	w.t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(dir, name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) exists(path string) bool {
	w.t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return err == nil
}

func (w *world) commitAll(dir, message string) {
	w.t.Helper()
	w.gitIn(dir, "add", "-A")
	w.gitIn(dir, "commit", "-q", "-m", message)
}

func (w *world) run() *Run {
	w.t.Helper()
	run, err := w.repo.NewRun(w.t.Context(), RunOptions{ID: "r1", Root: w.root})
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

func (w *world) agent(run *Run, item string, attempt int) *Agent {
	w.t.Helper()
	a, err := run.NewAgent(w.t.Context(), item, attempt)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) merge(run *Run, a *Agent, o MergeOptions) MergeResult {
	w.t.Helper()
	res, err := run.Merge(w.t.Context(), a, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func (w *world) remove(a *Agent) Kept {
	w.t.Helper()
	k, err := a.Remove(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// relive opens the run as its next life does, after this one was killed.
func (w *world) relive(run *Run) *Run {
	w.t.Helper()
	for _, s := range run.pool.held {
		if err := s.lock.Unlock(); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, s := range run.pool.free {
		if err := s.lock.Unlock(); err != nil {
			w.t.Fatal(err)
		}
	}
	again, err := w.open(w.dir).OpenRun(w.t.Context(), RunOptions{ID: "r1", Root: w.root})
	if err != nil {
		w.t.Fatal(err)
	}
	return again
}

func (w *world) branches() []string {
	w.t.Helper()
	return strings.Fields(w.git("for-each-ref", "--format=%(refname:short)", "refs/heads"))
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}

func TestOpen(t *testing.T) {
	w := serialWorld(t)
	ctx := t.Context()
	if _, err := Open(ctx, t.TempDir()); !errors.Is(err, ErrNotRepo) {
		t.Errorf("no repository: %v", err)
	}
	bare := t.TempDir()
	w.gitIn(bare, "init", "-q", "--bare")
	if _, err := Open(ctx, bare); !errors.Is(err, ErrBare) {
		t.Errorf("bare: %v", err)
	}
	if _, err := Open(ctx, filepath.Join(w.dir, ".git")); !errors.Is(err, ErrNotRepo) {
		t.Errorf("inside .git: %v", err)
	}
	if _, err := Open(ctx, filepath.Join(w.dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	tables := t.TempDir()
	w.gitIn(tables, "init", "-q")
	w.gitIn(tables, "config", "extensions.refStorage", "reftable")
	if _, err := Open(ctx, tables); err == nil || !strings.Contains(strings.ToLower(err.Error()), "refs") {
		t.Errorf("refs that are no files: %v", err)
	}
	empty := t.TempDir()
	w.gitIn(empty, "init", "-q")
	r := w.open(empty)
	if _, err := r.NewRun(ctx, RunOptions{ID: "r1", Root: w.root}); !errors.Is(err, ErrUnborn) {
		t.Errorf("no commit: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(ctx, w.dir); !errors.Is(err, ErrNoGit) {
		t.Errorf("no git: %v", err)
	}
}

func TestOpenInsideAHook(t *testing.T) {
	w := serialWorld(t)
	other := serialWorld(t)
	t.Setenv("GIT_DIR", filepath.Join(other.dir, ".git"))
	t.Setenv("GIT_INDEX_FILE", filepath.Join(other.dir, ".git", "index"))
	equal(t, "top", w.open(w.dir).Dir(), w.dir)
}

func TestRunStartsAtHeadWithoutUncommitted(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, "a.txt", "edited\n")
	w.write(w.dir, "new.txt", "n\n")
	run := w.run()
	equal(t, "left out", run.LeftOut, []string{"a.txt", "new.txt"})
	equal(t, "a.txt", w.read(run.Dir, "a.txt"), "one\n")
	if w.exists(filepath.Join(run.Dir, "new.txt")) {
		t.Error("an untracked file of the user was taken along")
	}
	equal(t, "user's file", w.read(w.dir, "a.txt"), "edited\n")
	equal(t, "branch", w.gitIn(run.Dir, "branch", "--show-current"), "bide/r1")
	equal(t, "target", run.Target, "main")
	equal(t, "base", run.Base, w.git("rev-parse", "HEAD"))
	if strings.Contains(w.git("config", "--list", "--local"), "bide") {
		t.Error("the shared configuration was written")
	}
}

func TestRunFromASubdirectory(t *testing.T) {
	w := newWorld(t)
	w.repo = w.open(filepath.Join(w.dir, "sub"))
	run := w.run()
	equal(t, "work dir", run.WorkDir, filepath.Join(run.Dir, "sub"))
	equal(t, "b.txt", w.read(run.WorkDir, "b.txt"), "b\n")
}

func TestRunIDs(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"", "..", "a/b", "-x", "a b", "x.lock", strings.Repeat("x", 65)} {
		if _, err := w.repo.NewRun(t.Context(), RunOptions{ID: id, Root: w.root}); err == nil {
			t.Errorf("run id %q is accepted", id)
		}
	}
	if _, err := w.repo.NewRun(t.Context(), RunOptions{ID: "x"}); err == nil {
		t.Error("no root is accepted")
	}
	if _, err := w.repo.NewRun(t.Context(), RunOptions{ID: "x", Root: w.root, Base: "nowhere"}); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("unknown base: %v", err)
	}
}

func TestNewRunTwice(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.run() // nothing was done in the first
	w.write(run.Dir, "x", "x")
	w.commitAll(run.Dir, "work")
	if _, err := w.repo.NewRun(t.Context(), RunOptions{ID: "r1", Root: w.root}); !errors.Is(err, ErrRunExists) {
		t.Fatal(err)
	}
	again, err := w.repo.OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "reopened", []string{again.Dir, again.Base, again.Target, again.Branch}, []string{run.Dir, run.Base, run.Target, run.Branch})
	if _, err := w.repo.OpenRun(t.Context(), RunOptions{ID: "r2", Root: w.root + "2"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestParallelAgents(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	// Two that open the repository, as two processes do, and 16 agents.
	other, err := w.open(w.dir).OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	agents := make([]*Agent, 16)
	errs := make([]error, 16)
	for i := range agents {
		wg.Go(func() {
			from := run
			if i%2 == 1 {
				from = other
			}
			agents[i], errs[i] = from.NewAgent(t.Context(), fmt.Sprint("item-", i), 1)
			if errs[i] != nil {
				return
			}
			a := agents[i]
			name := fmt.Sprintf("out-%d.txt", i)
			if errs[i] = os.WriteFile(filepath.Join(a.Dir, name), []byte(name), 0o644); errs[i] != nil {
				return
			}
			if _, errs[i] = w.repo.AutoCommit(t.Context(), a.Dir, CommitOptions{Message: name}); errs[i] != nil {
				return
			}
			if _, errs[i] = run.Merge(t.Context(), a, MergeOptions{}); errs[i] != nil {
				return
			}
			_, errs[i] = a.Remove(t.Context())
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i := range agents {
		name := fmt.Sprintf("out-%d.txt", i)
		equal(t, name, w.read(run.Dir, name), name)
	}
	equal(t, "branches", w.branches(), []string{"bide/r1", "main"})
	equal(t, "merges", w.git("rev-list", "--count", "--merges", "bide/r1"), "16")
}

func TestHostileItemIDs(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	ids := []string{
		"", ".", "..", "../../etc", "/abs", "a b", "a", "A", "-rf", "--upload-pack=x", "x.lock", "@{0}", "a..b", "a~1", "a^{}", "a:b", "*", "[x]",
		"\x00", "\xff\xfe", "é", "a\nb", "con", strings.Repeat("long ", 100), strings.Repeat("long ", 100) + "x", "run", "a/b", "=41", "HEAD",
		strings.Repeat("x", 200_000),
	}
	seen := map[string]string{}
	for _, id := range ids {
		name := strings.ToLower(encode(id))
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q are both %s", id, other, name)
		}
		seen[name] = id
	}
	for i, id := range ids {
		a := w.agent(run, id, 1)
		if !strings.HasPrefix(a.Dir, filepath.Join(w.root, poolDir)+string(filepath.Separator)) {
			t.Errorf("%q: %s", id, a.Dir)
		}
		file := fmt.Sprintf("by-%d", i)
		w.write(a.Dir, file, id)
		o := MergeOptions{Message: "merge " + id}
		if i%2 == 0 {
			w.commitAll(a.Dir, "work")
		} else {
			o.Left = "left by " + id
		}
		w.merge(run, a, o)
		equal(t, "kept of "+id, w.remove(a), Kept{})
		equal(t, file, w.git("show", "bide/r1:"+file), strings.TrimRight(id, "\n"))

		again := w.agent(run, id, 2)
		w.write(again.Dir, "rest", id)
		if k := w.remove(again); k.Branch == "" {
			t.Errorf("%q: its work is kept nowhere", id)
		} else {
			equal(t, "the rest", w.git("show", k.Branch+":rest"), strings.TrimRight(id, "\n"))
		}
	}
	for id := range seen {
		branch := itemBranch("r1", seen[id], 1)
		if out, err := exec.Command("git", "check-ref-format", "--branch", branch).CombinedOutput(); err != nil {
			t.Errorf("%q: %s", branch, out)
		}
	}
}

func TestAgentsSeeUncommittedSetup(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "a.txt", "changed by setup\n")
	w.write(run.Dir, "items.json", "[1]\n")
	w.write(run.Dir, "out.log", "ignored\n")
	if err := os.Remove(filepath.Join(run.Dir, "sub/b.txt")); err != nil {
		t.Fatal(err)
	}
	w.gitIn(run.Dir, "add", "a.txt")
	before := w.gitIn(run.Dir, "status", "--porcelain")
	a := w.agent(run, "one", 1)
	equal(t, "run's own status", w.gitIn(run.Dir, "status", "--porcelain"), before)
	equal(t, "a.txt", w.read(a.Dir, "a.txt"), "changed by setup\n")
	equal(t, "items.json", w.read(a.Dir, "items.json"), "[1]\n")
	if w.exists(filepath.Join(a.Dir, "out.log")) || w.exists(filepath.Join(a.Dir, "sub/b.txt")) {
		t.Error("an ignored or a deleted file is there")
	}
	equal(t, "agent's status", w.gitIn(a.Dir, "status", "--porcelain"), "")

	// What setup does later is not in the snapshot any more.
	w.write(run.Dir, "late.txt", "late")
	b := w.agent(run, "two", 1)
	if w.exists(filepath.Join(b.Dir, "late.txt")) {
		t.Error("the second agent started from another state than the first")
	}

	w.write(a.Dir, "result.txt", "r\n")
	w.commitAll(a.Dir, "work of one")
	res := w.merge(run, a, MergeOptions{})
	equal(t, "commits", res.Commits, 1)
	equal(t, "files of the merge", w.git("diff", "--name-only", "main", "bide/r1"), "result.txt")
	equal(t, "still uncommitted", w.gitIn(run.Dir, "status", "--porcelain"), before+"\n?? late.txt")
	equal(t, "author", w.git("log", "-1", "--format=%an %s", "bide/r1^2"), "T work of one")
	equal(t, "kept", w.remove(a), Kept{})

	// A file of the snapshot that an agent changes is its work.
	w.write(b.Dir, "items.json", "[1,2]\n")
	w.commitAll(b.Dir, "work of two")
	w.merge(run, b, MergeOptions{})
	equal(t, "items.json", w.read(run.Dir, "items.json"), "[1,2]\n")
	equal(t, "files of the run", w.git("diff", "--name-only", "main", "bide/r1"), "items.json\nresult.txt")
	equal(t, "a.txt is still only changed", w.gitIn(run.Dir, "status", "--porcelain", "a.txt"), "M  a.txt")

	// And so it may conflict with the same of another.
	c := w.agent(run, "three", 1)
	w.write(c.Dir, "items.json", "[3]\n")
	w.commitAll(c.Dir, "work of three")
	_, err := run.Merge(t.Context(), c, MergeOptions{})
	var conflict *Conflict
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Files, []string{"items.json"}) {
		t.Fatal(err)
	}
	equal(t, "what to merge by hand", w.git("diff", "--name-only", "main", conflict.Commit), "items.json")
	equal(t, "kept of two", w.remove(b), Kept{})
	k := w.remove(c)
	equal(t, "kept", []string{k.Branch, k.Commit}, []string{c.Branch, conflict.Commit})
	equal(t, "private names", w.git("for-each-ref", "--format=%(refname)", "refs/bide/r1/items"), "")
}

func TestFreshTreeForEachAttempt(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "items.json", "[1]\n")
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "done.txt", "committed\n")
	w.commitAll(a.Dir, "half")
	w.write(a.Dir, "rest.txt", "uncommitted\n")
	b := w.agent(run, "one", 2)
	if w.exists(filepath.Join(b.Dir, "done.txt")) || w.exists(filepath.Join(b.Dir, "rest.txt")) {
		t.Error("files of the first attempt are left")
	}
	if len(b.Kept) != 1 || b.Kept[0].Branch != a.Branch || b.Kept[0].Commits != 2 || !slices.Equal(b.Kept[0].Rescued, []string{"rest.txt"}) {
		t.Fatalf("%+v", b.Kept)
	}
	equal(t, "kept files", w.git("diff", "--name-only", "main", a.Branch), "done.txt\nrest.txt")

	// The same attempt again, after the run went down.
	w.write(b.Dir, "second.txt", "x")
	c := w.agent(run, "one", 2)
	equal(t, "branch", c.Branch, b.Branch)
	if len(c.Kept) != 1 || w.git("diff", "--name-only", "main", c.Kept[0].Branch) != "second.txt" {
		t.Fatalf("%+v", c.Kept)
	}
	w.write(c.Dir, "third.txt", "x")
	k := w.remove(c)
	equal(t, "under another name", k.Branch, c.Branch+".1")
	equal(t, "branches", w.branches(), []string{"bide-item/r1/one/1", "bide-item/r1/one/2", "bide-item/r1/one/2.1", "bide/r1", "main"})
	equal(t, "kept of a clean tree", w.remove(w.agent(run, "one", 3)), Kept{})
}

func TestHalfMadeWorktrees(t *testing.T) {
	for name, damage := range map[string]func(w *world, run *Run, a *Agent){
		"removed by hand": func(w *world, run *Run, a *Agent) {
			w.git("worktree", "remove", "--force", "--force", a.Dir)
		},
		"killed during checkout": func(w *world, run *Run, a *Agent) {
			gitDir := w.gitIn(a.Dir, "rev-parse", "--absolute-git-dir")
			w.write(gitDir, "locked", "initializing")
			w.write(gitDir, "index.lock", "")
			if err := os.Remove(filepath.Join(a.Dir, "a.txt")); err != nil {
				w.t.Fatal(err)
			}
		},
		"directory gone": func(w *world, run *Run, a *Agent) {
			if err := os.RemoveAll(a.Dir); err != nil {
				w.t.Fatal(err)
			}
		},
		"registration gone": func(w *world, run *Run, a *Agent) {
			w.git("worktree", "list")
			gitDir := w.gitIn(a.Dir, "rev-parse", "--absolute-git-dir")
			if err := os.RemoveAll(gitDir); err != nil {
				w.t.Fatal(err)
			}
		},
		"link gone": func(w *world, run *Run, a *Agent) {
			if err := os.Remove(filepath.Join(a.Dir, ".git")); err != nil {
				w.t.Fatal(err)
			}
		},
		"owner unknown": func(w *world, run *Run, a *Agent) {
			w.write(w.gitIn(a.Dir, "rev-parse", "--absolute-git-dir"), ownerFile, "{")
		},
		"stale index lock": func(w *world, run *Run, a *Agent) {
			w.write(w.gitIn(a.Dir, "rev-parse", "--absolute-git-dir"), "index.lock", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			a := w.agent(run, "one", 1)
			damage(w, run, a)
			again := w.relive(run)
			b := w.agent(again, "one", 1)
			equal(t, "status", w.gitIn(b.Dir, "status", "--porcelain"), "")
			equal(t, "a.txt", w.read(b.Dir, "a.txt"), "one\n")
			equal(t, "kept", w.remove(b), Kept{})
			if _, err := again.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			equal(t, "branches", w.branches(), []string{"main"})
			equal(t, "worktrees", strings.Count(w.git("worktree", "list"), "\n"), 0)
		})
	}
}

func TestUnknownDirectoryIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	dir := filepath.Join(w.root, poolDir, "1")
	w.write(dir, "precious", "p")
	a := w.agent(run, "one", 1)
	equal(t, "fresh", w.gitIn(a.Dir, "status", "--porcelain", "--ignored"), "")
	equal(t, "left alone", w.read(dir, "precious"), "p")
}

func TestCancelledWhileAdding(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	if err := run.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run.NewAgent(ctx, "one", 1); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	equal(t, "branches", w.branches(), []string{"bide/r1", "main"})
	w.agent(run, "one", 1)
}

// Git is ended at random moments while it makes worktrees; the next try works.
func TestKilledWhileAdding(t *testing.T) {
	w := newWorld(t)
	for i := range 300 {
		w.write(w.dir, fmt.Sprintf("many/%d.txt", i), strings.Repeat("x", 1000))
	}
	w.commitAll(w.dir, "many")
	run := w.run()
	if err := run.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	killed := 0
	for i := range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*6)*time.Millisecond)
		if _, err := run.NewAgent(ctx, "one", 1); err != nil {
			killed++
		}
		cancel()
		a := w.agent(run, "one", 1)
		equal(t, "status", w.gitIn(a.Dir, "status", "--porcelain"), "")
		if len(a.Kept) > 0 {
			t.Errorf("%v", a.Kept)
		}
	}
	if killed == 0 {
		t.Error("no attempt was killed")
	}
	equal(t, "worktrees", strings.Count(w.git("worktree", "list"), "\n"), 2)
	equal(t, "branches", w.branches(), []string{"bide/r1", "main"})
}

// A step of the run itself may change to a branch of its own.
func TestRunLeavesItsBranch(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.gitIn(run.Dir, "checkout", "-q", "-b", "feature")
	a := w.agent(run, "one", 1)
	w.write(a.Dir, "r.txt", "r")
	w.commitAll(a.Dir, "work")
	w.merge(run, a, MergeOptions{})
	equal(t, "kept", w.remove(a), Kept{})
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "r.txt", w.read(w.dir, "r.txt"), "r")

	w.gitIn(run.Dir, "checkout", "-q", "--detach", run.Base)
	w.write(run.Dir, "elsewhere.txt", "e")
	w.commitAll(run.Dir, "elsewhere")
	_, err := run.FinalMerge(t.Context(), MergeOptions{})
	var no *CannotMerge
	if !errors.As(err, &no) {
		t.Fatal(err)
	}
	if err := run.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	infos, err := w.repo.List(t.Context(), "r1")
	if err != nil || len(infos) != 2 || infos[0].Path != run.Dir || infos[0].Branch != "" || infos[0].Unmerged != 1 || infos[1].Unmerged != 0 {
		t.Fatalf("%+v %v", infos, err)
	}
	k, err := run.Remove(t.Context())
	if err != nil || k.Branch != "bide/r1.head" || k.Commits != 1 {
		t.Errorf("%+v %v", k, err)
	}
}

func TestAgentThatLeavesItsBranch(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	detached := w.agent(run, "detached", 1)
	w.gitIn(detached.Dir, "checkout", "-q", "--detach")
	w.write(detached.Dir, "d.txt", "d")
	w.commitAll(detached.Dir, "detached work")
	k := w.remove(detached)
	equal(t, "detached", k.Branch, detached.Branch)
	equal(t, "its file", w.git("show", k.Branch+":d.txt"), "d")

	own := w.agent(run, "own", 1)
	w.write(own.Dir, "o.txt", "o")
	w.commitAll(own.Dir, "own work")
	w.gitIn(own.Dir, "checkout", "-q", "--detach", "main")
	w.write(own.Dir, "p.txt", "p")
	w.commitAll(own.Dir, "other work")
	k = w.remove(own)
	equal(t, "both kept", append([]string{k.Branch}, k.Others...), []string{own.Branch, own.Branch + ".head"})

	twice := w.agent(run, "twice", 1)
	for _, name := range []string{"q", "r"} {
		w.write(twice.Dir, name, name)
		w.commitAll(twice.Dir, name)
		w.gitIn(twice.Dir, "checkout", "-q", "--detach", "main")
	}
	k = w.remove(twice)
	equal(t, "both left are kept", append([]string{k.Branch}, k.Others...), []string{twice.Branch + ".head", twice.Branch + ".head.1"})
	equal(t, "the second", w.git("show", k.Others[0]+":r"), "r")

	branch := w.agent(run, "branch", 1)
	w.gitIn(branch.Dir, "checkout", "-q", "-b", "feature")
	w.write(branch.Dir, "f.txt", "f")
	w.commitAll(branch.Dir, "feature work")
	w.merge(run, branch, MergeOptions{})
	equal(t, "f.txt", w.read(run.Dir, "f.txt"), "f")
	equal(t, "kept", w.remove(branch), Kept{})
}

// A file that is staged as deleted is committed as deleted, alone and beside others.
func TestAutoCommitOfAStagedDeletion(t *testing.T) {
	w := newWorld(t)
	for i, o := range []CommitOptions{{}, {Include: []string{"*.txt"}}} {
		w.write(w.dir, "gone.txt", fmt.Sprint("gone", i))
		w.commitAll(w.dir, "gone")
		w.git("rm", "-q", "gone.txt")
		o.Message = "deleted"
		if _, err := w.repo.AutoCommit(t.Context(), w.dir, o); err != nil {
			t.Fatal(err)
		}
		equal(t, "status", w.git("status", "--porcelain"), "")
		equal(t, "change", w.git("show", "--format=", "--name-status", "HEAD"), "D\tgone.txt")
	}
}
