package web

import (
	"strconv"
	"strings"
)

// span is a piece of a line of output with one look. Its Class is made of our
// own words; Text is shown as text.
type span struct{ Class, Text string }

// look is what SGR sequences have set: the foreground and background among
// sixteen colours plus one, 0 for none, and five attributes.
type look struct {
	fg, bg                               uint8
	bold, dim, italic, underline, invert bool
}

// spans takes a line apart at its SGR sequences (ESC [ … m), the only ones with
// a meaning here. Every other escape sequence, and control characters but the
// tab, are left out; of a line that a carriage return writes anew, the last
// state is what a terminal shows. The look continues in the next line.
func (l *look) spans(line string) []span {
	line = strings.TrimRight(line, "\r\n")
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	var out []span
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			out = append(out, span{l.class(), strings.ToValidUTF8(text.String(), "�")})
			text.Reset()
		}
	}
	for i := 0; i < len(line); {
		c := line[i]
		switch {
		case c == 0x1b:
			n, sgr, ok := escape(line[i:])
			if ok {
				flush()
				l.set(sgr)
			}
			i += n
		case c < ' ' && c != '\t' || c == 0x7f:
			i++
		default:
			text.WriteByte(c)
			i++
		}
	}
	flush()
	return out
}

// escape measures the escape sequence that a text begins with. ok says that it
// is an SGR sequence, whose parameters sgr are.
func escape(s string) (n int, sgr string, ok bool) {
	if len(s) < 2 {
		return len(s), "", false
	}
	switch s[1] {
	case '[': // CSI: parameters, intermediates, one final byte
		for i := 2; i < len(s); i++ {
			if c := s[i]; c >= 0x40 && c <= 0x7e {
				return i + 1, s[2:i], c == 'm'
			} else if c < 0x20 || c > 0x7e {
				return i, "", false
			}
		}
		return len(s), "", false
	case ']', 'P', 'X', '^', '_': // a string, to BEL or ESC \
		for i := 2; i < len(s); i++ {
			if s[i] == 0x07 {
				return i + 1, "", false
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2, "", false
			}
		}
		return len(s), "", false
	}
	if s[1] >= 0x20 && s[1] <= 0x2f && len(s) > 2 { // ESC ( B and the like
		return 3, "", false
	}
	if s[1] >= 0x30 && s[1] <= 0x7e {
		return 2, "", false
	}
	return 1, "", false
}

// set applies the parameters of one SGR sequence.
func (l *look) set(params string) {
	list := strings.FieldsFunc(params, func(r rune) bool { return r == ';' || r == ':' })
	if len(list) == 0 {
		*l = look{}
		return
	}
	for i := 0; i < len(list); i++ {
		n, err := strconv.Atoi(list[i])
		if err != nil {
			continue
		}
		switch {
		case n == 0:
			*l = look{}
		case n == 38 || n == 48:
			colour, used := extended(list[i+1:])
			i += used
			if n == 38 {
				l.fg = colour
			} else {
				l.bg = colour
			}
		case n >= 30 && n <= 37:
			l.fg = uint8(n-30) + 1
		case n >= 90 && n <= 97:
			l.fg = uint8(n-90) + 9
		case n == 39:
			l.fg = 0
		case n >= 40 && n <= 47:
			l.bg = uint8(n-40) + 1
		case n >= 100 && n <= 107:
			l.bg = uint8(n-100) + 9
		case n == 49:
			l.bg = 0
		default:
			l.attribute(n)
		}
	}
}

func (l *look) attribute(n int) {
	switch n {
	case 1:
		l.bold = true
	case 2:
		l.dim = true
	case 3:
		l.italic = true
	case 4, 21:
		l.underline = true
	case 7:
		l.invert = true
	case 22:
		l.bold, l.dim = false, false
	case 23:
		l.italic = false
	case 24:
		l.underline = false
	case 27:
		l.invert = false
	}
}

// extended reads 5;N or 2;R;G;B and gives the nearest of the sixteen colours
// plus one.
func extended(list []string) (colour uint8, used int) {
	number := func(i int) int {
		if i >= len(list) {
			return 0
		}
		n, err := strconv.Atoi(list[i])
		if err != nil {
			return 0
		}
		return min(max(n, 0), 255)
	}
	switch number(0) {
	case 5:
		n := number(1)
		switch {
		case n < 16:
			return uint8(n) + 1, 2
		case n >= 232:
			v := 8 + (n-232)*10
			return nearest(v, v, v), 2
		}
		level := func(v int) int {
			if v == 0 {
				return 0
			}
			return 55 + v*40
		}
		n -= 16
		return nearest(level(n/36), level(n/6%6), level(n%6)), 2
	case 2:
		return nearest(number(1), number(2), number(3)), 4
	}
	return 0, 1
}

// nearest is the place of the terminal colour closest to one, plus one.
func nearest(r, g, b int) uint8 {
	base := [16][3]int{{0, 0, 0}, {205, 0, 0}, {0, 205, 0}, {205, 205, 0}, {0, 0, 238}, {205, 0, 205}, {0, 205, 205}, {229, 229, 229},
		{127, 127, 127}, {255, 0, 0}, {0, 255, 0}, {255, 255, 0}, {92, 92, 255}, {255, 0, 255}, {0, 255, 255}, {255, 255, 255}}
	best, least := 0, 1<<30
	for i, c := range base {
		d := (c[0]-r)*(c[0]-r) + (c[1]-g)*(c[1]-g) + (c[2]-b)*(c[2]-b)
		if d < least {
			best, least = i, d
		}
	}
	return uint8(best) + 1
}

// class is the look in the words of the style.
func (l *look) class() string {
	if *l == (look{}) {
		return ""
	}
	var out []string
	add := func(on bool, word string) {
		if on {
			out = append(out, word)
		}
	}
	add(l.bold, "bo")
	add(l.dim, "di")
	add(l.italic, "it")
	add(l.underline, "un")
	add(l.invert, "in")
	// A background decides the colour of its text: any pair stays readable.
	switch {
	case l.bg > 0:
		out = append(out, "b"+strconv.Itoa(int(l.bg)-1))
	case l.fg > 0 && !l.invert:
		out = append(out, "f"+strconv.Itoa(int(l.fg)-1))
	}
	return strings.Join(out, " ")
}
