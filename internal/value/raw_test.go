package value

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRawTake: a text goes through JSON unchanged with what is beside it, and takes no more
// than about three times its length there.
func TestRawTake(t *testing.T) {
	t.Parallel()
	piece := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\x00", "\xff", "\n", `"`, "�"}),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		text := piece.Draw(t, "a") + strings.Repeat(piece.Draw(t, "b"), rapid.IntRange(0, 600).Draw(t, "times")) + piece.Draw(t, "c")
		type data struct {
			Output string
			Raw    Raw
		}
		var d, got data
		d.Output = d.Raw.Take("/output", text)
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if whole := got.Raw.Text("/output", got.Output); whole != text {
			t.Fatalf("%q, want %q; the record is %s", whole, text, b)
		}
		most := 100 + 8*len(text) // six for a byte that is no UTF-8, and Base64
		if len(text) >= longText && IsBinary(text) {
			most = 100 + 2*len(text)
		}
		if len(b) > most {
			t.Fatalf("%d bytes of JSON for %d", len(b), len(text))
		}
	})
}
