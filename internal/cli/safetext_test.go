package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestSafeText(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n\ttext ä日\n":                    "plain\n\ttext ä日\n",
		"\x1b[31mred\x1b[0m":                    "\x1b[31mred\x1b[0m\x1b[0m",
		"\x1b[38;2;1;2;3mtrue":                  "\x1b[38;2;1;2;3mtrue\x1b[0m",
		"\x1b]0;title\a.":                       `\x1b]0;title\x07.`,
		"\x1b]52;c;Y2xpcA==\x1b\\":              `\x1b]52;c;Y2xpcA==\x1b\`,
		"\x1b[2J\x1b[H":                         `\x1b[2J\x1b[H`,
		"\x1b[":                                 `\x1b[`,
		"\x9b2J \u009b2J":                       `\x9b2J \x9b2J`,
		"\u202egpj":                             `\u202egpj`,
		"one\r\ntwo\rthree":                     "one\ntwo\nthree",
		"\xff\xc3":                              `\xff\xc3`,
		"\x1bPq\x1b[31":                         `\x1bPq\x1b[31`,
		"\ufffd":                                "\ufffd",
		"\x1b[" + strings.Repeat("1", 60) + "m": `\x1b[` + strings.Repeat("1", 60) + "m",
	} {
		for size := 1; size <= len(text); size++ { // in every way in which reads may cut it
			var out bytes.Buffer
			s := &safeText{w: &out}
			for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
				if n, err := s.Write([]byte(rest[:min(size, len(rest))])); err != nil || n != min(size, len(rest)) {
					t.Fatal(n, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if out.String() != want {
				t.Errorf("%q by %d: %q, want %q", text, size, out.String(), want)
			}
		}
	}
}
