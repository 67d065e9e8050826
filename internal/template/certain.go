package template

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// MustExpand reports whether a shell that runs the text cannot but expand the
// reference at an offset: it is in a command that runs whatever happens, and
// outside of anything that runs only sometimes. In doubt it is false.
func (t *Text) MustExpand(offset int) bool {
	t.shell.certainOnce.Do(func() { t.shell.certain = t.findCertain() })
	return slices.Contains(t.shell.certain, offset)
}

func (t *Text) findCertain() []int {
	file := t.shellFile()
	if file == nil {
		return nil
	}
	var c certain
	c.stmts(file.Stmts)
	return c.offsets
}

// certain gathers the expansions that are certain.
type certain struct{ offsets []int }

// leaving are commands after which it is not certain that a script continues.
var leaving = wordSet(`exit exec return set trap eval source . kill shopt`)

// stmts goes through statements until one that may leave the script.
func (c *certain) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		if !s.Background && !s.Coprocess && !s.Negated {
			c.stmt(s)
		}
		leaves := false
		syntax.Walk(s, func(n syntax.Node) bool {
			call, ok := n.(*syntax.CallExpr)
			leaves = leaves || ok && len(call.Args) > 0 && leaving(call.Args[0].Lit())
			return !leaves
		})
		if leaves {
			return
		}
	}
}

func (c *certain) stmt(s *syntax.Stmt) {
	for _, r := range s.Redirs {
		c.node(r)
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		c.node(cmd)
	case *syntax.BinaryCmd:
		if cmd.Op == syntax.OrStmt {
			return // what is behind it may be there for the failure
		}
		c.stmt(cmd.X)
		if cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll {
			c.stmt(cmd.Y)
		}
	case *syntax.Block:
		c.stmts(cmd.Stmts)
	}
}

// node takes the expansions of a command's words, but not what is inside an
// expansion or a substitution.
func (c *certain) node(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			start, _ := span(n)
			c.offsets = append(c.offsets, start)
			return false
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ArithmExp:
			return false
		}
		return true
	})
}
