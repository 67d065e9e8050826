package syntax

import (
	"fmt"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/diag"
)

// Parse reads a pipeline. It always returns a file, with everything that was
// understood, and every problem found (at most about a hundred), in the
// order of the source. file is the name used in positions.
//
// The time it takes grows linearly with the source; sources above 16 MiB,
// nesting above 1,000 and more than 20,000 operators in one declaration are
// errors. src must not be changed afterwards.
func Parse(file string, src []byte) (*File, diag.List) {
	f := &File{Name: file, Src: src, lines: []int32{0}}
	var list diag.List
	if len(src) > maxSource {
		list.Errorf(diag.Pos{File: file}, CodeLimit, "the source has %d bytes, more than the %d that are read", len(src), maxSource)
		f.Src = nil
		return f, list
	}
	p := &parser{f: f, src: string(src), lastErr: -1}
	p.toks = scan(f, &p.list)
	p.file()
	p.list.Sort()
	f.faulty = p.list.HasErrors()
	slices.Sort(f.wrong)
	return f, p.list
}

// context is the innermost bracket around the parser's place; it settles
// whom a comma after an option belongs to.
type context uint8

const (
	ctxTop    context = iota // no bracket: a declaration, or "${…}"
	ctxInside                // arguments, lists, parentheses, branch, match
	ctxRecord                // a record literal
	ctxWith                  // "with { … }"
)

// slab hands out nodes from arrays, which costs less than one allocation a
// node; for the kinds that a source has most of.
type slab[T any] struct{ free []T }

func (s *slab[T]) new(v T) *T {
	if len(s.free) == cap(s.free) {
		s.free = make([]T, 0, min(max(8, 2*cap(s.free)), 128))
	}
	s.free = append(s.free, v)
	return &s.free[len(s.free)-1]
}

type parser struct {
	f    *File
	src  string
	toks []token
	i    int
	list diag.List

	ctx       context
	depth     int
	chain     int                      // operators, fields and calls of the declaration so far
	lastEnd   int32                    // the end of the last token that belongs to the tree
	lastErr   int32                    // the start of the token the last error was about
	durations map[string]time.Duration // see known
	gaveUp    bool                     // a limit was passed: report nothing more
	matching  bool                     // the innermost cases around are those of a match
	bracedIf  bool                     // braces around a value of the if were reported
	arguments bool                     // the innermost brackets around are parentheses of a list

	names     slab[Name]
	calls     slab[CallExpr]
	clauses   slab[WithClause]
	opts      slab[Option]
	intVals   slab[IntValue]
	timeVals  slab[DurationValue]
	wordVals  slab[WordValue]
	assigns   slab[AssignDecl]
	nameParts slab[Ident]
}

func (p *parser) tok() *token { return &p.toks[p.i] }
func (p *parser) kind() kind  { return p.toks[p.i].kind }

// peek is the token n places on; the last token is tEOF.
func (p *parser) peek(n int) *token { return &p.toks[min(p.i+n, len(p.toks)-1)] }

func (p *parser) text(t *token) string { return p.src[t.start:t.end] }

// take passes the current token.
func (p *parser) take() *token {
	t := &p.toks[p.i]
	p.lastEnd = t.end
	if p.i < len(p.toks)-1 {
		p.i++
	}
	return t
}

// upTo makes spans that end here end with a node: the tokens passed since
// have no meaning, and the formatter leaves them out.
func (p *parser) upTo(n Node) { p.lastEnd = n.Extent().End }

// got passes the current token if it is of a kind.
func (p *parser) got(k kind) bool {
	if p.kind() != k {
		return false
	}
	p.take()
	return true
}

// isIdent reports whether a token is the given word; for words that are not
// reserved.
func (p *parser) isIdent(t *token, word string) bool {
	return t.kind == tIdent && p.text(t) == word
}

// from is the span from a start up to the end of the last token passed.
func (p *parser) from(start int32) Span {
	return Span{start, max(start, p.lastEnd)}
}

// here is the empty span before the current token.
func (p *parser) here() Span {
	return Span{p.tok().start, p.tok().start}
}

func (t *token) span() Span { return Span{t.start, t.end} }

// enter begins a nested construct; it returns false, having given up, when
// the nesting is too deep. Every enter is followed by leave.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > maxDepth {
		p.giveUp(fmt.Sprintf("this is nested more than %d deep", maxDepth), "name a part of it with an assignment of its own")
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// link counts one more operator of the declaration; it returns false, having
// given up, when there are too many.
func (p *parser) link() bool {
	p.chain++
	if p.chain > maxChain {
		p.giveUp(fmt.Sprintf("this declaration has more than %d operators, fields and calls", maxChain), "name a part of it with an assignment of its own")
		return false
	}
	return true
}

