package worktree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// zeros replaces what a file has by as many zeros, as a power cut may leave it.
func (w *world) zeros(path string) {
	w.t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.Repeat([]byte{0}, len(text)), 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// cut keeps the first bytes of a file.
func (w *world) cut(path string, size int64) {
	w.t.Helper()
	if err := os.Truncate(path, size); err != nil {
		w.t.Fatal(err)
	}
}

// losing removes an object, as a resume does with one that is torn.
func (w *world) losing(id string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, ".git", "objects", id[:2], id[2:])); err != nil {
		w.t.Fatal(err)
	}
}

// What a power cut leaves of a worktree, or of a part of it, holds up neither the run nor
// anything else in the repository.
func TestPowerCutInAWorktree(t *testing.T) {
	for name, damage := range map[string]func(w *world, dir, admin string){
		"index with zeros":       func(w *world, _, admin string) { w.zeros(filepath.Join(admin, "index")) },
		"index cut":              func(w *world, _, admin string) { w.cut(filepath.Join(admin, "index"), 40) },
		"index empty":            func(w *world, _, admin string) { w.cut(filepath.Join(admin, "index"), 0) },
		"HEAD with zeros":        func(w *world, _, admin string) { w.zeros(filepath.Join(admin, "HEAD")) },
		"HEAD of no commit":      func(w *world, _, admin string) { w.write(admin, "HEAD", strings.Repeat("0", 40)+"\n") },
		"place with zeros":       func(w *world, _, admin string) { w.zeros(filepath.Join(admin, "gitdir")) },
		"place cut":              func(w *world, _, admin string) { w.cut(filepath.Join(admin, "gitdir"), 10) },
		"repository with zeros":  func(w *world, _, admin string) { w.zeros(filepath.Join(admin, "commondir")) },
		"repository cut":         func(w *world, _, admin string) { w.cut(filepath.Join(admin, "commondir"), 0) },
		"link with zeros":        func(w *world, dir, _ string) { w.zeros(filepath.Join(dir, ".git")) },
		"last commit lost":       func(w *world, dir, _ string) { w.losing(w.gitIn(dir, "rev-parse", "HEAD")) },
		"files of it lost":       func(w *world, dir, _ string) { w.losing(w.gitIn(dir, "rev-parse", "HEAD^{tree}")) },
		"staged content lost":    func(w *world, dir, _ string) { w.losing(w.gitIn(dir, "rev-parse", ":staged.txt")) },
		"an owner with zeros":    func(w *world, _, admin string) { w.zeros(filepath.Join(admin, ownerFile)) },
		"a commit left and lost": func(w *world, dir, _ string) { w.leaveLost(dir) },
	} {
		for _, which := range []string{"agent", "run"} {
			t.Run(name+"/"+which, func(t *testing.T) {
				w := newWorld(t)
				run := w.run()
				a := w.agent(run, "one", 1)
				dir := a.Dir
				if which == "run" {
					dir = run.Dir
				}
				w.write(dir, "made.txt", "made")
				w.commitAll(dir, "made")
				w.write(dir, "staged.txt", "staged")
				w.gitIn(dir, "add", "-A")
				admin, err := adminDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				if name == "an owner with zeros" && which == "run" {
					w.write(admin, ownerFile, "{}")
				}
				damage(w, dir, admin)

				again := w.relive(run)
				b, err := again.Continue(t.Context(), "one", 2)
				if err != nil {
					t.Fatal(err)
				}
				if b == nil {
					b = w.agent(again, "one", 3)
				}
				w.write(b.Dir, "own.txt", "own")
				w.commitAll(b.Dir, "own")
				w.merge(again, b, MergeOptions{})
				w.remove(b)
				if _, err := w.repo.List(t.Context(), ""); err != nil {
					t.Error(err)
				}
				if _, err := again.FinalMerge(t.Context(), MergeOptions{}); err != nil {
					t.Fatal(err)
				}
				if _, err := again.Remove(t.Context()); err != nil {
					t.Fatal(err)
				}
				equal(t, "own.txt on main", w.git("show", "main:own.txt"), "own")
				equal(t, "worktrees", strings.Count(w.git("worktree", "list"), "\n"), 0)
				w.git("fsck", "--connectivity-only", "--no-reflogs")
			})
		}
	}
}

