package workflow

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
)

const defaultGrace = 30 * time.Second

// mapReduce reads setup, map, reduce and the error policy.
func (d *decoder) mapReduce(o *object) {
	f := d.file
	if n := o.take("handlers"); n != nil {
		f.Handlers = d.handlers(n)
	}
	if n := o.take("setup"); n != nil {
		d.phase = 's'
		f.Setup = d.block(n, "setup")
	}
	sources := []*object{nil, nil, nil, o} // error_policy, map.error_policy, map, the top level
	if n := o.take("error_policy"); n != nil {
		sources[0], _ = d.object(n, errorPolicyTable)
	}
	d.phase = 'm'
	if n := o.take("map"); n != nil {
		if m, ok := d.object(n, mapTable); ok {
			if e := m.take("error_policy"); e != nil {
				sources[1], _ = d.object(e, errorPolicyTable)
			}
			sources[2] = m
			f.Map = d.mapPhase(m, o)
		}
	}
	d.errorPolicy(policySources{d, sources})
	for _, s := range sources[:3] {
		if s != nil {
			s.close()
		}
	}
	if n := o.take("reduce"); n != nil {
		d.phase = 'r'
		f.Reduce = d.block(n, "reduce")
	}
}

func (d *decoder) mapPhase(o, top *object) *Map {
	m := &Map{Pos: o.n.pos, Parallel: Int{N: defaultParallel}, TimeoutPolicy: "per_agent", TimeoutAction: "dlq", TimeoutGrace: Duration{D: defaultGrace, Unit: time.Second}}
	if n := o.take("input"); n != nil {
		d.input(n, m)
	} else if !o.has("input") {
		d.errorf(o.n, "missing-key", "a map needs input: a file, a command or a list of items").Suggest("for example: input: items.json")
	}
	if o.has("input_type") {
		m.InputKind = o.choice(m.InputKind, "input_type")
	}
	m.JSONPath = d.jsonPath(o.take("json_path"), "json_path")
	m.Filter = o.condition("filter")
	if n := o.take("sort_by"); n != nil {
		m.SortBy = d.sortBy(n)
	}
	if n := o.take("distinct"); n != nil {
		d.distinct(n, m)
	}
	m.Offset = o.intVar(0, "offset")
	m.MaxItems = o.intVar(0, "max_items")
	parallel := o
	if !o.has("max_parallel") {
		parallel = top
	}
	if v := parallel.intVar(1, "max_parallel"); v.Set {
		m.Parallel = v
	}
	m.Label = o.text("label")
	if v := o.duration("start_delay"); v.Set {
		d.file.StartDelay = v
	}
	if n := o.take("agent_template"); n != nil {
		m.Template = d.block(n, "map.agent_template")
		if len(m.Template.Steps) == 0 && n.kind == listNode && len(n.items) == 0 {
			d.errorf(n, "no-steps", "the agent_template has no steps").Suggest("for example: agent_template: [{shell: 'make ${item.name}'}]")
		}
	} else if !o.has("agent_template") {
		d.errorf(o.n, "missing-key", "a map needs agent_template: the steps of each item").Suggest("for example: agent_template: [{shell: 'make ${item.name}'}]")
	}
	d.agentTime(o, m)
	return m
}

// input reads where the items come from.
func (d *decoder) input(n *node, m *Map) {
	switch {
	case n.kind == listNode:
		m.List, _ = n.value().([]any) // a list stays one
		return
	case n.scalar():
		if strings.TrimSpace(n.text) == "" {
			d.errorf(n, "bad-value", "the map's input is empty").Suggest("write a file, a command or a list: input: items.json")
			return
		}
		m.Input = d.text(n, "input")
		return
	}
	o, _ := d.object(n, inputTable) // it is a map
	defer o.close()
	switch {
	case o.has("file") && o.has("command"):
		d.errorf(n, "contradiction", "an input is a file or a command; this is both").Suggest("keep one of the two")
		o.skip("file", "command", "format")
	case o.has("file"):
		m.Input, m.InputKind = o.text("file"), "file"
		m.InputKind = o.choice(m.InputKind, "format")
	case o.has("command"):
		m.Input, m.InputKind = o.text("command"), "command"
	default:
		d.errorf(n, "missing-key", "an input written as a map has file: or command:").Suggest("for example: input: {file: items.jsonl, format: jsonl}")
	}
}

