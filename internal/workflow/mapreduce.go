package workflow

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// DefaultGrace is how long a command may take to end that is told to, as
// proc.DefaultGrace.
const DefaultGrace = 10 * time.Second

// mapReduce reads setup, map, reduce and the error policy.
func (d *decoder) mapReduce(o *object, phase written) {
	f := d.file
	var parts mapParts
	fileTable.read(o, &parts)
	f.Setup = d.blockOf(parts.setup, 's')
	sources := []*object{nil, nil, nil, o} // error_policy, map.error_policy, map, the top level
	var policy policyMap
	if fileTable.read(o, &policy); policy.n != nil {
		sources[0], _ = d.object(policy.n, errorPolicyTable)
	}
	d.phase = 'm'
	if phase.val != nil {
		if m, ok := d.object(phase.val, mapTable); ok {
			var policy policyMap
			if mapTable.read(m, &policy); policy.n != nil {
				sources[1], _ = d.object(policy.n, errorPolicyTable)
			}
			sources[2] = m
			f.Map = d.mapPhase(m, o)
		}
	} else if phase.there() {
		d.errorf(o.n, "missing-key", "a MapReduce workflow needs map: the items and what is done with each").
			Suggest("for example: map: {input: items.json, agent_template: [{shell: 'make ${item.name}'}]}")
	}
	d.errorPolicy(policySources{d, sources})
	if f.Map != nil {
		d.tooFewItems(sources)
		d.neverEnoughItems(sources)
	}
	for _, s := range sources[:3] {
		if s != nil {
			s.close()
		}
	}
	if parts.queue != nil {
		f.Queue = d.mergeQueue(parts.queue)
	}
	f.Reduce = d.blockOf(parts.reduce, 'r')
}

// mapParts are the parts of a file that has a map, and policyMap its error policy.
type (
	mapParts struct {
		setup, reduce written
		queue         *node
	}
	policyMap struct{ n *node }
)

// AtMost is how many items the map has at most, where the file says it.
func (m *Map) AtMost() (n int, said bool) {
	if m.Input == nil {
		n, said = len(m.List), true
		if m.Offset.Text == nil {
			n = max(0, n-m.Offset.N)
		}
	}
	return atMost(n, said, m.MaxItems)
}

// atMost is how many items of n are left by max_items; said reports whether n is known.
func atMost(n int, said bool, most Int) (int, bool) {
	if most.Text == nil && most.N > 0 && (!said || most.N < n) {
		return most.N, true
	}
	return n, said
}

// neverEnough tells of a list that cannot have as many items as min_items says.
func (d *decoder) neverEnough(key *node, least, most int, whose string) {
	d.errorf(key, "min-items", "min_items: %d is more than %s can have: %d at most", least, whose, most).
		Suggest("write min_items: %d or less", most)
}

// neverEnoughItems tells of a map that cannot have as many items as it must have.
func (d *decoder) neverEnoughItems(sources []*object) {
	m := d.file.Map
	n, said := m.AtMost()
	if !said || m.MinItems.Text != nil || m.MinItems.N <= n {
		return
	}
	key := mapTable.keyFor(m, &m.MinItems)
	for _, s := range sources {
		if s != nil && s.has(key) {
			d.neverEnough(s.keyNode(key), m.MinItems.N, n, "the map")
			return
		}
	}
}

// tooFewItems warns of a rate of failures that never counts, because the map has too few
// items.
func (d *decoder) tooFewItems(sources []*object) {
	rate := d.file.Policy.FailureThreshold
	n, said := d.file.Map.AtMost()
	if rate < 0 || !said || n == 0 || n >= policy.MinFinishedForThreshold {
		return
	}
	p := &d.file.Policy
	rateKey := errorPolicyTable.keyFor(p, &p.FailureThreshold)
	for _, s := range sources {
		if s != nil && s.has(rateKey) {
			d.warnf(s.keyNode(rateKey), "no-effect", "failure_threshold never stops this map: it counts once %d items have finished, and there are %d at most", policy.MinFinishedForThreshold, n).
				Suggest("write max_failures: %d, which counts from the first item", max(1, int(math.Ceil(rate*float64(n)))))
			return
		}
	}
}

// defaultBatch is how many items a merge queue verifies together.
const defaultBatch = 8

