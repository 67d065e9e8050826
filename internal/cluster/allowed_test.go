package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAllowedStores: a worker that was given stores does nothing for a run of another
// one, whatever it is asked for.
func TestAllowedStores(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submit(s.options("mode: mapreduce\nsetup:\n  - shell: echo over >> over\nmap:\n  input: [1, 2]\n  agent_template:\n    - shell: echo over >> over\n"))
	o := s.begin(run)
	other, err := OpenStore(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWorker(t.TempDir(), other)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	task := HomeTask{Run: run, Store: s.store.String(), Life: o.Life, Log: HomeLog(1, 1), Begin: true}
	lease := Lease{Run: run, Store: s.store.String(), Life: o.Life, ID: 1, Log: LaneLog(1, 1), Spans: []Span{{Item: 1}}}
	for name, do := range map[string]func() error{
		"home":       func() error { _, err := w.Home(context.Background(), task); return err },
		"lane":       func() error { _, err := w.Lane(context.Background(), lease, nil, nil); return err },
		"adopt":      func() error { _, err := w.Adopt(lease); return err },
		"adopt home": func() error { _, err := w.AdoptHome(task); return err },
		"store":      func() error { _, err := w.Open(s.store.String()); return err },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "this worker works for runs in "+other.String()+" only (--store), and not for one in "+s.store.String()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "over")); !os.IsNotExist(err) {
		t.Errorf("something has run: %v", err)
	}
	if got, err := w.Open("dir:" + other.o.(dir).Path("") + "/"); err != nil || got != other {
		t.Errorf("%v, %v", got, err)
	}
}
