package simulate

import (
	"strings"
	"testing"
)

// A change that no run would heed is an error that says what to write.
func TestSetInVain(t *testing.T) {
	src := []byte("map:\n  input: seq 3\n  max_parallel: 2\n  agent_template:\n    - name: fetch\n      shell: \"true\"\n      retry: {attempts: 2}\n")
	for change, want := range map[string]string{
		"fetch.attempts=6":       `--set: unknown key "attempts" in a step; write fetch.retry.attempts`,
		"fetch.retry.atempts=6":  `did you mean "attempts"?`,
		"fetch.max_attempts=6":   "write fetch.retry.attempts",
		"fetch.initial_delay=1s": "write fetch.retry.initial_delay",
		"max_parallel=8":         `"max_parallel" has no effect here`,
		"map.max_paralel=8":      `did you mean "max_parallel"?`,
	} {
		if text, err := Set(src, []string{change}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q; it gives\n%s", change, err, want, text)
		}
	}
	for _, change := range []string{"fetch.retry.attempts=6", "fetch.retry.jitter=full", "map.max_parallel=8", "map.agent_template[0].retry=4"} {
		if _, err := Set(src, []string{change}); err != nil {
			t.Errorf("%s: %v", change, err)
		}
	}
	// A key that the file has in another spelling.
	for change, want := range map[string]string{"fetch.retry_config.attempts=6": "retry: {attempts: 6}", "fetch.retry.max_attempts=6": "retry: {attempts: 6}"} {
		if text, err := Set(src, []string{change}); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v; it gives\n%s", change, err, text)
		}
	}
	// Variables have names, and no spellings.
	if text, err := Set([]byte("env: {max_attempts: x}\ncommands:\n  - shell: \"true\"\n"), []string{"env.attempts=y"}); err != nil || !strings.Contains(string(text), "max_attempts: x, attempts: y") {
		t.Errorf("%v; it gives\n%s", err, text)
	}
	// What the file itself has in vain is not the change's.
	if _, err := Set([]byte("commands:\n  - name: a\n    shell: \"true\"\n    atempts: 2\n"), []string{"a.timeout=5s"}); err != nil {
		t.Error(err)
	}
}
