package cli_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runOnScreen runs a workflow on a terminal.
func runOnScreen(t *testing.T, text string, args ...string) *execScreen {
	t.Helper()
	file := filepath.Join(t.TempDir(), "flow.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return onScreen(t, append([]string{"run", file}, args...)...)
}

// A step that is alone has the terminal: what it asks is seen at once, in every
// way of showing the run, and what is typed is its input.
func TestRunGivesTheTerminal(t *testing.T) {
	t.Parallel()
	for _, progress := range []string{"live", "plain"} {
		s := runOnScreen(t, `
- shell: "test -t 0 && test -t 1 && echo both; stty size </dev/tty; printf 'name? '; read name; echo hello $name; printf 'word? ' >/dev/tty; read word </dev/tty; echo $word"
- shell: "echo one; echo two >&2"
`, "--progress", progress)
		s.until("name? ")
		s.typed("world\n")
		s.until("word? ")
		s.typed("secret\n")
		status, text := s.end()
		for _, want := range []string{"both\r\n", "33 77", "hello world\r\n", "one\r\n", "two\r\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %q", progress, want, text)
			}
		}
		if strings.Contains(strings.ReplaceAll(text, "\r\n", ""), "\n") {
			t.Errorf("%s: a line end that leaves the column: %q", progress, text)
		}
		if status != 0 {
			t.Errorf("%s: status %d: %q", progress, status, text)
		}
	}
}

// A work item has no terminal, not even in the background of ours, where one that
// reads it would be stopped.
func TestItemsHaveNoTerminal(t *testing.T) {
	t.Parallel()
	status, got := runOnScreen(t, `{mode: mapreduce, map: {input: [1], agent_template: [{shell: "if true </dev/tty; then exit 7; fi"}]}}`).end()
	if status != 0 {
		t.Errorf("status %d: %q", status, got)
	}
}

// What is read by something other than a person is printed for it.
func TestRunPrintsForWhoReads(t *testing.T) {
	t.Parallel()
	const look = "if test -t 1; then echo screen; else echo pipe; fi"
	for text, want := range map[string]string{
		`[{shell: "` + look + `"}]`:                                                           "screen",
		`[{foreach: [a], do: [{shell: "` + look + `"}]}]`:                                     "screen",
		`[{shell: "` + look + `", capture: x}]`:                                               "pipe",
		`[{shell: "` + look + `", output_file: x}]`:                                           "pipe",
		`[{shell: "` + look + `"}, {shell: "test ${shell.output} = pipe"}]`:                   "pipe",
		`[{shell: "` + look + `", id: a}, {shell: "test ${a.output} = pipe"}]`:                "pipe",
		`[{foreach: [a, b], parallel: 2, do: [{shell: "` + look + `"}]}]`:                     "pipe",
		`{mode: mapreduce, map: {input: [1], agent_template: [{shell: "` + look + ` >&2"}]}}`: "",
	} {
		status, got := runOnScreen(t, text, "--progress", "plain").end()
		if status != 0 || want != "" && !strings.Contains(got, "\r\n"+want+"\r\n") && !strings.HasPrefix(got, want) {
			t.Errorf("%s: status %d, want %s: %q", text, status, want, got)
		}
	}
}

// Ctrl-C is the step's: its trap runs to its end, nothing new begins, and a
// resume begins the step again.
func TestRunCtrlC(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"shell": `trap 'sleep 0.3; echo cleaned; exit 7' INT; echo rea""dy; while :; do sleep 0.05; done`,
		// It sleeps in short turns: a signal that comes right before python begins to sleep
		// is heeded only after that.
		"python": "exec python3 -uc '\nimport time\ntry:\n print(\"rea\" \"dy\")\n while True: time.sleep(0.05)\nfinally:\n time.sleep(0.3); print(\"cleaned\")'",
	} {
		if _, err := exec.LookPath("python3"); err != nil && name == "python" {
			t.Logf("LEFT OUT: %v", err)
			continue
		}
		text := "- shell: |\n    " + strings.ReplaceAll(command, "\n", "\n    ") + "\n  retry: {attempts: 5, initial_delay: 1ms}\n- shell: echo never\n"
		s := runOnScreen(t, text)
		s.until("ready")
		s.typed("\x03")
		status, got := s.end()
		if status != 130 || !strings.Contains(got, "cleaned") || strings.Count(got, "ready") != 1 || strings.Contains(got, "never\r\n") || !strings.Contains(got, "bide resume") {
			t.Errorf("%s: status %d: %q", name, status, got)
		}
	}
}

