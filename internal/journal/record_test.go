package journal

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/retry/driver"
)

// TestRecordRoundTrip writes any events into a row and reads them back.
func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		word := rapid.OneOf(rapid.SampledFrom(vocabulary), text)
		num := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64())
		small := rapid.IntRange(0, 1<<31-1)
		var want []event.Event
		for i := range rapid.IntRange(1, 5).Draw(t, "n") {
			e := event.Event{
				Seq: int64(i + 1), Run: "run", Time: time.Unix(0, rapid.Int64Range(1, 1<<62).Draw(t, "time")).UTC(),
				Type: event.Type(word.Draw(t, "type")), Phase: word.Draw(t, "phase"), Step: word.Draw(t, "step"),
				Item: text.Draw(t, "item"), Index: small.Draw(t, "index"), Attempt: small.Draw(t, "attempt"), Attempts: small.Draw(t, "attempts"),
				Status: word.Draw(t, "status"), Class: word.Draw(t, "class"), DelayMS: num.Draw(t, "delay"), DurationMS: num.Draw(t, "duration"),
				Label: text.Draw(t, "label"), Message: text.Draw(t, "message"), ExitCode: small.Draw(t, "exit"), Total: small.Draw(t, "total"),
				From: text.Draw(t, "from"), To: text.Draw(t, "to"),
			}
			if rapid.Bool().Draw(t, "data") {
				b, err := json.Marshal(map[string]any{text.Draw(t, "key"): []any{text.Draw(t, "value"), 1.5, nil, map[string]any{"}": "]"}}})
				if err != nil {
					t.Fatal(err)
				}
				e.Data = b
			}
			if rapid.Bool().Draw(t, "retry") {
				at := func(name string) (at time.Time) {
					if ns := rapid.Int64Range(0, 1<<62).Draw(t, name); ns > 0 {
						at = time.Unix(0, ns).UTC()
					}
					return at
				}
				e.Retry = &driver.State{Attempt: small.Draw(t, "failed"), Slept: time.Duration(num.Draw(t, "slept")), Prev: time.Duration(num.Draw(t, "prev")),
					Began: at("began"), FirstFailure: at("first"), Due: at("due"), Charged: rapid.Bool().Draw(t, "charged")}
			}
			want = append(want, e)
		}
		row := []byte{'['}
		for i := range want {
			if i > 0 {
				row = append(row, ',')
			}
			row = appendRecord(row, &want[i])
		}
		row = append(row, ']')
		known := firstWords()
		n := 0
		err := eachRecord(string(row), func(rec *record) error {
			got, err := rec.event(known, "run", int64(n+1))
			if err != nil {
				return err
			}
			a, b := got, want[n]
			if string(a.Data) != string(b.Data) {
				t.Errorf("data %s, want %s", a.Data, b.Data)
			}
			a.Data, b.Data = nil, nil
			if x, y := marshal(t, a), marshal(t, b); x != y {
				t.Errorf("%s\nwant %s", x, y)
			}
			n++
			return nil
		})
		if err != nil || n != len(want) {
			t.Fatalf("%d of %d records, %v, in %q", n, len(want), err, row)
		}
	})
}

func marshal(t *rapid.T, e event.Event) string {
	b, err := json.Marshal(struct {
		event.Event
		Texts [][]byte // as they are, without JSON's care for UTF-8
	}{e, [][]byte{[]byte(e.Item), []byte(e.Label), []byte(e.Message), []byte(e.Step), []byte(e.Class)}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRecordsAreJSON has a row read by a program that knows nothing of us.
func TestRecordsAreJSON(t *testing.T) {
	row := appendRecord([]byte{'['}, &event.Event{
		Type: event.Note, Time: time.Unix(1, 2), Item: "a\"b\\c\n\x00\x1f\t", Message: "ü→", Data: json.RawMessage(`{"x": [1, "]"]}`)})
	var got []map[string]any
	if err := json.Unmarshal(append(row, ']'), &got); err != nil {
		t.Fatalf("%s: %v", row, err)
	}
	if got[0]["i"] != "a\"b\\c\n\x00\x1f\t" || got[0]["m"] != "ü→" || got[0]["t"] != float64(1e9+2) {
		t.Errorf("%v", got)
	}
}

// FuzzRecords reads rows that nobody wrote: an error, or records whose texts
// can be had, and never a panic.
func FuzzRecords(f *testing.F) {
	row := appendRecord([]byte{'['}, &event.Event{Type: event.ItemFinished, Index: 3, Item: `a"b`, Status: event.Succeeded, Data: json.RawMessage(`{"output":"x"}`)})
	row = append(appendRecord(append(row, ','), &event.Event{Type: event.Note, Message: "m", ExitCode: -1}), ']')
	for _, seed := range []string{string(row), "[]", `[{"t":1}]`, `[{"t":-9223372036854775808,"d":{"a":[}]`, `[{"i":"\`, `[{"t":99999999999999999999}]`, `[{"m":"\u12"}]`, `[{"r":[1,2]}]`, `[{"r":{"attempt":"x"}}]`,
		`[{"g":[2,1,6],"d":{"a":""}}]`, `[{"g":[0,99,0],"d":{}}]`, `[{"g":[-1,1,0],"d":{}}]`, `[{"g":[0,1,3],"d":{}}]`, `[{"g":[0,1,0]}]`, `[{"g":[9223372036854775807,1,0]}]`, `[{"g":[0,9223372036854775807,0],"d":{}}]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		err := eachRecord(text, func(rec *record) error {
			n++
			_, err := rec.event(nil, "", 1)
			if err != nil && !errors.Is(err, errWord) && !errors.Is(err, errText) && !errors.Is(err, errRetry) {
				t.Errorf("%v", err)
			}
			return nil
		})
		if err != nil && !errors.Is(err, errRecord) {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && n == 0 {
			t.Errorf("%q has no record and no error", text)
		}
	})
}
