package journal

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// sample makes a run of some hundred events and items and gives its files as
// they are while its process runs (live), and after it ended.
func sample(t testing.TB, s *Store) (run string, live, ended map[string][]byte) {
	t.Helper()
	j := newJournal(t, s)
	if _, _, err := j.PutItems(t.Context(), list(60)); err != nil {
		t.Fatal(err)
	}
	add(t, j, event.Event{Type: event.RunStarted}, event.Event{Type: event.ItemsReady, Total: 60})
	for i := range 60 {
		add(t, j, typical(i+1)...)
		if i%5 == 0 { // several commits
			if err := j.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	live = filesOf(t, j.Dir())
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return j.Run(), live, filesOf(t, j.Dir())
}

// files reads the database of a run and its log, if there is one.
func filesOf(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, name := range []string{dbName, dbName + "-wal"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out[name] = data
	}
	return out
}

// place makes a run's directory hold these files and nothing else of a database.
func place(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	for _, name := range []string{dbName, dbName + "-wal", dbName + "-shm"} {
		path := filepath.Join(dir, name)
		err := os.Remove(path)
		if data, ok := files[name]; ok {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// readAll reads everything there is in a run: the events, or why not.
func readAll(s *Store, run string) (events []event.Event, err error) {
	ctx := context.Background()
	j, err := s.Open(run)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	for e, err := range j.Events(ctx, 1, EventFilter{}) {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	if _, err := j.State(ctx); err != nil {
		return events, err
	}
	for _, err := range j.Results(ctx) {
		if err != nil {
			return events, err
		}
	}
	for _, err := range j.DeadLetters(ctx, DeadLetterFilter{}) {
		if err != nil {
			return events, err
		}
	}
	if _, err := j.Items(ctx, 1, 1000); err != nil {
		return events, err
	}
	return events, j.Check(ctx)
}

// expect says that err is one that a damaged journal may give.
func expect(t *testing.T, what string, err error) {
	t.Helper()
	var d *DamagedError
	var f *ForeignError
	switch {
	case err == nil:
	case errors.As(err, &d):
		if d.Path == "" || d.Detail == "" || !strings.Contains(err.Error(), "copy the run's directory away") {
			t.Errorf("%s: the error does not help: %v", what, err)
		}
	case errors.As(err, &f):
	default:
		t.Errorf("%s: %T: %v", what, err, err)
	}
}

// prefix checks that what was read is how the journal began.
func prefix(t *testing.T, what string, got, all []event.Event) {
	t.Helper()
	if len(got) > len(all) {
		t.Fatalf("%s: %d events, of %d", what, len(got), len(all))
	}
	for i := range got {
		if fmt.Sprint(got[i]) != fmt.Sprint(all[i]) {
			t.Fatalf("%s: event %d is %v", what, i+1, got[i])
		}
	}
}

// TestTruncatedDatabase cuts an ended run's database at each 512th byte.
func TestTruncatedDatabase(t *testing.T) {
	s := newStore(t)
	run, _, ended := sample(t, s)
	all, err := readAll(s, run)
	if err != nil {
		t.Fatal(err)
	}
	whole := ended[dbName]
	for at := 0; at < len(whole); at += 512 {
		what := fmt.Sprintf("cut at %d of %d", at, len(whole))
		place(t, s.dir(run), map[string][]byte{dbName: whole[:at]})
		got, err := readAll(s, run)
		if err == nil {
			t.Errorf("%s: nobody noticed", what)
		}
		expect(t, what, err)
		prefix(t, what, got, all)
		if now := filesOf(t, s.dir(run)); !bytes.Equal(now[dbName], whole[:at]) {
			t.Errorf("%s: the file was changed", what)
		}
		r, err := s.Read(run)
		expect(t, what, err)
		if err == nil {
			_, err := r.State(t.Context())
			expect(t, what, errors.Join(err, r.Close()))
		}
	}
}

// TestTruncatedLog cuts the log of a run whose process was killed at each
// 512th byte: what is whole of it is there.
func TestTruncatedLog(t *testing.T) {
	s := newStore(t)
	run, live, _ := sample(t, s)
	place(t, s.dir(run), live)
	all, err := readAll(s, run)
	if err != nil || len(all) != 122 {
		t.Fatal(len(all), err)
	}
	whole := live[dbName+"-wal"]
	most, steps := 0, map[int]bool{}
	for at := 0; at <= len(whole); at += 512 {
		what := fmt.Sprintf("cut at %d of %d", at, len(whole))
		place(t, s.dir(run), map[string][]byte{dbName: live[dbName], dbName + "-wal": whole[:at]})
		got, err := readAll(s, run)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		prefix(t, what, got, all)
		if len(got) < most {
			t.Fatalf("%s: %d events, and %d before with less of the log", what, len(got), most)
		}
		most = len(got)
		steps[most] = true
	}
	if len(steps) < 10 {
		t.Errorf("the log had only %d states", len(steps))
	}
}

// TestTruncatedBoth cuts the database under a log that is whole.
func TestTruncatedBoth(t *testing.T) {
	s := newStore(t)
	run, live, _ := sample(t, s)
	place(t, s.dir(run), live)
	all, err := readAll(s, run)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(live[dbName]); at += 512 {
		what := fmt.Sprintf("cut at %d", at)
		place(t, s.dir(run), map[string][]byte{dbName: live[dbName][:at], dbName + "-wal": live[dbName+"-wal"]})
		got, err := readAll(s, run)
		expect(t, what, err)
		prefix(t, what, got, all)
	}
}

// TestFlippedBytes changes some bytes anywhere. The database has no checksum
// of its rows, so a changed value may be read; nothing worse may happen.
func TestFlippedBytes(t *testing.T) {
	s := newStore(t)
	run, live, ended := sample(t, s)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		from := ended
		if i%2 == 0 {
			from = live
		}
		broken := map[string][]byte{}
		for name, data := range from {
			data = bytes.Clone(data)
			for range 1 + r.IntN(20) {
				data[r.IntN(len(data))] = byte(r.Uint32())
			}
			broken[name] = data
		}
		place(t, s.dir(run), broken)
		_, err := readAll(s, run)
		expect(t, fmt.Sprint("case ", i), err)
	}
}

// TestForeign opens what is no journal, and leaves it alone.
func TestForeign(t *testing.T) {
	s := newStore(t)
	run, _, ended := sample(t, s)
	change := func(query string) []byte {
		t.Helper()
		place(t, s.dir(run), ended)
		c, err := connect(s.dbPath(run), readWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(execSQL(c, query), c.Close()); err != nil {
			t.Fatal(err)
		}
		return filesOf(t, s.dir(run))[dbName]
	}
	for _, c := range []struct {
		name    string
		data    []byte
		foreign bool
		says    string
	}{
		{"text", []byte(strings.Repeat("this is no database\n", 100)), true, "no journal"},
		{"zeros", make([]byte, 8192), true, ""},
		{"empty", []byte{}, false, "empty"},
		{"none", nil, false, "not there"},
		{"other program", change("PRAGMA application_id = 77"), true, "another program"},
		{"newer", change(fmt.Sprint("PRAGMA user_version = ", schemaVersion+1)), true, "newer bide"},
		{"older", change(fmt.Sprint("PRAGMA user_version = ", oldVersion-1)), true, "earlier bide"},
		{"no version", change("PRAGMA user_version = 0"), false, "version 0"},
		{"no header", change("DELETE FROM meta WHERE key = 'source'"), false, "lacks"},
		{"no table", change("DROP TABLE events"), false, "no such table"},
		{"gap", change("DELETE FROM events WHERE first = (SELECT max(first) FROM events WHERE first <= 17)"), false, "follow"},
		{"row too short", change("UPDATE events SET last = last + 1 WHERE first = 1"), false, "event"},
		{"item gone", change("DELETE FROM items WHERE idx = 17"), false, "59 of 60 items"},
		{"item changed", change("UPDATE items SET id = 'x' WHERE idx = 17"), false, "digest"},
		{"words gone", change("DELETE FROM words WHERE id = 3"), false, "dictionary"},
		{"word gone", change(`UPDATE events SET records = replace(records, '"k":', '"k":999') WHERE first = 1`), false, "dictionary"},
		{"text for numbers", change(`UPDATE events SET records = replace(records, '"x":', '"x":"a",') WHERE first > 1`), false, "cannot be read"},
		{"no text", change("UPDATE events SET records = 7 WHERE first = 1"), false, "event 1"},
		{"no json", change(`UPDATE events SET records = replace(records, '"t":', '"t":{') WHERE first = 1`), false, "event 1"},
	} {
		files0 := map[string][]byte{dbName: c.data}
		if c.data == nil {
			files0 = nil
		}
		place(t, s.dir(run), files0)
		_, err := readAll(s, run)
		var f *ForeignError
		var d *DamagedError
		if errors.As(err, &f) != c.foreign || errors.As(err, &d) == c.foreign || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if now := filesOf(t, s.dir(run)); c.foreign && !bytes.Equal(now[dbName], c.data) {
			t.Errorf("%s: the file was changed", c.name)
		}
	}
}

// TestSchemaIsNotTrusted has a view and a trigger in a journal that came from
// elsewhere: a run's state must not be able to run anything.
func TestSchemaIsNotTrusted(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	err := j.query(t.Context(), func([]driver.Value) error { return nil }, "INSERT INTO meta VALUES ('x', 'y')")
	if err == nil {
		t.Error("a reader's connection writes")
	}
	var trusted int64
	if err := j.query(t.Context(), func(row []driver.Value) error { trusted = integer(row[0]); return nil }, "PRAGMA trusted_schema"); err != nil || trusted != 0 {
		t.Errorf("trusted_schema is %d, %v", trusted, err)
	}
}
