package classify

import (
	"path"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bide-dev/bide/internal/pattern"
)

// exits says what the exit statuses of programs mean, where they mean a
// failure of the surroundings: of their manual pages.
var exits = map[string]map[int]Verdict{
	"curl": {
		5: {Network: true}, 6: {Network: true}, 7: {Network: true}, 16: {Network: true}, 18: {Network: true}, 28: {Network: true, Timeout: true},
		35: {Network: true}, 52: {Network: true}, 55: {Network: true}, 56: {Network: true}, 92: {Network: true}, 97: {Network: true},
	},
	"wget":        {4: {Network: true}},
	"ssh":         {255: {Network: true}},
	"scp":         {255: {Network: true}},
	"sftp":        {255: {Network: true}},
	"rsync":       {10: {Network: true}, 12: {Network: true}, 30: {Network: true, Timeout: true}, 35: {Network: true, Timeout: true}, 255: {Network: true}},
	"timeout":     {124: {Timeout: true}},
	"aria2c":      {2: {Timeout: true}, 6: {Network: true}, 19: {Network: true}},
	"ping":        {1: {Network: true}},
	"wait-for-it": {124: {Timeout: true}},
}

// statuses are all that are in exits, so that most failures need no parser.
var statuses = sync.OnceValue(func() (s [256]bool) {
	for _, m := range exits {
		for n := range m {
			s[n] = true
		}
	}
	return s
})

// refusal are the words of ssh and rsync for what another attempt would meet
// as well.
var refusal = pattern.Lazy(`(?i)permission denied|host key verification failed|too many authentication failures|bad configuration option|no such identity|usage: ssh|unknown option|illegal option|unprotected private key|invalid option|bad port|command-line: line`)

func byStatus(text string, exit int, printed string) Verdict {
	names := deciders(text)
	if len(names) == 0 {
		return Verdict{}
	}
	var v Verdict
	for _, name := range names {
		table, ok := exits[name]
		if !ok {
			if v = exits["timeout"][exit]; v.known() && names[0] == "timeout" {
				return v // no other program ends with its status
			}
			return Verdict{} // any program may end with any status
		}
		v = v.or(table[exit])
	}
	if refusal().MatchString(printed) {
		return Verdict{}
	}
	return v
}

// deciders are the programs whose exit status may be that of the whole text.
func deciders(text string) []string {
	d := &decided{seen: map[string]bool{}}
	d.script(text)
	return d.names
}

// maxDepth bounds how deep scripts in arguments of shells are looked into.
const maxDepth = 4

// script adds those of a text; what is no shell text adds nothing.
func (d *decided) script(text string) {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return
	}
	for i, s := range f.Stmts {
		if i == len(f.Stmts)-1 || d.errexit {
			d.stmt(s)
		} else if setsErrexit(s) {
			d.errexit = true
		}
	}
}

type decided struct {
	names   []string
	seen    map[string]bool
	errexit bool // set -e: any statement may have been the last
	depth   int  // of scripts that are arguments of shells
}

func (d *decided) stmt(s *syntax.Stmt) {
	if s == nil || s.Negated {
		return
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Args) == 0 {
			d.assigned(c.Assigns)
		}
		d.call(c.Args)
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt {
			d.stmt(c.X)
		}
		d.stmt(c.Y)
	case *syntax.Block:
		d.last(c.Stmts)
	case *syntax.Subshell:
		d.last(c.Stmts)
	case *syntax.TimeClause:
		d.stmt(c.Stmt)
	case *syntax.DeclClause:
	case *syntax.TestClause:
	default:
		d.add("?") // loops and conditions: not looked into
	}
}

// assigned adds the programs of x=$(…): its status is that of the last of them.
func (d *decided) assigned(list []*syntax.Assign) {
	var last *syntax.CmdSubst
	for _, a := range list {
		if a.Value == nil {
			continue
		}
		syntax.Walk(a.Value, func(n syntax.Node) bool {
			c, ok := n.(*syntax.CmdSubst)
			if ok {
				last = c
			}
			return !ok
		})
	}
	if last != nil {
		d.last(last.Stmts)
	}
}

func (d *decided) last(list []*syntax.Stmt) {
	if len(list) > 0 {
		d.stmt(list[len(list)-1])
	}
}

func (d *decided) add(name string) {
	if !d.seen[name] {
		d.seen[name] = true
		d.names = append(d.names, name)
	}
}

// quiet are commands that fail with no status of a table.
var quiet = map[string]bool{"cd": true, "set": true, "echo": true, "printf": true, "test": true, "[": true, "true": true, "mkdir": true, "export": true, "rm": true, "cat": true, ":": true, "mv": true, "cp": true, "chmod": true, "sleep": true, "tee": true}

// call adds the program of a simple command, behind wrappers such as sudo.
func (d *decided) call(args []*syntax.Word) {
	for i := 0; i < len(args); i++ {
		name := path.Base(args[i].Lit())
		switch name {
		case "sudo", "env", "nice", "nohup", "command", "exec", "stdbuf", "time", "ionice":
			for i+1 < len(args) && (strings.HasPrefix(args[i+1].Lit(), "-") || isAssignment(args[i+1])) {
				i++
			}
			continue
		case "timeout":
			d.add(name)
			for i+1 < len(args) && strings.HasPrefix(args[i+1].Lit(), "-") {
				i++
			}
			i++ // the duration
			continue
		case "sh", "bash", "dash", "ash", "zsh", "ksh":
			if script, errexit, ok := scriptOf(args[i+1:]); ok && d.depth < maxDepth {
				inner := &decided{names: d.names, seen: d.seen, errexit: errexit, depth: d.depth + 1}
				inner.script(script)
				d.names = inner.names
				return
			}
		case ".": // of a word that is no literal
			name = "?"
		}
		if !quiet[name] {
			d.add(name)
		}
		return
	}
}

// scriptOf is the text of -c among the arguments of a shell, where it is written
// out, and whether the shell is to end with the first command that fails.
func scriptOf(args []*syntax.Word) (text string, errexit, ok bool) {
	for i, w := range args {
		option := w.Lit()
		if !strings.HasPrefix(option, "-") || strings.HasPrefix(option, "--") || i+1 == len(args) {
			break
		}
		errexit = errexit || strings.Contains(option, "e")
		if strings.HasSuffix(option, "c") {
			text, ok = written(args[i+1].Parts)
			break
		}
	}
	return text, errexit, ok
}

// written is a word without its quotes; ok is false where something is expanded in it.
func written(parts []syntax.WordPart) (text string, ok bool) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			text += p.Value
		case *syntax.SglQuoted:
			text += p.Value
		case *syntax.DblQuoted:
			in, ok := written(p.Parts)
			if !ok {
				return "", false
			}
			text += in
		default:
			return "", false
		}
	}
	return text, true
}

func isAssignment(w *syntax.Word) bool {
	if len(w.Parts) == 0 {
		return false
	}
	lit, ok := w.Parts[0].(*syntax.Lit)
	if !ok {
		return false
	}
	name, _, found := strings.Cut(lit.Value, "=")
	return found && syntax.ValidName(name)
}

// setsErrexit: set -e, set -euo pipefail, set -o errexit.
func setsErrexit(s *syntax.Stmt) bool {
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) < 2 || c.Args[0].Lit() != "set" {
		return false
	}
	for _, w := range c.Args[1:] {
		lit := w.Lit()
		if lit == "errexit" || strings.HasPrefix(lit, "-") && strings.Contains(lit, "e") {
			return true
		}
	}
	return false
}
