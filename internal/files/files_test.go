package files_test

import (
	"context"
	"errors"
	"os"
	pathpkg "path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/files"
)

// place is a directory with files, a link that leads out of it, and a file
// beside it.
func place(t *testing.T) (dir string) {
	t.Helper()
	root := t.TempDir()
	dir = filepath.Join(root, "a[b]*", "work")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"../secret": "out", "one.txt": "1", "two.txt": "2", "sub/three.txt": "3"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What data names stays below the directory; what the author writes does not.
func TestConfined(t *testing.T) {
	dir := place(t)
	for path, inside := range map[string]bool{
		"one.txt": true, "sub/../two.txt": true, filepath.Join(dir, "sub", "three.txt"): true,
		"../secret": false, "sub/../../secret": false, filepath.Join(filepath.Dir(dir), "secret"): false,
		"link": false, "/etc/passwd": false, "": false,
	} {
		n := files.Name{Dir: dir, Path: path, ByData: true}
		text, err := n.Read(t.Context())
		if inside != (err == nil) {
			t.Errorf("%s: read %q, %v", path, text, err)
		}
		if path == "" {
			continue
		}
		if _, err := n.Stat(); inside != (err == nil) {
			t.Errorf("%s: stat: %v", path, err)
		}
		free := files.Name{Dir: dir, Path: path}
		if _, err := free.Read(t.Context()); err != nil {
			t.Errorf("%s of the author: %v", path, err)
		}
		f, err := n.Create()
		if inside != (err == nil) {
			t.Errorf("%s: create: %v", path, err)
		}
		if err == nil {
			f.Close()
			if err := os.WriteFile(free.Full(), []byte("again"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "..", "secret")); string(text) != "out" {
		t.Errorf("the file beside the directory holds %q, %v", text, err)
	}
	var outside *files.OutsideError
	if _, err := (files.Name{Dir: dir, Path: "../x", ByData: true}).Create(); !errors.As(err, &outside) {
		t.Errorf("%v", err)
	}
}

func TestFind(t *testing.T) {
	dir := place(t)
	for _, byData := range []bool{false, true} {
		got, err := files.Name{Dir: dir, Path: "*.txt", ByData: byData}.Find()
		want := []string{filepath.Join(dir, "one.txt"), filepath.Join(dir, "two.txt")}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got, err := (files.Name{Dir: dir, Path: "../*", ByData: true}).Find(); err == nil {
		t.Errorf("outside: %q", got)
	}
}

// TestFindIsGlob: patterns mean the same wherever files are looked for. Find gives
// directories and links as well.
func TestFindIsGlob(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*")
	for _, f := range []string{"a.go", "b.txt", ".x.go", "sub/c.go", "sub/.d/e.go", "sub/deep/f.go", ".git/g.go", "[x"} {
		path := filepath.Join(dir, f)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	outside := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(outside, "o.go"), nil, 0o600), os.Symlink(outside, filepath.Join(dir, "out")), os.Symlink("nowhere", filepath.Join(dir, "dangling"))); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		"*.go": "a.go", ".*.go": ".x.go", "*": "[x a.go b.txt dangling out sub", "**/*.go": "a.go sub/c.go sub/deep/f.go",
		"sub/**": "sub/c.go sub/deep sub/deep/f.go", "sub/.d/*": "sub/.d/e.go", "s*": "sub", `\[x`: "[x", "none": "", "a.go/*": "", "./a.go": "a.go",
		"out": "out", "dangling/*": "",
	} {
		for _, byData := range []bool{false, true} {
			found, err := files.Name{Dir: dir, Path: pattern, ByData: byData}.Find()
			var names []string
			for _, f := range found {
				names = append(names, strings.TrimPrefix(f, dir+"/"))
			}
			if got := strings.Join(names, " "); err != nil || got != want {
				t.Errorf("%s, by data %v: %q, %v; want %q", pattern, byData, got, err, want)
			}
		}
	}
	for byData, want := range map[bool]int{false: 1, true: 0} { // data does not lead out of the directory
		if found, err := (files.Name{Dir: dir, Path: "*/o.go", ByData: byData}).Find(); err != nil || len(found) != want {
			t.Errorf("by data %v: %q, %v", byData, found, err)
		}
	}
	if _, err := (files.Name{Dir: dir, Path: "a/["}).Find(); !errors.Is(err, pathpkg.ErrBadPattern) {
		t.Errorf("a bad pattern: %v", err)
	}
	if found, err := (files.Name{Dir: "elsewhere", Path: outside + "/*"}).Find(); err != nil || len(found) != 1 {
		t.Errorf("an absolute pattern: %q, %v", found, err)
	}
	if found, err := (files.Name{Dir: filepath.Join(dir, "sub"), Path: "../*.go"}).Find(); err != nil || len(found) != 1 || found[0] != filepath.Join(dir, "a.go") {
		t.Errorf("beside the directory: %q, %v", found, err)
	}
}

func TestCreateMakesFolders(t *testing.T) {
	dir := place(t)
	for _, n := range []files.Name{{Dir: dir, Path: "x/y/z"}, {Dir: dir, Path: "u/v/w", ByData: true}} {
		f, err := n.Create()
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

// What is written into a pipe that nobody reads is gone when it is closed.
func TestCreateWantsAReader(t *testing.T) {
	dir := place(t)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, n := range []files.Name{files.At(pipe), {Dir: dir, Path: "pipe", ByData: true}} {
		if f, err := n.Create(); err == nil {
			f.Close()
			t.Errorf("%v was opened without a reader", n)
		} else if !strings.Contains(err.Error(), "nobody reads") {
			t.Error(err)
		}
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, n := range []files.Name{files.At(pipe), {Dir: dir, Path: "pipe", ByData: true}} {
		f, err := n.Create()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("ok"); err != nil {
			t.Error(err)
		}
		f.Close()
		b := make([]byte, 8)
		if n, err := reader.Read(b); err != nil || string(b[:n]) != "ok" {
			t.Errorf("%q, %v", b[:n], err)
		}
	}
}

// A pipe that nobody writes holds nobody back, wherever it stands.
func TestReadEndsWithContext(t *testing.T) {
	dir := place(t)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("interrupted")
	for _, n := range []files.Name{files.At(pipe), {Dir: dir, Path: "pipe", ByData: true}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
		if _, err := n.Read(ctx); !errors.Is(err, cause) {
			t.Errorf("%v: %v", n, err)
		}
	}
}

func TestReadIsBounded(t *testing.T) {
	if _, err := files.At("/dev/zero").Read(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Error(err)
	}
}

func TestBelow(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for path, want := range map[string]string{
		filepath.Join(dir, "a.yml"):        "a.yml",
		filepath.Join(dir, "sub", "a.yml"): filepath.Join("sub", "a.yml"),
		filepath.Dir(dir) + "/a.yml":       filepath.Dir(dir) + "/a.yml",
		"sub/a.yml":                        "sub/a.yml",
	} {
		if got := files.Below(path); got != want {
			t.Errorf("Below(%q) = %q, want %q", path, got, want)
		}
	}
}
