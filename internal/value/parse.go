package value

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// maxFast is the depth of nesting up to which fast goes.
const maxFast = 200

// fast parses a text that is one JSON value, in one pass and with few
// allocations: the strings of the value share the memory of text. It is false
// for whatever it does not take, which is then for encoding/json to take or to
// refuse: malformed text, invalid UTF-8, deep nesting.
func fast(text string) (any, bool) {
	p := parser{s: text}
	p.space()
	v, ok := p.value(0)
	p.space()
	return v, ok && p.i == len(p.s)
}

type parser struct {
	s string
	i int
}

func (p *parser) space() {
	for p.i < len(p.s) && (p.s[p.i] == ' ' || p.s[p.i] == '\n' || p.s[p.i] == '\t' || p.s[p.i] == '\r') {
		p.i++
	}
}

// take takes the byte c, if it is there.
func (p *parser) take(c byte) bool {
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *parser) value(depth int) (any, bool) {
	if p.i >= len(p.s) || depth > maxFast {
		return nil, false
	}
	switch c := p.s[p.i]; c {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		return p.str()
	case 't':
		return true, p.word("true")
	case 'f':
		return false, p.word("false")
	case 'n':
		return nil, p.word("null")
	default:
		return p.number()
	}
}

func (p *parser) word(w string) bool {
	if len(p.s)-p.i < len(w) || p.s[p.i:p.i+len(w)] != w {
		return false
	}
	p.i += len(w)
	return true
}

func (p *parser) object(depth int) (any, bool) {
	p.i++
	m := map[string]any{}
	p.space()
	if p.take('}') {
		return m, true
	}
	for {
		if p.i >= len(p.s) || p.s[p.i] != '"' {
			return nil, false
		}
		key, ok := p.str()
		if !ok {
			return nil, false
		}
		p.space()
		if !p.take(':') {
			return nil, false
		}
		p.space()
		if m[key], ok = p.value(depth + 1); !ok {
			return nil, false
		}
		p.space()
		if p.take('}') {
			return m, true
		}
		if !p.take(',') {
			return nil, false
		}
		p.space()
	}
}

func (p *parser) array(depth int) (any, bool) {
	p.i++
	list := []any{}
	p.space()
	if p.take(']') {
		return list, true
	}
	for {
		v, ok := p.value(depth + 1)
		if !ok {
			return nil, false
		}
		list = append(list, v)
		p.space()
		if p.take(']') {
			return list, true
		}
		if !p.take(',') {
			return nil, false
		}
		p.space()
	}
}

// str parses a string; p is at its opening quote.
func (p *parser) str() (string, bool) {
	start := p.i + 1
	ascii := true
	for i := start; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.i = i + 1
			text := p.s[start:i]
			return text, ascii || utf8.ValidString(text)
		case c == '\\':
			return p.escaped(start - 1)
		case c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

// escaped parses a string with escapes; it begins at start.
func (p *parser) escaped(start int) (string, bool) {
	for i := start + 1; i < len(p.s); i++ {
		switch p.s[i] {
		case '\\':
			i++
		case '"':
			p.i = i + 1
			var text string
			err := json.Unmarshal([]byte(p.s[start:p.i]), &text)
			return text, err == nil
		}
	}
	return "", false
}

// number parses a number: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (p *parser) number() (any, bool) {
	start := p.i
	negative := p.take('-')
	first := p.i
	n := p.digits()
	if n == 0 || n > 1 && p.s[first] == '0' {
		return nil, false
	}
	whole := p.i
	if p.take('.') && p.digits() == 0 {
		return nil, false
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		if p.digits() == 0 {
			return nil, false
		}
	}
	text := p.s[start:p.i]
	if p.i == whole && n <= 18 && !(negative && p.s[first] == '0') {
		i, err := strconv.ParseInt(text, 10, 64)
		return i, err == nil
	}
	return FromNumber(text), true
}

// digits takes digits, and gives how many.
func (p *parser) digits() int {
	start := p.i
	for p.i < len(p.s) && '0' <= p.s[p.i] && p.s[p.i] <= '9' {
		p.i++
	}
	return p.i - start
}
