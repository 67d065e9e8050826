package workflow

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
)

// file reads the whole tree of a file into d.file.
func (d *decoder) decode(n *node) {
	f := d.file
	f.Pos = n.pos
	f.Isolation, f.Durability = "auto", "grouped"
	f.Policy = ErrorPolicy{OnItemFailure: "dlq", ContinueOnFailure: true, FailureThreshold: -1, Collection: "aggregate", MaxRecoveries: 5}
	d.phase = 'c'
	if n.kind == listNode {
		var own fileSteps
		f.Steps = d.steps(n, fileTable.keyFor(&own, &own.list), barePrompt)
		d.someSteps(n, "the file", f.Steps)
		return
	}
	if n.kind != mapNode {
		d.wrong(n, "a workflow file", "a list of steps or a map").Suggest("for example: commands: [{shell: make test}]")
		return
	}
	o, _ := d.object(n, fileTable) // it is a map
	defer o.close()
	fileTable.skip(o, &composedOf{}) // read when composing
	var shape fileShape
	fileTable.read(o, &shape)
	d.stillWrapped(shape.wrapped)
	f.Kind = d.kind(shape)
	var first fileFirst
	fileTable.read(o, &first)
	if w := first.agents; w.val != nil { // their names are keys of steps
		f.Agents = d.agentConfigs(w.val, w.key.text)
	}
	d.chains()
	if w := first.retry; w.val != nil {
		d.top = d.retrySpec(w.val, w.key.text)
	}
	d.fileEnv(o)
	fileTable.read(o, f)
	d.noteBounds(o)
	if f.Kind == MapReduce {
		d.mapReduce(o, shape.phase)
	} else {
		d.standard(o)
	}
	var last fileLast
	fileTable.read(o, &last)
	f.Merge = d.blockOf(last.merge, 'g')
	f.Finally = d.blockOf(last.finally, 'c')
	d.phase = 'c'
}

// The keys of a file are read one after the other, as some depend on others: first those
// of what it is composed.
type (
	composedOf struct{ extends, template, imports, parameters, defaults, variables written }
	fileShape  struct{ mode, phase, wrapped written }
	fileFirst  struct{ agents, retry written }
	fileVars   struct{ env, files, secrets, profiles, profile written }
	fileSteps  struct{ retry, setup, list written }
	fileLast   struct{ merge, finally written }
)

// kind decides the shape from the keys.
func (d *decoder) kind(shape fileShape) Kind {
	mode := ""
	if shape.mode.val != nil {
		mode = d.shapeNamed(shape.mode.val)
	}
	switch {
	case mode == "mapreduce" && !shape.phase.there():
		d.errorf(shape.mode.key, "missing-key", "a MapReduce workflow needs map: with its input and agent_template").
			Suggest("add map:, or remove mode: mapreduce")
		return MapReduce
	case shape.phase.there():
		if mode != "" && mode != "mapreduce" {
			d.warnf(shape.mode.key, "contradiction", "mode is %s, but map: makes it a MapReduce workflow", mode).Suggest("write mode: mapreduce")
		}
		return MapReduce
	}
	return Standard
}

func (d *decoder) shapeNamed(n *node) string {
	n = d.resolved(n)
	word := strings.ReplaceAll(snake(n.text), "_", "")
	words := []string{"standard", "sequential", "normal", "none", "mapreduce"}
	if n.scalar() && slices.Contains(words, word) {
		return word
	}
	p := d.errorf(n, "bad-value", "mode cannot be %q", short(n.text))
	p.Near(word, words).Or("write standard or mapreduce")
	return ""
}

func (d *decoder) fileEnv(o *object) {
	f := d.file
	var vars fileVars
	fileTable.read(o, &vars)
	if w := vars.files; w.val != nil {
		d.envFiles(w.val, w.key.text)
	}
	if w := vars.secrets; w.val != nil {
		f.Secrets = append(f.Secrets, d.secrets(w.val, w.key.text)...)
	}
	if w := vars.profiles; w.val != nil {
		f.Profiles = d.profiles(w.val, w.key.text)
	}
	if w := vars.env; w.val != nil { // last, as its values may name the profiles
		own := envOfFile{d: d, profiles: f.Profiles}
		own.read(w.val)
	}
	if w := vars.profile; w.val != nil {
		f.Profile = o.strAt(w.val, w.key.text)
		d.knownProfile(w.val, f.Profile)
	}
}

