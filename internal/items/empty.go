package items

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/value"
)

// whyEmpty explains a list without items out of an input with something in it:
// what was left out of the items that were read, or the path that found none;
// "" where the input itself is empty. astray says that the path is a slip: there is a name
// that is nearly as in the path, or there are no names at all.
func whyEmpty(spec input.Spec, read int) (why string, astray bool) {
	switch {
	case read > 0 && spec.Filter != nil:
		return fmt.Sprintf("map.filter, or what follows it, lets none of the %d items through", read), false
	case read > 0:
		return fmt.Sprintf("map.offset leaves out all of the %d items", read), false
	case spec.JSONPath == "":
		return "", false
	}
	v, ok := smallInput(spec)
	if !ok {
		return "", false // nothing is known of it
	}
	if list, _ := input.Path(context.Background(), strings.TrimSuffix(strings.TrimSuffix(spec.JSONPath, "[*]"), ".*"), v); slices.ContainsFunc(list, isEmpty) {
		return "", false // the list is where it is looked for
	}
	if isEmpty(v) {
		return "", false
	}
	why = fmt.Sprintf("map.json_path %s finds nothing in the input, which has something in it", spec.JSONPath)
	m, ok := v.(map[string]any)
	if !ok {
		if _, list := v.([]any); list {
			return why + ": its top level is an array", true
		}
		return why + ": it is a " + value.Kind(v), true
	}
	names := slices.Sorted(maps.Keys(m))
	if first := firstName().FindStringSubmatch(spec.JSONPath); first != nil {
		if hint := diag.DidYouMean(first[1], names); hint != "" {
			return why + ": " + hint, true
		}
	}
	return why + ": its top level has " + diag.First(names, 8), false
}

var firstName = pattern.Lazy(`^\$\.([\w-]+)`)

// smallInput reads an input that is looked at to explain it.
func smallInput(spec input.Spec) (any, bool) {
	if spec.File == "" {
		return any(spec.List), true
	}
	info, err := os.Stat(spec.File)
	if err != nil || info.Size() > 16<<20 || !info.Mode().IsRegular() {
		return nil, false
	}
	b, err := os.ReadFile(spec.File)
	if err != nil {
		return nil, false
	}
	v, err := value.Parse(b)
	return v, err == nil
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
