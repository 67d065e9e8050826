package template

import (
	"slices"
	"testing"

	"github.com/bide-dev/bide/docs"
)

func TestEveryFilterIsInTheReference(t *testing.T) {
	words := docs.Words()
	for name := range filterFuncs {
		if !slices.Contains(words, name) {
			t.Errorf("the reference has no filter %s", name)
		}
	}
}
