package template

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// ownNames are the names that a script gives values itself, with the place
// from which on they are the script's.
type ownNames map[string]int

// own reports whether name at off belongs to the script: `for f in …; do echo
// $f` means the loop's f, whatever else is called f.
func (t *Text) own(name string, off int) bool {
	from, ok := t.shell.own[name]
	return ok && off >= from
}

// Asked lists the references of a shell text to names that are not the script's own.
func (t *Text) Asked() []Ref {
	t.shellSegs()
	return slices.DeleteFunc(t.Refs(), func(r Ref) bool { return len(r.Path) == 1 && t.own(r.Path[0].Name, r.Offset) })
}

// shellSegs are the segments as a shell text has them: an own name's ${f:-…}
// is the shell's, and only the references in its default are ours.
func (t *Text) shellSegs() []segment {
	t.shell.once.Do(func() {
		t.shell.own = t.findOwn()
		t.shell.segs = t.openOwn(t.segs)
	})
	return t.shell.segs
}

func (t *Text) openOwn(segs []segment) []segment {
	if len(t.shell.own) == 0 {
		return segs
	}
	var out []segment
	for _, s := range segs {
		if s.kind != segRef || s.ref.def == nil || len(s.ref.head.path) != 1 || !t.own(s.ref.head.name, s.off) {
			out = append(out, s)
			continue
		}
		def := slices.Clone(s.ref.def.segs)
		for i := range def {
			def[i].off += s.off + s.ref.defOff
		}
		out = append(out, segment{kind: segLiteral, text: s.text[:s.ref.defOff], off: s.off})
		out = append(out, t.openOwn(def)...)
		out = append(out, segment{kind: segLiteral, text: "}", off: s.off + len(s.text) - 1})
	}
	return out
}

func (t *Text) findOwn() ownNames {
	if t.refs == 0 {
		return nil
	}
	file := t.shellFile()
	if file == nil {
		return nil
	}
	names := ownNames{}
	add := func(name string, from syntax.Pos) {
		if old, ok := names[name]; !ok || int(from.Offset()) < old {
			names[name] = int(from.Offset())
		}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil && !n.Naked {
				add(n.Name.Value, n.End())
			}
		case *syntax.WordIter:
			add(n.Name.Value, n.End())
		case *syntax.ParamExp:
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) && n.Param != nil {
				add(n.Param.Value, n.End())
			}
		case *syntax.CallExpr:
			addRead(n, add)
		}
		return true
	})
	return names
}

// addRead notes the names that read, mapfile and getopts fill.
func addRead(c *syntax.CallExpr, add func(string, syntax.Pos)) {
	if len(c.Args) == 0 {
		return
	}
	switch c.Args[0].Lit() {
	case "read", "mapfile", "readarray", "getopts":
		for _, w := range c.Args[1:] {
			if name := w.Lit(); syntax.ValidName(name) {
				add(name, c.End())
			}
		}
	}
}
