package journal

import "github.com/bide-dev/bide/internal/event"

// vocabulary is the words that are in records as numbers; a word's number is
// its place plus one. It is part of the format and stays as it is: words that came
// later stand as text. A fold compares numbers and decodes no text for items.
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

// numbers are those of the vocabulary.
var numbers = func() map[string]int64 {
	out := make(map[string]int64, len(vocabulary))
	for i, w := range vocabulary {
		out[w] = int64(i + 1)
	}
	return out
}()