func (d *decoder) sortBy(n *node) *expr.Sort {
	if !n.scalar() {
		d.wrong(n, "sort_by", "a text").Suggest("for example: sort_by: score DESC, name")
		return nil
	}
	s, err := expr.ParseSort(n.text)
	if err != nil {
		d.syntax(n, "bad-expression", "in sort_by: ", err)
		return nil
	}
	return s
}

func (d *decoder) distinct(n *node, m *Map) {
	if !n.scalar() {
		d.wrong(n, "distinct", "the path of a field").Suggest("for example: distinct: item.path")
		return
	}
	path := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(n.text), "${"), "}"))
	if _, err := expr.ParsePath(strings.TrimPrefix(path, "$.")); err != nil {
		d.syntax(n, "bad-expression", "distinct is no path: ", err)
		return
	}
	m.Distinct = d.text(n, "distinct")
}

// agentTime reads the bounds of an agent's time.
func (d *decoder) agentTime(o *object, m *Map) {
	m.AgentTimeout = o.positiveDuration("agent_timeout", "agent_timeout_secs", "timeout_per_agent")
	n := o.take("timeout_config")
	if n == nil {
		return
	}
	c, ok := d.object(n, timeoutTable)
	if !ok {
		return
	}
	defer c.close()
	if t := c.positiveDuration("agent_timeout", "agent_timeout_secs"); t.Set {
		if m.AgentTimeout.Set {
			d.warnf(n, "no-effect", "the agent timeout of timeout_config has no effect: map has one too").Suggest("keep one of the two")
		} else {
			m.AgentTimeout = t
		}
	}
	if v := c.take("command_timeouts"); v != nil {
		d.commandTimeouts(v, m)
	}
	m.TimeoutPolicy = c.choice(m.TimeoutPolicy, "timeout_policy")
	if t := c.duration("cleanup_grace_period", "cleanup_grace_period_secs"); t.Set {
		m.TimeoutGrace = t
	}
	m.TimeoutAction = c.choice(m.TimeoutAction, "timeout_action")
	if m.TimeoutPolicy != "per_agent" && !c.has("command_timeouts") {
		d.warnf(n, "no-effect", "timeout_policy is %s, but there are no command_timeouts", m.TimeoutPolicy).Suggest("add command_timeouts: {shell: 60}")
	}
}

func (d *decoder) commandTimeouts(n *node, m *Map) {
	if n.kind != mapNode {
		d.wrong(n, "command_timeouts", "a map").Suggest("for example: command_timeouts: {shell: 60, claude: 10m}")
		return
	}
	m.CommandTimeouts = make(map[string]Duration, len(n.pairs))
	for _, p := range n.pairs {
		if t := d.duration(p.val, "command_timeouts."+p.key.text, time.Second); t.Set {
			m.CommandTimeouts[p.key.text] = t
		}
	}
}

// policySources are the maps in which the keys of the error policy may stand,
// the one that counts most first.
type policySources struct {
	d    *decoder
	maps []*object
}

// find gives the map that has a key; others that have it too are warned about.
func (s policySources) find(keys ...string) *object {
	var found *object
	for _, o := range s.maps {
		if o == nil || !o.has(keys...) {
			continue
		}
		if found == nil {
			found = o
			continue
		}
		for _, k := range keys {
			if o.has(k) {
				s.d.warnf(o.keyNode(k), "no-effect", "%q has no effect: it is written on line %d too, which counts", k, found.n.pos.Line).
					Suggest("keep one of the two")
				o.skip(k)
			}
		}
	}
	return found
}

