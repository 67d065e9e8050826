package engine

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"
)

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// strftime formats a time; the letters are those of date(1). A text without a
// % sign is a Go layout, and no text at all is RFC 3339.
func strftime(layout string, t time.Time) string {
	if layout == "" {
		return t.Format(time.RFC3339)
	}
	if !strings.Contains(layout, "%") {
		return t.Format(layout)
	}
	parts := map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05",
		'p': "PM", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'Z': "MST", 'z': "-0700",
		'F': "2006-01-02", 'T': "15:04:05", 'j': "002", 'D': "01/02/06", 'R': "15:04", 'N': "000000000",
	}
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		i++
		switch c := layout[i]; {
		case c == '%':
			b.WriteByte('%')
		case c == 's':
			fmt.Fprint(&b, t.Unix())
		case c == 'N':
			fmt.Fprintf(&b, "%09d", t.Nanosecond())
		case parts[c] != "":
			b.WriteString(t.Format(parts[c]))
		default:
			b.WriteByte('%')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// once remembers which warnings have been given.
type once struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (o *once) first(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[key] {
		return false
	}
	if o.seen == nil {
		o.seen = map[string]bool{}
	}
	o.seen[key] = true
	return true
}
