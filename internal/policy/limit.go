package policy

import (
	"math"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/event"
)

// ramp spaces the first starts.
type ramp struct {
	left int     // starts that are still spaced
	last instant // the latest start; only meaningful once any
	any  bool
}

// Ramp is for how long a start delay holds back starts in all at most: those that
// follow the first one, until as many have begun as may run at once.
func Ramp(delay time.Duration, parallel int, starts int64) time.Duration {
	n := time.Duration(max(min(int64(parallel), starts)-1, 0))
	if n > 0 && delay > math.MaxInt64/n {
		return math.MaxInt64
	}
	return delay * n
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

// RateLimit is the pure machine of the pauses of all agents after rate-limit
// answers. A map's is inside its [Machine]; the steps of a run that are not in a
// map have one of their own. It is not safe for use by several goroutines at
// once.
//
// A round is a pause. Only an answer to an agent that was asked after the latest
// pause says something about whether that pause helped: the others were
// turned away, or let through, by the limit as it was before.
type RateLimit struct {
	maxWait  time.Duration
	schedule *backoff.Schedule
	until    instant // no start before it
	since    instant // first answer of the unbroken series; only while streak > 0
	streak   int     // pauses since an agent last got a different answer
	round    int
	beyond   bool // the pause lasts longer than maxWait: nobody waits for its end
}

// NewRateLimit gives a machine without a pause. maxWait bounds the time from a
// rate-limit answer to the end of the pauses it causes; 0 means
// [DefaultRateLimitMaxWait], negative that there are no pauses.
func NewRateLimit(maxWait time.Duration) RateLimit {
	if maxWait == 0 {
		maxWait = DefaultRateLimitMaxWait
	}
	return RateLimit{maxWait: maxWait, schedule: &pauses, until: longAgo}
}

// SetMaxWait changes the bound, as NewRateLimit has it.
func (l *RateLimit) SetMaxWait(d time.Duration) {
	if d == 0 {
		d = DefaultRateLimitMaxWait
	}
	l.maxWait = d
}

// Ask gives the present round, to be given back with the agent's answer, and
// the end of the pause; the zero time where an agent may be asked now.
func (l *RateLimit) Ask(now time.Time) (round int, until time.Time) {
	if l.until > instantOf(now) {
		return l.round, l.until.time()
	}
	return l.round, time.Time{}
}

// Limited tells that an agent that was asked in a round was turned away. after
// is how long it is to wait; 0 means that it was not said. ok is false where
// the limit outlasts maxWait: a series that begins after its end has all of maxWait.
func (l *RateLimit) Limited(round int, after time.Duration, now time.Time) (ok bool) {
	if l.maxWait < 0 {
		return false
	}
	t := instantOf(now)
	if l.beyond && l.until > t { // it was asked before that was known
		if after > 0 {
			l.until = max(l.until, t.add(after))
			l.since = l.until
		}
		return false
	}
	fresh := round == l.round || t >= l.until
	streak, since := l.streak, l.since
	if fresh {
		streak++
	}
	if l.streak == 0 {
		since = t
	}
	until := l.until
	switch {
	case after > 0:
		until = max(until, t.add(after))
	case fresh:
		until = t.add(l.schedule.Delay(streak, 0, nil))
	}
	ok = until <= min(since, t).add(l.maxWait) // since is later than t where another was turned away before, for longer than maxWait
	if !ok {
		streak, since = 1, until
	}
	if fresh {
		l.round++
	}
	l.streak, l.since = max(streak, 1), since
	l.until, l.beyond = max(l.until, until), !ok
	return ok
}

// TooLong says that nobody waits for the end of the pause: it was longer than maxWait
// when it began, or is from now on, as a run may meet it that is resumed.
func (l *RateLimit) TooLong(now time.Time) bool {
	t := instantOf(now)
	return l.beyond && l.until > t || l.until > t.add(max(l.maxWait, 0))
}

// Answered tells that an agent that was asked in a round got another answer,
// and says whether that ended a series of pauses.
func (l *RateLimit) Answered(round int) bool {
	if round != l.round || l.streak == 0 {
		return false
	}
	l.streak = 0
	return true
}

// Lift ends the pause that lasts: somebody says that the limit is over, and an agent
// that is turned away after it begins a new series of pauses.
func (l *RateLimit) Lift(now time.Time) {
	if t := instantOf(now); l.until > t {
		l.until, l.since, l.streak, l.beyond = t, 0, 0, false
		l.round++
	}
}

// Pause gives what is to be recorded: the zero Pause where no series lasts.
func (l *RateLimit) Pause() event.Pause {
	if l.streak == 0 {
		return event.Pause{}
	}
	return event.Pause{Until: l.until.time(), Since: l.since.time(), Streak: l.streak}
}

// Restore puts the machine where a recorded pause says.
func (l *RateLimit) Restore(p event.Pause) {
	if p.Streak > 0 {
		l.until, l.since, l.streak = instantOf(p.Until), instantOf(p.Since), p.Streak
	}
}

// pauses gives the pause after the nth rate-limit answer in a row that does
// not say how long to wait: 30 s, 1 min, 2 min, … 30 min.
var pauses = backoff.Schedule{
	Strategy: backoff.Exponential{Base: 2},
	Initial:  DefaultRateLimitPause,
	Max:      30 * time.Minute,
}

// shortages gives the pause after the nth shortage in a row.
var shortages = backoff.Schedule{
	Strategy: backoff.Exponential{Base: 2},
	Initial:  100 * time.Millisecond,
	Max:      5 * time.Second,
}

// shortageMaxWait is how long the map waits for a shortage to end.
const shortageMaxWait = time.Minute

// newShortage gives the machine of the pauses after starts for which the system
// had no room: they go as those after rate limits do.
func newShortage() RateLimit {
	return RateLimit{maxWait: shortageMaxWait, schedule: &shortages, until: longAgo}
}

// room is how many agents the system has room for, found out by trying: no more than
// ran when it had none for another, and one more, or an eighth, whenever as many
// have ended. The zero room is one without a bound.
type room struct {
	most int // 0: no bound
	fit  int // that have ended since most last changed
}

func (r *room) full(busy int) bool { return r.most > 0 && busy >= r.most }

// ended tells how an agent ended, how many run on, and how many may.
func (r *room) ended(o Outcome, busy, parallel int) {
	switch {
	case o.Shortage:
		*r = room{most: max(busy, 1)}
	case r.most > 0 && !o.Cancelled:
		if r.fit++; r.fit >= r.most {
			*r = room{most: r.most + 1 + r.most/8}
		}
		if r.most >= parallel {
			*r = room{}
		}
	}
}

// pause puts off all starts, or stops the map where the limit outlasts
// RateLimitMaxWait.
func (m *Machine) pause(v *Verdict, s slot, o Outcome, now time.Time) {
	v.Fate = ItemPaused
	before, going := m.limit.until, m.stop == NotStopped
	m.limited(s.round, o.RetryAfter, now)
	if m.limit.until > before {
		v.PausedUntil = m.limit.until.time()
	}
	if going {
		v.Stop = m.stop
	}
	v.NotBefore, v.Delay = m.limit.until.time(), time.Duration(m.limit.until-instantOf(now))
}

func (m *Machine) limited(round int, after time.Duration, now time.Time) bool {
	was := m.limit.round
	ok := m.limit.Limited(round, after, now)
	if m.limit.round != was {
		m.refused(now)
		m.ramp.left = m.cfg.MaxParallel
	}
	if !ok && m.cfg.RateLimitMaxWait > 0 {
		m.Halt(ByRateLimit)
	}
	return ok
}

// Ask is [RateLimit.Ask] for an agent that runs and is about to ask again.
func (m *Machine) Ask(now time.Time) (round int, until time.Time) { return m.limit.Ask(now) }

// TooLong is [RateLimit.TooLong] for such an agent.
func (m *Machine) TooLong(now time.Time) bool { return m.limit.TooLong(now) }

// Limited tells that an agent that runs was turned away by a rate limit, and
// waits where it is: no agent starts before the end of the pause. ok is false
// where it does not wait: the limit outlasts RateLimitMaxWait, and the map
// stops, or there are no pauses.
func (m *Machine) Limited(round int, after time.Duration, now time.Time) (ok bool) {
	return m.limited(round, after, now)
}

// Answered is [RateLimit.Answered] for an agent that runs.
func (m *Machine) Answered(round int) bool { return m.limit.Answered(round) }
