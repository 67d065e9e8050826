package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

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
}

// whole says whether the file is as recorded.
func (s stored) whole() bool {
	size, digest := s.Size, s.Digest
	if s.StoredSHA != "" {
		size, digest = s.Stored, s.StoredSHA
	}
	if digest == "" {
		return true // of an older record
	}
	haveSize, have, err := journal.FileDigest(s.File)
	return err == nil && haveSize == size && have == digest
}

// unsound gives the facts by which the steps begin anew whose outputs are not whole, and
// their items.
func unsound(ctx context.Context, j *journal.Journal, st *journal.State) ([]event.Event, error) {
	if st.Status != event.Running && st.Status != event.Interrupted {
		return nil, nil
	}
	type place struct {
		index int
		step  string
	}
	last := map[place]event.Event{}
	for e, err := range j.Events(ctx, st.Seq-lastFacts, journal.EventFilter{Types: []event.Type{event.StepFinished}}) {
		if err != nil {
			return nil, err
		}
		last[place{e.Index, e.Step}] = e
	}
	var facts []event.Event
	lost := map[int]bool{}
	for at, e := range last {
		var s stored
		if !bytes.Contains(e.Data, []byte(`"output_file"`)) || json.Unmarshal(e.Data, &s) != nil || s.whole() {
			continue
		}
		facts = append(facts,
			event.Event{Type: event.Note, Message: fmt.Sprintf("the output of step %s%s did not get to the disk: it runs again", at.step, whoseStep(e))},
			event.Event{Type: event.StepFinished, Phase: e.Phase, Item: e.Item, Index: e.Index, Attempt: e.Attempt, Step: e.Step, Status: event.Interrupted})
		if at.index == 0 || lost[at.index] {
			continue
		}
		lost[at.index] = true
		if rec := st.Items.At(at.index); rec.Status == journal.ItemSucceeded {
			facts = append(facts, event.Event{Type: event.ItemFinished, Phase: "map", Item: e.Item, Index: e.Index, Attempt: rec.Attempts, Status: event.Interrupted})
		}
	}
	return facts, nil
}

func whoseStep(e event.Event) string {
	if e.Index == 0 {
		return ""
	}
	return " of item " + e.Item
}
