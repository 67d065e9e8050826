package journal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestValid: a long text is valid exactly if encoding/json says so, whatever is
// changed in it.
func TestValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		whole, err := json.Marshal(map[string]any{
			rapid.String().Draw(t, "name"): strings.Repeat(rapid.String().Draw(t, "part"), 40),
			"list":                         []any{rapid.Float64().Draw(t, "number"), rapid.String().Draw(t, "text"), nil, true},
			"long":                         strings.Repeat("a line of output\n", 40),
		})
		if err != nil {
			t.Fatal(err)
		}
		if !valid(whole) {
			t.Fatalf("%q is JSON", whole)
		}
		b := bytes.Clone(whole)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			put := rapid.SampledFrom([]string{"", `"`, `\`, `\u`, `\u12"`, `\x`, "\n", "\x00", "\xff", "{", "]", ",", "1", "e"}).Draw(t, "put")
			b = append(append(bytes.Clone(b[:i]), put...), b[i+rapid.IntRange(0, 1).Draw(t, "instead"):]...)
		}
		if got, want := valid(b), json.Valid(b); got != want {
			t.Fatalf("valid(%q) is %v, json.Valid %v", b, got, want)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	text, err := json.Marshal(map[string]any{"output": strings.Repeat("what an item prints is kept whole, and none of it is lost......\n", 160)})
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]func([]byte) bool{"ours": valid, "json": json.Valid} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !f(text) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
