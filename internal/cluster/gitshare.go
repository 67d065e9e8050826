package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/worktree"
)

// digested counts the bytes that are read from it or written to it, and makes their digest.
type digested struct {
	io.Reader
	hash hash.Hash
	read int64
}

func newDigested(r io.Reader) *digested { return &digested{Reader: r, hash: sha256.New()} }

func (d *digested) Read(b []byte) (int, error) {
	n, err := d.Reader.Read(b)
	d.Write(b[:n])
	return n, err
}

func (d *digested) Write(b []byte) (int, error) {
	d.read += int64(len(b))
	return d.hash.Write(b)
}

func (d *digested) sum() string { return hex.EncodeToString(d.hash.Sum(nil)) }

// PutGit begins the chain of a run, with the repository from which the run starts.
func (r Shared) PutGit(ctx context.Context, repo *worktree.Repo) error {
	o, err := repo.Origin(ctx)
	if err != nil {
		return err
	}
	pack, err := newPacked(func(w io.Writer) error { return repo.Pack(ctx, w, []string{o.Base}, nil) })
	if err != nil {
		return fmt.Errorf("pack the repository %s: %w", repo.Dir(), err)
	}
	err = r.putGit(gitEntry{Seq: 1, Kind: gitOrigin, Origin: &o, Tip: o.Base, Size: pack.size, Digest: pack.digest}, pack)
	return errors.Join(err, pack.drop())
}

// gitCopy is the chain of a run as a repository of this machine has it.
type gitCopy struct {
	shared Shared
	repo   *worktree.Repo
	origin worktree.Origin
	seq    int
	// standing is the state of the run, and base the commits that each reader of the next
	// entry has.
	standing worktree.Standing
	begun    bool              // work of the run has begun
	merged   map[int]gitEntry  // by item
	kept     map[string]string // branches of items
	closed   map[string]bool   // logs
	life     int               // the last one that has begun
}

// take takes over an entry. The objects of the entry are in the repository.
func (c *gitCopy) take(e gitEntry) {
	c.seq, c.life = e.Seq, max(c.life, e.Life)
	s := &c.standing
	switch e.Kind {
	case gitOrigin:
		s.Base, s.Tip, s.Target = e.Tip, e.Tip, e.Origin.Branch
	case gitClosed:
		c.closed[e.Log] = true
	case gitStanding:
		c.begun = true
		s.Tip, s.Head, s.Snapshot, s.Moves = e.Tip, e.Tip, e.Snapshot, nil
		s.Marks = append(s.Marks, worktree.Mark{Commit: e.Tip, Step: e.Step})
	case gitMerged:
		c.begun = true
		s.Moves = append(s.Moves, worktree.Move{From: s.Tip, To: e.Tip, Gone: e.Gone})
		s.Tip, s.Merged, c.merged[e.Item] = e.Tip, e.Tip, e
		if n := len(s.Marks); n > 0 && s.Marks[n-1].Step == "" {
			s.Marks = s.Marks[:n-1]
		}
		s.Marks = append(s.Marks, worktree.Mark{Commit: e.Tip})
	case gitKept:
		c.kept[e.Branch] = e.Commit
	}
}

func newGitCopy(shared Shared) *gitCopy {
	return &gitCopy{shared: shared, merged: map[int]gitEntry{}, kept: map[string]string{}, closed: map[string]bool{}}
}

// read takes over all entries. first opens the repository, with the pack of the first
// entry.
func (c *gitCopy) read(ctx context.Context, first func(o worktree.Origin, pack io.Reader) (*worktree.Repo, error)) error {
	return c.shared.gitEntries(c.seq, func(e gitEntry, pack io.Reader) (err error) {
		switch {
		case e.Kind == gitOrigin:
			c.origin = *e.Origin
			c.repo, err = first(c.origin, pack)
		case e.Size > 0:
			err = c.repo.Unpack(ctx, pack, false)
		}
		if err == nil {
			c.take(e)
		}
		return err
	})
}

