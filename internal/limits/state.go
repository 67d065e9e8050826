package limits

import (
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
)

// State is what a limit remembers between attempts. Its methods are the decision
// whether one may begin; they read no clock and change nothing but the State.
type State struct {
	// Next is when the next attempt of a rate may begin.
	Next time.Time `json:"next,omitzero"`
	// PausedUntil is the end of a pause, PausedBy the run that was told to wait, and
	// Why what it was told.
	PausedUntil time.Time `json:"paused_until,omitzero"`
	PausedBy    string    `json:"paused_by,omitempty"`
	Why         string    `json:"why,omitempty"`
	// Waits is how many waits for the limit have ended, Waited how long they were together,
	// and Pauses how often somebody was told to wait so that all do, or for longer.
	Waits  int           `json:"waits,omitempty"`
	Waited time.Duration `json:"waited_ns,omitempty"`
	Pauses int           `json:"pauses,omitempty"`
}

// Block is what keeps an attempt from beginning.
type Block struct {
	Limit string
	// Until is when to ask again at the latest; zero: it is not known.
	Until time.Time
	// Paused, Full and Rated say which of the bounds it is; it is one of them.
	Paused, Full, Rated bool
	Slots, Held         int
	Before              int      // of the same run that go before it, where that alone is known
	By                  []string // the runs that have the slots, or the one that was told to wait
	Why                 string   // of a pause
}

// interval is the time between two attempts of a rate. It is 2 % more than the part
// of the period: the other side counts what arrives, which is not quite when it
// began, and must not find one more in a period.
func (l Limit) interval() time.Duration { return l.Per / time.Duration(l.Rate) * 102 / 100 }

// next is when the next attempt of a rate may begin. What begins somewhat late costs the rate
// nothing: the one after it does not wait for that. That is a hundredth of the period at most,
// half of what interval adds, so that no period has one more; a longer rest saves nothing up.
func (s *State) next(l Limit, now time.Time) time.Time {
	if s.Next.Before(now.Add(-l.Per / 100)) {
		return now
	}
	return s.Next
}

// Ask says what keeps an attempt from beginning at a time: nil for nothing. held is
// how many slots are taken, and ahead how many attempts go before it.
func (s *State) Ask(l Limit, now time.Time, held, ahead int) *Block {
	b := &Block{Limit: l.Name, Slots: l.Slots, Held: held}
	if l.Shared && now.Before(s.PausedUntil) {
		b.Paused, b.Until, b.Why, b.By = true, s.PausedUntil, s.Why, []string{s.PausedBy}
		return b
	}
	if l.Slots > 0 && l.Slots-held <= ahead {
		b.Full = true
		return b
	}
	if l.Rate > 0 {
		every := l.interval()
		if most := now.Add(every); s.Next.After(most) { // the clock was set back
			s.Next = most
		}
		if next := s.next(l, now).Add(every * time.Duration(ahead)); next.After(now) {
			b.Rated, b.Until = true, next
			return b
		}
	}
	return nil
}

// Begin takes a token of the rate at a time at which Ask gave nil.
func (s *State) Begin(l Limit, now time.Time) {
	if l.Rate > 0 {
		s.Next = s.next(l, now).Add(l.interval())
	}
}

// Pause prolongs the pause to a time, if it does not last longer already.
func (s *State) Pause(until time.Time, by, why string) bool {
	if !until.After(s.PausedUntil) {
		return false
	}
	s.PausedUntil, s.PausedBy, s.Why = until, by, why
	s.Pauses++
	return true
}

// Lift ends the pause that lasts at a time, and says whether one did.
func (s *State) Lift(now time.Time) bool {
	lasted := now.Before(s.PausedUntil)
	s.PausedUntil, s.PausedBy, s.Why = time.Time{}, "", ""
	return lasted
}

// String says for what is waited, as in "anthropic: 6 of 6 held by 01M8…, 01M9…".
func (b *Block) String() string {
	switch {
	case b.Paused:
		text := fmt.Sprintf("%s: paused until %s", b.Limit, b.Until.Local().Format("15:04:05"))
		if b.By[0] != "" {
			text += ", as run " + b.By[0] + " was told to wait"
		}
		return text
	case b.Full && b.Held < b.Slots:
		return fmt.Sprintf("%s: %d of %d held, and others are next", b.Limit, b.Held, b.Slots)
	case b.Full:
		text := fmt.Sprintf("%s: %d of %d held", b.Limit, b.Held, b.Slots)
		if len(b.By) > 0 {
			text += " by " + strings.Join(b.By, ", ")
		}
		return text
	}
	if b.Rated {
		return b.Limit + ": its rate lets the next begin at " + b.Until.Local().Format("15:04:05")
	}
	return fmt.Sprintf("%s: %s of this run before it", b.Limit, diag.Count(b.Before, "attempt"))
}

// For is the source of the wait, as the facts name it.
func (b *Block) For() string {
	if b.Rated || b.Paused {
		return event.FromRateLimit
	}
	return event.FromLimit
}
