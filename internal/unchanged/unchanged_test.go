package unchanged

import (
	"bytes"
	"compress/flate"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestHomeKey: all who ask a new home at once have one key, which nobody else can read; a
// file that is no key is an error, and stays as it is.
func TestHomeKey(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := homeKey(home)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	name := filepath.Join(home, "fingerprints.key")
	stored, err := os.ReadFile(name)
	if err != nil || len(stored) != 32 {
		t.Fatalf("the key has %d bytes: %v", len(stored), err)
	}
	for i, key := range keys {
		if !bytes.Equal(key, stored) {
			t.Errorf("caller %d has another key than the file", i)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has the mode %v: %v", info.Mode(), err)
	}
	if other, err := homeKey(t.TempDir()); err != nil || bytes.Equal(other, stored) {
		t.Errorf("two homes have one key: %v", err)
	}
	if err := os.WriteFile(name, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := homeKey(home); err == nil || !strings.Contains(err.Error(), "5 bytes where a key has 32") {
		t.Errorf("a file that is no key: %v", err)
	}
	if now, _ := os.ReadFile(name); string(now) != "short" {
		t.Errorf("the file is now %q", now)
	}
}

// TestDigests: a digest is the HMAC of all parts, each after its length, so that other parts
// with the same text have another one, and so has another key.
func TestDigests(t *testing.T) {
	t.Parallel()
	key := []byte("a key of a home")
	s := &prints{key: key}
	seen := map[sum]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""}, {"1:a"}, {"a1:b"}, {"a", "1:b"}, {"\x00"}, {"é"}} {
		got := s.of(parts...)
		mac := hmac.New(sha256.New, key)
		for _, p := range parts {
			_, _ = fmt.Fprintf(mac, "%d:%s", len(p), p)
		}
		if want := mac.Sum(nil)[:16]; !bytes.Equal(got[:], want) {
			t.Errorf("%q: %x, want %x", parts, got, want)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%q has the digest of %s", parts, other)
		}
		seen[got] = fmt.Sprintf("%q", parts)
		if again := (&prints{key: []byte("another")}).of(parts...); again == got {
			t.Errorf("%q has one digest under two keys", parts)
		}
	}
}

// TestPrintsAreRead: what is recorded of a print is read as it was, also at the head of the
// data of an item's end; anything else is none.
func TestPrintsAreRead(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	fill := func(b []byte) {
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
	}
	for range 200 {
		var p imprint
		for _, b := range [][]byte{p.id[:], p.whole[:], p.steps[:], p.values[:], p.files[:]} {
			fill(b)
		}
		text := p.String()
		same := func(got imprint) bool {
			return got.id == p.id && got.whole == p.whole && got.steps == p.steps && got.values == p.values && got.files == p.files
		}
		if got, ok := parsePrint(text); !ok || !same(got) {
			t.Fatalf("%s is read as %+v", text, got)
		}
		if got, ok := printOf(`{"print":"` + text + `","output":"x"}`); !ok || !same(got) {
			t.Fatalf("%s at the head of data is read as %+v", text, got)
		}
		for _, wrong := range []string{text[1:], text + "A", "!" + text[1:], ""} {
			if _, ok := parsePrint(wrong); ok {
				t.Fatalf("%q is taken for a print", wrong)
			}
		}
		if _, ok := printOf(`{"output":"x","print":"` + text + `"}`); ok {
			t.Fatal("a print that is not at the head is taken")
		}
	}
}

// TestReasons: each item has the reason that was set last, as a table has it, and the record
// of them has the same; beyond the bound all reasons are one.
func TestReasons(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, kinds := range []int{1, 3, mostReasons, mostReasons + 20} {
		m := &Map{}
		want, known := map[int]string{}, map[string]bool{}
		const items = 2000
		for range 3 * items {
			i, why := 1+rnd.IntN(items), fmt.Sprint("file ", rnd.IntN(kinds), " differs")
			m.why.set(i, why)
			if !known[why] && len(known) >= mostReasons {
				why = "it has changed"
			}
			known[why] = true
			want[i] = why
		}
		for i := 1; i <= items+5; i++ {
			if got := m.Why(i); got != want[i] {
				t.Fatalf("%d reasons: item %d has %q, want %q", kinds, i, got, want[i])
			}
		}
		back, err := io.ReadAll(flate.NewReader(bytes.NewReader(deflated(m.why.of))))
		if err != nil || !bytes.Equal(back, m.why.of) {
			t.Errorf("%d reasons: the record has %d bytes of %d: %v", kinds, len(back), len(m.why.of), err)
		}
	}
}

// TestChangedName: the first name in order that is new, gone or another; nothing is said of
// names where none were recorded.
func TestChangedName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		then, now string // a=1,b=2
		want      string
	}{
		{"a=1,b=2", "a=1,b=2", "other"},
		{"a=1,b=2", "a=1,b=3", "b"},
		{"a=1,b=2", "a=9,b=3", "a"},
		{"a=1,b=2", "b=2", "a"},
		{"b=2", "a=1,b=2", "a"},
		{"b=2,c=1", "c=2", "b"},
		{"", "a=1", "other"},
		{"a=1", "", "a"},
		{"env.HOME=1,x=1", "env.HOME=2,x=1", "HOME"},
		{"", "", "other"},
	} {
		if got := changedName(tags(c.then), tags(c.now), "other"); got != c.want {
			t.Errorf("%q, then %q: %s, want %s", c.then, c.now, got, c.want)
		}
	}
}

func tags(text string) map[string]string {
	m := map[string]string{}
	for _, kv := range strings.Split(text, ",") {
		if k, v, ok := strings.Cut(kv, "="); ok {
			m[k] = v
		}
	}
	return m
}

// TestEachText: all texts of a value, of objects by their keys in order, and none that is a
// key or a number; an error ends it.
func TestEachText(t *testing.T) {
	t.Parallel()
	v := map[string]any{"z": "last", "a": []any{"one", int64(2), map[string]any{"k": "two", "b": nil}, []any{"three"}}, "m": true}
	var got []string
	if err := eachText(v, func(s string) error { got = append(got, s); return nil }); err != nil || strings.Join(got, ",") != "one,two,three,last" {
		t.Errorf("%q, %v", got, err)
	}
	n := 0
	if err := eachText(v, func(string) error { n++; return io.EOF }); err != io.EOF || n != 1 {
		t.Errorf("after an error %d texts are given: %v", n, err)
	}
}
