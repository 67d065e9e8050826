package flow

import "strings"

// Called is a call as it is in the source.
type Called struct {
	Path   string // as [Static] gives it: "pages.Fetch"
	Callee string // the module
	// Attempts is how many the policy allows.
	Attempts int
}

// Calls are the calls of modules in a pipeline, each once.
func (f *Flow) Calls() []Called {
	var list []Called
	seen := map[string]bool{}
	var visit func(fn int, prefix string)
	visit = func(fn int, prefix string) {
		for _, s := range f.funcs[fn].sites {
			if s == nil {
				continue
			}
			at := prefix + s.label
			if c := s.node.Call; c.Module == nil {
				visit(c.Fn, at+".")
			} else if at = Static(at); !seen[at] {
				seen[at] = true
				list = append(list, Called{at, s.node.Label, s.policy.Attempts})
			}
		}
	}
	visit(0, "")
	return list
}

// Static is the path of a call without the elements that it is made for, and
// without what tells several calls of one name apart: "pages[3].Fetch" is
// "pages.Fetch".
func Static(path string) string {
	if !strings.ContainsAny(path, "[#@") {
		return path
	}
	b := make([]byte, 0, len(path))
	skip := false
	for i := range len(path) {
		switch c := path[i]; {
		case c == '[' || c == '#' || c == '@':
			skip = true
		case c == ']':
			skip = false
		case c == '.':
			skip = false
			b = append(b, c)
		case !skip:
			b = append(b, c)
		}
	}
	return string(b)
}
