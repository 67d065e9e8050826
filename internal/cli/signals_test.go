package cli_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNohup: a run that nohup starts outlives its terminal, as other programs do.
func TestNohup(t *testing.T) {
	t.Parallel()
	// Where these tests run under nohup themselves, what they start would inherit that.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for _, c := range []struct {
		before, step string
		code         int
	}{{"", "while :; do kill -HUP $PPID; done", 129}, {"trap '' HUP; ", "kill -HUP $PPID; echo fine", 0}} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "one.yml"), []byte("commands: [{shell: '"+c.step+"'}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		bide := program(t, dir, "run", "one.yml")
		cmd := exec.Command("sh", "-c", c.before+`exec "$0" "$@"`)
		cmd.Args = append(cmd.Args, bide.Args...)
		cmd.Args[3], cmd.Dir, cmd.Env = bide.Path, bide.Dir, bide.Env
		out, _ := cmd.CombinedOutput() // its status is looked at
		if code := cmd.ProcessState.ExitCode(); code != c.code || c.code == 0 && strings.Contains(string(out), "interrupted") {
			t.Errorf("%q: status %d, want %d\n%s", c.before, code, c.code, out)
		}
	}
}

// A signal that comes while the journal of a run is made interrupts the run: one
// that ended the process would leave half a directory behind.
func TestSignalsAreHeededBeforeARunIsMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "one.yml"), []byte("commands: [{shell: 'true'}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	drafts := func() []string {
		paths, err := filepath.Glob(filepath.Join(dir, ".bide", "runs", ".new-*"))
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	for range 30 {
		cmd := program(t, dir, "run", "one.yml")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end := make(chan struct{})
		go func() {
			defer close(end)
			_ = cmd.Wait()
		}()
		for ended := false; !ended && len(drafts()) == 0; {
			select {
			case <-end: // it was made between two looks
				ended = true
			default:
			}
		}
		_ = cmd.Process.Signal(syscall.SIGHUP) // it may have ended
		<-end
		if code := cmd.ProcessState.ExitCode(); code != 0 && code != 129 {
			t.Errorf("it ended with %v", cmd.ProcessState)
		}
		if left := drafts(); len(left) > 0 {
			t.Fatalf("left behind: %s", strings.Join(left, ", "))
		}
	}
}
