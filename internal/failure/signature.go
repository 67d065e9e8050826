package failure

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Signature is what failures of one cause have in common: the class, the path of the
// step that failed, and the message without what differs from failure to failure. Two
// signatures are equal if and only if they are ==. Maps, dead letters, the dashboard and
// the simulator all use this one.
type Signature struct {
	Class   string `json:"class,omitempty"`
	Step    string `json:"step,omitempty"`
	Pattern string `json:"pattern,omitempty"`
}

// Sign gives the signature of a failed step. message is that of the failure, which ends
// with the last line of the error output, or else of the output.
func Sign(class, step, message string) Signature {
	// What ended the retries is no cause, but what the last of them died of.
	if _, last, ok := strings.Cut(message, lastError); ok {
		message = last
	}
	return Signature{class, unplaced(step), Pattern(message)}
}

// lastError is in the message of package retry before the error of the last attempt.
const lastError = "; the last error was: "

// unplaced is the path of a step without its round: in each round it is the same step.
func unplaced(step string) string {
	for {
		at := strings.IndexByte(step, '@')
		if at < 0 {
			return step
		}
		end := at + 1
		for end < len(step) && step[end] >= '0' && step[end] <= '9' {
			end++
		}
		step = step[:at] + step[end:]
	}
}

// Weak reports whether a signature names no cause: there is no message, or one that
// ends with an exit status or a signal, with nothing behind it.
func (s Signature) Weak() bool {
	p := s.Pattern
	return p == "" || p == "it failed" || strings.HasSuffix(p, "exit status N") ||
		strings.HasPrefix(p, "ended by signal ") && !strings.Contains(p, ":")
}

// Unnamed reports whether a message names neither a cause nor the step that failed, so that
// whoever shows it has to name the step.
func Unnamed(message, step string) bool {
	return step != "" && Signature{Pattern: Pattern(message)}.Weak() && !strings.Contains(message, step)
}

// ID names the group of failures that have the signature: twelve letters.
func (s Signature) ID() string {
	sum := sha256.Sum256([]byte(s.Class + "\x00" + s.Step + "\x00" + s.Pattern))
	return hex.EncodeToString(sum[:6])
}

// maxPattern bounds a pattern, in bytes.
const maxPattern = 160

// Pattern is a message with what differs from failure to failure taken out: the first
// line, with paths and addresses as PATH, numbers, dates and times as N, spans of time as Ns,
// long identifiers as ID, and quoted text as "…".
func Pattern(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	line = line[:min(len(line), 4*maxPattern)] // what is written out is shorter
	var b strings.Builder
	for i := 0; i < len(line) && b.Len() < maxPattern; {
		c := line[i]
		if end := quoted(line, i); end > i {
			b.WriteString(`"…"`)
			i = end
			continue
		}
		if !wordByte(c) {
			b.WriteByte(c)
			i++
			continue
		}
		end := i
		for end < len(line) && wordByte(line[end]) {
			end++
		}
		b.WriteString(patternWord(line[i:end]))
		i = end
	}
	// Where in the file the step stands is the same for all, and no cause.
	return strings.TrimPrefix(strings.ToValidUTF8(b.String()[:min(b.Len(), maxPattern)], "?"), "PATH:N:N: ")
}

// quoted gives the end of the quoted text that begins at a place, or the place. An
// apostrophe within a word quotes nothing.
func quoted(line string, at int) int {
	q := line[at]
	if q != '"' && q != '\'' && q != '`' || at > 0 && q == '\'' && wordByte(line[at-1]) {
		return at
	}
	n := strings.IndexByte(line[at+1:], q)
	if n < 0 {
		return at
	}
	return at + n + 2
}

// wordByte says whether a byte may be part of a number, a name or a path.
func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 || strings.IndexByte("/._-~", c) >= 0
}

func patternWord(w string) string {
	bare := strings.TrimRight(w, ".-")
	tail := w[len(bare):]
	switch {
	case strings.Trim(bare, "/._-~") == "":
		return w
	case strings.Contains(bare, "/"):
		return "PATH" + tail
	case span(bare):
		return "Ns" + tail
	case identifier(bare):
		return "ID" + tail
	}
	var b strings.Builder
	digits := false
	for i := range len(bare) {
		if c := bare[i]; c >= '0' && c <= '9' {
			if !digits {
				b.WriteByte('N')
			}
			digits = true
		} else if digits && c == '.' && i+1 < len(bare) && bare[i+1] >= '0' && bare[i+1] <= '9' {
			continue // a decimal point
		} else {
			b.WriteByte(c)
			digits = false
		}
	}
	return b.String() + tail
}

// span says whether a word is a span of time, as 1m30s, 1.5h or 250ms: one cause ends at
// times that are written in different units.
func span(w string) bool {
	for w != "" {
		n := 0
		for n < len(w) && (w[n] >= '0' && w[n] <= '9' || w[n] == '.') {
			n++
		}
		if n == 0 || w[0] == '.' {
			return false
		}
		w = w[n:]
		n = 0
		for n < len(w) && (w[n] < '0' || w[n] > '9') {
			n++
		}
		switch w[:n] {
		case "ns", "us", "µs", "μs", "ms", "s", "m", "h", "d":
		default:
			return false
		}
		w = w[n:]
	}
	return true
}

// identifier says whether a word is a digest, a ULID or the like: at least
// eight letters and digits, some of each, half of them digits or hexadecimal.
func identifier(w string) bool {
	digits, hexes := 0, 0
	for i := range len(w) {
		switch c := w[i]; {
		case c >= '0' && c <= '9':
			digits++
			hexes++
		case c >= 'a' && c <= 'f' || c == '-':
			hexes++
		case c >= 'A' && c <= 'Z':
		default:
			return false
		}
	}
	return len(w) >= 8 && digits > 0 && digits < len(w) && (hexes == len(w) || len(w) >= 20)
}
