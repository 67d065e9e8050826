package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
)

// tried is one attempt of a step, with its outputs.
type tried struct {
	Step, Label string
	Index       int // of the work item; 0 for none
	ItemTry     int // the attempt at the work item
	N           int
	Status      string
	Running     bool
	Began       time.Time
	Took        time.Duration // zero while it runs
	Event       event.Event   // that ended it; zero while it runs
	Streams     []output
	Prompt      output // what an agent was sent; without a name where that was not kept
}

// NoRetry says why no retry followed; "" if one did, or the number of attempts says it.
func (t tried) NoRetry() string { return event.RetriesEnded(t.Event.Status) }

// output is what an attempt wrote to one stream.
type output struct {
	Name   string // stdout, stderr, agent, output, value
	inline string
	file   string // relative to the run's directory; "" where inline is all
	Size   int64
	Live   bool // it may grow
	Gone   bool // its file, and all of it but the ends
}

// streams are the names of outputs, in the order in which they are shown.
var streams = []string{"stdout", "stderr", "agent", "output", "value"}

// promptStream is the name under which the prompt of an agent is kept.
const promptStream = "prompt"

// prompt reads what an agent was sent; "" where that was not kept.
func (t *tried) prompt(r *journal.Reader) (text, error) {
	if t.Prompt.file == "" {
		return "", nil
	}
	f, _, size, err := t.Prompt.open(r)
	if err != nil {
		return "", err
	}
	defer f.Close() // it was read only: there is nothing to lose
	b, err := io.ReadAll(io.LimitReader(f, maxEdit))
	if int64(len(b)) < size {
		b = append(b, "…"...)
	}
	return text(strings.ToValidUTF8(string(b), "�")), err
}

// find fills in the outputs of an attempt. The names of files are made of what
// the journal says of the step.
func (t *tried) find(r *journal.Reader) error {
	var d struct {
		Output, Stdout, Stderr string
		Raw                    value.Raw
		Value                  json.RawMessage
		File                   string `json:"output_file"`
		StderrFile             string `json:"stderr_file"`
	}
	if len(t.Event.Data) > 0 {
		if err := json.Unmarshal(t.Event.Data, &d); err != nil {
			return err
		}
	}
	t.Streams = nil
	inline := map[string]string{
		"stdout": cmp.Or(d.Raw.Text("/output", d.Output), d.Raw.Text("/stdout", d.Stdout)),
		"stderr": d.Raw.Text("/stderr", d.Stderr), "value": string(d.Value),
	}
	filed := map[string]string{"stdout": d.File, "stderr": d.StderrFile}
	root, err := os.OpenRoot(r.Dir())
	if err != nil {
		return err
	}
	defer root.Close() // it was read only: there is nothing to lose
	for _, name := range append(streams[:len(streams):len(streams)], promptStream) {
		o := output{Name: name, inline: inline[name], Size: int64(len(inline[name])), Live: t.Running}
		file, err := filepath.Rel(r.Dir(), r.OutputFile(t.Index, journal.LogName(t.Step, t.ItemTry), t.N, name))
		if err != nil {
			return err
		}
		// A short output is in the journal; a file beside it is of a life of
		// the run that was killed.
		whole := !t.Running && o.inline != "" && len(o.inline) < proc.SpillThreshold
		if info, err := root.Stat(file); err == nil && info.Mode().IsRegular() && (!whole || info.Size() > proc.SpillThreshold) {
			o.file, o.Size = file, info.Size()
		}
		if name == promptStream {
			if o.file != "" {
				t.Prompt = o
			}
			continue
		}
		o.Gone = o.file == "" && o.inline != "" && (filed[name] != "" || t.Event.Type == event.AttemptFailed && step.IsEnd(o.inline))
		if o.file != "" || o.inline != "" || t.Running && (name == "stdout" || name == "stderr") {
			t.Streams = append(t.Streams, o)
		}
	}
	return nil
}

// stream gives the output of a name: an empty one of an attempt that has ended and
// wrote nothing to it, so that a page which followed it learns that it is over.
func (t *tried) stream(name string) (output, bool) {
	if i := slices.IndexFunc(t.Streams, func(o output) bool { return o.Name == name }); i >= 0 {
		return t.Streams[i], true
	}
	return output{Name: name}, slices.Contains(streams, name)
}

