package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestExamplePipelines runs the pipelines of examples: whatever goes wrong in
// them, they come to their end, and give what they say.
func TestExamplePipelines(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command string
		want    []string
	}{
		{"run search.cst --input query=backoff --input limit=5", []string{`"short": "FlakyService of backoff"`, `"enough": true`, "✓ hits = FlakyService: 3 attempts"}},
		{"run flaky/answers.cst --input who=you", []string{
			`"greeting": "you, at call 3"`, `"price": "no price: exit after 3 attempts"`, `"note": ""`, `"checks-failed": true`, `"same": true`, `"report": "report"`,
			"attempt 1 failed: attempt timed out after 500ms", "Slow: from the cache", "price = Down: degraded, the fallback answered", "4 calls succeeded, 3 degraded",
		}},
		{"run flaky/pages.cst", []string{
			`"page 12, at call 2"`, `"refused": 9`, `"where": "/srv/book"`, "circuit breaker Down 3/1m: open, was closed", "✓ details[11] = Flaky: 2 attempts", "✓ upload: 2 attempts",
		}},
		{"check flaky/modules.yml flaky/publish.yml flaky/answers.cst flaky/pages.cst", []string{"4 files: 0 errors, 0 warnings"}},
		{"fmt --check search.cst flaky/answers.cst flaky/pages.cst; echo canonical", []string{"canonical"}},
	} {
		t.Run(strings.Fields(c.command)[0]+" "+strings.Fields(c.command)[1], func(t *testing.T) {
			t.Parallel()
			got := shell(t, examples, "export BIDE_HOME='"+t.TempDir()+"' TMPDIR='"+t.TempDir()+"'; bide "+c.command+" 2>&1")
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s: no %q in\n%s", c.command, want, got)
				}
			}
			if strings.Contains(got, "too many requests") {
				t.Errorf("%s: the throttle let too many through:\n%s", c.command, got)
			}
		})
	}
}
