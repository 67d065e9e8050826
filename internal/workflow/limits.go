package workflow

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/option"
)

// limitRefs reads the names of limits of the machine.
func (o *object) limitRefs(n *node, key string) (refs []LimitRef) {
	for _, it := range o.stringsAt(n, key) {
		switch {
		case !limits.ValidName(it.text):
			o.d.errorf(it, "bad-name", "a limit cannot be called %q", short(it.text)).Suggest("write the name of a limit of %s, for example: limits: [anthropic]", limits.FileName)
		case slices.ContainsFunc(refs, func(r LimitRef) bool { return r.Name == it.text }):
			o.d.warnf(it, "no-effect", "the limit %q is named twice", it.text).Suggest("remove one of the two")
		default:
			refs = append(refs, LimitRef{it.text, it.pos})
		}
	}
	return refs
}

// priority reads how soon the attempts of a step get the limits for which they wait, and
// warns where they wait for none.
func (d *decoder) priority(o *object, key string, n *node, s *Step) {
	n, row := d.resolved(n), option.ByName("priority")
	level, ok := option.Priorities[n.text]
	if n.kind != strNode {
		i, p := d.integer(n, key, int(row.Least))
		if p == nil && i > int(row.Greatest) {
			p = d.errorf(n, "out-of-range", "%s is %d; it can be at most %v", key, i, row.Greatest)
		}
		if p != nil {
			p.Or("for example: %s: %s", key, row.Example)
			return
		}
		level = i
	} else if !ok {
		d.errorf(n, "bad-value", "%s cannot be %q", key, short(n.text)).Near(n.text, row.Words).Or("one of %s, or a number from %v to %v", strings.Join(row.Words, ", "), row.Least, row.Greatest)
		return
	}
	s.Priority = level - option.NormalPriority
	if len(s.Limits) > 0 {
		return
	}
	a, asks := s.Action.(*Claude)
	switch {
	case !asks:
		d.warnf(o.keyNode(key), "no-effect", "%s has no effect: the step names no limits for which it could wait", key).Suggest("add limits: [NAME], or remove it")
	case !d.limited(a.Provider):
		d.warnf(o.keyNode(key), "no-effect", "%s has no effect: neither the step nor the agent %q names limits for which it could wait", key, cmp.Or(a.Provider, "claude")).Suggest("add limits: [NAME], or remove it")
	}
}

// limited says whether an agent of the file names limits, or one of its chain.
func (d *decoder) limited(name string) bool {
	own := func(a *Agent) bool { return a != nil && len(a.Limits) > 0 }
	a := d.file.Agents[cmp.Or(name, "claude")]
	return own(a) || a != nil && slices.ContainsFunc(a.FirstOf, func(r AgentRef) bool { return own(d.file.Agents[r.Name]) })
}

// LimitNames gives the names of some limits.
func LimitNames(refs ...[]LimitRef) (names []string) {
	for _, list := range refs {
		for _, l := range list {
			names = append(names, l.Name)
		}
	}
	return names
}

// Limits gives the limits of the machine that a file and those it calls name, each once
// with the place where it is named first.
func Limits(f *File) (refs []LimitRef) {
	add := func(more []LimitRef) {
		for _, r := range more {
			if !slices.ContainsFunc(refs, func(have LimitRef) bool { return have.Name == r.Name }) {
				refs = append(refs, r)
			}
		}
	}
	for _, f := range Files(f) {
		if f.Map != nil {
			add(f.Map.ItemLimits)
		}
		Walk(f, func(s *Step) { add(s.Limits) })
	}
	agents := AllAgents(f)
	names := make([]string, 0, len(agents))
	for name := range agents {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add(agents[name].Limits)
	}
	return refs
}

// LimitProblems says what is wrong with the limits that a file names on a machine that
// has some: names that it does not have, and limits that are to be taken while others
// are held that come behind them in order. Two runs which take them the other way round
// would wait for each other.
func LimitProblems(f *File, c *limits.Config) (problems diag.List) {
	for _, r := range Limits(f) {
		if _, ok := c.Limits[r.Name]; !ok {
			c.Unknown(&problems, r.Pos, r.Name)
		}
	}
	agents := AllAgents(f)
	for _, f := range Files(f) {
		held := map[string][]LimitRef{} // by the path of what holds them
		if f.Map != nil && len(f.Map.ItemLimits) > 0 {
			held["map"] = f.Map.ItemLimits
		}
		Walk(f, func(s *Step) {
			if len(s.Limits) > 0 {
				held[s.Path] = s.Limits
			}
		})
		Walk(f, func(s *Step) {
			own := s.Limits
			if a, ok := s.Action.(*Claude); ok && agents[a.Provider] != nil {
				chain := agents[a.Provider]
				own = slices.Concat(own, chain.Limits)
				for _, r := range chain.FirstOf { // which take theirs while those are held
					if member := agents[r.Name]; member != nil {
						disorder(&problems, s, member.Limits, own)
						own = slices.Concat(own, member.Limits)
					}
				}
			}
			for path, around := range held {
				if inside(s.Path, path) {
					disorder(&problems, s, own, around)
				}
			}
		})
	}
	problems.Sort()
	return problems
}

// inside says whether the attempts of a step are made while something of a path is at
// work: not those of its handlers.
func inside(path, around string) bool {
	rest, ok := strings.CutPrefix(path, around+".")
	if !ok {
		return false
	}
	if around == "map" {
		return strings.HasPrefix(rest, "agent_template")
	}
	for _, after := range []string{"on_failure", "on_success", "on_exit_code", "fallback"} {
		if strings.HasPrefix(rest, after) {
			return false
		}
	}
	return true
}

// disorder says which limits of a step come before one that is held around it.
func disorder(problems *diag.List, s *Step, own, around []LimitRef) {
	for _, r := range own {
		if slices.ContainsFunc(around, func(a LimitRef) bool { return a.Name == r.Name }) {
			continue // it is held already
		}
		for _, a := range around {
			if r.Name < a.Name {
				problems.Errorf(r.Pos, "limit-order", "step %q takes the limit %q while %q is held around it (%s); limits are taken in the order of their names, so that no two runs wait for each other", s.Label(), r.Name, a.Name, a.Pos).
					Suggest("name %s there as well: limits: [%s, %s]", r.Name, r.Name, a.Name)
				break
			}
		}
	}
}
