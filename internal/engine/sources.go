package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
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
		return fmt.Sprintf("%s has changed since the run began:\n%s\nits secrets are not recorded, so that it cannot be used as it was: put it back, or leave out --as-recorded", files.Below(e.Path), e.Diff)
	}
	return fmt.Sprintf("%s has changed since the run began:\n%s\nto continue with the file as it is now, add --force", files.Below(e.Path), e.Diff)
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
	p, problems := dataflow.Load(shownPath(h, opt), opt.Manifest, read)
	return p, problems.Err()
}

// recordedFile is the file that a run continues with: as it was recorded or, with
// Force, as it is now.
func recordedFile(h journal.Header, opt Options) (*workflow.File, error) {
	read, err := sources(h, opt)
	if err != nil {
		return nil, err
	}
	f, problems := workflow.Load(shownPath(h, opt), workflow.Options{Params: opt.Params, ParamFile: opt.ParamFile, Profile: opt.Profile, ReadFile: read})
	return f, errOf(f, problems)
}

// shownPath is the name by which messages of a resumed run call its file: as from the working
// directory, like those of the first process. A part of a run on another machine has the name
// that is recorded.
func shownPath(h journal.Header, opt Options) string {
	if opt.Part != nil {
		return h.Path
	}
	return files.Below(h.Path)
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
	return recordedText(h), nil
}

// recordedText reads files as a run has recorded them.
func recordedText(h journal.Header) func(path string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		if path == h.Path || files.Absolute(path) == h.Path {
			return h.Source, nil
		}
		for _, name := range []string{files.Absolute(path), path} { // older records have paths as they were written
			if b, ok := h.Others[name]; ok {
				return b, nil
			}
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
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

// hiddenSources is sources of a run whose recorded texts are without secrets.
func hiddenSources(h journal.Header, opt Options) (func(path string) ([]byte, error), error) {
	read := func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; secrets stand in the texts of this run, which are therefore not recorded whole: put the file back where it was, or write secrets as ${env:NAME}", err)
		}
		return text, err
	}
	if _, err := read(h.Path); err != nil {
		return nil, err
	}
	if opt.Part == nil && !opt.Force {
		f, problems := workflow.Load(h.Path, workflow.Options{Params: opt.Params, ParamFile: opt.ParamFile, Profile: opt.Profile, ReadFile: read})
		if err := errOf(f, problems); err != nil {
			return nil, err // and what changed is not shown: its secrets are not known
		}
		if path, changed := changedFile(h, literals(f)); changed != "" {
			return nil, &ChangedError{Path: path, Diff: changed, AsRecorded: opt.AsRecorded}
		}
	}
	return read, nil
}
