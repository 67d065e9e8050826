package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// An output that is too large for the record is in a file, which is synced before the
// record of its step is. A power cut may yet leave the record alone: the system writes
// what is not synced when it likes. So a resume after a process that did not end looks at
// the files of the last steps: where one is not as recorded, the step has not ended.

// lastFacts is how many facts at the end of a record are looked at: more than can have
// been written without a sync.
const lastFacts = 20_000

// stored is what the record of a step says of its file.
type stored struct {
	File      string `json:"output_file"`
	Size      int64  `json:"output_size"`
	Digest    string `json:"output_sha256"`
	Stored    int64  `json:"stored_size"`
	StoredSHA string `json:"stored_sha256"`
	// Kept are the logs to which its variables refer.
	Kept map[string]action.Log `json:"kept"`
}

// whole says whether the files are as recorded.
func (s stored) whole() bool {
	if log, ok := s.Kept["/last/stderr"]; ok {
		if size, sum, err := journal.FileDigest(log.File); err != nil || size != log.Size || sum != log.SHA256 {
			return false
		}
	}
	size, digest := s.Size, s.Digest
	if s.StoredSHA != "" {
		size, digest = s.Stored, s.StoredSHA
	}
	if s.File == "" || digest == "" {
		return true // none, or of an older record
	}
	haveSize, have, err := journal.FileDigest(s.File)
	return err == nil && haveSize == size && have == digest
}

// place is a step, or a round, of the run itself (index 0) or of an item.
type place struct {
	index int
	path  string
}

// Unsound gives the facts by which the steps begin again whose outputs are not whole, and
// with them the rounds that they are of, and their items.
func Unsound(ctx context.Context, j *journal.Journal, st *journal.State) ([]event.Event, error) {
	if st.Status != event.Running && st.Status != event.Interrupted {
		return nil, nil
	}
	last := map[place]event.Event{}
	for e, err := range j.Events(ctx, st.Seq-lastFacts, journal.EventFilter{Types: []event.Type{event.StepFinished, event.RoundFinished}}) {
		if err != nil {
			return nil, err
		}
		last[place{e.Index, e.Step}] = e
	}
	var facts []event.Event
	var known map[place]bool // the steps that the run has begun, once it is asked
	undone := map[place]bool{}
	undo := func(e event.Event) {
		if at := (place{e.Index, e.Step}); !undone[at] {
			undone[at] = true
			facts = append(facts, event.Event{Type: e.Type, Phase: e.Phase, Item: e.Item, Index: e.Index, Attempt: e.Attempt, Step: e.Step, Status: event.Interrupted})
		}
	}
	for at, e := range last {
		var s stored
		if e.Type != event.StepFinished || !bytes.Contains(e.Data, []byte(`"output_file"`)) && !bytes.Contains(e.Data, []byte(`"kept"`)) || json.Unmarshal(e.Data, &s) != nil || s.whole() {
			continue
		}
		if known == nil {
			var err error
			if known, err = begun(ctx, j); err != nil {
				return nil, err
			}
		}
		around, over := roundsAround(last, known, at)
		if over {
			facts = append(facts, event.Event{Type: event.Note, Message: fmt.Sprintf("the output of step %s%s did not get to the disk; the step around it has ended, and it does not run again", at.path, whoseStep(e))})
			continue
		}
		facts = append(facts, event.Event{Type: event.Note, Message: fmt.Sprintf("the output of step %s%s did not get to the disk: it runs again", at.path, whoseStep(e))})
		undo(e)
		for _, round := range around {
			undo(round)
		}
		if at.index == 0 || undone[place{at.index, ""}] {
			continue
		}
		undone[place{at.index, ""}] = true
		if rec := st.Items.At(at.index); rec.Status == journal.ItemSucceeded {
			facts = append(facts, event.Event{Type: event.ItemFinished, Phase: "map", Item: e.Item, Index: e.Index, Attempt: rec.Attempts, Status: event.Interrupted})
		}
	}
	return facts, nil
}

// begun gives the steps that a run has begun.
func begun(ctx context.Context, j *journal.Journal) (map[place]bool, error) {
	all := map[place]bool{}
	for e, err := range j.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.StepStarted}}) {
		if err != nil {
			return nil, err
		}
		all[place{e.Index, e.Step}] = true
	}
	return all, nil
}

// roundsAround gives the ends of the rounds that a step is in, of the facts. over says
// that a step around it has succeeded, or the handler in which it is: what it gave is
// in their records.
func roundsAround(facts map[place]event.Event, known map[place]bool, step place) (rounds []event.Event, over bool) {
	ended := func(path string, t event.Type) (event.Event, bool) {
		e, is := facts[place{step.index, path}]
		return e, is && e.Type == t && (e.Status == event.Succeeded || e.Status == event.Failed)
	}
	in := func(path string) {
		for around := range event.AroundInFile(path) {
			if e, is := ended(around, event.RoundFinished); is {
				if _, mark, _, _ := event.RoundOf(around); mark == '@' {
					rounds = append(rounds, e)
				} else {
					over = true
				}
			}
		}
	}
	in(step.path)
	for around := range event.Enclosing(step.path, func(path string) bool { return known[place{step.index, path}] }) {
		if e, is := ended(around, event.StepFinished); is && e.Status == event.Succeeded {
			over = true
		}
		in(around)
	}
	return rounds, over
}

func whoseStep(e event.Event) string {
	if e.Index == 0 {
		return ""
	}
	return " of item " + e.Item
}
