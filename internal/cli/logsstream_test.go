package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// TestLongLinesAreFollowed: a line of any length is printed when it has ended.
func TestLongLinesAreFollowed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	p := &growth{}
	var printed strings.Builder
	look := func(want string) {
		t.Helper()
		if err := p.lines(name, func(r io.Reader) error { _, err := io.Copy(&printed, r); return err }); err != nil {
			t.Fatal(err)
		}
		if got := printed.String(); got != want {
			t.Fatalf("%d bytes are printed, want %d", len(got), len(want))
		}
	}
	look("")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	whole := ""
	for _, line := range []string{"short\n", strings.Repeat("x", 9<<20) + "\n", "a\nb\n" + strings.Repeat("y", 1<<16) + "\n"} {
		half := len(line) / 2
		if _, err := f.WriteString(line[:half]); err != nil {
			t.Fatal(err)
		}
		look(whole + line[:strings.LastIndexByte(line[:half], '\n')+1])
		if _, err := f.WriteString(line[half:]); err != nil {
			t.Fatal(err)
		}
		whole += line
		look(whole)
	}
}

// apace is a text that is long, and of which no more may be read than was written.
type apace struct {
	t     *testing.T
	left  int
	read  int
	wrote *bytes.Buffer
}

func (a *apace) Read(p []byte) (int, error) {
	if a.read > a.wrote.Len()+1<<20 {
		a.t.Fatalf("%d bytes were read and %d written", a.read, a.wrote.Len())
	}
	if a.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), a.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	a.left, a.read = a.left-n, a.read+n
	return n, nil
}

// TestTextsAreStreamed: an object of JSON with a long text is written while that is
// read, and is what it would be without.
func TestTextsAreStreamed(t *testing.T) {
	var out bytes.Buffer
	if err := streamJSONLine(&out, struct{ A int }{1}, "text", &apace{t, 5 << 20, 0, &out}); err != nil {
		t.Fatal(err)
	}
	if out.Len() != len(`{"A":1,"text":""}`)+1+5<<20 {
		t.Errorf("%d bytes are written", out.Len())
	}
	for _, text := range []string{"", "a", strings.Repeat("aé漢😀\"\\\n<&>\u2028\x00\xff", 20_000), strings.Repeat("x", 65_535) + "é", strings.Repeat("x", 65_534) + "😀\xf0\x9f", "\xf0\x9f\x98"} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			var got, want bytes.Buffer
			if err := streamJSONLine(&got, struct{ A int }{1}, "text", r); err != nil {
				t.Fatal(err)
			}
			if err := printJSONLine(&want, struct {
				A    int
				Text string `json:"text"`
			}{1, text}); err != nil {
				t.Fatal(err)
			}
			if !json.Valid(got.Bytes()) || !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("a text of %d bytes is written as %.60q… of %d, want %.60q… of %d", len(text), got.Bytes(), got.Len(), want.Bytes(), want.Len())
			}
		}
	}
	if err := streamJSONLine(io.Discard, struct{}{}, "text", iotest.ErrReader(os.ErrClosed)); err == nil {
		t.Error("an error of reading is not told")
	}
}