// A second Ctrl-C ends what does not heed the first.
func TestRunCtrlCTwice(t *testing.T) {
	t.Parallel()
	s := runOnScreen(t, "- shell: \"trap '' INT; echo rea''dy; while :; do sleep 0.05; done\"\n")
	s.until("ready")
	s.typed("\x03")
	s.until("a second interrupt")
	s.typed("\x03")
	if status, text := s.end(); status != 130 {
		t.Errorf("status %d: %q", status, text)
	}
}

// A directory that data names is below the working directory; |raw opts out.
func TestWorkingDirNamedByData(t *testing.T) {
	t.Parallel()
	for item, want := range map[string]string{`"sub"`: "", `"../x"`: "leads out", `"/tmp"`: "leads out", `"link"`: "escapes", `"link", raw`: ""} {
		raw := ""
		if text, ok := strings.CutSuffix(item, ", raw"); ok {
			item, raw = text, "|raw"
		}
		cmd := bideCmd(t, "run", "flow.yml")
		if err := os.Mkdir(filepath.Join(cmd.Dir, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/tmp", filepath.Join(cmd.Dir, "link")); err != nil {
			t.Fatal(err)
		}
		flow := "- foreach: [" + item + "]\n  do: [{shell: pwd, working_dir: \"${item" + raw + "}\"}]\n"
		if err := os.WriteFile(filepath.Join(cmd.Dir, "flow.yml"), []byte(flow), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", flow, err, out)
		}
	}
}

// One interrupt is enough while a run waits for its input.
func TestInterruptWhileTheInputIsAwaited(t *testing.T) {
	t.Parallel()
	cmd := bideCmd(t, "run", "--json", "flow.yml")
	if err := syscall.Mkfifo(filepath.Join(cmd.Dir, "items"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cmd.Dir, "flow.yml"), []byte("{mode: mapreduce, map: {input: items, agent_template: [{shell: echo}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // run_started
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	_, _ = io.ReadAll(out)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}

// What is typed is no output of a step: it is shown, and not recorded. What no step has
// read is there for the next program that reads the terminal.
func TestTypedAhead(t *testing.T) {
	t.Parallel()
	const wait = `until test -e on; do sleep 0.02; done`
	for name, c := range map[string]struct{ flow, stdin, record, next string }{
		"nobody reads":       {`- shell: "echo ready; ` + wait + `; echo hi"`, "", "ready\nhi\n", "passab"},
		"the step reads":     {`- shell: "echo ready; read a; ` + wait + `; echo got $a"`, "", "ready\ngot pass\n", "ab"},
		"a later step reads": {`- shell: "echo ready; ` + wait + `"` + "\n- shell: read a; echo got $a", "", "ready\ngot pass\n", "ab"},
		"of /dev/tty":        {`- shell: "echo ready; read a </dev/tty; ` + wait + `; echo got $a"`, "</dev/null", "ready\ngot pass\n", "ab"},
		"mode of its output": {`- shell: "stty -icanon <&1; echo ready; dd bs=1 count=2 2>/dev/null; ` + wait + `; read a; echo $a"`, "", "ready\npass\n", "ab"},
		"a reduce":           {"mode: mapreduce\nmap: {input: [1], agent_template: [{shell: 'true'}]}\nreduce: [{shell: \"echo ready; " + wait + `; echo hi"}]`, "", "ready\nhi\n", "passab"},
	} {
		file := filepath.Join(t.TempDir(), "flow.yml")
		if err := os.WriteFile(file, []byte(c.flow+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		bide := bideCmd(t)
		cmd := exec.Command("sh", "-c", bide.Path+" run -p . --progress plain "+file+c.stdin+`; echo over; IFS= read -r a; test "$a" = ab || IFS= read -r b; echo "next=$a$b"`)
		cmd.Env, cmd.Dir = bide.Env, bide.Dir
		s := startOnScreen(t, cmd)
		s.until("ready\r\n")
		s.typed("pass\n")
		s.until("pass")
		s.typed("ab")
		s.until("ab") // has come to the terminal before the step ends
		if err := os.WriteFile(filepath.Join(cmd.Dir, "on"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.until("over")
		s.typed("\n")
		if _, text := s.end(); !strings.Contains(text, "next="+c.next+"\r\n") && anybodyTypes() {
			t.Errorf("%s: the next program does not get %q: %q", name, c.next, text)
		}
		logs := exec.Command(bide.Path, "logs", "last", "--raw")
		logs.Args[0], logs.Env, logs.Dir = "bide", bide.Env, bide.Dir
		if out, err := logs.Output(); err != nil || string(out) != c.record {
			t.Errorf("%s: %v: recorded %q, want %q", name, err, out, c.record)
		}
	}
}

// anybodyTypes reports whether the system lets a program type on its terminal.
func anybodyTypes() bool {
	is, err := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti")
	return err != nil || strings.TrimSpace(string(is)) == "1"
}