func (d *decoder) knownProfile(n *node, name string) {
	if _, ok := d.file.Profiles[name]; ok || name == "" {
		return
	}
	names := slices.Sorted(maps.Keys(d.file.Profiles))
	p := d.errorf(n, "unknown-profile", "there is no profile %q", name).Near(name, names)
	if len(names) > 0 {
		p.Or("the profiles are %s", strings.Join(names, ", "))
	}
	p.Or("add it under profiles:")
}

// noteBounds remembers where the bounds of what agents may use are written.
func (d *decoder) noteBounds(o *object) {
	f := d.file
	d.skipAll = o.at(f, &f.SkipPermissions)
	if f.MaxCost > 0 || f.MaxTokens > 0 {
		if d.bounds = o.at(f, &f.MaxCost); f.MaxCost == 0 {
			d.bounds = o.at(f, &f.MaxTokens)
		}
	}
}

// worktree reads how worktrees are prepared.
func (d *decoder) worktree(n *node) *Worktree {
	o, ok := d.object(n, worktreeTable)
	if !ok {
		return nil
	}
	defer o.close()
	w := &Worktree{Pos: n.pos}
	worktreeTable.read(o, w)
	return w
}

// copies reads the patterns of files that are copied into a worktree.
func (d *decoder) copies(names []*node) (copies []string) {
	for _, c := range names {
		if _, err := path.Match(c.text, ""); err != nil || !filepath.IsLocal(c.text) {
			d.errorf(c, "bad-value", "worktree.copy: %q is no name of a file below the directory of the run", short(c.text)).Suggest("for example: copy: [.env, config/*.local]")
			continue
		}
		copies = append(copies, c.text)
	}
	return copies
}

// standard reads the steps of a standard workflow.
func (d *decoder) standard(o *object) {
	f := d.file
	var parts fileSteps
	fileTable.read(o, &parts)
	if w := parts.retry; w.val != nil {
		d.top = d.top.over(d.retrySpec(w.val, w.key.text))
	}
	if b := d.blockOf(parts.setup, 's'); b != nil {
		f.Steps = b.Steps
		if b.Timeout.Set || len(b.Outputs) > 0 {
			d.errorf(parts.setup.val, "unsupported", "timeout and capture_outputs of setup belong to a MapReduce workflow; this has no map:").
				Suggest("put timeout: and capture: on the steps themselves")
		}
		d.phase = 'c'
	}
	if parts.list.val == nil {
		d.noCommands(o, f, parts.list)
		return
	}
	steps := d.steps(parts.list.val, fileTable.keyFor(&parts, &parts.list), barePrompt)
	if len(f.Steps) == 0 {
		d.someSteps(parts.list.key, "the workflow", steps)
	}
	f.Steps = append(f.Steps, steps...)
}

// noCommands is a file without steps: fine where it only calls others.
func (d *decoder) noCommands(o *object, f *File, list written) {
	if len(f.Steps) > 0 || list.there() || o.keyOf(f, &f.subs) != nil { // where these have no value, that is told already
		return
	}
	if d.problems.HasErrors() && o.any(&composedOf{}) {
		return // the steps are in what could not be read
	}
	p := d.errorf(o.n, "no-steps", "this workflow has no steps")
	p.EndColumn = 0
	if key, near := o.mistaken([]string{"commands", "steps", "map"}, nil); key != nil {
		p.Suggest("did you mean %q where it says %q?", near, key.text)
	}
	p.Or("add commands: with a list of steps, or map: for a MapReduce workflow")
}

func (d *decoder) someSteps(n *node, what string, steps []*Step) {
	if len(steps) == 0 && !d.problems.HasErrors() {
		d.errorf(n, "no-steps", "%s has no steps", what).Suggest("for example: commands: [{shell: make test}]")
	}
}

// blockOf reads the block under a key, whose steps are of a phase; nil where there
// is none.
func (d *decoder) blockOf(w written, phase byte) *Block {
	if w.val == nil {
		return nil
	}
	d.phase = phase
	return d.block(w.val, w.key.text)
}

