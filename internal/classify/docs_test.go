package classify_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/classify"
	"github.com/bide-dev/bide/internal/duration"
)

// TestFormsOfLimits: the page of the agents says how the texts of limits are read.
func TestFormsOfLimits(t *testing.T) {
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "it is asked again |\n| --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	rows := regexp.MustCompile("(?m)^\\| `(.*)` \\| (?:in (\\S+)|it does not say) \\|$").FindAllStringSubmatch(table, -1)
	if len(rows) < 10 || len(rows) != strings.Count(table, "\n")+1 {
		t.Fatalf("%d rows are read of\n%s", len(rows), table)
	}
	for _, row := range rows {
		text := strings.ReplaceAll(row[1], `\|`, "|")
		if !classify.Text(text).RateLimited {
			t.Errorf("%q is taken for no limit", text)
		}
		d, ok := classify.Reset(text, now)
		if got := duration.Format(d); ok != (row[2] != "") || ok && got != row[2] {
			t.Errorf("%q: %v %v, the page says %q", text, got, ok, row[2])
		}
	}
	for _, text := range []string{"write /tmp/x: disk quota exceeded", "Disk quota exceeded"} {
		if classify.Text(text).RateLimited {
			t.Errorf("%q is taken for a limit of an agent", text)
		}
	}
}
