package syntax

import "testing"

func TestFormatSeeds(t *testing.T) {
	for _, src := range seedSources(t) {
		checkFormat(t, []byte(src))
	}
}
