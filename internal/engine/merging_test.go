package engine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

const mergingFlow = `
name: merging
mode: mapreduce
isolation: worktree
map:
  input: [{id: a}, {id: b}, {id: c}]
  max_parallel: 1
  agent_template:
    - shell: |
        echo "start ${item.id} $BIDE_ATTEMPT" >> $EV/log
        echo ${item.id} > made-${item.id} && git add . && git commit -qm ${item.id} || true
        echo out-${item.id}
      commit_required: true
reduce:
  - shell: echo "reduce ${map.successful} ${map.results[1].output}" >> $EV/log
`

// TestKilledAroundAMerge ends a run just before the work of an item is merged, or just
// after that, before the item's end is recorded. The resume ends an item whose work is
// merged without running it: it would have nothing left to commit.
func TestKilledAroundAMerge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, at, when string
		starts         int // of item b
	}{
		{"before", "item_merging/b", "committed", 1}, // its step is over
		{"after", "item_finished/b", "at-once", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := killedInMerge(t, c.at, c.when)
			r := b.start("bide", "resume", "-y", "-q")
			if status := r.wait(t); status != 0 {
				t.Fatalf("resume: exit status %d: %s", status, r.text())
			}
			starts := 0
			for _, line := range b.lines() {
				if strings.HasPrefix(line, "start b ") {
					starts++
				}
			}
			if last := b.lines()[len(b.lines())-1]; starts != c.starts || last != "reduce 3 out-b" {
				t.Errorf("item b was started %d times, want %d: %q", starts, c.starts, b.lines())
			}
			events, state := b.recordedEvents()
			if e := ended(events, "b"); e == nil || e.Attempts != 1 || !strings.Contains(string(e.Data), "out-b") || !strings.Contains(string(e.Data), "commits") {
				t.Errorf("%+v", e)
			}
			if n := state.Items.Counts().Succeeded; n != 3 {
				t.Errorf("%d items succeeded", n)
			}
			for _, id := range []string{"a", "b", "c"} {
				if got := b.output("git show main:made-" + id); got != id {
					t.Errorf("main has %q in made-%s", got, id)
				}
			}
			if got := b.output("git log --merges --format=%s main | grep -c 'item b$'"); got != "1" {
				t.Errorf("the work of item b was merged %s times", got)
			}
			if got := b.output("git worktree list --porcelain | grep -c ^worktree"); got != "1" {
				t.Errorf("worktrees are left: %s", got)
			}
		})
	}
}

// killedInMerge gives a run that was killed at an event, before it recorded the end of item
// b. The writer of the journal may be faster than the kill; then it makes another run.
func killedInMerge(t *testing.T, at, when string) *bench {
	t.Helper()
	for range 20 {
		b := newBench(t)
		b.git()
		b.write("flow.yml", mergingFlow)
		if err := sh(b.dir, "git add . && git commit -qm files"); err != nil {
			t.Fatal(err)
		}
		if status := b.start("die-at", at, when).wait(t); status != -1 {
			t.Fatalf("exit status %d", status)
		}
		b.quiet()
		if events, _ := b.recordedEvents(); ended(events, "b") == nil {
			return b
		}
	}
	t.Fatal("the end of the item is always on record")
	return nil
}

// ended gives the item_finished of an item; nil if there is none.
func ended(events []event.Event, id string) *event.Event {
	i := slices.IndexFunc(events, func(e event.Event) bool { return e.Type == event.ItemFinished && e.Item == id })
	if i < 0 {
		return nil
	}
	return &events[i]
}

// TestErrorsOfEarlierLives: the error classes in the summary are those of the whole run,
// not only of its last process.
func TestErrorsOfEarlierLives(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("flow.yml", `
name: errors
mode: mapreduce
map:
  input: [{id: a, code: 3}, {id: b, code: 4}, {id: c, code: 0}, {id: d, code: 3}]
  max_parallel: 1
  agent_template:
    - shell: test -e $EV/mended || test ${item.code} = 0 || exit ${item.code}
`)
	if status := b.start("die-at", "item_started/d", "committed").wait(t); status != -1 {
		t.Fatalf("exit status %d", status)
	}
	b.quiet()
	r := b.resume(t.Context())
	if len(r.sum.Errors) != 1 || r.sum.Errors[0].Class != "exit" || r.sum.Errors[0].Count != 3 || r.sum.Errors[0].Item != "a" {
		t.Errorf("%+v", r.sum.Errors)
	}
	if r.sum.Items.Failed != 3 {
		t.Errorf("%+v", r.sum.Items)
	}
}

