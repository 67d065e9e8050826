package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// screen is a terminal of so many columns that understands what the live
// display sends: line ends, cursor up, erase to the end, colours. Lines that
// scroll out of sight stay in it.
type screen struct {
	width    int
	lines    [][]rune
	row, col int
	rest     []byte
}

var csi = regexp.MustCompile(`^\x1b\[([0-9;?]*)([A-Za-z])`)

func (s *screen) write(p []byte) {
	s.rest = append(s.rest, p...)
	for len(s.rest) > 0 {
		if s.rest[0] == 0x1b {
			m := csi.FindSubmatch(s.rest)
			if m == nil {
				return // the rest has not come yet
			}
			s.control(string(m[1]), m[2][0])
			s.rest = s.rest[len(m[0]):]
			continue
		}
		r, n := []rune(string(s.rest[:min(4, len(s.rest))]))[0], 1
		if r >= 0x80 {
			n = len(string(r))
			if len(s.rest) < 4 && r == '\ufffd' {
				return
			}
		}
		s.rest = s.rest[n:]
		s.put(r)
	}
}

func (s *screen) control(arg string, f byte) {
	switch f {
	case 'A':
		n := 0
		for _, c := range arg {
			n = 10*n + int(c-'0')
		}
		s.row = max(0, s.row-max(1, n))
	case 'J':
		if s.row < len(s.lines) {
			s.lines = s.lines[:s.row+1]
			s.lines[s.row] = s.lines[s.row][:min(s.col, len(s.lines[s.row]))]
		}
	}
}

func (s *screen) put(r rune) {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
	switch r {
	case '\r':
		s.col = 0
	case '\n':
		s.row++
	case '\a':
	default:
		if s.col == s.width {
			s.row, s.col = s.row+1, 0
			s.put(r)
			return
		}
		line := s.lines[s.row]
		for len(line) <= s.col {
			line = append(line, ' ')
		}
		line[s.col] = r
		s.lines[s.row] = line
		s.col++
	}
}

func (s *screen) String() string {
	var b strings.Builder
	for _, l := range s.lines {
		b.WriteString(strings.TrimRight(string(l), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// columns is the width of the terminals.
const columns = 100

// session is a bide on a terminal.
type session struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	dir  string
	mu   sync.Mutex
	raw  bytes.Buffer
	scr  screen
	over chan struct{}
}

// onTerminal starts bide with its standard streams on a terminal; stdout, if
// given, gets its standard output instead.
func onTerminal(t *testing.T, dir string, env []string, stdout *os.File, args ...string) *session {
	t.Helper()
	s := &session{t: t, dir: dir, over: make(chan struct{}), scr: screen{width: columns}}
	s.cmd = exec.Command("bide", args...)
	s.cmd.Dir = dir
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); name != "CI" && name != "NO_COLOR" {
			s.cmd.Env = append(s.cmd.Env, kv)
		}
	}
	s.cmd.Env = append(append(s.cmd.Env, "TERM=xterm-256color", "BIDE_HOME="+filepath.Join(dir, ".bide")), env...)
	if stdout != nil {
		s.cmd.Stdout = stdout
	}
	tty, err := pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 30, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	s.tty = tty
	go func() {
		defer close(s.over)
		buf := make([]byte, 32<<10)
		for {
			n, err := tty.Read(buf)
			s.mu.Lock()
			s.raw.Write(buf[:n])
			s.scr.write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return // the terminal ends with its last process
			}
		}
	}()
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			s.cmd.Process.Kill()
			s.cmd.Wait()
		}
		tty.Close()
		<-s.over
	})
	return s
}

func (s *session) text() (seen, raw string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scr.String(), s.raw.String()
}

// until waits until the screen matches.
func (s *session) until(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		seen, _ := s.text()
		if re.MatchString(seen) {
			return seen
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s does not come; the screen is\n%s", pattern, seen)
		}
	}
}