// clone makes a clone in a directory, with the run as it is now, and gives the directory to
// work in.
func (c *gitCopy) clone(ctx context.Context, dir string) (string, error) {
	err := c.read(ctx, func(o worktree.Origin, pack io.Reader) (*worktree.Repo, error) {
		return worktree.Clone(ctx, dir, o, pack)
	})
	if err == nil && c.begun {
		err = c.repo.Carry(ctx, c.shared.run, c.standing)
	}
	for branch, commit := range c.kept {
		if err == nil {
			err = c.repo.Name(ctx, branch, commit)
		}
	}
	if err != nil {
		return "", fmt.Errorf("clone the repository of the run: %w", err)
	}
	return filepath.Join(dir, filepath.FromSlash(c.origin.Prefix)), nil
}

// gitShare is the chain as workers use it in a clone. It implements gitwork.Shared.
type gitShare struct {
	*gitCopy
	mine int // the life of these workers
	log  func(item int) *writer
	all  func() []*writer
	run  *worktree.Run
}

// Share is called once, with the run in the clone.
func (g *gitShare) Share(run *worktree.Run) {
	g.run = run
	run.Share(g.origin.Dir, g.pull)
}

// LeftOut are the files that were uncommitted where the run was started.
func (g *gitShare) LeftOut() []string { return g.origin.LeftOut }

// pull takes over what other machines have added. The caller makes no merge at that time.
func (g *gitShare) pull(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // taken over in part, the run here would differ from the chain
	err := g.shared.gitEntries(g.seq, func(e gitEntry, pack io.Reader) error {
		if e.Size > 0 {
			if err := g.repo.Unpack(ctx, pack, false); err != nil {
				return err
			}
		}
		if e.Kind == gitMerged {
			if err := g.run.Advance(ctx, worktree.Move{From: g.standing.Tip, To: e.Tip, Gone: e.Gone}); err != nil {
				return err
			}
		}
		g.take(e)
		return nil
	})
	if err == nil && g.life > g.mine {
		err = &SupersededError{g.shared.run, g.mine, g.life}
	}
	if err != nil {
		err = g.fail(fmt.Errorf("what other machines have merged cannot be taken over: %w", err))
	}
	return err
}

// fail makes the workers of the clone record nothing more.
func (g *gitShare) fail(err error) error {
	for _, w := range g.all() {
		w.fail(err)
	}
	return err
}

// add adds an entry for a log. The caller makes no merge at that time. ErrMoved says that
// another machine was first.
func (g *gitShare) add(ctx context.Context, log *writer, e gitEntry, commits ...string) (err error) {
	if log == nil {
		return errors.New("nobody who may add to the work of the run is at work here")
	}
	defer func() {
		if err != nil && !errors.Is(err, worktree.ErrMoved) {
			log.fail(err)
		}
	}()
	if g.closed[log.name] {
		return fmt.Errorf("the log %s is over: other machines have its items now", log.name)
	}
	e.Seq, e.Life, e.Log = g.seq+1, g.mine, log.name
	pack, err := newPacked(func(w io.Writer) error {
		return g.repo.Pack(ctx, w, commits, []string{g.standing.Base, g.standing.Tip})
	})
	if err != nil {
		return err
	}
	e.Size, e.Digest = pack.size, pack.digest
	err = g.shared.putGit(e, pack)
	err = errors.Join(err, pack.drop())
	switch {
	case errors.Is(err, fs.ErrExist):
		var have gitEntry
		if err := g.shared.gitEntry(e.Seq, func(h gitEntry, _ io.Reader) error { have = h; return nil }); err != nil {
			return err
		}
		if have != e { // otherwise an earlier call that failed has made it
			return worktree.ErrMoved
		}
	case err != nil:
		return storeError{err}
	}
	g.take(e)
	return nil
}