// TestItemsTakeAwayWhatSetupLeft: an item moves a file that setup left uncommitted. The
// file is then where the item moved it, and nowhere else. A file that an item only might
// have changed stays.
func TestItemsTakeAwayWhatSetupLeft(t *testing.T) {
	t.Parallel()
	for name, commit := range map[string]string{"committed": "git add -A && git commit -qm moved", "left": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.git()
			b.write("flow.yml", strings.ReplaceAll(`
name: moving
mode: mapreduce
isolation: worktree
setup:
  - shell: mkdir todo && for i in a b c; do echo $i > todo/$i; done
map:
  input: [{id: a}, {id: b}]
  max_parallel: 2
  agent_template:
    - shell: mkdir done && mv todo/${item.id} done/ && @COMMIT@
reduce:
  - shell: ls todo done > $EV/seen
`, "@COMMIT@", commit))
			if err := sh(b.dir, "git add . && git commit -qm flow"); err != nil {
				t.Fatal(err)
			}
			p := b.start("bide", "run", "-y", "flow.yml")
			if status := p.wait(t); status != 0 {
				t.Fatalf("exit status %d: %s", status, p.text())
			}
			if got, want := b.output("git ls-tree -r --name-only main"), "done/a\ndone/b\nfirst.txt\nflow.yml\ntodo/c"; got != want {
				t.Errorf("main has\n%s\nwant\n%s", got, want)
			}
			if got, want := b.output("cat ../ev/seen"), "done:\na\nb\n\ntodo:\nc"; got != want {
				t.Errorf("reduce saw\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestBeginsAnewAndIsKilled: if a step that was cut short fails, its item begins again in a
// worktree that was put back. After a kill just then, steps whose files are gone must not
// count as done.
func TestBeginsAnewAndIsKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.write("flow.yml", `
name: anew
mode: mapreduce
isolation: worktree
error_policy: {max_recoveries: 1000}
map:
  input: [{id: a}]
  agent_template:
    - shell: echo one > one
    - shell: |
        [ -e one ] || echo "the file of the first step is gone" >> $EV/lost
        case $(cat $EV/life) in
        1) sleep 0.2; kill -9 $(cat $EV/pid); sleep 60 ;; # its start is on record by then
        2) echo 2a > $EV/life; exit 1 ;;
        esac
        echo two > two
`)
	if err := sh(b.dir, "git add . && git commit -qm flow"); err != nil {
		t.Fatal(err)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	if err := sh(filepath.Dir(b.dir), "cat > bin/git <<'EOF'\n#!/bin/sh\n"+git+` "$@" || exit
case "$(cat $EV/life) $*" in "2a "*" clean "*) kill -9 $(cat $EV/pid);; esac
EOF
chmod +x bin/git`); err != nil {
		t.Fatal(err)
	}
	var said []string
	for life := 1; ; life++ {
		if err := os.WriteFile(filepath.Join(b.ev, "life"), []byte(strconv.Itoa(life)), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"resume", "-y"}
		if life == 1 {
			args = []string{"run", "-y", "flow.yml"}
		}
		p := b.start("bide", args...)
		if err := os.WriteFile(filepath.Join(b.ev, "pid"), []byte(strconv.Itoa(p.Process.Pid)), 0o644); err != nil {
			t.Fatal(err)
		}
		status := p.wait(t)
		b.quiet()
		if said = append(said, p.text()); status == -1 && life < 3 {
			continue
		}
		if status != 0 || life != 3 {
			t.Fatalf("life %d: exit status %d: %q", life, status, said)
		}
		break
	}
	if got := b.output("cat ../ev/lost 2>/dev/null; git ls-tree --name-only main"); got != "first.txt\nflow.yml\none\ntwo" {
		t.Errorf("%s\n%q", got, said)
	}
}
