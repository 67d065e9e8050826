package timeline

import (
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// leastTurn is how long a step has to wait for its turn for that to be told,
// where nothing says that it waited.
const leastTurn = 20 * time.Millisecond

// Spent says how long a row has run and how long it has waited, up to a time
// where it has not ended. Of a list, it has run while a call of it did; a phase
// runs from its start to its end.
func (r *Row) Spent(now time.Time) (ran, waited time.Duration) {
	if r.Began.IsZero() {
		return 0, 0
	}
	if r.Kind == List {
		end := r.Ended
		if end.IsZero() {
			end = now
		}
		if ran = r.ran; r.active > 0 {
			ran += max(0, now.Sub(r.since))
		}
		return ran, max(0, end.Sub(r.Began)-ran)
	}
	ran, waited = r.ran, r.waited
	if a := r.running(); a != nil {
		ran += max(0, now.Sub(a.From))
	}
	if r.Status == Waiting {
		waited -= max(0, r.last.To.Sub(now)) // what is still to come
	}
	if w, ok := r.Turn(now); ok {
		waited += w.To.Sub(w.From)
	}
	return ran, waited
}

// Turn is the wait for its turn in which a step is at a time, if it is in one:
// it has begun, or its next attempt is due, and that has not begun.
func (r *Row) Turn(now time.Time) (Wait, bool) {
	if r.Status != Waiting {
		return Wait{}, false
	}
	from := r.queued
	if r.last.To.After(from) {
		from = r.last.To
	}
	if from.IsZero() || !now.After(from) {
		return Wait{}, false
	}
	return Wait{From: from, To: now, Source: event.FromLimit, Attempt: r.Tries}, true
}

// turn is the source of a step's wait for its turn.
func (t *Timeline) turn(r *Row) string {
	if r.cut != "" {
		return r.cut
	}
	if n := len(t.Pauses); n > 0 && !r.queued.IsZero() && t.Pauses[n-1].To.After(r.queued) {
		return event.FromRateLimit
	}
	return event.FromLimit
}

// waits adds a wait to a row.
func (t *Timeline) waits(r *Row, w Wait) {
	if len(r.Waits) < maxSpans {
		r.Waits = append(r.Waits, w)
	}
	r.last = w
	r.waited += w.To.Sub(w.From)
	t.sum(w)
}

// stopWaiting ends at a time the wait that a row is in, if it is in one: its
// process has ended, or it continues earlier.
func (t *Timeline) stopWaiting(r *Row, at time.Time) bool {
	early := r.last.To.Sub(at)
	if early <= 0 || at.Before(r.last.From) {
		return false
	}
	r.last.To = at
	r.waited -= early
	if n := len(r.Waits); n > 0 && r.Waits[n-1].From.Equal(r.last.From) {
		r.Waits[n-1].To = at
	}
	s := t.Waited[r.last.Source]
	s.Total -= early
	t.Waited[r.last.Source] = s
	return true
}

// paused adds a pause for a rate limit; one that begins before the last has ended
// prolongs it.
func (t *Timeline) paused(from, to time.Time) {
	t.limit = to
	n := len(t.Pauses)
	if n == 0 || t.Pauses[n-1].To.Before(from) {
		t.Pauses = append(t.Pauses, Wait{From: from, To: to, Source: event.FromRateLimit})
		t.sum(t.Pauses[n])
		return
	}
	last := &t.Pauses[n-1]
	s := t.Waited[last.Source]
	s.Total += max(0, to.Sub(last.To))
	t.Waited[last.Source] = s
	if to.After(last.To) {
		last.To = to
	}
}

// stopPause ends at a time the pause that lasts, if one does.
func (t *Timeline) stopPause(at time.Time) {
	n := len(t.Pauses)
	if n == 0 || !t.Pauses[n-1].To.After(at) || at.Before(t.Pauses[n-1].From) {
		return
	}
	last := &t.Pauses[n-1]
	s := t.Waited[last.Source]
	s.Total -= last.To.Sub(at)
	t.Waited[last.Source] = s
	last.To = at
}

// goOn ends the pause for good: a resume does not continue with it.
func (t *Timeline) goOn(at time.Time) {
	t.stopPause(at)
	t.limit = time.Time{}
}

// retryNow ends all that waits for a time: somebody asked for it.
func (t *Timeline) retryNow(at time.Time) {
	t.goOn(at)
	for _, r := range t.rows {
		if r.Status == Waiting {
			t.stopWaiting(r, at)
		}
	}
}

// sum adds a wait to those of its source.
func (t *Timeline) sum(w Wait) {
	s := t.Waited[w.Source]
	s.Count++
	s.Total += w.To.Sub(w.From)
	t.Waited[w.Source] = s
}

type span struct{ from, to time.Time }

// spans are times apart from each other, in order.
type spans []span

// add adds a time. Most come at the end.
func (s *spans) add(from, to time.Time) {
	if to.Before(from) {
		return
	}
	list := *s
	i := len(list)
	for i > 0 && !list[i-1].to.Before(from) {
		i--
	}
	j := i
	for ; j < len(list) && !list[j].from.After(to); j++ {
		if list[j].from.Before(from) {
			from = list[j].from
		}
		if list[j].to.After(to) {
			to = list[j].to
		}
	}
	*s = slices.Replace(list, i, j, span{from, to})
}
