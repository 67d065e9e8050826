package syntax

import (
	"fmt"

	"github.com/bide-dev/bide/internal/diag"
)

// annotated reads annotations and the declaration that they are for.
func (p *parser) annotated() Decl {
	start := p.tok().start
	var list []*Annotation
	for p.kind() == tAt {
		list = append(list, p.annotation())
	}
	switch p.kind() {
	case tIn:
		return p.inDecl(start, list)
	case tOut:
		return p.outDecl(start, list)
	}
	p.unexpected(`"in" or "out" after an annotation`)
	p.skipDecl()
	return &BadDecl{p.from(start)}
}

// trailing reads annotations at the end of an input's line: they begin on
// the line on which the input ends, and no declaration follows them there.
func (p *parser) trailing() []*Annotation {
	if p.kind() != tAt || p.tok().newLine {
		return nil
	}
	i := p.i
	for p.toks[i].kind == tAt && !p.toks[i].newLine {
		if p.toks[i+1].kind == tIdent && p.text(&p.toks[i+1]) == "sink" || p.toks[min(i+2, len(p.toks)-1)].kind != tLParen || p.toks[i+2].match == 0 {
			return nil
		}
		i = int(p.toks[i+2].match) + 1
	}
	if end := &p.toks[i]; end.kind != tEOF && !end.newLine {
		return nil
	}
	var list []*Annotation
	for p.kind() == tAt && !p.tok().newLine {
		list = append(list, p.annotation())
	}
	return list
}

func (p *parser) checkAnnotations(list []*Annotation, of string, allowed ...AnnotationKind) {
	for _, a := range list {
		ok := a.Kind == BadAnnotation
		for _, k := range allowed {
			ok = ok || a.Kind == k
		}
		if !ok {
			p.errorAt(a.Span, CodeSyntax, "@%s does not go with %s", a.Name.Name, of).
				Suggest("@example and @source go with inputs, @sink with outputs")
		}
	}
}

// annotation reads "@word(…)".
func (p *parser) annotation() *Annotation {
	a := &Annotation{}
	start := p.take().start
	a.Name, _ = p.fieldName("the name of an annotation")
	switch a.Name.Name {
	case "example":
		a.Kind = Example
	case "source":
		a.Kind = Source
	case "sink":
		a.Kind = Sink
	case "":
	default:
		p.errorAt(Span{start, a.Name.End}, CodeSyntax, "unknown annotation %q", "@"+a.Name.Name).Suggestion =
			diag.DidYouMean("@"+a.Name.Name, []string{"@example", "@source", "@sink"})
	}
	if p.kind() != tLParen {
		p.unexpected(fmt.Sprintf(`"(" after @%s`, a.Name.Name))
		a.Kind = BadAnnotation
		a.Span = p.from(start)
		return a
	}
	n := 0
	p.items(tRParen, ctxInside, "an argument", func() { p.annotationArg(a, n); n++ })
	if n == 0 && a.Kind != BadAnnotation {
		p.errorAt(p.from(start), CodeSyntax, "@%s needs an argument", a.Name.Name).Suggest(`write @%s("…")`, a.Name.Name)
		a.Kind = BadAnnotation
	}
	a.Span = p.from(start)
	return a
}

func (p *parser) annotationArg(a *Annotation, n int) {
	switch {
	case a.Kind == BadAnnotation:
		p.skipItem()
	case a.Kind == Example && n == 0:
		a.Value = p.expr()
	case a.Kind == Example:
		p.errorTok(CodeSyntax, "@example takes one value").Suggest("write one @example for each value")
		p.skipItem()
	case n == 0:
		if next := p.peek(1).kind; p.kind() == tIdent && (next == tComma || next == tRParen) {
			a.Connector = p.text(p.take())
			return
		}
		if p.kind() != tString {
			p.unexpected("the connector's name in quotes").Suggest(`write @%s("memory"), for example`, a.Name.Name)
			a.Kind = BadAnnotation
			p.skipItem()
			return
		}
		a.Connector = rawString(p.text(p.take()))
	default:
		name, ok := p.fieldName("the name of an argument")
		if !ok || !p.expect(tColon, `":" and a value`) {
			p.skipItem()
			return
		}
		a.Args = append(a.Args, RecordField{Name: name, Value: p.expr()})
	}
}