// Whatever piece of a worktree, and of what git keeps of it, a power cut takes away or
// leaves as zeros, the next life works on, and comes to its end. The short form has the loss
// of the logs of HEADs, and some others that are drawn; make enumerate has all.
func TestEachPieceOfAWorktreeLost(t *testing.T) {
	states := map[string]func(w *world, a *Agent, admin string){
		"nobody's": func(w *world, _ *Agent, admin string) { w.must(os.Remove(filepath.Join(admin, ownerFile))) },
		"half checked out": func(w *world, a *Agent, admin string) {
			w.must(os.Remove(filepath.Join(admin, ownerFile)))
			w.zeros(filepath.Join(a.Dir, "a.txt"))
		},
		"at work": func(w *world, a *Agent, _ string) {
			w.write(a.Dir, "made.txt", "made")
			w.commitAll(a.Dir, "made")
			w.write(a.Dir, "left.txt", "left")
		},
	}
	losses := map[string]func(w *world, path string, info fs.FileInfo){
		"gone": func(w *world, path string, _ fs.FileInfo) { w.must(os.RemoveAll(path)) },
		"empty": func(w *world, path string, info fs.FileInfo) {
			if info.IsDir() {
				w.must(errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o777)))
			} else if info.Mode().IsRegular() {
				w.cut(path, 0)
			}
		},
		"zeros": func(w *world, path string, info fs.FileInfo) {
			if info.Mode().IsRegular() {
				w.zeros(path)
			}
		},
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	begin := func(t *testing.T, leave func(*world, *Agent, string)) (w *world, run *Run, pieces map[string]string) {
		w = newWorld(t)
		run = w.run()
		a := w.agent(run, "one", 1)
		admin, err := adminDir(a.Dir)
		w.must(err)
		own, err := adminDir(run.Dir)
		w.must(err)
		leave(w, a, admin)
		w.must(run.repo.Sync(t.Context()))
		pieces = map[string]string{
			"agent/link": filepath.Join(a.Dir, ".git"), "agent/files": a.Dir,
			"run/link": filepath.Join(run.Dir, ".git"), "run/files": run.Dir, "root": filepath.Dir(run.Dir),
		}
		for what, root := range map[string]string{"agent": admin, "run": own, "heads": filepath.Join(run.repo.common, "logs", "refs", "bide")} {
			w.must(filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
				name, _ := filepath.Rel(root, path)
				pieces[what+"/"+name] = path
				return err
			}))
		}
		return w, run, pieces
	}
	for state, leave := range states {
		t.Run(state, func(t *testing.T) {
			_, _, pieces := begin(t, leave)
			rnd := rand.New(rand.NewPCG(seed, uint64(len(state)))) // the states run at once
			names := slices.Sorted(maps.Keys(pieces))
			type lost struct{ name, loss string }
			var cases [][]lost
			for _, name := range names {
				for loss := range losses {
					if long := os.Getenv("BIDE_ENUMERATE") != ""; long || name == "heads/r1/pool/1" && loss == "gone" || rnd.IntN(24) == 0 {
						cases = append(cases, []lost{{name, loss}})
						if other := names[rnd.IntN(len(names))]; long {
							cases = append(cases, []lost{{name, loss}, {other, slices.Collect(maps.Keys(losses))[rnd.IntN(len(losses))]}})
						}
					}
				}
			}
			for _, c := range cases {
				t.Run(fmt.Sprint(c), func(t *testing.T) {
					w, run, pieces := begin(t, leave)
					for _, l := range c {
						if info, err := os.Lstat(pieces[l.name]); err == nil {
							losses[l.loss](w, pieces[l.name], info)
						}
					}
					again := w.relive(run)
					if _, err := again.Continue(t.Context(), "one", 2); err != nil {
						t.Fatal(err)
					}
					b := w.agent(again, "two", 1)
					w.write(b.Dir, "own.txt", "own")
					w.commitAll(b.Dir, "own")
					w.merge(again, b, MergeOptions{})
					w.remove(b)
					if _, err := again.FinalMerge(t.Context(), MergeOptions{}); err != nil {
						t.Fatal(err)
					}
					if _, err := again.Remove(t.Context()); err != nil {
						t.Fatal(err)
					}
					equal(t, "own.txt on main", w.git("show", "main:own.txt"), "own")
					equal(t, "files on main", w.git("ls-tree", "-r", "--name-only", "main"), ".gitignore\na.txt\nown.txt\nsub/b.txt")
					equal(t, "worktrees", strings.Count(w.git("worktree", "list"), "\n"), 0)
					w.git("fsck", "--connectivity-only", "--no-reflogs")
				})
			}
		})
	}
}

