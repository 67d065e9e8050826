package expr

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/value"
)

// parser reads an expression by recursive descent, straight from the text,
// because an unquoted word after contains( is read by other rules than a name.
type parser struct {
	src   string
	pos   int
	depth int
	refs  []read
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &SyntaxError{Offset: at, Message: fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.pos < len(p.src) {
		r, n := utf8.DecodeRuneInString(p.src[p.pos:])
		if !unicode.IsSpace(r) {
			return
		}
		p.pos += n
	}
}

// eat takes the operator s.
func (p *parser) eat(s string) bool {
	p.space()
	if !strings.HasPrefix(p.src[p.pos:], s) {
		return false
	}
	p.pos += len(s)
	return true
}

// peekWord gives the name that begins here, without taking it.
func (p *parser) peekWord() string {
	p.space()
	return p.src[p.pos:scanName(p.src, p.pos, false)]
}

// eatWord takes the keyword w, in whatever case.
func (p *parser) eatWord(w string) bool {
	if got := p.peekWord(); strings.EqualFold(got, w) {
		p.pos += len(got)
		return true
	}
	return false
}

func (p *parser) parseWhole() (node, error) {
	n, err := p.parseOr()
	if err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(p.src) {
		return nil, p.unexpected()
	}
	return n, nil
}

func (p *parser) unexpected() error {
	err := &SyntaxError{Offset: p.pos, Message: "an operator or the end is expected here, not " + quoteAt(p.src, p.pos)}
	switch c := p.src[p.pos]; {
	case c == ')' || c == ']' || c == '}':
		err.Message = fmt.Sprintf("this %c closes nothing", c)
	case c == '&':
		err.Suggestion = "did you mean &&?"
	case c == '|':
		err.Suggestion = "did you mean ||?"
	case c == '~':
		err.Suggestion = "write =~ for a regular expression"
	case c == ':':
		left, right := strings.TrimSpace(p.src[:p.pos]), strings.Trim(strings.TrimSpace(p.src[p.pos+1:]), `"'`)
		if scanName(left, 0, true) == len(left) && left != "" && scanName(right, 0, true) == len(right) && right != "" {
			err.Suggestion = fmt.Sprintf("write %s == %q", left, right)
		}
	default:
		known := []string{"and", "or", "not in", "in", "contains", "starts_with", "ends_with", "matches", "is null", "is not null"}
		err.Suggestion = diag.DidYouMean(p.peekWord(), known)
	}
	return err
}

// nest guards against sources that nest without end.
func (p *parser) nest(f func() (node, error)) (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(p.pos, "the expression is nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	return f()
}

func (p *parser) parseOr() (node, error) {
	return p.chain(true, p.parseAnd, func() bool { return p.eat("||") || p.eatWord("or") })
}

func (p *parser) parseAnd() (node, error) {
	return p.chain(false, p.parseNot, func() bool { return p.eat("&&") || p.eatWord("and") })
}

func (p *parser) chain(or bool, operand func() (node, error), more func() bool) (node, error) {
	first, err := operand()
	if err != nil {
		return nil, err
	}
	args := []node{first}
	for more() {
		next, err := operand()
		if err != nil {
			return nil, err
		}
		args = append(args, next)
	}
	if len(args) == 1 {
		return first, nil
	}
	return logic{or, args}, nil
}

func (p *parser) parseNot() (node, error) {
	start := p.pos
	if p.eatWord("not") {
		if !p.endsOperand() {
			kept := len(p.refs)
			x, err := p.nest(p.parseNot)
			p.asks(x, kept)
			return not{x}, err
		}
		p.pos = start // a field of that name
	}
	return p.parseComparison()
}

// endsOperand reports whether what follows can only be after an operand, so
// that the keyword before it is a name: `not == 1`, `item.a && in`.
func (p *parser) endsOperand() bool {
	p.space()
	rest := p.src[p.pos:]
	return rest == "" || strings.HasPrefix(rest, "!=") || strings.ContainsRune("=<>&|),]}.", rune(rest[0]))
}

func (p *parser) parseComparison() (node, error) {
	kept := len(p.refs)
	a, err := p.parseUnary()
	if err != nil {
		return nil, err
	}
	p.space()
	at := p.pos
	op := p.comparisonOp()
	switch op {
	case "":
		return a, nil
	case "is null", "is not null":
		p.asks(a, kept)
		return test{functions[strings.ReplaceAll(op, " ", "_")].fn, []node{a}, false}, nil
	}
	b, err := p.rightSide(op)
	if err != nil {
		return nil, err
	}
	if b == (literal{nil}) {
		p.asks(a, kept)
	}
	n, err := p.compare(op, a, b, at)
	if err != nil {
		return nil, err
	}
	p.space()
	if at := p.pos; p.comparisonOp() != "" {
		return nil, &SyntaxError{Offset: at, Message: "comparisons do not chain", Suggestion: "join two of them with &&"}
	}
	return n, nil
}

// rightSide reads what an operator compares with. Where a text is meant it may
// be a word without quotes.
func (p *parser) rightSide(op string) (node, error) {
	kept := len(p.refs)
	b, err := p.parseUnary()
	if err != nil {
		return nil, err
	}
	switch op {
	case "==", "!=", "contains", "starts_with", "ends_with", "=~", "!~":
		p.mayBeWord(b, kept)
	}
	return b, nil
}

// mayBeWord lets a single name stand for its own text; such a name is no
// reference that has to exist.
func (p *parser) mayBeWord(n node, refsBefore int) {
	if r, ok := n.(*ref); ok && r.word != "" {
		p.refs = p.refs[:refsBefore]
	}
}

// comparisonOp takes an operator and gives its canonical name, or "".
func (p *parser) comparisonOp() string {
	for _, op := range []string{"==", "!=", "<=", ">=", "=~", "!~", "=", "<", ">"} {
		if p.eat(op) {
			if op == "=" {
				return "=="
			}
			return op
		}
	}
	start := p.pos
	switch w := strings.ToLower(p.peekWord()); w {
	case "in", "contains", "starts_with", "ends_with", "matches":
		p.pos += len(w)
		if w == "matches" {
			return "=~"
		}
		return w
	case "not", "is":
		p.pos += len(w)
		if w == "not" && p.eatWord("in") {
			return "not in"
		}
		negated := w == "is" && p.eatWord("not")
		if w == "is" && p.eatWord("null") {
			if negated {
				return "is not null"
			}
			return "is null"
		}
	}
	p.pos = start
	return ""
}

func (p *parser) compare(op string, a, b node, at int) (node, error) {
	switch op {
	case "=~", "!~":
		m, err := p.match(a, b, at)
		if op == "!~" {
			return not{m}, err
		}
		return m, err
	case "in":
		return test{functions["contains"].fn, []node{b, a}, false}, nil
	case "not in":
		return not{test{functions["contains"].fn, []node{b, a}, false}}, nil
	case "contains", "starts_with", "ends_with":
		return test{functions[op].fn, []node{a, b}, true}, nil
	}
	return comparison{op, a, b}, nil
}

// match compiles a literal pattern now, so that a bad one is found before
// anything runs.
func (p *parser) match(x, pattern node, at int) (node, error) {
	m := &match{x: x, pattern: pattern}
	lit, ok := pattern.(literal)
	if !ok {
		return m, nil
	}
	text := value.Text(lit.v)
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, &SyntaxError{Offset: at, Message: fmt.Sprintf("%q is no regular expression: %v", text, err),
			Suggestion: "see https://golang.org/s/re2syntax"}
	}
	m.last.Store(re)
	return m, nil
}

// asks notes that whether a path is there is what is asked of it, where n is but
// one; kept is how many were read before.
func (p *parser) asks(n node, kept int) {
	if _, ok := n.(*ref); ok && kept < len(p.refs) {
		p.refs[kept].asked = true
	}
}

func (p *parser) parseUnary() (node, error) {
	p.space()
	if strings.HasPrefix(p.src[p.pos:], "!") && !strings.HasPrefix(p.src[p.pos:], "!=") {
		p.pos++
		kept := len(p.refs)
		x, err := p.nest(p.parseUnary)
		p.asks(x, kept)
		return not{x}, err
	}
	return p.parsePrimary()
}

func (p *parser) parsePrimary() (node, error) {
	p.space()
	if p.pos >= len(p.src) {
		return nil, &SyntaxError{Offset: p.pos, Message: "a value is expected here, not the end", Suggestion: "write what the condition compares or joins, or remove the operator before it"}
	}
	rest := p.src[p.pos:]
	switch c := rest[0]; {
	case c == '(':
		return p.nest(p.parseGroup)
	case strings.HasPrefix(rest, "${"):
		return p.nest(p.parseBraces)
	case c == '$':
		p.pos++
		return p.parseName()
	case c == '"' || c == '\'':
		return p.parseText()
	case c == '[':
		return p.nest(p.parseList)
	case c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.':
		return p.parseNumber()
	}
	return p.parseName()
}

func (p *parser) parseGroup() (node, error) {
	open := p.pos
	p.pos++
	n, err := p.parseOr()
	if err != nil {
		return nil, err
	}
	if !p.eat(")") {
		return nil, p.fail(open, "this ( is not closed")
	}
	return n, nil
}

// parseBraces reads ${ expression }, with modifiers as templates have them and
// :-text or |default:text after it.
func (p *parser) parseBraces() (node, error) {
	open, kept := p.pos, len(p.refs)
	p.pos += len("${")
	n, err := p.parseOr()
	if err != nil {
		return nil, err
	}
	if n, err = p.modifiers(n, open); err != nil {
		return nil, err
	}
	if p.eat(":-") || p.eat("|default:") {
		end := strings.IndexByte(p.src[p.pos:], '}')
		if end < 0 {
			return nil, p.fail(open, "this ${ is not closed")
		}
		n = orDefault{n, literal{defaultValue(p.src[p.pos : p.pos+end])}}
		for i := kept; i < len(p.refs); i++ {
			p.refs[i].maybe = true
		}
		p.pos += end
	}
	if !p.eat("}") {
		return nil, p.fail(open, "this ${ is not closed")
	}
	return n, nil
}

// modifiers reads :*.go and |glob:*.go, which choose file names, and |count.
func (p *parser) modifiers(n node, open int) (node, error) {
	for {
		rest := p.src[p.pos:]
		if rest == "" || strings.HasPrefix(rest, ":-") || strings.HasPrefix(rest, "|default:") || !strings.ContainsRune(":|", rune(rest[0])) {
			return n, nil
		}
		end := strings.IndexAny(rest[1:], "|}")
		if end < 0 {
			return nil, p.fail(open, "this ${ is not closed")
		}
		text := rest[1 : 1+end]
		name, pattern, named := strings.Cut(text, ":")
		switch {
		case rest[0] == '|' && (name == "count" || name == "length" || name == "len"):
			n = test{functions["length"].fn, []node{n}, false}
		case rest[0] == '|' && named && (name == "glob" || name == "pattern"), rest[0] == ':' && strings.ContainsAny(text, "*?["):
			if rest[0] == ':' {
				pattern = text
			}
			if _, err := files.Match(pattern, ""); err != nil {
				return nil, p.fail(p.pos, "%q is no pattern of file names", pattern)
			}
			n = fitting{n, pattern}
		default:
			return nil, &SyntaxError{Offset: p.pos, Message: fmt.Sprintf("a condition has no %q", rest[:1+end]),
				Suggestion: "it can have :*.go and |glob:*.go for file names, |count, and a default: |default:TEXT"}
		}
		p.pos += 1 + end
	}
}

// defaultValue is what the text of a default means: JSON where it is JSON,
// else the text, without its quotes if it has them.
func defaultValue(text string) any {
	if v, err := value.Parse([]byte(text)); err == nil {
		return v
	}
	if len(text) >= 2 && text[0] == '\'' && text[len(text)-1] == '\'' {
		return text[1 : len(text)-1]
	}
	return text
}

func (p *parser) parseList() (node, error) {
	open := p.pos
	p.pos++
	var elems []node
	for !p.eat("]") {
		kept := len(p.refs)
		e, err := p.parseOr()
		if err != nil {
			return nil, err
		}
		p.mayBeWord(e, kept)
		elems = append(elems, e)
		if p.eat(",") {
			continue
		}
		if p.eat("]") {
			break
		}
		return nil, p.fail(open, "this list is not closed: ] or a comma is expected before %s", quoteAt(p.src, p.pos))
	}
	return constantList(elems), nil
}

// constantList makes a literal of a list of literals.
func constantList(elems []node) node {
	vs := make([]any, len(elems))
	for i, e := range elems {
		lit, ok := e.(literal)
		if !ok {
			return list{elems}
		}
		vs[i] = lit.v
	}
	return literal{vs}
}

var numberRE = pattern.Lazy(`^[-+]?(\d+(\.\d+)?|\.\d+)([eE][-+]?\d+)?`)

func (p *parser) parseNumber() (node, error) {
	s := numberRE().FindString(p.src[p.pos:])
	end := p.pos + len(s)
	if s == "" || end < len(p.src) && scanName(p.src, end, true) > end {
		err := &SyntaxError{Offset: p.pos, Message: "a value is expected here, not " + quoteAt(p.src, p.pos)}
		word := p.src[p.pos:]
		if i := strings.IndexAny(word, " )&|"); i >= 0 {
			word = word[:i]
		}
		if d, wrong := duration.Parse(word); wrong == nil && s != "" {
			err.Suggestion = "a time is a number of seconds here: write " + strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
		}
		return nil, err
	}
	p.pos = end
	s = strings.TrimPrefix(s, "+")
	if i := strings.IndexByte(s, '.'); i == 0 || i == 1 && s[0] == '-' {
		s = s[:i] + "0" + s[i:]
	}
	return literal{value.FromNumber(s)}, nil
}

// parseText reads a quoted text, which may hold ${path}.
func (p *parser) parseText() (node, error) {
	start := p.pos
	s, end, ok := scanString(p.src, p.pos)
	if !ok {
		return nil, p.fail(start, "the quote is not closed")
	}
	p.pos = end
	var parts []node
	for {
		before, path, after, found := cutReference(s)
		if !found {
			break
		}
		p.refs = append(p.refs, read{path: path})
		parts, s = append(parts, literal{before}, &ref{path: path}), after
	}
	if parts == nil {
		return literal{s}, nil
	}
	return interp{append(parts, literal{s})}, nil
}

// cutReference finds the first ${path} of a text; other uses of $ and braces,
// which regular expressions have, are left alone.
func cutReference(s string) (before string, path Path, after string, found bool) {
	for from := 0; ; {
		i := strings.Index(s[from:], "${")
		if i < 0 {
			return s, nil, "", false
		}
		i += from
		from = i + len("${")
		path, end, err := scanPath(s, from)
		if err == nil && path[0].Name != "" && end < len(s) && s[end] == '}' {
			return s[:i], path, s[end+1:], true
		}
	}
}

// noValue is the error for something in the place of a value. After an operator
// it is most often one that another language has.
func (p *parser) noValue(at int) error {
	err := &SyntaxError{Offset: at, Message: "a value is expected here, not " + quoteAt(p.src, at)}
	const marks = "=<>!&|~"
	isMark := func(i int) bool { return i >= 0 && i < len(p.src) && strings.IndexByte(marks, p.src[i]) >= 0 }
	if isMark(at) && isMark(at-1) {
		err.Suggestion = "the operators are ==, !=, <, <=, >, >=, =~, &&, || and !"
	}
	return err
}

func (p *parser) parseName() (node, error) {
	start := p.pos
	word := p.peekWord()
	if word == "" {
		return nil, p.noValue(start)
	}
	if _, ok := functions[strings.ToLower(word)]; ok || p.callFollows(word) {
		after := p.pos + len(word)
		save := p.pos
		p.pos = after
		if p.eat("(") {
			return p.nest(func() (node, error) { return p.parseCall(start, word) })
		}
		p.pos = save
	}
	if err := p.keywordAsValue(word); err != nil {
		return nil, err
	}
	path, end, err := p.scanPath()
	if err != nil {
		return nil, err
	}
	p.pos = end
	if len(path) == 1 {
		switch word {
		case "true", "True", "TRUE":
			return literal{true}, nil
		case "false", "False", "FALSE":
			return literal{false}, nil
		case "null", "nil", "None", "NULL":
			return literal{nil}, nil
		}
	}
	p.refs = append(p.refs, read{path: path})
	r := &ref{path: path}
	if len(path) == 1 {
		r.word = word
	}
	return r, nil
}

// scanPath reads a path, or env:NAME.
func (p *parser) scanPath() (Path, int, error) {
	if rest, ok := strings.CutPrefix(p.src[p.pos:], "env:"); ok {
		if end := scanName(rest, 0, false); end > 0 {
			return Path{{Name: "env"}, {Name: rest[:end]}}, p.pos + len("env:") + end, nil
		}
	}
	return scanPath(p.src, p.pos)
}
