package workflow

import (
	"fmt"
	"testing"
)

// A name is found where a condition reads it, not in a text, not as a part of
// another name or of a path.
func TestWordsOf(t *testing.T) {
	for text, want := range map[string]string{
		"size > 3":                              "[0]",
		"!size && size.x == 1":                  "[1 9]",
		"item.size == size":                     "[13]",
		"'size' == \"${size} of size\"":         "[13]",
		"sized or re-size or size_ or size-x":   "[]",
		"${size} == 1 && length(size)":          "[2 23]",
		`"a\"size" == size`:                     "[13]",
		"size":                                  "[0]",
		"exists(size) and not (size in [1, 2])": "[7 22]",
	} {
		if got := fmt.Sprint(wordsOf(text, "size")); got != want && !(want == "[]" && got == "[]") {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
