package failure_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/failure"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"exit status 7: bad shard 14":                      "exit status N: bad shard N",
		"open /tmp/a/b.txt: no such file":                  "open PATH: no such file",
		"GET https://example.org/x/1?id=2: 503 after 1.5s": "GET https:PATH?id=N: N after Ns",
		"run 01M80ZA97AKTAW1E3N5EK2HTNJ failed":            "run ID failed",
		"commit 3f2a9c1b44 is gone\nand more":              "commit ID is gone",
		strings.Repeat("y", 500):                           strings.Repeat("y", 160),
		"a dash - and dots ...":                            "a dash - and dots ...",
		`no file "a b.txt" here`:                           `no file "…" here`,
		"can't read 'x' or `y`":                            `can't read "…" or "…"`,
		"at 12:03:04 on 2026-11-25T12:03:04Z":              "at N:N:N on N-N-NTN:N:NZ",
		"503 after 1m2.5s":                                 "N after Ns",
		"503 after 250ms, not 1h or 2d3h.":                 "N after Ns, not Ns or Ns.",
		"4µs, 3m4 and 5mb of v1.2s":                        "Ns, NmN and Nmb of vNs",
		`an open " quote`:                                  `an open " quote`,
		"ÜBER 3 Äpfel":                                     "ÜBER N Äpfel",
	} {
		if got := failure.Pattern(in); got != want {
			t.Errorf("the pattern of %q is %q, want %q", in, got, want)
		}
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	a := failure.Sign("exit", "map.agent_template[0]", "exit status 1: shard 1")
	if b := failure.Sign("exit", "map.agent_template[0]", "exit status 1: shard 22"); a != b || a.ID() != b.ID() {
		t.Errorf("failures that differ in a number: %v and %v", a, b)
	}
	for _, b := range []failure.Signature{failure.Sign("timeout", a.Step, "exit status 1: shard 1"), failure.Sign("exit", "map.agent_template[1]", "exit status 1: shard 1"), failure.Sign("exit", a.Step, "exit status 1: shape")} {
		if a == b || a.ID() == b.ID() {
			t.Errorf("%v is the signature of two causes", a)
		}
	}
	if a, b := failure.Sign("exit", "commands[1].do[0]@3", "x"), failure.Sign("exit", "commands[1].do[0]@17", "x"); a != b {
		t.Errorf("the rounds of a foreach: %v and %v", a, b)
	}
	if a, b := failure.Sign("circuit_open", a.Step, "it lets a probe through in 30s"), failure.Sign("circuit_open", a.Step, "it lets a probe through in 1m28.5s"); a != b {
		t.Errorf("failures that differ in a span of time: %v and %v", a, b)
	}
	if b := failure.Sign("exit", a.Step, "3 attempts failed; the last error was: exit status 1: shard 9"); a != b {
		t.Errorf("a failure after retries: %v and %v", a, b)
	}
	for message, weak := range map[string]bool{
		"": true, "exit status 1": true, "claude: exit status 1": true, "ended by signal killed": true, "it failed": true,
		"exit status 1: no": false, "ended by signal killed: out of memory": false, "timed out after 3s and was stopped": false,
	} {
		if failure.Sign("exit", "", message).Weak() != weak {
			t.Errorf("the signature of %q: weak should be %v", message, weak)
		}
	}
}

// TestUnnamed: a step is named where a message names neither a cause nor the step.
func TestUnnamed(t *testing.T) {
	for _, c := range []struct {
		message, step string
		want          bool
	}{
		{"exit status 1", "build", true},
		{"it failed", "build", true},
		{"exit status 1: no room", "build", false},
		{`the check "sh check.sh" failed: exit status 1`, "sh check.sh", false},
		{"exit status 1", "", false},
	} {
		if got := failure.Unnamed(c.message, c.step); got != c.want {
			t.Errorf("%q of %q: %v", c.message, c.step, got)
		}
	}
}
