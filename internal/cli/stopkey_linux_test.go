package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// underJobControl runs a script of a shell that has jobs, with bide as "$bide".
func underJobControl(t *testing.T, script string) *execScreen {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	bide := bideCmd(t)
	cmd := exec.Command("bash", "-c", "set -m\n"+script)
	cmd.Env, cmd.Dir = append(bide.Env, "bide="+bide.Path), bide.Dir
	return startOnScreen(t, cmd)
}

// state has a shell wait until the process of the file "pid" is in the state.
func state(letter string) string {
	return "until grep -q '^State:.[" + letter + "]' /proc/$(cat pid)/status; do :; done; "
}

// The stop key stops the command and bide, whose terminal is as it was found
// meanwhile; fg continues with both.
func TestStopKey(t *testing.T) {
	t.Parallel()
	const step = `echo \$\$ > pid; echo ready; read a; echo got \$a`
	flow := filepath.Join(t.TempDir(), "flow.yml")
	if err := os.WriteFile(flow, []byte("- shell: "+strings.ReplaceAll(step, `\`, "")+"\n  stall_timeout: 20s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Its shell starts no process: one that is stopped between vfork and exec holds its parent in
	// the state D.
	items := filepath.Join(t.TempDir(), "map.yml")
	if err := os.WriteFile(items, []byte("{mode: mapreduce, map: {input: [1], agent_template: [{shell: 'echo $$ > pid; until test -e on; do :; done; echo got world > got'}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string]string{
		"exec": `$bide exec --attempts 3 -- sh -c "` + step + `" | cat`,
		"run":  `$bide run -p . ` + flow,
		"map":  `(until test -s pid; do sleep 0.02; done; echo ready) & $bide run --progress plain -p . ` + items,
	} {
		s := underJobControl(t, command+`
echo status $?
`+state("T")+`echo asleep
stty -a | grep -q ' -icanon' || echo cooked
touch on
fg
echo ended $?`)
		s.until("ready")
		s.typed("\x1a")
		s.until("status 148")
		s.until("asleep")
		s.until("cooked")
		s.typed("world\n")
		status, text := s.end()
		got, _ := os.ReadFile(filepath.Join(s.cmd.Dir, "got")) // of the map alone
		if status != 0 || !strings.Contains(text+string(got), "got world") || !strings.Contains(text, "ended 0") || strings.Count(text, "ready\r\n") != 1 {
			t.Errorf("%s: status %d: %q, and in the file %q", name, status, text, got)
		}
	}
}

// After bg the command continues without the terminal, and gets it when it is in
// the foreground again.
func TestStopKeyBackground(t *testing.T) {
	t.Parallel()
	s := underJobControl(t, `$bide exec --attempts 3 --initial-delay 1ms -- sh -c '
echo $$ > pid; echo x >> tries; echo ready
until test -e on; do sleep 0.02; done
test $(wc -l < tries) = 2 || exit 1
read a; echo got $a'
bg
`+state("SRD")+`
touch on
until test $(wc -l < tries) = 2; do :; done
echo second
fg
echo ended $?`)
	s.until("ready")
	s.typed("\x1a")
	s.until("second")
	s.typed("world\n")
	if status, text := s.end(); status != 0 || !strings.Contains(text, "got world") || !strings.Contains(text, "ended 0") {
		t.Errorf("status %d: %q", status, text)
	}
	s = underJobControl(t, `$bide exec -- sh -c 'echo $$ > pid; echo ready; until test -e on; do sleep 0.02; done; echo done'
bg
touch on
wait $!
echo over $?`)
	s.until("ready")
	s.typed("\x1a")
	if status, text := s.end(); status != 0 || !strings.Contains(text, "done") || !strings.Contains(text, "over 0") {
		t.Errorf("status %d: %q", status, text)
	}
}

// A command that has jobs of its own, or takes the key, keeps it.
func TestStopKeyOfTheCommand(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"jobs":    `bash -mc 'sh -c "echo ready; read a"; echo inner $?; kill %1; exit 3'`,
		"ignores": `sh -c 'trap "" TSTP; echo ready; read a; echo inner 148; exit 3'`,
		"raw":     `sh -c 'stty raw -echo; printf ready; test $(head -c1 | od -An -tx1) = 1a && echo inner 148; exit 3'`,
	} {
		s := underJobControl(t, `$bide exec --attempts 1 -- `+command+`
echo outer $?`)
		s.until("ready")
		s.typed("\x1a")
		if name == "ignores" {
			s.typed("\n")
		}
		if status, text := s.end(); status != 0 || !strings.Contains(text, "inner 148") || !strings.Contains(text, "outer 3") {
			t.Errorf("%s: status %d: %q", name, status, text)
		}
	}
}

// Where no shell could continue with bide, the key changes nothing.
func TestStopKeyWithoutJobControl(t *testing.T) {
	t.Parallel()
	s := onScreen(t, "exec", "--", "sh", "-c", "echo ready; read a; echo got $a")
	s.until("ready")
	s.typed("\x1a")
	s.typed("world\n")
	if status, text := s.end(); status != 0 || !strings.Contains(text, "got world") {
		t.Errorf("status %d: %q", status, text)
	}
}
