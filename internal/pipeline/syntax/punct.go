package syntax

import (
	"bytes"
	"unicode/utf8"
)

// punct scans an operator or a bracket.
func (s *scanner) punct(c byte) {
	start := s.i
	next := s.at(s.i + 1)
	one := func(k kind) { s.i++; s.emit(k, start, s.i) }
	two := func(k kind) { s.i += 2; s.emit(k, start, s.i) }
	switch c {
	case '(', '[', '{':
		s.openBracket(c)
	case ')':
		one(tRParen)
		s.closeBracket(tLParen, tLParen)
	case ']':
		one(tRBrack)
		s.closeBracket(tLBrack, tLBrack)
	case '}':
		if n := len(s.holes); n > 0 {
			s.holes[n-1].braces--
		}
		one(tRBrace)
		s.closeBracket(tLBrace, tLBrace)
	case ',':
		one(tComma)
	case ':':
		one(tColon)
	case '.':
		one(tDot)
	case '@':
		one(tAt)
	case '*':
		if next == '*' {
			s.foreign(2, `there is no operator "**"`, `write the product, as in "a * a"`)
			s.emit(tStar, start, s.i)
			return
		}
		one(tStar)
	case '+':
		if next == '+' {
			s.foreign(2, `there is no operator "++"`, `write "+"`)
			s.emit(tPlus, start, s.i)
			return
		}
		one(tPlus)
	case '/':
		if next == '/' {
			s.foreign(2, `a comment does not begin with "//"`, `begin it with "#"`)
			s.skipLine()
			return
		}
		if next == '*' {
			s.blockComment()
			return
		}
		one(tSlash)
	case '-':
		if next == '>' {
			two(tArrow)
			return
		}
		one(tMinus)
	case '=':
		switch next {
		case '>':
			two(tFatArrow)
		case '=':
			two(tEq)
		default:
			one(tAssign)
		}
	case '<':
		if next == '=' {
			two(tLe)
			return
		}
		one(tLt)
	case '>':
		// ">=" is left as two tokens: in "in x: List<Int>= []" it is two.
		one(tGt)
	default:
		s.punctRare(c, next)
	}
}

// punctRare scans what is rare or wrong.
func (s *scanner) punctRare(c, next byte) {
	start := s.i
	switch {
	case c == '?' && next == '?':
		s.i += 2
		s.emit(tCoalesce, start, s.i)
	case c == '?' && next == '.':
		s.foreign(2, `there is no operator "?."`, `write "." and give a default with "??"`)
		s.emit(tDot, start, s.i)
	case c == '!' && next == '=':
		s.i += 2
		s.emit(tNe, start, s.i)
	case c == '!':
		s.foreign(1, `there is no operator "!"`, `write "not"`)
		s.emit(tNot, start, s.i)
	case c == '&' && next == '&':
		s.foreign(2, `there is no operator "&&"`, `write "and"`)
		s.emit(tAnd, start, s.i)
	case c == '|' && next == '|':
		s.foreign(2, `there is no operator "||"`, `write "or"`)
		s.emit(tOr, start, s.i)
	case c == '|' && next == '>':
		s.foreign(2, `there is no operator "|>"`, `write "|"`)
		s.emit(tBar, start, s.i)
	case c == '|':
		s.i++
		s.emit(tBar, start, s.i)
	case c == '\'' || c == '`':
		s.quoted(c)
	case c == ';' && len(s.open) > 0:
		s.foreign(1, `unexpected ";"`, `write ","`)
		s.emit(tComma, start, s.i)
	case c == ';':
		s.foreign(1, `unexpected ";"`, "declarations need nothing between them")
	case c == '?':
		s.i++
		s.emit(tQuestion, start, s.i)
	case c == '%':
		s.foreign(1, `there is no operator "%"`, "call modulo(a, b)")
		s.emit(tSlash, start, s.i)
	default:
		s.strange()
	}
}

// openBracket emits an opening bracket and remembers it.
func (s *scanner) openBracket(c byte) {
	k := tLParen
	switch c {
	case '[':
		k = tLBrack
	case '{':
		k = tLBrace
		if n := len(s.holes); n > 0 {
			s.holes[n-1].braces++
		}
	}
	s.i++
	s.emit(k, s.i-1, s.i)
	s.open = append(s.open, int32(len(s.toks)-1))
}

// foreign reports n bytes that belong to another language, and passes them.
func (s *scanner) foreign(n int, message, suggestion string) {
	s.errorf(s.i, s.i+n, CodeCharacter, "%s", message).Suggest("%s", suggestion)
	s.i += n
}

// blockComment reports "/* … */" and passes it.
func (s *scanner) blockComment() {
	start := s.i
	n := bytes.Index(s.src[s.i:], []byte("*/"))
	s.foreign(2, `a comment does not begin with "/*"`, `begin each of its lines with "#"`)
	if n < 0 {
		s.skipLine()
		return
	}
	s.nl = s.nl || bytes.IndexByte(s.src[start:start+n], '\n') >= 0
	s.i = start + n + 2
}

func (s *scanner) skipLine() {
	if n := bytes.IndexByte(s.src[s.i:], '\n'); n >= 0 {
		s.i += n
	} else {
		s.i = len(s.src)
	}
}

// quoted reads 'text' as the string it is meant to be.
func (s *scanner) quoted(q byte) {
	start := s.i
	rest := s.src[s.i+1:]
	if n := bytes.IndexAny(rest, string(q)+"\n\""); n >= 0 && rest[n] == q {
		s.foreign(n+2, "a string stands between double quotes", `write "…"`)
		s.emit(tString, start, s.i)
		return
	}
	s.strange()
}

// strange reports a run of characters that begin no token.
func (s *scanner) strange() {
	start := s.i
	for s.i < len(s.src) {
		r, n := utf8.DecodeRune(s.src[s.i:])
		if s.i > start && r < utf8.RuneSelf && !isWordByte(byte(r)) {
			break
		}
		if r == utf8.RuneError && n == 1 {
			if s.i == start {
				s.i++
				s.errorf(start, s.i, CodeCharacter, "this is not UTF-8 text").Suggest("save the file in UTF-8")
				return
			}
			break
		}
		s.i += n
		if s.i-n == start && r < utf8.RuneSelf {
			break
		}
	}
	text := string(s.src[start:s.i])
	p := s.errorf(start, s.i, CodeCharacter, "unexpected character %q", text)
	if text[0] >= utf8.RuneSelf {
		p.Message = "unexpected " + quote(text)
		p.Suggest("names are made of the letters a-z and A-Z, digits, _ and -; other text belongs in a string")
	}
}
