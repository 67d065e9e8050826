package template

import "mvdan.cc/sh/v3/syntax"

// Quoting is how a place of a shell text is quoted.
type Quoting uint8

// The quotings of a place.
const (
	Within Quoting = iota // in double quotes, a here-document or a number: a value is no word of its own there
	Bare                  // in a word without quotes, where a value would be split
	Single                // in single quotes
)

// Quotings tells for each of the offsets into a shell text how it is quoted there. ok
// is false where the text is none.
func Quotings(src string, offsets []int) (list []Quoting, ok bool) {
	file, err := parseShell(src)
	if err != nil {
		return nil, false
	}
	list = make([]Quoting, len(offsets))
	var around []syntax.Node
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		around = append(around, n)
		kind := Single
		switch n.(type) {
		case *syntax.Lit:
			kind = quotingIn(around)
		case *syntax.SglQuoted:
		default:
			return true
		}
		start, end := span(n)
		for i, at := range offsets {
			if at >= start && at < end {
				list[i] = kind
			}
		}
		return true
	})
	return list, true
}

// quotingIn is the quoting of the last of the nodes, each of which is in the one
// before it.
func quotingIn(nodes []syntax.Node) Quoting {
	last := nodes[len(nodes)-1]
	for i := len(nodes) - 2; i >= 0; i-- {
		switch n := nodes[i].(type) {
		case *syntax.DblQuoted, *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause:
			return Within
		case *syntax.Redirect:
			if n.Hdoc != nil && n.Hdoc.Pos().Offset() <= last.Pos().Offset() {
				return Within
			}
			return Bare
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.Stmt:
			return Bare
		}
	}
	return Bare
}
