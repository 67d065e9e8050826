package proc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// fill writes text in pieces of n bytes and finishes the capture.
func fill(c *Cmd, text string, n int) Output {
	var p capture
	p.init("stdout", c)
	for len(text) > 0 {
		n = min(n, len(text))
		p.write([]byte(text[:n]))
		text = text[n:]
	}
	return p.finish()
}

func TestOutputText(t *testing.T) {
	for _, c := range []struct {
		limit      int
		text, want string
	}{
		{10, "", ""},
		{10, "0123456789", "0123456789"},
		{10, "0123456789a", "01234\n… 1 bytes left out …\n6789a"},
		{10, "abcd\nXXXXXXXXefghi", "abcd\n… 8 bytes left out …\nefghi"},
		{3, "0123456789", "0\n… 7 bytes left out …\n89"},
		{1, "0123456789", "… 9 bytes left out …\n9"},
		{-1, "0123456789", "… 10 bytes left out …\n"},
		{-1, "", ""},
		{0, "short", "short"},
		{6, "12€45678€9", "12\n… 11 bytes left out …\n9"}, // half a € at both ends
		{6, "123\xff\xff\xff\xff\xff89", "123\n… 4 bytes left out …\n\xff89"},
	} {
		for n := 1; n <= 12; n++ {
			if got := fill(&Cmd{Limit: c.limit}, c.text, n).String(); got != c.want {
				t.Errorf("limit %d, %q in pieces of %d: got %q, want %q", c.limit, c.text, n, got, c.want)
			}
		}
	}
}

// However the stream comes, head, tail, size and digest are those of the whole.
func TestOutputProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(8000, 10000)).Draw(t, "limit")
		text := make([]byte, rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(4000, 30000)).Draw(t, "size"))
		for i := range text {
			text[i] = byte('a' + (i*7+i/251)%26)
		}
		n := rapid.IntRange(1, 12000).Draw(t, "piece")
		o := fill(&Cmd{Limit: limit}, string(text), n)
		sum := sha256.Sum256(text)
		if o.Size != int64(len(text)) || o.Digest() != hex.EncodeToString(sum[:]) && !(o.Truncated && o.SHA256 == "") {
			t.Fatalf("size %d of %d, digest %s", o.Size, len(text), o.Digest())
		}
		if (o.SHA256 != "") != (len(text) > SpillThreshold) {
			t.Fatalf("digest %q of %d bytes", o.SHA256, len(text))
		}
		if o.Truncated != (len(text) > limit) || len(o.Head)+len(o.Tail) != min(limit, len(text)) {
			t.Fatalf("kept %d and %d of %d", len(o.Head), len(o.Tail), len(text))
		}
		if !bytes.HasPrefix(text, o.Head) || !bytes.HasSuffix(text, o.Tail) {
			t.Fatalf("head %.20q, tail %.20q", o.Head, o.Tail)
		}
		if e, err := Excerpt(bytes.NewReader(text), int64(len(text)), int64(limit)); err != nil || e.String() != o.String() {
			t.Fatalf("the excerpt is %.20q, the output %.20q: %v", e, o, err)
		}
	})
}

func TestTailString(t *testing.T) {
	o := fill(&Cmd{Limit: 8}, "the beginning … ending", 5)
	for _, c := range []struct {
		n    int
		want string
	}{{0, ""}, {-1, ""}, {3, "ing"}, {4, "ding"}, {100, "ding"}} {
		if got := o.TailString(c.n); got != c.want {
			t.Errorf("%d: got %q, want %q", c.n, got, c.want)
		}
	}
	if got := fill(&Cmd{}, "ab€", 9).TailString(2); got != "" {
		t.Errorf("of half a character: %q", got)
	}
	if got := fill(&Cmd{}, "ab€c", 9).TailString(4); got != "€c" {
		t.Errorf("got %q", got)
	}
}

