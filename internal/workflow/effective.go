package workflow

import (
	"strings"

	"github.com/bide-dev/bide/retry"
)

// Policy gives the policy of package retry that a policy of a file stands for.
// A nil Retry is one attempt. Timeout, breaker and quota are left out: they
// belong to who makes the attempts.
func (r *Retry) Policy() retry.Policy {
	if r == nil {
		return retry.Policy{Attempts: 1}
	}
	return retry.Policy{Attempts: r.Attempts, Backoff: r.Backoff, Budget: r.Budget, RetryAfterMax: r.RetryAfterMax,
		RetryOn: anyOf(r.RetryOn), AbortOn: anyOf(r.AbortOn)}
}

func anyOf(list []Matcher) retry.Matcher {
	if len(list) == 0 {
		return nil
	}
	ms := make([]retry.Matcher, len(list))
	for i, m := range list {
		ms[i] = m.Match
	}
	return retry.Any(ms...)
}

// Label is what a person knows a step by: its name, its id, or the first line
// of what it does, in at most 72 characters.
func (s *Step) Label() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.ID != "":
		return s.ID
	}
	text, _, _ := strings.Cut(strings.TrimSpace(ActionText(s.Action)), "\n")
	if r := []rune(text); len(r) > 72 {
		text = string(r[:69]) + "..."
	}
	return text
}

// ActionText says what an action does: the text of a command or prompt, the
// target of others.
func ActionText(action Action) string {
	switch a := action.(type) {
	case *Shell:
		return a.Text.String()
	case *Claude:
		return a.Text.String()
	case *HTTP:
		return a.Method + " " + a.URL.String()
	case *WriteFile:
		return "write " + a.Path.String()
	case *Call:
		return "workflow " + a.Workflow
	case *Pipeline:
		return "pipeline " + a.File.String()
	}
	return action.Kind()
}

// NeedsIsolation reports whether a file has agents, commits or a merge block:
// work that should not be done in the user's own tree.
func NeedsIsolation(f *File) bool {
	need := f.Merge != nil
	WalkAll(f, func(s *Step) {
		_, agent := s.Action.(*Claude)
		need = need || agent || s.CommitRequired || s.AutoCommit != nil
	})
	return need
}