// control has another process tell the run something.
func (s *session) control(do ...string) {
	s.t.Helper()
	cmd := exec.Command("bide", append([]string{"control", "last"}, do...)...)
	cmd.Dir, cmd.Env = s.dir, s.cmd.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

// end waits for the end and gives the exit status, the screen and the bytes.
func (s *session) end() (status int, seen, raw string) {
	s.t.Helper()
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	<-s.over
	seen, raw = s.text()
	return s.cmd.ProcessState.ExitCode(), seen, raw
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const liveMap = `
name: live
mode: mapreduce
map:
  input: [{n: 0}, {n: 1}, {n: 2}, {n: 3}, {n: 4}, {n: 5}]
  max_parallel: 2
  label: "number ${item.n}"
  agent_template:
    - shell: |
        case ${item.n} in
        1) test -e retried || { touch retried; exit 9; };;
        2) echo "two is bad" >&2; exit 3;;
        5) while ! test -e go; do sleep 0.02; done;;
        esac
      name: count
error_policy: {on_item_failure: retry, error_collection: immediate, retry: {attempts: 2, initial_delay: 10ms, backoff: fixed}}
`

// TestLiveMap shows a map with a failure and an agent that runs on, and takes
// the block away at the end.
func TestLiveMap(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "live.yml", liveMap)
	s := onTerminal(t, dir, nil, nil, "run", "live.yml")
	// The others may end after it has begun.
	s.until(`(?m)^. ━+─+ 5/6 · 1 failed · 1 running · .*\n  . number 5 · count · [0-9ms]+$`)
	write(t, dir, "go", "")
	status, seen, raw := s.end()
	if status != 3 {
		t.Errorf("exit status %d", status)
	}
	if strings.ContainsAny(seen, "━─⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") {
		t.Errorf("the block is left on the screen:\n%s", seen)
	}
	for _, want := range []string{"bide: ✗ item number 2: exit status 3: two is bad\n", "5 items succeeded, 1 failed", "1 × exit, for example item number 2: exit status 3: two is bad", "bide dlq retry"} {
		if !strings.Contains(seen, want) {
			t.Errorf("%q is missing in\n%s", want, seen)
		}
	}
	if !strings.Contains(raw, "\x1b[31m✗\x1b[0m") {
		t.Errorf("the mark of a failure has no colour")
	}
	if !strings.Contains(raw, "\x1b[32m━") || !strings.Contains(raw, " · \x1b[31m1 failed\x1b[0m · ") {
		t.Errorf("the bar, or what failed, has no colour")
	}
	if n := strings.Count(seen, "item number"); n != 2 { // its end, and the summary
		t.Errorf("%d items have a line:\n%s", n, seen)
	}
}

// TestLiveErrorCollection shows the errors of a map at its end where the file says so.
func TestLiveErrorCollection(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "live.yml", strings.Replace(liveMap, "error_collection: immediate", "error_collection: aggregate", 1))
	s := onTerminal(t, dir, nil, nil, "run", "live.yml")
	s.until(`(?m)^. ━+─+ 5/6 · 1 failed · 1 running · .*\n  . number 5 · count · [0-9ms]+$`)
	write(t, dir, "go", "")
	_, seen, raw := s.end()
	if early, _, _ := strings.Cut(raw, "5/6 · \x1b[31m1 failed\x1b[0m · 1 running"); early == raw || strings.Contains(early, "two is bad") {
		t.Errorf("the error is shown before the end:\n%s", early)
	}
	if !strings.Contains(seen, "bide: ✗ item number 2: exit status 3: two is bad\n") {
		t.Errorf("the error is missing:\n%s", seen)
	}
}

// TestLiveInterrupt interrupts a map: a step that is alone would have the
// terminal itself.
func TestLiveInterrupt(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "items.json", `["wait", "never"]`)
	write(t, dir, "flow.yml", `name: flow
mode: mapreduce
map:
  input: items.json
  label: "${item}"
  max_parallel: 1
  agent_template:
    - shell: "echo ${item} >> began; while ! test -e go; do sleep 0.02; done"
`)
	s := onTerminal(t, dir, nil, nil, "run", "flow.yml")
	s.until(`(?m)^ *. wait · .*\d[ms]$`)
	if _, err := s.tty.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	s.until(`interrupted: running steps may end`)
	write(t, dir, "go", "")
	status, seen, _ := s.end()
	if status != 130 || !strings.Contains(seen, "bide resume") || strings.Contains(seen, "^C") {
		t.Errorf("exit status %d, screen\n%s", status, seen)
	}
	if began, err := os.ReadFile(filepath.Join(dir, "began")); err != nil || string(began) != "wait\n" {
		t.Errorf("began %q, %v", began, err)
	}
	if strings.Contains(seen, "wait ·") {
		t.Errorf("the block is left on the screen:\n%s", seen)
	}
}

const output = `
- shell: "printf 'one\ntw'; sleep 0.4; echo o; printf three"
  name: speak
- shell: "echo four; echo oops >&2; exit 4"
  name: fail
  retry: {attempts: 2, initial_delay: 1h, max_delay: 1h, backoff: fixed}
`

