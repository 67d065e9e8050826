package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dirStore is a store in a directory.
func dirStore(path string) Store { return Store{"dir:" + path, dir(path)} }

// TestDirDrafts: what a writer that was killed has left in a directory is not seen, and
// nothing is made anew where the run is away.
func TestDirDrafts(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	o := dir(root)
	r := dirStore(root).Run("run")
	if err := o.Found(r.name(), []string{"order"}, "plan.json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.Path(), "order", ".new-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := o.List(r.name("order")); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
	if err := os.Rename(r.Path(), r.Path()+".away"); err != nil {
		t.Fatal(err)
	}
	if err := r.put(nil, "order", "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := r.Record(Entry{Seq: 2, Life: 1}); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "older copy") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(r.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// BenchmarkRecord is the same in a directory.
func BenchmarkRecord(b *testing.B) {
	root := b.TempDir()
	r := dirStore(root).Run("run")
	if err := dir(root).Found(r.name(), []string{"order"}, "plan.json", []byte("{}")); err != nil {
		b.Fatal(err)
	}
	seq := 0
	for b.Loop() {
		seq++
		if err := r.Record(Entry{Seq: seq, Life: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
