package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestRepair: one bit of a log is another one when all items have ended. Whichever bit
// it is, verify finds the log. After repair, homes that have seen the run and those
// that have not show it, and its next life runs what was behind the damage and nothing
// else.
func TestRepair(t *testing.T) {
	t.Parallel()
	t.Run("before the end", func(t *testing.T) { t.Parallel(); repair(t, false) })
	t.Run("after the end", func(t *testing.T) { t.Parallel(); repair(t, true) })
}

func repair(t *testing.T, finished bool) {
	s := newSetting(t)
	const n = 20
	s.write("items.jsonl", itemsText(n))
	run := s.submit(s.options(strings.Replace(twiceFailing, "= 3", "-ge 1", 1)))
	if o := s.begin(run); finished {
		s.driveFrom(run, o)
	} else {
		begun := s.homeTask(&o, HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: HomeLog(1, 1), Begin: true})
		c, err := NewCoordinator(CoordinatorState{Run: run, Store: s.store.String(), Config: *begun.Config, Machine: begun.State, Order: o})
		if err != nil {
			t.Fatal(err)
		}
		s.lanes(run, c)
	}
	r := s.store.Run(run)
	if rep, err := r.Verify(); err != nil || len(rep.Damaged) > 0 || rep.Logs < 3 || rep.Entries < 3 {
		t.Fatalf("%+v, %v", rep, err)
	}
	s.events(run) // this home has seen it
	logs, err := r.logs()
	if err != nil {
		t.Fatal(err)
	}
	flip := func(path string, at int) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[at] ^= 1 << s.random.IntN(8)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range logs {
		path := s.store.o.(dir).Path(r.log(l.String()))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			flip(path, s.random.IntN(len(whole)))
			if rep, err := r.Verify(); err != nil || len(rep.Damaged) != 1 || rep.Damaged[0].Name != r.log(l.String()) || rep.Damaged[0].Keep.Length >= int64(len(whole)) {
				t.Errorf("%s: %+v, %v", l, rep, err)
			}
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	lane := LaneLog(1, 1)
	ended := func(p Prefix) (n int) {
		_, err := r.readLog(lane, 0, p.Length, func(text []byte, _ int64) error {
			n += strings.Count(string(text), `"item_finished"`)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	all, err := r.prefixOf(lane)
	if err != nil {
		t.Fatal(err)
	}
	before := ended(all)
	flip(s.store.o.(dir).Path(r.log(lane)), int(all.Length/2))
	fresh := func() (home *journal.Store, err error) {
		if home, err = journal.OpenStore(t.TempDir()); err != nil {
			t.Fatal(err)
		}
		home.Refresh = Refresh(home)
		if err := s.store.Adopt(home); err != nil {
			t.Fatal(err)
		}
		reader, err := home.Read(run)
		if err == nil {
			err = reader.Close()
		}
		return home, err
	}
	if _, err := fresh(); err == nil || !strings.Contains(err.Error(), "bide store repair") {
		t.Errorf("a new home: %v", err)
	}
	rep, err := r.Repair(context.Background(), "repair", time.Now())
	if err != nil || len(rep.Damaged) != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	again := before - ended(*rep.Damaged[0].Keep)
	if again < 1 || again >= before {
		t.Fatalf("%d items of %d are behind the damage", again, before)
	}
	if rep, err := r.Verify(); err != nil || len(rep.Damaged) > 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	if _, err := fresh(); err != nil {
		t.Errorf("a new home, after the repair: %v", err)
	}
	s.events(run)
	if status := s.driveFrom(run, s.begin(run)); status != event.Succeeded {
		t.Errorf("%s", status)
	}
	ran, err := os.ReadFile(filepath.Join(s.dir, "ran"))
	if err != nil || strings.Count(string(ran), "\n") != n+again {
		t.Errorf("%d attempts of %d items, %d of them behind the damage: %v", strings.Count(string(ran), "\n"), n, again, err)
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "result")); err != nil || string(text) != "20 of 20\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestCannotBeRepaired: of a damaged entry of the order, and of damaged work items,
// verify and repair say that they are, and nothing is changed.
func TestCannotBeRepaired(t *testing.T) {
	t.Parallel()
	for name, object := range map[string][]string{"order": {"order", entryName(2)}, "items": {"items", HomeLog(1, 1) + ".jsonl.gz"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetting(t)
			run := s.submit(s.options("mode: mapreduce\nmap:\n  input: [1, 2]\n  agent_template:\n    - shell: echo ${item}\n"))
			o := s.begin(run)
			s.homeTask(&o, HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: HomeLog(1, 1), Begin: true})
			r := s.store.Run(run)
			path := s.store.o.(dir).Path(r.name(object...))
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text[len(text)-2] ^= 4
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			rep, err := r.Verify()
			if err != nil || len(rep.Damaged) != 1 || rep.Damaged[0].Name != r.name(object...) || rep.Damaged[0].Keep != nil {
				t.Errorf("%+v, %v", rep, err)
			}
			if _, err := r.Repair(context.Background(), "repair", time.Now()); err == nil || !strings.Contains(err.Error(), "only logs can be repaired") {
				t.Errorf("%v", err)
			}
			if r.has("order", entryName(o.Seq+1)) || r.has(repairedMark) {
				t.Error("something was written")
			}
		})
	}
}
