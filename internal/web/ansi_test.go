package web

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"plain\n", "plain"},
		{"\x1b[31mred\x1b[0m rest", "{f1}red{} rest"},
		{"\x1b[1;38;5;196;4mhot\x1b[m", "{bo un f9}hot"},
		{"\x1b[38;2;0;0;230mblue", "{f4}blue"},
		{"\x1b[41;32mpair", "{b1}pair"},
		{"\x1b[7minverse\x1b[27m", "{in}inverse"},
		{"\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"\x1b]0;title\x07text", "text"},
		{"\x1b[2J\x1b[10;10Hmoved", "moved"},
		{"\x1b(Bcharset", "charset"},
		{"1 %\r50 %\r100 %\n", "100 %"},
		{"crlf\r\n", "crlf"},
		{"bell\a \x00nul\ttab", "bell nul\ttab"},
		{"cut \x1b[31", "cut "},
		{"<script>alert(1)</script>", "<script>alert(1)</script>"},
		{"not \xff utf", "not � utf"},
	} {
		var l look
		var b strings.Builder
		class := ""
		for _, s := range l.spans(c.in) {
			if s.Class != class {
				b.WriteString("{" + s.Class + "}")
				class = s.Class
			}
			b.WriteString(s.Text)
		}
		if got := b.String(); got != c.want {
			t.Errorf("%q is %q, want %q", c.in, got, c.want)
		}
	}
}

// FuzzSpans: whatever a command writes, the classes are our own words and the
// text has no control characters.
func FuzzSpans(f *testing.F) {
	f.Add("\x1b[31;1mred\x1b[0m")
	f.Add("\x1b[38;5;\x1b]0;\x07\x1bP+q\x1b\\")
	f.Fuzz(func(t *testing.T, line string) {
		var l look
		for _, s := range l.spans(line) {
			for _, word := range strings.Fields(s.Class) {
				if strings.Trim(word, "abdfiotun0123456789") != "" || len(word) > 3 {
					t.Fatalf("%q has the class %q", line, s.Class)
				}
			}
			if i := strings.IndexFunc(s.Text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 && !strings.Contains(s.Text, "\n") {
				t.Fatalf("%q gives the text %q", line, s.Text)
			}
			if !utf8.ValidString(s.Text) {
				t.Fatalf("%q gives a text that is no UTF-8", line)
			}
		}
	})
}
