package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/local"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// Options is what a run is started with. What is recorded and used again by a
// resume is in [Settings].
type Options struct {
	Settings
	Store *journal.Store
	File  *workflow.File
	// Pipeline is what is run instead of File.
	Pipeline *dataflow.Pipeline

	// Sinks get every event after it is recorded, secrets masked, in order.
	Sinks []event.Sink
	// Tracing joins the run to a trace; nil: none.
	Tracing local.Tracing
	// Soft, when it is done, stops the start of new work: what runs has Grace
	// to end. The context given to Run ends everything at once. nil: never.
	Soft context.Context
	// Grace is the time that running steps have after Soft; 0 means 10 s.
	Grace time.Duration
	// Ask puts a yes-or-no question to a person; nil where nobody is there.
	Ask func(question string) bool
	// Terminal lends the terminal that the run is on to a step that is alone on
	// it; nil: there is none. The step's output goes there too unless it is read.
	Terminal func(read bool) (*local.Lent, error)
	// Commands is told how the run's commands are stopped while a function runs;
	// the time counts for no timeout of theirs. nil: nobody stops them.
	Commands func(suspend func(stop func()))
	// Journaled is told how to wait until an event, by its number, would outlive a kill of
	// this process: sinks are told of it before. nil: nobody waits.
	Journaled func(written func(seq int64) error)
	// Environ is the inherited environment; nil means os.Environ().
	Environ []string
	HTTP    *http.Client
	// Force continues with a run whose file has changed.
	Force bool
	// AsRecorded continues with the file as it was, although it has changed.
	AsRecorded bool

	// Part, if not nil, says that this process does a part of the run only.
	Part *Part

	// Composed, if not nil, is shown the executor before the first step runs.
	Composed func(*step.Executor)
}

// pipelines are all that a run can be known to have: its own, those of its steps,
// and those of steps in workflows that they call.
func (o *Options) pipelines() *dataflow.Steps {
	all := dataflow.LoadSteps(o.File, o.Dir)
	if o.Pipeline != nil {
		all.Add(o.Pipeline)
	}
	return all
}

// DefaultGrace is how long running steps have after the first interrupt.
const DefaultGrace = 10 * time.Second

// ErrInterrupted is the cause of a run that was stopped from outside and can
// be resumed.
var ErrInterrupted = step.ErrInterrupted

// Label is what a person knows a step by: its name, its id, or its text.
func Label(s *workflow.Step) string { return s.Label() }

// header is what is recorded of a run before its first event.
func (opt *Options) header() (journal.Header, error) {
	m := literals(opt.File)
	opt.Hidden = m.Active()
	if workflow.FindsWidth(opt.File) {
		opt.Processors = runtime.GOMAXPROCS(0)
	}
	recorded := opt.recorded(opt.File)
	settings, err := json.Marshal(recorded)
	if err != nil {
		return journal.Header{}, err
	}
	params, err := recorded.given()
	return journal.Header{
		Name: opt.File.Name, Path: files.Absolute(opt.File.Path), Kind: opt.File.Kind.String(), Dir: opt.Dir,
		Source: hide(m, opt.File.Source), Others: absolutes(m, opt.File.Others), Params: params, Options: settings,
		Started: time.Now(), BideVersion: opt.Version,
	}, err
}

// absolutes are texts by the absolute paths of their files, where a resume finds
// them whatever its directory.
func absolutes(m *mask.Masker, texts map[string][]byte) map[string][]byte {
	out := make(map[string][]byte, len(texts))
	for path, text := range texts {
		out[files.Absolute(path)] = hide(m, text)
	}
	return out
}

func fill(opt *Options) error {
	if opt.Environ == nil {
		opt.Environ = os.Environ()
	}
	if opt.Soft == nil {
		opt.Soft = context.Background()
	}
	opt.Grace = cmp.Or(opt.Grace, DefaultGrace)
	dir, err := filepath.Abs(opt.Dir)
	if err != nil {
		return err
	}
	opt.Dir = dir
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the working directory of the run, %s, is not there: where it was renamed or moved, move it back, or have a link lead to its new place (ln -s NEW_PLACE %s), then try again", dir, diag.ShellWord(dir))
	} else if err != nil {
		return fmt.Errorf("the working directory: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("the working directory %s is no directory", dir)
	}
	return nil
}
