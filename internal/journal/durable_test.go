package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// spy is before the journal's sync: at each call it keeps what the disk
// would have afterwards.
type spy struct {
	mu     sync.Mutex
	path   string
	image  string // directory of the last one
	err    error
	calls  int
	called chan struct{}
	next   error // to give back instead of syncing
}

func spyOn(t *testing.T, j *Journal) *spy {
	s := &spy{path: j.path, image: t.TempDir(), called: make(chan struct{}, 1<<16)}
	j.mu.Lock() // the syncer is idle, and reads j.sync after this
	defer j.mu.Unlock()
	j.sync = func(f *os.File) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls++
		err := s.next
		if err == nil {
			s.err = errors.Join(s.err, s.keep())
			err = syncFile(f)
		}
		s.called <- struct{}{}
		return err
	}
	return s
}

// keep copies the log first: a checkpoint that runs at this moment adds to the
// database what the copy of the log has already, and starts the log anew only
// when the database is synced.
func (s *spy) keep() error {
	for _, suffix := range []string{"-wal", ""} {
		data, err := os.ReadFile(s.path + suffix)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.image, dbName+suffix), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestSyncIsOnTheDisk takes the power away after each Sync: what the disk has
// then holds every event appended before.
func TestSyncIsOnTheDisk(t *testing.T) {
	j := newJournal(t, newStore(t))
	s := spyOn(t, j)
	for i := range 30 {
		for range rand.IntN(50) + 1 {
			add(t, j, event.Event{Type: event.Note, Message: fmt.Sprint(i)})
		}
		last, err := j.Record(event.Event{Type: event.Note})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		got := intact(t, s.image, j.Run())
		s.mu.Unlock()
		if got < last.Seq {
			t.Fatalf("Sync after %d, and the disk has %d", last.Seq, got)
		}
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
}

// intact reads a copy of a journal to its end and gives the number of events.
func intact(t *testing.T, dir, run string) int64 {
	t.Helper()
	r, err := openReader(t.Context(), dir, run)
	if err != nil {
		t.Fatal(err)
	}
	n := count(t, r.Events(t.Context(), 1, EventFilter{}))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-shm", "-wal"} { // of this copy: the next one brings its own
		if err := os.Remove(filepath.Join(dir, dbName+suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return int64(n)
}

// TestSyncsByItself appends without a Sync: the disk is asked soon anyway, and
// not again while nothing comes.
func TestSyncsByItself(t *testing.T) {
	j := newJournal(t, newStore(t))
	s := spyOn(t, j)
	for want := 1; want <= 3; want++ {
		add(t, j, event.Event{Type: event.Note})
		<-s.called
		s.mu.Lock()
		if s.calls != want {
			t.Errorf("%d calls, want %d", s.calls, want)
		}
		s.mu.Unlock()
	}
	if err := j.Sync(t.Context()); err != nil || s.calls != 3 {
		t.Errorf("Sync of what is synced: %d calls, %v", s.calls, err)
	}
}

// TestPutItemsIsSynced has Sync wait for the item list, which is no event.
func TestPutItemsIsSynced(t *testing.T) {
	j := newJournal(t, newStore(t))
	s := spyOn(t, j)
	if _, _, err := j.PutItems(t.Context(), list(10)); err != nil {
		t.Fatal(err)
	}
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := openReader(t.Context(), s.image, j.Run())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, _, loaded, err := r.ItemList(t.Context()); n != 10 || !loaded || err != nil {
		t.Errorf("%d items, %v, %v", n, loaded, err)
	}
}

// TestSyncAsksTheSystem gives the journal a pipe for its log, which no system
// can sync: the failure shows that the call is really made.
func TestSyncAsksTheSystem(t *testing.T) {
	j := newJournal(t, newStore(t))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	old := j.wal
	j.wal = w
	defer old.Close()
	add(t, j, event.Event{Type: event.Note})
	var d *DiskError
	if err := j.Sync(t.Context()); !errors.As(err, &d) || d.Op != "sync" {
		t.Fatalf("Sync: %v", err)
	}
	<-j.Failed()
	if err := j.Append(event.Event{Type: event.Note}); !errors.As(err, &d) {
		t.Errorf("Append: %v", err)
	}
	if err := j.Err(); !errors.As(err, &d) || !strings.Contains(err.Error(), "bide resume") {
		t.Errorf("Err: %v", err)
	}
	if err := j.Close(); !errors.As(err, &d) {
		t.Errorf("Close: %v", err)
	}
}

func TestSyncHonoursContext(t *testing.T) {
	j := newJournal(t, newStore(t))
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) }) // also where the test fails before its end
	j.mu.Lock()
	j.sync = func(*os.File) error { <-hold; return nil }
	j.mu.Unlock()
	add(t, j, event.Event{Type: event.Note})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Sync(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Sync: %v", err)
	}
	// A slow disk holds nobody up who does not wait for it.
	for range 1000 {
		add(t, j, event.Event{Type: event.Note})
	}
	if n := count(t, j.Events(t.Context(), 1, EventFilter{})); n != 1001 {
		t.Errorf("%d events can be read", n)
	}
}

// TestFullDatabase has the database refuse to grow.
func TestFullDatabase(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	add(t, j, event.Event{Type: event.RunStarted})
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.connMu.Lock()
	err := execSQL(j.conn, "PRAGMA max_page_count = 30")
	j.connMu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	synced := int64(1)
	var full *DiskError
	for err == nil {
		var e event.Event
		if e, err = j.Record(event.Event{Type: event.Note, Message: strings.Repeat("m", 200)}); err == nil {
			if err = j.Sync(t.Context()); err == nil {
				synced = e.Seq
			}
		}
	}
	if !errors.As(err, &full) || !full.Full || !strings.Contains(full.Error(), "free some space") {
		t.Fatalf("the error is %v", err)
	}
	<-j.Failed()
	if _, _, err := j.PutItems(t.Context(), list(1)); !errors.As(err, &full) {
		t.Errorf("PutItems: %v", err)
	}
	if err := j.Close(); !errors.As(err, &full) {
		t.Errorf("Close: %v", err)
	}
	j, err = s.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if n := int64(count(t, j.Events(t.Context(), 1, EventFilter{}))); n != synced {
		t.Errorf("%d events, %d were synced", n, synced)
	}
	add(t, j, event.Event{Type: event.RunResumed}) // and it continues
	if err := j.Sync(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFullDisk has the system refuse to let the file grow.
func TestFullDisk(t *testing.T) {
	s := newStore(t)
	cmd, out := startChild(t, "limited", s.Dir)
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	synced, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || synced < 50 {
		t.Fatalf("synced %q, %v", text, err)
	}
	j, err := s.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if n := int64(count(t, j.Events(t.Context(), 1, EventFilter{}))); n < synced {
		t.Errorf("%d events, %d were synced", n, synced)
	}
	if err := j.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNoRoomToOpen: a journal that cannot be opened as the disk is full, is not damaged,
// and is as it was when there is room (SQLite's code 4874).
func TestNoRoomToOpen(t *testing.T) {
	s := newStore(t)
	j, err := s.Create(header())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		add(t, j, event.Event{Type: event.Note, Message: fmt.Sprint("message ", i, strings.Repeat("x", 300))})
	}
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	killed := filesOf(t, j.Dir()) // a run that has ended asks for no such memory
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	place(t, j.Dir(), killed)
	cmd, out := startChild(t, "roomless", s.Dir)
	text, err := io.ReadAll(out)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "true false ") || !strings.Contains(line, "free some space") {
			t.Errorf("full, damaged, error: %s", line)
		}
	}
	if n := strings.Count(string(text), "\n"); n != 2 {
		t.Errorf("%d lines: %s", n, text)
	}
	again, err := s.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n := count(t, again.Events(t.Context(), 1, EventFilter{})); n != 200 {
		t.Errorf("%d of 200 events are left", n)
	}
}

// TestKill kills a process that appends, again and again in the same run.
// After each time the events have no gap, nothing that was synced is missing,
// and every event is whole.
func TestKill(t *testing.T) {
	s := newStore(t)
	mode := "append"
	var run string
	for range 12 {
		cmd, out := startChild(t, mode, s.Dir)
		mode = "resume"
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		run = strings.TrimSpace(line)
		acknowledged := make(chan int64)
		go lastNumber(out, acknowledged)
		time.AfterFunc(time.Duration(rand.IntN(60))*time.Millisecond, func() { cmd.Process.Kill() })
		synced := <-acknowledged
		kill(t, cmd)

		j, err := s.Open(run)
		if err != nil {
			t.Fatal(err)
		}
		events := collect(t, j.Events(t.Context(), 1, EventFilter{}))
		for i, e := range events {
			if e.Seq != int64(i+1) || e.Type != event.Note || string(e.Data) != `{"some":"data"}` || !strings.HasPrefix(e.Message, "message ") {
				t.Fatalf("event %d is %+v", i+1, e)
			}
		}
		if int64(len(events)) < synced {
			t.Fatalf("%d events, %d were synced", len(events), synced)
		}
		if err := j.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// lastNumber reads numbers, one a line, and sends the last whole one.
func lastNumber(in *bufio.Reader, to chan<- int64) {
	last := int64(0)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			to <- last
			return
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
			last = n
		}
	}
}

// TestRemovedJournal: what is written into a removed file is gone, so that a
// journal that is removed or replaced while its run is in progress is a failure.
func TestRemovedJournal(t *testing.T) {
	for name, harm := range map[string]func(j *Journal) error{
		"database":         func(j *Journal) error { return os.Remove(j.path) },
		"log":              func(j *Journal) error { return os.Remove(j.walPath) },
		"run":              func(j *Journal) error { return os.RemoveAll(j.Dir()) },
		"database cut off": func(j *Journal) error { return os.Truncate(j.path, 0) },
		"log cut off":      func(j *Journal) error { return os.Truncate(j.walPath, 0) },
		"both cut off":     func(j *Journal) error { return errors.Join(os.Truncate(j.path, 0), os.Truncate(j.walPath, 0)) },
		"replaced": func(j *Journal) error {
			return errors.Join(os.Rename(j.path, j.path+".old"), os.WriteFile(j.path, empty, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := newStore(t).Create(header())
			if err != nil {
				t.Fatal(err)
			}
			add(t, j, event.Event{Type: event.Note, Message: "before"})
			if err := j.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := harm(j); err != nil {
				t.Fatal(err)
			}
			add(t, j, event.Event{Type: event.Note, Message: "after"})
			var disk *DiskError
			if err := j.Sync(t.Context()); !errors.As(err, &disk) {
				t.Errorf("Sync gives %v", err)
			}
			select {
			case <-j.Failed():
			default:
				t.Error("the journal has not failed")
			}
			if err := j.Close(); !errors.As(err, &disk) {
				t.Errorf("Close gives %v", err)
			}
		})
	}
}

// TestNewHomeIsDurable: the name of every directory that the first run in a new
// home makes is on the disk.
func TestNewHomeIsDurable(t *testing.T) {
	defer func(f func(string) error) { syncName = f }(syncName)
	var synced []string
	syncName = func(dir string) error { synced = append(synced, dir); return syncDir(dir) }
	base := t.TempDir()
	home := filepath.Join(base, "a", "b")
	if _, err := OpenStore(home); err != nil {
		t.Fatal(err)
	}
	if want := []string{base, filepath.Dir(home), home}; !slices.Equal(synced, want) {
		t.Errorf("synced %v, want %v", synced, want)
	}
	synced = nil
	if _, err := OpenStore(home); err != nil || len(synced) > 0 {
		t.Errorf("a home that is there was synced again: %v, %v", synced, err)
	}
}

// TestNewRunIsDurable: nothing of a new run is taken for being on the disk before the name
// of its directory is, which is synced while the run begins.
func TestNewRunIsDurable(t *testing.T) {
	defer func(f func(string) error) { syncName = f }(syncName)
	s := newStore(t)
	broken := errors.New("the disk is gone")
	syncName = func(dir string) error {
		if dir != s.runs() {
			t.Errorf("%s is synced", dir)
		}
		return broken
	}
	for _, end := range []func(*Journal) error{
		func(j *Journal) error { return j.Sync(context.Background()) },
		func(j *Journal) error { return j.Close() },
	} {
		j, err := s.Create(header())
		if err != nil {
			t.Fatal(err)
		}
		add(t, j, event.Event{Type: event.Note})
		if err := end(j); !errors.Is(err, broken) {
			t.Errorf("a run whose name is not on the disk ends with %v", err)
		}
		if err := j.Close(); err != nil && !errors.Is(err, broken) {
			t.Error(err)
		}
	}
}

// TestPowerCutAtTheEnd: whatever of the end of a run is on the disk when the power goes, its
// events are there; and who continues with the run has the database synced first.
func TestPowerCutAtTheEnd(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	run := j.Run()
	first, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		add(t, j, event.Event{Type: event.Note, Message: strings.Repeat("m", 5000)})
	}
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.connMu.Lock()
	whole, err := j.checkpoint()
	j.connMu.Unlock()
	if err != nil || !whole {
		t.Fatal(whole, err)
	}
	synced := filesOf(t, j.Dir()) // the database is, and the log is still there
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	last := filesOf(t, j.Dir())
	if _, is := last[dbName+walSuffix]; is {
		t.Error("the log was not folded into the database")
	}
	for what, files := range map[string]map[string][]byte{
		"nothing of the database":     {dbName: first, dbName + walSuffix: synced[dbName+walSuffix]},
		"the database":                synced,
		"the end of the log":          {dbName: synced[dbName]},
		"the mode and not the log's":  {dbName: last[dbName], dbName + walSuffix: synced[dbName+walSuffix]},
		"everything":                  last,
		"the mode and a log of zeros": {dbName: last[dbName], dbName + walSuffix: make([]byte, len(synced[dbName+walSuffix]))},
	} {
		place(t, s.dir(run), files)
		if n := intact(t, s.dir(run), run); n != 3 {
			t.Errorf("%s: %d events of 3 are there", what, n)
		}
		place(t, s.dir(run), files)
		again, err := s.Open(run)
		if err != nil {
			t.Fatal(what, err)
		}
		if n := count(t, again.Events(t.Context(), 1, EventFilter{})); n != 3 {
			t.Errorf("%s: %d events of 3 are there for who continues", what, n)
		}
		if err := again.Close(); err != nil {
			t.Error(what, err)
		}
	}

	defer func(f func(*os.File) error) { syncDatabase = f }(syncDatabase)
	broken := errors.New("the disk is gone")
	syncDatabase = func(f *os.File) error {
		if f.Name() != j.path {
			t.Errorf("%s is synced", f.Name())
		}
		return broken
	}
	if _, err := s.Open(run); !errors.Is(err, broken) {
		t.Errorf("a run goes on whose database is not on the disk: %v", err)
	}
	syncDatabase = syncFile
	again, err := s.Open(run) // the lock was given back
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullAtTheEnd: a run whose log does not fit into the database, as the disk is full, has
// ended as it has; the log stays, and whoever continues has all of it.
func TestFullAtTheEnd(t *testing.T) {
	s := newStore(t)
	cmd, out := startChild(t, "brimful", s.Dir)
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	run := strings.TrimSpace(string(text))
	if _, is := filesOf(t, s.dir(run))[dbName+walSuffix]; !is {
		t.Error("the log is gone")
	}
	j, err := s.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, j.Events(t.Context(), 1, EventFilter{})); n != manyNotes {
		t.Errorf("%d events of %d are there for who continues", n, manyNotes)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnsyncedAtTheEnd: the log goes only when the database has it and is on the disk.
func TestUnsyncedAtTheEnd(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	add(t, j, event.Event{Type: event.Note})
	defer func(f func(*os.File) error) { syncDatabase = f }(syncDatabase)
	synced := 0
	syncDatabase = func(f *os.File) error {
		if f.Name() != j.path {
			t.Errorf("%s is synced", f.Name())
		}
		if _, there := filesOf(t, j.Dir())[dbName+walSuffix]; !there {
			t.Error("the log is gone before the database is synced")
		}
		synced++
		return errors.New("the disk is gone")
	}
	if err := j.Close(); err != nil {
		t.Errorf("what is in the log is on the disk: %v", err)
	}
	if _, there := filesOf(t, j.Dir())[dbName+walSuffix]; !there || synced != 1 {
		t.Errorf("the log is there: %v; the database was synced %d times", there, synced)
	}
	syncDatabase = syncFile
	if n := intact(t, j.Dir(), j.Run()); n != 1 {
		t.Errorf("%d events of 1 are left", n)
	}
}

// TestEndedRunIsOneFile: a run that has ended has a database without a log, whoever reads
// it makes none, and so it is after who continued with it. Who reads at the end of the run
// reads on, and the log stays.
func TestEndedRunIsOneFile(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	for n := 1; n <= 3; n++ {
		add(t, j, event.Event{Type: event.Note})
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := s.Read("")
		if err != nil {
			t.Fatal(err)
		}
		if got := count(t, r.Events(t.Context(), 1, EventFilter{})); got != n {
			t.Errorf("%d events of %d", got, n)
		}
		if err := r.Check(t.Context()); err != nil {
			t.Error(err)
		}
		entries, err := os.ReadDir(j.Dir())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			if e.Name() != dbName && (e.Name() != lockName || info.Size() > 0) {
				t.Errorf("%s, %d bytes, is left", e.Name(), info.Size())
			}
		}
		if j, err = s.Open(""); err != nil { // with a reader that is open
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	r, err := s.Read("")
	if err != nil {
		t.Fatal(err)
	}
	add(t, j, event.Event{Type: event.Note})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := count(t, r.Events(t.Context(), 1, EventFilter{})); got != 4 {
		t.Errorf("who read at the end of the run reads %d events of 4", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if n := intact(t, j.Dir(), j.Run()); n != 4 {
		t.Errorf("%d events of 4 are left", n)
	}
}

// TestResumeBesideAReader: who continues with a run that has ended waits for a reader, and
// says what it waited for where that one does not end.
func TestResumeBesideAReader(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	add(t, j, event.Event{Type: event.Note})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := connect(j.path, readOnly)
	if err != nil {
		t.Fatal(err)
	}
	if err := execSQL(c, "BEGIN; SELECT count(*) FROM events"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(""); err == nil || !strings.Contains(err.Error(), "has been reading it") {
		t.Errorf("beside a reader: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := s.Open("")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestSettle: a journal that is settled is closed but for its lock.
func TestSettle(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	add(t, j, event.Event{Type: event.Note})
	if err := j.Settle(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(event.Event{Type: event.Note}); !errors.Is(err, ErrClosed) {
		t.Errorf("Append: %v", err)
	}
	var held *LockedError
	if _, err := s.Open(j.Run()); !errors.As(err, &held) {
		t.Errorf("the run of a journal that is settled is opened: %v", err)
	}
	for range 2 {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	again, err := s.Open(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestOneCommitIsForAll: where somebody syncs again and again, what was appended in
// between goes with that, and the writer and the syncer do nothing beside it.
func TestOneCommitIsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, err := newStore(t).Create(header())
		if err != nil {
			t.Fatal(err)
		}
		var syncs atomic.Int64
		j.mu.Lock()
		j.sync = func(*os.File) error { syncs.Add(1); return nil }
		j.mu.Unlock()
		const n = 100
		for range n {
			add(t, j, event.Event{Type: event.Note})
			time.Sleep(time.Millisecond)
			add(t, j, event.Event{Type: event.Note})
			if err := j.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		j.mu.Lock()
		if j.commits > n+1 || syncs.Load() > n+1 { // the first event of all is committed at once
			t.Errorf("%d commits and %d syncs for %d", j.commits, syncs.Load(), n)
		}
		j.mu.Unlock()
		// Nobody asks for this one.
		add(t, j, event.Event{Type: event.Note})
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		if j.mu.Lock(); j.durable != j.last {
			t.Errorf("%d of %d events are on the disk after 5 ms", j.durable, j.last)
		}
		j.mu.Unlock()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
