package reference_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/reference"
	"github.com/bide-dev/bide/internal/workflow"
)

// TestKeysHaveTheirDefaults: every key stands on the page once, as a row with what holds
// where it is missing or among the older spellings of such a row.
func TestKeysHaveTheirDefaults(t *testing.T) {
	rows, older := map[[2]string]bool{}, map[[2]string]bool{}
	object, quoted := "", regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(reference.Keys()) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			object = strings.TrimSpace(name)
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "¦"), "|")
		key := quoted.FindStringSubmatch(cells[1])[1]
		rows[[2]string{object, key}] = true
		if strings.TrimSpace(cells[3]) == "" && !strings.Contains(line, "No effect") {
			t.Errorf("%s.%s has no default: %s", object, key, line)
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[7], -1) {
			older[[2]string{object, m[1]}] = true
		}
		if strings.Contains(line, "a span of time") {
			t.Errorf("%s.%s says what a span of time is, which stands above all tables", object, key)
		}
	}
	for _, f := range workflow.Fields() {
		at := [2]string{f.Object, f.Key}
		if rows[at] == older[at] {
			t.Errorf("%s.%s has a row: %v, and is an older spelling: %v", f.Object, f.Key, rows[at], older[at])
		}
	}
}
