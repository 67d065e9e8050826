package driver

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bide-dev/bide/backoff"
)

// Rule is a policy for errors of a kind; see Policy.Rules.
type Rule struct {
	// On accepts the errors that the rule is for. It must not be nil.
	On Matcher

	// Attempts is the greatest number of executions that may fail with such an
	// error: 1 means that it is not retried, 0 that Policy.Attempts alone
	// bounds them.
	Attempts int

	// Backoff gives the delays after such errors, counted by the rule's own
	// failed attempts. nil means the Backoff of the policy.
	Backoff *backoff.Schedule

	// Budget bounds the sum of the delays after such errors. 0 means that
	// Policy.Budget alone bounds them.
	Budget time.Duration
}

// RuleState is what a [Machine] remembers of one rule.
type RuleState struct {
	// Attempt is the number of attempts that have failed under the rule.
	Attempt int `json:"attempt"`
	// Slept is the sum of the delays decided by it.
	Slept time.Duration `json:"slept,omitempty"`
	// Prev is its last delay.
	Prev time.Duration `json:"prev,omitempty"`
}

// validate reports every problem of the rule with that index.
func (r *Rule) validate(p *Policy, index int) error {
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("retry: Rules[%d]."+format, append([]any{index}, args...)...))
	}
	if r.On == nil {
		problem("On is nil; it must say which errors the rule is for")
	}
	if r.Attempts < 0 {
		problem("Attempts is %d; it must be 1 or more, or 0 for no bound of its own", r.Attempts)
	} else if p.Attempts > 0 && r.Attempts > p.Attempts {
		problem("Attempts is %d, but the policy's Attempts of %d bound it; raise those", r.Attempts, p.Attempts)
	}
	if r.Budget < 0 {
		problem("Budget is %v; it must be positive, or 0 for no bound of its own", r.Budget)
	} else if p.Budget > 0 && r.Budget > p.Budget {
		problem("Budget is %v, but the policy's Budget of %v bounds it; raise that", r.Budget, p.Budget)
	}
	if r.Backoff != nil {
		if err := r.Backoff.Validate(); err != nil {
			problem("Backoff: %w", err)
		}
	}
	return errors.Join(problems...)
}

// rule returns the index of the first rule that accepts err, or -1.
func (p *Policy) rule(err error) int {
	for i := range p.Rules {
		if p.Rules[i].On(err) {
			return i
		}
	}
	return -1
}

// count counts a failed attempt of the rule i and returns its state.
func (s *State) count(p *Policy, i int) *RuleState {
	if len(s.Rules) <= i {
		s.Rules = append(slices.Clone(s.Rules), make([]RuleState, len(p.Rules)-len(s.Rules))...)
	}
	r := &s.Rules[i]
	r.Attempt++
	return r
}
