package mask_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/mask"
	"pgregory.net/rapid"
)

func TestAFileIsMaskedAndReadBackWhole(t *testing.T) {
	m, _ := mask.New(named("hunter2/x", "two words\nand lines", "aaaaaaa"))
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(0, 30).Draw(rt, "pieces") {
			text.WriteString(rapid.SampledFrom([]string{"hunter2/x", "hunter2%2fx", "aaaaaaaaaa", "two words\nand lines", "two words", "hunter", "***", "x\n", strings.Repeat("y", 300)}).Draw(rt, "piece"))
		}
		raw, err := os.Create(filepath.Join(dir, "f"))
		if err != nil {
			rt.Fatal(err)
		}
		f := m.NewFile(raw)
		for rest := text.String(); rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "write")
			if _, err := f.Write([]byte(rest[:n])); err != nil {
				rt.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := f.Close(); err != nil {
			rt.Fatal(err)
		}
		masked, err := os.ReadFile(f.Name())
		if err != nil || m.String(string(masked)) != string(masked) || strings.Contains(string(masked), "hunter2/") {
			rt.Errorf("on the disk: %q, %v", masked, err)
		}
		r, err := f.Open()
		if err != nil {
			rt.Fatal(err)
		}
		back, err := io.ReadAll(r)
		if err != nil || string(back) != text.String() {
			rt.Errorf("read back %q, %v\nwant %q", back, err, text.String())
		}
		if err := r.Close(); err != nil {
			rt.Error(err)
		}
	})
}

// Wherever a text is cut, no more of a secret is left than its first bytes
// that many other texts begin with.
func TestTheEndOfATextIsMaskedBeforeItIsCut(t *testing.T) {
	const secret = "abcdefghijklmnopqrstuvwxyz"
	m, _ := mask.New(named(secret))
	text := "before " + secret + " after"
	for cut := range len(text) {
		for n := range len(text) {
			got := m.Last(text[cut:], n, cut > 0)
			for i := 0; i+mask.MinLength <= len(secret); i++ {
				if strings.Contains(got, secret[i:i+mask.MinLength]) {
					t.Fatalf("cut at %d to %d: %q", cut, n, got)
				}
			}
		}
	}
}
