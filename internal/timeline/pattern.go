package timeline

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxPattern bounds a pattern, in bytes.
const maxPattern = 160

// Pattern is a message with what differs from failure to failure taken out, so
// that failures of one cause have one pattern: the first line, with paths and
// addresses as PATH, numbers as N, and long identifiers as ID.
func Pattern(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	line = line[:min(len(line), 4*maxPattern)] // what is written out is shorter
	var b strings.Builder
	for i := 0; i < len(line) && b.Len() < maxPattern; {
		c := line[i]
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

// GroupOf names the group of a failure: those of one class and one pattern have
// the same twelve letters.
func GroupOf(class, message string) string {
	sum := sha256.Sum256([]byte(class + "\x00" + Pattern(message)))
	return hex.EncodeToString(sum[:6])
}
