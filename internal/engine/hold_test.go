package engine_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// heldFlow is a map whose items fail with the same error until there were nine attempts. It
// is held, probed, and then completed without help.
const heldFlow = `
name: held
mode: mapreduce
isolation: none
map:
  input: seq 1 6
  max_parallel: 1
  agent_template:
    - shell: |
        touch $EV/bad
        if [ $(wc -l < $EV/bad) -lt 9 ]; then echo x >> $EV/bad; echo "item ${item}: the key has expired" >&2; exit 1; fi
        echo "done ${item}" >> $EV/log
reduce:
  - shell: echo "all ${map.successful} of ${map.total}" >> $EV/log
error_policy:
  max_recoveries: 1000
  same_error: {count: 3, close: 2, probe: {initial_delay: 2ms, backoff: fixed}}
`

// canaryFlow is a map that is held because its first items fail.
var canaryFlow = strings.Replace(strings.Replace(heldFlow, "max_parallel: 1\n", "max_parallel: 2\n  canary: 2\n", 1), "count: 3", "count: 30", 1)

// skippedFlow is heldFlow, but items that fail before the hold are skipped.
var skippedFlow = heldFlow + "  on_item_failure: skip\n"

// TestHeldRunIsKilledAtEachEvent: wherever a held run was killed, the resume ends it like
// an undisturbed run: no dead letter, and each item done.
func TestHeldRunIsKilledAtEachEvent(t *testing.T) {
	flows := map[string]string{"same error": heldFlow, "canary": canaryFlow}
	if chaos() > 0 {
		flows["skip"] = skippedFlow
	}
	for name, flow := range flows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedWhileHeld(t, flow)
		})
	}
}

func killedWhileHeld(t *testing.T, flow string) {
	t.Helper()
	held := false
	// The short form takes event 63. After it, an attempt has failed whose end is not on
	// record: the hold may be over when it is checked again.
	killedAtEach(t, flow, 3, 5, 0, func(k *kill) {
		held = held || k.state.Hold != nil
		if !k.resume() {
			return
		}
		lines := k.lines()
		slices.Sort(lines)
		lines = slices.Compact(lines)
		if got, want := strings.Join(lines, ", "), "all 6 of 6, done 1, done 2, done 3, done 4, done 5, done 6"; got != want {
			t.Errorf("event %d: %q, want %q", k.at, got, want)
		}
		if c := k.state.Items.Counts(); c.Succeeded != 6 || c.DeadLettered != 0 || c.Skipped != 0 || k.state.Hold != nil {
			t.Errorf("event %d: %+v, held %s", k.at, c, k.state.Hold)
		}
	})
	if !held {
		t.Error("no run was killed while it was held")
	}
}

// kill is a run that was killed at an event.
type kill struct {
	*bench
	at     int
	status int // the exit status that a resume must have
	events []event.Event
	state  *journal.State
}

// resume completes the run. It is false if the run had ended before.
func (k *kill) resume() bool {
	k.t.Helper()
	if !k.state.Finished.IsZero() {
		return false
	}
	r := k.start("bide", "resume", "-q")
	if status := r.wait(k.t); status != k.status {
		k.t.Fatalf("event %d: resume: exit status %d: %s", k.at, status, r.out.String())
	}
	k.quiet()
	k.events, k.state = k.recordedEvents()
	return true
}

// killedAtEach runs a file that ends with an exit status, and kills it at its events, in a
// new run each time. look checks each of these runs. The long form takes every event; the
// short form takes every step-th or fewer, beginning with first.
func killedAtEach(t *testing.T, flow string, first, step, status int, look func(k *kill)) {
	t.Helper()
	if step = every(step); step == 1 {
		first = 1
	}
	for at := first; ; at += step {
		if at > 500 {
			t.Fatal("the run has no end")
		}
		b := newBench(t)
		b.write("flow.yml", flow)
		p := b.start("die-at", strconv.Itoa(at), "committed")
		got := p.wait(t)
		b.quiet()
		if got == status {
			return
		}
		if got != -1 {
			t.Fatalf("event %d: exit status %d: %s", at, got, p.out.String())
		}
		k := &kill{bench: b, at: at, status: status}
		k.events, k.state = b.recordedEvents()
		look(k)
	}
}

