package value

import (
	"bytes"
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
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false) // it makes six bytes of each &, which is none of Raw's business
		if err := enc.Encode(d); err != nil {
			t.Fatal(err)
		}
		b := buf.Bytes()
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if whole := got.Raw.Text("/output", got.Output); whole != text {
			t.Fatalf("%q, want %q; the record is %s", whole, text, b)
		}
		if most := 6*longText + 5*len(text); len(b) > most {
			t.Fatalf("%d bytes of JSON for %d", len(b), len(text))
		}
	})
}
