package workflow

import (
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/docs"
)

// What the check takes for granted is in the reference, by itself or with its
// members.
func TestEveryBuiltinIsInTheReference(t *testing.T) {
	words := docs.Words()
	for _, name := range builtin {
		if !slices.ContainsFunc(words, func(w string) bool { return w == name || strings.HasPrefix(w, name+".") }) {
			t.Errorf("the reference has no variable %s", name)
		}
	}
}