func (d *decoder) errorPolicy(s policySources) {
	p := &d.file.Policy
	p.Pos = d.file.Pos
	if s.maps[0] != nil {
		p.Pos = s.maps[0].n.pos
	}
	if o := s.find("retry_config", "retry"); o != nil {
		if key, n := o.first("retry_config", "retry"); n != nil {
			p.Retry = d.resolve(d.retrySpec(n, key))
		}
	}
	d.retryOnFailure(s.maps[2], p)
	if o := s.find("on_item_failure"); o != nil {
		if n := o.take("on_item_failure"); n != nil {
			d.onItemFailure(n, p)
		}
	}
	if o := s.find("continue_on_failure"); o != nil {
		if v, ok := o.flag("continue_on_failure"); ok {
			p.ContinueOnFailure = v
		}
	}
	if o := s.find("max_failures"); o != nil {
		if v, ok := o.integer(0, "max_failures"); ok {
			p.MaxFailures = v
		}
	}
	if o := s.find("failure_threshold"); o != nil {
		if v, ok := o.number(0, 1, "failure_threshold"); ok {
			p.FailureThreshold = v
		}
	}
	if o := s.find("error_collection"); o != nil {
		if n := o.take("error_collection"); n != nil {
			d.collection(n, p)
		}
	}
	if o := s.find("circuit_breaker"); o != nil {
		if n := o.take("circuit_breaker"); n != nil {
			p.Breaker = d.breaker(n)
		}
	}
	if o := s.find("max_recoveries"); o != nil {
		if v, ok := o.integer(1, "max_recoveries"); ok {
			p.MaxRecoveries = v
		}
	}
	if p.OnItemFailure == "retry" && p.Retry == nil {
		p.Retry = d.resolve(&retrySpec{n: d.treeRoot})
	}
}

// retryOnFailure reads map.retry_on_failure: how often an item is tried again,
// or true for the default policy.
func (d *decoder) retryOnFailure(m *object, p *ErrorPolicy) {
	if m == nil {
		return
	}
	n := m.take("retry_on_failure")
	if n == nil {
		return
	}
	if p.Retry != nil {
		d.warnf(n, "no-effect", "retry_on_failure has no effect beside retry_config").Suggest("keep one of the two")
		return
	}
	spec := &retrySpec{n: n}
	n = d.resolved(n)
	if n.kind == boolNode {
		if strings.EqualFold(n.text, "true") {
			p.Retry = d.resolve(spec)
		}
		return
	}
	again, prob := d.integer(n, "retry_on_failure", 0)
	switch {
	case prob != nil:
		if prob.Suggestion == "" {
			prob.Suggest("write how often an item is tried again, or true")
		}
	case again > 0:
		attempts := min(again, maxAttempts-1) + 1
		spec.attempts = &attempts
		p.Retry = d.resolve(spec)
	}
}

var itemActions = []string{"dlq", "retry", "skip", "stop", "custom"}

func (d *decoder) onItemFailure(n *node, p *ErrorPolicy) {
	n = d.resolved(n)
	switch {
	case n.tag == "!custom" && n.scalar():
		d.custom(n, p)
		return
	case n.kind == mapNode:
		o, _ := d.object(n, customTable) // it is a map
		defer o.close()
		if v := o.take("custom"); v != nil && v.scalar() {
			d.custom(v, p)
		} else {
			d.errorf(n, "bad-value", "on_item_failure written as a map is {custom: NAME}").Suggest("or write one of dlq, retry, skip, stop")
		}
		return
	case !n.scalar():
		d.wrong(n, "on_item_failure", "dlq, retry, skip, stop or {custom: NAME}").Suggest("for example: on_item_failure: dlq")
		return
	}
	word := snake(n.text)
	if name, ok := strings.CutPrefix(n.text, "custom:"); ok {
		named := *n
		named.text = strings.TrimSpace(name)
		d.custom(&named, p)
		return
	}
	switch {
	case word == "custom":
		d.errorf(n, "missing-key", "on_item_failure: custom needs the handler's name").Suggest("write on_item_failure: {custom: NAME} and handlers: {NAME: [steps]}")
	case slices.Contains(itemActions, word):
		p.OnItemFailure = word
	case d.file.Handlers[n.text] != nil:
		p.OnItemFailure, p.Handler = "custom", n.text
	default:
		prob := d.errorf(n, "bad-value", "on_item_failure cannot be %q", short(n.text))
		if s := diag.DidYouMean(word, itemActions); s != "" {
			prob.Suggest("%s", s)
		} else {
			prob.Suggest("write one of dlq, retry, skip, stop or {custom: NAME} with NAME under handlers")
		}
	}
}

