package workflow

import (
	"slices"
	"time"
)

// attemptTimeouts reads the timeouts of a step's attempts.
func (d *decoder) attemptTimeouts(n *node, key string) []time.Duration {
	list, _ := d.spans(n, key)
	for i, t := range list {
		if t == 0 {
			d.errorf(n, "out-of-range", "the timeout of attempt %d is 0; it must be more than that", i+1).Suggest("for example: timeout_by_attempt: [30s, 2m]")
			return nil
		}
	}
	return list
}

// attemptEnvs reads the environments of a step's attempts.
func (d *decoder) attemptEnvs(n *node, key string) (envs [][]EnvVar) {
	if n.kind != listNode {
		d.wrong(n, key, "a list of environments").Suggest("for example: env_by_attempt: [{LEVEL: low}, {LEVEL: high}]")
	}
	for _, it := range n.items {
		envs = append(envs, d.env(it))
	}
	return envs
}

// stall reads how long a step may print nothing.
func (d *decoder) stall(o *object, key string, n *node, s *Step) {
	if s.Stall = d.spanOf(o.row(key), n, key); !s.Stall.Set {
		return
	}
	switch s.Action.(type) {
	case *HTTP, *WriteFile, *Analyze:
		d.warnf(o.keyNode(key), "no-effect", "%s has no effect here: only commands and agents print something while they run", key).Suggest("write timeout: in its place")
	}
}

// continueSession reads whether an agent continues with its session.
func (d *decoder) continueSession(o *object, key string, n *node, c *Claude) {
	if c.ContinueSession, _ = d.flag(o, d.resolved(n), key); !c.ContinueSession {
		return
	}
	a := d.file.Agents[c.Provider]
	if a == nil {
		return
	}
	if len(a.FirstOf) > 0 {
		d.errorf(o.keyNode(key), "unsupported", key+": a session does not go from one agent to another, and %q is a chain", c.Provider).
			Suggest("remove it; ${last.error} tells the next attempt what happened")
		return
	}
	if !a.asksPermissions() || a.Output != "stream-json" || a.BuiltIn && a.Name != "claude" {
		d.errorf(o.keyNode(key), "unsupported", key+": the agent %q gives no session to continue", c.Provider).
			Suggest("it works with the claude program and output: stream-json")
	}
}

// ForAttempt gives the element for attempt n, from 1; the zero value where the
// list has none.
func ForAttempt[T any](list []T, n int) (v T) {
	if len(list) == 0 {
		return v
	}
	return list[min(max(n, 1), len(list))-1]
}

// EnvOf is a step's environment in attempt n.
func (s *Step) EnvOf(n int) []EnvVar {
	if len(s.Envs) == 0 {
		return s.Env
	}
	return slices.Concat(s.Env, ForAttempt(s.Envs, n))
}
