package engine_test

import (
	"errors"
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

// A worktree that is made anew, because it was lost or because the run's work was merged
// and more is to be done, is prepared also by a life after the one that was cut short at it.
func TestPreparedAnewCutShort(t *testing.T) {
	t.Parallel()
	const setup = "if [ -e $EV/again ] && [ ! -e $EV/on ]; then echo half > made.tmp; touch $EV/there; sleep 100; fi; echo made > made.tmp"
	for name, flow := range map[string]struct {
		work string
		lost bool
		more []string
		want string
	}{
		"lost": {
			work: "commands:\n  - shell: echo a > a.txt; git add a.txt; git commit -qm a\n  - shell: if [ ! -e $EV/again ]; then touch $EV/there; sleep 100; fi; cat .env made.tmp > got.txt\n",
			lost: true, more: []string{"resume", "-q", "-y"},
			want: "a.txt\nfirst.txt\nflow.yml\ngot.txt\nsecret\nmade\n?? .env",
		},
		"merged": {
			work: "mode: mapreduce\nmap:\n  input: [{id: 1}, {id: 2}]\n  agent_template:\n    - shell: if [ ${item.id} = 2 ] && [ ! -e $EV/again ]; then exit 1; fi; cat .env made.tmp > got${item.id}.txt\n",
			more: []string{"dlq", "retry", "-y", "last"},
			want: "first.txt\nflow.yml\ngot1.txt\ngot2.txt\nsecret\nmade\n?? .env",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.git()
			b.write("flow.yml", "isolation: worktree\nworktree:\n  copy: [.env]\n  setup: "+setup+"\n"+flow.work)
			if err := sh(b.dir, "git add . && git commit -qm flow"); err != nil {
				t.Fatal(err)
			}
			b.write(".env", "secret\n")
			evidence := func(name string) string { return filepath.Join(b.ev, name) }
			p := b.start("bide", "run", "-q", "-y", "flow.yml")
			if flow.lost {
				b.appears("there")
				for ended := false; !ended; { // the step that has committed must be on record
					_, state := b.recordedEvents()
					ended = state.Steps["commands[0]"].Status == event.Succeeded
				}
				p.crash(t, 0)
				b.quiet()
				dirs, err := filepath.Glob(filepath.Join(b.home, "worktrees", "*", "run"))
				if err != nil || len(dirs) != 1 {
					t.Fatalf("%q %v", dirs, err)
				}
				if err := errors.Join(os.RemoveAll(dirs[0]), os.Remove(evidence("there"))); err != nil {
					t.Fatal(err)
				}
			} else if status := p.wait(t); status != 1 && status != 3 {
				t.Fatalf("exit status %d: %s", status, p.text())
			}
			if err := os.WriteFile(evidence("again"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := b.start("bide", flow.more...)
			b.appears("there")
			r.crash(t, 0)
			b.quiet()
			if err := os.WriteFile(evidence("on"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r = b.start("bide", "resume", "-q", "-y")
			if status := r.wait(t); status != 0 && status != 3 {
				t.Errorf("exit status %d: %s", status, r.text())
			}
			if got := b.output("git ls-files; git show main:$(git ls-files 'got*' | tail -n 1); git status --porcelain"); got != flow.want {
				t.Errorf("merged: %s\n%s", got, r.text())
			}
		})
	}
}