// leaveLost has a worktree leave a commit by a checkout, and lose it.
func (w *world) leaveLost(dir string) {
	w.t.Helper()
	branch := w.gitIn(dir, "rev-parse", "--abbrev-ref", "HEAD")
	back := w.gitIn(dir, "rev-parse", "HEAD")
	if branch != "HEAD" {
		back = branch
	}
	w.gitIn(dir, "checkout", "-q", "--detach")
	w.write(dir, "left.txt", "left")
	w.commitAll(dir, "left")
	lost := w.gitIn(dir, "rev-parse", "HEAD")
	w.gitIn(dir, "checkout", "-q", back)
	w.losing(lost)
}

// A run that was not made to its end is made anew, whatever of it got to the disk.
func TestPowerCutWhileARunIsMade(t *testing.T) {
	for name, damage := range map[string]func(w *world, run *Run, admin string){
		"nothing torn": func(*world, *Run, string) {},
		"target torn": func(w *world, run *Run, _ string) {
			w.zeros(filepath.Join(w.dir, ".git", filepath.FromSlash(privateRef(run.ID, "target"))))
		},
		"branch torn": func(w *world, run *Run, _ string) {
			w.zeros(filepath.Join(w.dir, ".git", "refs", "heads", filepath.FromSlash(run.Branch)))
		},
		"index torn": func(w *world, _ *Run, admin string) { w.zeros(filepath.Join(admin, "index")) },
		"files missing": func(w *world, run *Run, _ string) {
			if err := os.Remove(filepath.Join(run.Dir, "a.txt")); err != nil {
				w.t.Fatal(err)
			}
		},
		"HEAD torn":  func(w *world, _ *Run, admin string) { w.zeros(filepath.Join(admin, "HEAD")) },
		"place torn": func(w *world, _ *Run, admin string) { w.zeros(filepath.Join(admin, "gitdir")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			admin, err := adminDir(run.Dir)
			if err != nil {
				t.Fatal(err)
			}
			w.git("update-ref", "-d", privateRef(run.ID, "start"))
			damage(w, run, admin)
			w.write(w.dir, "later.txt", "later")
			w.git("add", "later.txt")
			w.git("-c", "user.name=U", "-c", "user.email=u@x", "commit", "-q", "-m", "later")

			if _, err := w.open(w.dir).OpenRun(t.Context(), RunOptions{ID: "r1", Root: w.root}); !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			again, err := w.open(w.dir).NewRun(t.Context(), RunOptions{ID: "r1", Root: w.root})
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "status", w.gitIn(again.Dir, "status", "--porcelain"), "")
			equal(t, "later.txt", w.read(again.Dir, "later.txt"), "later")
			if _, err := again.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			equal(t, "branches", w.branches(), []string{"main"})
			equal(t, "worktrees", strings.Count(w.git("worktree", "list"), "\n"), 0)
		})
	}
}

