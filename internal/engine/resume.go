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

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// ChangedError says that a workflow file is no longer what the run was started
// with.
type ChangedError struct {
	Path string
	Diff string
	// AsRecorded: the file was asked for as it was, which is not on record.
	AsRecorded bool
}

func (e *ChangedError) Error() string {
	if e.AsRecorded {
		return fmt.Sprintf("%s has changed since the run began:\n%s\nits secrets are not recorded, so that it cannot be used as it was: put it back, or leave out --as-recorded", e.Path, e.Diff)
	}
	return fmt.Sprintf("%s has changed since the run began:\n%s\nto continue with the file as it is now, resume with --force", e.Path, e.Diff)
}

// FinishedError says that there is nothing to go on with. The summary that comes
// with it says how the run ended: a process that was killed just after it had
// recorded that may have told nobody.
type FinishedError struct{ Run, Status string }

func (e *FinishedError) Error() string {
	return fmt.Sprintf("run %s has ended (%s): there is nothing to resume", e.Run, e.Status)
}

// Resume goes on with an interrupted or failed run; id "" is the last one.
// opt.File is not used: the file is the recorded one, or with Force the present
// one.
func Resume(ctx context.Context, id string, opt Options) (*Summary, error) {
	var ended *Summary
	sum, err := reopen(ctx, id, opt, func(j *journal.Journal, st *journal.State, left int) (func() error, error) {
		if left > 0 || st.Items.Counts().Pending > 0 {
			return nil, nil // dead letters wait to be run again
		}
		if st.Status != event.Succeeded && st.Status != event.CompletedWithFailures {
			return nil, nil
		}
		var err error
		if ended, err = lastSummary(ctx, opt, &j.Reader); err != nil {
			return nil, err
		}
		return nil, &FinishedError{j.Run(), st.Status}
	})
	if errors.As(err, new(*FinishedError)) {
		return ended, err
	}
	return sum, err
}

// lastSummary is the summary with which a run ended last; those who watch are
// told of that end again.
func lastSummary(ctx context.Context, opt Options, r *journal.Reader) (*Summary, error) {
	var last event.Event
	for e, err := range r.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.RunFinished}}) {
		if err != nil {
			return nil, err
		}
		last = e
	}
	for _, s := range opt.Sinks {
		s.Emit(last)
	}
	return summaryOf(opt, r, last)
}

