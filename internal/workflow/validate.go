package workflow

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	fullScore          = 100.0
	incompleteAttempts = 2
	checkRetryDelay    = 5 * time.Second
)

// checks reads what looks at a step after it ran.
func (d *decoder) checks(o *object, s *Step) {
	var score scoring
	if stepTable.read(o, &score); score.check != nil {
		s.Validate = d.validate(score.check, s.Path)
	}
	var check stepCheck
	if stepTable.read(o, &check); check.n == nil {
		return // the keys beside it are reported as having no effect
	}
	c := d.stepValidate(check.n, s.Path)
	var beside besideCheck
	stepTable.read(o, &beside)
	if c == nil || beside.skip {
		return
	}
	if beside.timeout.Set {
		c.Timeout = beside.timeout
	}
	c.IgnoreFailure = c.IgnoreFailure || beside.ignore
	s.Check = c
}

// stepCheck is the check of a step by commands, and besideCheck what is beside it.
type (
	stepCheck   struct{ n *node }
	besideCheck struct {
		skip, ignore bool
		timeout      Duration
	}
)

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
	in := inlineSteps{command: commandIsShell}
	validateTable.read(o, &in)
	v.Steps = d.inline(o, &in, path)
	validateTable.read(o, v)
	var missed incomplete
	if validateTable.read(o, &missed); missed.n != nil {
		v.OnIncomplete = d.onIncomplete(missed.n, path+".on_incomplete")
	}
	switch {
	case len(v.Steps) > 0:
	case in.there():
		return nil // it is told what is wrong with them
	case v.ResultFile == nil:
		d.errorf(n, "no-action", "this validate checks nothing").Suggest("write shell:, claude: or commands: with the check, or result_file: with its result")
		return nil
	}
	return v
}

// resultOf takes the result_file out of the steps of a validation that is
// written as a list, where it is beside the step that leaves it.
func (d *decoder) resultOf(n *node, v *Validate) *node {
	out := *n
	out.items = slices.Clone(n.items)
	for i, it := range n.items {
		var own resultFile
		validateTable.look(it, &own)
		f := own.val
		if f == nil || !f.scalar() {
			continue
		}
		if v.ResultFile != nil {
			d.warnf(f, "no-effect", "the validation has a result_file already, which counts").Suggest("keep one of the two")
		} else {
			v.ResultFile = d.text(f, own.key.text)
		}
		out.items[i] = it.without(own.key.text)
	}
	return &out
}

// resultFile is where a check leaves its result.
type resultFile struct{ written }

// expectedSchema reads a schema, or the file of one.
func (d *decoder) expectedSchema(key string, n *node, v *Validate) {
	if n.kind == strNode {
		v.SchemaFile = d.text(n, key)
	} else {
		v.Schema = d.resultSchema(n)
	}
}

// incomplete is what follows a score below the threshold.
type incomplete struct{ n *node }

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
	var in inlineSteps
	onIncompleteTable.read(o, &in)
	inc.Steps = d.inline(o, &in, path)
	onIncompleteTable.read(o, inc)
	if len(inc.Steps) == 0 && !in.there() && o.keyOf(inc, &inc.Prompt) == nil && o.keyOf(inc, &inc.FailWorkflow) == nil {
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
	var checks checkList
	if stepValidateTable.read(o, &checks); checks.n != nil {
		c.Commands = d.checkCommands(checks.n, path)
	} else {
		d.errorf(n, "missing-key", "a step_validate needs commands").Suggest("for example: step_validate: {commands: [{command: test -s out.txt}]}")
	}
	stepValidateTable.read(o, c)
	if len(c.Commands) == 0 {
		return nil
	}
	return c
}

// checkList is what a step is checked with.
type checkList struct{ n *node }

// criteria reads how many checks must end well: a word, or as many.
func (d *decoder) criteria(o *object, key string, n *node, c *StepValidate) {
	switch {
	case n.kind == mapNode:
		m, _ := d.object(n, criteriaTable) // it is a map
		criteriaTable.read(m, c)
		m.close()
	case n.tag == "!at_least":
		d.atLeast(strings.TrimPrefix(n.tag, "!"), n, c)
	default:
		c.Criteria = o.choiceAt(c.Criteria, key, n)
	}
}

func (d *decoder) atLeast(key string, n *node, c *StepValidate) {
	i, p := d.integer(d.resolved(n), key, 1)
	switch {
	case p != nil:
		p.Or("for example: success_criteria: {at_least: 2}")
	case i > len(c.Commands) && len(c.Commands) > 0:
		d.errorf(n, "out-of-range", "%s is %d, but there are only %d checks", key, i, len(c.Commands)).Suggest("write at most %d", len(c.Commands))
	default:
		c.Criteria, c.AtLeast = key, i
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
	var run checkRun
	checkCommandTable.read(o, &run)
	if run.text.val == nil {
		d.errorf(n, "missing-key", "a check needs a command").Suggest("for example: {command: test -s out.txt}")
	} else if t := run.text.text(d); t != nil {
		switch run.kind {
		case "claude":
			c.Step.Action = &Claude{Text: t}
		case "shell":
			c.Step.Action = &Shell{Text: t}
		default:
			c.Step.Action = commandOrPrompt(t)
		}
	}
	checkCommandTable.read(o, c)
}

// checkRun is what a check runs, and what that is; where nothing says it, its text does.
type checkRun struct {
	text commandText
	kind string
}

// means says what a check is that is under a key of its own.
func (r *checkRun) means(o *object, key string, n *node) {
	if r.text.val != nil {
		o.saysTheSame(key, r.text.key.text, r.text.val)
		return
	}
	r.text.written, r.kind = written{o.keyNode(key), n}, key
}
