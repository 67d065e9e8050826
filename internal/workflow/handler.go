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
	if write := handlerWords[n.text]; n.scalar() && write != "" {
		d.errorf(n, "bad-value", "on_failure: %s would run a command of that name", n.text).Suggest("%s; or shell: %s where the command is meant", write, n.text)
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

// handlerWords are words of other tools for what becomes of a step that has failed, with what
// to write.
var handlerWords = map[string]string{
	"continue": handlerGoOn, "ignore": handlerGoOn, "skip": handlerGoOn, "pass": handlerGoOn, "warn": handlerGoOn,
	"stop": handlerStop, "abort": handlerStop, "fail": handlerStop, "halt": handlerStop,
	"retry": "write retry: {attempts: 3} beside it",
}

const (
	handlerGoOn = "write on_failure: true, and the steps after it run"
	handlerStop = "leave it out: the run fails with a step that has failed"
)

// onFailure reads the handler of a step.
func (d *decoder) onFailure(n *node, s *Step) *Handler {
	d.handlersOpen++
	defer func() { d.handlersOpen-- }()
	return d.handler(n, s.Path+".on_failure")
}

func (d *decoder) handlerMap(n *node, path string, h *Handler) *Handler {
	o, _ := d.object(n, append([]*table{handlerTable}, d.stepTables()...)...) // it is a map
	defer o.close()
	var in handlerSteps
	handlerTable.read(o, &in)
	handlerTable.read(o, h)
	var begun bool
	h.Steps, begun = d.handlerSteps(o, &in, path)
	ends := o.keyOf(h, &h.FailWorkflow) != nil
	if len(h.Steps) == 0 {
		if !begun {
			return d.stepless(o, h, in.attempts > 0, ends)
		}
		return nil
	}
	repair := !in.list.there() && slices.ContainsFunc(h.Steps, isAgent)
	switch {
	case in.attempts > 0:
		h.MaxAttempts = in.attempts
	case repair:
		h.MaxAttempts = repairAttempts
	case in.again:
		h.MaxAttempts = 2
	}
	h.Rerun = h.MaxAttempts > 1
	h.LetsPass = h.Rerun && !ends
	return h
}

// handlerSteps are the steps of a handler, and how often the step runs with them.
type handlerSteps struct {
	list     written
	attempts int // 0: it is not said
	again    bool
}

// captures reads the variables that a handler sets.
func (d *decoder) captures(n *node, key string, h *Handler) {
	h.Captures = make(map[string]string, len(n.pairs))
	for _, p := range n.pairs {
		if !p.val.scalar() {
			d.wrong(p.val, key, "the name of a variable").Suggest("for example: capture: {why: error.message}")
			continue
		}
		d.named(p.key.text)
		h.Captures[p.key.text] = value.Text(p.val.value())
	}
}

func isAgent(s *Step) bool { _, ok := s.Action.(*Claude); return ok }

// handlerSteps reads the steps of a handler: a list, or the one step whose keys
// are among the handler's; begun reports whether there is any, right or wrong.
func (d *decoder) handlerSteps(o *object, in *handlerSteps, path string) (steps []*Step, begun bool) {
	two := shellAndPrompt(o.n)
	if n := in.list.val; n != nil {
		if two.shell.there() || two.claude.there() {
			key := in.list.key.text
			d.errorf(n, "several-actions", "the on_failure has %s and an action beside it", key).Suggest("put all of them into %s", key)
			stepTable.skip(o, &two)
		}
		return d.steps(n, path, bareShell), true
	}
	var p promptName
	named := o.keyOf(&p, &p.name) != nil
	if !named && !d.looksLikeStep(o.n) {
		return nil, in.list.there()
	}
	if two.shell.there() && two.claude.there() {
		return d.both(o, two, path), true
	}
	if s := d.stepFrom(o, path+"[0]"); s != nil {
		steps = []*Step{s}
	}
	return steps, true
}

// stepless is an on_failure map without steps: {fail_workflow: …} alone says
// whether the failure ends the workflow, {max_attempts: N} alone runs the step
// again.
func (d *decoder) stepless(o *object, h *Handler, attempts, ends bool) *Handler {
	switch {
	case attempts:
		d.errorf(o.n, "no-action", "this on_failure has no steps; max_attempts says how often the step runs with the handler between two runs").
			Suggest("write shell: or claude: with the repair, or use retry: {attempts: N} to run the step again as it is")
		return nil
	case ends:
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
