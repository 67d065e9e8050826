package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step"
)

// jobs gives what the commands of a batch print, one command after the other,
// and writes the log of jobs. Its methods are called by one display, one at a
// time; a nil one gives nothing.
type jobs struct {
	jobsShown
	st     *journal.Store
	own    bool // this process has the run: it writes the log
	log    *os.File
	files  *journal.Reader
	waits  *shelf              // outputs of items that have not ended, or that others come before
	ended  map[int]event.Event // in order: the ends of items that have not been shown
	past   map[int]bool        // items that ended in an earlier life of the run: nobody waits for them
	next   int
	length map[int]int64 // bytes that an item has printed
}

func newJobs(st *journal.Store, shown jobsShown) *jobs {
	return &jobs{jobsShown: shown, st: st, waits: newShelf(), ended: map[int]event.Event{}, next: 1, length: map[int]int64{}}
}

// take takes an event in; show is called with each piece of output that is due.
func (j *jobs) take(e event.Event, show func(event.Event)) error {
	if j == nil {
		return nil
	}
	switch e.Type {
	case event.RunStarted, event.RunResumed:
		j.own = true
		return nil
	case event.StepFinished:
		if e.Index == 0 {
			return nil
		}
		return j.waits.put(e)
	case event.ItemFinished:
		e.Data, e.Message = nil, ""
	default:
		return nil
	}
	if !j.Order || e.Index < j.next {
		return errors.Join(j.show(e.Index, show), j.note(e))
	}
	j.ended[e.Index] = e
	var errs []error
	for {
		due, ok := j.ended[j.next]
		if !ok && !j.past[j.next] {
			return errors.Join(errs...)
		}
		if ok {
			delete(j.ended, j.next)
			errs = append(errs, j.show(j.next, show), j.note(due))
		}
		j.next++
	}
}

// rest shows what waits for items that never came, and closes the log.
func (j *jobs) rest(show func(event.Event)) error {
	if j == nil {
		return nil
	}
	var errs []error
	for _, index := range j.waits.items() {
		errs = append(errs, j.show(index, show))
		if e, ok := j.ended[index]; ok {
			errs = append(errs, j.note(e))
		}
	}
	errs = append(errs, j.waits.close())
	if j.log != nil {
		errs = append(errs, j.log.Close())
		j.log = nil
	}
	if j.files != nil {
		errs = append(errs, j.files.Close())
		j.files = nil
	}
	return errors.Join(errs...)
}

// show shows what an item has printed.
func (j *jobs) show(index int, show func(event.Event)) error {
	steps, err := j.waits.take(index)
	if err != nil {
		return err
	}
	for _, e := range steps {
		var d struct{ Output, Stderr string }
		if len(e.Data) > 0 {
			if err := json.Unmarshal(e.Data, &d); err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
		}
		for _, s := range []struct{ stream, text string }{{"stdout", d.Output}, {"stderr", d.Stderr}} {
			r, err := j.open(e, s.stream, s.text)
			if err == nil {
				err = j.pass(e, s.stream, r, show)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// open is an output of a step: as it is recorded, or of a long one its file.
func (j *jobs) open(e event.Event, stream, inline string) (io.ReadCloser, error) {
	if len(inline) < step.Inline/2 {
		return io.NopCloser(strings.NewReader(inline)), nil
	}
	if j.files == nil {
		r, err := j.st.Read(e.Run)
		if err != nil {
			return nil, err
		}
		j.files = r
	}
	f, err := os.Open(j.files.OutputFile(e.Index, journal.LogName(e.Step, 1), max(e.Attempts, 1), stream))
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader(inline)), nil
	}
	return f, err
}

// jobPiece is how much of an output is shown at once, in bytes.
const jobPiece = 64 << 10

// pass shows an output, with an end to its last line.
func (j *jobs) pass(e event.Event, stream string, from io.ReadCloser, show func(event.Event)) (err error) {
	defer func() { err = errors.Join(err, from.Close()) }()
	r := bufio.NewReaderSize(from, jobPiece)
	tag := ""
	if j.Tag {
		tag = visible(e.Item) + "\t"
	}
	open := false
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			text := string(line)
			if !open {
				text = tag + text
			}
			open = line[len(line)-1] != '\n'
			if stream == "stdout" {
				j.length[e.Index] += int64(len(line))
			}
			show(event.Event{Type: event.Output, Label: stream, Message: text})
		}
		switch {
		case errors.Is(err, io.EOF):
			if open {
				show(event.Event{Type: event.Output, Label: stream, Message: "\n"})
			}
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// joblogHead names the columns of parallel's log of jobs, which ours has too.
const joblogHead = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

// note writes the line of an item that has ended into the log of jobs.
func (j *jobs) note(e event.Event) error {
	n := j.length[e.Index]
	delete(j.length, e.Index)
	if j.log == nil || !j.own || e.Status == event.Interrupted {
		return nil
	}
	exit, signal := e.ExitCode, 0
	if exit > 128 && e.Class == "signal" {
		exit, signal = 0, exit-128
	} else if exit == 0 && e.Status != event.Succeeded {
		exit = 1
	}
	took := time.Duration(e.DurationMS) * time.Millisecond
	began := float64(e.Time.Add(-took).UnixMilli()) / 1000
	_, err := fmt.Fprintf(j.log, "%d\t:\t%.3f\t%10.3f\t0\t%d\t%d\t%d\t%s\n", e.Index, began, took.Seconds(), n, exit, signal, visible(j.shown(newBatchItem(e.Label, e.Index))))
	return err
}
