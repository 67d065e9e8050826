package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func keyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCrypt: what is encrypted shows nothing of itself, is read with its key only, and
// a changed byte of it is noticed. Who has a key takes nothing that was made without.
func TestCrypt(t *testing.T) {
	one, err := newCrypt(keyFile(t, strings.Repeat("0a", 32)+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := newCrypt(keyFile(t, strings.Repeat("0b", 32)))
	if err != nil {
		t.Fatal(err)
	}
	const secret = "the store is in /mnt/shared"
	with := payloadsWith(one)
	p, err := with.ToPayload(secret)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(p.Data, []byte("shared")) || string(p.Metadata["encoding"]) != sealed {
		t.Errorf("%s", p)
	}
	var got string
	if err := with.FromPayload(p, &got); err != nil || got != secret {
		t.Errorf("%q, %v", got, err)
	}
	for name, c := range map[string]crypt{"another key": other, "no key": {}} {
		if err := payloadsWith(c).FromPayload(p, &got); !errors.Is(err, errSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range p.Data {
		p.Data[i] ^= 1
		if err := with.FromPayload(p, &got); !errors.Is(err, errSealed) {
			t.Errorf("byte %d is another one: %v", i, err)
		}
		p.Data[i] ^= 1
	}
	p.Data[len(p.Data)-1] ^= 1
	if err := with.FromPayload(p, &got); !errors.Is(err, errSealed) {
		t.Errorf("a changed byte: %v", err)
	}
	plain, err := payloads().ToPayload(secret)
	if err != nil {
		t.Fatal(err)
	}
	got = ""
	if err := with.FromPayload(plain, &got); !errors.Is(err, errPlain) || got != "" {
		t.Errorf("what is not encrypted was taken: %q, %v", got, err)
	}
}

// TestBadKey: a file that holds no key is told, with what makes one.
func TestBadKey(t *testing.T) {
	for _, text := range []string{"", "abc", strings.Repeat("0a", 31), strings.Repeat("zz", 32)} {
		if _, err := newCrypt(keyFile(t, text)); err == nil || !strings.Contains(err.Error(), "openssl rand -hex 32") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := newCrypt("/nowhere/key"); err == nil || !strings.Contains(err.Error(), KeyFile) {
		t.Errorf("%v", err)
	}
}