// TestStatusOfAKilledGit: a git that a signal ended has refused nothing, also where a shell
// before it on PATH says so in its own way; what it would have said is not made up.
func TestStatusOfAKilledGit(t *testing.T) {
	for text, want := range map[string]int{"exit 1": 1, "exit 128": 128, "exit 129": 129, "exit 137": -1, "kill -9 $$": -1} {
		if got := status(exec.Command("sh", "-c", text).Run()); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// A worktree of a run that is gone is made anew with what was uncommitted in it when the
// agents started, as far as the branch has not changed it since.
func TestAWorktreeThatIsGoneHasWhatSetupLeft(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, "drop.txt", "drop\n")
	w.write(w.dir, "both.txt", "both\n")
	w.commitAll(w.dir, "more")
	run := w.run()
	w.write(run.Dir, "a.txt", "changed\n")
	w.write(run.Dir, "dir/new *.txt", "new\n")
	w.write(run.Dir, "both.txt", "by setup\n")
	if err := os.Remove(filepath.Join(run.Dir, "drop.txt")); err != nil {
		t.Fatal(err)
	}
	if err := run.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := w.agent(run, "i", 1)
	w.write(a.Dir, "both.txt", "by an item\n")
	w.commitAll(a.Dir, "both")
	w.merge(run, a, MergeOptions{})
	if err := os.RemoveAll(run.Dir); err != nil {
		t.Fatal(err)
	}
	again := w.relive(run)
	if !again.Remade || again.Restored != 3 {
		t.Errorf("made anew: %v, %d files are back", again.Remade, again.Restored)
	}
	for name, want := range map[string]string{"a.txt": "changed\n", "dir/new *.txt": "new\n", "both.txt": "by an item\n"} {
		if got := w.read(again.Dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if w.exists(filepath.Join(again.Dir, "drop.txt")) {
		t.Error("drop.txt is back, which setup had removed")
	}
}

// A power cut while the run's worktree was made anew leaves zeros where the disk had no bytes
// yet: in the link to its private git directory, and in what stands there.
func TestTornWhileMadeAnew(t *testing.T) {
	torn := func(t *testing.T, path string, keep int) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		clear(text[min(keep, len(text)):])
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, keep := range []int{0, 5, 8, 12, 30} {
		for _, name := range []string{"link", "commondir", "gitdir", "HEAD", "all"} {
			t.Run(fmt.Sprint(name, " ", keep), func(t *testing.T) {
				w := newWorld(t)
				run := w.run()
				w.write(run.Dir, "made.txt", "made\n")
				w.commitAll(run.Dir, "made")
				admin, err := adminDir(run.Dir)
				if err != nil {
					t.Fatal(err)
				}
				if err := run.note(t.Context(), "remade"); err != nil {
					t.Fatal(err)
				}
				if name == "link" || name == "all" {
					torn(t, filepath.Join(run.Dir, ".git"), keep)
				}
				for _, of := range []string{"commondir", "gitdir", "HEAD"} {
					if name == of || name == "all" {
						torn(t, filepath.Join(admin, of), keep)
					}
				}
				again := w.relive(run)
				equal(t, "made.txt", w.read(again.Dir, "made.txt"), "made\n")
				equal(t, "status", w.gitIn(again.Dir, "status", "--porcelain"), "")
				equal(t, "branch", w.git("log", "--format=%s", again.Branch), "made\nstart")
				if !again.Remade {
					t.Error("the loss is not told")
				}
				if strings.Count(w.git("worktree", "list"), "\n") != 1 {
					t.Errorf("%s", w.git("worktree", "list"))
				}
			})
		}
	}
}

// A removal by the run itself that was cut short anywhere is none of a stranger's: nothing
// is told to be lost, and files that are missing are not taken for deleted by a step.
func TestARemovalIsCutShort(t *testing.T) {
	going := func(t *testing.T, run *Run) {
		if err := os.Rename(run.Dir, run.Dir+goingSuffix); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, path string) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, cut := range map[string]func(t *testing.T, run *Run, admin string){
		"before it": func(*testing.T, *Run, string) {},
		"half of it is back": func(t *testing.T, run *Run, admin string) { // a disk refused it
			remove(t, filepath.Join(run.Dir, "a.txt"))
			remove(t, admin)
		},
		"of its files": func(t *testing.T, run *Run, _ string) {
			going(t, run)
			remove(t, filepath.Join(run.Dir+goingSuffix, "a.txt"))
		},
		"after its private directory": func(t *testing.T, run *Run, admin string) {
			going(t, run)
			remove(t, admin)
		},
		"after it": func(t *testing.T, run *Run, admin string) { remove(t, run.Dir); remove(t, admin) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			w.write(run.Dir, "made.txt", "made\n")
			w.commitAll(run.Dir, "made")
			admin, err := adminDir(run.Dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := run.note(t.Context(), "removed"); err != nil {
				t.Fatal(err)
			}
			cut(t, run, admin)
			again := w.relive(run)
			if again.Remade {
				t.Error("a worktree that the run itself was removing is told to be gone")
			}
			if left, err := again.CommitLeft(t.Context(), "left"); err != nil || len(left) > 0 {
				t.Errorf("left: %v (%v)", left, err)
			}
			if got := w.git("log", "--format=%s", again.Branch); got != "made\nstart" {
				t.Errorf("the branch has %q", got)
			}
			if w.exists(run.Dir + goingSuffix) {
				t.Error("what was being removed is left")
			}
			remove(t, again.Dir) // now by a stranger
			if !w.relive(again).Remade {
				t.Error("a worktree that a stranger removed is not told to be gone")
			}
		})
	}
}

// What somebody made in the run's worktree between two lives is never deleted, whatever the
// lives were at: where the worktree is made anew, it is kept beside it.
func TestNobodysFilesAreDeleted(t *testing.T) {
	for name, cut := range map[string]func(t *testing.T, run *Run){
		"before it is removed": func(t *testing.T, run *Run) {
			if err := run.note(t.Context(), "removed"); err != nil {
				t.Fatal(err)
			}
		},
		"half of it is back": func(t *testing.T, run *Run) {
			if err := run.note(t.Context(), "removed"); err != nil {
				t.Fatal(err)
			}
			admin, err := adminDir(run.Dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(admin); err != nil {
				t.Fatal(err)
			}
		},
		"made anew, and not told": func(t *testing.T, run *Run) {
			if err := run.note(t.Context(), "remade"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			cut(t, run)
			w.write(run.Dir, "by-hand.txt", "by hand\n")
			again := w.relive(run)
			found, err := filepath.Glob(run.Dir + "*/by-hand.txt")
			if err != nil || len(found) != 1 || w.read(filepath.Dir(found[0]), "by-hand.txt") != "by hand\n" {
				t.Errorf("the file is in %q (%v)", found, err)
			}
			var aside []string
			if dir := filepath.Dir(strings.Join(found, "")); dir != run.Dir {
				aside = []string{dir}
			}
			if told := again.InTheWay(); !slices.Equal(told, aside) {
				t.Errorf("told to be in the way: %q, want %q", told, aside)
			}
			if got := w.read(again.Dir, "a.txt"); got != "one\n" {
				t.Errorf("the worktree has %q", got)
			}
		})
	}
}

// A step goes to another branch and leaves files uncommitted; the run is killed between
// saving them and removing the worktree. The next life has them uncommitted, and merges.
func TestSavedOnAnotherBranch(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.gitIn(run.Dir, "checkout", "-q", "-b", "other")
	w.write(run.Dir, "made.txt", "made\n")
	w.commitAll(run.Dir, "made")
	w.write(run.Dir, "left.txt", "left\n")
	if _, _, _, err := w.repo.rescue(t.Context(), run, run.Dir, run.Branch); err != nil {
		t.Fatal(err)
	}
	again := w.relive(run)
	if got := w.gitIn(again.Dir, "status", "--porcelain"); got != "?? left.txt" {
		t.Errorf("uncommitted: %q", got)
	}
	if _, err := again.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	if w.read(w.dir, "made.txt") != "made\n" || w.exists(filepath.Join(w.dir, "left.txt")) {
		t.Error("made.txt is not merged, or left.txt is")
	}
}

// An item removes a file that setup left uncommitted, and its work is merged. The file is
// not there any more, also where somebody removes the worktree then; what agents of another
// snapshot start from is.
func TestWhatAMergeTookAwayStaysAway(t *testing.T) {
	for name, follow := range map[string]bool{"followed": true, "not followed": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			w.write(run.Dir, "taken.txt", "taken\n")
			w.write(run.Dir, "kept.txt", "kept\n")
			if err := run.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, name := range []string{"", "taken.txt"} {
				a := w.agent(run, fmt.Sprint("i", i), 1)
				if name != "" {
					if err := os.Remove(filepath.Join(a.Dir, name)); err != nil {
						t.Fatal(err)
					}
				}
				w.write(a.Dir, fmt.Sprint("made", i), "made\n")
				w.commitAll(a.Dir, "work")
				w.merge(run, a, MergeOptions{})
			}
			if follow {
				if err := run.Follow(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := os.RemoveAll(run.Dir); err != nil {
					t.Fatal(err)
				}
				run = w.relive(run)
				if w.exists(filepath.Join(run.Dir, "taken.txt")) || run.Restored != 1 || w.read(run.Dir, "kept.txt") != "kept\n" {
					t.Errorf("taken.txt is back, or kept.txt is not: %d files are", run.Restored)
				}
			}
			w.write(run.Dir, "taken.txt", "taken\n")
			if err := run.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(run.Dir); err != nil {
				t.Fatal(err)
			}
			if run = w.relive(run); w.read(run.Dir, "taken.txt") != "taken\n" {
				t.Error("taken.txt is not there, which a step made again")
			}
		})
	}
}

// The work of an attempt was not merged, and was kept; that the attempt has failed is not on
// record. In the next life it is as its steps left it: what they left uncommitted is merged
// if the file says so, and else it is not.
func TestKeptAndNotRecorded(t *testing.T) {
	for _, left := range []string{"", "all of it"} {
		t.Run(left, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			w.write(run.Dir, "setup.txt", "setup\n")
			if err := run.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
			a := w.agent(run, "an item", 1)
			w.write(a.Dir, "made.txt", "made\n")
			w.commitAll(a.Dir, "made")
			w.write(a.Dir, "left.txt", "left\n")
			if k, err := a.Keep(t.Context()); err != nil || k.Branch == "" {
				t.Fatalf("%+v, %v", k, err)
			}
			run = w.relive(run)
			b, err := run.Continue(t.Context(), "an item", 1)
			if err != nil || b == nil {
				t.Fatalf("%v, %v", b, err)
			}
			if got := w.gitIn(b.Dir, "status", "--porcelain"); got != "?? left.txt" {
				t.Errorf("uncommitted: %q", got)
			}
			res, k, err := b.Finish(t.Context(), MergeOptions{Left: left})
			if err != nil || (k.Branch != "") == (left != "") {
				t.Errorf("%+v, %+v, %v", res, k, err)
			}
			want := ".gitignore\na.txt\nmade.txt\nsub/b.txt"
			if left != "" {
				want = ".gitignore\na.txt\nleft.txt\nmade.txt\nsub/b.txt"
			}
			equal(t, "merged", w.git("ls-tree", "-r", "--name-only", "bide/r1"), want)
			branches := []string{"bide/r1", "main"}
			if left == "" {
				branches = []string{k.Branch, "bide/r1", "main"}
			}
			equal(t, "branches", w.branches(), branches)
		})
	}
}

// A worktree of the pool was made when the process was killed, before it was anybody's. It
// is at what agents start from, which is nobody's work: no branch is left of it.
func TestKilledBeforeAnOwner(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "setup.txt", "setup\n")
	if err := run.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, again := range []bool{false, true} {
		a := w.agent(run, fmt.Sprint("i", i), 1)
		if again { // an attempt after a conflict starts from a commit of its own
			var err error
			if a, err = run.NewAgentNow(t.Context(), "other", 2); err != nil {
				t.Fatal(err)
			}
		}
		admin, err := adminDir(a.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(admin, ownerFile)); err != nil {
			t.Fatal(err)
		}
	}
	run = w.relive(run)
	if err := run.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.branches(), " "); strings.Contains(got, "bide-item/") {
		t.Errorf("branches: %s", got)
	}
}

