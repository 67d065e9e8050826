package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// stores are all that there are: what is true of one is true of the others.
func stores(t *testing.T) map[string]objects {
	t.Helper()
	return map[string]objects{"dir": dir(t.TempDir()), "memory": &memory{files: map[string][]byte{}, step: func() {}}}
}

// TestStore: of many who create a name one succeeds, and what that one wrote is there
// whole and does not change; a log has one writer.
func TestStore(t *testing.T) {
	t.Parallel()
	for name, o := range stores(t) {
		t.Run(name, func(t *testing.T) {
			r := Store{o}.Run("run")
			if err := o.found(r.name(), []string{"order", "lanes"}, "plan.json", []byte("{}")); err != nil {
				t.Fatal(err)
			}
			for n := range 20 {
				var mu sync.Mutex // the store in memory is for one at a time
				var made []string
				var wg sync.WaitGroup
				for i := range 4 {
					wg.Go(func() {
						if name == "memory" {
							mu.Lock()
							defer mu.Unlock()
						}
						text := strings.Repeat(fmt.Sprint(i), 1000+i)
						switch err := r.put([]byte(text), "order", fmt.Sprint(n)); {
						case err == nil && name == "memory":
							made = append(made, text)
						case err == nil:
							mu.Lock()
							made = append(made, text)
							mu.Unlock()
						case !errors.Is(err, fs.ErrExist):
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if got, err := r.get("order", fmt.Sprint(n)); err != nil || len(made) != 1 || string(got) != made[0] {
					t.Fatalf("%d have created it, and it has %d bytes: %v", len(made), len(got), err)
				}
			}
			broken := errors.New("no")
			if err := o.create(r.name("order", "half"), func(w io.Writer) error { _, err := w.Write([]byte("half")); return errors.Join(err, broken) }); !errors.Is(err, broken) {
				t.Error(err)
			}
			if names, err := o.list(r.name("order")); err != nil || len(names) != 20 || slices.Contains(names, "half") {
				t.Errorf("%v, %v", names, err)
			}
			if _, err := r.get("order", "half"); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			log, err := o.begin(r.log("lane-1-1"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := o.begin(r.log("lane-1-1")); !errors.Is(err, fs.ErrExist) {
				t.Errorf("a second writer of a log: %v", err)
			}
			for _, text := range []string{"one ", "two"} {
				if _, err := log.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(log.Sync(), log.Close()); err != nil {
				t.Fatal(err)
			}
			f, err := o.read(r.log("lane-1-1"), 4)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(f); err != nil || string(text) != "two" {
				t.Errorf("%q, %v", text, err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDirDrafts: what a writer that was killed has left in a directory is not seen, and
// nothing is made anew where the run is away.
func TestDirDrafts(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	o := dir(root)
	r := Store{o}.Run("run")
	if err := o.found(r.name(), []string{"order"}, "plan.json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.Path(), "order", ".new-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := o.list(r.name("order")); err != nil || len(names) != 0 {
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

// TestOrderHasNoGap: an entry whose predecessor the store does not have, as it is an
// older copy of it perhaps, is refused, and a damaged one is reported.
func TestOrderHasNoGap(t *testing.T) {
	t.Parallel()
	for name, o := range stores(t) {
		t.Run(name, func(t *testing.T) {
			r := Store{o}.Run("run")
			if err := o.found(r.name(), []string{"order"}, "plan.json", []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if err := r.Record(Entry{Seq: 1, Life: 1}); err != nil {
				t.Fatal(err)
			}
			if err := r.Record(Entry{Seq: 3, Life: 1}); err == nil || !strings.Contains(err.Error(), "the store does not have entry 2") {
				t.Errorf("%v", err)
			}
			if err := r.put(appendFrame(nil, []byte(`{"seq":2,"life":1}`))[1:], "order", entryName(2)); err != nil {
				t.Fatal(err)
			}
			if err := r.entries(0, func(Entry) error { return nil }); !errors.As(err, new(*DamagedError)) || !strings.Contains(err.Error(), "order/00000002") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestRecordReadsNoMore: to record an entry takes as much behind a thousand entries as
// behind one.
func TestRecordReadsNoMore(t *testing.T) {
	t.Parallel()
	calls := 0
	r := Store{&memory{files: map[string][]byte{}, step: func() { calls++ }}}.Run("run")
	first := 0
	for seq := 1; seq <= 1000; seq++ {
		calls = 0
		if err := r.Record(Entry{Seq: seq, Life: 1}); err != nil {
			t.Fatal(err)
		}
		if seq == 2 {
			first = calls
		}
	}
	if calls != first || calls > 2 {
		t.Errorf("%d calls of the store, and %d at first", calls, first)
	}
}

// BenchmarkRecord is the same in a directory.
func BenchmarkRecord(b *testing.B) {
	o := dir(b.TempDir())
	r := Store{o}.Run("run")
	if err := o.found(r.name(), []string{"order"}, "plan.json", []byte("{}")); err != nil {
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
