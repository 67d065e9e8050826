package syntax

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// source makes up valid sources: random trees, written as tokens with random
// blanks, line ends and comments between them.
type source struct {
	t      *rapid.T
	tokens []string
}

func (s *source) pick(label string, of ...string) string {
	return rapid.SampledFrom(of).Draw(s.t, label)
}

func (s *source) n(lo, hi int) int { return rapid.IntRange(lo, hi).Draw(s.t, "n") }

func (s *source) add(tokens ...string) { s.tokens = append(s.tokens, tokens...) }

func (s *source) ident() string {
	return s.pick("ident", "a", "b", "x-y", "orders", "andy", "within", "then", "policy", "timeout", "retry", "_", "order_id", "min",
		"a_rather_long_name_that_makes_lines_break")
}

func (s *source) fieldName() string { return s.pick("field", "a", "type", "in", "is", "b", "retry") }

func (s *source) list(lo, hi int, trailing bool, item func()) {
	n := s.n(lo, hi)
	for i := range n {
		if i > 0 {
			s.add(",")
		}
		item()
	}
	if trailing && n > 0 && s.n(0, 3) == 0 {
		s.add(",")
	}
}

func (s *source) typ(depth int) {
	switch k := s.n(0, 5); {
	case depth <= 0 || k <= 1:
		s.add(s.pick("type", "String", "Int", "R"))
	case k == 2:
		open := s.pick("angle", "<", "[")
		s.add("List", open)
		s.typ(depth - 1)
		s.add(map[string]string{"<": ">", "[": "]"}[open])
	case k == 3:
		s.add("{")
		s.list(0, 3, true, func() { s.add(s.fieldName(), ":"); s.typ(depth - 1) })
		s.add("}")
	case k == 4:
		s.add("(")
		s.typ(depth - 1)
		s.add(s.pick("typeop", "|", "+"))
		s.typ(depth - 1)
		s.add(")")
	default:
		s.typ(depth - 1)
		s.add(s.pick("typeop", "|", "+"))
		s.typ(depth - 1)
	}
}

func (s *source) expr(depth int) {
	if depth <= 0 {
		s.leaf()
		return
	}
	switch s.n(0, 16) {
	case 0, 1:
		s.leaf()
	case 2, 3:
		s.operand(depth)
		s.add(s.pick("op", "??", "or", "and", "+", "-", "*", "/"))
		s.operand(depth)
	case 4:
		s.add("(")
		s.expr(depth - 1)
		s.add(s.pick("op", "==", "!=", "<", "<=", ">", ">=", "when"))
		s.operand(depth)
		s.add(")")
	case 5:
		s.add(s.pick("prefix", "not", "-"))
		s.operand(depth)
	case 6:
		s.add("if", "(")
		s.expr(depth - 1)
		s.add(")")
		s.operand(depth)
		s.add("else")
		s.expr(depth - 1)
	case 7:
		s.add("if", s.ident(), "==")
		s.leaf()
		s.add("then")
		s.expr(depth - 1)
		s.add("else")
		s.expr(depth - 1)
	case 8:
		s.add("(", "when")
		s.operand(depth)
		s.add("then")
		s.expr(depth - 1)
		if s.n(0, 1) == 0 {
			s.add("else")
			s.expr(depth - 1)
		}
		s.add(")")
	case 9:
		s.add("branch", "{")
		for range s.n(0, 3) {
			s.operand(depth)
			s.add("->")
			s.expr(depth - 1)
			s.add(",")
		}
		s.add("otherwise", "->")
		s.expr(depth - 1)
		s.add("}")
	case 10:
		s.add("match", "(")
		s.expr(depth - 1)
		s.add(")", "{")
		s.list(1, 3, true, func() {
			s.add(s.pick("pattern", "_", "is String", "{a, b}", "{ a # c\n }"), "->")
			s.expr(depth - 1)
		})
		s.add("}")
	case 11:
		s.add("[")
		s.list(0, 4, true, func() { s.expr(depth - 1) })
		s.add("]")
	case 12:
		s.add("{")
		s.list(0, 4, true, func() {
			if s.n(0, 3) == 0 {
				s.add(s.ident())
				return
			}
			s.add(s.fieldName(), ":")
			s.expr(depth - 1)
		})
		s.add("}")
	case 13:
		s.add("(")
		if s.n(0, 3) == 0 {
			s.add(")", "=>")
		} else {
			s.list(1, 2, true, func() {
				s.add(s.ident())
				if s.n(0, 2) == 0 {
					s.add(":")
					s.typ(1)
				}
			})
			s.add(")", "=>")
		}
		s.expr(depth - 1)
	case 14:
		s.operand(depth)
		for range s.n(1, 3) {
			s.add("|")
			s.call(depth - 1)
		}
	default:
		s.call(depth)
	}
}

