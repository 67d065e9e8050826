package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// paidFlow is a map whose first step must not run twice: it costs money, and the other
// steps read its result. In worktrees, the work is committed.
const paidFlow = `
name: paid
mode: mapreduce
isolation: @ISOLATION@
map:
  input: [{id: a}, {id: b}]
  max_parallel: 1
  agent_template:
    - shell: |
        echo "paid ${item.id}" >> $EV/log
        while [ -e $EV/hold ]; do sleep 0.01; done
        echo paid > paid-${item.id}
        @COMMIT@
        echo answer-${item.id}
      capture: answer
    - foreach: [x, y]
      do:
        - shell: echo "part ${item}" >> $EV/log; echo ${answer} > ${item}-${item_id}
    - shell: |
        @COMMIT@
        echo "end ${item_id} ${answer}" >> $EV/log
        echo out-${answer}
reduce:
  - shell: echo reduce ${map.results[0].output} ${map.results[1].output} >> $EV/log
`

func newPaid(t *testing.T, isolation string) *bench {
	t.Helper()
	b := newBench(t)
	commit := "true"
	if isolation == "worktree" {
		b.git()
		commit = "git add . && git commit -qm ${item.id}"
	}
	b.write("flow.yml", strings.NewReplacer("@ISOLATION@", isolation, "@COMMIT@", commit).Replace(paidFlow))
	if isolation == "worktree" {
		if err := sh(b.dir, "git add . && git commit -qm files"); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// checkPaid compares what is there with what an uninterrupted run leaves.
func (b *bench) checkPaid(isolation string, finished map[string]int) {
	b.t.Helper()
	count := map[string]int{}
	lines := b.lines()
	for _, line := range lines {
		count[line]++
	}
	for _, id := range []string{"a", "b"} {
		if n := count["paid "+id]; n != 1 && finished["agent_template[0] "+id] > 0 {
			b.t.Errorf("the first step of item %s ended, and was run %d times: %q", id, n, lines)
		}
		if count[fmt.Sprintf("end %s answer-%s", id, id)] == 0 {
			b.t.Errorf("item %s: %q", id, lines)
		}
		if isolation != "worktree" {
			continue
		}
		for name, want := range map[string]string{"paid-": "paid", "x-": "answer-" + id, "y-": "answer-" + id} {
			if got := b.output("git show main:" + name + id); got != want {
				b.t.Errorf("main has %q in %s%s", got, name, id)
			}
		}
	}
	if last := lines[len(lines)-1]; last != "reduce answer-a out-answer-a answer-b out-answer-b" {
		b.t.Errorf("%q", lines)
	}
	if isolation == "worktree" {
		if got := b.output("git worktree list --porcelain | grep -c ^worktree; git branch | grep -c ."); got != "1\n1" {
			b.t.Errorf("worktrees and branches are left: %s", b.output("git worktree list; git branch -a"))
		}
	}
}

// TestFinishedStepsOfItemsKilled kills a run at each event (some of them in a normal run):
// a step of an item that has ended does not run again.
func TestFinishedStepsOfItemsKilled(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"none", "worktree"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			stride := every(5)
			for at := 6 + rand.IntN(stride); ; at += stride {
				b := newPaid(t, isolation)
				p := b.start("die-at", fmt.Sprint(at), "committed")
				if p.wait(t) != -1 {
					return // it has fewer events
				}
				b.quiet()
				events, state := b.recordedEvents()
				if state.Status != "" && state.Status != event.Running {
					return
				}
				finished := map[string]int{}
				for _, e := range events {
					if e.Type == event.StepFinished && e.Item != "" {
						finished[e.Step+" "+e.Item]++
					}
				}
				r := b.start("bide", "resume", "-q", "-y")
				if status := r.wait(t); status != 0 {
					t.Fatalf("event %d: resume: exit status %d: %s", at, status, r.text())
				}
				b.checkPaid(isolation, finished)
				if t.Failed() {
					t.Fatalf("it was killed at event %d", at)
				}
			}
		})
	}
}

// TestFinishedStepsOfItemsInterrupted stops a run during the first step of an item. The
// step is completed, and the resumed item continues with the next one.
func TestFinishedStepsOfItemsInterrupted(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"none", "worktree"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			b := newPaid(t, isolation)
			hold := filepath.Join(b.ev, "hold")
			if err := os.WriteFile(hold, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			soft, stop := context.WithCancel(context.Background())
			defer stop()
			b.opt.Soft, b.opt.Yes, b.opt.Isolation = soft, true, isolation
			b.opt.Sinks = []event.Sink{event.SinkFunc(func(e event.Event) {
				if e.Type == event.AttemptStarted && e.Item == "a" {
					stop()
					if err := os.Remove(hold); err != nil {
						t.Error(err)
					}
				}
			})}
			text, err := os.ReadFile(filepath.Join(b.dir, "flow.yml"))
			if err != nil {
				t.Fatal(err)
			}
			r := b.run(string(text))
			r.status(event.Interrupted)
			r.want("log", "paid a")
			b.opt.Sinks = nil
			b.resume(t.Context()).status(event.Succeeded)
			b.checkPaid(isolation, map[string]int{"agent_template[0] a": 1})
		})
	}
}
