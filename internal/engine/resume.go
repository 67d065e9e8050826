package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/workflow"
)

// ChangedError says that a workflow file is no longer what the run was started
// with.
type ChangedError struct {
	Path string
	Diff string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s has changed since the run began:\n%s\nto go on with the file as it is now, resume with --force", e.Path, e.Diff)
}

// FinishedError says that there is nothing to go on with.
type FinishedError struct{ Run, Status string }

func (e *FinishedError) Error() string {
	return fmt.Sprintf("run %s has ended (%s): there is nothing to resume", e.Run, e.Status)
}

// Resume goes on with an interrupted or failed run; id "" is the last one.
// opt.File is not used: the file is the recorded one, or with Force the present
// one.
func Resume(ctx context.Context, id string, opt Options) (*Summary, error) {
	return reopen(ctx, id, opt, func(j *journal.Journal, st *journal.State, left int) (bool, error) {
		if left > 0 || st.Items.Counts().Pending > 0 {
			return false, nil // dead letters wait to be run again
		}
		if st.Status == event.Succeeded || st.Status == event.CompletedWithFailures {
			return false, &FinishedError{j.Run(), st.Status}
		}
		return false, nil
	})
}

// reopen opens a run, lets change (which may be nil) look at it or add to it,
// and executes it. change reports whether it added something: the events of a
// large run are not folded twice for nothing. change is told how many dead letters a request that was
// left has just requeued.
func reopen(ctx context.Context, id string, opt Options, change func(j *journal.Journal, st *journal.State, left int) (added bool, err error)) (_ *Summary, err error) {
	j, err := opt.Store.Open(id)
	if err != nil {
		return nil, err
	}
	owned := true
	defer func() {
		if owned {
			err = errors.Join(err, j.Close())
		}
	}()
	left, err := leftRetries(ctx, j)
	if err != nil {
		return nil, err
	}
	st, err := j.State(ctx)
	if err != nil {
		return nil, err
	}
	if change != nil {
		added, err := change(j, st, left)
		if err != nil {
			return nil, err
		}
		if added {
			if st, err = j.State(ctx); err != nil {
				return nil, err
			}
		}
	}
	if opt, err = recordedOptions(j, opt); err != nil {
		return nil, err
	}
	if err := fill(&opt); err != nil {
		return nil, err
	}
	if err := preflight(opt); err != nil {
		return nil, err
	}
	if n, err := proc.ReapOrphans(j.ProcDir()); err != nil {
		return nil, fmt.Errorf("processes of the run's former life: %w", err)
	} else if n > 0 {
		if err := j.Append(event.Event{Type: event.Note, Message: fmt.Sprintf("%d processes of the run's former life were ended", n)}); err != nil {
			return nil, err
		}
	}
	owned = false
	return execute(ctx, opt, j, st)
}

// recordedOptions takes the settings and the file that the run was started
// with. Settings given anew win where they are set.
func recordedOptions(j *journal.Journal, opt Options) (Options, error) {
	h := j.Header()
	var old Settings
	if err := json.Unmarshal(h.Options, &old); err != nil {
		return opt, fmt.Errorf("the recorded options of run %s: %w", j.Run(), err)
	}
	now := opt.Settings
	opt.Settings = old
	if now.MaxParallel > 0 {
		opt.MaxParallel = now.MaxParallel
	}
	opt.Yes = old.Yes || now.Yes
	opt.AllowFailedItems = old.AllowFailedItems || now.AllowFailedItems
	var err error
	if h.Kind == workflow.Dataflow.String() {
		if opt.Pipeline, err = recordedPipeline(h, opt); err == nil {
			opt.File = opt.Pipeline.asFile()
		}
		return opt, err
	}
	opt.File, err = recordedFile(h, opt)
	return opt, err
}

// recordedPipeline is recordedFile for a pipeline and its manifest.
func recordedPipeline(h journal.Header, opt Options) (*Pipeline, error) {
	path, changed := changedFile(h)
	if changed != "" && !opt.Force {
		return nil, &ChangedError{Path: path, Diff: changed}
	}
	read := os.ReadFile
	if changed == "" {
		read = func(path string) ([]byte, error) {
			if path == h.Path {
				return h.Source, nil
			}
			if b, ok := h.Others[absolute(path)]; ok {
				return b, nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
	}
	p, problems := LoadPipeline(h.Path, opt.Manifest, read)
	return p, problems.Err()
}

func recordedFile(h journal.Header, opt Options) (*workflow.File, error) {
	lo := workflow.Options{Params: opt.Params, ParamFile: opt.ParamFile, Profile: opt.Profile}
	changed := changes(h)
	if changed != "" && !opt.Force {
		return nil, &ChangedError{Path: h.Path, Diff: changed}
	}
	if !opt.Force || changed == "" {
		lo.ReadFile = func(path string) ([]byte, error) {
			if b, ok := h.Others[path]; ok {
				return b, nil
			}
			return os.ReadFile(path)
		}
		f, problems := workflow.Parse(h.Path, h.Source, lo)
		return f, errOf(f, problems)
	}
	f, problems := workflow.Load(h.Path, lo)
	return f, errOf(f, problems)
}

func errOf(f *workflow.File, problems diag.List) error {
	if err := problems.Err(); err != nil {
		return err
	}
	if f == nil {
		return errors.New("the workflow file could not be read")
	}
	return nil
}

// changes shows how the file differs from the recorded one; "" where it does
// not, and where it is gone: then the recorded one is used.
func changes(h journal.Header) string {
	now, err := os.ReadFile(h.Path)
	if err != nil || string(now) == string(h.Source) {
		return ""
	}
	return lineDiff(string(h.Source), string(now))
}

// changedFile gives the first file of a pipeline that is not as it was recorded,
// and how it differs: its manifest is as much a part of it as its own text.
func changedFile(h journal.Header) (path, diff string) {
	if diff = changes(h); diff != "" {
		return h.Path, diff
	}
	for _, path := range slices.Sorted(maps.Keys(h.Others)) {
		if diff = changes(journal.Header{Path: path, Source: h.Others[path]}); diff != "" {
			return path, diff
		}
	}
	return "", ""
}

// lineDiff shows what changed between two texts: the lines between their
// common beginning and their common end, at most 20 of each.
func lineDiff(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	from := 0
	for from < len(x) && from < len(y) && x[from] == y[from] {
		from++
	}
	ex, ey := len(x), len(y)
	for ex > from && ey > from && x[ex-1] == y[ey-1] {
		ex, ey = ex-1, ey-1
	}
	var out strings.Builder
	fmt.Fprintf(&out, "@@ line %d @@", from+1)
	show := func(sign string, lines []string) {
		for i, l := range lines {
			if i == 20 {
				fmt.Fprintf(&out, "\n%s … %d lines more", sign, len(lines)-i)
				break
			}
			fmt.Fprintf(&out, "\n%s %s", sign, l)
		}
	}
	show("-", x[from:ex])
	show("+", y[from:ey])
	return out.String()
}

// restore takes over what an earlier life recorded beside steps and items.
func (r *run) restore() {
	if u := r.state.Usage; len(u) > 0 {
		r.usage.u = Usage{InputTokens: int64(u["input_tokens"]), OutputTokens: int64(u["output_tokens"]),
			CacheTokens: int64(u["cache_tokens"]), CostUSD: u["cost_usd"], Calls: int(u["calls"])}
		r.overBudget(r.usage.u)
	}
	if until := r.state.PausedUntil; time.Until(until) > 0 {
		r.agents.until = until
	}
}
