package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/workflow"
)

// stepOutputs is where the output of an attempt goes: to whoever watches, and
// to files.
type stepOutputs struct {
	stdout, stderr io.Writer
	log            io.Writer
	spill          func(string) (*os.File, error)
	flush          []func() error
	logPath        string
}

// LogName is the name under which the outputs of a step are kept: its path, and
// in the second and later attempts at a work item the number of that.
func LogName(path string, itemAttempt int) string {
	if itemAttempt > 1 {
		return fmt.Sprintf("attempt%d.%s", itemAttempt, path)
	}
	return path
}

// outputsOf opens what an attempt writes to.
func (r *run) outputsOf(p place, path string, n int, a workflow.Action) *stepOutputs {
	o := &stepOutputs{}
	var begun sync.Map // streams, asked for from several goroutines
	file := func(stream string) (*os.File, error) {
		step := LogName(path, p.attempt)
		if _, again := begun.LoadOrStore(stream, true); !again {
			// What a killed life of the run left of this attempt is not of it.
			if err := os.Remove(r.j.OutputFile(p.index, step, n, stream)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		return r.j.CreateOutput(p.index, step, n, stream)
	}
	_, isAgent := a.(*workflow.Claude)
	if isAgent {
		// The raw stream of an agent is always kept.
		o.toFile(r, "agent", file)
	}
	if !p.quiet && len(r.sink) > 0 {
		stdout := "stdout"
		if r.file.Kind == workflow.Dataflow {
			stdout = "stderr" // a pipeline's own output has nothing else in it
		}
		o.stdout = o.live(r, p, path, stdout)
		o.stderr = o.live(r, p, path, "stderr")
	}
	if !r.mask.Active() {
		o.spill = file
		return o
	}
	// With secrets, nothing may reach the disk unmasked: the whole output goes
	// through the mask into files.
	if !isAgent {
		o.stdout = both(o.stdout, o.masked(r, &lazyFile{open: func() (*os.File, error) { return file("stdout") }}))
	}
	o.stderr = both(o.stderr, o.masked(r, &lazyFile{open: func() (*os.File, error) { return file("stderr") }}))
	return o
}

func both(a, b io.Writer) io.Writer {
	if a == nil {
		return b
	}
	return io.MultiWriter(a, b)
}

func (o *stepOutputs) toFile(r *run, stream string, open func(string) (*os.File, error)) {
	l := &lazyFile{open: func() (*os.File, error) {
		f, err := open(stream)
		if err == nil {
			o.logPath = f.Name()
		}
		return f, err
	}}
	o.log = o.masked(r, l)
}

// masked puts the mask in front of a file.
func (o *stepOutputs) masked(r *run, l *lazyFile) io.Writer {
	w := r.mask.NewWriter(l)
	o.flush = append(o.flush, w.Flush, l.Close)
	return w
}

// live passes output on to whoever watches the run.
func (o *stepOutputs) live(r *run, p place, path, stream string) io.Writer {
	w := r.mask.NewWriter(writerFunc(func(b []byte) (int, error) {
		r.emit(event.Event{Type: event.Output, Phase: p.phase, Step: path, Label: stream, Item: p.item, Index: p.index, Message: string(b)})
		return len(b), nil
	}))
	o.flush = append(o.flush, w.Flush)
	return w
}

func (o *stepOutputs) close(res *action.Result) error {
	var errs []error
	for _, f := range o.flush {
		errs = append(errs, f())
	}
	if o.logPath != "" && res.StdoutFile == "" {
		res.StdoutFile = o.logPath
	}
	return errors.Join(errs...)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// lazyFile is a file that is made at the first byte.
type lazyFile struct {
	open func() (*os.File, error)
	f    *os.File
}

func (l *lazyFile) Write(b []byte) (int, error) {
	if l.f == nil {
		f, err := l.open()
		if err != nil {
			return 0, err
		}
		l.f = f
	}
	return l.f.Write(b)
}

func (l *lazyFile) Close() error {
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}