// reopen opens a run, lets change (which may be nil) look at it, and executes it.
// change gives what adds to the journal, nil for nothing: it is called when nothing
// is left that could refuse the run, as one that does not go on stays as it is.
// change is told how many dead letters a request that was left has just requeued.
func reopen(ctx context.Context, id string, opt Options, change func(j *journal.Journal, st *journal.State, left int) (add func() error, err error)) (_ *Summary, err error) {
	open := opt.Store.Open
	if opt.Part != nil {
		open = opt.Store.OpenCopy
	}
	j, err := open(id)
	if err != nil {
		return nil, err
	}
	owned := true
	defer func() {
		if owned {
			err = errors.Join(err, j.Close())
		}
	}()
	left, err := letters.Left(ctx, j, func(edited map[int]json.RawMessage) (map[int]json.RawMessage, error) {
		return sealEdited(ctx, j, opt, edited)
	})
	if err != nil {
		return nil, err
	}
	st, err := j.State(ctx)
	if err != nil {
		return nil, err
	}
	var add func() error
	if change != nil {
		if add, err = change(j, st, left); err != nil {
			return nil, err
		}
	}
	parallel := opt.MaxParallel
	if opt, err = recordedOptions(j, opt); err != nil {
		return nil, err
	}
	if err := fill(&opt); err != nil {
		return nil, err
	}
	if err := preflight(opt); err != nil {
		return nil, err
	}
	if add != nil { // the events of a large run are not folded twice for nothing
		if err := errors.Join(add(), j.Sync(ctx)); err != nil {
			return nil, err
		}
		if st, err = j.State(ctx); err != nil {
			return nil, err
		}
	}
	if opt.Part == nil {
		again, err := unsound(ctx, j, st)
		if err != nil {
			return nil, err
		}
		if len(again) > 0 {
			if err := errors.Join(j.RecordAll(again), j.Sync(ctx)); err != nil {
				return nil, err
			}
			if st, err = j.State(ctx); err != nil {
				return nil, err
			}
		}
	}
	if parallel > 0 { // what is said now is the newer word
		st.Parallel = 0
	}
	if opt.Part == nil {
		if err := items.DropInputs(j.Dir()); err != nil {
			return nil, err
		}
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
	if err := old.withhold(j.Run(), now.Params); err != nil {
		return opt, err
	}
	opt.Settings = old
	if now.MaxParallel > 0 {
		opt.MaxParallel = now.MaxParallel
	}
	opt.Yes = old.Yes || now.Yes
	opt.AllowRedBase = old.AllowRedBase || now.AllowRedBase
	opt.AllowFailedItems = old.AllowFailedItems || now.AllowFailedItems
	opt.SkipPermissions = old.SkipPermissions || now.SkipPermissions
	if len(now.FailOn) > 0 {
		opt.FailOn = now.FailOn
	}
	var err error
	if h.Kind == workflow.Dataflow.String() {
		if opt.Pipeline, err = recordedPipeline(h, opt); err == nil {
			opt.File = opt.Pipeline.AsFile()
		}
		return opt, err
	}
	opt.File, err = recordedFile(h, opt)
	return opt, err
}

// recordedPipeline is recordedFile for a pipeline and its manifest.
func recordedPipeline(h journal.Header, opt Options) (*dataflow.Pipeline, error) {
	read, err := sources(h, opt)
	if err != nil {
		return nil, err
	}
	p, problems := dataflow.Load(h.Path, opt.Manifest, read)
	return p, problems.Err()
}

// recordedFile is the file that a run goes on with: as it was recorded or, with
// Force, as it is now.
func recordedFile(h journal.Header, opt Options) (*workflow.File, error) {
	read, err := sources(h, opt)
	if err != nil {
		return nil, err
	}
	f, problems := workflow.Load(h.Path, workflow.Options{Params: opt.Params, ParamFile: opt.ParamFile, Profile: opt.Profile, ReadFile: read})
	return f, errOf(f, problems)
}

// sources says what the file of a run and those that it is composed with are
// read with: the recorded texts or, with Force, the present ones. Texts that
// changed are an error without Force.
func sources(h journal.Header, opt Options) (func(path string) ([]byte, error), error) {
	if opt.Hidden {
		return hiddenSources(h, opt)
	}
	path, changed := changedFile(h, nil)
	if opt.Part != nil || opt.AsRecorded {
		changed = ""
	}
	switch {
	case changed != "" && !opt.Force:
		return nil, &ChangedError{Path: path, Diff: changed}
	case changed != "":
		return os.ReadFile, nil
	}
	return func(path string) ([]byte, error) {
		if path == h.Path {
			return h.Source, nil
		}
		for _, name := range []string{files.Absolute(path), path} { // older records have paths as they were written
			if b, ok := h.Others[name]; ok {
				return b, nil
			}
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}, nil
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
func changes(h journal.Header, m *mask.Masker) string {
	now, err := os.ReadFile(h.Path)
	now = hide(m, now)
	if err != nil || string(now) == string(h.Source) {
		return ""
	}
	return lineDiff(string(h.Source), string(now))
}

// changedFile gives the first file of a run that is not as it was recorded, and
// how it differs: an import or a manifest is as much a part of it as its own text.
func changedFile(h journal.Header, m *mask.Masker) (path, diff string) {
	if diff = changes(h, m); diff != "" {
		return h.Path, diff
	}
	for _, path := range slices.Sorted(maps.Keys(h.Others)) {
		if diff = changes(journal.Header{Path: path, Source: h.Others[path]}, m); diff != "" {
			return path, diff
		}
	}
	return "", ""
}

// maxChanged is how many lines of what a file was changed by are shown.
const maxChanged = 40

// lineDiff shows what changed between two texts.
func lineDiff(a, b string) string {
	lines := diag.Diff(a, b)
	more := len(lines) - maxChanged
	if more > 0 {
		lines = lines[:maxChanged]
	}
	text := value.Map(lines, func(l diag.DiffLine) string {
		if l.Sign == '@' {
			return "@@ " + l.Text + " @@"
		}
		return string(l.Sign) + " " + l.Text
	})
	if more > 0 {
		text = append(text, "@@ "+diag.Count(more, "line")+" more @@")
	}
	return strings.Join(text, "\n")
}

// restore takes over what an earlier life recorded beside steps and items.
func (r *run) restore() {
	u, now := r.state.Usage, r.x.Clock.Now()
	pause := r.state.Pause.Resumed(now)
	if idle := now.Sub(pause.Until); pause.Streak > 0 && idle > 0 {
		pause.Since = pause.Since.Add(idle) // nobody waited for the limit: that is nothing of max_wait
	}
	r.x.Agents.Restore(step.Usage{InputTokens: int64(u["input_tokens"]), OutputTokens: int64(u["output_tokens"]),
		CacheTokens: int64(u["cache_tokens"]), OtherTokens: int64(u["other_tokens"]), CostUSD: u["cost_usd"], Calls: int(u["calls"])}, pause)
	for name, p := range r.state.AgentPauses {
		r.x.Agents.RestoreMember(name, p, now)
	}
	if left := pause.Until.Sub(now); left > 0 {
		r.note("agents wait %s more for the end of the rate limit that the run has met; to ask them now: bide control %s retry-now", duration.Format(left.Round(time.Second)), r.j.Run())
	}
	r.control.Keep(r.x, r.state, r.opt.Part != nil)
	if spent := r.x.Agents.Spent(); spent != nil {
		r.x.Life.Halt(spent)
	}
}
