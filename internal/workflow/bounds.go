package workflow

import (
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
)

// How often the parts of a step run at most, and what bounds them: the executor
// goes by these rules, and `bide explain` counts by them.

// Rounds is how often a step is begun at most: again after its handler, where that
// is its repair.
func (s *Step) Rounds() int {
	if h := s.OnFailure; h != nil && h.Rerun {
		return max(1, h.MaxAttempts)
	}
	return 1
}

// Handlings is how often the handler of a step runs at most.
func (s *Step) Handlings() int {
	switch h := s.OnFailure; {
	case h == nil || h.Ignore:
		return 0
	case h.Rerun:
		return s.Rounds() - 1
	}
	return 1
}

// Recovers reports whether a handler that ends well makes up for the failure. One
// that repairs does not: only a run of its step that ends well does.
func (h *Handler) Recovers() bool {
	return !h.Rerun && !h.FailWorkflow && h.Strategy != "cleanup"
}

// Tolerated reports whether the next step runs although this one has failed, what
// its retry policy says aside.
func (s *Step) Tolerated() bool {
	h := s.OnFailure
	return s.MayFail || h != nil && (h.Ignore || h.Rerun && !h.FailWorkflow)
}

// Unmended reports whether a failure of this step is tolerated by a default alone:
// its repair did not mend it, and the file says of neither that it may fail.
func (s *Step) Unmended() bool {
	return !s.MayFail && s.OnFailure != nil && s.OnFailure.LetsPass
}

// Completions is how often a validation is completed at most, and then made again.
func (v *Validate) Completions() int {
	inc := v.OnIncomplete
	if inc == nil || len(inc.Steps) == 0 && inc.Prompt == nil {
		return 0
	}
	return max(1, inc.MaxAttempts)
}

// Required reports whether a validation that stays below its threshold fails.
func (v *Validate) Required() bool { return v.OnIncomplete == nil || v.OnIncomplete.FailWorkflow }

// Rounds is how often the checks are made at most.
func (c *StepValidate) Rounds() int { return max(1, c.MaxAttempts) }

// Rounds is how often the goal is attempted at most.
func (g *GoalSeek) Rounds() int { return max(1, g.MaxAttempts) }

// ItemRetry is the policy under which the agents of an item are started again, nil
// where the first is the only one.
func (p ErrorPolicy) ItemRetry() *retry.Policy {
	pol := policy.DefaultRetry()
	switch {
	case p.Retry != nil:
		pol = p.Retry.Policy()
	case p.OnItemFailure != "retry":
		return nil
	}
	return &pol
}

// Command reports whether the values are what a command prints, and not those of
// a list or of a variable. A variable that nothing has set is taken for a command.
func (f *Foreach) Command() bool { return f.Text != nil && !f.Text.IsReference() }

// FindsWidth reports whether a file, or one that it calls, has a map or a foreach that finds
// out how many run at once, and begins with as many as there are processors.
func FindsWidth(f *File) (finds bool) {
	for _, f := range Files(f) {
		finds = finds || f.Map != nil && f.Map.Adaptive != nil && f.Map.Adaptive.Min == 0
		Walk(f, func(s *Step) {
			each, is := s.Action.(*Foreach)
			finds = finds || is && each.Adaptive != nil && each.Adaptive.Min == 0
		})
	}
	return finds
}

// Timeouts are those of a call of the workflow, of which the shorter one counts.
func (w *SubWorkflow) Timeouts() [2]Duration { return [2]Duration{w.Timeout, w.File.Timeout} }

// Batches are the workflows of a list that run before the steps, each batch after
// the one before it: those of one batch run at once, where all of them are marked
// parallel, else it is one workflow. circle are those that wait for each other.
func Batches(list []*SubWorkflow) (batches [][]*SubWorkflow, circle []*SubWorkflow) {
	todo := value.Filter(list, func(w *SubWorkflow) bool { return w.Run })
	done := map[string]bool{}
	for len(todo) > 0 {
		var ready, rest []*SubWorkflow
		for _, w := range todo {
			if w.ready(done) && (len(ready) == 0 || w.Parallel && ready[0].Parallel) {
				ready = append(ready, w)
			} else {
				rest = append(rest, w)
			}
		}
		if len(ready) == 0 {
			return batches, todo
		}
		for _, w := range ready {
			done[w.Name] = true
		}
		batches, todo = append(batches, ready), rest
	}
	return batches, nil
}

func (w *SubWorkflow) ready(done map[string]bool) bool {
	return !slices.ContainsFunc(w.DependsOn, func(name string) bool { return !done[name] })
}

// Limits are the timeout of an agent, and those of its commands by their kind,
// name or id, as timeout_policy says.
func (m *Map) Limits() (agent Duration, commands map[string]Duration) {
	commands = map[string]Duration{}
	if m.TimeoutPolicy == "per_command" || m.TimeoutPolicy == "hybrid" {
		for _, kind := range []string{"shell", "claude", "http"} {
			commands[kind] = m.AgentTimeout
		}
	}
	maps.Copy(commands, m.CommandTimeouts)
	if m.TimeoutPolicy != "per_command" {
		agent = m.AgentTimeout
	}
	return agent, commands
}

// CommandLimit is what bounds an action of a step among the limits of a map: what
// its id has, else what its name has, else what its kind has. The zero T is none.
func CommandLimit[T any](limits map[string]T, s *Step, a Action) (limit T) {
	limit = limits[a.Kind()]
	for _, name := range []string{s.Name, s.ID} {
		if own, ok := limits[name]; ok && name != "" {
			limit = own
		}
	}
	return limit
}

// MaxCheckRounds is how often the checks of an item run at most, where a handler of one
// mends what it found: each time upon what was mended.
const MaxCheckRounds = 3
