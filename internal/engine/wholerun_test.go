package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// A whole run is made from one seed. A random workflow (plan) runs under virtual ports in a
// model of a world. It is killed and interrupted, loses what was not synced, and is
// continued, life after life. Then an oracle that uses nothing of the engine checks all
// that the run has recorded, and the state of the world.
//
//	BIDE_WHOLE_RUNS=100000 go test -run '^TestWholeRuns$' ./internal/engine   (make simulate-runs)
//	BIDE_WHOLE_FROM=SEED   the first seed; with BIDE_WHOLE_RUNS=1, that one alone

// seedsAlways gives how many seeds the normal tests take. A run has one goroutine at a
// time, so that the race detector finds in a few seeds what it finds in many.
func seedsAlways() int {
	if raceEnabled {
		return 30
	}
	return 300
}

func fromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestWholeRuns takes a number of seeds. Each 100th run reads a real journal in each of its
// lives, and each 50th is made twice.
func TestWholeRuns(t *testing.T) {
	t.Parallel()
	first, n := fromEnv(t, "BIDE_WHOLE_FROM", 0), fromEnv(t, "BIDE_WHOLE_RUNS", seedsAlways())
	store, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var next, failed, lives, facts, kills atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for failed.Load() < 5 {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				seed := first + i
				p := newPlan(uint64(seed))
				var at *journal.Store
				if seed%100 == 7 {
					at = store
				}
				r, wrong := whole(p, at)
				if len(wrong) == 0 && seed%50 == 3 {
					wrong = twice(p, r)
				}
				if len(wrong) > 0 {
					failed.Add(1)
					small := shrunk(p, func(q *plan) bool { _, wrong := whole(q, at); return len(wrong) > 0 })
					_, why := whole(small, at)
					t.Errorf("seed %d:\n\t%s\nshrunk, to be kept in testdata/wholeruns:\n%s\n\t%s", seed, strings.Join(wrong, "\n\t"), encoded(small), strings.Join(why, "\n\t"))
					continue
				}
				for _, l := range r.lives {
					if l.dead {
						kills.Add(1)
					}
					facts.Add(int64(len(l.journal) - l.base))
				}
				lives.Add(int64(len(r.lives)))
			}
		})
	}
	all.Wait()
	t.Logf("%d runs with %d lives, %d of them killed, and %d facts, in %s", n, lives.Load(), kills.Load(), facts.Load(), time.Since(began).Round(time.Millisecond))
	if n >= 100 && kills.Load() == 0 {
		t.Error("nothing was killed")
	}
}

// whole runs a plan, and gives what is wrong with the run.
func whole(p *plan, store *journal.Store) (*wholeRun, []string) {
	r, err := runPlan(p, store)
	if err != nil {
		return nil, []string{err.Error()}
	}
	return r, judged(r)
}

// twice checks that the same plan gives the same facts.
func twice(p *plan, r *wholeRun) []string {
	again, err := runPlan(p.copy(), nil)
	if err != nil {
		return []string{err.Error()}
	}
	for i, l := range r.lives {
		if i >= len(again.lives) || !reflect.DeepEqual(l.journal, again.lives[i].journal) {
			return []string{fmt.Sprintf("life %d has other facts when it is made again", i)}
		}
	}
	return nil
}

// TestKeptWholeRuns runs plans that once found a defect.
func TestKeptWholeRuns(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/wholeruns/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no kept plans: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			p := &plan{}
			if err := json.Unmarshal(text, p); err != nil {
				t.Fatal(err)
			}
			_, wrong := whole(p, nil)
			for _, w := range wrong {
				t.Error(w)
			}
		})
	}
}

