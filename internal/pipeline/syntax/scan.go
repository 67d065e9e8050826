package syntax

import (
	"bytes"
	"math"
	"unicode"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
)

// maxSource is the largest source that is read, in bytes.
const maxSource = 16 << 20

const byteOrderMark = "\ufeff"

// scanner cuts a source into tokens. It never fails: what is no token is
// reported and left out.
type scanner struct {
	f    *File
	src  []byte
	i    int
	toks []token
	list diag.List
	nl   bool    // a line ended since the last token
	open []int32 // indexes of the opening brackets that are not closed yet
	// holes are the "${" that are not closed yet, innermost last.
	holes []hole

	// lineFrom is the offset from which strings end with their line, and
	// firstLong the quote of the first string that goes over a line's end;
	// see scan.
	lineFrom, firstLong int
}

// hole is a "${" inside a string.
type hole struct {
	quote  int // the offset of the string's opening quote
	braces int // how many braces are open inside the hole
}

// scan fills f.lines and f.Comments and gives the tokens, of which the last
// is tEOF.
//
// Strings may go over line ends, so that one missing quote turns the rest of
// the source inside out. When the source ends inside a string it is scanned
// once more, with strings that end with their line from the first long one
// on: the error is then where the quote is missing.
func scan(f *File, list *diag.List) []token {
	f.lines = lineTable(f.Src)
	s := &scanner{f: f, src: f.Src, lineFrom: math.MaxInt, firstLong: math.MaxInt, toks: make([]token, 0, len(f.Src)/3+16)}
	if from, ok := s.run(); !ok {
		s.toks, s.open, s.holes, s.list, s.nl, s.i = s.toks[:0], nil, nil, nil, false, 0
		f.Comments, f.wrong = nil, nil
		s.lineFrom = from
		s.run()
	}
	*list = append(*list, s.list...)
	return s.toks
}

func lineTable(src []byte) []int32 {
	lines := make([]int32, 1, bytes.Count(src, []byte{'\n'})+1)
	for i := 0; ; {
		n := bytes.IndexByte(src[i:], '\n')
		if n < 0 {
			return lines
		}
		i += n + 1
		lines = append(lines, int32(i))
	}
}

// run scans the whole source. If it ends inside a string, run stops and
// gives the place from which strings should end with their line.
func (s *scanner) run() (from int, ok bool) {
	if bytes.HasPrefix(s.src, []byte(byteOrderMark)) {
		s.i = len(byteOrderMark)
	}
	for s.i < len(s.src) {
		if !s.next() {
			return s.firstLong, false
		}
	}
	if len(s.holes) > 0 {
		if s.lineFrom == math.MaxInt {
			return min(s.firstLong, s.holes[0].quote), false
		}
		s.closeHoles()
	}
	s.emit(tEOF, len(s.src), len(s.src))
	return 0, true
}

func (s *scanner) emit(k kind, start, end int) {
	s.toks = append(s.toks, token{kind: k, newLine: s.nl, start: int32(start), end: int32(end)})
	s.nl = false
}

func (s *scanner) errorf(start, end int, code, format string, args ...any) *diag.Problem {
	if len(s.list) >= maxErrors { // each costs a look at its line
		return nowhere()
	}
	s.f.wrong = append(s.f.wrong, int32(start))
	pos, to := s.f.Span(Span{int32(start), int32(end)})
	return s.list.Errorf(pos, code, format, args...).To(to)
}

// at is the byte at an offset, 0 outside the source.
func (s *scanner) at(i int) byte {
	if i < len(s.src) {
		return s.src[i]
	}
	return 0
}

func isLetter(c byte) bool   { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '-' }

// next scans one token, comment or blank. It returns false if the source
// ends inside a string and strings do not end with their line yet.
func (s *scanner) next() bool {
	switch c := s.src[s.i]; {
	case c == '\n':
		s.newLine()
	case c == ' ' || c == '\t' || c == '\r':
		s.i++
	case c == '#':
		s.comment()
	case isLetter(c):
		start := s.i
		for s.i < len(s.src) && isWordByte(s.src[s.i]) {
			s.i++
		}
		s.emit(wordKind(string(s.src[start:s.i])), start, s.i)
	case isDigit(c):
		s.number()
	case c == '"':
		return s.text(s.i, tString, tStrHead)
	case c == '}' && len(s.holes) > 0 && s.holes[len(s.holes)-1].braces == 0:
		return s.text(s.holes[len(s.holes)-1].quote, tStrTail, tStrMid)
	default:
		s.punct(c)
	}
	return true
}

func (s *scanner) newLine() {
	if len(s.holes) > 0 {
		s.firstLong = min(s.firstLong, s.holes[0].quote)
		if s.holes[0].quote >= s.lineFrom {
			s.closeHoles()
		}
	}
	s.nl = true
	s.i++
}

