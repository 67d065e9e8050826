package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// LateMerge holds a merge of a run's work that is made after the run has ended against what
// the run's file says that a merge must pass: the verify of its merge queue.
type LateMerge struct {
	j   *journal.Journal
	opt Options
	err error // why the file cannot be had
}

// MergeLate looks what a merge of a run's work must pass; nil where that is nothing.
func MergeLate(ctx context.Context, j *journal.Journal, opt Options) (*LateMerge, error) {
	h := j.Header()
	if h.Kind != workflow.MapReduce.String() {
		return nil, nil
	}
	l := &LateMerge{j: j}
	st, err := j.State(ctx)
	if err != nil {
		return nil, err
	}
	opt.Force, opt.AsRecorded = st.FileChanged, !st.FileChanged
	if l.opt, l.err = recordedOptions(j, opt); l.err == nil {
		if l.opt.File.Queue == nil {
			return nil, nil
		}
		return l, nil
	}
	// The recorded text says whether there is a queue, if not how its verify runs.
	if f, problems := workflow.Load(h.Path, workflow.Options{ReadFile: recordedText(h)}); problems.Err() == nil && f != nil && f.Queue == nil {
		return nil, nil
	}
	return l, nil
}

// Verified reports whether it is on record that the verify passed on a tree, when it ran on
// it last.
func (l *LateMerge) Verified(ctx context.Context, tree string) (green bool, err error) {
	for e, err := range l.j.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.MergeVerified}}) {
		if err != nil {
			return false, err
		}
		var v mapper.Verified
		if json.Unmarshal(e.Data, &v) == nil && v.Tree == tree {
			green = e.Status == event.Succeeded
		}
	}
	return green, nil
}

// Verify is what the end of the run does before its merge: the verify runs on the merge, in a
// worktree of the run, and is recorded. The error is a *[worktree.CannotMerge] where it
// fails, or cannot run.
func (l *LateMerge) Verify(ctx context.Context, repo *worktree.Repo, of *worktree.Run, commit, tree string) (err error) {
	defer func() {
		if err != nil && ctx.Err() == nil && !errors.As(err, new(*worktree.CannotMerge)) {
			err = &worktree.CannotMerge{Why: fmt.Sprintf("the verify of its merge queue did not run: %v", err), Command: of.MergeCommand()}
		}
	}()
	if l.err != nil {
		return l.err
	}
	opt := l.opt
	if err := fill(&opt); err != nil {
		return err
	}
	st, err := l.j.State(ctx)
	if err != nil {
		return err
	}
	sup, err := proc.New(l.j.ProcDir(), proc.Options{NoCompanion: NoCompanion})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sup.Close()) }()
	r := &run{opt: opt, file: opt.File, j: l.j, state: st, started: time.Now()}
	defer r.local(sup)()
	if err := r.loadEnv(ctx); err != nil {
		return err
	}
	r.gitWork = r.work()
	r.gitWork.Repo, r.gitWork.Tree = repo, of
	r.x.Git = &step.Git{Repo: repo, State: r.gitWork.Asked().State}
	if err := r.moveIn(ctx); err != nil {
		return err
	}
	p := r.place()
	if st.Phases["setup"].Ended() && r.file.Setup != nil { // it runs nothing again, and the verify may read what it has set
		if err := r.setup(ctx, p); err != nil {
			return err
		}
	}
	p.Phase, r.tally.Items.Total = "map", st.Items.Counts().Total
	if _, err := r.newMap(ctx, p); err != nil {
		return err
	}
	return r.gitWork.Verify(ctx, commit, tree)
}
