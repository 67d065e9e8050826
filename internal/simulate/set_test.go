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
		"max_parallel=8":         "; write map.max_parallel=8",
		"attempts=6":             "; write fetch.retry.attempts=6 or retry_defaults.attempts=6 for all steps without their own",
		"fetch.retries=6":        "write fetch.retry.attempts=7",
		"fetch.delay=1s":         "write fetch.retry.initial_delay=1s",
		"map.max_paralel=8":      `did you mean "max_parallel"?`,
	} {
		if text, err := Set(src, []string{change}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q; it gives\n%s", change, err, want, text)
		}
	}
	// A key alone is proposed with the paths at which it may be.
	src = []byte("name: x\nenv: {A: b}\nmap:\n  input: seq 3\n  agent_template:\n    - name: fetch\n      shell: a\n      retry: {attempts: 2}\n    - shell: b\n    - id: do.it\n      claude: c\nreduce: [{shell: d}, {shell: e}]\n")
	for change, want := range map[string]string{
		"attempts=6":         `--set: unknown key "attempts" in a workflow; write fetch.retry.attempts=6 or map.agent_template[1].retry.attempts=6 or do.it.retry.attempts=6 or reduce[0].retry.attempts=6 or the same of another step or retry_defaults.attempts=6 for all steps without their own`,
		"max_attempts=6":     `write fetch.retry.attempts=6 or map`,
		"retries=6":          `write fetch.retry.attempts=7 or map`,
		"delay=2s":           `write fetch.retry.initial_delay=2s or map`,
		"backoff=fixed":      `write fetch.retry.backoff=fixed or map`,
		"retry.jitter=full":  `--set retry.jitter=full: the file has neither a key nor a step retry; write fetch.retry.jitter=full or map`,
		"capture=x":          `write fetch.capture=x or map.agent_template[1].capture=x or do.it.capture=x or reduce[0].capture=x or the same of another step`,
		"agent_timeout=9s":   `write map.agent_timeout=9s`,
		"fech.retry.base=3":  `--set fech.retry.base=3: the file has neither a key nor a step fech; did you mean fetch.retry.base=3?`,
		"none_of_bide=3":     `--set: unknown key "none_of_bide" in a workflow; the keys of a workflow are name, description, mode, commands, steps, setup, map, reduce, …`,
		"no.retry.nothing=3": `--set no.retry.nothing=3: the file has neither a key nor a step no`,
	} {
		if text, err := Set(src, []string{change}); err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(want, "--set") && err.Error() != want && !strings.HasSuffix(want, "or map") {
			t.Errorf("%s: %v, want %q; it gives\n%s", change, err, want, text)
		}
	}
	src = []byte("map:\n  input: seq 3\n  max_parallel: 2\n  agent_template:\n    - name: fetch\n      shell: \"true\"\n      retry: {attempts: 2}\n")
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
