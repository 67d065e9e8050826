package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/option"
)

// execStory says what bide exec did with a command that notes its attempts in
// $N: how many there were, the waits in milliseconds, and its exit status.
func execStory(t *testing.T, flags, command string) string {
	t.Helper()
	notes := filepath.Join(t.TempDir(), "n")
	args := append([]string{"exec", "--json"}, words(flags)...)
	_, errs, status := bide(append(args, "shell: N="+notes+"; echo a >> $N; "+command)...)
	var waits []string
	for line := range strings.Lines(errs) {
		var e struct {
			Event   string `json:"event"`
			DelayMS int64  `json:"delay_ms"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %s", flags, errs)
		}
		if e.Event == "retry_scheduled" {
			waits = append(waits, fmt.Sprint(e.DelayMS))
		}
	}
	text, err := os.ReadFile(notes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no attempt came to its first command
		t.Fatal(err)
	}
	return fmt.Sprintf("%d [%s] %d", strings.Count(string(text), "a"), strings.Join(waits, " "), status)
}

// words splits flags at blanks, but for those in single quotes.
func words(flags string) (out []string) {
	for i, part := range strings.Split(flags, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

// TestExecOptionsTakeEffect runs a command with and without each flag of a
// policy.
func TestExecOptionsTakeEffect(t *testing.T) {
	const quick = "--initial-delay 4ms "
	rows := map[string]bool{}
	for _, c := range []struct{ option, beside, flag, command, want string }{
		{"attempts", quick, "--attempts 2", "exit 7", "2 [4] 7"},
		{"attempts", quick + "--deadline 5s", "--attempts unlimited", `test $(wc -l < $N) -gt 4`, "5 [4 8 16 32] 0"},
		{"backoff", quick, "--backoff fixed", "exit 7", "3 [4 4] 7"},
		{"initial_delay", "--max-delay 9ms", "--initial-delay 2ms", "exit 7", "3 [2 4] 7"},
		{"max_delay", quick, "--max-delay 5ms", "exit 7", "3 [4 5] 7"},
		{"increment", quick + "--backoff linear", "--increment 1ms", "exit 7", "3 [4 5] 7"},
		{"base", quick, "--base 3", "exit 7", "3 [4 12] 7"},
		{"delays", "--max-delay 1ms --backoff custom", "--delays 0s,0s", "exit 7", "3 [0 0] 7"},
		{"jitter", "--initial-delay 40ms --seed 1 --backoff fixed", "--jitter equal", "exit 7", "3 [31 34] 7"},
		{"jitter_factor", quick + "--seed 1 --jitter true", "--jitter-factor 0", "exit 7", "3 [4 8] 7"},
		{"retry_on", quick, "--retry-on network,exit_code:9", "exit 7", "1 [] 7"},
		{"abort_on", quick, "--abort-on exit_code:8,7", "exit 7", "1 [] 7"},
		{"retry_budget", quick, "--budget 5ms", "exit 7", "2 [4] 7"},
		{"deadline", quick + "--backoff fixed --attempts 90", "--deadline 6ms", "exit 7", ""},
		{"until", quick, "--until 'result.n == 2'", `echo "{\"n\":" $(wc -l < $N) "}"`, "2 [4] 0"},
		{"rules", quick, "--rule '{on: {exit_code: 3}, attempts: 5}' --rule '{on: {exit_code: 7}, attempts: 4, backoff: fixed, initial_delay: 2ms}'", "exit 7", "4 [2 2 2] 7"},
		{"circuit_breaker", quick, "--breaker 2/1h", "exit 7", "2 [4 8] 7"},
		{"timeout", "--attempts 1", "--timeout 2s", "sleep 4; exit 7", "1 [] 124"},
		{"on_failure", quick, "--fallback 'exit 0'", "exit 7", "3 [4 8] 0"},
	} {
		rows[c.option] = true
		t.Run(c.option, func(t *testing.T) {
			t.Parallel()
			got, bare := execStory(t, c.beside+" "+c.flag, c.command), execStory(t, c.beside, c.command)
			if c.want == "" && got != bare {
				return // how far it comes is up to the machine
			}
			if got != c.want {
				t.Errorf("with %s: %s, want %s", c.flag, got, c.want)
			}
			if bare == c.want {
				t.Errorf("without %s it is the same: %s", c.flag, bare)
			}
		})
	}
	for _, r := range option.For(option.Exec) {
		if !rows[r.Name] {
			t.Errorf("nothing shows that --%s takes effect", r.FlagName())
		}
	}
}