// mergeQueue reads how the work of items is verified as it is merged.
func (d *decoder) mergeQueue(n *node) *MergeQueue {
	o, ok := d.object(n, queueTable)
	if !ok {
		return nil
	}
	defer o.close()
	q := &MergeQueue{Pos: n.pos, Batch: defaultBatch, Order: "ended", Flaky: 1}
	queueTable.read(o, q)
	var verify queueVerify
	if queueTable.read(o, &verify); verify.val != nil {
		q.Verify = d.verify(verify.val)
	}
	m := d.file.Map
	if len(q.Verify) == 0 && !verify.there() && m != nil && (m.Evidence == nil || len(m.Evidence.Checks) == 0) && !d.full() {
		d.errorf(n, "missing-key", "merge_queue needs verify: what a merge must pass; there are no checks of map.evidence that it could be").
			Suggest("for example: merge_queue: {verify: make test}")
	}
	if m != nil && m.Evidence != nil && len(q.Verify) == 0 {
		for _, s := range m.Evidence.Checks {
			if s.readsItem(d.file) && !d.full() {
				d.errorf(n, "contradiction", "merge_queue has no verify, and the check %q of map.evidence, which would be it, reads the item: a merge has many", s.Label()).
					Suggest("write what a merge must pass: verify: make test")
				break
			}
		}
	}
	return q
}

// queueVerify is what a merge must pass.
type queueVerify struct{ written }

// verify reads what a merge must pass: a command, a step, or a list of them.
func (d *decoder) verify(n *node) []*Step {
	d.phase = 's'
	if n.kind == listNode {
		return d.steps(n, "merge_queue.verify", bareShell)
	}
	if s := d.step(n, "merge_queue.verify[0]", bareShell); s != nil {
		return []*Step{s}
	}
	return nil
}

// resolving reads the steps that resolve a conflict.
func (d *decoder) resolving(n *node) []*Step {
	d.phase = 'g'
	if n.kind == listNode {
		return d.steps(n, "merge_queue.resolve", barePrompt)
	}
	if s := d.step(n, "merge_queue.resolve[0]", barePrompt); s != nil {
		return []*Step{s}
	}
	return nil
}

// ReadsItem reports whether a check names the item that it is for.
func ReadsItem(f *File, s *Step) bool { return s.readsItem(f) }

func (s *Step) readsItem(f *File) bool {
	return slices.ContainsFunc(Reads(f, []*Step{s}), func(n Named) bool {
		name := n.Name
		if len(n.Path) > 0 {
			name = n.Path[0].Name
		}
		return slices.Contains([]string{"item", "item_json", "item_id", "item_index", "item_total", "attempt", "evidence"}, name)
	})
}

func (d *decoder) mapPhase(o, top *object) *Map {
	var keys mapKeys
	mapTable.read(o, &keys)
	m := &Map{Pos: o.n.pos, Parallel: Int{N: defaultParallel}, TimeoutPolicy: "per_agent", TimeoutAction: "dlq", TimeoutGrace: Duration{D: DefaultGrace, Unit: time.Second}}
	if keys.input.val != nil {
		d.input(keys.input.key.text, keys.input.val, m)
	}
	if mapTable.read(o, m); !keys.input.there() {
		p := d.errorf(o.n, "missing-key", "a map needs input: a file, a command or a list of items")
		if key, near := o.mistaken([]string{"input"}, foreignInputs); key != nil {
			p.Suggest("did you mean %q where it says %q?", near, key.text)
		}
		p.Or("for example: input: items.json")
	}
	m.FilterPos, m.SortPos, m.DistinctPos = o.at(m, &m.Filter).pos, o.n.pos, o.n.pos
	if keys.sort.val != nil {
		m.SortBy, m.SortPos = d.sortBy(keys.sort.key.text, keys.sort.val), keys.sort.key.pos
	}
	if keys.distinct.val != nil {
		m.Distinct, m.DistinctPos = d.distinct(keys.distinct.key.text, keys.distinct.val), keys.distinct.key.pos
	}
	width := keys.width
	if !width.there() {
		var whole mapKeys
		fileTable.read(top, &whole)
		width = whole.width
	}
	if width.val != nil {
		d.width(width.key.text, width.val, m)
	}
	const example = "for example: agent_template: [{shell: 'make ${item.name}'}]"
	switch n := keys.template.val; {
	case n != nil:
		m.Template = d.block(n, "map.agent_template")
		if len(m.Template.Steps) == 0 && n.kind == listNode && len(n.items) == 0 {
			d.errorf(n, "no-steps", "the agent_template has no steps").Suggest(example)
		}
	case keys.template.there():
		d.errorf(o.n, "no-steps", "the agent_template is empty").Suggest(example)
	default:
		p := d.errorf(o.n, "missing-key", "a map needs agent_template: the steps of each item")
		if key, near := o.mistaken([]string{"agent_template"}, foreignTemplates); key != nil {
			p.Suggest("did you mean %q where it says %q?", near, key.text)
		}
		p.Or(example)
	}
	d.agentTime(o, m)
	return m
}

// mapKeys are the keys of a map phase that are read one after the other, in the order of
// what they mean.
type mapKeys struct{ input, sort, distinct, width, template written }

