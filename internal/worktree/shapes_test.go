package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A message may begin with the character with which git begins a comment: "#12" is no
// comment, and neither is a heading in what an agent has answered.
func TestMessageThatLooksLikeAComment(t *testing.T) {
	w := newWorld(t)
	w.git("config", "commit.cleanup", "strip")
	for i, text := range []string{"#12: mend", "bide: x\n\n# Heading\n\nbody", "; x"} {
		w.git("config", "core.commentChar", string("#b;"[i]))
		w.write(w.dir, "f", text)
		if _, err := w.repo.AutoCommit(t.Context(), w.dir, CommitOptions{Message: text}); err != nil {
			t.Fatal(err)
		}
		equal(t, "message", w.git("log", "-1", "--format=%B"), text)
	}
	w.git("config", "core.commentChar", "#")
	run := w.run()
	w.write(run.Dir, "left", "left\n")
	if _, err := run.CommitLeft(t.Context(), "# left"); err != nil {
		t.Fatal(err)
	}
	equal(t, "left", w.gitIn(run.Dir, "log", "-1", "--format=%s"), "# left")
	var agents []*Agent
	for _, item := range []string{"1", "2"} {
		a := w.agent(run, item, 1)
		w.write(a.Dir, "a.txt", item+"\n")
		w.commitAll(a.Dir, "x")
		agents = append(agents, a)
	}
	w.merge(run, agents[0], MergeOptions{Message: "# first"})
	w.merge(run, agents[1], MergeOptions{Message: "# second", Left: "# left", Resolve: func(_ context.Context, c ConflictInfo) error {
		w.write(c.Dir, "a.txt", "both\n")
		w.gitIn(c.Dir, "add", "a.txt")
		return nil
	}})
	equal(t, "merges", w.git("log", "--first-parent", "-2", "--format=%s", run.Branch), "# second\n# first")
}

// A directory that no commit has is in no worktree: the run is refused before a step, and
// begins once the directory is committed.
func TestRunFromADirectoryThatNoCommitHas(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.dir, "new", "-sub [1]")
	w.write(dir, "x", "x\n")
	w.repo = w.open(dir)
	_, err := w.repo.NewRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
	if err == nil || !strings.Contains(err.Error(), dir+" is not in commit ") || !strings.Contains(err.Error(), "--isolation none") {
		t.Fatalf("not refused: %v", err)
	}
	equal(t, "branches", w.branches(), []string{"main"})
	w.commitAll(w.dir, "new")
	equal(t, "x", w.read(w.run().WorkDir, "x"), "x\n")
}

// Whoever names the repository by a variable or by core.worktree is told that bide does not
// find it that way.
func TestOpenARepositoryThatIsElsewhere(t *testing.T) {
	w := serialWorld(t)
	other := t.TempDir()
	w.git("config", "core.worktree", other)
	if _, err := Open(t.Context(), w.dir); !errors.Is(err, ErrNotRepo) || !strings.Contains(err.Error(), "core.worktree") {
		t.Errorf("core.worktree: %v", err)
	}
	t.Setenv("GIT_DIR", filepath.Join(w.dir, ".git"))
	if _, err := Open(t.Context(), other); !errors.Is(err, ErrNotRepo) || !strings.Contains(err.Error(), "GIT_DIR") {
		t.Errorf("GIT_DIR: %v", err)
	}
	if err := os.WriteFile(filepath.Join(other, ".git"), []byte("gitdir: "+filepath.Join(w.dir, ".git")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	equal(t, "dir", w.open(other).Dir(), other) // what the message says to do
}

// The attribute conflict-marker-size makes git write other markers: these are found too.
func TestMarkersOfAnotherSize(t *testing.T) {
	for _, size := range []string{"12", "3", "-text"} {
		t.Run(size, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.dir, ".gitattributes", "a.txt conflict-marker-size="+size+"\n")
			w.commitAll(w.dir, "attributes")
			run := w.run()
			one, two := w.agent(run, "1", 1), w.agent(run, "2", 1)
			for _, a := range []*Agent{one, two} {
				w.write(a.Dir, "a.txt", "by "+a.Item+"\n")
				w.commitAll(a.Dir, "x")
			}
			w.merge(run, one, MergeOptions{})
			_, err := run.Merge(t.Context(), two, MergeOptions{Resolve: func(_ context.Context, c ConflictInfo) error {
				w.gitIn(c.Dir, "add", "a.txt")
				return nil
			}})
			if err == nil || !strings.Contains(err.Error(), "conflict markers are left in a.txt") {
				t.Errorf("merged with markers: %v", err)
			}
		})
	}
}