// TestOracleSees: the oracle finds each thing that a run could do wrong, when it is put
// into the record or the world of a run that did nothing wrong.
func TestOracleSees(t *testing.T) {
	t.Parallel()
	const text = `{"items":2,"parallel":1,"strict":true,"secret":true,"item_retry":{"attempts":3,"backoff":"fixed","initial_ms":1000},
		"setup":[{"name":"a","args":[{"kind":"word","of":"a"}],"size":1,"capture":true,"retry":{"attempts":2,"backoff":"fixed","initial_ms":50},"fail":{"times":1,"class":"network"}}],
		"steps":[{"name":"b","args":[{"kind":"item"}],"size":1},{"name":"c","args":[{"kind":"capture","of":"a"}],"size":40,"fail":{"before":1,"mod":2,"class":"exit"}}],
		"reduce":[{"name":"d","args":[{"kind":"results"}],"size":1}],"faults":[{"tick":20}]}`
	last := func(r *wholeRun) *oneLife { return r.lives[1] } // the life that ended the run
	find := func(l *oneLife, typ event.Type, item int) *event.Event {
		for i := range l.journal {
			if e := &l.journal[i]; e.Type == typ && e.Index == item {
				return e
			}
		}
		return nil
	}
	ran := func(r *wholeRun, name string) *execution {
		for _, x := range r.world.did {
			if x.name == name && x.ended == "ok" {
				return x
			}
		}
		return nil
	}
	for name, row := range map[string]struct {
		harm func(r *wholeRun)
		want string
	}{
		"a file that is gone":      {func(r *wholeRun) { delete(r.world.files, "1/b") }, "the file 1/b"},
		"a file of something else": {func(r *wholeRun) { r.world.files["1/c"] = "x" }, "the file 1/c"},
		"an end that is not":       {func(r *wholeRun) { last(r).status = event.Failed }, "ended failed"},
		"a wrong exit status":      {func(r *wholeRun) { last(r).exit = 3 }, "exit status 3"},
		"a step that runs again": {func(r *wholeRun) {
			x := *ran(r, "a")
			x.life, x.seq = 1, last(r).base
			r.world.did = append([]*execution{&x}, r.world.did...)
		}, "runs again"},
		"an item that runs again": {func(r *wholeRun) {
			x := *ran(r, "b")
			x.life, x.seq = 1, len(last(r).journal)
			r.world.did = append(r.world.did, &x)
		}, "the item has ended"},
		"an attempt of nothing":     {func(r *wholeRun) { r.world.did = nil }, "nothing has run"},
		"a success that failed":     {func(r *wholeRun) { ran(r, "d").ended = "exit" }, "it ended with exit"},
		"a delay too short":         {func(r *wholeRun) { find(last(r), event.ItemRetry, 2).Data = []byte(`{"delay_ns":1,"source":"policy"}`) }, "the delay after attempt 1"},
		"a wait cut short":          {func(r *wholeRun) { e := find(last(r), event.ItemRetry, 2); e.Time = e.Time.Add(time.Second) }, "before its wait"},
		"a secret in a record":      {func(r *wholeRun) { last(r).journal[len(last(r).journal)-1].Message = "x" + planSecret[:8] }, "piece of the secret"},
		"another output of an item": {func(r *wholeRun) { find(r.lives[2], event.ItemFinished, 1).Data = []byte(`{"output":"x"}`) }, "the output of item 1"},
		"other results":             {func(r *wholeRun) { x := ran(r, "d"); x.results = strings.Replace(x.results, "c.1", "c.7", 1) }, "reduce is given"},
		"a start that is lost":      {func(r *wholeRun) { r.lives[0].kept = 10 }, "its start is lost"},
		"a summary that miscounts": {func(r *wholeRun) {
			last(r).journal[len(last(r).journal)-1].Data = []byte(`{"items":{"total":2,"succeeded":1,"failed":1}}`)
		}, "the summary has"},
		"an item that is lost":       {func(r *wholeRun) { find(last(r), event.ItemFinished, 2).Type = event.Note }, "items pending"},
		"a step that is passed over": {func(r *wholeRun) { find(last(r), event.StepFinished, 1).Type = event.Note }, "has not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &plan{}
			if err := json.Unmarshal([]byte(text), p); err != nil {
				t.Fatal(err)
			}
			r, wrong := whole(p, nil)
			if len(wrong) > 0 || len(r.lives) != 3 || !r.lives[0].dead {
				t.Fatalf("the run as it is has %d lives: %q", len(r.lives), wrong)
			}
			for _, l := range r.lives { // no two of them may share their facts
				l.journal = append([]event.Event(nil), l.journal...)
			}
			row.harm(r)
			if wrong := strings.Join(judged(r), "\n"); !strings.Contains(wrong, row.want) {
				t.Errorf("the oracle says %q, want %q in it", wrong, row.want)
			}
		})
	}
}
