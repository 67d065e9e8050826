package workflow

import (
	"fmt"
	"slices"
	"time"
)

const (
	fullScore          = 100.0
	incompleteAttempts = 2
	checkRetryDelay    = 5 * time.Second
)

// checks reads what looks at a step after it ran.
func (d *decoder) checks(o *object, s *Step) {
	if n := o.take("validate"); n != nil {
		s.Validate = d.validate(n, s.Path)
	}
	skip := o.has("step_validate") && o.yes("skip_validation")
	n := o.take("step_validate")
	if n == nil {
		return // the keys beside it are reported as having no effect
	}
	c := d.stepValidate(n, s.Path)
	timeout := o.duration("validation_timeout")
	ignore := o.yes("ignore_validation_failure")
	if c == nil || skip {
		return
	}
	if timeout.Set {
		c.Timeout = timeout
	}
	c.IgnoreFailure = c.IgnoreFailure || ignore
	s.Check = c
}

// validate reads a validation: a list of steps, a text or a map.
func (d *decoder) validate(n *node, path string) *Validate {
	d.nested++
	defer func() { d.nested-- }()
	path += ".validate"
	v := &Validate{Pos: n.pos, Threshold: fullScore}
	if n.kind != mapNode {
		v.Steps = d.steps(d.resultOf(n, v), path, bareShell)
		if len(v.Steps) == 0 {
			return nil
		}
		return v
	}
	o, _ := d.object(n, validateTable) // it is a map
	defer o.close()
	v.Steps = d.inline(o, path, "commands")
	validateTable.read(o, v)
	if inc := o.take("on_incomplete"); inc != nil {
		v.OnIncomplete = d.onIncomplete(inc, path+".on_incomplete")
	}
	switch {
	case len(v.Steps) > 0:
	case o.has("shell", "claude", "command", "commands"):
		return nil // it is told what is wrong with them
	case v.ResultFile == nil:
		d.errorf(n, "no-action", "this validate checks nothing").Suggest("write shell:, claude: or commands: with the check, or result_file: with its result")
		return nil
	}
	return v
}

// resultOf takes the result_file out of the steps of a validation that is
// written as a list, where it stands beside the step that leaves it.
func (d *decoder) resultOf(n *node, v *Validate) *node {
	out := *n
	out.items = slices.Clone(n.items)
	for i, it := range n.items {
		f := it.get("result_file")
		if f == nil || !f.scalar() || f.kind == nullNode {
			continue
		}
		if v.ResultFile != nil {
			d.warnf(f, "no-effect", "the validation has a result_file already, which counts").Suggest("keep one of the two")
		} else {
			v.ResultFile = d.text(f, "result_file")
		}
		out.items[i] = it.without("result_file")
	}
	return &out
}

// expectedSchema reads a schema, or the file of one.
func (d *decoder) expectedSchema(n *node, v *Validate) {
	if n.kind == strNode {
		v.SchemaFile = d.text(n, "expected_schema")
	} else {
		v.Schema = d.resultSchema(n)
	}
}

func (d *decoder) onIncomplete(n *node, path string) *OnIncomplete {
	inc := &OnIncomplete{Pos: n.pos, MaxAttempts: incompleteAttempts, FailWorkflow: true}
	if n.kind == strNode && n.text == "continue" {
		inc.FailWorkflow = false // what was missed is told, and the run continues
		return inc
	}
	if n.kind != mapNode {
		inc.Steps = d.steps(n, path, bareShell)
		if len(inc.Steps) == 0 {
			return nil
		}
		return inc
	}
	o, _ := d.object(n, onIncompleteTable) // it is a map
	defer o.close()
	inc.Steps = d.inline(o, path, "commands")
	onIncompleteTable.read(o, inc)
	if len(inc.Steps) == 0 && inc.Prompt == nil && !o.has("shell", "claude", "command", "commands", "prompt", "fail_workflow") {
		d.errorf(n, "no-action", "this on_incomplete does nothing").Suggest("write shell:, claude:, commands: or prompt:")
		return nil
	}
	return inc
}

// stepValidate reads the commands that check a step.
func (d *decoder) stepValidate(n *node, path string) *StepValidate {
	d.nested++
	defer func() { d.nested-- }()
	path += ".step_validate"
	c := &StepValidate{Pos: n.pos, Criteria: "all", MaxAttempts: 1, RetryDelay: Duration{D: checkRetryDelay, Unit: time.Second}}
	if n.kind != mapNode {
		c.Commands = d.checkCommands(n, path)
		if len(c.Commands) == 0 {
			return nil
		}
		return c
	}
	o, _ := d.object(n, stepValidateTable) // it is a map
	defer o.close()
	if v := o.take("commands"); v != nil {
		c.Commands = d.checkCommands(v, path)
	} else {
		d.errorf(n, "missing-key", "a step_validate needs commands").Suggest("for example: step_validate: {commands: [{command: test -s out.txt}]}")
	}
	d.criteria(o, c)
	stepValidateTable.read(o, c)
	if len(c.Commands) == 0 {
		return nil
	}
	return c
}

func (d *decoder) criteria(o *object, c *StepValidate) {
	n := o.peek("success_criteria")
	if n == nil || (n.kind != mapNode && n.tag != "!at_least") {
		c.Criteria = o.choice("all", "success_criteria")
		return
	}
	o.skip("success_criteria")
	at := n
	if n.kind == mapNode {
		m, _ := d.object(n, criteriaTable) // it is a map
		at = m.take("at_least")
		m.close()
	}
	if at == nil {
		return
	}
	i, p := d.integer(d.resolved(at), "at_least", 1)
	switch {
	case p != nil:
		p.Or("for example: success_criteria: {at_least: 2}")
	case i > len(c.Commands) && len(c.Commands) > 0:
		d.errorf(at, "out-of-range", "at_least is %d, but there are only %d checks", i, len(c.Commands)).Suggest("write at most %d", len(c.Commands))
	default:
		c.Criteria, c.AtLeast = "at_least", i
	}
}

func (d *decoder) checkCommands(n *node, path string) []CheckCommand {
	var list []CheckCommand
	for i, it := range n.each() {
		step := &Step{Pos: it.pos, Path: fmt.Sprintf("%s[%d]", path, i), Capture: defaultCapture()}
		c := CheckCommand{Step: step}
		if it.kind == mapNode {
			d.checkMap(it, &c)
		} else if t := d.text(it, "a check"); t != nil {
			step.Action = commandOrPrompt(t)
		}
		if step.Action != nil {
			list = append(list, c)
		}
	}
	return list
}

func (d *decoder) checkMap(n *node, c *CheckCommand) {
	o, _ := d.object(n, checkCommandTable) // it is a map
	defer o.close()
	kind := o.choice("", "command_type")
	key, v := o.first("command", "shell", "claude")
	if v == nil {
		d.errorf(n, "missing-key", "a check needs a command").Suggest("for example: {command: test -s out.txt}")
	} else if t := d.text(v, key); t != nil {
		switch {
		case kind == "claude", key == "claude":
			c.Step.Action = &Claude{Text: t}
		case kind == "shell", key == "shell":
			c.Step.Action = &Shell{Text: t}
		default:
			c.Step.Action = commandOrPrompt(t)
		}
	}
	checkCommandTable.read(o, c)
}
