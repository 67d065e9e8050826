package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bide-dev/bide/retry"
)

// Set are the limits of one attempt, as [Join] orders them: throttles first, then
// slots, then rates. It is safe for concurrent use; the nil Set bounds nothing.
type Set []*Limit

// Request is who asks.
type Request struct {
	// Priority is greater for whoever is to be let through sooner.
	Priority int
	// Queued, if not nil, is called before each wait with the limit that is
	// waited for and, if it is known, for how long. It has its place in the queue by
	// then, and no lock is held.
	Queued func(l *Limit, d time.Duration)
}

// Result is how an attempt went, for limits that learn from it.
type Result struct {
	// Took is how long it took; 0 if it is not known.
	Took time.Duration
	// Err is how it failed, nil if it did not. One that [retry.RateLimit] or
	// [retry.Timeout] accepts says that the target has too much to do.
	Err error
	// Ignore is whether it says nothing about the target.
	Ignore bool
}

// overloaded reports whether the target has too much to do.
func (r Result) overloaded() bool {
	return r.Err != nil && (retry.RateLimit(r.Err) || retry.Timeout(r.Err))
}

// Join returns the set of some limits, each of them once. The error names every
// limit that is nil or was not made, or is on another clock than the first.
func Join(limits ...*Limit) (Set, error) {
	var problems []error
	var s Set
	for _, l := range limits {
		if err := l.made(); err != nil {
			problems = append(problems, err)
		} else if len(s) > 0 && l.c.Clock != s[0].c.Clock {
			problems = append(problems, fmt.Errorf("limit: %s and %s are on different clocks; give both the same", s[0], l))
		} else if !slices.Contains(s, l) {
			s = append(s, l)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	slices.SortFunc(s, func(a, b *Limit) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
	})
	return s, nil
}

// Try takes one of each limit if all have one now, and reports whether it did.
func (s Set) Try() bool {
	for i, l := range s {
		if !l.take() {
			s[:i].Cancel()
			return false
		}
	}
	return true
}

// take takes one of each limit but that at the index had, or none, and returns
// the index of the first that has none, or -1.
func (s Set) take(had int) int {
	for i, l := range s {
		if i == had || l.take() {
			continue
		}
		for j, taken := range s[:i] {
			if j != had {
				taken.untake()
			}
		}
		return i
	}
	return -1
}

// moves is how often a waiter goes from one queue to another before it keeps
// what it gets.
const moves = 8

// Acquire takes one of each limit together, as soon as all have one for this
// request. The error is an *[Error] if a limit refuses, or the cause of ctx;
// with it nothing is taken. What was taken is given back with [Set.Release], or
// with [Set.Cancel] if the attempt does not begin.
func (s Set) Acquire(ctx context.Context, r Request) error {
	if ctx == nil {
		return errNilContext
	}
	lacks := s.take(-1)
	if lacks < 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w := newWaiter(r.Priority, s[lacks].now())
	for range moves {
		if err := s[lacks].wait(ctx, w, &r); err != nil {
			return err
		}
		next := s.take(lacks)
		if next < 0 {
			return nil
		}
		s[lacks].untake()
		lacks = next
	}
	return s.inOrder(ctx, w, &r)
}

// inOrder takes slots one after the other and keeps them, in the one order of
// all sets, so that no two wait for each other. Tokens are taken at the end.
func (s Set) inOrder(ctx context.Context, w *waiter, r *Request) error {
	slots := slices.IndexFunc(s, (*Limit).IsRate)
	if slots < 0 {
		slots = len(s)
	}
	for i, l := range s[:slots] {
		if l.take() {
			continue
		}
		if err := l.wait(ctx, w, r); err != nil {
			s[:i].Cancel()
			return err
		}
	}
	rates := s[slots:]
	for lacks := rates.take(-1); lacks >= 0; {
		if err := rates[lacks].wait(ctx, w, r); err != nil {
			s[:slots].Cancel()
			return err
		}
		next := rates.take(lacks)
		if next >= 0 {
			rates[lacks].untake()
		}
		lacks = next
	}
	return nil
}

// Release ends an attempt.
func (s Set) Release(r Result) {
	for i, l := range s {
		if l.learns() {
			s[i:].learn(r)
			return
		}
		l.release()
	}
}

// learn is Release for a set whose first limit learns how the attempt went, from what
// methods of its error and RefusedIf say, which may panic.
func (s Set) learn(r Result) {
	defer s[1:].Release(r)
	s[0].learn(r)
}

// learn is release for a limit that learns how the attempt went.
func (l *Limit) learn(r Result) {
	defer l.release()
	if l.adapt != nil {
		l.adapt.sample(l, r)
	} else {
		l.throttle.sample(l.now(), r)
	}
}

// Cancel gives everything back, tokens too: the attempt did not begin.
func (s Set) Cancel() {
	for _, l := range s {
		l.untake()
	}
}

// Adaptive reports whether Release is to be told how attempts went.
func (s Set) Adaptive() bool { return slices.ContainsFunc(s, (*Limit).learns) }

func (l *Limit) learns() bool { return l.adapt != nil || l.throttle != nil }
