package syntax

import (
	"fmt"

	"github.com/bide-dev/bide/internal/diag"
)

// file reads all declarations.
func (p *parser) file() {
	complete := false // there is an output, or something that may be meant as one
	for p.kind() != tEOF {
		before := p.i
		p.chain, p.ctx = 0, ctxTop
		d := p.decl()
		p.f.Decls = append(p.f.Decls, d)
		if bad, ok := d.(*BadDecl); ok {
			p.f.lost = append(p.f.lost, bad.Span)
		}
		switch d.(type) {
		case *OutDecl, *BadDecl:
			complete = true
		}
		if p.kind() != tEOF && !p.declStart(p.i) && !p.freshLine() {
			p.leftover(d)
		}
		if p.i == before {
			p.take()
		}
	}
	p.unnamedOutputs()
	if !complete {
		p.errorAt(p.place(), CodeOutput, "the pipeline has no output").Suggest(`add a line such as "out result"`)
	}
}

// leftover reports what is after a declaration and is none.
func (p *parser) leftover(d Decl) {
	if !p.tok().newLine {
		p.f.wrong = append(p.f.wrong, d.Extent().End) // it was meant to continue
	}
	_, outputs := d.(*OutDecl)
	if _, bad := d.(*BadDecl); !bad {
		switch t := p.tok(); {
		case t.kind == tFatArrow:
			p.unexpected("a declaration or an operator").Suggest(`put the parameters of a lambda in parentheses: "(a, b) => …"`)
		case t.kind == tIdent && !t.newLine && p.peek(1).kind.isWord() && diag.Nearest(p.text(t), []string{"with"}) != "":
			p.unexpected("a declaration or an operator").Suggestion = diag.DidYouMean(p.text(t), []string{"with"})
		case outputs && !t.newLine && (t.kind == tComma || t.kind == tIdent):
			p.unexpected("a declaration or an operator").Suggest(`write one "out" for each, or "out {a, b}"`)
		case t.kind == tComma:
			p.unexpected("a declaration or an operator").Suggest("declarations need nothing between them")
		case t.kind == tIdent && p.peek(1).kind == tColon && OptionByName(p.text(t)) != BadOption && p.toks[max(p.i-1, 0)].kind != tRParen:
			p.unexpected("a declaration or an operator").Suggest(`separate options with ","`)
		case t.kind == tRParen, t.kind == tRBrack, t.kind == tRBrace:
			p.errorTok(CodeSyntax, "nothing opens this %s", quote(p.text(t))).Suggest("remove it, or add the opening bracket")
		default:
			u := p.unexpected("a declaration or an operator")
			prev := &p.toks[max(p.i-1, 0)]
			if text := p.elsewhere(prev, t); text != "" && u.Suggestion == "" {
				u.Suggest("%s", text)
				if foreignWords[p.text(prev)] != "" {
					p.skipLines()
					return
				}
			} else if u.Suggestion == "" && !t.newLine && prev.kind == tIdent && t.kind.beginsExpr() {
				u.Suggest("a call has parentheses: write %q", p.text(prev)+"(…)")
			}
		}
	}
	p.skipDecl()
}

// decl reads one declaration.
func (p *parser) decl() Decl {
	t := p.tok()
	if t.kind.isReserved() && p.peek(1).kind == tAssign {
		return p.assign()
	}
	switch t.kind {
	case tType:
		return p.typeDecl()
	case tUse:
		return p.useDecl()
	case tIn:
		return p.inDecl(t.start, nil)
	case tOut:
		return p.outDecl(t.start, nil)
	case tAt:
		return p.annotated()
	case tIdent:
		if p.peek(1).kind == tAssign {
			return p.assign()
		}
		if next := p.peek(1); p.text(t) == "policy" && next.kind.isWord() && p.peek(2).kind == tAssign {
			return p.policyDecl()
		}
	}
	return p.noDecl()
}

// declWords are the words that begin a declaration.
var declWords = []string{"in", "out", "type", "use", "policy"}

// meant maps words of other languages to ours.
var meant = map[string]string{"input": "in", "output": "out", "import": "use", "return": "out", "emit": "out", "param": "in", "alias": "type"}

