package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
)

// cutSecret has no two equal pieces, so any of them is recognised. It has no digits,
// because a time might have the same.
const cutSecret = "qwertyuiopZXCVBNMLKJasdfghjk"

// pieces gives the places below a directory that have a part of the secret which is long
// enough to be a secret.
func pieces(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for i := 0; i+6 <= len(cutSecret); i++ {
			if at := strings.Index(string(text), cutSecret[i:i+6]); at >= 0 {
				found = append(found, fmt.Sprintf("%s: …%q…", filepath.Base(path), text[max(0, at-40):min(len(text), at+40)]))
				break
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// cutting is a workflow in which the secret is at the border of each cut. The numbers are
// the positions of the cuts.
func cutting(n int) string {
	pad := func(size int) string { return strings.Repeat("x", max(size-n, 0)) }
	// printing prints the secret so that the byte at offset size, from the beginning and
	// from the end of the output, is inside it.
	printing := func(size int) string {
		return fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; printf %%s \"$S\"; head -c %d /dev/zero | tr '\\0' y; printf %%s \"$S\"; head -c %d /dev/zero | tr '\\0' z", size/2-n, size, size/2-n)
	}
	return `
secrets: {S: ` + cutSecret + `}
agents: {other: {command: [sh, -c, 'printf %s "$1"; printf %s "$1" >&2; exit 1', sh, '${prompt}']}}
mode: mapreduce
setup:
  commands:
    - shell: ` + yamlText(printing(1<<20)) + `
      capture: big
    - shell: printf '%s%s' ` + pad(100) + ` "$S"
  capture_outputs: {cut: {command_index: 1, max_size: ` + fmt.Sprint(100) + `}}
map:
  input: ['` + pad(60) + `${S}']
  agent_template:
    - shell: "` + pad(72) + cutSecret + ` 2>/dev/null; true"
    - foreach: ['` + pad(57) + `${S}', '` + pad(60) + `${S}']
      do: [{shell: exit 3}]
      continue_on_error: true
    - shell: ` + yamlText(printing(4<<10)+"; exit 1") + `
      continue_on_error: true
    - shell: ` + yamlText("{ "+printing(4<<10)+"; } >&2; exit 1") + `
      continue_on_error: true
    - shell: ` + yamlText("{ "+printing(128<<10)+"; } >&2; exit 1") + `
      continue_on_error: true
    - shell: ` + yamlText(printing(16<<10)) + `
      capture: sixteen
    - shell: ` + yamlText(printing(4<<10)) + `
      capture: number
      capture_format: number
      continue_on_error: true
    - shell: ` + yamlText(printing(4<<10)+" >> \"$BIDE_OUTPUT\"") + `
      continue_on_error: true
    - shell: test -n "$BIDE_LAST_ERROR" && printf %s "$BIDE_LAST_ERROR"; ` + strings.TrimPrefix(strings.TrimSuffix(yamlText(printing(8<<10)+" >&2; exit 1"), "'"), "'") + `
      retry: {attempts: 2, initial_delay: 1ms}
      continue_on_error: true
    - other: "` + pad(4096/2) + `${S}` + pad(4096) + `${S}"
      continue_on_error: true
    - write_file: {path: "` + pad(250) + `${S}", content: x}
      continue_on_error: true
    - shell: ` + yamlText(printing(64<<10)+"; exit 1") + `
  label: "` + pad(60) + `${S}"
reduce:
  - shell: echo "${map.results[0].error}"
  - shell: exit 1
    name: the name ` + pad(72) + `${S}
`
}

// yamlText is a text in single quotes.
func yamlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// TestNoCutLeavesAPieceOfASecret: wherever a cut falls, nothing that is kept, shown or
// reported has a piece of a secret.
func TestNoCutLeavesAPieceOfASecret(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{7, 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("flow.yml", cutting(n))
			bide := func(args ...string) {
				cmd := exec.Command(self, args...)
				cmd.Dir = b.dir
				cmd.Env = append(b.opt.Environ, "BIDE_HOME="+b.home, partVar+"=bide")
				out, _ := cmd.CombinedOutput() // the exit status does not matter
				if err := os.WriteFile(filepath.Join(b.home, "shown-"+args[0]), out, 0o600); err != nil {
					t.Fatal(err)
				}
				if args[0] == "run" && !strings.Contains(string(out), "1 item failed") {
					t.Errorf("the run ended otherwise: %s", out)
				}
			}
			if err := os.MkdirAll(b.home, 0o700); err != nil {
				t.Fatal(err)
			}
			bide("run", "flow.yml")
			for _, cmd := range []string{"show", "dlq", "events", "logs"} {
				args := []string{cmd, "last"}
				if cmd == "dlq" {
					args = []string{"dlq", "list", "last"}
				}
				bide(args...)
			}
			for _, p := range pieces(t, b.home) {
				t.Error(p)
			}
		})
	}
}

// TestSecretsOfTheFile: a secret that is in the workflow's text, or in an import, is in no
// record of a run. A resume reads the file, notices a change, also in a line with a secret,
// and uses a new value.
func TestSecretsOfTheFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	main := "name: x\nsecrets: {S: " + cutSecret + "}\nimports: [{path: sub.yml, alias: sub}]\ncommands:\n  - shell: printf %s \"$S\" | wc -c > $EV/size; test -e $EV/go # " + cutSecret + "\n  - workflow: sub\n"
	b.write("flow.yml", main)
	b.write("sub.yml", "secrets: {T: \"9876543210-"+cutSecret+"\"}\ncommands:\n  - shell: printf %s \"$T\" > $EV/sub\n")
	f, problems := workflow.Load(filepath.Join(b.dir, "flow.yml"), workflow.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	store, err := journal.OpenStore(b.home)
	if err != nil {
		t.Fatal(err)
	}
	opt := b.opt
	opt.Dir, opt.Store, opt.File = b.dir, store, f
	sum, err := engine.Run(context.Background(), opt)
	if err != nil || sum.Status != event.Failed {
		t.Fatalf("%+v, %v", sum, err)
	}
	for _, p := range pieces(t, b.home) {
		t.Error(p)
	}
	resume := func(want string) error {
		t.Helper()
		opt := opt
		opt.File = nil
		sum, err := engine.Resume(context.Background(), sum.Run, opt)
		if err == nil && sum.Status != want {
			t.Fatalf("%+v", sum)
		}
		return err
	}
	b.write("flow.yml", strings.Replace(main, "wc -c", "wc -m", 1))
	var changed *engine.ChangedError
	if err := resume(""); !errors.As(err, &changed) || !strings.Contains(changed.Diff, "wc -m") || strings.Contains(changed.Diff, cutSecret[:6]) {
		t.Fatalf("a changed file: %v", err)
	}
	if err := os.Remove(filepath.Join(b.dir, "flow.yml")); err != nil {
		t.Fatal(err)
	}
	if err := resume(""); err == nil || !strings.Contains(err.Error(), "put the file back") {
		t.Fatalf("a file that is gone: %v", err)
	}
	b.write("flow.yml", main)
	b.write("sub.yml", "secrets: {T: \"another-secret\"}\ncommands:\n  - shell: printf %s \"$T\" > $EV/sub\n")
	if err := resume(event.Failed); err != nil {
		t.Fatal(err)
	}
	b.mark("go")
	if err := resume(event.Succeeded); err != nil {
		t.Fatal(err)
	}
	r := &ran{bench: b}
	r.want("size", fmt.Sprint(len(cutSecret)))
	r.want("sub", "another-secret")
	for _, p := range pieces(t, b.home) {
		t.Error(p)
	}
}
