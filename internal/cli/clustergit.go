package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/worktree"
)

// This file is about git for a run on many machines: the workers clone the repository as it is
// at the start, and at the end what they committed is merged there.

// isolateOn sets in the options how the items of a run are isolated, and returns the
// repository that the workers clone; nil if they need none.
func isolateOn(ctx context.Context, opt *engine.Options) (repo *worktree.Repo, err error) {
	if opt.Pipeline == nil {
		repo, err = gitwork.Repository(ctx, opt.File, cmp.Or(opt.Isolation, opt.File.Isolation, "auto"), opt.Dir)
	}
	opt.Isolation = "none"
	if repo != nil {
		opt.Isolation = "worktree"
	}
	return repo, err
}

// bring fetches the branches of a run on other machines into the repository of a directory, by
// default the one where the run was started. It returns false if there are none.
func bring(ctx context.Context, st *journal.Store, run, dir string) (bool, error) {
	shared, err := storeOf(st, run)
	if err != nil || !shared.HasGit() {
		return false, err
	}
	return shared.Bring(ctx, dir)
}

// storeOf opens a run in its store.
func storeOf(st *journal.Store, run string) (cluster.Shared, error) {
	place, err := cluster.Place(st.RunDir(run))
	if err != nil {
		return cluster.Shared{}, err
	}
	s, err := cluster.OpenStore(place.Store)
	return s.Run(run), err
}

// noteOn adds a note to a run on many machines that has ended.
func noteOn(st *journal.Store, run string, note event.Event) error {
	shared, err := storeOf(st, run)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	note.Time = time.Now()
	return shared.Tell("bide worktree merge on "+host+" "+rand.Text(), note.Time, note)
}

// landed fetches the work of a run that has ended into the repository where it was started,
// and merges it if the run asks for that. It only reports what prevents that: the result of
// the run stays the same.
func (f *runFlags) landed(ctx context.Context, o engine.Options, run string, sum *engine.Summary) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), landWait)
	defer cancel()
	say := func(format string, args ...any) {
		for _, s := range o.Sinks {
			s.Emit(event.Event{Type: event.Note, Time: time.Now(), Run: run, Message: fmt.Sprintf(format, args...)})
		}
	}
	with := "bide worktree merge " + run
	is, err := bring(ctx, o.Store, run, "")
	if err != nil {
		say("the work of the run is in the store, and not in a repository here: %v; in a clone of it: %s --path .", err, with)
		return
	}
	if !is || sum.MergeWith == "" || sum.Status != event.Succeeded && sum.Status != event.CompletedWithFailures {
		return
	}
	yes, dir, err := wantsMerge(o, run)
	if err == nil && !yes {
		return
	}
	if err == nil {
		_, err = f.had(ctx, run) // what is added to the run must come after its end
	}
	if err == nil {
		err = f.mergeOn(ctx, o.Store, run, dir, sum, say)
	}
	if err != nil {
		sum.MergeWith = cmp.Or(worktree.ByHand(err), with)
		say("not all work of the run is merged: %v; merge it with: %s", err, sum.MergeWith)
	}
}

// landWait is how long the merge at the end of a run may take.
const landWait = 10 * time.Minute

// wantsMerge reports whether to merge the work of a run without a question, and in which
// directory.
func wantsMerge(o engine.Options, run string) (yes bool, dir string, err error) {
	var began engine.Settings
	err = readRun(o.Store, run, func(r *journal.Reader) error {
		dir = r.Header().Dir
		return json.Unmarshal(r.Header().Options, &began)
	})
	return o.Yes || began.Yes, dir, err
}

// mergeOn merges the branch of a run. Uncommitted work of items stays in branches of its own,
// as on one machine.
func (f *runFlags) mergeOn(ctx context.Context, st *journal.Store, run, dir string, sum *engine.Summary, say func(string, ...any)) error {
	var items []journal.Result
	var done map[string]bool
	err := readRun(st, run, func(r *journal.Reader) (err error) {
		items, done, err = unmergedItems(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	var uncommitted error
	if n := len(items); n > 0 {
		uncommitted = fmt.Errorf("work of %s is in %s", diag.Count(n, "item"), diag.Plural(n, "a branch of its own", "branches of their own"))
	}
	out, err := mergeRun(ctx, dir, worktree.RunOptions{ID: run}, nil, done, nil, func(out *merged, wrong error) error {
		if out.Commits == 0 {
			return nil
		}
		return noteOn(st, run, *out.note(false, errors.Join(wrong, uncommitted)))
	})
	if out == nil || out.Commits == 0 {
		return err
	}
	say("merged %s into %s", diag.Count(out.Commits, "commit"), out.Into)
	if err = errors.Join(err, uncommitted); err == nil && sum.OnceMerged != "" {
		sum.Status, sum.MergeWith, sum.OnceMerged = sum.OnceMerged, "", ""
	}
	return err
}
