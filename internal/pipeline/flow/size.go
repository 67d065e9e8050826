package flow

import (
	"fmt"

	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// maxSize bounds what a computation may give, counted as it would be written
// down, where a part that is in a value twice counts twice: a list of two
// lists of two lists… is a few words in memory, and has no end on paper.
const maxSize = 256 << 20

// fits refuses a value that is too large.
func fits(n *plan.Node, v any) error {
	if scalar(n.Type) && n.Type.Kind != types.StringKind {
		return nil
	}
	if left := measure(v, maxSize); left < 0 {
		return fmt.Errorf("its value is larger than %d MiB", maxSize>>20)
	}
	return nil
}

// measure takes the size of a value off what is left; it looks no further when
// nothing is.
func measure(v any, left int) int {
	left -= 8
	switch v := v.(type) {
	case string:
		return left - len(v)
	case []any:
		if len(v) > left/8 {
			return -1
		}
		for _, x := range v {
			if left = measure(x, left); left < 0 {
				break
			}
		}
	case map[string]any:
		for name, x := range v {
			if left = measure(x, left-len(name)); left < 0 {
				break
			}
		}
	}
	return left
}