// What was lost with a worktree is told in each life until one has it on record, and what
// agents start from is back each time.
func TestRemadeUntilItIsTold(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "setup.txt", "setup\n")
	if err := run.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(run.Dir); err != nil {
		t.Fatal(err)
	}
	for life := range 3 {
		run = w.relive(run)
		if !run.Remade || run.Restored != 1 || w.read(run.Dir, "setup.txt") != "setup\n" {
			t.Errorf("life %d: made anew: %v, %d files are back", life, run.Remade, run.Restored)
		}
		if life == 0 { // killed while it brought them back
			if err := os.Remove(filepath.Join(run.Dir, "setup.txt")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := run.Told(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.relive(run).Remade {
		t.Error("it is told again")
	}
}

// A commit of a step that was cut short is taken back also where somebody has removed the
// worktree since, in any of the ways there are.
func TestRewindInAWorktreeMadeAnew(t *testing.T) {
	for name, remove := range map[string]func(w *world, run *Run) error{
		"files": func(_ *world, run *Run) error { return os.RemoveAll(run.Dir) },
		"all":   func(_ *world, run *Run) error { return os.RemoveAll(run.root) },
		"git":   func(w *world, run *Run) error { w.git("worktree", "remove", "--force", run.Dir); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			w.write(run.Dir, "one.txt", "one\n")
			w.commitAll(run.Dir, "one")
			if err := run.Mark(t.Context(), "s1"); err != nil {
				t.Fatal(err)
			}
			w.write(run.Dir, "two.txt", "two\n")
			w.commitAll(run.Dir, "two") // and the step is killed
			if err := remove(w, run); err != nil {
				t.Fatal(err)
			}
			again := w.relive(run)
			if err := again.Rewind(t.Context(), func(s string) bool { return s == "s1" }, false); err != nil {
				t.Fatal(err)
			}
			if got := w.git("log", "--format=%s", again.Branch); got != "one\nstart" {
				t.Errorf("the branch has %q", got)
			}
			if got := w.gitIn(again.Dir, "diff", "--cached", "--name-only"); got != "two.txt" {
				t.Errorf("staged: %q", got)
			}
		})
	}
}

// A step that makes two commits and is killed behind them makes both again: what the second
// one has is not staged for the first.
func TestRewindOfTwoCommits(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	step := func() {
		for _, name := range []string{"one", "two"} {
			w.write(run.Dir, name+".txt", name+"\n")
			w.gitIn(run.Dir, "add", name+".txt")
			w.gitIn(run.Dir, "commit", "-qm", name)
		}
	}
	step()
	for range 2 {
		if err := run.Rewind(t.Context(), func(string) bool { return false }, false); err != nil {
			t.Fatal(err)
		}
		if got := w.gitIn(run.Dir, "status", "--porcelain"); got != "A  one.txt\n?? two.txt" {
			t.Errorf("status: %q", got)
		}
		w.gitIn(run.Dir, "commit", "-qm", "one") // and now it is killed between its commits
		w.gitIn(run.Dir, "add", "two.txt")
	}
	if err := run.Rewind(t.Context(), func(string) bool { return false }, false); err != nil {
		t.Fatal(err)
	}
	step()
	if got := w.gitIn(run.Dir, "log", "--format=%s", "--name-only", "-2"); got != "two\n\ntwo.txt\none\n\none.txt" {
		t.Errorf("the log is %q", got)
	}
}

// A log may be on the disk that names a commit which is not, or not with all its files: git
// fsck has nothing to say about a run that goes on after a power cut.
func TestLostCommitsAreInNoLog(t *testing.T) {
	for name, what := range map[string]string{"the commit": "HEAD", "a file of it": "HEAD:two.txt"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run()
			w.write(run.Dir, "one.txt", "one\n")
			w.commitAll(run.Dir, "one")
			if err := run.Mark(t.Context(), "s1"); err != nil {
				t.Fatal(err)
			}
			w.write(run.Dir, "two.txt", "two\n")
			w.commitAll(run.Dir, "two")
			w.write(run.Dir, "three.txt", "three\n")
			w.commitAll(run.Dir, "three")
			id := w.gitIn(run.Dir, "rev-parse", strings.Replace(what, "HEAD", "HEAD^", 1))
			if err := os.Remove(filepath.Join(w.repo.common, "objects", id[:2], id[2:])); err != nil {
				t.Fatal(err)
			}
			again := w.relive(run)
			if got := w.git("log", "--format=%s", again.Branch); got != "one\nstart" {
				t.Errorf("the branch has %q", got)
			}
			if text, err := os.ReadFile(filepath.Join(w.repo.common, "logs", "refs", "heads", again.Branch)); err != nil || !strings.Contains(string(text), "commit: one") || strings.Contains(string(text), "commit: t") {
				t.Errorf("the log has %q, %v", text, err)
			}
			w.git("worktree", "remove", "--force", "--force", again.Dir)
			w.git("fsck", "--no-dangling", "--connectivity-only")
		})
	}
}