// Merge adds the merge of an item. checked may be a commit on top of files that are
// uncommitted in the run's worktree, and so in no merge.
func (g *gitShare) Merge(ctx context.Context, index, attempt int, m worktree.Move, checked string) error {
	if m.From != g.standing.Tip {
		return g.fail(fmt.Errorf("a merge of item %d is upon %s, and the run's branch is at %s", index, m.From, g.standing.Tip))
	}
	if have, is := g.merged[index]; is {
		return g.fail(fmt.Errorf("item %d is merged already, by attempt %d", index, have.Attempt))
	}
	return g.add(ctx, g.log(index), gitEntry{Kind: gitMerged, Item: index, Attempt: attempt, Tip: m.To, Gone: m.Gone}, m.To, cmp.Or(checked, m.To))
}

// untilAdded adds an entry, after all that other machines add in the meantime.
func (g *gitShare) untilAdded(ctx context.Context, add func() error) error {
	for {
		err := g.run.Alone(ctx, func() error {
			if err := g.pull(ctx); err != nil {
				return err
			}
			return add()
		})
		if !errors.Is(err, worktree.ErrMoved) {
			return err
		}
	}
}

// Standing adds the state of the run's own worktree.
func (g *gitShare) Standing(ctx context.Context, step string) error {
	tip, snapshot, err := g.run.Standing(ctx)
	if err != nil {
		return err
	}
	return g.untilAdded(ctx, func() error {
		return g.add(ctx, g.log(0), gitEntry{Kind: gitStanding, Tip: tip, Snapshot: snapshot, Step: step}, tip, snapshot)
	})
}

// Keep adds a branch of an item with work that is not merged.
func (g *gitShare) Keep(ctx context.Context, index int, branch, commit string) error {
	return g.untilAdded(ctx, func() error {
		if g.kept[branch] == commit {
			return nil
		}
		return g.add(ctx, g.log(index), gitEntry{Kind: gitKept, Branch: branch, Commit: commit}, commit)
	})
}

// Merged gives the record of the merge of an item, if some machine has made it. The record
// is in the log of that machine, perhaps after what was accepted of the log.
func (g *gitShare) Merged(ctx context.Context, index int) (*gitwork.MergeRecord, error) {
	var e gitEntry
	err := g.run.Alone(ctx, func() error {
		err := g.pull(ctx)
		e = g.merged[index]
		return err
	})
	if err != nil || e.Item == 0 {
		return nil, err
	}
	var m *gitwork.MergeRecord
	_, err = g.shared.readLog(e.Log, 0, -1, func(text []byte, _ int64) error {
		facts, err := eventsOf(text)
		for _, f := range facts {
			if f.Type == event.ItemMerging && f.Index == index && f.Attempt == e.Attempt {
				m = new(gitwork.MergeRecord)
				err = errors.Join(err, json.Unmarshal(f.Data, m))
			}
		}
		return err
	})
	if err == nil && m == nil {
		err = fmt.Errorf("item %d is merged, and the log %s does not say so", index, e.Log)
	}
	return m, err
}

// Bring sets up the branches of a run in a repository, so that a person can merge them.
// With an empty directory, it uses the repository in which the run was started. It is false
// if there are none because nothing was committed.
func (r Shared) Bring(ctx context.Context, dir string) (brought bool, err error) {
	c := newGitCopy(r)
	err = c.read(ctx, func(o worktree.Origin, pack io.Reader) (*worktree.Repo, error) {
		if dir == "" {
			dir = o.Dir
		}
		repo, err := worktree.Open(ctx, dir)
		if err != nil {
			return nil, err
		}
		has, err := repo.Has(ctx, o.Base)
		if err == nil && !has {
			err = fmt.Errorf("%s does not have the commit %s, from which the run started", repo.Dir(), o.Base)
		}
		return repo, err
	})
	if c.standing.Tip == c.standing.Base {
		c.standing.Tip = "" // only items have branches
	}
	if err == nil && (c.standing.Tip != "" || len(c.kept) > 0) {
		brought, err = true, c.repo.Bring(ctx, r.run, c.standing)
	}
	for branch, commit := range c.kept {
		if err == nil {
			brought, err = true, c.repo.Name(ctx, branch, commit)
		}
	}
	return brought, err
}
