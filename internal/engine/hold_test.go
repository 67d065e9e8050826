package engine_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
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

// TestHeldRunIsKilledAtEachEvent: whatever the hold was at when the run was killed, the
// resume ends it as a run that nobody disturbed: no dead letter, each item done.
func TestHeldRunIsKilledAtEachEvent(t *testing.T) {
	for name, flow := range map[string]string{"same error": heldFlow, "canary": canaryFlow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedWhileHeld(t, flow)
		})
	}
}

func killedWhileHeld(t *testing.T, flow string) {
	t.Helper()
	// The short form has event 63, after which an attempt has failed of which the end is
	// not on record: the hold may be over when it is looked at again.
	first, step := 3, 5
	if chaos() > 0 {
		first, step = 1, 1
	}
	held := false
	for at := first; ; at += step {
		if at > 500 {
			t.Fatal("the run has no end")
		}
		b := newBench(t)
		b.write("flow.yml", flow)
		p := b.start("die-at", strconv.Itoa(at), "committed")
		status := p.wait(t)
		b.quiet()
		if status == 0 {
			break
		}
		if status != -1 {
			t.Fatalf("event %d: exit status %d: %s", at, status, p.out.String())
		}
		_, state := b.recordedEvents()
		held = held || state.Hold != nil
		if state.Status == event.Succeeded {
			continue
		}
		r := b.start("bide", "resume", "-q")
		if status := r.wait(t); status != 0 {
			t.Fatalf("event %d: resume: exit status %d: %s", at, status, r.out.String())
		}
		b.quiet()
		lines := b.lines()
		slices.Sort(lines)
		lines = slices.Compact(lines)
		if got, want := strings.Join(lines, ", "), "all 6 of 6, done 1, done 2, done 3, done 4, done 5, done 6"; got != want {
			t.Errorf("event %d: %q, want %q", at, got, want)
		}
		_, state = b.recordedEvents()
		if c := state.Items.Counts(); c.Succeeded != 6 || c.DeadLettered != 0 || state.Hold != nil {
			t.Errorf("event %d: %+v, held %s", at, c, state.Hold)
		}
	}
	if !held {
		t.Error("no run was killed while it was held")
	}
}
