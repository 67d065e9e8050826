package classify

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/pattern"
)

// phraseSet is a list of expressions over lower-case text. Most lines hold the
// literal text of none of them, and then none is tried: a search for a literal
// costs nanoseconds, one expression microseconds.
type phraseSet []phrase

type phrase struct {
	literal string // stands in whatever the expression matches; "" where it is not known
	re      func() *regexp.Regexp
}

func all(list []string) func() phraseSet {
	return sync.OnceValue(func() phraseSet {
		set := make(phraseSet, len(list))
		for i, expr := range list {
			set[i] = phrase{literalOf(expr), pattern.Lazy(expr)}
		}
		return set
	})
}

// MatchString reports whether a line in lower case holds one of the phrases.
func (s phraseSet) MatchString(line string) bool {
	return slices.ContainsFunc(s, func(p phrase) bool { return strings.Contains(line, p.literal) && p.re().MatchString(line) })
}

// literalOf is the longest text that every match of an expression holds.
func literalOf(expr string) string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return ""
	}
	return longest(re)
}

func longest(re *syntax.Regexp) (best string) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return string(re.Rune)
		}
	case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
		for _, sub := range re.Sub {
			if s := longest(sub); len(s) > len(best) {
				best = s
			}
		}
	}
	return best
}
