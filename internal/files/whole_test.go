package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bide-dev/bide/internal/files"
)

// A file is replaced whole, or stays as it was, and nothing is left beside it.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	broken := errors.New("broken")
	half := func(f *os.File) error {
		_, err := f.WriteString("half")
		return errors.Join(err, broken)
	}
	for _, step := range []struct {
		put   func(string, fs.FileMode, func(*os.File) error) error
		write func(*os.File) error
		err   error
		has   string
	}{
		{files.Replace, half, broken, ""}, {files.Create, half, broken, ""}, {files.Create, files.Synced([]byte("one")), nil, "one"},
		{files.Create, files.Synced([]byte("two")), fs.ErrExist, "one"}, {files.Replace, half, broken, "one"}, {files.Replace, files.Synced([]byte("three")), nil, "three"},
	} {
		if err := step.put(path, 0o640, step.write); !errors.Is(err, step.err) {
			t.Errorf("the error is %v, want %v", err, step.err)
		}
		text, err := os.ReadFile(path)
		if string(text) != step.has || (err != nil) != (step.has == "") {
			t.Errorf("the file has %q, %v; want %q", text, err, step.has)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() != 0o640 {
			t.Errorf("its mode is %v", info.Mode())
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) > 1 {
			t.Errorf("there are %v, %v", list, err)
		}
	}
	if err := files.Replace(filepath.Join(dir, "none", "f"), 0o600, half); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join("none", "f")+":") {
		t.Errorf("without a directory: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := files.Replace(filepath.Join(dir, "d"), 0o600, files.Synced(nil)); err == nil || !strings.HasPrefix(err.Error(), "write "+filepath.Join(dir, "d")+": ") {
		t.Errorf("over a directory: %v", err)
	}
}

// Of many that create a file at once one succeeds, and its text stays.
func TestCreateOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var all sync.WaitGroup
	var won atomic.Int32
	for i := range int32(16) {
		all.Go(func() {
			switch err := files.Create(path, 0o600, files.Synced([]byte{byte(i)})); {
			case err == nil:
				won.Add(100 + i)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if text, err := os.ReadFile(path); err != nil || len(text) != 1 || int32(text[0]) != won.Load()-100 {
		t.Errorf("the file has %v, %v; %d succeeded", text, err, won.Load())
	}
}
