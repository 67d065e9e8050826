package mask_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/bide-dev/bide/internal/mask"
	"pgregory.net/rapid"
)

// named gives secrets the names a, b, c, …
func named(values ...string) map[string]string {
	m := map[string]string{}
	for i, v := range values {
		m[string(rune('a'+i))] = v
	}
	return m
}

func TestForms(t *testing.T) {
	const secret = "p@ss/w\"ör d+1"
	m, short := mask.New(named(secret, "line-one\nline-two\n}", "abc"))
	if len(short) != 1 || short[0] != "c" {
		t.Errorf("short = %q, want [c]", short)
	}
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"plain":           secret,
		"url query":       url.QueryEscape(secret),
		"url path":        url.PathEscape(secret),
		"json":            string(quoted),
		"base64":          base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 url":      base64.URLEncoding.EncodeToString([]byte(secret)),
		"base64, after 1": base64.StdEncoding.EncodeToString([]byte("u" + secret)),
		"base64, after 2": base64.StdEncoding.EncodeToString([]byte("u:" + secret + "!")),
		"base64, after 3": base64.StdEncoding.EncodeToString([]byte("me:" + secret + "!!")),
		"base64, wrapped": wrapped(base64.StdEncoding.EncodeToString([]byte("user:"+secret)), 7, "\n"),
		"base64, as JSON": wrapped(base64.StdEncoding.EncodeToString([]byte(secret)), 10, `\r\n`),
		"one line":        "x line-two y",
	} {
		t.Run(name, func(t *testing.T) {
			got := m.String("before " + text + " after")
			if !strings.Contains(got, mask.Hidden) {
				t.Errorf("%q is not masked: %q", text, got)
			}
			for _, leak := range []string{secret, "line-two", text[len(text)/3 : len(text)*2/3]} {
				if strings.Contains(got, leak) {
					t.Errorf("%q still holds %q", got, leak)
				}
			}
		})
	}
	if got := m.String("abc } {"); got != "abc } {" {
		t.Errorf("short values and braces of a value must stay readable: %q", got)
	}
}

func TestNothingToMask(t *testing.T) {
	var m *mask.Masker
	if got := m.String("text"); got != "text" || m.Active() {
		t.Errorf("the nil Masker changed %q", got)
	}
}

// However the text is cut into writes, no secret comes out and the result is
// the same as masking it in one piece, but for secrets that overlap.
func TestWriterSplitAnywhere(t *testing.T) {
	secrets := []string{"abcab", "abcabcd", "hunter22", "s3cr3t"}
	m, _ := mask.New(named(secrets...))
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom(append([]string{"a", "ab", "x", "\n", "abc", "hunter", "22", "s3", "cr3t"}, secrets...))).Draw(t, "parts")
		text := strings.Join(parts, "")
		var out strings.Builder
		w := m.NewWriter(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			if k, err := w.Write([]byte(rest[:n])); k != n || err != nil {
				t.Fatalf("Write = %d, %v", k, err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, s := range secrets {
			if strings.Contains(out.String(), s) {
				t.Fatalf("%q came out of %q: %q", s, text, out.String())
			}
		}
		if want := m.String(text); out.String() != want {
			t.Fatalf("written in pieces %q, in one %q", out.String(), want)
		}
	})
}

func FuzzMask(f *testing.F) {
	f.Add("secret-value", "a secret-value here")
	f.Fuzz(func(t *testing.T, secret, text string) {
		if len(secret) < mask.MinLength || strings.Contains(mask.Hidden, secret) {
			return
		}
		m, _ := mask.New(named(secret))
		if got := m.String(text); strings.Contains(strings.ReplaceAll(got, mask.Hidden, "\x00"), secret) && !strings.Contains(secret, "\x00") {
			t.Errorf("%q is left in %q", secret, got)
		}
	})
}

func TestSeams(t *testing.T) {
	m, _ := mask.New(named("hunter22"))
	for text, want := range map[string]string{
		"before hunt<cut>":                "before ***<cut>",
		"enough of it<cut>ter22 after":    "enough of it<cut>*** after",
		"before hunter22 hu<cut>2 after":  "before hunter22 ***<cut>*** after",
		"nothing is cut in this hunt":     "nothing is cut in this hunt",
		"plain before<cut>plain after it": "plain before<cut>plain after it",
	} {
		mark := "\n… 12 bytes left out …\n"
		text, want = strings.Replace(text, "<cut>", mark, 1), strings.Replace(want, "<cut>", mark, 1)
		if got := m.Seams(text); got != want {
			t.Errorf("Seams(%q) = %q, want %q", text, got, want)
		}
	}
}

func wrapped(s string, width int, end string) string {
	var b strings.Builder
	for len(s) > width {
		b.WriteString(s[:width] + end)
		s = s[width:]
	}
	return b.String() + s
}

// TestWrappedBase64: the lines of a long secret, encoded as base64(1) does,
// written byte by byte.
func TestWrappedBase64(t *testing.T) {
	secret := strings.Repeat("correct horse battery staple ", 6)
	m, _ := mask.New(named(secret))
	text := wrapped(base64.StdEncoding.EncodeToString([]byte("u:"+secret+"!")), 76, "\n")
	var out strings.Builder
	w := m.NewWriter(&out)
	for _, c := range []byte("a " + text + " b") {
		if _, err := w.Write([]byte{c}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), mask.Hidden) || strings.Contains(out.String(), text[20:60]) || strings.Contains(out.String(), text[100:140]) {
		t.Errorf("it came out as %q", out.String())
	}
}

