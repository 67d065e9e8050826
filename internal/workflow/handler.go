package workflow

import (
	"slices"

	"github.com/bide-dev/bide/internal/value"
)

// repairAttempts is how often a step runs in all where its on_failure is an
// agent that repairs and says nothing about it.
const repairAttempts = 3

// handler reads on_failure in any of its forms.
//
// A handler that is an agent ({claude: …}) is a repair: the step runs again
// after it, three times in all where nothing is said. So does any form with
// max_attempts above one or retry_original. All others run once in the place
// of the failed step, which is then recovered if the handler ends well.
func (d *decoder) handler(n *node, path string) *Handler {
	h := &Handler{Pos: n.pos, MaxAttempts: 1, Strategy: "recovery"}
	r := d.resolved(n)
	switch {
	case r.kind == boolNode:
		if !isTrue(r) {
			return nil // on_failure: false is the same as none
		}
		h.Ignore = true
		return h
	case n.kind == mapNode:
		return d.handlerMap(n, path, h)
	case n.kind == nullNode:
		return nil
	}
	h.Steps = d.steps(n, path, bareShell)
	if len(h.Steps) == 0 {
		if n.kind == listNode && len(n.items) == 0 {
			d.errorf(n, "empty-action", "the on_failure has no steps").Suggest("write what to do, or on_failure: true to continue")
		}
		return nil
	}
	return h
}

// onFailure reads the handler of a step.
func (d *decoder) onFailure(n *node, s *Step) *Handler {
	d.handlersOpen++
	defer func() { d.handlersOpen-- }()
	return d.handler(n, s.Path+".on_failure")
}

func (d *decoder) handlerMap(n *node, path string, h *Handler) *Handler {
	o, _ := d.object(n, append([]*table{handlerTable}, d.stepTables()...)...) // it is a map
	defer o.close()
	attempts, written := o.integer("max_attempts")
	again := o.yes("retry_original")
	handlerTable.read(o, h)
	if v := o.peek("capture"); v != nil && v.kind == mapNode {
		o.skip("capture")
		h.Captures = make(map[string]string, len(v.pairs))
		for _, p := range v.pairs {
			if !p.val.scalar() {
				d.wrong(p.val, "capture", "the name of a variable").Suggest("for example: capture: {why: error.message}")
				continue
			}
			d.named(p.key.text)
			h.Captures[p.key.text] = value.Text(p.val.value())
		}
	}
	h.Steps = d.handlerSteps(o, path)
	if len(h.Steps) == 0 {
		if !o.has(actionKeys...) && !o.has("commands", "steps", "name") {
			return d.stepless(o, h, written)
		}
		return nil
	}
	repair := !o.has("commands", "steps") && slices.ContainsFunc(h.Steps, isAgent)
	switch {
	case written:
		h.MaxAttempts = attempts
	case repair:
		h.MaxAttempts = repairAttempts
	case again:
		h.MaxAttempts = 2
	}
	h.Rerun = h.MaxAttempts > 1
	h.LetsPass = h.Rerun && !o.has("fail_workflow")
	return h
}

func isAgent(s *Step) bool { _, ok := s.Action.(*Claude); return ok }

// handlerSteps reads the steps of a handler: a list, or the one step whose keys
// stand among the handler's.
func (d *decoder) handlerSteps(o *object, path string) []*Step {
	if key, n := o.first("commands"); n != nil {
		if o.has("shell", "claude") {
			d.errorf(n, "several-actions", "the on_failure has %s and an action beside it", key).Suggest("put all of them into %s", key)
			o.skip("shell", "claude")
		}
		return d.steps(n, path, bareShell)
	}
	if !o.has("name", "validate") && !slices.ContainsFunc(o.n.pairs, func(p pair) bool { return d.isAction(p.key.text) }) {
		return nil
	}
	if o.has("shell") && o.has("claude") {
		return d.both(o, path)
	}
	if s := d.stepFrom(o, path+"[0]"); s != nil {
		return []*Step{s}
	}
	return nil
}

// stepless is an on_failure map without steps: {fail_workflow: …} alone says
// whether the failure ends the workflow, {max_attempts: N} alone runs the step
// again.
func (d *decoder) stepless(o *object, h *Handler, attempts bool) *Handler {
	switch {
	case attempts:
		d.errorf(o.n, "no-action", "this on_failure has no steps; max_attempts says how often the step runs with the handler between two runs").
			Suggest("write shell: or claude: with the repair, or use retry: {attempts: N} to run the step again as it is")
		return nil
	case o.has("fail_workflow"):
		if h.FailWorkflow {
			return nil // as without a handler
		}
		h.Ignore = true
		return h
	}
	p := d.errorf(o.n, "no-action", "this on_failure has no steps")
	p.EndColumn = 0
	p.Suggest("write shell:, claude: or commands: with what to do")
	return nil
}