func (s *scanner) comment() {
	start := s.i
	if n := bytes.IndexByte(s.src[s.i:], '\n'); n >= 0 {
		s.i += n
	} else {
		s.i = len(s.src)
	}
	text := bytes.TrimRight(s.src[start:s.i], " \t\r")
	if !utf8.Valid(text) {
		s.errorf(start, s.i, CodeCharacter, "this comment is not UTF-8 text").Suggest("save the file in UTF-8")
	}
	f := s.f
	line := f.lines[f.Pos(int32(start)).Line-1]
	before := bytes.TrimPrefix(s.src[line:start], []byte(byteOrderMark))
	own := len(bytes.Trim(before, " \t\r")) == 0
	f.Comments = append(f.Comments, Comment{Span{int32(start), int32(start + len(text))}, string(text), own})
}

// number scans digits, a fraction, an exponent, and letters that follow at
// once.
func (s *scanner) number() {
	start, k := s.i, tInt
	s.i = s.digits(s.i)
	if s.at(s.i) == '.' && isDigit(s.at(s.i+1)) {
		k, s.i = tFloat, s.digits(s.i+1)
	}
	if s.at(s.i)|0x20 == 'e' {
		j := s.i + 1
		if s.at(j) == '+' || s.at(j) == '-' {
			j++
		}
		if end := s.digits(j); end > j && !isLetter(s.at(end)) {
			k, s.i = tFloat, end
		}
	}
	for s.i < len(s.src) {
		r, n := utf8.DecodeRune(s.src[s.i:])
		if r != '_' && !unicode.IsLetter(r) && !isDigit(s.src[s.i]) {
			break
		}
		k = tQuantity
		s.i += n
	}
	s.emit(k, start, s.i)
}

// digits gives the end of the digits from i on.
func (s *scanner) digits(i int) int {
	for isDigit(s.at(i)) {
		i++
	}
	return i
}

// text scans a string (whole tString) or the piece of one after a "}" (whole
// tStrTail); head is the kind of the piece if a "${" ends it. Escapes are
// looked at by the parser.
func (s *scanner) text(quote int, whole, head kind) bool {
	start := s.i
	s.i++
	for s.i < len(s.src) {
		switch c := s.src[s.i]; {
		case c == '"':
			s.i++
			s.piece(whole, whole, start)
			return true
		case c == '$' && s.at(s.i+1) == '{':
			s.i += 2
			s.piece(head, whole, start)
			s.holes = append(s.holes, hole{quote: quote})
			s.open = append(s.open, int32(len(s.toks)-1))
			return true
		case c == '\n' && quote >= s.lineFrom:
			return s.unclosed(quote, start, whole)
		case c == '\n':
			s.firstLong = min(s.firstLong, s.outermost(quote))
			s.i++
		case c == '\\' && s.at(s.i+1) != '\n':
			s.i = min(s.i+2, len(s.src))
		default:
			s.i++
		}
	}
	if s.lineFrom == math.MaxInt {
		s.firstLong = min(s.firstLong, s.outermost(quote))
		return false
	}
	return s.unclosed(quote, start, whole)
}

func (s *scanner) outermost(quote int) int {
	if len(s.holes) > 0 {
		return s.holes[0].quote
	}
	return quote
}

// piece emits a string or a piece of one; a piece after "}" ends a hole.
func (s *scanner) piece(k, whole kind, start int) {
	if text := s.src[start:s.i]; !utf8.Valid(text) {
		s.errorf(start, s.i, CodeCharacter, "this string is not UTF-8 text").Suggest("save the file in UTF-8")
	}
	s.emit(k, start, s.i)
	if whole == tStrTail {
		s.holes = s.holes[:len(s.holes)-1]
		s.closeBracket(tStrHead, tStrMid)
	}
}

// unclosed ends a string with its line.
func (s *scanner) unclosed(quote, start int, whole kind) bool {
	if len(s.holes) == 0 {
		s.reportUnclosed(quote)
	}
	s.piece(whole, whole, start)
	s.closeHoles()
	return true
}

// closeHoles ends every "${" that is still open, with pieces of no length.
func (s *scanner) closeHoles() {
	for len(s.holes) > 0 {
		s.reportUnclosed(s.holes[len(s.holes)-1].quote)
		s.piece(tStrTail, tStrTail, s.i)
	}
}

func (s *scanner) reportUnclosed(quote int) {
	if n := len(s.list); n >= maxErrors || n > 0 && s.list[n-1].Code == CodeString && s.list[n-1].Pos == s.f.Pos(int32(quote)) {
		return
	}
	suggestion := `end it with "`
	if len(s.holes) > 0 {
		suggestion = `a "${" needs its "}", and a string its "`
	}
	s.errorf(quote, s.i, CodeString, "this string is not closed").Suggest("%s", suggestion)
}

// closeBracket matches the token just emitted with an open bracket of one of
// two kinds. Brackets that were opened later stay without a match. Only a
// few are looked at, so that hostile sources cost no more than others.
func (s *scanner) closeBracket(a, b kind) {
	for n := len(s.open) - 1; n >= max(0, len(s.open)-8); n-- {
		k := s.toks[s.open[n]].kind
		if k == a || k == b {
			s.toks[s.open[n]].match = int32(len(s.toks) - 1)
			s.open = s.open[:n]
			return
		}
		if (k == tStrHead || k == tStrMid) && a != tStrHead {
			return // a bracket does not reach out of its string
		}
	}
}
