package value

import (
	"encoding/json"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// What is recorded of each work item is written without reflection, byte for byte
// as encoding/json writes it, which is the format.

// Append adds v to b as json.Marshal writes it. The error is that of json.Marshal.
func Append(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case float64:
		if a := math.Abs(v); a == 0 || a >= 1e-6 && a < 1e21 { // else it has an exponent, or is none
			return strconv.AppendFloat(b, v, 'f', -1, 64), nil
		}
	case string:
		return AppendText(b, v), nil
	case []string:
		if v != nil {
			return appendList(b, v, func(b []byte, s string) ([]byte, error) { return AppendText(b, s), nil })
		}
	case []any:
		if v != nil {
			return appendList(b, v, Append)
		}
	case map[string]any:
		if v != nil {
			return appendMap(b, v)
		}
	}
	text, err := json.Marshal(v)
	return append(b, text...), err
}

func appendList[E any](b []byte, list []E, each func([]byte, E) ([]byte, error)) (_ []byte, err error) {
	b = append(b, '[')
	for i, x := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = each(b, x); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendMap(b []byte, m map[string]any) (_ []byte, err error) {
	var few [16]string
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendText(b, name), ':')
		if b, err = Append(b, m[name]); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// itself says of each byte whether it stands for itself in a text.
var itself = func() (list [utf8.RuneSelf]bool) {
	for c := range list {
		list[c] = c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return list
}()

// AppendText adds a text to b as json.Marshal writes it: what HTML could take for its
// own is escaped, and what is no UTF-8 replaced.
func AppendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0 // what is not in b yet
	for i := 0; i < len(s); {
		if i+8 <= len(s) {
			x := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
				uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56 // one load
			n := bits.TrailingZeros64(others(x)) / 8
			if i += n; n == 8 {
				continue
			}
		}
		c, size := rune(s[i]), 1
		switch {
		case c < utf8.RuneSelf && itself[c]:
			i++
			continue
		case c >= utf8.RuneSelf:
			c, size = utf8.DecodeRuneInString(s[i:])
			if c != '\u2028' && c != '\u2029' && (c != utf8.RuneError || size > 1) {
				i += size
				continue
			}
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', byte(c))
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			b = append(b, '\\', 'u', hex[c>>12&15], hex[c>>8&15], hex[c>>4&15], hex[c&15])
		}
		i += size
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// others has the top bit of a byte set if one of eight bytes does not stand for itself;
// the lowest such bit is exact. Of what has a byte that is 0, or below a space, that
// byte borrows.
func others(x uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash, and := x^ones*'"', x^ones*'\\', x^ones*'&'
	angle := (x | ones*2) ^ ones*'>' // both < and >
	return (x | (x - ones*' ') | (quote - ones) | (slash - ones) | (and - ones) | (angle - ones)) & tops
}

// Object writes a JSON object, member by member, as json.Marshal writes a struct. The
// methods that begin with Some leave out what is zero or empty. Names are taken to
// need no escape.
type Object struct {
	b     []byte
	begun bool // it has a member
	err   error
}

// Begin begins an object at the end of b.
func Begin(b []byte) Object { return Object{b: append(b, '{')} }

// End gives what was written, and the first error of json.Marshal.
func (o *Object) End() ([]byte, error) { return append(o.b, '}'), o.err }

func (o *Object) name(name string) {
	if o.begun {
		o.b = append(o.b, ',')
	}
	o.begun = true
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

// Any writes a member of any kind.
func (o *Object) Any(name string, v any) {
	if o.err == nil {
		o.name(name)
		o.b, o.err = Append(o.b, v)
	}
}

// Object writes an object, of members that each writes.
func (o *Object) Object(name string, each func(in *Object)) {
	o.name(name)
	in := Object{b: append(o.b, '{')}
	each(&in)
	o.b = append(in.b, '}')
	if o.err == nil {
		o.err = in.err
	}
}

// Text writes a text.
func (o *Object) Text(name, s string) {
	o.name(name)
	o.b = AppendText(o.b, s)
}

// SomeText writes a text that is not "".
func (o *Object) SomeText(name, s string) {
	if s != "" {
		o.Text(name, s)
	}
}

// Int writes a number.
func (o *Object) Int(name string, n int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, n, 10)
}

// SomeInt writes a number that is not 0.
func (o *Object) SomeInt(name string, n int64) {
	if n != 0 {
		o.Int(name, n)
	}
}

// Bool writes true or false.
func (o *Object) Bool(name string, v bool) {
	o.name(name)
	o.b = strconv.AppendBool(o.b, v)
}

// SomeBool writes true.
func (o *Object) SomeBool(name string, v bool) {
	if v {
		o.Bool(name, v)
	}
}

// Time writes a time.
func (o *Object) Time(name string, t time.Time) {
	const day = 24 * 60 * 60
	if _, offset := t.Zone(); t.Year() < 0 || t.Year() > 9999 || offset <= -day || offset >= day {
		o.Any(name, t)
		return
	}
	o.name(name)
	o.b = append(t.AppendFormat(append(o.b, '"'), time.RFC3339Nano), '"')
}
