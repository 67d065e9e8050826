package policy

import (
	"time"

	"github.com/bide-dev/bide/backoff"
)

// ramp spaces the first starts.
type ramp struct {
	left int     // starts that are still spaced
	last instant // the latest start; only meaningful once any
	any  bool
}

func (r *ramp) notBefore(delay time.Duration) instant {
	if !r.any || r.left <= 0 || delay <= 0 {
		return longAgo
	}
	return r.last.add(delay)
}

func (r *ramp) started(t instant) {
	r.last, r.any = t, true
	if r.left > 0 {
		r.left--
	}
}

// rateLimit is the pause of all agents after a rate-limit answer.
//
// A round is a pause. Only an answer to an agent that started after the latest
// pause says something about whether that pause helped: the others were
// turned away, or let through, by the limit as it was before.
type rateLimit struct {
	until  instant // no start before it
	since  instant // first answer of the unbroken series; only while streak > 0
	streak int     // pauses since an agent last got a different answer
	round  int
}

// answered tells that an agent of a round got an answer that is no rate limit.
func (l *rateLimit) answered(round int) {
	if round == l.round {
		l.streak = 0
	}
}

// pauses gives the pause after the nth rate-limit answer in a row that does
// not say how long to wait: 30 s, 1 min, 2 min, … 30 min.
var pauses = backoff.Schedule{
	Strategy: backoff.Exponential{Base: 2},
	Initial:  DefaultRateLimitPause,
	Max:      30 * time.Minute,
}

// pause puts off all starts, or stops the map where the limit outlasts
// RateLimitMaxWait.
func (m *Machine) pause(v *Verdict, s slot, o Outcome, now time.Time) {
	l, t := &m.limit, instantOf(now)
	v.Fate = ItemPaused
	fresh := s.round == l.round || t >= l.until
	streak, since := l.streak, l.since
	if fresh {
		streak++
	}
	if l.streak == 0 {
		since = t
	}
	until := l.until
	switch {
	case o.RetryAfter > 0:
		until = max(until, t.add(o.RetryAfter))
	case fresh:
		until = t.add(pauses.Delay(streak, 0, nil))
	}
	if until > since.add(m.cfg.RateLimitMaxWait) {
		if m.stop == NotStopped {
			m.stop, v.Stop = ByRateLimit, ByRateLimit
		}
		// A resume keeps to the limit's end, and has max_wait anew after it.
		streak, since = 1, until
	}
	if fresh {
		l.round++
		m.ramp.left = m.cfg.MaxParallel
	}
	l.streak, l.since = max(streak, 1), since
	if until > l.until {
		l.until = until
		v.PausedUntil = until.time()
	}
	v.NotBefore, v.Delay = l.until.time(), time.Duration(l.until-t)
}
