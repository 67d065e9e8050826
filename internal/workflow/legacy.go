package workflow

import (
	"maps"
	"slices"
)

// Forms of the first versions of the format, which public files still have.

// unwrapped is a file whose workflow stands one level deeper, under workflow:,
// without that level. What is beside it holds where the inner one has
// nothing.
func unwrapped(n *node) *node {
	var shape fileShape
	var steps fileSteps
	fileTable.look(n, &shape)
	fileTable.look(n, &steps)
	inner := shape.wrapped.val
	if inner == nil || inner.scalar() || steps.list.there() || shape.phase.there() {
		return n
	}
	out := *n
	out.pairs = slices.DeleteFunc(slices.Clone(n.pairs), func(p pair) bool { return p.val == inner })
	if inner.kind == listNode {
		out.pairs = append(out.pairs, pair{inner.as(fileTable.keyFor(&steps, &steps.list)), inner})
		return &out
	}
	return mergeOver(&out, inner)
}

// stillWrapped reports a workflow: that could not be unwrapped.
func (d *decoder) stillWrapped(w written) {
	switch n := w.val; {
	case n == nil:
	case n.scalar():
		d.wrong(n, w.key.text, "a whole workflow").Suggest("write name: for its name, or a step - workflow: %s to call one", nameFrom(n.text))
	default:
		d.errorf(w.key, "contradiction", "the file has steps of its own beside those under %s:", w.key.text).Suggest("keep one of the two")
	}
}

// promptInputs are the inputs of a step that is a prompt by its name: values that go
// into its words, its environment, or behind its text.
type promptInputs struct {
	step  *Step
	there bool
	text  string // what is to be added to the prompt
}

// stepInput is one of them.
type stepInput struct{ from, as *node }

func (d *decoder) inputsOf(n *node, key string, to *promptInputs) {
	to.there = true
	s := to.step
	words := map[int]string{}
	behind := ""
	for _, p := range d.pairs(n, key, "a map of names", "inputs: {spec: {from: '${plan.spec}', pass_as: {argument: {position: 0}}}}") {
		in, ok := d.object(p.val, stepInputTable)
		if !ok {
			continue
		}
		var one stepInput
		stepInputTable.read(in, &one)
		in.close()
		from, as := one.from, one.as
		if from == nil || !from.scalar() {
			d.errorf(p.key, "missing-key", "the input %q needs from: with its value", short(p.key.text)).Suggest("for example: from: '${plan.spec}'")
			continue
		}
		switch {
		case as == nil || as.get("argument") != nil || as.text == "argument":
			at := len(words)
			if pos := as.get("argument").get("position"); pos != nil {
				if i, prob := d.integer(pos, "position", 0); prob == nil {
					at = i
				}
			}
			if _, taken := words[at]; taken {
				d.errorf(as, "contradiction", "another input of the step has position %d already", at).Suggest("give each argument a position of its own")
				continue
			}
			words[at] = from.text
		case as.get("environment") != nil:
			name := as.get("environment").get("name")
			if name == nil {
				name = p.key
			}
			if d.goodEnvName(name) {
				s.Env = append(s.Env, EnvVar{Name: name.text, Pos: name.pos, Text: d.parsed(from, from.text)})
			}
		case as.get("stdin") != nil || as.text == "stdin":
			behind += "\n" + from.text
		default:
			d.errorf(as, "bad-value", "an input is passed as argument, environment or stdin").Suggest("for example: pass_as: {argument: {position: 0}}")
		}
	}
	for _, at := range slices.Sorted(maps.Keys(words)) {
		to.text += " " + words[at]
	}
	to.text += behind
}

var stepInputTable = newTable("step_input", "an input of a step")

func stepInputFields() []field {
	return []field{
		{key: "from", typ: tText, sample: "a", doc: "the value",
			into: of(func(i *stepInput) **node { return &i.from })},
		{key: "pass_as", typ: oneOf(tText, tMap(tAny)), sample: "{environment: {name: A}}", doc: "argument (with a position), environment (with a name) or stdin, which puts it behind the prompt",
			into: of(func(i *stepInput) **node { return &i.as })},
	}
}

// extracted reads an output in the form extract_from: stdout, or
// {git_commit: {file_pattern}}.
func (d *decoder) extracted(n *node, out *Output) {
	switch {
	case n.text == "stdout" || n.get("stdout") != nil:
		out.Value = d.parsed(n, "${last.output}")
	case n.get("git_commit").get("file_pattern") != nil:
		out.FilePattern = n.get("git_commit").get("file_pattern").text
	default:
		d.errorf(n, "bad-value", "extract_from takes stdout or git_commit").Suggest("for example: extract_from: {git_commit: {file_pattern: '*.md'}}")
	}
}
