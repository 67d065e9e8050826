package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/workflow"
)

// preflight reports, before anything starts, the agents and the limits of the machine
// that steps need and that are not there.
func preflight(opt Options) error {
	f, environ := opt.File, opt.Environ
	inside := opt.pipelines()
	agents := inside.Agents(f)
	need := map[string]string{} // program: agent
	var ask func(name string)
	ask = func(name string) {
		name = cmp.Or(name, action.DefaultAgent)
		cfg := cmp.Or(agents[name], workflow.BuiltIn(name))
		if cfg != nil {
			for _, r := range cfg.FirstOf {
				ask(r.Name)
			}
		}
		switch {
		case cfg != nil && len(cfg.Command) > 0 && cfg.Command[0].IsLiteral():
			need[cfg.Command[0].String()] = name
		}
	}
	workflow.WalkAll(f, func(s *workflow.Step) {
		if a, ok := s.Action.(*workflow.Claude); ok {
			ask(a.Provider)
		}
		if a, ok := s.Retry.FallbackAction().(*workflow.Claude); ok {
			ask(a.Provider)
		}
	})
	for _, pl := range inside.Loaded {
		pl.Agents(ask)
	}
	errs := []error{inside.Err(), inside.UnknownAgents(f).Err()}
	for _, program := range slices.Sorted(maps.Keys(need)) {
		if _, err := proc.LookPath(program, environ); err != nil {
			errs = append(errs, fmt.Errorf("the agent %s is needed by a step, but its program %s was not found: install it, or configure another command under `agents:` in %s", need[program], program, f.Path))
		}
	}
	if refs := inside.Limits(f); len(refs) > 0 {
		c, err := limits.Read(opt.Store.Dir)
		if err == nil {
			err = inside.LimitProblems(f, c).Err()
		}
		errs = append(errs, err, limits.HeldAround(opt.Store.Dir, proc.Getenv(environ, limits.AroundEnv), workflow.LimitNames(refs)))
	}
	switch {
	case opt.Canary == 0:
	case f.Map == nil:
		errs = append(errs, fmt.Errorf("--canary: %s has no map whose first items could run alone", f.Path))
	case opt.Canary > policy.MaxCanaries:
		errs = append(errs, fmt.Errorf("--canary is %d; it can be at most %d", opt.Canary, policy.MaxCanaries))
	}
	return errors.Join(errs...)
}
