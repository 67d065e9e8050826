package workflow

import (
	"cmp"
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
		f.Steps = d.steps(n, "commands", barePrompt)
		d.someSteps(n, "the file", f.Steps)
		return
	}
	if n.kind != mapNode {
		d.wrong(n, "a workflow file", "a list of steps or a map").Suggest("for example: commands: [{shell: make test}]")
		return
	}
	o, _ := d.object(n, fileTable) // it is a map
	defer o.close()
	o.skip("imports", "extends", "template", "parameters", "defaults", "variables") // read when composing
	d.stillWrapped(o)
	f.Kind = d.kind(o)
	read(o, "agents", &f.Agents, d.agentConfigs) // first, as their names are keys of steps
	d.chains()
	read(o, "retry_defaults", &d.top, func(n *node) *retrySpec { return d.retrySpec(n, "retry_defaults") })
	d.fileEnv(o)
	fileTable.read(o, f)
	d.noteBounds(o)
	if f.Kind == MapReduce {
		d.mapReduce(o)
	} else {
		d.standard(o)
	}
	f.Merge = d.blockOf(o, "merge", 'g')
	f.Finally = d.blockOf(o, "finally", 'c')
	d.phase = 'c'
}

// kind decides the shape from the keys.
func (d *decoder) kind(o *object) Kind {
	mode := ""
	read(o, "mode", &mode, d.mode0)
	hasMap := o.has("map")
	switch {
	case mode == "mapreduce" && !hasMap:
		d.errorf(o.keyNode("mode"), "missing-key", "a MapReduce workflow needs map: with its input and agent_template").
			Suggest("add map:, or remove mode: mapreduce")
		return MapReduce
	case hasMap:
		if mode != "" && mode != "mapreduce" {
			d.warnf(o.keyNode("mode"), "contradiction", "mode is %s, but map: makes it a MapReduce workflow", mode).Suggest("write mode: mapreduce")
		}
		return MapReduce
	}
	return Standard
}

func (d *decoder) mode0(n *node) string {
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
	o.take("env") // read last, as its values may name the profiles
	if n := o.take("env_files"); n != nil {
		d.envFiles(n)
	}
	if n := o.take("secrets"); n != nil {
		f.Secrets = append(f.Secrets, d.secrets(n)...)
	}
	read(o, "profiles", &f.Profiles, d.profiles)
	if n := o.peek("env"); n != nil && n.kind != nullNode {
		own := envOfFile{d: d, profiles: f.Profiles}
		own.read(n)
	}
	if n := o.peek("active_profile"); n != nil {
		f.Profile = o.str("active_profile")
		d.knownProfile(n, f.Profile)
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
	d.skipAll = o.keyNode("skip_permissions")
	if f.MaxCost > 0 || f.MaxTokens > 0 {
		if d.bounds = o.keyNode("max_cost"); f.MaxCost == 0 {
			d.bounds = o.keyNode("max_tokens")
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
	for _, key := range []string{"retry", "retry_config"} {
		if n := o.take(key); n != nil {
			d.top = d.top.over(d.retrySpec(n, key))
		}
	}
	if b := d.blockOf(o, "setup", 's'); b != nil {
		f.Steps = b.Steps
		if b.Timeout.Set || len(b.Outputs) > 0 {
			d.errorf(o.peek("setup"), "unsupported", "timeout and capture_outputs of setup belong to a MapReduce workflow; this has no map:").
				Suggest("put timeout: and capture: on the steps themselves")
		}
		d.phase = 'c'
	}
	key, n := o.first("commands")
	if n == nil {
		d.noCommands(o, f)
		return
	}
	steps := d.steps(n, "commands", barePrompt)
	if len(f.Steps) == 0 {
		d.someSteps(o.keyNode(key), "the workflow", steps)
	}
	f.Steps = append(f.Steps, steps...)
}

// noCommands is a file without steps: fine where it only calls others.
func (d *decoder) noCommands(o *object, f *File) {
	if len(f.Steps) > 0 || o.has("workflows", "sub_workflows", "commands", "steps") { // where these have no value, that is told already
		return
	}
	if d.problems.HasErrors() && o.has("template", "extends", "imports") {
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
func (d *decoder) blockOf(o *object, key string, phase byte) *Block {
	n := o.take(key)
	if n == nil {
		return nil
	}
	d.phase = phase
	return d.block(n, key)
}

// block reads a list of steps, or {commands: [...]} with what stands beside.
func (d *decoder) block(n *node, path string) *Block {
	b := &Block{Pos: n.pos}
	if n.kind != mapNode || (n.get("commands") == nil && n.get("steps") == nil && d.looksLikeStep(n)) {
		b.Steps = d.steps(n, path, barePrompt)
		return b
	}
	o, _ := d.object(n, blockTable) // it is a map
	defer o.close()
	if _, s := o.first("commands"); s != nil {
		b.Steps = d.steps(s, path, barePrompt)
	} else if !o.has("commands", "steps") {
		d.errorf(n, "missing-key", "%s written as a map needs commands:", path).Suggest("put the steps into commands: [ … ]")
	}
	blockTable.read(o, b)
	if path == "setup" {
		if c := o.take("capture_outputs"); c != nil {
			b.Outputs = d.captureOutputs(c, len(b.Steps))
		}
	}
	return b
}

func (d *decoder) looksLikeStep(n *node) bool {
	return slices.ContainsFunc(n.pairs, func(p pair) bool { return d.isAction(p.key.text) || p.key.text == "validate" })
}

const defaultCaptureSize = 1 << 20

// captureOutputs reads {name: index} and {name: {command_index, …}}.
func (d *decoder) captureOutputs(n *node, steps int) []CaptureOutput {
	var list []CaptureOutput
	for _, p := range d.pairs(n, "capture_outputs", "a map of names", "capture_outputs: {files: 0}") {
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
	if v := o.peek("default"); v != nil { // which may be null
		o.skip("default")
		c.Default, c.HasDef = v.value(), true
	}
	return cmp.Or(o.peek("command"), o.peek("command_index"), n)
}

var handlerName = pattern.Lazy(`^[\pL_][\pL\pN_ .-]*$`)

// handlers reads the named handlers of items.
func (d *decoder) handlers(n *node) map[string][]*Step {
	d.nested++
	d.handlersOpen++
	defer func() { d.nested--; d.handlersOpen-- }()
	out := make(map[string][]*Step, len(n.pairs))
	for _, p := range d.pairs(n, "handlers", "a map of names", "handlers: {tell: [{shell: notify}]}") {
		if !handlerName().MatchString(p.key.text) {
			d.errorf(p.key, "bad-name", "%q cannot be the name of a handler", short(p.key.text)).Suggest("for example: %s", nameFrom(p.key.text))
			continue
		}
		val := p.val
		if c := val.get("commands"); c != nil {
			val = c
		}
		out[p.key.text] = d.steps(val, fmt.Sprintf("handlers.%s", p.key.text), bareShell)
	}
	return out
}
