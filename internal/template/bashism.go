package template

import (
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bashism is something of a shell text that bash has and dash has not.
type Bashism struct {
	// What names it.
	What string
	// Dash is what dash does with it.
	Dash string
	// Instead is what does the same in every shell; "" where there is nothing short.
	Instead string
}

// Bashism gives the first one of a shell text. None is found in a text that is no
// shell, and a function of the text's own is none.
func (t *Text) Bashism() (Bashism, bool) {
	if !mayBeBash(t.src) {
		return Bashism{}, false
	}
	file := t.shellFile()
	if file == nil {
		return Bashism{}, false
	}
	b := bashisms{functions: definedFunctions(file), alone: isOneCommand(file)}
	syntax.Walk(file, func(n syntax.Node) bool {
		if n != nil && b.found == nil {
			b.node(n)
		}
		return b.found == nil
	})
	if b.found == nil {
		return Bashism{}, false
	}
	return *b.found, true
}

// mayBeBash reports whether a text has anything in it that all with a bashism have, and
// many that have none.
func mayBeBash(src string) bool {
	for _, hint := range []string{"[[", "((", "let", "<(", ">(", "=(", "coproc", "&>", "<<<", "|&", "function", "select", "$'", "declare", "typeset", "nameref", "source", "==", "-e", "pipefail"} {
		if strings.Contains(src, hint) {
			return true
		}
	}
	return strings.Contains(src, "{") && (strings.Contains(src, ",") || strings.Contains(src, ".."))
}

// isOneCommand reports whether a text is a single command, which runs without a
// shell where its program is found.
func isOneCommand(f *syntax.File) bool {
	if len(f.Stmts) != 1 || len(f.Stmts[0].Redirs) > 0 {
		return false
	}
	_, ok := f.Stmts[0].Cmd.(*syntax.CallExpr)
	return ok
}

type bashisms struct {
	functions map[string]bool
	alone     bool
	found     *Bashism
}

func (b *bashisms) tell(what, dash, instead string) {
	if b.found == nil {
		b.found = &Bashism{what, dash, instead}
	}
}

const (
	isRefused = "refuses the script"
	isMissing = "has no such command"
)

func (b *bashisms) node(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.TestClause:
		b.tell("[[ … ]]", "has no such command, and continues as if it were false", "[ … ] with quotes around variables, or case … in")
	case *syntax.ArithmCmd:
		b.tell("(( … ))", "runs what is in it as a command", "[ $((…)) -ne 0 ], and x=$((x + 1))")
	case *syntax.LetClause:
		b.tell("let", isMissing, "x=$((…))")
	case *syntax.ProcSubst:
		b.tell(n.Op.String()+"…)", isRefused, "")
	case *syntax.ArrayExpr:
		b.tell("an array", isRefused, "")
	case *syntax.CoprocClause:
		b.tell("coproc", isMissing, "")
	case *syntax.Redirect:
		switch n.Op {
		case syntax.RdrAll, syntax.AppAll:
			b.tell(n.Op.String(), "runs what stands before it in the background, and empties the file", "> file 2>&1")
		case syntax.WordHdoc:
			b.tell("<<<", isRefused, "printf '%s\\n' … |")
		}
	case *syntax.BinaryCmd:
		if n.Op == syntax.PipeAll {
			b.tell("|&", isRefused, "2>&1 |")
		}
	case *syntax.FuncDecl:
		if n.RsrvWord {
			b.tell("function NAME", "has no such word", "NAME() { …; }")
		}
	case *syntax.ForClause:
		if _, ok := n.Loop.(*syntax.CStyleLoop); ok || n.Select {
			b.tell(map[bool]string{true: "select", false: "for (( … ))"}[n.Select], isRefused, "")
		} else if loop, ok := n.Loop.(*syntax.WordIter); ok {
			b.words(loop.Items)
		}
	case *syntax.SglQuoted:
		if n.Dollar {
			b.tell("$'…'", "takes the $ and the backslashes for themselves", "\"$(printf '…')\"")
		}
	case *syntax.DeclClause:
		if v := n.Variant.Value; v == "declare" || v == "typeset" || v == "nameref" {
			b.tell(v, isMissing, "NAME=value")
		}
	case *syntax.CallExpr:
		b.call(n)
	}
}

// call looks at a command of words.
func (b *bashisms) call(c *syntax.CallExpr) {
	if len(c.Args) == 0 || b.functions[c.Args[0].Lit()] {
		return
	}
	has := func(lit string) bool {
		return slices.ContainsFunc(c.Args[1:], func(w *syntax.Word) bool { return w.Lit() == lit })
	}
	switch name := c.Args[0].Lit(); {
	case name == "source":
		b.tell("source", isMissing, ". ./FILE")
	case (name == "[" || name == "test") && has("==") && !b.alone:
		b.tell("== in "+name, "takes it for an error, and continues as if it were false", "=")
	case name == "echo" && len(c.Args) > 1 && c.Args[1].Lit() == "-e" && !b.alone:
		b.tell("echo -e", "prints -e", "printf")
	case name == "set" && has("pipefail"):
		b.tell("set -o pipefail", "may refuse", "")
	}
	b.words(c.Args[1:])
}

// words looks for braces that bash expands, such as {1..3} and {a,b}.
func (b *bashisms) words(words []*syntax.Word) {
	for _, w := range words {
		one := *w // SplitBraces changes the word
		syntax.SplitBraces(&one)
		if slices.ContainsFunc(one.Parts, func(p syntax.WordPart) bool { _, ok := p.(*syntax.BraceExp); return ok }) {
			b.tell("{a,b} and {1..3}", "takes them as they stand", "seq 1 3, or each word by itself")
		}
	}
}

// MayBeOpen is true of all texts that have something unclosed, and of few others.
func (t *Text) MayBeOpen() bool {
	n := func(of string) int { return strings.Count(t.src, of) }
	return n(`"`)%2 == 1 || n("'")%2 == 1 || n("`")%2 == 1 || n("${") > n("}") || n("(") > n(")") || n("{") > n("}")
}

// Unclosed finds what a shell text opens and does not close, such as ${, $( or a quote:
// what it is, and its offset. No shell runs such a text. ok is false where there is none.
func (t *Text) Unclosed() (what string, offset int, ok bool) {
	if !t.MayBeOpen() {
		return "", 0, false
	}
	_, err := parseShell(t.readable())
	pe, is := errors.AsType[syntax.ParseError](err)
	switch {
	case !is:
	case pe.Incomplete && !strings.Contains(pe.Text, "here-document"): // which sh closes at the end
		return strings.Replace(pe.Text, "reached EOF without", "the text ends without", 1), int(pe.Pos.Offset()), true
	case strings.Contains(pe.Text, "parameter expansion") && strings.Count(t.src, "${") > strings.Count(t.src, "}"):
		return "`${` has no matching `}`", strings.LastIndex(t.src[:pe.Pos.Offset()], "${"), true
	}
	return "", 0, false
}
