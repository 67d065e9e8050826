package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// jobsShown is how a batch shows its outputs. It is recorded with the run, so that whoever
// continues the run shows them in the same way.
type jobsShown struct {
	Order   bool     `json:"keep_order,omitempty"` // outputs in the order of the items
	Tag     bool     `json:"tag,omitempty"`        // each line begins with the item
	Log     string   `json:"joblog,omitempty"`     // the file of the log of jobs; "" for none
	Command string   `json:"command,omitempty"`    // the command as a text
	Words   []string `json:"words,omitempty"`      // the command as words, in place of Command
}

// wordsWithItem are the words of the command. The item is the last word unless another word
// names it.
func (f *jobsShown) wordsWithItem() []string {
	if hasPlaceholder(f.Words...) {
		return f.Words
	}
	return append(slices.Clone(f.Words), "{}")
}

func withItem(text string) string {
	if hasPlaceholder(text) {
		return text
	}
	return text + " {}"
}

// aText returns the command if it is one text for a shell or an agent; ok is false if it is
// words.
func (f *jobsShown) aText() (text string, ok bool) {
	switch {
	case len(f.Words) == 0:
		return f.Command, true
	case len(f.Words) == 1 && strings.ContainsAny(f.Words[0], " \t\n;|&<>()$`"):
		return f.Words[0], true
	}
	return "", false
}

// namesItem reports whether a text has the variable of a workflow, so that its braces are its
// own.
func namesItem(text string) bool {
	t, err := template.Parse(text)
	return err == nil && slices.ContainsFunc(t.Asked(), func(r template.Ref) bool { return len(r.Path) > 0 && r.Path[0].Name == "item" })
}

// shown is the command for an item, for people to read.
func (f *jobsShown) shown(i batchItem) string {
	text, ok := f.aText()
	if !ok {
		fill := func(w string) string { return diag.ShellWord(i.fill(w, func(s string) string { return s })) }
		return strings.Join(value.Map(f.wordsWithItem(), fill), " ")
	}
	if namesItem(text) {
		return text
	}
	return i.fill(withItem(text), diag.ShellWord)
}

// beginJobs creates the log of jobs, and returns what is to be recorded.
func (f *batchOptions) beginJobs(st *journal.Store) (*jobs, json.RawMessage, error) {
	shown := f.jobsShown
	var log *os.File
	if shown.Log != "" {
		var err error
		if shown.Log, err = filepath.Abs(shown.Log); err != nil {
			return nil, nil, err
		}
		if log, err = os.Create(shown.Log); err != nil {
			return nil, nil, err
		}
		if _, err = io.WriteString(log, joblogHead); err != nil {
			return nil, nil, errors.Join(err, log.Close())
		}
	}
	j := newJobs(st, shown)
	j.log = log
	record, err := json.Marshal(shown)
	return j, record, err
}

// continueJobs shows the outputs of a recorded run in the way in which its batch began, with
// those that were not shown yet; nil if the run is no batch.
func (a *app) continueJobs(ctx context.Context, run string) (j *jobs, err error) {
	st, err := a.openStore()
	if err != nil {
		return nil, err
	}
	err = readRun(st, run, func(r *journal.Reader) error {
		var recorded struct{ Batch *jobsShown }
		if o := r.Header().Options; len(o) > 0 {
			if err := json.Unmarshal(o, &recorded); err != nil {
				return err
			}
		}
		if recorded.Batch == nil {
			return nil
		}
		j = newJobs(st, *recorded.Batch)
		j.run = r.Run()
		if j.Log == "" {
			return nil
		}
		state, err := r.State(ctx)
		if err != nil {
			return err
		}
		if err := j.reopen(ctx, r, state); err != nil {
			for _, what := range j.trouble(fmt.Errorf("the log of jobs is not continued: %w", err)) {
				a.tell("%s", what)
			}
		}
		return nil
	})
	return j, err
}

// reopen opens the log of jobs to add to it. It first adds the lines that an earlier process,
// which may have been killed, could not write.
func (j *jobs) reopen(ctx context.Context, r *journal.Reader, state *journal.State) (err error) {
	log, err := os.OpenFile(j.Log, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, log.Close())
		}
	}()
	has, whole, err := readLog(log)
	if err != nil {
		return err
	}
	if err := log.Truncate(whole); err != nil {
		return err
	}
	if _, err := log.Seek(whole, io.SeekStart); err != nil {
		return err
	}
	if whole == 0 {
		if _, err := io.WriteString(log, joblogHead); err != nil {
			return err
		}
	}
	late := newJobs(j.st, jobsShown{Command: j.Command, Words: j.Words})
	late.own, late.log = true, log
	missing := func(index int) bool { return index > 0 && !has[index] && state.Items.At(index).Status.Done() }
	for e, err := range r.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.StepFinished, event.ItemFinished}}) {
		if err != nil {
			return err
		}
		if !missing(e.Index) {
			continue
		}
		if err := late.take(e, unseen); err != nil {
			return err
		}
	}
	late.log = nil
	j.log = log
	_, err = late.rest(unseen, jobsDone)
	return err
}

// readLog returns the items that have a line in a log of jobs, and the length of its whole
// lines.
func readLog(log io.Reader) (has map[int]bool, whole int64, err error) {
	has = map[int]bool{}
	in := bufio.NewReader(log)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return has, whole, nil
		}
		if err != nil {
			return nil, 0, err
		}
		whole += int64(len(line))
		seq, _, _ := strings.Cut(line, "\t")
		if n, err := strconv.Atoi(seq); err == nil {
			has[n] = true
		}
	}
}
