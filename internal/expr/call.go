package expr

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
)

// callFollows reports whether word stands right before a parenthesis: an
// unknown function is a better message than a missing operator.
func (p *parser) callFollows(word string) bool {
	after := p.pos + len(word)
	return after < len(p.src) && p.src[after] == '('
}

// keywordAsValue refuses a keyword where a value belongs, unless the text
// reads on as after a value.
func (p *parser) keywordAsValue(word string) error {
	switch strings.ToLower(word) {
	case "and", "or", "in":
	default:
		return nil
	}
	save := p.pos
	defer func() { p.pos = save }()
	p.pos += len(word)
	if p.endsOperand() && p.pos < len(p.src) && p.src[p.pos] != ')' {
		return nil
	}
	return p.fail(save, "a value is missing before %q", word)
}

// ofGitHub says what does here what functions of GitHub Actions do there.
var ofGitHub = map[string]string{
	"success":   "a step runs when those before it have succeeded: leave it out",
	"failure":   "what follows a failure stands in on_failure: of the step that may fail, or under finally:",
	"always":    "what follows any end of the run stands under finally:",
	"cancelled": "what follows any end of the run stands under finally:",
}

// WhenElsewhere says what does here what a word does in conditions of GitHub Actions, GitLab
// and others; "" where it is no such word.
func WhenElsewhere(word string) string {
	return ofGitHub[strings.TrimPrefix(strings.Replace(word, "failed", "failure", 1), "on_")]
}

func (p *parser) parseCall(start int, name string) (node, error) {
	name = strings.ToLower(name)
	f, ok := functions[name]
	if !ok {
		return nil, &SyntaxError{Offset: start, Message: fmt.Sprintf("there is no function %q", name),
			Suggestion: cmp.Or(ofGitHub[name], diag.DidYouMean(name, slices.Sorted(maps.Keys(functions))))}
	}
	var args []node
	kept := len(p.refs)
	for !p.eat(")") {
		if len(args) > 0 && !p.eat(",") {
			return nil, p.fail(p.pos, "a comma or ) is expected in the arguments of %s, not %s", name, quoteAt(p.src, p.pos))
		}
		a, err := p.argument(f.word && len(args) == 1)
		if err != nil {
			return nil, err
		}
		if args = append(args, a); len(args) > f.max {
			break
		}
	}
	if len(args) < f.min || len(args) > f.max {
		return nil, p.fail(start, "%s takes %s", name, arity(f))
	}
	if name == "exists" || name == "default" || strings.HasPrefix(name, "is_") {
		p.asks(args[0], kept)
	}
	return p.makeCall(start, name, f, args)
}

func arity(f function) string {
	switch {
	case f.min != f.max:
		return fmt.Sprintf("%d or %d arguments", f.min, f.max)
	case f.min == 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", f.min)
}

func (p *parser) makeCall(start int, name string, f function, args []node) (node, error) {
	switch name {
	case "matches":
		return p.match(args[0], args[1], start)
	case "default":
		return orDefault{args[0], args[1]}, nil
	case "exists":
		r, ok := args[0].(*ref)
		if !ok {
			return nil, p.fail(start, "exists takes a name")
		}
		return exists{r}, nil
	}
	return test{f.fn, args, f.word}, nil
}

// argument reads one argument. Where word is allowed, whatever stands up to
// the closing parenthesis and is no value is a text without quotes, such as
// the \.rs$ of matches(path, \.rs$).
func (p *parser) argument(word bool) (node, error) {
	if !word {
		return p.parseOr()
	}
	p.space()
	start, kept := p.pos, len(p.refs)
	n, err := p.parseOr()
	if p.space(); err == nil && p.pos < len(p.src) && p.src[p.pos] == ')' {
		p.mayBeWord(n, kept)
		return n, nil
	}
	if start < len(p.src) && strings.IndexByte("\"'", p.src[start]) >= 0 {
		return n, err
	}
	end := closingParen(p.src, start)
	text := strings.TrimSpace(p.src[start:max(end, start)])
	if end < 0 || text == "" {
		return nil, p.fail(start, "the argument is missing or the parenthesis is not closed")
	}
	p.pos, p.refs = end, p.refs[:kept]
	return literal{text}, nil
}

// closingParen finds the ) that closes the one before i, or -1.
func closingParen(s string, i int) int {
	for depth := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '(':
			depth++
		case ')':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}
