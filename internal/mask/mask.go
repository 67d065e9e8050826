// Package mask replaces the values of secrets by *** in everything that bide
// prints, stores, sends or serves.
//
// A secret is found whole, line by line, and in the encodings in which it
// commonly leaks: URL-, JSON- and base64-encoded (at any of the three
// alignments of base64, so that "user:secret" encoded as one text is found
// too). A [Writer] finds it also where it is split over several writes.
package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Hidden stands in the place of a secret.
const Hidden = "***"

// MinLength is the length in bytes below which a value, or one line of a
// value, is not masked: replacing every "yes" would make output unreadable
// and would give the secret away.
const MinLength = 5

// Masker replaces secrets. The zero and the nil Masker replace nothing. Build
// it with [New]; afterwards it is safe for concurrent use.
type Masker struct {
	patterns []string // longest first
	longest  int
	first    [256]bool // first bytes of the patterns
}

// New makes a Masker of the values of secrets. Values shorter than MinLength
// are returned in short: they are not masked, and the caller warns about them.
func New(values []string) (m *Masker, short []string) {
	m = &Masker{}
	seen := map[string]bool{}
	for _, v := range values {
		if len(v) < MinLength {
			short = append(short, v)
			continue
		}
		for _, p := range forms(v) {
			if len(p) >= MinLength && !seen[p] {
				seen[p] = true
				m.patterns = append(m.patterns, p)
			}
		}
	}
	slices.SortFunc(m.patterns, func(a, b string) int { return len(b) - len(a) })
	for _, p := range m.patterns {
		m.longest = max(m.longest, len(p))
		m.first[p[0]] = true
	}
	return m, short
}

// forms lists the texts as which a value may appear.
func forms(v string) []string {
	out := []string{v}
	out = append(out, encodings(v)...)
	if t := strings.TrimRight(v, "\r\n"); t != v && len(t) >= MinLength {
		out = append(out, t)
		out = append(out, encodings(t)...)
	}
	if strings.Contains(v, "\n") {
		for line := range strings.Lines(v) {
			line = strings.TrimSpace(line)
			if len(line) >= MinLength {
				out = append(out, line)
				out = append(out, encodings(line)...)
			}
		}
	}
	return out
}

func encodings(v string) []string {
	out := []string{url.QueryEscape(v), url.PathEscape(v)}
	if b, err := json.Marshal(v); err == nil {
		out = append(out, string(b[1:len(b)-1]))
	}
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err == nil {
		out = append(out, strings.Trim(strings.TrimSuffix(plain.String(), "\n"), `"`))
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		out = append(out, aligned(e, v)...)
	}
	return out
}

// aligned gives the characters of the base64 text that depend on v alone, for
// each of the three positions that v can have in a longer text.
func aligned(e *base64.Encoding, v string) []string {
	var out []string
	for before := range 3 {
		s := e.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("\x00", before) + v))
		from := []int{0, 2, 3}[before] // characters that hold bits of what stands before
		to := len(s)
		if (before+len(v))%3 != 0 {
			to-- // the last character also holds bits of what stands after
		}
		if to-from >= MinLength {
			out = append(out, s[from:to])
		}
	}
	return out
}

// Active reports whether there is anything to mask.
func (m *Masker) Active() bool { return m != nil && len(m.patterns) > 0 }

// String gives s with every secret replaced.
func (m *Masker) String(s string) string {
	if !m.Active() || s == "" {
		return s
	}
	from, to, ok := m.find(s, 0)
	if !ok {
		return s
	}
	var b strings.Builder
	done := 0
	for ok {
		b.WriteString(s[done:from])
		b.WriteString(Hidden)
		done = to
		from, to, ok = m.find(s, done)
	}
	b.WriteString(s[done:])
	return b.String()
}

// Seams replaces what is left of a secret that was cut in two where the middle
// of a text was left out and a mark put in its place.
func (m *Masker) Seams(s string, mark *regexp.Regexp) string {
	if !m.Active() || len(s) <= m.longest {
		return s
	}
	at := mark.FindStringIndex(s)
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
		for n := min(len(p)-1, len(s)); n > most; n-- {
			if strings.HasSuffix(p, s[:n]) {
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

// at gives the length of the longest pattern that stands at s[i:].
func (m *Masker) at(s string, i int) int {
	for _, p := range m.patterns {
		if strings.HasPrefix(s[i:], p) {
			return len(p)
		}
	}
	return 0
}

// held gives how many bytes at the end of s may be the beginning of a secret
// whose rest has not been written yet.
func (m *Masker) held(s string) int {
	for i := max(0, len(s)-m.longest+1); i < len(s); i++ {
		if !m.first[s[i]] {
			continue
		}
		tail := s[i:]
		for _, p := range m.patterns {
			if len(p) > len(tail) && strings.HasPrefix(p, tail) {
				return len(tail)
			}
		}
	}
	return 0
}
