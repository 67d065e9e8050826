package cluster_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/cluster/storetest"
	"github.com/bide-dev/bide/internal/journal"
)

// inDirectory is a store in a directory: in memory, where the machine has such ones.
func inDirectory(t *testing.T) (cluster.Objects, func(run string) map[string][]byte) {
	t.Helper()
	root := t.TempDir()
	if shm, err := os.MkdirTemp("/dev/shm", "bide-test-"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(shm) })
		root = shm
	}
	s, err := cluster.OpenStore("dir:" + root)
	if err != nil {
		t.Fatal(err)
	}
	return s.Objects(), func(run string) map[string][]byte {
		files := map[string][]byte{}
		place := filepath.Join(root, "runs", run)
		err := filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(place, path)
			if err == nil {
				files[name], err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
}

// long reports whether the long form of the tests is wanted.
func long() bool { return os.Getenv("BIDE_CLUSTER") == "long" }

func TestStore(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { t.Parallel(); storetest.Conform(t, &storetest.Memory{}, 1100) })
	t.Run("dir", func(t *testing.T) {
		t.Parallel()
		o, _ := inDirectory(t)
		storetest.Conform(t, o, 1100)
	})
	t.Run("through", func(t *testing.T) { t.Parallel(); storetest.Conform(t, through(t, &storetest.Memory{}), 1100) })
}

// through is a store that others serve, over connections that end with the test.
func through(t *testing.T, o cluster.Objects) cluster.Objects {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var ends []net.Conn
	t.Cleanup(func() {
		for _, c := range ends {
			_ = c.Close() // it may be closed
		}
		wg.Wait()
	})
	return cluster.Through(func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		mu.Lock()
		defer mu.Unlock()
		ends = append(ends, here)
		wg.Go(func() {
			if err := cluster.Serve(there, o); err != nil {
				t.Error(err)
			}
		})
		return here, nil
	})
}

// cut is a store of which no object is read to its end.
type cut struct{ cluster.Objects }

func (c cut) Read(name string, from int64) (io.ReadCloser, error) {
	f, err := c.Objects.Read(name, from)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.MultiReader(io.LimitReader(f, 5), iotest.ErrReader(errors.New("the line is cut")))), nil
}

// TestThroughTellsErrors: an object that is cut short on its way is not taken for a whole
// one, and what the store says is what is said.
func TestThroughTellsErrors(t *testing.T) {
	t.Parallel()
	m := &storetest.Memory{}
	o := through(t, cut{m})
	if err := o.Create("a/b", func(w io.Writer) error { _, err := io.WriteString(w, "all of it"); return err }); err != nil {
		t.Fatal(err)
	}
	f, err := o.Read("a/b", 0)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); err == nil {
		t.Errorf("%q", text)
	}
	_ = f.Close() // it has failed
	if _, err := o.Read("a/b", 9); err == nil || err.Error() != "the line is cut" {
		t.Errorf("%v", err)
	}
	if err := o.Create("a/b", func(io.Writer) error { return nil }); !errors.Is(err, fs.ErrExist) || err.Error() != "create a/b: file already exists" {
		t.Errorf("%v", err)
	}
}

func TestOrderModel(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		m := &storetest.Memory{}
		interrupts := 2
		if long() {
			interrupts = 3
		}
		storetest.Model(t, m, interrupts, 0, m.Files)
	})
	t.Run("dir", func(t *testing.T) {
		t.Parallel()
		o, files := inDirectory(t)
		orders := 40
		if long() {
			orders = 0
		}
		storetest.Model(t, o, 1, orders, files)
	})
}

// made makes a run in a store.
func made(t *testing.T, o cluster.Objects) cluster.Shared {
	t.Helper()
	r, err := cluster.StoreOf("test", o).Create(cluster.Plan{Protocol: cluster.Protocol, Header: journal.Header{Run: "run"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOrderHasNoGap: an entry whose predecessor the store does not have, as it is an
// older copy of it perhaps, is refused, and a damaged one is reported.
func TestOrderHasNoGap(t *testing.T) {
	t.Parallel()
	o := &storetest.Memory{}
	r := made(t, o)
	if err := r.Record(cluster.Entry{Seq: 1, Life: 1}); err != nil {
		t.Fatal(err)
	}
	if err := r.Record(cluster.Entry{Seq: 3, Life: 1}); err == nil || !strings.Contains(err.Error(), "the store does not have entry 2") {
		t.Errorf("%v", err)
	}
	err := o.Create("runs/run/order/00000002", func(w io.Writer) error { _, err := io.WriteString(w, "\x17\x00\x00\x00{}"); return err })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Begin("owner", time.Now()); !errors.As(err, new(*cluster.DamagedError)) || !strings.Contains(err.Error(), "order/00000002") {
		t.Errorf("%v", err)
	}
}

// counted counts the calls of a store.
type counted struct {
	*storetest.Memory
	calls int
}

func (c *counted) Create(name string, write func(io.Writer) error) error {
	c.calls++
	return c.Memory.Create(name, write)
}

func (c *counted) Read(name string, from int64) (io.ReadCloser, error) {
	c.calls++
	return c.Memory.Read(name, from)
}

// TestRecordReadsNoMore: to record an entry takes as much behind a thousand entries as
// behind one.
func TestRecordReadsNoMore(t *testing.T) {
	t.Parallel()
	o := &counted{Memory: &storetest.Memory{}}
	r := made(t, o)
	first := 0
	for seq := 1; seq <= 1000; seq++ {
		o.calls = 0
		if err := r.Record(cluster.Entry{Seq: seq, Life: 1}); err != nil {
			t.Fatal(err)
		}
		if seq == 2 {
			first = o.calls
		}
	}
	if o.calls != first || o.calls > 2 {
		t.Errorf("%d calls of the store, and %d at first", o.calls, first)
	}
}
