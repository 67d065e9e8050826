package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/value"
)

// jobs prints the outputs of a batch's commands, one command after the other, and writes the
// log of jobs. One display calls its methods, one at a time; a nil jobs prints nothing.
//
// jobs prints an item's output once the item's end is in the journal, and then notes that it
// did (batchshown.go). Whoever continues the run prints what is in the journal and not in the
// notes. An end that is only in memory is lost if the process is killed: the item runs again,
// so its output must not have been printed yet, and its number, which another event will get,
// must not be noted.
type jobs struct {
	jobsShown
	st     *journal.Store
	run    string // set if it is continued
	own    bool   // this process has the run: it writes the log and the notes
	log    *os.File
	waits  *shelf                // outputs of items that have not ended, or that wait for items before them
	cut    map[int][]event.Event // outputs of items in flight: of steps that run again when the run is resumed
	ended  map[int]event.Event   // the ends of items whose output was not shown yet
	past   map[int]bool          // items that ended in an earlier process of the run: nobody waits for them
	next   int
	notes  *shownNotes
	wait   func(seq int64) error // waits until an event is in the journal; nil: events come after they are written
	logged int64                 // what ended before the event of this number is in the log of jobs
	length map[int]int64         // bytes that an item has printed
	lost   bool                  // part of the present item's output could not be written
	over   bool                  // the run had ended before it was continued: only outputs that were not shown are due
	short  bool                  // a line of the log of jobs could not be written, and no more are written
	wrong  map[string]bool       // problems that were reported
}

func newJobs(st *journal.Store, shown jobsShown) *jobs {
	return &jobs{jobsShown: shown, st: st, waits: newShelf(), cut: map[int][]event.Event{}, ended: map[int]event.Event{}, next: 1, length: map[int]int64{}}
}

// shower writes a piece of output and reports whether it did.
type shower func(event.Event) bool

// trouble returns what went wrong, each problem once: many items may meet the same one.
func (j *jobs) trouble(err error) (reported []string) {
	if err == nil {
		return nil
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range list.Unwrap() {
			reported = append(reported, j.trouble(err)...)
		}
		return reported
	}
	if text := err.Error(); !j.wrong[text] {
		value.Put(&j.wrong, text, true)
		reported = append(reported, text)
	}
	return reported
}

// failed reports whether some of the output or of the log is missing.
func (j *jobs) failed() bool { return j != nil && len(j.wrong) > 0 }

// journaled sets the function that waits until an event is in the journal.
func (j *jobs) journaled(written func(seq int64) error) {
	if j != nil {
		j.wait = written
	}
}

// safe waits until the end of an item is in the journal, and reports whether it is.
func (j *jobs) safe(e event.Event) bool { return j.wait == nil || j.wait(e.Seq) == nil }

// take processes an event, and calls show with each piece of output that is due.
func (j *jobs) take(e event.Event, show shower) error {
	if j == nil {
		return nil
	}
	switch e.Type {
	case event.RunStarted, event.RunResumed:
		j.own = true
		return errors.Join(j.begin(e.Run, e.Seq), j.due(show))
	case event.ItemFinished:
		if e.Status == event.Interrupted {
			return j.keep(e)
		}
		if err := j.keep(e); err != nil {
			return err
		}
		if j.Order && e.Index >= j.next {
			return j.due(show)
		}
		if !j.safe(e) {
			return nil
		}
		delete(j.ended, e.Index)
		return j.give(e, show)
	}
	return j.keep(e)
}

// keep processes an event and shows nothing.
func (j *jobs) keep(e event.Event) error {
	if e.Index == 0 {
		return nil
	}
	switch e.Type {
	case event.StepFinished:
		switch e.Status {
		case event.Interrupted: // it runs again, and prints it again
			return j.void(e)
		case event.Failed:
			value.Put(&j.cut, e.Index, append(j.cut[e.Index], e))
		default:
			return j.waits.put(e)
		}
	case event.ItemRetry, event.ItemReturned:
		return j.settle(e.Index)
	case event.ItemFinished:
		switch {
		case e.Status != event.Interrupted:
			e.Data, e.Message = nil, ""
			j.ended[e.Index] = e
			return j.settle(e.Index)
		case e.Class == event.BeginsAnew:
			return j.forget(e.Index)
		}
		delete(j.cut, e.Index)
		delete(j.ended, e.Index)
	}
	return nil
}

