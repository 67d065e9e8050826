package cli_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// bideCmd is the real program: this test binary under its name.
func bideCmd(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "bide")
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Args[0] = "bide"
	cmd.Env = append(os.Environ(), "BIDE_HOME="+t.TempDir(), "PS1=", "TERM=xterm")
	cmd.Dir = t.TempDir()
	return cmd
}

// execScreen is a terminal with bide on it.
type execScreen struct {
	t    *testing.T
	pty  *os.File
	cmd  *exec.Cmd
	text chan byte
	seen strings.Builder
}

func onScreen(t *testing.T, args ...string) *execScreen {
	t.Helper()
	return startOnScreen(t, bideCmd(t, args...))
}

func startOnScreen(t *testing.T, cmd *exec.Cmd) *execScreen {
	t.Helper()
	s := &execScreen{t: t, cmd: cmd, text: make(chan byte, 1<<20)}
	f, err := pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 33, Cols: 77})
	if err != nil {
		t.Fatal(err)
	}
	s.pty = f
	go func() {
		defer close(s.text)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			for _, b := range buf[:n] {
				s.text <- b
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it has ended, where the test went well
		_ = f.Close()
	})
	return s
}

// until waits for a text on the screen.
func (s *execScreen) until(text string) {
	s.t.Helper()
	timeout := time.After(patience)
	for !strings.Contains(s.seen.String(), text) {
		select {
		case b, ok := <-s.text:
			if !ok {
				s.t.Fatalf("the end came before %q: %q", text, s.seen.String())
			}
			s.seen.WriteByte(b)
		case <-timeout:
			s.t.Fatalf("no %q: %q", text, s.seen.String())
		}
	}
}

func (s *execScreen) typed(text string) {
	s.t.Helper()
	if _, err := s.pty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the end, and gives the exit status and all that was shown.
func (s *execScreen) end() (int, string) {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case b, ok := <-s.text:
			if ok {
				s.seen.WriteByte(b)
				continue
			}
		case <-timeout:
			s.t.Fatalf("it does not end: %q", s.seen.String())
		}
		break
	}
	_ = s.cmd.Wait() // the status says it
	return s.cmd.ProcessState.ExitCode(), s.seen.String()
}

