// Package mask replaces the values of secrets by *** in everything that bide
// prints, stores, sends or serves.
//
// A secret is found whole, line by line, and in the encodings in which it
// commonly leaks: percent- and JSON-encoded in every legal spelling, and
// base64-encoded (at any of the three alignments of base64, so that
// "user:secret" encoded as one text is found too, also where that text is
// wrapped into lines). A [Writer] finds it also
// where it is split over several writes.
package mask

import (
	"maps"
	"slices"
	"strings"
)

// Hidden is in the place of a secret.
const Hidden = "***"

// MinLength is the length in bytes below which a value, or one line of a
// value, is not masked: replacing every "yes" would make output unreadable
// and would give the secret away.
const MinLength = 5

// Masker replaces secrets. The zero and the nil Masker replace nothing. Build
// it with [New]; afterwards it is safe for concurrent use.
type Masker struct {
	patterns []pattern // longest first
	longest  int
	first    [256]bool // first bytes of the patterns
	texts    map[source]string
}

// New makes a Masker of secrets, name: value. Those whose value is shorter than
// MinLength are not masked; their names come back sorted, for a warning.
func New(secrets map[string]string) (m *Masker, short []string) {
	m = &Masker{texts: map[source]string{}}
	seen := map[patternKey]bool{}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		v := secrets[name]
		if len(v) < MinLength {
			short = append(short, name)
			continue
		}
		for _, f := range forms(v) {
			if len(f.text) < MinLength {
				continue
			}
			if f.read == exactly || f.read == wrapped {
				m.texts[source{name, f.name}] = f.text
			}
			if p := (pattern{f.text, f.read, source{name, f.name}}); !seen[p.key()] {
				seen[p.key()] = true
				m.patterns = append(m.patterns, p)
			}
		}
	}
	slices.SortStableFunc(m.patterns, func(a, b pattern) int { return len(b.text) - len(a.text) })
	for _, p := range m.patterns {
		m.longest = max(m.longest, len(p.text))
		m.first[p.text[0]] = true
		switch p.read {
		case inPercent:
			m.first['%'] = true
			m.first['+'] = m.first['+'] || p.text[0] == ' '
		case inJSON:
			m.first['\\'] = true
		}
	}
	return m, short
}

// Active reports whether there is anything to mask.
func (m *Masker) Active() bool { return m != nil && len(m.patterns) > 0 }

// String gives s with every secret replaced.
func (m *Masker) String(s string) string {
	if !m.Active() {
		return s
	}
	return m.replace(s, Hidden, nil)
}

// Replace is String with another text in the place of secrets.
func (m *Masker) Replace(s, by string) string {
	if !m.Active() {
		return s
	}
	return m.replace(s, by, nil)
}

// Pieces gives what each secret in a text falls into where another reader of the text
// parts it at one of the characters, the longest first. Those of one or two bytes are
// left out, and so is a secret that stays whole.
func (m *Masker) Pieces(s, at string) (pieces []string) {
	if !m.Active() {
		return nil
	}
	m.replace(s, Hidden, func(_ int, hidden string) {
		if strings.ContainsAny(hidden, at) {
			pieces = append(pieces, strings.FieldsFunc(hidden, func(r rune) bool { return strings.ContainsRune(at, r) })...)
		}
	})
	pieces = slices.DeleteFunc(pieces, func(p string) bool { return len(p) < 3 })
	slices.SortFunc(pieces, func(a, b string) int { return len(b) - len(a) })
	return pieces
}

// Place is where in String(s) the byte at of s stands; of a secret, its beginning.
func (m *Masker) Place(s string, at int) int {
	if !m.Active() {
		return at
	}
	from, to, place := 0, 0, -1
	m.replace(s, Hidden, func(passed int, hidden string) {
		switch {
		case place >= 0:
		case at <= from+passed:
			place = to + at - from
		case at < from+passed+len(hidden):
			place = to + passed
		}
		from, to = from+passed+len(hidden), to+passed+len(Hidden)
	})
	return place
}

// replace is String; each, where it is not nil, is told of every stretch that
// stays and of the secret behind it, "" at the end.
func (m *Masker) replace(s, by string, each func(passed int, hidden string)) string {
	var b strings.Builder
	done := 0
	for from, to, ok := m.find(s, 0); ok; from, to, ok = m.find(s, done) {
		b.WriteString(s[done:from])
		b.WriteString(by)
		if each != nil {
			each(from-done, s[from:to])
		}
		done = to
	}
	if each != nil {
		each(len(s)-done, "")
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// Last gives the end of a text, at most n bytes of it, masked before it is
// cut. s may be the end of a longer text itself: what may be the rest of a
// secret at its beginning is then replaced as well.
func (m *Masker) Last(s string, n int, cut bool) string {
	if !m.Active() {
		return lastRunes(s, n)
	}
	if cut {
		if r := m.rest(s); r > 0 {
			s = Hidden + s[r:]
		}
	}
	return lastRunes(m.String(s), n)
}

// Seams replaces what is left of a secret that was cut in two where the middle
// of a text was left out and a mark put in its place.
func (m *Masker) Seams(s string) string {
	if !m.Active() || len(s) <= m.longest || !strings.Contains(s, " bytes left out …") {
		return s
	}
	at := leftOut().FindStringIndex(s)
	if at == nil {
		return s
	}
	head, tail := s[:at[0]], s[at[1]:]
	if n := m.held(head); n > 0 {
		head = head[:len(head)-n] + Hidden
	}
	if n := m.rest(tail); n > 0 {
		tail = Hidden + tail[n:]
	}
	return head + s[at[0]:at[1]] + tail
}

// rest gives how many bytes at the beginning of s may be the end of a secret.
func (m *Masker) rest(s string) int {
	most := 0
	for _, p := range m.patterns {
		for n := min(len(p.text)-1, len(s)); n > most; n-- {
			if strings.HasSuffix(p.text, s[:n]) {
				most = n
			}
		}
	}
	return most
}

// Bytes is String for bytes. It returns b itself where there is no secret.
func (m *Masker) Bytes(b []byte) []byte {
	if !m.Active() {
		return b
	}
	s := string(b)
	if t := m.String(s); t != s {
		return []byte(t)
	}
	return b
}

// find gives the first secret at or after start, extended over those that
// overlap it.
func (m *Masker) find(s string, start int) (from, to int, ok bool) {
	for i := start; i < len(s); i++ {
		if !m.first[s[i]] {
			continue
		}
		if n := m.at(s, i); n > 0 {
			to = i + n
			for j := i + 1; j < to && j < len(s); j++ {
				if m.first[s[j]] {
					to = max(to, j+m.at(s, j))
				}
			}
			return i, to, true
		}
	}
	return 0, 0, false
}

// at gives the length in s of the longest pattern that is at s[i:].
func (m *Masker) at(s string, i int) int {
	for _, p := range m.patterns {
		if n, _ := p.match(s[i:]); n > 0 {
			return n
		}
	}
	return 0
}

// held gives how many bytes at the end of s may be the beginning of a secret
// whose rest has not been written yet.
func (m *Masker) held(s string) int {
	for i := max(0, len(s)-m.longest*maxWrap+1); i < len(s); i++ {
		if !m.first[s[i]] {
			continue
		}
		tail := s[i:]
		for _, p := range m.patterns {
			if _, more := p.match(tail); more {
				return len(tail)
			}
		}
	}
	return 0
}
