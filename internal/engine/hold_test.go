package engine_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// heldFlow is a map whose items fail alike until nine attempts have: it is held, probed,
// and comes to its end by itself.
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

// canaryFlow is a map whose first items fail, by which it is held.
var canaryFlow = strings.Replace(strings.Replace(heldFlow, "max_parallel: 1\n", "max_parallel: 2\n  canary: 2\n", 1), "count: 3", "count: 30", 1)

// skippedFlow is heldFlow, and what fails before the map is held is left out.
var skippedFlow = heldFlow + "  on_item_failure: skip\n"

// TestHeldRunIsKilledAtEachEvent: whatever the hold was at when the run was killed, the
// resume ends it as a run that nobody disturbed: no dead letter, each item done.
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
	// The short form has event 63, after which an attempt has failed of which the end is
	// not on record: the hold may be over when it is looked at again.
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
	status int // with which a resume is to end
	events []event.Event
	state  *journal.State
}

// resume takes the run to its end. It is false where it had ended before.
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

// killedAtEach runs a file that ends with an exit status, kills it at its events, each time
// anew, and has each such run looked at: at every one in the long form, else from first on,
// by step.
func killedAtEach(t *testing.T, flow string, first, step, status int, look func(k *kill)) {
	t.Helper()
	if chaos() > 0 {
		first, step = 1, 1
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