// TestLiveOutputIsNotGarbled has steps write to the same terminal, partial
// lines as well.
func TestLiveOutputIsNotGarbled(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "flow.yml", output)
	s := onTerminal(t, dir, nil, nil, "run", "flow.yml")
	s.until(`(?m)^. fail · next attempt in [0-9hms]+$`)
	s.control("retry-now")
	status, seen, _ := s.end()
	seen = regexp.MustCompile(`01[0-9A-Z]{24}|\b[0-9A-HJKMNP-TV-Z]{6}\b`).ReplaceAllString(seen, "RUN")
	seen = regexp.MustCompile(`[0-9.]+m?s\b`).ReplaceAllString(seen, "T")
	// A line of an attempt has what was printed only where that does not stand right above it.
	seen = regexp.MustCompile(`(?m)^(bide: .*exit status 4): oops(;|$)`).ReplaceAllString(seen, "$1$2")
	want := `bide: run RUN
one
two
three
bide: ✓ speak (T)
four
oops
bide: fail: attempt 1 failed: exit status 4; attempt 2 follows in 1h
bide: another process asked for it: the run tries again now whatever waits for a time
four
oops
bide: ✗ fail: failed after 2 attempts: exit status 4
bide: failed in T: 1 step succeeded, 1 failed
  flow.yml:4:3: step "fail" failed after 2 attempts: exit status 4: oops
  look further: bide show RUN; bide logs RUN
  after the cause is mended: bide resume RUN`
	if status != 1 || unordered(seen) != unordered(want) {
		t.Errorf("exit status %d, screen\n%s\nwant\n%s", status, seen, want)
	}
}

// unordered takes the order from the two streams of a step, which nothing
// gives them.
func unordered(s string) string { return strings.ReplaceAll(s, "oops\nfour", "four\noops") }

// TestLiveLeavesStdoutAlone sends standard output to a file: it has the bytes
// of the steps and nothing else.
func TestLiveLeavesStdoutAlone(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "flow.yml", output)
	f, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := onTerminal(t, dir, []string{"NO_COLOR=1"}, f, "run", "flow.yml")
	s.until(`(?m)^. fail · next attempt in [0-9hms]+$`) // while speak runs, it has the terminal
	s.control("retry-now")
	_, seen, raw := s.end()
	got, err := os.ReadFile(f.Name())
	if err != nil || string(got) != "one\ntwo\nthreefour\nfour\n" {
		t.Errorf("standard output is %q, %v", got, err)
	}
	if regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(raw) || strings.Contains(seen, "three") {
		t.Errorf("colours, or the output of steps, on the terminal: %q", raw)
	}
}

// TestPlainWhereLiveWouldNotDo runs on terminals that are none for it.
func TestPlainWhereLiveWouldNotDo(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		args []string
	}{
		"dumb":  {[]string{"TERM=dumb"}, nil},
		"CI":    {[]string{"CI=true"}, nil},
		"plain": {nil, []string{"--progress", "plain"}},
		"none":  {nil, []string{"--progress", "none"}},
		"quiet": {nil, []string{"-q"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "flow.yml", "- shell: sleep 0.3\n  name: wait\n")
			s := onTerminal(t, dir, c.env, nil, append([]string{"run", "flow.yml", "--color", "never"}, c.args...)...)
			status, seen, raw := s.end()
			if status != 0 || strings.Contains(raw, "\x1b") {
				t.Errorf("exit status %d, %q", status, raw)
			}
			if told := strings.Contains(seen, "✓ wait"); told != (name != "none" && name != "quiet") {
				t.Errorf("the screen is\n%s", seen)
			}
		})
	}
}

func TestLiveNeedsATerminal(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "flow.yml", "- shell: touch ran\n")
	cmd := exec.Command("bide", "run", "flow.yml", "--progress", "live")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "BIDE_HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "needs a terminal") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the step ran")
	}
}

// What a step writes, and what a workflow and its items are called, does nothing to the
// terminal of who reads the progress or the logs.
func TestHostileNamesAndOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "flow.yml", `name: "evil\e]0;title\a\e[2J"
mode: mapreduce
isolation: none
map:
  input: [{id: "x\e]52;c;Y2xpcA==\a"}]
  agent_template:
    - shell: printf '\033]0;title\007\033[2J\033]52;c;Y2xpcA==\007\033[32mgreen\033[0m\n'
`)
	for _, args := range [][]string{{"run", "flow.yml"}, {"logs"}, {"logs", "-f"}, {"show"}, {"runs"}} {
		_, _, raw := onTerminal(t, dir, nil, nil, args...).end()
		for _, forbidden := range []string{"\x1b]", "\x1b[2J", "\a"} {
			if strings.Contains(raw, forbidden) {
				t.Errorf("bide %s passes %q on: %q", strings.Join(args, " "), forbidden, raw)
			}
		}
		if args[0] == "logs" && !strings.Contains(raw, "\x1b[32mgreen\x1b[0m") {
			t.Errorf("bide %s: the colour is gone: %q", strings.Join(args, " "), raw)
		}
	}
}
