package step

import (
	"encoding/json"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/value/valuetest"
	"pgregory.net/rapid"
)

// TestObjectsAreThoseOfMarshal: what is written member by member is the text that
// encoding/json gives.
func TestObjectsAreThoseOfMarshal(t *testing.T) {
	same := func(t *rapid.T, v any, members func(*value.Object)) {
		want, err := json.Marshal(v)
		got := Object(members)
		if err != nil {
			want = unrepresentable(err)
		}
		if string(got) != string(want) {
			t.Fatalf("%s\nis not\n%s", got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var (
			d record
			a attemptData
			r ran
			w event.Wait
		)
		for _, v := range []any{&d, &a, &r, &w} {
			valuetest.Fill(t, v)
		}
		same(t, d, d.appendTo)
		same(t, a, a.appendTo)
		same(t, r, r.appendTo)
		same(t, w, w.AppendTo)
	})
}

func BenchmarkObject(b *testing.B) {
	d := record{Sealed: Sealed{Vars: map[string]any{"last": map[string]any{"duration": 0.003, "exit_code": int64(0), "success": true}}, Last: []string{"shell"}}}
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Data(d)
		}
	})
	b.Run("members", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Object(d.appendTo)
		}
	})
}