// noDecl reports source that is no declaration and passes it.
func (p *parser) noDecl() Decl {
	t, next := p.tok(), p.peek(1)
	start := t.start
	switch word := p.text(t); {
	case t.kind == tIdent && next.kind == tColon:
		return p.typedAssign()
	case t.kind == tIdent && next.kind == tEq:
		p.errorAt(next.span(), CodeSyntax, `"==" compares`).Suggest("write %q", word+" = …")
		return p.assign()
	case t.kind == tIdent && !next.newLine && foreignWords[word] != "" && next.kind != tDot && p.peek(2).kind != tAssign:
		p.unexpected("a declaration").Suggest("%s", foreignWords[word])
		p.skipLines()
		return &BadDecl{p.from(start)}
	case t.kind == tIf || t.kind == tBranch || t.kind == tMatch || t.kind == tWhen:
		p.errorTok(CodeSyntax, "this value has no name").Suggest("write %q", "name = "+word+" …")
		p.skipLines()
		return &BadDecl{p.from(start)}
	case t.kind == tIdent && next.kind == tDot && p.assignsField():
		p.take()
		p.take()
		field := p.take()
		p.errorAt(p.from(start), CodeSyntax, "a field cannot be given a value").Suggest("write %q", fmt.Sprintf("%s = %s + {%s: …}", word, word, p.text(field)))
		p.skipLines()
		return &BadDecl{p.from(start)}
	case t.kind == tIdent && next.kind == tIdent && p.peek(2).kind == tAssign && isBinder(word):
		p.errorTok(CodeSyntax, "an assignment needs no %q", word).Suggest("write %q", p.text(next)+" = …")
		p.take()
		return p.assign()
	case t.kind == tIdent && next.kind.isWord() && !next.newLine:
		d := p.unexpected("a declaration")
		if w := meant[word]; w != "" {
			d.Suggest("did you mean %q?", w)
		} else {
			d.Suggestion = diag.DidYouMean(word, declWords)
		}
		p.take()
	case t.kind == tIdent && (next.kind == tLParen || next.kind == tDot || next.kind == tBar):
		d := p.errorTok(CodeSyntax, "this value has no name").Suggest(`write "name = …" or "out name = …"`)
		p.expr()
		if _, to := p.f.Span(p.from(start)); to > 0 {
			d.To(to)
		}
	default:
		p.unexpected("a declaration").Suggest(`a declaration is "in name: Type", "name = …", "out name", "type Name = …", "use name" or "policy name = …"`)
		p.take()
	}
	p.skipDecl()
	return &BadDecl{p.from(start)}
}

// foreignWords are words that begin a statement in other languages, with what
// to do here.
var foreignWords = map[string]string{
	"for": loopHint, "foreach": loopHint, "while": loopHint, "loop": loopHint,
	"def": functionHint, "fun": functionHint, "func": functionHint, "fn": functionHint, "function": functionHint,
	"try":   `write "f(x) with fallback: …"`,
	"print": "write \"out name\"", "throw": `let a module fail; the call says what then: "with fallback: …"`, "raise": `let a module fail; the call says what then: "with fallback: …"`,
}

const (
	loopHint     = `work on each element of a list with "map(xs, (x) => …)"`
	lambdaHint   = `write it with "=>": "(x) => x + 1"`
	functionHint = `a function is a module, declared in modules.yml; a small one stands where it is used: "map(xs, (x) => x + 1)"`
)

// elsewhere says what is written for what other languages have after a value, between two
// tokens of a line; "" where nothing is known.
func (p *parser) elsewhere(prev, t *token) string {
	if t.newLine {
		return ""
	}
	word, before := p.text(t), p.text(prev)
	switch {
	case prev.kind == tIdent && (before == "await" || before == "async" || before == "new"):
		return "leave out \"" + before + "\": a call starts when its inputs are there"
	case prev.kind == tIdent && foreignWords[before] != "":
		return foreignWords[before]
	case prev.kind == tIdent && t.kind == tString && len(before) == 1:
		return "leave out \"" + before + "\": a text has values with \"… ${name} …\""
	case t.kind == tIdent && (word == "catch" || word == "rescue" || word == "except" || word == "fallback"):
		return `write "with fallback: …"`
	case t.kind == tIdent && prev.kind == tRParen && OptionByName(word) != BadOption:
		return `write "with ` + OptionByName(word).example() + `"`
	}
	return ""
}

// assignsField reports whether "a.b =" begins at the current token.
func (p *parser) assignsField() bool {
	return p.peek(2).kind.isWord() && p.peek(3).kind == tAssign
}

// skipLines passes tokens up to a declaration that begins a line.
func (p *parser) skipLines() {
	start := p.tok().start
	for p.take(); p.kind() != tEOF && !p.freshLine(); {
		p.take()
	}
	p.lose(start)
}