// giveUp reports that a limit was passed and goes to the end of the source.
func (p *parser) giveUp(message, suggestion string) {
	if !p.gaveUp {
		pos, to := p.f.Span(p.tok().span())
		p.list.Errorf(pos, CodeLimit, "%s", message).To(to).Suggest("%s", suggestion)
	}
	p.gaveUp = true
	p.i = len(p.toks) - 1
}

// nowhere takes the details of problems that are not reported.
func nowhere() *diag.Problem { return new(diag.Problem) }

// errorAt reports a problem of a span.
func (p *parser) errorAt(s Span, code, format string, args ...any) *diag.Problem {
	if p.gaveUp {
		return nowhere()
	}
	if len(p.list) >= maxErrors {
		p.giveUp("there are more errors, which are not shown", "repair the ones above")
		return nowhere()
	}
	p.f.wrong = append(p.f.wrong, s.Start)
	pos, to := p.f.Span(s)
	return p.list.Errorf(pos, code, format, args...).To(to)
}

// errorTok reports a problem of the current token, once a token: what fails
// again because of the same token is no news.
func (p *parser) errorTok(code, format string, args ...any) *diag.Problem {
	t := p.tok()
	if t.start == p.lastErr {
		return nowhere()
	}
	p.lastErr = t.start
	return p.errorAt(p.place(), code, format, args...)
}

// place is where a problem of the current token stands: at the end of the
// source, behind the last thing in it.
func (p *parser) place() Span {
	if t := p.tok(); t.kind != tEOF || p.i == 0 {
		return t.span()
	}
	end := p.toks[p.i-1].end
	return Span{end, end}
}

// unexpected reports that the current token is not what is wanted there.
func (p *parser) unexpected(wanted string) *diag.Problem {
	if p.kind() == tQuestion {
		return p.errorTok(CodeCharacter, `there is no operator "?"`).Suggest(`write "if (condition) a else b"`)
	}
	d := p.errorTok(CodeSyntax, "expected %s, found %s", wanted, p.describe(p.tok()))
	if p.i > 0 {
		if prev := &p.toks[p.i-1]; prev.kind == tIdent && prev.end-prev.start > 1 && p.src[prev.end-1] == '-' {
			name := p.text(prev)
			d.Suggest(`a hyphen belongs to the name before it: write %q with a blank before "-"`, name[:len(name)-1]+" -")
		}
	}
	return d
}

// expect passes a token of a kind, or reports that it is missing.
func (p *parser) expect(k kind, wanted string) bool {
	if p.got(k) {
		return true
	}
	p.unexpected(wanted)
	return false
}

// describe says what a token is, for messages.
func (p *parser) describe(t *token) string {
	switch {
	case t.kind == tEOF:
		return "the end of the file"
	case t.kind.isReserved():
		return "the reserved word " + quote(p.text(t))
	case t.kind == tStrMid, t.kind == tStrTail:
		return `the end of "${…}"`
	}
	return quote(p.text(t))
}

// quote puts a piece of the source between quotes, shortened if it is long.
func quote(s string) string { return `"` + diag.Clip(s, 40) + `"` }

// name reads a name that the author gives; what says of what, for messages.
// A reserved word is reported and taken as the name.
func (p *parser) name(what string) (Ident, bool) {
	t := p.tok()
	switch {
	case t.kind == tIdent:
	case t.kind.isReserved() && (!t.newLine || !p.declStart(p.i)):
		p.reservedName(t, what)
	default:
		p.unexpected(what)
		return Ident{Span: p.here()}, false
	}
	p.take()
	return Ident{t.span(), p.text(t)}, true
}

func (p *parser) reservedName(t *token, what string) {
	p.errorAt(t.span(), CodeReserved, "%q is a reserved word and cannot be %s", p.text(t), what).
		Suggest("choose another name, for example %q", p.text(t)+"_")
}

// fieldName reads a name that may be a reserved word.
func (p *parser) fieldName(what string) (Ident, bool) {
	t := p.tok()
	if !t.kind.isWord() || t.newLine && p.peek(1).kind == tAssign {
		p.unexpected(what)
		return Ident{Span: p.here()}, false
	}
	p.take()
	return Ident{t.span(), p.text(t)}, true
}

// declStart reports whether a declaration seems to begin at a token: the
// places from which parsing continues after an error.
func (p *parser) declStart(i int) bool {
	t, next := &p.toks[i], &p.toks[min(i+1, len(p.toks)-1)]
	if i > 0 && p.toks[i-1].kind == tDot {
		return false
	}
	switch t.kind {
	case tIn, tOut, tType, tUse:
		return next.kind.isWord() || next.kind == tLBrace && t.kind == tOut
	case tAt:
		return next.kind.isWord()
	case tIdent:
		if next.kind == tAssign {
			return true
		}
		after := &p.toks[min(i+2, len(p.toks)-1)]
		return next.kind == tIdent && after.kind == tAssign && p.text(t) == "policy"
	}
	return t.kind.isReserved() && next.kind == tAssign
}