// width reads how many items run at once: a number, or that the map finds out.
func (d *decoder) width(key string, n *node, m *Map) {
	n = d.resolved(n)
	if n.kind != mapNode && n.text != "auto" {
		v, p := d.intVar(n, key, 1)
		if p != nil {
			p.Or("write a number, auto, or as in {min: 2, max: 32}")
		}
		if v.Set {
			m.Parallel = v
		}
		return
	}
	m.Adaptive, m.Parallel = d.adaptive(key, n)
}

// adaptive reads auto, or from min to max: how many run at once is found out. It gives the
// most, too.
func (d *decoder) adaptive(key string, n *node) (*policy.Adaptive, Int) {
	a := &policy.Adaptive{}
	if n.kind == mapNode {
		b, _ := d.object(n, widthTable)
		defer b.close()
		widthTable.read(b, a)
		err := a.Validate()
		switch {
		case !b.any(a):
			d.errorf(n, "missing-key", "%s needs min or max", key).Suggest("for example: %s: {min: 2, max: 32}", key)
		case err != nil && !d.full():
			d.errorf(n, "out-of-range", "%s: %s", key, err).Suggest("for example: %s: {min: 2, max: 32}", key)
		}
	}
	return a, Int{N: a.Defaults().Max, Set: true}
}

// evidence reads what an item must show.
func (d *decoder) evidence(n *node) *Evidence {
	o, ok := d.object(n, evidenceTable)
	if !ok {
		return nil
	}
	defer o.close()
	e := &Evidence{Pos: n.pos}
	evidenceTable.read(o, e)
	if !o.any(e) && !d.full() {
		d.errorf(n, "missing-key", "evidence needs checks, paths or protect").Suggest("for example: evidence: {checks: ['make test']}")
	}
	return e
}

// pathPatterns reads patterns of files of a repository, relative to its top.
func (d *decoder) pathPatterns(ns []*node) (list []*template.Text) {
	for _, n := range ns {
		switch _, err := files.Match(n.text, "a"); {
		case strings.TrimSpace(n.text) == "":
			d.errorf(n, "bad-value", "a pattern is empty").Suggest("for example: 'src/**'")
		case strings.HasPrefix(n.text, "/") || strings.HasPrefix(n.text, "./") || strings.Contains("/"+n.text+"/", "/../"):
			d.errorf(n, "bad-value", "the pattern %s: paths are relative to the top of the repository", n.text).Suggest("for example: 'src/**'")
		case err != nil && !strings.Contains(n.text, "${"):
			d.errorf(n, "bad-value", "the pattern %s: %v", n.text, err).Suggest("for example: 'src/**'")
		default:
			if t := d.parsed(n, n.text); t != nil {
				list = append(list, t)
			}
		}
	}
	return list
}

// input reads where the items come from.
func (d *decoder) input(key string, n *node, m *Map) {
	switch {
	case n.kind == listNode:
		m.List, _ = n.value().([]any) // a list stays one
		return
	case n.scalar():
		if strings.TrimSpace(n.text) == "" {
			d.errorf(n, "bad-value", "the map's input is empty").Suggest("write a file, a command or a list: input: items.json")
			return
		}
		if list, ok := inlineItems(n.text); ok {
			m.List = list
			return
		}
		if d.notPattern(n, n.text) {
			m.Input = d.text(n, key)
		}
		return
	}
	o, _ := d.object(n, inputTable) // it is a map
	defer o.close()
	in, _ := d.inputOf(o)
	m.Input, m.InputKind = in.Input, in.InputKind
}

// notPattern reports whether an input is no pattern of files: the shell would run the
// first file that matches.
func (d *decoder) notPattern(n *node, text string) bool {
	if !strings.ContainsAny(text, "*?") || strings.ContainsAny(text, " \t\n$`;&|<>(){}'\"\\") {
		return true
	}
	d.errorf(n, "bad-value", "%s is a pattern of files; an input is a file, a command or a list", text).
		Suggest("write input: {command: ls %s}, of which each line is an item", text)
	return false
}

// inputFile is an input that is a file, with its format, and inputCommand one that is
// the output of a command.
type (
	inputFile struct {
		file   written
		format string
	}
	inputCommand struct{ commandText }
)