func (d *decoder) custom(n *node, p *ErrorPolicy) {
	if d.file.Handlers[n.text] == nil {
		var names []string
		for name := range d.file.Handlers {
			names = append(names, name)
		}
		prob := d.errorf(n, "unknown-handler", "there is no handler %q under handlers", short(n.text))
		if s := diag.DidYouMean(n.text, names); s != "" {
			prob.Suggest("%s", s)
		} else {
			prob.Suggest("add handlers: {%s: [steps]} at the top level", nameFrom(n.text))
		}
		return
	}
	p.OnItemFailure, p.Handler = "custom", n.text
}

// collection reads when errors are shown, in every spelling: a word,
// batched:N, {batched: {size: N}}, {type: batched, size: N}, !batched {size: N}.
func (d *decoder) collection(n *node, p *ErrorPolicy) {
	n = d.resolved(n)
	switch {
	case n.tag == "!batched" || n.tag == "!aggregate" || n.tag == "!immediate":
		p.Collection = n.tag[1:]
		if n.tag == "!batched" {
			d.batch(n, p)
		}
	case n.kind == mapNode:
		o, _ := d.object(n, batchTable) // it is a map
		defer o.close()
		p.Collection = o.choice("batched", "type")
		if b := o.take("batched"); b != nil {
			d.batch(b, p)
		} else if p.Collection == "batched" {
			d.batchSize(o, p)
		}
	case n.scalar():
		word, size, has := strings.Cut(snake(n.text), ":")
		switch {
		case (word == "aggregate" || word == "immediate") && !has:
			p.Collection = word
		case word == "batched":
			d.batchedText(n, size, p)
		default:
			prob := d.errorf(n, "bad-value", "error_collection cannot be %q", short(n.text))
			if s := diag.DidYouMean(word, []string{"aggregate", "immediate", "batched"}); s != "" {
				prob.Suggest("%s", s)
			} else {
				prob.Suggest("write aggregate, immediate or batched:N")
			}
		}
	default:
		d.wrong(n, "error_collection", "a word").Suggest("write aggregate, immediate or batched:N")
	}
}

func (d *decoder) batchedText(n *node, size string, p *ErrorPolicy) {
	i, err := strconv.Atoi(strings.Trim(size, " _"))
	if err != nil || i < 1 {
		d.errorf(n, "bad-value", "error_collection %q does not say how many errors at a time", short(n.text)).Suggest("for example: error_collection: batched:5")
		return
	}
	p.Collection, p.BatchSize = "batched", i
}

func (d *decoder) batch(n *node, p *ErrorPolicy) {
	p.Collection = "batched"
	if n.kind == mapNode {
		o, _ := d.object(n, batchTable) // it is a map
		d.batchSize(o, p)
		o.close()
		return
	}
	i, prob := d.integer(d.resolved(n), "batched", 1)
	if prob == nil {
		p.BatchSize = i
	} else if prob.Suggestion == "" {
		prob.Suggest("for example: error_collection: {batched: {size: 5}}")
	}
}

func (d *decoder) batchSize(o *object, p *ErrorPolicy) {
	i, ok := o.integer(1, "size")
	switch {
	case ok:
		p.BatchSize = i
	case !o.has("size"):
		d.errorf(o.n, "missing-key", "batched needs its size").Suggest("for example: error_collection: batched:5")
	}
}