func TestExecGivesTheTerminal(t *testing.T) {
	t.Parallel()
	s := onScreen(t, "exec", "--", "sh", "-c", `test -t 0 && test -t 1 && test -t 2 && echo all; stty size; printf 'name? ' >/dev/tty; read name </dev/tty; echo "hello $name"`)
	s.until("name? ")
	s.typed("world\n")
	status, text := s.end()
	for _, want := range []string{"all", "33 77", "hello world"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if status != 0 {
		t.Errorf("status %d: %q", status, text)
	}
}

// Who reads the output of a command that has the terminal's keys may write on the
// terminal as well.
func TestExecPiped(t *testing.T) {
	t.Parallel()
	bide := bideCmd(t)
	cmd := exec.Command("sh", "-c", bide.Path+` exec -- sh -c 'echo one; read a; echo two' | cat`)
	cmd.Env, cmd.Dir = bide.Env, bide.Dir
	s := startOnScreen(t, cmd)
	s.until("one")
	s.typed("x\n")
	if status, text := s.end(); status != 0 || !strings.Contains(text, "one\r\n") || !strings.Contains(text, "two\r\n") {
		t.Errorf("status %d: %q", status, text)
	}
}

// Ctrl-C is the command's: its trap runs to its end, and no other attempt follows.
func TestExecCtrlC(t *testing.T) {
	t.Parallel()
	s := onScreen(t, "exec", "--attempts", "5", "--initial-delay", "1ms", "--", "sh", "-c", `trap 'sleep 0.3; echo cleaned; exit 7' INT; echo ready; while :; do sleep 0.05; done`)
	s.until("ready")
	s.typed("\x03")
	status, text := s.end()
	if status != 7 || !strings.Contains(text, "cleaned") || strings.Count(text, "ready") != 1 {
		t.Errorf("status %d: %q", status, text)
	}
}

// A second Ctrl-C ends what does not heed the first.
func TestExecCtrlCTwice(t *testing.T) {
	t.Parallel()
	s := onScreen(t, "exec", "--attempts", "5", "--", "sh", "-c", `trap '' INT; echo ready; while :; do sleep 0.05; done`)
	s.until("ready")
	s.typed("\x03")
	s.typed("\x03")
	if status, text := s.end(); status != 130 || strings.Count(text, "ready") != 1 {
		t.Errorf("status %d: %q", status, text)
	}
}

// Between attempts Ctrl-C is bide's, and the terminal is as it was found.
func TestExecCtrlCInTheWait(t *testing.T) {
	t.Parallel()
	s := onScreen(t, "exec", "--attempts", "5", "--initial-delay", "1h", "--max-delay", "1h", "--", "false")
	s.until("follows in")
	state, err := unix.IoctlGetTermios(int(s.pty.Fd()), unix.TCGETS)
	if err != nil || state.Lflag&unix.ISIG == 0 || state.Lflag&unix.ECHO == 0 {
		t.Errorf("the terminal was left raw: %+v, %v", state, err)
	}
	s.typed("\x03")
	if status, text := s.end(); status != 130 {
		t.Errorf("status %d: %q", status, text)
	}
}

// A command that takes the keys itself, as an editor does, gets Ctrl-C as one.
func TestExecRawKeys(t *testing.T) {
	t.Parallel()
	s := onScreen(t, "exec", "--attempts", "2", "--initial-delay", "1ms", "--", "sh", "-c", `stty raw -echo; printf ready; head -c1 | od -An -tx1; exit 1`)
	s.until("ready")
	s.typed("\x03")
	s.until("03")
	s.until("follows in")
	s.typed("a")
	if status, text := s.end(); status != 1 || !strings.Contains(text, "61") {
		t.Errorf("status %d: %q", status, text)
	}
}

// The signal itself reaches the command, where there is no terminal.
func TestExecPassesTheSignalOn(t *testing.T) {
	t.Parallel()
	for sig, word := range map[syscall.Signal]string{syscall.SIGINT: "int", syscall.SIGTERM: "term"} {
		cmd := bideCmd(t, "exec", "--attempts", "3", "--", "sh", "-c", `trap 'echo int; exit 3' INT; trap 'echo term; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, len("ready\n"))
		if _, err := io.ReadFull(out, buf); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(out)
		if err != nil || strings.TrimSpace(string(rest)) != word {
			t.Errorf("%v: %q, %v", sig, rest, err)
		}
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(sig) {
			t.Errorf("%v: status %d", sig, cmd.ProcessState.ExitCode())
		}
	}
}

// Each attempt reads the same input, of a pipe of any size and of a file.
func TestExecReplaysStdin(t *testing.T) {
	t.Parallel()
	const script = `echo x >> tries; n=$(wc -l < tries); if [ $n = 1 ]; then head -c 100 >/dev/null; exit 1; fi; cksum; [ $n = 3 ]`
	for _, size := range []int{0, 10, 64 << 10, 5 << 20} {
		text := bytes.Repeat([]byte("0123456789"), size/10)
		sum := exec.Command("cksum")
		sum.Stdin = bytes.NewReader(text)
		want, err := sum.Output()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "in")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}()
		for name, in := range map[string]io.Reader{"pipe": struct{ io.Reader }{bytes.NewReader(text)}, "file": f} {
			cmd := bideCmd(t, "exec", "-q", "--attempts", "5", "--initial-delay", "1ms", "--", "sh", "-c", script)
			cmd.Stdin = in
			out, err := cmd.Output()
			if err != nil || string(out) != strings.Repeat(string(want), 2) {
				t.Errorf("%d bytes of a %s: %q, %v; want twice %q", len(text), name, out, err, want)
			}
		}
	}
}

// A command that reads nothing does not hold bide, however much there would be.
func TestExecReadsNoMoreThanAsked(t *testing.T) {
	t.Parallel()
	cmd := bideCmd(t, "exec", "--", "true")
	in, err := cmd.StdinPipe() // that nobody writes or closes
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if err := in.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

func TestExecTells(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   []string
		status int
		says   []string
		not    string
	}{
		{[]string{"--attempts", "4", "--", "no-such-program"}, 127, []string{"attempt 1 of 4 failed"}, "attempt 2"},
		{[]string{"--attempts", "4", "--", "echo hi | cat"}, 127, []string{`put "shell: " before it: 'shell: echo hi | cat'`}, ""},
		{[]string{"--timeout", "1", "--", "true"}, 2, []string{`did you mean "1s"`}, "bare number"},
		{[]string{"--attempts", "4", "shell:no-such-program"}, 127, nil, "attempt 2"},
		{[]string{"--attempts", "4", "--", "/etc/passwd"}, 126, []string{"permission denied"}, "attempt 2"},
		{[]string{"--attempts", "4", "--", "/nonexistent/program"}, 127, []string{"no such file"}, "attempt 2"},
		{[]string{"--attempts", "4", "--", "bide-has-no-such-program"}, 127, []string{`cannot start "bide-has-no-such-program": file does not exist; it is not in PATH`}, "attempt 2"},
		{[]string{"--attempts", "4", "--initial-delay", "1ms", "shell:echo x >> f; test $(wc -l < f) = 3"}, 0, []string{"succeeded at attempt 3 of 4"}, ""},
		{[]string{"--", "true"}, 0, nil, "bide"},
		{[]string{"--attempts", "4", "--backoff", "custom", "--delays", "1ms,2ms", "--max-delay", "3ms", "--", "false"}, 1, []string{"attempt 4 follows in 3ms: the 2 delays of --delays are used up"}, ""},
	} {
		cmd := bideCmd(t, append([]string{"exec"}, c.args...)...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != c.status {
			t.Errorf("%q: status %d, want %d: %s", c.args, got, c.status, out)
		}
		for _, want := range c.says {
			if !strings.Contains(string(out), want) {
				t.Errorf("%q: no %q in %s", c.args, want, out)
			}
		}
		if c.not != "" && strings.Contains(string(out), c.not) {
			t.Errorf("%q: %q in %s", c.args, c.not, out)
		}
	}
}

// An output that cannot be written is no success.
func TestExecFullOutput(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here")
	}
	defer func() {
		if err := full.Close(); err != nil {
			t.Error(err)
		}
	}()
	cmd := bideCmd(t, "exec", "--", "echo", "hi")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = full, &said
	_ = cmd.Run()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "no space left") {
		t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), said.String())
	}
	// Where nobody reads any more, the command ends.
	cmd = bideCmd(t, "exec", "--attempts", "5", "--", "yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 141 {
		t.Errorf("status %d", cmd.ProcessState.ExitCode())
	}
}

// What cannot be written on standard output is no success, whatever the command.
func TestFullStandardOutput(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here")
	}
	defer func() {
		if err := full.Close(); err != nil {
			t.Error(err)
		}
	}()
	flow := filepath.Join(t.TempDir(), "flow.yml")
	if err := os.WriteFile(flow, []byte("- shell: echo hi\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run", "--json", flow}, {"check", "--json", flow}, {"runs", "--json"}, {"backoff"}} {
		cmd := bideCmd(t, args...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &said
		_ = cmd.Run()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "no space left") {
			t.Errorf("%q: status %d: %s", args, cmd.ProcessState.ExitCode(), said.String())
		}
	}
}
