package workflow

import (
	"cmp"
	"slices"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/template"
)

// AgentRef is the name of an agent, where a file has it.
type AgentRef struct {
	Name string
	Pos  diag.Pos
}

// builtIn are the command lines of the agents that are built in, by name. All of them
// print a stream of JSON lines.
var builtIn = map[string][]string{
	"claude": {"claude", "--print", "--output-format", "stream-json", "--verbose"},
	"codex":  {"codex", "exec", "--json"},
	"gemini": {"gemini", "--output-format", "stream-json", "--prompt", "${prompt}"},
}

// BuiltIn gives an agent that is built in; nil where none has the name.
func BuiltIn(name string) *Agent {
	words, ok := builtIn[name]
	if !ok {
		return nil
	}
	a := &Agent{Name: name, Output: "stream-json", BuiltIn: true}
	for _, w := range words {
		t, err := template.Parse(w)
		if err != nil {
			panic(err) // of a constant
		}
		a.Command = append(a.Command, t)
	}
	return a
}

// useBuiltIns has the file know the agents that are built in and that a step's keys
// name. That of claude needs no configuration.
func (d *decoder) useBuiltIns(n *node) {
	for _, p := range n.pairs {
		if name := p.key.text; builtIn[name] != nil && name != "claude" && d.file.Agents[name] == nil {
			d.knowBuiltIn(name)
		}
	}
}

func (d *decoder) knowBuiltIn(name string) {
	if d.file.Agents == nil {
		d.file.Agents = map[string]*Agent{}
	}
	d.file.Agents[name] = BuiltIn(name)
	d.agentTable = nil
}

// firstOf reads a chain of agents.
func (d *decoder) firstOf(ns []*node) (refs []AgentRef) {
	for _, n := range ns {
		if slices.ContainsFunc(refs, func(r AgentRef) bool { return r.Name == n.text }) {
			d.errorf(n, "bad-value", "the agent %q is in first_of twice", short(n.text)).Suggest("remove one of the two")
			continue
		}
		refs = append(refs, AgentRef{n.text, n.pos})
	}
	return refs
}

// chains checks the chains of agents once all agents are read.
func (d *decoder) chains() {
	names := make([]string, 0, len(d.file.Agents)+len(builtIn))
	for name := range d.file.Agents {
		names = append(names, name)
	}
	for name := range builtIn {
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		a := d.file.Agents[name]
		if a == nil {
			continue
		}
		for _, r := range a.FirstOf {
			member := d.file.Agents[r.Name]
			switch {
			case d.full():
			case member == nil && builtIn[r.Name] == nil:
				p := d.problems.Errorf(r.Pos, "unknown-agent", "first_of of the agent %q names the agent %q, which there is not", name, short(r.Name))
				p.Near(r.Name, names).Or("configure it under agents:, or name claude, codex or gemini, which are built in")
			case member != nil && len(member.FirstOf) > 0:
				d.problems.Errorf(r.Pos, "bad-value", "first_of of the agent %q names %q, which is a chain itself", name, r.Name).Suggest("write its agents here")
			case member == nil && r.Name != "claude":
				d.knowBuiltIn(r.Name)
			}
		}
	}
}

// chain checks the keys beside first_of.
func (d *decoder) chain(o *object, a *Agent, w written) {
	if w.val != nil {
		a.FirstOf = d.firstOf(o.stringsAt(w.val, w.key.text))
	}
	for _, p := range o.n.pairs {
		if f, ok := agentTable.field(p.key.text); ok && f.in(&agentProgram{Agent: a}) {
			d.errorf(p.key, "contradiction", "the agent %q is a chain (first_of), and has no %s of its own", a.Name, f.key).Suggest("write %s at its agents", f.key)
			o.skip(f.key)
		}
	}
	if len(a.FirstOf) < 2 && !d.full() {
		d.errorf(cmp.Or(w.val, o.n), "bad-value", "first_of of the agent %q needs two agents at least", a.Name).Suggest("for example: first_of: [claude, codex]")
	}
}
