package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// ends are the end of a step of an item and that of the item, with an output.
func ends(index int, output string) []event.Event {
	text, err := json.Marshal(output)
	if err != nil {
		panic(err)
	}
	return []event.Event{
		{Type: event.StepFinished, Phase: "map", Index: index, Status: event.Succeeded, Data: json.RawMessage(fmt.Sprintf(`{"vars":{"last":{"output":"no","exit_code":0}},"output":%s,"waited_ms":3}`, text))},
		{Type: event.Note, Message: "between"},
		{Type: event.ItemFinished, Phase: "map", Index: index, Status: event.Succeeded, Data: json.RawMessage(fmt.Sprintf(`{"print":"p","output":%s,"kind":"k"}`, text))},
	}
}

// borrowed is what testdata/borrowed.db has: it was written when a dictionary gave
// numbers to words, and an output stood once for two events.
func borrowed() (events []event.Event) {
	for i, output := range []string{
		strings.Repeat("x", 10_000), strings.Repeat("\\\"", 2000) + "\\", strings.Repeat("\"}]\\\n<ü\u2028", 500), strings.Repeat("y", 1500), "short",
	} {
		events = append(events, ends(i+1, output)...)
	}
	events = append(events, event.Event{Type: event.RoundStarted, Step: "commands[1]@3"}, event.Event{Type: event.ItemFinished, Index: 1, Status: event.Unchanged})
	for i := range events {
		events[i].Time = time.Date(2026, 11, 25, 14, 0, i, 0, time.UTC)
	}
	return events
}

// TestBorrowed: a journal in which data borrows and a dictionary has words is read,
// and continued.
func TestBorrowed(t *testing.T) {
	s := newStore(t)
	const run = "01M89HEXJN03PYAPKTXMH7232H"
	if err := os.MkdirAll(s.dir(run), 0o700); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile("testdata/borrowed.db")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(old, []byte(`"g":[`)) || bytes.Contains(old, []byte(`"k":"`)) {
		t.Fatal("nothing is borrowed in it")
	}
	if err := os.WriteFile(s.dbPath(run), old, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := s.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	want := borrowed()
	more := borrowed()
	if err := j.RecordAll(more); err != nil {
		t.Fatal(err)
	}
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = append(want, more...)
	got := collect(t, j.Events(t.Context(), 1, EventFilter{}))
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		want[i].Seq, want[i].Run = got[i].Seq, run
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("event %d: %.200v\nwant %.200v", i, got[i], want[i])
		}
	}
	if _, err := j.Scan(t.Context(), 1, func(f *Fact) error {
		e := want[f.Seq()-1]
		if f.Data() != string(e.Data) || f.Type() != e.Type || f.Status() != e.Status {
			t.Errorf("fact %d: %s %s %.100s", f.Seq(), f.Type(), f.Status(), f.Data())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if got := collect(t, j.Events(t.Context(), 1, EventFilter{Types: []event.Type{event.RoundStarted}, Step: "commands[1]@3"})); len(got) != 2 {
		t.Errorf("%d rounds have begun", len(got))
	}
}

// TestEarlierVersion: a journal of the version before is read as it is, and who goes
// on with it makes it one of this version, which an earlier bide refuses.
func TestEarlierVersion(t *testing.T) {
	for old := int64(oldVersion); old < schemaVersion; old++ {
		t.Run(fmt.Sprint(old), func(t *testing.T) { earlierVersion(t, old) })
	}
}

func earlierVersion(t *testing.T, old int64) {
	s := newStore(t)
	j := newJournal(t, s)
	add(t, j, event.Event{Type: event.Note, Message: "old"})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := connect(s.dbPath(j.Run()), readWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := execSQL(c, fmt.Sprint(`CREATE TABLE texts (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
		INSERT INTO texts SELECT 'lib.yml', value FROM meta WHERE key = 'file:lib.yml';
		DELETE FROM meta WHERE key = 'file:lib.yml'; PRAGMA user_version = `, old)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	version := func() int64 {
		r, err := s.Read(j.Run())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got := r.Header().Others; !reflect.DeepEqual(got, header().Others) {
			t.Errorf("the header of version %d has the files %q", r.version, got)
		}
		return r.version
	}
	if v := version(); v != old {
		t.Errorf("to read it made it one of version %d", v)
	}
	again, err := s.Open(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.RecordAll(ends(1, strings.Repeat("z", 5000))); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if v := version(); v != schemaVersion {
		t.Errorf("to go on with it left it one of version %d", v)
	}
}
