package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// This file has what machines do that share one run. Each has a clone of the repository,
// with the run in it. They agree elsewhere, one after another, where the run's branch is. A
// machine tells the others about a merge before its own branch moves
// ([MergeOptions].Publish), and takes over their merges with [Run.Advance].

// ErrMoved is the error of a merge that was not published because another machine moved the
// run's branch first.
var ErrMoved = errors.New("another machine has moved the branch of the run")

// Move is a step of the run's branch from one commit to the next.
type Move struct {
	From, To string
	// Gone are the files that setup left uncommitted and that the merge deletes: mode, blob
	// and path, each ended by NUL.
	Gone string
}

// Share sets pull, which is called before each merge. pull calls [Run.Advance] for all that
// other machines have done since. home is where a person finds the branches of the run.
func (run *Run) Share(home string, pull func(ctx context.Context) error) {
	run.pull, run.repo.home = pull, home
}

// Alone runs f while no merge into the run is in progress.
func (run *Run) Alone(ctx context.Context, f func() error) error { return run.queue.while(ctx, f) }

// Advance moves the run's branch to where another machine has moved it. The caller is in
// [Run.Alone], or in a merge. The run's worktree follows later.
func (run *Run) Advance(ctx context.Context, m Move) error {
	if err := run.detach(ctx); err != nil {
		return err
	}
	run.last = merged{}
	if err := run.noteGone(ctx, m.To, goneOf(m.Gone)); err != nil {
		return err
	}
	return run.repo.move(ctx, "refs/heads/"+run.Branch, m.To, m.From, privateRef(run.ID, "tip"))
}

// goneOf reads Move.Gone.
func goneOf(text string) (gone []goneFile) {
	for _, line := range splitNUL(text) {
		if f := strings.SplitN(line, " ", 3); len(f) == 3 {
			gone = append(gone, goneFile{was: blob{f[0], f[1]}, path: f[2]})
		}
	}
	return gone
}

func goneFiles(gone []goneFile) string {
	var b strings.Builder
	for _, g := range gone {
		fmt.Fprintf(&b, "%s %s %s\x00", g.was.mode, g.was.id, g.path)
	}
	return b.String()
}

// Standing is the state of a run, for a machine that does not have the run.
type Standing struct {
	Base   string // the commit that it started from
	Target string // the branch that the user was on; "" for none
	Tip    string // of its branch; "" where only its items have branches
	Merged string // the last merge of an item into it; "" for none
	// Head and Snapshot are the last results of Standing for its worktree; "" if nobody has
	// asked. Moves are the merges since then.
	Head, Snapshot string
	Moves          []Move
	Marks          []Mark // of its worktree
}

// Mark is a commit that a worktree was at when a step ended there. A mark without a step
// always counts for [Tree.Rewind].
type Mark struct{ Commit, Step string }

// Standing gives the tip of the run's branch, and a commit on top of it that has what is
// uncommitted in its worktree. Both are the tip if nothing is uncommitted.
func (run *Run) Standing(ctx context.Context) (tip, snapshot string, err error) {
	if err := run.Follow(ctx); err != nil {
		return "", "", err
	}
	if tip, err = run.gather(ctx); err != nil {
		return "", "", err
	}
	_, snapshot, err = run.present(ctx)
	return tip, snapshot, err
}