// open opens an output for reading. A link that leads out of the run's directory
// is not followed.
func (o output) open(r *journal.Reader) (io.ReadSeekCloser, io.ReaderAt, int64, error) {
	if o.file == "" {
		b := bytes.NewReader([]byte(o.inline))
		return closer{b}, b, b.Size(), nil
	}
	root, err := os.OpenRoot(r.Dir())
	if err != nil {
		return nil, nil, 0, err
	}
	defer root.Close() // the file stays open
	f, err := root.Open(o.file)
	if errors.Is(err, fs.ErrNotExist) { // a small output leaves its file at its end
		b := bytes.NewReader([]byte(o.inline))
		return closer{b}, b, b.Size(), nil
	}
	if err != nil {
		return nil, nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, 0, errors.Join(err, f.Close())
	}
	return f, f, info.Size(), nil
}

type closer struct{ *bytes.Reader }

func (closer) Close() error { return nil }

// maxHistory bounds how many events of an item are read for its page.
const maxHistory = 20_000

// attemptsOf gives the attempts of a step: of the run itself where index is 0,
// else of a work item, of which itemTry, if it is not 0, is the attempt.
func (run *run) attemptsOf(ctx context.Context, path string, index, itemTry int) ([]tried, error) {
	if index > 0 {
		_, all, err := run.itemAttempts(ctx, index)
		if err != nil {
			return nil, err
		}
		return slices.DeleteFunc(all, func(t tried) bool { return t.Step != path || itemTry > 0 && t.ItemTry != itemTry }), nil
	}
	var out []tried
	var seqs []int64
	err := run.look(ctx, func() {
		row := run.line.Row(path)
		if row == nil {
			return
		}
		for _, a := range row.Attempts {
			out = append(out, tried{Step: row.Path, Label: row.Label, N: a.N, Status: a.Status, Running: a.To.IsZero(), Began: a.From, Took: max(0, a.To.Sub(a.From))})
			seqs = append(seqs, a.Seq)
		}
	})
	if err != nil {
		return nil, err
	}
	events, err := run.r.At(ctx, seqs)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if !out[i].Running {
			out[i].Event = events[i]
		}
	}
	return out, nil
}

// itemAttempts reads the history of a work item: its own events, and the
// attempts of its steps.
func (run *run) itemAttempts(ctx context.Context, index int) (own []event.Event, all []tried, err error) {
	var seqs []int64
	if err := run.look(ctx, func() { seqs = run.items.history(index) }); err != nil {
		return nil, nil, err
	}
	seqs = seqs[max(0, len(seqs)-maxHistory):]
	events, err := run.r.At(ctx, seqs)
	if err != nil {
		return nil, nil, err
	}
	try := 0
	open := map[string]int{} // steps that have an attempt, and its place
	labels := map[string]string{}
	for _, e := range events {
		if e.Label != "" && e.Step != "" {
			labels[e.Step] = e.Label
		}
		switch e.Type {
		case event.ItemStarted:
			try = e.Attempt
			clear(open)
		case event.AttemptStarted:
			open[e.Step] = len(all)
			all = append(all, tried{Step: e.Step, Label: labels[e.Step], Index: index, ItemTry: try, N: e.Attempt, Status: event.Running, Running: true, Began: e.Time})
			continue
		case event.AttemptFailed, event.AttemptFinished, event.StepFinished:
			i, ok := open[e.Step]
			if !ok {
				continue
			}
			a := &all[i]
			switch {
			case e.Type == event.AttemptFailed:
				a.Status = event.Failed
			case e.Type == event.AttemptFinished:
				a.Status = event.Succeeded
			case !a.Running && a.Status == event.Failed:
				continue // a step ends as its last attempt has, which has told so
			case a.Running:
				a.Status = e.Status
			}
			if a.Running {
				a.Took = e.Time.Sub(a.Began)
			}
			a.Running, a.Event = false, e
			a.Label = cmp.Or(a.Label, e.Label)
			continue
		case event.StepStarted, event.AgentMessage, event.AgentUsage:
			continue
		}
		own = append(own, e)
	}
	return own, all, nil
}