// block reads a list of steps, or {commands: [...]} with what is beside.
func (d *decoder) block(n *node, path string) *Block {
	b := &Block{Pos: n.pos}
	if n.kind != mapNode {
		b.Steps = d.steps(n, path, barePrompt)
		return b
	}
	o, _ := d.object(n, blockTable) // it is a map
	var in blockSteps
	if o.keyOf(&in, &in.list) == nil && d.looksLikeStep(n) {
		b.Steps = d.steps(n, path, barePrompt)
		return b
	}
	defer o.close()
	if blockTable.read(o, &in); in.list.val != nil {
		b.Steps = d.steps(in.list.val, path, barePrompt)
	} else if !in.list.there() {
		d.errorf(n, "missing-key", "%s written as a map needs commands:", path).Suggest("put the steps into commands: [ … ]")
	}
	blockTable.read(o, b)
	if d.phase == 's' {
		var outputs blockOutputs
		if blockTable.read(o, &outputs); outputs.val != nil {
			b.Outputs = d.captureOutputs(outputs.val, outputs.key.text, len(b.Steps))
		}
	}
	return b
}

// blockSteps are the steps of a block, and blockOutputs what setup captures of them.
type (
	blockSteps   struct{ list written }
	blockOutputs struct{ written }
)

// looksLikeStep reports whether a map has a key of which a step has one.
func (d *decoder) looksLikeStep(n *node) bool {
	return slices.ContainsFunc(n.pairs, func(p pair) bool { return d.actionKey(p.key.text) != nil })
}

const defaultCaptureSize = 1 << 20

// captureOutputs reads {name: index} and {name: {command_index, …}}.
func (d *decoder) captureOutputs(n *node, key string, steps int) []CaptureOutput {
	var list []CaptureOutput
	for _, p := range d.pairs(n, key, "a map of names", "capture_outputs: {files: 0}") {
		d.named(p.key.text)
		c := CaptureOutput{Name: p.key.text, Pos: p.key.pos, Source: "stdout", Format: "string", MaxSize: defaultCaptureSize, Multiline: "preserve"}
		if !identifierText().MatchString(c.Name) {
			d.errorf(p.key, "bad-name", "%q cannot be the name of a variable", short(c.Name)).Suggest("for example: %s", nameFrom(c.Name))
			continue
		}
		at := p.val
		if p.val.kind == mapNode {
			at = d.captureOutput0(p.val, &c)
		} else {
			i, prob := d.integer(d.resolved(p.val), p.key.text, 0)
			if prob != nil {
				prob.Or("write the number of the step, from 0, or a map: %s: {command_index: 0}", c.Name)
				continue
			}
			c.Command = i
		}
		if c.Command >= steps && steps > 0 {
			d.errorf(at, "out-of-range", "%s takes the output of step %d, but setup has only %d (counted from 0)", c.Name, c.Command, steps).
				Suggest("write a number from 0 to %d", steps-1)
			continue
		}
		list = append(list, c)
	}
	return list
}

func (d *decoder) captureOutput0(n *node, c *CaptureOutput) *node {
	o, _ := d.object(n, captureOutputTable) // it is a map
	defer o.close()
	captureOutputTable.read(o, c)
	var def captureDefault
	if captureOutputTable.read(o, &def); def.val != nil {
		c.Default, c.HasDef = def.val.value(), true
	}
	if key := o.keyOf(c, &c.Command); key != nil {
		return n.get(key.text)
	}
	return n
}

// captureDefault is the value of an output that is not there.
type captureDefault struct{ orNull }

var handlerName = pattern.Lazy(`^[\pL_][\pL\pN_ .-]*$`)

// handlers reads the named handlers of items.
func (d *decoder) handlers(n *node, key string) map[string][]*Step {
	d.nested++
	d.handlersOpen++
	defer func() { d.nested--; d.handlersOpen-- }()
	out := make(map[string][]*Step, len(n.pairs))
	for _, p := range d.pairs(n, key, "a map of names", "handlers: {tell: [{shell: notify}]}") {
		if !handlerName().MatchString(p.key.text) {
			d.errorf(p.key, "bad-name", "%q cannot be the name of a handler", short(p.key.text)).Suggest("for example: %s", nameFrom(p.key.text))
			continue
		}
		val := p.val
		var in blockSteps
		if c := val.get(blockTable.keyFor(&in, &in.list)); c != nil {
			val = c
		}
		out[p.key.text] = d.steps(val, fmt.Sprintf("%s.%s", key, p.key.text), bareShell)
	}
	return out
}