// Carry sets up a run in the repository for [Repo.OpenRun], which makes its worktree. The
// repository has all commits of the run already.
func (r *Repo) Carry(ctx context.Context, id string, s Standing) error {
	if err := checkRunID(id); err != nil {
		return err
	}
	run := &Run{ID: id}
	run.Tree = r.tree("", runBranch(id))
	if s.Merged != "" && s.Tip != "" {
		if in, err := r.isAncestor(ctx, s.Merged, s.Tip); err != nil {
			return err
		} else if !in { // a step has rewritten the history without it
			s.Merged = ""
		}
	}
	return r.locked(ctx, func() error {
		var all strings.Builder
		set := func(ref, commit string) { fmt.Fprintf(&all, "update %s %s\n", ref, commit) }
		if s.Tip != "" {
			set("refs/heads/"+run.Branch, s.Tip)
			if s.Merged != "" {
				set(privateRef(id, "tip"), s.Merged)
			}
		}
		set(privateRef(id, "start"), s.Base)
		if s.Head != "" {
			set(privateRef(id, "head"), s.Head)
			set(privateRef(id, "base"), s.Snapshot)
		}
		if _, err := r.run(ctx, call{dir: r.dir, stdin: all.String(), args: []string{"update-ref", "--stdin"}}); err != nil {
			return err
		}
		if s.Target != "" {
			if _, err := r.git(ctx, r.dir, "symbolic-ref", privateRef(id, "target"), "refs/heads/"+s.Target); err != nil {
				return err
			}
		}
		for _, m := range s.Moves {
			if err := run.noteGone(ctx, m.To, goneOf(m.Gone)); err != nil {
				return err
			}
		}
		if err := run.unmark(); err != nil {
			return err
		}
		for _, m := range s.Marks {
			if err := run.markAt(m.Commit, m.Step); err != nil {
				return err
			}
		}
		return nil
	})
}

// Bring sets up the branch of a run, with the commits that other machines made, where a
// person merges it. If there is a branch that has other commits, that is an error.
func (r *Repo) Bring(ctx context.Context, id string, s Standing) error {
	old, err := r.commit(ctx, r.dir, "refs/heads/"+runBranch(id))
	if err != nil {
		return err
	}
	if old != "" && s.Tip != "" {
		ahead, err := r.isAncestor(ctx, old, s.Tip)
		if err == nil && !ahead {
			err = fmt.Errorf("branch %s has commits in %s that the run does not: rename it, and try again", runBranch(id), r.dir)
		}
		if err != nil {
			return err
		}
	}
	s.Head, s.Marks = "", nil // nobody continues here
	if s.Target != "" && s.Tip != "" {
		if tip, err := r.commit(ctx, r.dir, "refs/heads/"+s.Target); err != nil || tip == "" {
			return errors.Join(err, fmt.Errorf("%s has no branch %s, from which the run started", r.dir, s.Target))
		}
	}
	if err := r.Carry(ctx, id, s); err != nil {
		return err
	}
	return r.Sync(ctx)
}

// Name makes a branch of a run's item at a commit. If something else has the name, the
// branch gets a number as well.
func (r *Repo) Name(ctx context.Context, branch, commit string) error {
	if !strings.HasPrefix(branch, itemBranches) {
		return fmt.Errorf("%s is no branch of an item", branch)
	}
	_, err := r.nameCommit(ctx, branch, commit)
	return err
}

// Branch gives the commit of a branch.
func (r *Repo) Branch(ctx context.Context, name string) (string, error) {
	return r.commit(ctx, r.dir, "refs/heads/"+name)
}

// Has reports whether the repository has a commit.
func (r *Repo) Has(ctx context.Context, commit string) (bool, error) {
	id, err := r.commit(ctx, r.dir, commit)
	return id != "", err
}

// Origin describes a repository for machines that clone it.
type Origin struct {
	Base   string `json:"base"`             // the commit of HEAD
	Branch string `json:"branch,omitempty"` // that HEAD is on; "" if it is detached
	Prefix string `json:"prefix,omitempty"` // of the working directory, below the top
	Dir    string `json:"dir"`              // the top, on the machine that has it
	Format string `json:"format"`           // of its objects
	// Shallow are commits whose parents the repository does not have, one in each line.
	Shallow string `json:"shallow,omitempty"`
	// Name and Email are the author of commits there; "" if git has none configured.
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
	// LeftOut are the files that are uncommitted.
	LeftOut []string `json:"left_out,omitempty"`
}