// operand writes what may be beside any operator.
func (s *source) operand(depth int) {
	switch s.n(0, 4) {
	case 0:
		s.add("(")
		s.expr(depth - 1)
		s.add(")")
	case 1:
		s.add("(")
		s.expr(depth - 1)
		s.add(")", ".", s.fieldName())
	case 2:
		s.leaf()
		s.add(s.pick("projection", "[a, type]", "{ a }", "{a, b,}"))
	default:
		s.leaf()
	}
}

func (s *source) leaf() {
	switch s.n(0, 7) {
	case 0:
		s.add(s.pick("number", "0", "42", "-7", "1.50", "-1.5", "1e3", "- 3"))
	case 1:
		s.add(s.pick("string", `""`, `"x # no comment"`, `"a\n\"b\\ \${ $"`, "\"two\nlines\"", `"é"`))
	case 2:
		s.add(`"p${` + s.ident() + ` }q${ f( a ,{b:1} ) }"`)
	case 3:
		s.add("true")
	case 4:
		s.add(s.ident(), ".", s.fieldName())
	case 5:
		s.add("\"${ a # in a string\n }\"")
	default:
		s.add(s.pick("variable", "a", "b", "x-y", "then2"))
	}
}

func (s *source) call(depth int) {
	s.add(s.pick("function", "f", "Search", "stdlib.math.add", "ns.in.f"), "(")
	s.list(0, 3, true, func() { s.expr(depth - 1) })
	s.add(")")
	switch s.n(0, 5) {
	case 0:
		s.add("with")
		s.options(depth, 4)
	case 1:
		s.add("with", "{")
		s.options(depth, 4)
		s.add("}")
	case 2:
		s.add("with", s.pick("called", "retry(3, 1s)", "retry ( 3 )", "timeout(5s)", "batch=50"))
	}
}

func (s *source) options(depth, most int) {
	all := []string{"retry: 3", "delay : 1s", "backoff: linear", "max_delay: 5min", "jitter: full", "retry_on: [network, exit_code(1, 2), pattern(\"a\\\\d\")]",
		"abort_on: timeout", "budget: 1h", "breaker: 5/30s", "timeout:\n 30s", "on_error: skip", "cache: 1d", `cache_backend: "memory"`, "throttle: 100/min",
		"priority: -3", "LAZY", "window: sliding(10min, 1min)", "join: buffer(5s)", "policy: flaky", "FALLBACK"}
	at := s.n(0, len(all)-1)
	n := s.n(1, most)
	for i := range n {
		o := all[(at+3*i)%len(all)]
		if i > 0 {
			s.add(",")
		}
		if o == "FALLBACK" {
			s.add("fallback", ":", "(")
			s.expr(depth - 1)
			s.add(")")
			continue
		}
		if o == "LAZY" {
			o = s.pick("lazy", "lazy", "lazy: false", "lazy : true")
		}
		s.add(o)
	}
}

func (s *source) decl() {
	switch s.n(0, 9) {
	case 0:
		s.add("type", "R", "=")
		s.typ(2)
	case 1:
		s.add("@example", "(")
		s.expr(1)
		s.add(")", "in", "x", ":")
		s.typ(2)
	case 2:
		s.add("in", "x", ":")
		s.typ(2)
		s.add("=")
		s.expr(1)
	case 3:
		s.add("in x: { a: T # c\n } @example([1, 2]) @source(\"memory\", a: 1)\n")
	case 4:
		s.add("use", "stdlib.math", "as", "m")
	case 5:
		s.add("policy", "p", "=")
		s.options(1, 5)
	case 6:
		s.add("out", s.pick("out", "x", "r.type", "r{a, b}", "{ a, b: 3 }", "x = 1 + 2"))
	default:
		s.add(s.ident(), "=")
		s.expr(s.n(0, 4))
	}
}

// String joins the tokens.
func (s *source) String() string {
	var b strings.Builder
	for i, tok := range s.tokens {
		b.WriteString(tok)
		switch s.n(0, 11) {
		case 0:
			b.WriteString("\n")
		case 1:
			if s.n(0, 3) == 0 {
				fmt.Fprintf(&b, " # c%d\n", i)
			} else {
				b.WriteString(" ")
			}
		case 2:
			if s.n(0, 3) == 0 {
				fmt.Fprintf(&b, "\n  # own %d\n", i)
			} else {
				b.WriteString("\n\n")
			}
		default:
			b.WriteString(" ")
		}
	}
	return b.String()
}

// TestFormatProperty formats made-up sources. All of them are valid.
func TestFormatProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &source{t: rt}
		for range s.n(1, 4) {
			s.decl()
		}
		s.add("out", "x")
		src := s.String()
		if _, list := Parse("x.cst", []byte(src)); list.HasErrors() {
			rt.Fatalf("%v\n%s", list, src)
		}
		if why := formatFault([]byte(src)); why != "" {
			rt.Fatal(why)
		}
	})
}
