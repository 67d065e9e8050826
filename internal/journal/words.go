package journal

import "github.com/bide-dev/bide/internal/event"

// vocabulary is the words that every journal begins with; a word's
// number is its place plus one. It is part of the format and stays as it is:
// types of event that come later get their number when they are first used.
var vocabulary = []string{
	string(event.RunStarted), string(event.RunResumed), string(event.PhaseStarted), string(event.PhaseFinished),
	string(event.StepStarted), string(event.AttemptStarted), string(event.AttemptFailed), string(event.RetryScheduled),
	string(event.StepFinished), string(event.ItemsReady), string(event.ItemStarted), string(event.ItemRetry),
	string(event.ItemFinished), string(event.ItemHandlerDue), string(event.ItemRequeued), string(event.ItemRemoved),
	string(event.BreakerChanged), string(event.RunPaused), string(event.AgentUsage), string(event.AgentMessage),
	string(event.Note), string(event.RunFinished),
	event.Succeeded, event.Failed, event.Skipped, event.Degraded, event.Pending, event.Running, event.Interrupted,
	event.DeadLettered, event.CompletedWithFailures,
	"setup", "map", "reduce", "merge",
	string(event.ItemMerging), string(event.AttemptFinished), string(event.PauseEnded),
}

// firstWords is the vocabulary by number.
func firstWords() map[int64]string {
	known := make(map[int64]string, len(vocabulary))
	for i, w := range vocabulary {
		known[int64(i+1)] = w
	}
	return known
}

// maxStepWords bounds the memory of the dictionary: step paths after that
// many words stand in their records as text.
const maxStepWords = 4096

// words turns the few strings that stand in nearly every event into numbers,
// for the size of the file and the speed of the fold. A member of a record that
// is a word holds a number from the table words, or text that is in no table.
type words struct {
	ids   map[string]int64
	last  int64
	fresh []string // not in the table yet; the last len(fresh) numbers
}

func newWords(known map[int64]string) *words {
	w := &words{ids: make(map[string]int64, len(known))}
	for id, word := range known {
		w.ids[word] = id
		w.last = max(w.last, id)
	}
	return w
}

// number is the number of a word of the vocabulary or of another that a run
// has few of; 0 for "".
func (w *words) number(s string) int64 {
	if s == "" {
		return 0
	}
	if id, ok := w.ids[s]; ok {
		return id
	}
	w.last++
	w.ids[s] = w.last
	w.fresh = append(w.fresh, s)
	return w.last
}

// step is number for step paths, of which a run may have any number: 0 where
// the path is to stand as text.
func (w *words) step(s string) int64 {
	if _, ok := w.ids[s]; !ok && len(w.ids) >= maxStepWords {
		return 0
	}
	return w.number(s)
}
