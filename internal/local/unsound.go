package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

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
		around, over := roundsAround(last, at)
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

// roundsAround gives the ends of the rounds that a step is in, of those facts. over says
// that a foreach around it has succeeded, or the handler in which it is: what it gave is
// in their records.
func roundsAround(facts map[place]event.Event, step place) (rounds []event.Event, over bool) {
	inner, of := splitRounds(step.path)
	for at, e := range facts {
		outer, n := splitRounds(at.path)
		if at.index != step.index || at == step || e.Status != event.Succeeded && e.Status != event.Failed || !strings.HasPrefix(inner, outer+".") || !strings.HasPrefix(of, n) {
			continue
		}
		if rest := of[len(n):]; n != "" && rest != "" && !strings.ContainsRune(roundMarks, rune(rest[0])) {
			continue // round 12 is not in round 1
		}
		switch _, mark, _, ok := event.RoundOf(at.path); {
		case e.Type == event.StepFinished && e.Status == event.Succeeded:
			over = true
		case e.Type == event.RoundFinished && ok && mark == '@':
			rounds = append(rounds, e)
		case e.Type == event.RoundFinished:
			over = true
		}
	}
	return rounds, over
}

// roundMarks begin the parts of an address that follow the path in the file.
const roundMarks = "@#%/"

// splitRounds takes the address of a step, or of a round, apart: its path in the file,
// and the rounds of the loops around it.
func splitRounds(path string) (in, rounds string) {
	if i := strings.IndexAny(path, roundMarks); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

func whoseStep(e event.Event) string {
	if e.Index == 0 {
		return ""
	}
	return " of item " + e.Item
}