// Origin describes the repository as it is now. The error is [ErrUnborn] if there is no
// commit.
func (r *Repo) Origin(ctx context.Context) (o Origin, err error) {
	now, err := r.State(ctx, r.dir)
	if err != nil {
		return o, err
	}
	if now.Commit == "" {
		return o, fmt.Errorf("%s: %w", r.dir, ErrUnborn)
	}
	o = Origin{Base: now.Commit, Branch: now.Branch, Prefix: r.prefix, Dir: r.dir, LeftOut: now.dirty}
	if o.Format, err = r.line(ctx, r.dir, "rev-parse", "--show-object-format"); err != nil {
		return o, err
	}
	shallow, err := os.ReadFile(filepath.Join(r.common, "shallow"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return o, err
	}
	o.Shallow = string(shallow)
	for key, to := range map[string]*string{"user.name": &o.Name, "user.email": &o.Email} {
		if *to, err = r.line(ctx, r.dir, "config", "--get", key); err != nil && status(err) != 1 {
			return o, err
		}
	}
	return o, nil
}

// Pack writes the objects of some commits that others do not have.
func (r *Repo) Pack(ctx context.Context, w io.Writer, commits, others []string) error {
	var revs strings.Builder
	for _, c := range commits {
		fmt.Fprintln(&revs, c)
	}
	for _, c := range others {
		fmt.Fprintln(&revs, "^"+c)
	}
	return r.pipe(ctx, strings.NewReader(revs.String()), w, "pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q")
}

// Unpack reads the objects that Pack wrote. With large, they stay in one pack.
func (r *Repo) Unpack(ctx context.Context, pack io.Reader, large bool) error {
	if large {
		return r.pipe(ctx, pack, io.Discard, "index-pack", "--stdin", "--fix-thin")
	}
	return r.pipe(ctx, pack, io.Discard, "unpack-objects", "-q")
}

// pipe runs a git command that reads from in and writes to out.
func (r *Repo) pipe(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append(slices.Clone(ourConfig), args...)...)
	var errOut bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.dir, r.env, in, out, &errOut
	detach(cmd)
	cmd.WaitDelay = 5 * time.Second
	r.started.Add(1)
	if err := cmd.Run(); err != nil {
		return &GitError{Args: args, Dir: r.dir, Stderr: errOut.String(), Err: errors.Join(ctx.Err(), err)}
	}
	return nil
}

// Clone makes a repository in a new directory from what Pack wrote of the commit o.Base,
// and checks that commit out. Nothing is synced: everything in the clone is also elsewhere,
// and the clone is lost with its machine.
func Clone(ctx context.Context, dir string, o Origin, pack io.Reader) (*Repo, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	r := &Repo{dir: dir, env: baseEnv()}
	if _, err := r.git(ctx, dir, "init", "--quiet", "--template=", "--object-format="+o.Format); err != nil {
		return nil, err
	}
	if o.Shallow != "" {
		if err := os.WriteFile(filepath.Join(dir, ".git", "shallow"), []byte(o.Shallow), 0o600); err != nil {
			return nil, err
		}
	}
	if err := r.Unpack(ctx, pack, true); err != nil {
		return nil, err
	}
	for key, value := range map[string]string{"user.name": o.Name, "user.email": o.Email} {
		if value == "" {
			continue
		}
		if _, err := r.git(ctx, dir, "config", key, value); err != nil {
			return nil, err
		}
	}
	if o.Branch != "" {
		if _, err := r.git(ctx, dir, "symbolic-ref", "HEAD", "refs/heads/"+o.Branch); err != nil {
			return nil, err
		}
		if _, err := r.git(ctx, dir, "reset", "--quiet", "--hard", o.Base); err != nil {
			return nil, err
		}
	} else if _, err := r.git(ctx, dir, "checkout", "--quiet", "--detach", o.Base, "--"); err != nil {
		return nil, err
	}
	work := filepath.Join(dir, filepath.FromSlash(o.Prefix))
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	return OpenClone(ctx, work)
}

// OpenClone opens the repository that Clone made, or the directory o.Prefix in it.
func OpenClone(ctx context.Context, dir string) (*Repo, error) {
	r, err := Open(ctx, dir)
	if err == nil {
		r.disks.sync = func(string) error { return nil }
	}
	return r, err
}
