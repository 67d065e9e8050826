package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// A worktree is prepared again if its preparation was cut short, or if the worktree was
// lost and made again. What the preparation adds is in no commit.
func TestPreparedAgain(t *testing.T) {
	t.Parallel()
	const wait = "if [ ! -e $EV/on ]; then touch $EV/there; sleep 100; fi"
	for name, flow := range map[string]struct {
		setup, step string
		gone        bool
	}{
		"cut short": {setup: wait + "; echo made > made.tmp", step: "true"},
		"gone":      {setup: "echo made > made.tmp", step: wait, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.git()
			b.write("flow.yml", "isolation: worktree\nworktree:\n  copy: [.env]\n  setup: |\n    "+flow.setup+"\ncommands:\n  - shell: echo a > a.txt; git add a.txt; git commit -qm a\n  - shell: "+flow.step+"; cat .env made.tmp > got.txt\n")
			if err := sh(b.dir, "git add . && git commit -qm flow"); err != nil {
				t.Fatal(err)
			}
			b.write(".env", "secret\n")
			p := b.start("bide", "run", "-q", "-y", "flow.yml")
			b.appears("there")
			for ended := !flow.gone; !ended; { // the step that has committed must be on record
				_, state := b.recordedEvents()
				ended = state.Steps["commands[0]"].Status == event.Succeeded
			}
			p.crash(t, 0)
			b.quiet()
			if flow.gone {
				dirs, err := filepath.Glob(filepath.Join(b.home, "worktrees", "*", "run"))
				if err != nil || len(dirs) != 1 {
					t.Fatalf("%q %v", dirs, err)
				}
				if err := os.RemoveAll(dirs[0]); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(b.ev, "on"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := b.start("bide", "resume", "-q", "-y")
			want := 0
			if flow.gone {
				want = 3 // it is not known what the first step may have left uncommitted
			}
			if status := r.wait(t); status != want {
				t.Fatalf("exit status %d: %s", status, r.text())
			}
			if got := b.output("git ls-files; git show main:got.txt; git status --porcelain"); got != "a.txt\nfirst.txt\nflow.yml\ngot.txt\nsecret\nmade\n?? .env" {
				t.Errorf("merged: %s", got)
			}
		})
	}
}