// stop reports whether a bracketed list cannot continue at the current token: a
// new declaration begins on this line, or the source or its "${" ends.
func (p *parser) stop() bool {
	switch t := p.tok(); t.kind {
	case tEOF, tStrMid, tStrTail:
		return true
	default:
		return t.newLine && p.declStart(p.i)
	}
}

// skipDecl passes tokens up to the next declaration.
func (p *parser) skipDecl() {
	start := p.tok().start
	for p.kind() != tEOF && !p.declStart(p.i) && !p.freshLine() {
		p.take()
	}
	p.lose(start)
}

// lose remembers that all from an offset on was passed over.
func (p *parser) lose(start int32) {
	if p.lastEnd > start {
		p.f.lost = append(p.f.lost, Span{start, p.lastEnd})
	}
}

// freshLine reports whether a word is at the very beginning of a line,
// so that it is probably meant to begin a declaration.
func (p *parser) freshLine() bool {
	t := p.tok()
	return t.newLine && t.kind.isWord() && p.src[t.start-1] == '\n'
}

// skipItem passes the rest of an item of a list, with what is in its
// brackets.
func (p *parser) skipItem() {
	for !p.stop() {
		switch t := p.tok(); t.kind {
		case tComma, tRParen, tRBrack, tRBrace:
			return
		default:
			p.skipBracket(t)
		}
	}
}

// skipBracket passes the current token, and if it opens a bracket or a
// string with holes, all up to its end.
func (p *parser) skipBracket(t *token) {
	for t.match > 0 {
		p.i = int(t.match)
		if t = p.tok(); t.kind != tStrMid {
			break
		}
	}
	p.take()
}

var closers = map[kind]string{tRParen: ")", tRBrack: "]", tRBrace: "}", tGt: ">"}

// items reads "open item, item, … close" with the opening bracket as the
// current token. A comma after the last item is allowed. Inside, ctx is in
// force. item must not pass the closing bracket.
func (p *parser) items(closer kind, ctx context, what string, item func()) {
	p.bracketed(closer, ctx, what, false, item)
}

// cases reads "{ case, case, … }" as items does. A line end between two
// cases stands for the comma: whatever could join the lines to one value
// leaves the "->" of the second case without a condition, so that a case is
// never read as a part of the one before without an error.
func (p *parser) cases(item func()) {
	p.bracketed(tRBrace, ctxInside, "a case", true, item)
}

func (p *parser) bracketed(closer kind, ctx context, what string, lines bool, item func()) {
	outer, in := p.ctx, p.arguments
	p.ctx, p.arguments = ctx, closer == tRParen
	defer func() { p.ctx, p.arguments = outer, in }()
	open := p.take()
	for !p.got(closer) {
		if p.stop() {
			p.notClosed(open, closer)
			return
		}
		before := p.i
		item()
		switch {
		case p.got(tComma), p.kind() == closer:
		case p.stop():
		case p.tok().newLine && p.i > before && p.lastErr != p.tok().start && p.beginsItem():
			if lines {
				continue
			}
			p.errorTok(CodeSyntax, "expected \",\" or %q after %s, found %s", closers[closer], what, p.describe(p.tok())).
				Suggest(`add "," at the end of the line before`)
			p.lastErr = -1
		default:
			if d := p.unexpected(fmt.Sprintf("\",\" or %q after %s", closers[closer], what)); p.kind() == tArrow {
				d.Suggest("to make a lambda, " + lambdaHint)
			} else if p.text(p.tok()) == "for" {
				d.Suggest(loopHint)
			} else if p.i > 0 && p.text(&p.toks[p.i-1]) == "lambda" {
				d.Suggest(`write "(x) => …" in place of "lambda x: …"`)
			} else if text := p.elsewhere(&p.toks[max(p.i-1, 0)], p.tok()); text != "" {
				d.Suggest("%s", text)
			}
			p.skipItem()
			switch {
			case p.got(tComma), p.kind() == closer, p.stop():
			default: // a bracket of another kind
				p.notClosed(open, closer)
				return
			}
		}
	}
}

// beginsItem reports whether an item of a list could begin at the current
// token.
func (p *parser) beginsItem() bool {
	switch k := p.kind(); k {
	case tInt, tFloat, tQuantity, tString, tStrHead, tLBrace, tLBrack, tLParen:
		return true
	default:
		return k.isWord() && k != tElse && k != tWith && k != tAs
	}
}

func (p *parser) notClosed(open *token, closer kind) {
	if p.lastErr == p.tok().start {
		return // something is missing here, and that is known
	}
	p.errorAt(open.span(), CodeSyntax, "this %q is not closed", p.src[open.start:open.end]).Suggest("add %q", closers[closer])
	p.lastErr = p.tok().start
}