// inputOf reads the input of a map that is written as one: a file or a command. format
// is its key, where it is written.
func (d *decoder) inputOf(o *object) (m Map, format *node) {
	n := o.n
	file, command := inputFile{format: "file"}, inputCommand{}
	isFile, isCommand := o.keyOf(&file, &file.file) != nil, o.keyOf(&command, &command.written) != nil
	switch {
	case isFile && isCommand:
		d.errorf(n, "contradiction", "an input is a file or a command; this is both").Suggest("keep one of the two")
		inputTable.skip(o, &file, &command)
	case isFile:
		inputTable.read(o, &file)
		format = o.keyOf(&file, &file.format)
		if f := file.file.val; f != nil && (!f.scalar() || d.notPattern(f, f.text)) {
			m.Input, m.InputKind = d.text(f, file.file.key.text), file.format
		}
	case isCommand:
		inputTable.read(o, &command)
		m.Input, m.InputKind = command.text(d), "command"
	default:
		d.errorf(n, "missing-key", "an input written as a map has file: or command:").Suggest("for example: input: {file: items.jsonl, format: jsonl}, or for the files of a directory input: {command: ls in/*.txt}")
	}
	return m, format
}

// inlineItems reads an input that is a list in JSON, as a text.
func inlineItems(text string) ([]any, bool) {
	if text = strings.TrimSpace(text); !strings.HasPrefix(text, "[") || strings.Contains(text, "${") {
		return nil, false
	}
	v, err := value.Parse([]byte(text))
	list, ok := v.([]any)
	return list, err == nil && ok
}

func (d *decoder) sortBy(key string, n *node) *expr.Sort {
	if !n.scalar() {
		d.wrong(n, key, "a text").Suggest("for example: sort_by: score DESC, name")
		return nil
	}
	s, err := expr.ParseSort(n.text)
	if err != nil {
		d.syntax(n, "bad-expression", "in sort_by: ", err)
		return nil
	}
	return s
}

func (d *decoder) distinct(key string, n *node) *template.Text {
	if !n.scalar() {
		d.wrong(n, key, "the path of a field").Suggest("for example: distinct: item.path")
		return nil
	}
	path := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(n.text), "${"), "}"))
	if _, err := expr.ParsePath(strings.TrimPrefix(path, "$.")); err != nil {
		d.syntax(n, "bad-expression", "distinct is no path: ", err)
		return nil
	}
	return d.text(n, key)
}

// unchanged reads when an item is left out because nothing has changed: true, or
// the files that count as well.
func (d *decoder) unchanged(key string, n *node) *Unchanged {
	n = d.resolved(n)
	u := &Unchanged{Pos: n.pos}
	if n.kind != mapNode {
		switch {
		case n.kind != boolNode:
			d.wrong(n, key, "true, false or a map").Suggest("for example: skip_unchanged: {files: ['src/${item.name}.c']}")
		case isTrue(n):
			return u
		}
		return nil
	}
	o, _ := d.object(n, unchangedTable) // it is a map
	defer o.close()
	unchangedTable.read(o, u)
	if len(u.Files) == 0 {
		d.errorf(n, "missing-key", "a skip_unchanged written as a map needs files").Suggest("for example: skip_unchanged: {files: ['src/${item.name}.c']}, or skip_unchanged: true")
	}
	return u
}

// parsedEach parses texts.
func (d *decoder) parsedEach(ns []*node) (list []*template.Text) {
	for _, n := range ns {
		if t := d.parsed(n, n.text); t != nil {
			list = append(list, t)
		}
	}
	return list
}

// agentTime reads the bounds of an agent's time.
func (d *decoder) agentTime(o *object, m *Map) {
	var here, inside agentTimes
	mapTable.read(o, &here)
	m.AgentTimeout = here.agent
	n := here.more
	if n == nil {
		return
	}
	c, ok := d.object(n, timeoutTable)
	if !ok {
		return
	}
	defer c.close()
	timeoutTable.read(c, &inside)
	if t := inside.agent; t.Set {
		if m.AgentTimeout.Set {
			d.warnf(n, "no-effect", "the agent timeout of timeout_config has no effect: map has one too").Suggest("keep one of the two")
		} else {
			m.AgentTimeout = t
		}
	}
	timeoutTable.read(c, m)
	if inside.grace.Set {
		m.TimeoutGrace = inside.grace
	}
	if m.TimeoutPolicy != "per_agent" && m.CommandTimeouts == nil && !m.AgentTimeout.Set {
		d.warnf(n, "no-effect", "timeout_policy is %s, but there are neither agent_timeout_secs nor command_timeouts", m.TimeoutPolicy).Suggest("add command_timeouts: {shell: 60}")
	}
}

// agentTimes are the keys that bound the time of an agent.
type agentTimes struct {
	agent, grace Duration
	more         *node // timeout_config
}

func (d *decoder) commandTimeouts(n *node, key string) map[string]Duration {
	all := make(map[string]Duration, len(n.pairs))
	for _, p := range d.pairs(n, key, "a map", "command_timeouts: {shell: 60, claude: 10m}") {
		if t := d.duration(p.val, key+"."+p.key.text, time.Second); t.Set {
			all[p.key.text] = t
		}
	}
	return all
}
