package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

func TestHome(t *testing.T) {
	for _, c := range []struct{ bide, xdg, home, want string }{
		{"/b", "/x", "/h", "/b"},
		{"", "/x", "/h", "/x/bide"},
		{"", "relative", "/h", "/h/.local/state/bide"},
		{"", "", "/h", "/h/.local/state/bide"},
	} {
		t.Setenv("BIDE_HOME", c.bide)
		t.Setenv("XDG_STATE_HOME", c.xdg)
		t.Setenv("HOME", c.home)
		if got, err := Home(); got != c.want || err != nil {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	t.Setenv("HOME", "")
	if _, err := Home(); err == nil || !strings.Contains(err.Error(), "BIDE_HOME") {
		t.Errorf("without a home: %v", err)
	}
}

func TestResolve(t *testing.T) {
	s := newStore(t)
	var none *NotFoundError
	if _, err := s.Open(""); !errors.As(err, &none) || !strings.Contains(err.Error(), "no run") {
		t.Errorf("no run: %v", err)
	}
	var ids []string
	for range 3 {
		j := newJournal(t, s)
		ids = append(ids, j.Run())
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.IsSorted(ids) || slices.Compact(slices.Clone(ids))[2] != ids[2] {
		t.Errorf("ids %v are not in order", ids)
	}
	for run, want := range map[string]string{"": ids[2], ids[0]: ids[0], strings.ToLower(ids[1]): ids[1], ids[1][:25]: ""} {
		r, err := s.Read(run)
		if want == "" && errors.As(err, &none) && none.Ambiguous {
			continue // made in the same millisecond
		}
		if err != nil {
			t.Fatal(err)
		}
		if want != "" && r.Run() != want {
			t.Errorf("%q is %s, want %s", run, r.Run(), want)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Open("01"); !errors.As(err, &none) || !none.Ambiguous || len(none.Near) != 3 {
		t.Errorf("a prefix of all: %v", err)
	}
	slip := "Z" + ids[2][1:]
	if _, err := s.Open(slip); !errors.As(err, &none) || len(none.Near) != 1 {
		t.Errorf("a slip: %v", err)
	}
	if _, err := s.Open("../../etc"); !errors.As(err, &none) {
		t.Errorf("a path: %v", err)
	}
}

// TestLockOfAnotherProcess has a process hold a run, and killed.
func TestLockOfAnotherProcess(t *testing.T) {
	s := newStore(t)
	cmd, out := startChild(t, "hold", s.Dir)
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	run := strings.TrimSpace(line)
	var held *LockedError
	if _, err := s.Open(run); !errors.As(err, &held) || held.Run != run || held.PID != cmd.Process.Pid || time.Since(held.Since) > time.Minute {
		t.Fatalf("Open: %v", err)
	}
	if !strings.Contains(held.Error(), fmt.Sprint("process ", cmd.Process.Pid)) {
		t.Errorf("the message: %v", held)
	}
	if err := s.Remove(run); !errors.As(err, &held) {
		t.Errorf("Remove: %v", err)
	}
	r, err := s.Read(run) // reading needs no lock
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := r.Summary(t.Context()); err != nil || sum.Status != event.Running {
		t.Errorf("summary %+v, %v", sum, err)
	}
	kill(t, cmd)
	j, err := s.Open(run)
	if err != nil {
		t.Fatalf("after its end: %v", err)
	}
	if sum, err := r.Summary(t.Context()); err != nil || sum.Status != event.Running {
		t.Errorf("taken over: %+v, %v", sum, err)
	}
	if _, err := s.Open(run); !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Errorf("twice in one process: %v", err)
	}
	if err := errors.Join(j.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(run); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(s.runs()); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestRunsAndRemove(t *testing.T) {
	s := newStore(t)
	finished := newJournal(t, s)
	add(t, finished, event.Event{Type: event.RunStarted},
		event.Event{Type: event.StepStarted, Step: "a"}, event.Event{Type: event.StepFinished, Step: "a", Status: event.Failed},
		event.Event{Type: event.StepStarted, Step: "b"}, event.Event{Type: event.StepFinished, Step: "b", Status: event.Skipped},
		event.Event{Type: event.RunFinished, Status: event.Failed})
	if err := finished.Close(); err != nil {
		t.Fatal(err)
	}
	broken := newJournal(t, s)
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.dbPath(broken.Run()), []byte("oh"), 0o600); err != nil {
		t.Fatal(err)
	}
	running := newJournal(t, s)
	for _, name := range []string{newPrefix + "01ARZ3NDEKTSV4RRFFQ69G5FAV", oldPrefix + "01ARZ3NDEKTSV4RRFFQ69G5FAV", "notes"} {
		if err := os.MkdirAll(filepath.Join(s.runs(), name, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for sum, err := range s.Runs(t.Context()) {
		line := sum.ID + " " + sum.Status
		if err != nil {
			var f *ForeignError
			var d *DamagedError
			if sum.ID != broken.Run() || !errors.As(err, &f) && !errors.As(err, &d) {
				t.Errorf("%s: %v", sum.ID, err)
			}
			line += "broken"
		} else if sum.Name != "nightly" || sum.Kind != "mapreduce" || sum.Dir != "/w" || sum.Started.IsZero() {
			t.Errorf("%+v", sum)
		}
		if sum.ID == finished.Run() && (sum.Steps != event.Counts{Failed: 1, Skipped: 1} || sum.Finished.IsZero()) {
			t.Errorf("%+v", sum)
		}
		got = append(got, line)
	}
	want := []string{running.Run() + " running", broken.Run() + " broken", finished.Run() + " failed"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := s.Remove(finished.Run()); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(broken.Run()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(s.runs())
	if err != nil || len(entries) != 2 { // the running one and the notes
		t.Errorf("left: %v, %v", entries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.Runs(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	s := newStore(t)
	for _, h := range []Header{{Params: []byte("{")}, {Options: []byte("x")}} {
		if _, err := s.Create(h); err == nil {
			t.Errorf("%+v was taken", h)
		}
	}
	if entries, err := os.ReadDir(s.runs()); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestOddHome has a home whose path has everything that a URI minds.
func TestOddHome(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "a b?c#d%25é&mode=ro"))
	if err != nil {
		t.Fatal(err)
	}
	j := newJournal(t, s)
	add(t, j, event.Event{Type: event.Note})
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dbPath(j.Run())); err != nil {
		t.Error(err)
	}
}

func TestOutputFiles(t *testing.T) {
	j := newJournal(t, newStore(t))
	paths := map[string]bool{}
	n := 0
	for _, index := range []int{0, 1, 1001} {
		for _, step := range []string{"", "a[0]", "a/0", "a%2F0", "../x", "..", strings.Repeat("do[0].", 60), strings.Repeat("do[0].", 60) + "x"} {
			for attempt := range 2 {
				f, err := j.CreateOutput(index, step, attempt+1, "stdout")
				if err != nil {
					t.Fatal(err)
				}
				rel, err := filepath.Rel(j.LogDir(), f.Name())
				if err != nil || !filepath.IsLocal(rel) {
					t.Errorf("%q is outside: %s, %v", step, rel, err)
				}
				if fi, err := f.Stat(); err != nil || fi.Mode().Perm() != 0o600 {
					t.Errorf("mode %v, %v", fi.Mode(), err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				paths[f.Name()] = true
				n++
			}
		}
	}
	if len(paths) != n {
		t.Errorf("%d files for %d outputs", len(paths), n)
	}
	if a, b := j.ItemDir(1), j.ItemDir(2); a == b || !strings.HasPrefix(a, j.Dir()) || !strings.HasPrefix(j.ProcDir(), j.Dir()) {
		t.Errorf("directories %s, %s", a, b)
	}
}

func TestItems(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	if _, _, loaded, err := j.ItemList(t.Context()); loaded || err != nil {
		t.Fatal(loaded, err)
	}
	broken := errors.New("the input ends here")
	var half iter.Seq2[event.Item, error] = func(yield func(event.Item, error) bool) {
		for item := range list(3 * loadChunkItems) {
			if !yield(item, nil) {
				return
			}
		}
		yield(event.Item{}, broken)
	}
	if _, _, err := j.PutItems(t.Context(), half); !errors.Is(err, broken) {
		t.Fatalf("a broken input: %v", err)
	}
	if items, err := j.Items(t.Context(), 1, 10); len(items) != 0 || err != nil {
		t.Errorf("half a list has items: %v, %v", items, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, err := s.Open("") // half a list is no damage
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	n, digest, err := j.PutItems(t.Context(), list(loadChunkItems+5))
	if n != loadChunkItems+5 || err != nil {
		t.Fatal(n, err)
	}
	if n2, d2, loaded, err := j.ItemList(t.Context()); n2 != n || d2 != digest || !loaded || err != nil {
		t.Errorf("%d %s %v %v", n2, d2, loaded, err)
	}
	if _, _, err := j.PutItems(t.Context(), list(1)); err == nil {
		t.Error("a second list was taken")
	}
	items, err := j.Items(t.Context(), n-1, 10)
	if err != nil || len(items) != 2 || items[1].Index != n || items[1].ID != fmt.Sprint("item-", n) || string(items[1].Data) != fmt.Sprintf(`{"n":%d}`, n) {
		t.Errorf("%v, %v", items, err)
	}
	if item, err := j.Item(t.Context(), 2); err != nil || item.ID != "item-2" {
		t.Errorf("%v, %v", item, err)
	}
	if _, err := j.Item(t.Context(), n+1); !errors.Is(err, ErrNoItem) {
		t.Errorf("beyond the end: %v", err)
	}
	st, err := j.State(t.Context())
	if err != nil || st.Items.Len() != n || st.Items.Counts() != (Counts{Total: n, Pending: n}) {
		t.Errorf("%+v, %v", st.Items.Counts(), err)
	}
	if err := j.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestDigest says that the digest is of ids and data, and of where each ends.
func TestDigest(t *testing.T) {
	s := newStore(t)
	seen := map[string]int{}
	for i, items := range [][]event.Item{
		{}, {{ID: "a", Data: []byte("bc")}}, {{ID: "ab", Data: []byte("c")}}, {{ID: "a"}, {ID: "bc"}},
		{{ID: "bc"}, {ID: "a"}}, {{Data: []byte("abc")}}, {{ID: "abc"}},
	} {
		j := newJournal(t, s)
		_, digest, err := j.PutItems(t.Context(), func(yield func(event.Item, error) bool) {
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
		})
		if err != nil || !strings.HasPrefix(digest, "sha256:") {
			t.Fatal(digest, err)
		}
		if k, ok := seen[digest]; ok {
			t.Errorf("lists %d and %d have one digest", k, i)
		}
		seen[digest] = i
	}
	j := newJournal(t, s)
	if _, _, err := j.PutItems(t.Context(), func(yield func(event.Item, error) bool) { yield(event.Item{Index: 2}, nil) }); err == nil {
		t.Error("a wrong index was taken")
	}
}

func TestDeadLetterFilter(t *testing.T) {
	j := newJournal(t, newStore(t))
	n := 2*page + 10
	for i := 1; i <= n; i++ {
		class := "exit"
		if i%10 == 0 {
			class = "timeout"
		}
		add(t, j, event.Event{Type: event.ItemFinished, Status: event.DeadLettered, Index: i, Item: fmt.Sprint("i", i), Class: class, Attempts: 3, Message: "m", Data: []byte(`{"eligible":true}`)})
	}
	for _, c := range []struct {
		f    DeadLetterFilter
		want int
	}{
		{DeadLetterFilter{}, n},
		{DeadLetterFilter{Classes: []string{"timeout"}}, n / 10},
		{DeadLetterFilter{IDs: []string{"i7", fmt.Sprint("i", n), "none"}}, 2},
		{DeadLetterFilter{Indexes: []int{10, 20, 21}, Classes: []string{"timeout"}}, 2},
	} {
		got := collect(t, j.DeadLetters(t.Context(), c.f))
		if len(got) != c.want {
			t.Errorf("%+v: %d letters, want %d", c.f, len(got), c.want)
			continue
		}
		l := got[len(got)-1]
		if l.Attempts != 3 || l.Message != "m" || string(l.Letter) != `{"eligible":true}` || l.Time.IsZero() || len(l.History) != 1 || l.Seq != int64(l.Index) {
			t.Errorf("%+v", l)
		}
	}
}