// settle records that the steps of a failed item do not run again in this attempt.
func (j *jobs) settle(index int) error {
	var errs []error
	for _, e := range j.cut[index] {
		errs = append(errs, j.waits.put(e))
	}
	delete(j.cut, index)
	return errors.Join(errs...)
}

// void drops the output of a step whose end does not count any more.
func (j *jobs) void(step event.Event) error {
	list, err := j.waits.take(step.Index)
	errs := []error{err}
	for _, e := range list {
		if e.Step != step.Step {
			errs = append(errs, j.waits.put(e))
		}
	}
	return errors.Join(errs...)
}

// forget drops the output of an item.
func (j *jobs) forget(index int) error {
	delete(j.cut, index)
	delete(j.ended, index)
	_, err := j.waits.take(index)
	return err
}

// begin begins the notes of a run. If the run is continued, begin first reads what the journal
// has before the event with this number and what was not shown yet.
func (j *jobs) begin(run string, before int64) (err error) {
	notes, shown, err := openShown(j.st.RunDir(run))
	if err != nil {
		return fmt.Errorf("the outputs that are printed are not noted, and a resume prints them again: %w", err)
	}
	j.notes = notes
	if j.run == "" {
		return nil
	}
	r, err := j.st.Read(run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	done := map[int]bool{}
	types := []event.Type{event.ItemStarted, event.StepFinished, event.ItemRetry, event.ItemReturned, event.ItemFinished, event.ItemRequeued}
	for e, err := range r.Events(context.Background(), 1, journal.EventFilter{Types: types}) {
		if err != nil {
			return err
		}
		if e.Seq >= before {
			break
		}
		switch e.Type {
		case event.ItemFinished:
			done[e.Index] = e.Status != event.Interrupted
		case event.ItemStarted, event.ItemRequeued:
			done[e.Index] = false
		}
		if err := j.keep(e); err != nil {
			return err
		}
		if shown[endingOf(e)] {
			if err := j.forget(e.Index); err != nil {
				return err
			}
		}
	}
	clear(j.cut)
	j.logged = before
	j.past = map[int]bool{}
	for index, is := range done {
		if _, waits := j.ended[index]; is && !waits {
			j.past[index] = true
		}
	}
	return nil
}

// due shows what is due: all items that have ended or, with Order, those before which no item
// is missing.
func (j *jobs) due(show shower) error {
	var errs []error
	if !j.Order {
		for _, index := range slices.Sorted(maps.Keys(j.ended)) {
			errs = append(errs, j.give(j.ended[index], show))
			delete(j.ended, index)
		}
	}
	for j.Order {
		e, ok := j.ended[j.next]
		if !ok && !j.past[j.next] || ok && !j.safe(e) {
			break
		}
		if ok {
			delete(j.ended, j.next)
			errs = append(errs, j.give(e, show))
		}
		j.next++
	}
	return errors.Join(errs...)
}

// give shows the output of the item that ended with e, and notes that it did.
func (j *jobs) give(e event.Event, show shower) error {
	j.lost = false
	if err := j.show(e.Index, show); err != nil {
		return errors.Join(err, j.note(e))
	}
	if j.notes != nil && !j.lost {
		j.notes.add(endingOf(e))
	}
	return errors.Join(j.notes.write(), j.note(e))
}

// rest shows the last outputs and closes the files. If the run ended, it shows what was
// waiting for items that never came. If the run was interrupted, a resume will show that, and
// waiting counts the items. A run that had ended before, and was not continued, shows what it
// had not shown.
func (j *jobs) rest(show shower, end jobsEnd, outputs ...io.Writer) (waiting int, err error) {
	if j == nil {
		return 0, nil
	}
	var errs []error
	if j.run != "" && j.over && !j.own {
		j.own = true
		errs = append(errs, j.begin(j.run, math.MaxInt64))
	}
	if end == jobsBroken && j.own {
		waiting, show = len(j.ended), unseen
	}
	for _, index := range slices.Sorted(maps.Keys(j.ended)) {
		if e := j.ended[index]; j.safe(e) {
			errs = append(errs, j.give(e, show))
		}
	}
	clear(j.ended)
	if end != jobsDone {
		errs = append(errs, j.notes.close(outputs...))
	} else {
		errs = append(errs, j.notes.close())
	}
	j.notes = nil
	errs = append(errs, j.waits.close())
	if j.log != nil {
		errs = append(errs, j.log.Close())
		j.log = nil
	}
	return waiting, errors.Join(errs...)
}

// jobsEnd says how a run ended, for its jobs.
type jobsEnd int

const (
	jobsBroken jobsEnd = iota // it was interrupted, or could not continue
	jobsFailed                // some items failed, and can be retried
	jobsDone                  // nothing of it is left
)

// endOf returns how the run of a summary ended; jobsBroken if there is no summary.
func endOf(s *engine.Summary) jobsEnd {
	switch {
	case s == nil || s.Status == event.Interrupted:
		return jobsBroken
	case s.Status == event.Succeeded:
		return jobsDone
	}
	return jobsFailed
}

// show shows the output of an item.
func (j *jobs) show(index int, show shower) error {
	steps, err := j.waits.take(index)
	if err != nil {
		return err
	}
	for _, e := range steps {
		var d struct {
			Output, Stderr string
			Raw            value.Raw
			File           string `json:"output_file"`
			StderrFile     string `json:"stderr_file"`
		}
		if len(e.Data) > 0 {
			if err := json.Unmarshal(e.Data, &d); err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
		}
		for _, s := range []struct{ stream, text, file string }{
			{"stdout", d.Raw.Text("/output", d.Output), d.File}, {"stderr", d.Raw.Text("/stderr", d.Stderr), d.StderrFile},
		} {
			r, err := openOutput(s.stream, s.text, s.file)
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

// openOutput opens an output of a step: the recorded text or, if it was long, the file that
// the record names. For an agent, the record has its answer, and the file has all that it
// said.
func openOutput(stream, inline, file string) (io.ReadCloser, error) {
	if !strings.HasSuffix(file, "."+stream) {
		return io.NopCloser(strings.NewReader(inline)), nil
	}
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader(inline)), nil
	}
	return f, err
}

// jobPiece is how much of an output is shown at once, in bytes.
const jobPiece = 64 << 10

// pass shows an output, and ends its last line.
func (j *jobs) pass(e event.Event, stream string, from io.ReadCloser, show shower) (err error) {
	defer func() { err = errors.Join(err, from.Close()) }()
	r := bufio.NewReaderSize(from, jobPiece)
	tag := ""
	if j.Tag {
		tag = visible(e.Item) + "\t"
	}
	open := false
	var piece strings.Builder // shown in one write, so that a kill comes before it or after it
	say := func() {
		if piece.Len() > 0 && !show(event.Event{Type: event.Output, Label: stream, Message: piece.String()}) {
			j.lost = true
		}
		piece.Reset()
	}
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			if piece.Len()+len(tag)+len(line) > jobPiece {
				say()
			}
			if !open {
				piece.WriteString(tag)
			}
			piece.Write(line)
			open = line[len(line)-1] != '\n'
			if stream == "stdout" {
				j.length[e.Index] += int64(len(line))
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if open {
				piece.WriteByte('\n')
			}
			say()
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// joblogHead names the columns of our log of jobs, which are those of parallel.
const joblogHead = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

// note writes a line for a finished item into the log of jobs.
func (j *jobs) note(e event.Event) error {
	n := j.length[e.Index]
	delete(j.length, e.Index)
	if j.log == nil || !j.own || j.short || e.Seq < j.logged {
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
	if _, err := fmt.Fprintf(j.log, "%d\t:\t%.3f\t%10.3f\t0\t%d\t%d\t%d\t%s\n", e.Index, began, took.Seconds(), n, exit, signal, visible(j.shown(newBatchItem(e.Label, e.Index)))); err != nil {
		j.short = true
		return fmt.Errorf("the log of jobs ends before item %d: %w", e.Index, err)
	}
	return nil
}
