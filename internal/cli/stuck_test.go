package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// program starts the real program in a directory of its own.
func program(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("bide")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "BIDE_HOME="+filepath.Join(dir, ".bide"))
	return cmd
}

// Output goes into a pipe that nobody reads: the steps end all the same, and
// interrupts work.
func TestAPipeThatNobodyReads(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"run"}, {"run", "--json"}, {"run", "--progress", "plain"}} {
		t.Run(flags[len(flags)-1], func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "loud.yml")
			text := "commands:\n  - shell: head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 100; touch printed\n  - foreach: [1, 2, 3, 4]\n    do: [{shell: 'yes | head -c 200000'}]\n  - shell: touch ended; sleep 600\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd := program(t, dir, append(flags, "loud.yml")...)
			cmd.Stdout, cmd.Stderr = w, w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			end := make(chan error, 1)
			go func() { end <- cmd.Wait() }()
			waitFor(t, cmd, filepath.Join(dir, "printed"))
			waitFor(t, cmd, filepath.Join(dir, "ended"))
			interrupted(t, cmd, end)
		})
	}
}

// The command of bide exec, and what is said about it, go into a pipe that
// nobody reads: one interrupt ends both, and not only when the grace is over.
func TestExecIntoAPipeThatNobodyReads(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second // of a command that is interrupted
	for range 3 {                  // the machine may have stood still for as long
		if intoFullPipe(t) < grace || t.Failed() {
			return
		}
	}
	t.Error("three times it lived until the grace was over")
}

// intoFullPipe says how long bide exec lives after an interrupt.
func intoFullPipe(t *testing.T) time.Duration {
	dir := t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for err = w.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err == nil; {
		_, err = w.Write(make([]byte, 4096)) // until it is full
	}
	cmd := program(t, dir, "exec", "--", "sh", "-c", "touch begun; exec yes")
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }()
	waitFor(t, cmd, filepath.Join(dir, "begun"))
	began := time.Now()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-end:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 130 {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		t.Error("it lives on after an interrupt")
	}
	return time.Since(began)
}

// interrupted interrupts a program until it ends. Two interrupts are enough, but two
// that it has not heard are one; and one that comes when it has nothing more to do ends it.
func interrupted(t *testing.T, cmd *exec.Cmd, end <-chan error) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for late := time.After(patience); ; {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		select {
		case err := <-end:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 130 && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
				t.Errorf("ended with %v", err)
			}
			return
		case <-late:
			_ = cmd.Process.Kill()
			t.Fatal("it lives on after many interrupts")
		case <-again.C:
		}
	}
}

// waitFor waits until a file is there.
func waitFor(t *testing.T, cmd *exec.Cmd, path string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Since(began) > patience {
			_ = cmd.Process.Kill()
			t.Fatalf("%s is not made: the command is held up", filepath.Base(path))
		}
	}
}
