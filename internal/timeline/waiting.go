package timeline

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// Now says in one sentence what the run does or waits for at a time, or how it
// ended. items are the counts of its map, and due is when the first of its
// items that wait continues; zero where none waits. name is what a command calls the run.
func (t *Timeline) Now(name string, now time.Time, items journal.Counts, due time.Time) string {
	switch t.Status {
	case "":
		return "It has not begun."
	case event.Running:
	case event.Interrupted:
		return t.interrupted(name, now)
	case event.Succeeded:
		s := "It succeeded after " + Short(t.Took(now))
		return s + t.butFor() + "."
	case event.CompletedWithFailures:
		return "It ended after " + Short(t.Took(now)) + t.lacking(items) + "."
	default:
		if t.Message != "" {
			return "It failed: " + t.Message
		}
		return "It failed after " + Short(t.Took(now)) + "."
	}
	h := &t.Holdups
	for _, text := range []string{h.PausedText(name), h.MapText(name, now, true), h.AgentsText(name, now)} {
		if text != "" {
			return Sentence(text)
		}
	}
	if h.Queue.On() && items.Running == 0 {
		return Sentence(h.QueueText(name, now, true))
	}
	if s := t.nowSteps(now); s != "" {
		return s
	}
	if items.Pending > 0 {
		return nowItems(now, items, due)
	}
	return "It is between two steps."
}

// interrupted says how the run came to be interrupted, and what held it then.
func (t *Timeline) interrupted(name string, now time.Time) string {
	s := "It was stopped " + ago(now, t.Latest)
	if n := len(t.Lives); n > 0 && t.Lives[n-1].Died {
		// Nobody knows when: a step may have run for hours and recorded nothing.
		s = "Its process died: it was killed, the machine went down, or its disk was full; the last that it recorded happened " + ago(now, t.Latest)
	}
	s += "; a resume continues it."
	for _, text := range []string{t.Holdups.MapText("", now, false), t.Holdups.QueueText("", now, false)} {
		if text != "" {
			s += " " + Sentence(text)
		}
	}
	if text := t.Holdups.AgentsText(name, now); text != "" {
		s += " " + Sentence(text) + " A resume is worth it then."
	}
	return s
}

// Sentence is a text as a sentence of its own.
func Sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

func nowItems(now time.Time, items journal.Counts, due time.Time) string {
	s := fmt.Sprintf("%s of %s done, %s running", Number(items.Total-items.Pending), count(items.Total, "item"), Number(items.Running))
	if items.Waiting > 0 {
		s += ", " + Number(items.Waiting) + " waiting for a retry"
	}
	if !due.IsZero() && items.Running == 0 {
		s += "; the next one is due in " + Short(due.Sub(now))
	}
	return s + "."
}

// lacking says what keeps a run that has ended from being a success.
func (t *Timeline) lacking(items journal.Counts) string {
	if items.Total == 0 {
		return t.butFor()
	}
	return tell("item", []outcomes{{items.Failed, "failed for good"}, {items.Tolerated, "failed and tolerated"}, {items.Incomplete, "incomplete"}, {items.Degraded, "degraded"}})
}

// outcomes is how many steps or items ended in a way.
type outcomes struct {
	n   int
	how string
}

func tell(word string, list []outcomes) (s string) {
	for _, k := range list {
		switch {
		case k.n == 0:
		case s == "":
			s = "; " + count(k.n, word) + " " + k.how
		default:
			s += ", " + Number(k.n) + " " + k.how
		}
	}
	return s
}

// butFor says how many steps ended well otherwise than they were meant to;
// "" for none.
func (t *Timeline) butFor() string {
	counts := map[string]int{}
	for _, r := range t.rows {
		if r.Kind == Step {
			counts[r.Status]++
		}
	}
	word := "step"
	if t.lists {
		word = "call"
	}
	return tell(word, []outcomes{{counts[event.Degraded], "by a fallback"}, {counts[event.Recovered], "by a handler"}, {counts[event.Incomplete], "incomplete"}, {counts[event.Tolerated], "failed and tolerated"}})
}

// Told is what a row says of itself: its status, and of a map or a list how much
// of it is done. items are the counts of the run's map. A map of which items
// failed for good has not succeeded, whatever its threshold lets pass.
func (r *Row) Told(items journal.Counts) (status, done string) {
	switch {
	case r.Kind == List:
		return r.Status, Done(r.Done-r.Failed, r.Total, r.Failed, 0, 0, event.KindCounts{Degraded: r.Degraded})
	case r.Kind == Phase && r.Path == "map" && items.Total > 0:
		if status = r.Status; status == event.Succeeded && items.Failed > 0 {
			status = event.CompletedWithFailures
		}
		return status, Done(items.Succeeded+items.Unchanged, items.Total, items.Failed, items.Skipped, items.Unchanged, items.KindCounts)
	}
	return r.Status, ""
}

// Done says how much of a map or a list is done, and how it ended.
func Done(good, total, failed, skipped, unchanged int, kinds event.KindCounts) string {
	s := Number(good) + " of " + Number(total)
	for _, part := range []struct {
		n    int
		what string
	}{{failed, "failed"}, {skipped, "skipped"}, {kinds.Degraded, "degraded"}, {kinds.Recovered, "recovered"}, {kinds.Tolerated, "tolerated"}, {kinds.Incomplete, "incomplete"}, {unchanged, event.Unchanged}} {
		if part.n > 0 {
			s += ", " + Number(part.n) + " " + part.what
		}
	}
	return s
}

// nowSteps speaks of the step that runs, or of the one that continues first.
func (t *Timeline) nowSteps(now time.Time) string {
	var runs, waits *Row
	running := 0
	for _, r := range t.rows {
		if r.Kind != Step {
			continue
		}
		switch {
		case r.Status == event.Running && r.running() != nil:
			running++
			if runs == nil || r.Depth > runs.Depth {
				runs = r
			}
		case r.Status == Waiting:
			if waits == nil || r.last.To.Before(waits.last.To) {
				waits = r
			}
		}
	}
	switch {
	case runs != nil:
		a := runs.running()
		s := fmt.Sprintf("%s is running, attempt %d, for %s", runs.Label, a.N, Short(now.Sub(a.From)))
		if more := running - 1 - runs.Depth; more > 0 {
			s += fmt.Sprintf(", and %s beside it", count(more, "step"))
		}
		return s + "."
	case waits != nil:
		w := waits.last
		if _, ok := waits.Turn(now); ok {
			return waits.Label + " waits for its turn."
		}
		why := map[string]string{event.FromRetryAfter: ", as the other side asked", event.FromRateLimit: ", as of a rate limit", event.FromLimit: ", for its turn", event.FromBudget: ", until its budget allows it"}[w.Source]
		return fmt.Sprintf("%s waits: attempt %d follows in %s%s.", waits.Label, w.Attempt+1, Short(w.To.Sub(now)), why)
	}
	return ""
}

// Short is a duration as a person reads it.
func Short(d time.Duration) string {
	switch d = max(d, 0); {
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	return duration.Format(d)
}

func ago(now, then time.Time) string { return Short(now.Sub(then)) + " ago" }

func count(n int, word string) string { return Number(n) + " " + diag.Plural(n, word) }

// Number is a number with a narrow space before each three digits.
func Number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}
