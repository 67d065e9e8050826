package cluster

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestKept: the worker that did what comes before the map does what follows it without
// reading anew what it has read meanwhile: it need not even be there any more. Another one
// reads everything, and tells how far it is. So does one that was asked to read first, and is
// as good from then on.
func TestKept(t *testing.T) {
	t.Run("since before the map", func(t *testing.T) { testKept(t, false) })
	t.Run("read after it", func(t *testing.T) { testKept(t, true) })
}

func testKept(t *testing.T, anew bool) {
	was := tellEvery
	tellEvery = 0
	defer func() { tellEvery = was }()
	s := newSetting(t)
	w := s.workers[0]
	w.Queue = "its own"
	run := s.submit(s.options("mode: mapreduce\nmap:\n  input: [1, 2, 3, 4, 5, 6]\n  max_parallel: 1\n  agent_template:\n    - shell: echo ${item}\nreduce:\n  - shell: echo \"${map.successful} of ${map.total}\" > result\n"))
	o := s.begin(run)
	task := HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: "home-1-1", Begin: true}
	begun, err := w.Home(t.Context(), task)
	if err != nil || begun.Queue != w.Queue {
		t.Fatalf("%+v, %v", begun, err)
	}
	c, err := NewCoordinator(CoordinatorState{Run: run, Store: s.store.String(), Config: *begun.Config, Machine: begun.State, Order: o})
	if err != nil {
		t.Fatal(err)
	}
	shared := s.store.Run(run)
	var logs []string
	c.Accept(begun.Prefix, time.Now())
	for {
		l, _, over := c.Lease(time.Now())
		if over {
			break
		}
		out, err := s.workers[1].Lane(t.Context(), *l, nil, nil)
		if err == nil {
			err = c.Settle(l.ID, out, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l.Log)
		e, _ := c.Next()
		if err := shared.Record(e); err != nil {
			t.Fatal(err)
		}
		c.Recorded()
	}
	after := HomeTask{Run: run, Store: task.Store, Life: 1, Log: "home-1-2", After: true, Halt: Interrupted}
	reader := s.workers[1]
	if anew {
		if reader, err = NewWorker(t.TempDir()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = reader.Close() }) // what the test asks for, it has asked by then
		w = reader
		w.Queue, after.Halt, after.Read = "of the other", "", true
	}
	done, err := reader.Home(t.Context(), after)
	if err != nil { // it has to record the end of a run that was stopped
		t.Fatal(err)
	}
	if want := map[bool]HomeDone{true: {Queue: w.Queue}, false: {Status: event.Interrupted}}[anew]; done.Queue != want.Queue || done.Status != want.Status || done.Log != after.Log || done.Length == 0 {
		t.Errorf("%+v", done)
	}
	told := 0
	_, err = shared.readLog(after.Log, 0, -1, func(text []byte, _ int64) error {
		told += strings.Count(string(text), "a worker reads what lanes have recorded: ")
		return nil
	})
	if err != nil || told < len(logs) {
		t.Errorf("told %d times of %d logs, %v", told, len(logs), err)
	}
	path := filepath.Join(w.copies[lifeKey(s.store, run, 1)].home.RunDir(run), positionFile)
	for at := (position{}); at.Entry < c.Seq; time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil {
			if err := json.Unmarshal(text, &at); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, log := range logs {
		if err := os.WriteFile(s.store.o.(dir).Path(shared.log(log)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	after = HomeTask{Run: run, Store: task.Store, Life: 1, Log: "home-1-3", After: true}
	if _, err := s.workers[1].Home(t.Context(), after); err == nil {
		t.Error("a worker that has not read the logs does without them")
	}
	after.Log = "home-1-4"
	done, err = w.Home(context.Background(), after)
	if err != nil || done.Status != event.Succeeded {
		t.Fatalf("%+v, %v", done, err)
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "result")); err != nil || string(text) != "6 of 6\n" {
		t.Errorf("%q, %v", text, err)
	}
	if n := len(w.copies); n != 0 {
		t.Errorf("%d copies are kept", n)
	}
	if left, err := filepath.Glob(filepath.Join(w.scratch, "run-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	task.Log, task.Begin = "home-1-4", false
	if left, err := w.AdoptHome(task); err != nil || left.Begun {
		t.Errorf("%+v, %v", left, err)
	}
	task.Log = "home-1-1"
	if left, err := w.AdoptHome(task); err != nil || !left.Begun {
		t.Errorf("%+v, %v", left, err)
	}
}

// TestRefreshTells: who sees a run for the first time is told how much of it is read.
func TestRefreshTells(t *testing.T) {
	was := tellEvery
	tellEvery = 0
	defer func() { tellEvery = was }()
	s := newSetting(t)
	run := s.submit(s.options("mode: mapreduce\nmap:\n  input: [1, 2, 3]\n  max_parallel: 1\n  agent_template:\n    - shell: echo ${item}\n"))
	s.drive(run)
	home, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Adopt(home); err != nil {
		t.Fatal(err)
	}
	most := 0
	if err := RefreshTelling(home, func(_ string, items int) { most = max(most, items) })(home.RunDir(run)); err != nil {
		t.Fatal(err)
	}
	if most != 3 {
		t.Errorf("told of %d items", most)
	}
}