// repairFlow is a map that only the repair in its on_hold can repair. The repair is cut
// short when it runs for the first time.
const repairFlow = `
name: repair
mode: mapreduce
isolation: none
map:
  input: seq 1 6
  max_parallel: 2
  agent_template:
    - shell: |
        echo x >> $EV/tries
        test -e $EV/key || { echo "item ${item}: the key has expired" >&2; exit 1; }
        echo "done ${item}" >> $EV/log
error_policy:
  same_error:
    count: 3
    close: 1
    max_hold: 1m
    probe: {initial_delay: 5ms, backoff: fixed}
    on_hold:
      - shell: echo "told ${hold.items}, ${hold.text}" >> $EV/log
      - shell: |
          echo "${hold.items}, ${hold.text}" >> $EV/texts
          if mkdir $EV/first; then
            until test $(wc -l < $EV/tries) -gt 6; do sleep 0.01; done # a probe has failed meanwhile
            touch $EV/cut
            sleep 60
          fi
      - shell: echo mended >> $EV/log; touch $EV/key
`

// TestRepairThatWasCutShortRunsAgain: on_hold belongs to a hold and not to a process. Its
// steps that had not ended run again in the next process, with the texts that they had.
// Steps that had ended do not.
func TestRepairThatWasCutShortRunsAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench, p *process){
		"kill": func(b *bench, p *process) { p.crash(b.t, 0) },
		"stop": func(b *bench, p *process) {
			b.bide("stop", "--now", "last")
			if status := p.wait(b.t); status != 130 {
				b.t.Errorf("exit status %d", status)
			}
			if strings.Contains(p.text(), "on_hold failed") {
				b.t.Errorf("what was stopped has not failed: %s", p.text())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("flow.yml", repairFlow)
			p := b.start("bide", "run", "flow.yml")
			b.appears("cut")
			b.onRecord(func(e event.Event) bool { return e.Type == event.StepFinished && strings.Contains(e.Step, "on_hold") })
			end(b, p)
			b.quiet()
			p = b.start("bide", "resume")
			if status := p.wait(t); status != 0 {
				t.Fatalf("exit status %d: %s", status, p.text())
			}
			lines := b.lines()
			slices.Sort(lines)
			got := strings.Join(lines, "\n")
			if want := "done 1\ndone 2\ndone 3\ndone 4\ndone 5\ndone 6\nmended\ntold 3, the map is held: 3 items failed"; !strings.HasPrefix(got, want) || strings.Count(got, "told") != 1 {
				t.Errorf("done:\n%s\nwant:\n%s", got, want)
			}
			if texts := strings.Split(strings.TrimSpace(b.evidence("texts")), "\n"); len(texts) != 2 || texts[0] != texts[1] {
				t.Errorf("the texts of the hold:\n%s", strings.Join(texts, "\n"))
			}
		})
	}
}

// TestStopWhileAProbeRuns: a probe ends in the grace of a stop, with the failure for which
// the map is held. That costs its item no more than any other failure: it is no dead
// letter.
func TestStopWhileAProbeRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("flow.yml", `
map:
  input: seq 1 6
  max_parallel: 2
  agent_template:
    - shell: |
        if [ "$BIDE_PROBE" = 1 ]; then touch $EV/probe; until test -e $EV/stopping; do sleep 0.01; done; fi
        test -e $EV/key || { echo "item ${item}: the key has expired" >&2; exit 1; }
        echo "done ${item}" >> $EV/log
error_policy:
  same_error: {count: 3, close: 1, probe: {initial_delay: 5ms}}
`)
	p := b.start("bide", "run", "flow.yml")
	b.appears("probe")
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.waitFor(t, "interrupted")
	b.touch("stopping")
	if status := p.wait(t); status != 130 {
		t.Fatalf("exit status %d: %s", status, p.text())
	}
	_, state := b.recordedEvents()
	if c := state.Items.Counts(); c.Failed != 0 || state.Hold == nil {
		t.Errorf("stopped: %+v, held by %s", c, state.Hold)
	}
	b.touch("key")
	p = b.start("bide", "resume")
	if status := p.wait(t); status != 0 {
		t.Fatalf("exit status %d: %s", status, p.text())
	}
	lines := b.lines()
	slices.Sort(lines)
	if got, want := strings.Join(lines, ", "), "done 1, done 2, done 3, done 4, done 5, done 6"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
