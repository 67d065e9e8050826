package journal

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

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

// stored is how many bytes the rows of events have.
func stored(t *testing.T, j *Journal) (n int) {
	t.Helper()
	if err := j.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := j.query(t.Context(), func(row []driver.Value) error {
		n += len(text(row[0]))
		if !json.Valid([]byte(text(row[0]))) {
			t.Errorf("no JSON: %.200s", text(row[0]))
		}
		return nil
	}, "SELECT records FROM events")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOutputIsWrittenOnce: what an item's end has in common with the end of its step
// is written once, and read twice.
func TestOutputIsWrittenOnce(t *testing.T) {
	j := newJournal(t, newStore(t))
	outputs := []string{
		strings.Repeat("x", 10_000), strings.Repeat("\\\"", 5000) + "\\", strings.Repeat("\"}]\\\n<ü\u2028", 1000), strings.Repeat("y", 1500),
	}
	var want []event.Event
	size := 0
	for i, output := range outputs {
		both := ends(i+1, output)
		size += len(both[0].Data) + len(both[2].Data)
		want = append(want, both...)
		if err := j.RecordAll(both); err != nil {
			t.Fatal(err)
		}
	}
	if got := stored(t, j); got < size/2 || got > size/2+300*len(outputs) {
		t.Errorf("%d bytes are stored of %d", got, size)
	}
	got := collect(t, j.Events(t.Context(), 1, EventFilter{}))
	for i, e := range got {
		if string(e.Data) != string(want[i].Data) {
			t.Errorf("event %d: %.100s\nwant %.100s", i, e.Data, want[i].Data)
		}
	}
	if _, err := j.Scan(t.Context(), 1, func(f *Fact) error {
		if i := int(f.Seq()) - 1; f.Data() != string(want[i].Data) {
			t.Errorf("fact %d: %.100s", i, f.Data())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestBorrowsOfItsOwnItemOnly: an output is that of the item's own step, of the
// same row; whatever the events are, they are read as they were written.
func TestBorrowsOfItsOwnItemOnly(t *testing.T) {
	j := newJournal(t, newStore(t))
	same := strings.Repeat("s", 2000)
	one, two := ends(1, same), ends(2, same)
	if err := j.RecordAll([]event.Event{one[0], two[2]}); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, j); got < 2*len(same) {
		t.Errorf("the output of one item stands for that of another: %d bytes", got)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var want []event.Event
	for range 300 {
		text := strings.Repeat(string(rune('a'+rnd.IntN(2))), 1000+rnd.IntN(100)*rnd.IntN(200))
		both := ends(1+rnd.IntN(3), text)
		if rnd.IntN(4) == 0 { // a part of it only
			both[2] = ends(both[2].Index, text[:len(text)-1])[2]
		}
		want = append(want, both[0], both[2])
		add(t, j, both[0], both[2])
	}
	for i, e := range collect(t, j.Events(t.Context(), 3, EventFilter{})) {
		if string(e.Data) != string(want[i].Data) {
			t.Fatalf("event %d: %.100s… of %d bytes, want %d", i, e.Data, len(e.Data), len(want[i].Data))
		}
	}
}

// TestEarlierVersion: a journal of the version before is read as it is, and who goes
// on with it makes it one of this version, which an earlier bide refuses.
func TestEarlierVersion(t *testing.T) {
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
	if err := execSQL(c, fmt.Sprint("PRAGMA user_version = ", oldVersion)); err != nil {
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
		return r.version
	}
	if v := version(); v != oldVersion {
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
