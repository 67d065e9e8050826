package mask

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Text is a text whose secrets are masked. What bide shows or keeps of a text is
// cut only as a Text: half a secret would not be found any more.
type Text struct{ s string }

// Text masks a text, to be cut.
func (m *Masker) Text(s string) Text { return Text{m.String(s)} }

// String is the whole text.
func (t Text) String() string { return t.s }

// Head is the beginning of the text, at most n characters of it with the three
// dots that stand for the rest.
func (t Text) Head(n int) string {
	if len(t.s) <= n {
		return t.s
	}
	if r := []rune(t.s); len(r) > n {
		return string(r[:max(n-3, 0)]) + "..."
	}
	return t.s
}

// Tail is the end of the text, at most n bytes of it behind a mark.
func (t Text) Tail(n int) string {
	if len(t.s) <= n {
		return t.s
	}
	return Cut + lastRunes(t.s, n)
}

// Cut is before the end of a text whose beginning is left out.
const Cut = "… "

// Ends is the beginning and the end of the text, about n bytes of them, with a
// mark between that says how much was left out.
func (t Text) Ends(n int) string {
	if len(t.s) <= n {
		return t.s
	}
	return ends(t.s, t.s, len(t.s), n)
}

// ends is Text.Ends of a text of size bytes that begins with head and ends with tail.
func ends(head, tail string, size, n int) string {
	half := n / 2
	head, tail = firstRunes(head, half), lastRunes(tail, half)
	return head + fmt.Sprintf("\n… %d bytes left out …\n", size-len(head)-len(tail)) + tail
}

// firstRunes is the beginning of a text, at most n bytes, without a rune of which n cuts off
// the end. What is no UTF-8 in the text stays.
func firstRunes(s string, n int) string {
	if n = max(n, 0); len(s) <= n {
		return s
	}
	s = s[:n]
	for i := len(s) - 1; i >= max(len(s)-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i]
			}
			break
		}
	}
	return s
}

// lastRunes is the end of a text, at most n bytes, without a rune of which n cuts off the
// beginning. What is no UTF-8 in the text stays.
func lastRunes(s string, n int) string {
	if n = max(n, 0); len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for i := 0; i < len(s) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}

// leftOut is what stands where the middle of a text was left out, here and in
// the outputs of commands.
var leftOut = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\n?… \d+ bytes left out …\n`) })

// maxMark is more than the length of such a mark, in bytes.
const maxMark = 64

// IsLeftOut says whether line is the mark that stands for what was left out.
func IsLeftOut(line string) bool {
	return strings.Contains(line, " bytes left out …") && leftOut().MatchString(strings.TrimSpace(line)+"\n")
}

// LeavesOut reports whether a text has such a mark.
func LeavesOut(text string) bool {
	return strings.Contains(text, " bytes left out …") && slices.ContainsFunc(strings.Split(text, "\n"), IsLeftOut)
}

// Bound is Text.Ends of a value that continues to be used: the secrets in it stay,
// but no half of one does where it is cut. One that was cut so before, and has n
// bytes and the mark, is not cut again: that would take the mark away.
func (m *Masker) Bound(s string, n int) string {
	if Fits(len(s), n) {
		return s
	}
	return m.Seams(Text{s}.Ends(n))
}

// BoundEnds is Bound of a text of size bytes that is longer than Fits allows, of which
// there are n bytes or more of its beginning and of its end.
func (m *Masker) BoundEnds(head, tail string, size, n int) string {
	return m.Seams(ends(head, tail, size, n))
}

// Fits reports whether Bound leaves a text of size bytes as it is.
func Fits(size, n int) bool { return size <= n+maxMark }

// First is the beginning of a value that continues to be used, at most n bytes of
// it; the part of a secret at its end is masked.
func (m *Masker) First(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = firstRunes(s, n)
	if h := m.heldPart(s); h > 0 {
		s = s[:len(s)-h] + Hidden
	}
	return s
}

func (m *Masker) heldPart(s string) int {
	if !m.Active() {
		return 0
	}
	return m.held(s)
}