// TestSeal: what was masked comes back with the values of now, and nothing is
// put where a text only looks masked.
func TestSeal(t *testing.T) {
	m, _ := mask.New(map[string]string{"A": "first secret", "B": "another/one"})
	code := base64.StdEncoding.EncodeToString([]byte("me:first secret"))
	text := "*** first secret, " + code + " another%2Fone ***"
	masked, marks := m.Seal(text)
	if masked != m.String(text) || strings.Contains(masked, "secret") || len(marks) != 3 {
		t.Fatalf("sealed %q with %v", masked, marks)
	}
	if got, ok := m.Unseal(masked, marks); got != text || !ok {
		t.Errorf("unsealed %q, %v", got, ok)
	}
	if b, err := json.Marshal(marks); err != nil || strings.Contains(string(b), "first") {
		t.Errorf("the marks are %s, %v", b, err)
	}
	later, _ := mask.New(map[string]string{"A": "a new value of it", "C": "x"})
	if got, ok := later.Unseal(masked, marks); ok || !strings.HasPrefix(got, "*** a new value of it, ") || !strings.HasSuffix(got, " *** ***") {
		t.Errorf("with another value it is %q, %v", got, ok)
	}
	for _, wrong := range []string{"", "short", "***", strings.Repeat("x", 100)} {
		if got, ok := m.Unseal(wrong, marks); ok || got != wrong {
			t.Errorf("%q became %q", wrong, got)
		}
	}
	if _, marks := m.Seal("nothing here"); marks != nil {
		t.Errorf("marks %v of nothing", marks)
	}
}

// A percent-encoding may write any byte as %XX, in either case, and JSON any
// character as an escape.
func TestEverySpellingOfAnEncoding(t *testing.T) {
	const secret = "p@ss/w\"ör d+1 😀"
	m, _ := mask.New(named(secret))
	rapid.Check(t, func(rt *rapid.T) {
		percent, escaped := "", ""
		for _, c := range []byte(secret) {
			switch rapid.IntRange(0, 2).Draw(rt, "byte") {
			case 0:
				percent += fmt.Sprintf("%%%02x", c)
			case 1:
				percent += fmt.Sprintf("%%%02X", c)
			default:
				percent += string([]byte{c})
			}
		}
		for _, r := range secret {
			switch {
			case rapid.Bool().Draw(rt, "escaped") && r > 0xffff:
				hi, lo := utf16.EncodeRune(r)
				escaped += fmt.Sprintf(`\u%04x\u%04X`, hi, lo)
			case r == '"' || r == '/' && rapid.Bool().Draw(rt, "slash"):
				escaped += `\` + string(r)
			case r < 0xffff && rapid.Bool().Draw(rt, "escaped"):
				escaped += fmt.Sprintf(`\u%04X`, r)
			default:
				escaped += string(r)
			}
		}
		for _, text := range []string{percent, escaped} {
			if got := m.String("<" + text + ">"); got != "<"+mask.Hidden+">" {
				rt.Errorf("%q gave %q", text, got)
			}
			var b strings.Builder
			w := m.NewWriter(&b)
			for rest := "<" + text + ">"; rest != ""; {
				n := rapid.IntRange(1, len(rest)).Draw(rt, "write")
				if _, err := w.Write([]byte(rest[:n])); err != nil {
					rt.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := w.Flush(); err != nil || b.String() != "<"+mask.Hidden+">" {
				rt.Errorf("%q in pieces gave %q, %v", text, b.String(), err)
			}
		}
	})
	for name, text := range map[string]string{
		"curl --data-urlencode": "p%40ss%2Fw%22%C3%B6r%20d%2B1%20%F0%9F%98%80", "Python's quote": "p%40ss/w%22%C3%B6r%20d%2B1%20%F0%9F%98%80",
		"Python's quote_plus": "p%40ss%2Fw%22%C3%B6r+d%2B1+%F0%9F%98%80", "lower case": "p%40ss%2fw%22%c3%b6r%20d%2b1%20%f0%9f%98%80", "encodeURI": "p@ss/w%22%C3%B6r%20d+1%20%F0%9F%98%80",
		"json.dumps": `p@ss/w\"\u00f6r d+1 \ud83d\ude00`,
	} {
		if got := m.String(text); got != mask.Hidden {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestPlace(t *testing.T) {
	m, _ := mask.New(map[string]string{"S": "sesame-street", "T": "thousand"})
	const s = "ä sesame-street, thousandthousand."
	if got := m.String(s); got != "ä ***, ******." {
		t.Fatal(got)
	}
	for at, want := range map[int]int{0: 0, 3: 3, 4: 3, 15: 3, 16: 6, 18: 8, 20: 8, 26: 11, 34: 14, 35: 15} {
		if got := m.Place(s, at); got != want {
			t.Errorf("byte %d: %d, want %d", at, got, want)
		}
	}
	if got := (*mask.Masker)(nil).Place(s, 7); got != 7 {
		t.Error(got)
	}
}
