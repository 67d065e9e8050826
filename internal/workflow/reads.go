package workflow

import (
	"strings"

	"github.com/bide-dev/bide/internal/diag"
)

// Read is a place where a condition reads a variable.
type Read struct {
	Name string   // the first word of its path
	Pos  diag.Pos // of that word
}

// tellReads tells of every variable that a condition reads. Its parts do not say
// where they are; they are found again.
func (d *decoder) tellReads(tell func(Read)) {
	for _, u := range d.uses {
		if name := u.path[0].Name; u.offset < 0 && name != "" {
			for _, at := range wordsOf(u.n.text, name) {
				tell(Read{name, u.n.at(at)})
			}
		}
	}
}

// wordsOf finds where a name is in a condition: as a word, or in a ${…}, also
// of one within quotes.
func wordsOf(text, name string) (places []int) {
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case strings.HasPrefix(text[i:], name) && !nameByte(text, i-1) && !nameByte(text, i+len(name)) &&
			(quote == 0 && (i == 0 || text[i-1] != '.') || strings.HasSuffix(text[:i], "${")):
			places = append(places, i)
		}
	}
	return places
}

// nameByte reports whether the byte at i is one of a name.
func nameByte(text string, i int) bool {
	if i < 0 || i >= len(text) {
		return false
	}
	c := text[i]
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}