func TestSpill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	calls := 0
	cmd := &Cmd{Limit: 100, Spill: func(stream string) (File, error) {
		if calls++; stream != "stdout" {
			t.Errorf("stream %q", stream)
		}
		return os.Create(file)
	}}
	if o := fill(cmd, strings.Repeat("x", SpillThreshold), 100); calls != 0 || o.File != "" || o.Err != nil {
		t.Errorf("%d calls for a small output, %+v", calls, o)
	}
	text := strings.Repeat("0123456789", 100_000)
	o := fill(cmd, text, 777)
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(got)
	if calls != 1 || string(got) != text || o.File != file || o.SHA256 != hex.EncodeToString(sum[:]) || o.Err != nil {
		t.Errorf("%d calls, %d bytes, %s, %v", calls, len(got), o.File, o.Err)
	}
}

func TestSpillFails(t *testing.T) {
	full := errors.New("the disk is full")
	text := strings.Repeat("0123456789", SpillThreshold/5)
	for name, spill := range map[string]func(string) (File, error){
		"no file":     func(string) (File, error) { return nil, full },
		"write fails": func(string) (File, error) { return os.Open(os.DevNull) },
	} {
		o := fill(&Cmd{Spill: spill}, text, 100)
		if o.Err == nil || !strings.Contains(o.Err.Error(), "stdout") {
			t.Errorf("%s: error %v", name, o.Err)
		}
		if o.String() != text {
			t.Errorf("%s: the captured output is not right", name)
		}
		if name == "no file" && (!errors.Is(o.Err, full) || o.File != "") {
			t.Errorf("%s: %v, file %q", name, o.Err, o.File)
		}
	}
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte("héllo wörld"), 5, 3)
	f.Add([]byte("\xff\xfe€"), 2, 1)
	f.Fuzz(func(t *testing.T, text []byte, limit, tail int) {
		limit %= 100
		o := fill(&Cmd{Limit: limit}, string(text), 7)
		s := o.String()
		if utf8.Valid(text) && !utf8.ValidString(s) {
			t.Errorf("%q became %q", text, s)
		}
		if !o.Truncated && s != string(text) {
			t.Errorf("%q became %q", text, s)
		}
		if got := o.TailString(tail % 50); utf8.Valid(text) && !utf8.ValidString(got) || len(got) > max(0, tail%50) {
			t.Errorf("the end of %q became %q", text, got)
		}
	})
}

func ExampleOutput_String() {
	o := Output{Head: []byte("first line\n"), Tail: []byte("last line\n"), Size: 1021, Truncated: true}
	fmt.Print(o)
	// Output:
	// first line
	// … 1000 bytes left out …
	// last line
}

// A short output is in a file while its command runs, from ShowAfter on, and in
// none when it has ended.
func TestShortOutputIsShownWhileItRuns(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, s *Supervisor) {
		dir := t.TempDir()
		seen := make(chan string, 1)
		cmd := shell(`printf one; until test -s ` + dir + `/stdout; do sleep 0.02; done; printf two; until test "$(cat ` + dir + `/stdout)" = onetwo; do sleep 0.02; done; seen=$(cat ` + dir + `/stdout); printf %s "$seen"`)
		cmd.Spill = func(stream string) (File, error) {
			f, err := os.Create(filepath.Join(dir, stream))
			seen <- stream
			return f, err
		}
		r, err := s.Run(t.Context(), cmd)
		if err != nil || r.Stdout.String() != "onetwoonetwo" || r.Stdout.File != "" || r.Stdout.Err != nil || r.Stdout.SHA256 != "" {
			t.Errorf("%+v, %v", r.Stdout, err)
		}
		if stream := <-seen; stream != "stdout" {
			t.Errorf("a file for %s", stream)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
	})
}

// What goes wrong with a file that is there only to be followed is no failure;
// the same for a large output is.
func TestShownOutputWithoutAFile(t *testing.T) {
	t.Parallel()
	cmd := &Cmd{Spill: func(string) (File, error) { return nil, errors.New("the disk is full") }}
	for size, failed := range map[int]bool{100: false, SpillThreshold + 1: true} {
		var c capture
		c.init("stdout", cmd)
		c.write([]byte("x"))
		c.show()
		c.write([]byte(strings.Repeat("x", size-1)))
		if o := c.finish(); (o.Err != nil) != failed || o.Size != int64(size) || o.File != "" {
			t.Errorf("%d bytes: %+v", size, o)
		}
	}
}
