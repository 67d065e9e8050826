package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/step"
)

// stepOutputs is where the output of an attempt goes: to whoever watches, and
// to files.
type stepOutputs struct {
	stdout, stderr io.Writer
	log            io.Writer
	spill          func(string) (proc.File, error)
	whole          *mask.File // a large output that stands masked on the disk
	flush          []func() error
	logPath        string
	keep           func(paths ...string) // what is opened has to outlive a power cut
	mu             sync.Mutex
	opened         []string
}

// outputs opens what an attempt writes to.
func (a *Actions) outputs(p step.Address, path string, n int, isAgent, quiet bool) *stepOutputs {
	r := a.Recorder
	o := &stepOutputs{keep: r.Journal.KeepOutputs}
	var begun sync.Map // streams, asked for from several goroutines
	file := func(stream string) (*os.File, error) {
		name := journal.LogName(path, p.Attempt)
		if _, again := begun.LoadOrStore(stream, true); again {
			return r.Journal.CreateOutput(p.Index, name, n, stream)
		}
		// What a killed life of the run left of this attempt is not of it.
		f, err := r.Journal.NewOutput(p.Index, name, n, stream)
		if err == nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.opened = append(o.opened, f.Name())
		}
		return f, err
	}
	if isAgent {
		// The raw stream of an agent is always kept.
		o.toFile(r, "agent", file)
	}
	if !quiet && len(r.Sinks) > 0 {
		stdout := "stdout"
		if a.Pipeline {
			stdout = "stderr"
		}
		o.stdout = o.live(r, p, path, stdout)
		o.stderr = o.live(r, p, path, "stderr")
	}
	// With secrets nothing may reach the disk unmasked.
	o.spill = func(stream string) (proc.File, error) {
		f, err := file(stream)
		if err != nil || !r.Masks().Active() {
			return f, err
		}
		masked := r.Masks().NewFile(f)
		if stream == "stdout" {
			o.whole = masked
		}
		return masked, nil
	}
	return o
}

func (o *stepOutputs) toFile(r *Recorder, stream string, open func(string) (*os.File, error)) {
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
func (o *stepOutputs) masked(r *Recorder, l *lazyFile) io.Writer {
	w := r.Masks().NewWriter(l)
	o.flush = append(o.flush, w.Flush, l.Close)
	return w
}

// live passes output on to whoever watches the run.
func (o *stepOutputs) live(r *Recorder, p step.Address, path, stream string) io.Writer {
	w := r.Masks().NewWriter(writerFunc(func(b []byte) (int, error) {
		e := p.Event(event.Output, path)
		e.Label, e.Message = stream, string(b)
		r.Show(e)
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
	if o.whole != nil && res.StdoutFile != "" {
		res.Open = o.whole.Open
	}
	if o.logPath != "" && res.StdoutFile == "" {
		res.StdoutFile = o.logPath
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.opened) > 0 && o.keep != nil {
		o.keep(o.opened...)
	}
	if res.StdoutFile != "" && (o.whole != nil || res.StdoutFile == o.logPath) {
		var err error
		res.StoredSize, res.StoredDigest, err = journal.FileDigest(res.StdoutFile)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, res.FileErr)...)
}

// keepText has an output that no command wrote in the log that one of a command would be
// in, and says so in the result.
func (a *Actions) keepText(c *step.Call, res action.Result) (_ action.Result, err error) {
	o := a.outputs(c.Address, c.Path, c.Number, false, true)
	f, err := o.spill("stdout")
	if err != nil {
		return res, err
	}
	text := res.Output + res.Ending
	_, err = io.WriteString(f, text)
	sum := sha256.Sum256([]byte(text))
	res.StdoutFile, res.StdoutSize, res.Digest = f.Name(), int64(len(text)), hex.EncodeToString(sum[:])
	if err = errors.Join(err, f.Close()); err == nil {
		err = o.close(&res)
	}
	return res, err
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