// What is missing in a partial clone may be with its remote, so its logs stay as they are.
func TestLogsOfAPartialCloneStay(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "one.txt", "one\n")
	w.commitAll(run.Dir, "one")
	if err := run.Mark(t.Context(), "s1"); err != nil {
		t.Fatal(err)
	}
	w.write(run.Dir, "two.txt", "two\n")
	w.commitAll(run.Dir, "two")
	id := w.gitIn(run.Dir, "rev-parse", "HEAD:two.txt")
	for _, err := range []error{
		os.Remove(filepath.Join(w.repo.common, "objects", id[:2], id[2:])),
		os.MkdirAll(filepath.Join(w.repo.common, "objects", "pack"), 0o777),
		os.WriteFile(filepath.Join(w.repo.common, "objects", "pack", "pack-of-the-remote.promisor"), nil, 0o666),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	again := w.relive(run)
	if text, err := os.ReadFile(filepath.Join(w.repo.common, "logs", "refs", "heads", again.Branch)); err != nil || !strings.Contains(string(text), "commit: two") {
		t.Errorf("the log has %q, %v", text, err)
	}
}

// What a life saved of uncommitted work is uncommitted again in the next one, in each of
// them, and comes into no merge.
func TestSavedWorkIsUncommittedAgain(t *testing.T) {
	w := newWorld(t)
	run := w.run()
	w.write(run.Dir, "made.txt", "made\n")
	w.commitAll(run.Dir, "made")
	w.write(run.Dir, "left/new", "new\n")
	w.write(run.Dir, "a.txt", "changed\n")
	if err := os.Remove(filepath.Join(run.Dir, "sub", "b.txt")); err != nil {
		t.Fatal(err)
	}
	was := w.gitIn(run.Dir, "status", "--porcelain", "-uall")
	for life := range 4 {
		switch life {
		case 0: // killed between the commit and the removal
			if _, _, _, err := w.repo.rescue(t.Context(), run, run.Dir, run.Branch); err != nil {
				t.Fatal(err)
			}
		case 1, 2:
			k, err := run.Remove(t.Context())
			if err != nil || k.Branch != run.Branch || k.Commits != 2 || len(k.Rescued) != 3 {
				t.Errorf("life %d: kept %+v (%v)", life, k, err)
			}
			if got := w.git("show", run.Branch+":left/new"); got != "new" {
				t.Errorf("the branch has %q", got)
			}
		}
		run = w.relive(run)
		if got := w.gitIn(run.Dir, "status", "--porcelain", "-uall"); got != was || run.Remade {
			t.Errorf("life %d: uncommitted are %q, want %q", life, got, was)
		}
		if err := run.Rewind(t.Context(), func(string) bool { return false }, false); err != nil {
			t.Fatal(err)
		}
		if got := w.git("log", "--format=%s", run.Branch); got != "made\nstart" {
			t.Errorf("life %d: the branch has %q", life, got)
		}
	}
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	if w.read(w.dir, "a.txt") != "one\n" || w.read(w.dir, "made.txt") != "made\n" || w.exists(filepath.Join(w.dir, "left")) {
		t.Error("what was left uncommitted is merged")
	}
}

// TestForgottenInPart: where the removal of a run's private names is cut short, there is no
// run any more, whichever are left.
func TestForgottenInPart(t *testing.T) {
	w := newWorld(t)
	run := worked(w)
	if _, err := run.FinalMerge(t.Context(), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(w.dir, ".git", filepath.FromSlash(privateRef("r1", "start"))+".lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(lock, time.Unix(1, 0), time.Unix(1, 0)); err != nil { // somebody's
		t.Fatal(err)
	}
	if _, err := run.Remove(t.Context()); err == nil {
		t.Fatal("a name was deleted under its lock")
	}
	w.git("rev-parse", "--verify", privateRef("r1", "removed"))
}
