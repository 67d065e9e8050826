package value_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/value/valuetest"
	"pgregory.net/rapid"
)

// TestAppendIsMarshal: the text is that of encoding/json, to the byte, and so is the
// error.
func TestAppendIsMarshal(t *testing.T) {
	same := func(t rapid.TB, v any) {
		t.Helper()
		want, werr := json.Marshal(v)
		got, err := value.Append([]byte("before"), v)
		if (err == nil) != (werr == nil) || err != nil && err.Error() != werr.Error() {
			t.Fatalf("%#v: %v, encoding/json: %v", v, err, werr)
		}
		if err == nil && string(got) != "before"+string(want) {
			t.Fatalf("%#v\nis  %s\nnot %s", v, got, want)
		}
	}
	for c := range 0x2100 {
		same(t, "1234567"+string(rune(c))+"1")
	}
	for c := range 256 {
		for i := range 17 {
			same(t, strings.Repeat("x", i)+string([]byte{byte(c)})+strings.Repeat("y", 16-i))
		}
	}
	for _, f := range []float64{0, math.Copysign(0, -1), 1e-6, 9.99e-7, 1e20, 1e21, 1.5, math.NaN(), math.Inf(1), math.MaxFloat64, 5e-324} {
		same(t, f)
		same(t, []any{f})
	}
	rapid.Check(t, func(t *rapid.T) { same(t, valuetest.Values(3).Draw(t, "value")) })
}

func BenchmarkAppendText(b *testing.B) {
	text := strings.Repeat("what an item prints is kept whole, and none of it is lost......\n", 160)
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := json.Marshal(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		var room []byte
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			room = value.AppendText(room[:0], text)
		}
	})
}