func isBinder(word string) bool {
	switch word {
	case "let", "val", "var", "const", "def", "set":
		return true
	}
	return false
}

// typedAssign reads "name: Type = expr", which is an error, as an
// assignment.
func (p *parser) typedAssign() Decl {
	name, _ := p.name("the name of a value")
	colon := p.take()
	if p.kind() == tAssign {
		p.errorAt(Span{colon.start, p.tok().end}, CodeSyntax, `there is no ":="`).Suggest("write %q", name.Name+" = …")
		p.take()
		value := p.expr()
		return &AssignDecl{p.from(name.Start), name, value}
	}
	p.typeExpr()
	p.errorAt(p.from(colon.start), CodeSyntax, "an assignment has no type of its own").
		Suggest(`write "%s = …"; an input is declared with "in %s: Type"`, name.Name, name.Name)
	if !p.got(tAssign) {
		p.lastErr = p.tok().start
		p.skipDecl()
		return &BadDecl{p.from(name.Start)}
	}
	value := p.expr()
	return &AssignDecl{p.from(name.Start), name, value}
}

func (p *parser) assign() Decl {
	name, _ := p.nameBeforeAssign()
	p.take() // =
	value := p.expr()
	return p.assigns.new(AssignDecl{p.from(name.Start), name, value})
}

func (p *parser) nameBeforeAssign() (Ident, bool) {
	t := p.take()
	if t.kind.isReserved() {
		p.reservedName(t, "the name of a value")
	}
	return Ident{t.span(), p.text(t)}, true
}

func (p *parser) typeDecl() Decl {
	start := p.take().start
	name, ok := p.name("the name of a type")
	if !ok || !p.expect(tAssign, `"=" and a type`) {
		p.skipDecl()
		return &BadDecl{p.from(start)}
	}
	typ := p.typeExpr()
	return &TypeDecl{p.from(start), name, typ}
}

func (p *parser) useDecl() Decl {
	start := p.take().start
	if k := p.kind(); k != tIdent {
		p.name("the name of a namespace")
		p.skipDecl()
		return &BadDecl{p.from(start)}
	}
	d := &UseDecl{Path: p.qname()}
	if p.got(tAs) {
		if alias, ok := p.name("an alias"); ok {
			d.Alias = &alias
		}
	}
	d.Span = p.from(start)
	return d
}

// qname reads a dotted name; only its first part must not be reserved, and
// the caller has looked at that.
func (p *parser) qname() QName {
	t := p.take()
	p.nameParts.new(Ident{t.span(), p.text(t)})
	n := len(p.nameParts.free)
	q := QName{Parts: p.nameParts.free[n-1 : n : n]}
	for p.kind() == tDot && p.link() {
		p.take()
		part, ok := p.fieldName("a name after the dot")
		if !ok {
			break
		}
		q.Parts = append(q.Parts, part)
	}
	q.Span = p.from(t.start)
	return q
}

func (p *parser) inDecl(start int32, annotations []*Annotation) Decl {
	p.take()
	if p.kind() == tColon {
		p.unexpected("the name of an input").Suggest(`write "in name: Type"`)
	}
	name, ok := p.name("the name of an input")
	if !ok {
		p.skipDecl()
		return &BadDecl{p.from(start)}
	}
	d := &InDecl{Annotations: annotations, Name: name}
	if p.kind() == tColon {
		p.take()
		d.Type = p.typeExpr()
	} else {
		if t := p.tok(); t.kind == tIdent && !t.newLine {
			p.unexpected(`":" and a type`).Suggest(`write "in %s: %s"`, name.Name, p.text(t))
		} else {
			p.unexpected(`":" and a type`).Suggest(`write "in %s: String", for example`, name.Name)
		}
		d.Type = &BadType{p.here()}
		if p.kind() == tIdent && p.peek(1).kind != tAssign {
			d.Type = p.typeExpr()
		}
	}
	if p.got(tAssign) {
		d.Default = p.expr()
	}
	d.Annotations = append(d.Annotations, p.trailing()...)
	d.Span = p.from(start)
	p.checkAnnotations(d.Annotations, "an input", Example, Source)
	return d
}

func (p *parser) policyDecl() Decl {
	start := p.take().start
	name, _ := p.name("the name of a policy")
	p.take() // =
	options := p.options(nil)
	return &PolicyDecl{p.from(start), name, options}
}
