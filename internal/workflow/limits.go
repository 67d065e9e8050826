package workflow

import (
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/limits"
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
