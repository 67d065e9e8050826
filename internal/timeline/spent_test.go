package timeline

import (
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// spent fails the test where a row says something else of its time.
func spent(t *testing.T, what string, r *Row, now time.Time, ran, waited time.Duration) {
	t.Helper()
	if gotRan, gotWaited := r.Spent(now); gotRan != ran || gotWaited != waited {
		t.Errorf("%s: it ran %s and waited %s, want %s and %s", what, gotRan, gotWaited, ran, waited)
	}
}

// TestRunningAndWaitingAreTwoThings: a call that was queued for seconds and ran
// for milliseconds says both.
func TestRunningAndWaitingAreTwoThings(t *testing.T) {
	t.Parallel()
	line := told(journal.Header{Kind: "pipeline"},
		event.Event{Type: event.RunStarted, Time: at(0)},
		event.Event{Type: event.StepStarted, Step: "pages[0].Get", Label: "pages[0] = Get", Time: at(0)},
		event.Event{Type: event.StepStarted, Step: "pages[1].Get", Label: "pages[1] = Get", Time: at(0)},
		event.Event{Type: event.AttemptStarted, Step: "pages[0].Get", Attempt: 1, Time: at(0)},
	)
	one, two, list := line.Row("pages[0].Get"), line.Row("pages[1].Get"), line.Row("pages")
	if one.Status != event.Running || two.Status != Waiting {
		t.Errorf("one is %s, the other %s", one.Status, two.Status)
	}
	spent(t, "running", one, at(3), 3*time.Second, 0)
	spent(t, "queued", two, at(3), 0, 3*time.Second)
	spent(t, "the list", list, at(3), 3*time.Second, 0)
	if w, ok := two.Turn(at(3)); !ok || w.From != at(0) || w.Source != event.FromLimit {
		t.Errorf("the queued one waits %+v, %v", w, ok)
	}
	for i, e := range []event.Event{
		{Type: event.StepFinished, Step: "pages[0].Get", Status: event.Succeeded, Attempts: 1, Time: at(4)},
		{Type: event.AttemptStarted, Step: "pages[1].Get", Attempt: 1, Time: at(6), Data: []byte(`{"waited_ms":6000}`)},
		{Type: event.AttemptFailed, Step: "pages[1].Get", Attempt: 1, Time: at(7)},
		{Type: event.RetryScheduled, Step: "pages[1].Get", Attempt: 1, DelayMS: 10_000, Time: at(7)},
	} {
		e.Seq = int64(5 + i)
		line.Apply(e)
	}
	spent(t, "in its backoff", two, at(10), time.Second, 9*time.Second)
	spent(t, "the list", list, at(10), 5*time.Second, 5*time.Second)
	if got, want := line.Now("RUN", at(10), journal.Counts{}, time.Time{}), "pages[1] = Get waits: attempt 2 follows in 7s."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	// The delay is over, and there is no slot.
	spent(t, "queued again", two, at(20), time.Second, 19*time.Second)
	if got, want := line.Now("RUN", at(20), journal.Counts{}, time.Time{}), "pages[1] = Get waits for its turn."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	for i, e := range []event.Event{
		{Type: event.AttemptStarted, Step: "pages[1].Get", Attempt: 2, Time: at(21), Data: []byte(`{"waited_ms":4000}`)},
		{Type: event.StepFinished, Step: "pages[1].Get", Status: event.Degraded, Attempts: 2, Time: at(21.5)},
		{Type: event.RunFinished, Status: event.Succeeded, Time: at(21.5)},
	} {
		e.Seq = int64(9 + i)
		line.Apply(e)
	}
	spent(t, "at its end", two, at(100), 1500*time.Millisecond, 20*time.Second)
	if status, done := list.Told(journal.Counts{}); status != event.Degraded || done != "2 of 2, 1 degraded" {
		t.Errorf("the list is %s, %s", status, done)
	}
	if got, want := line.Now("RUN", at(100), journal.Counts{}, time.Time{}), "It succeeded after 22s; 1 call by a fallback."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// TestDeadTimeIsNeither: a step whose process died neither ran nor waited until
// the run was resumed, and then waits the rest of its delay.
func TestDeadTimeIsNeither(t *testing.T) {
	t.Parallel()
	line := told(journal.Header{Kind: "workflow"},
		event.Event{Type: event.RunStarted, Time: at(0)},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Time: at(0)},
		event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1, Time: at(0)},
		event.Event{Type: event.AttemptFailed, Step: "commands[0]", Attempt: 1, Time: at(1)},
		event.Event{Type: event.RetryScheduled, Step: "commands[0]", Attempt: 1, DelayMS: 10_000, Time: at(1), Data: []byte(`{"source":"retry_after"}`)},
		event.Event{Type: event.Note, Message: "the last sign of life", Time: at(3)},
	)
	line.Gone()
	row := line.Row("commands[0]")
	spent(t, "dead", row, at(50), time.Second, 2*time.Second)
	for i, e := range []event.Event{
		{Type: event.RunResumed, Time: at(100)},
		{Type: event.StepStarted, Step: "commands[0]", Time: at(100)},
	} {
		e.Seq = int64(7 + i)
		line.Apply(e)
	}
	spent(t, "resumed", row, at(103), time.Second, 5*time.Second)
	line.Apply(event.Event{Seq: 9, Type: event.AttemptStarted, Step: "commands[0]", Attempt: 2, Time: at(108)})
	spent(t, "running again", row, at(109), 2*time.Second, 10*time.Second)
	if n := len(row.Waits); n != 2 || row.Waits[1].Source != event.FromRetryAfter || !row.Waits[0].To.Equal(at(3)) {
		t.Errorf("the waits are %+v", row.Waits)
	}
	if s := line.Waited[event.FromRetryAfter]; s.Total != 10*time.Second {
		t.Errorf("they sum up to %+v", s)
	}
}

// TestMapWithFailures: a map of which items failed is no success.
func TestMapWithFailures(t *testing.T) {
	t.Parallel()
	line := told(journal.Header{Kind: "mapreduce"},
		event.Event{Type: event.RunStarted, Time: at(0)},
		event.Event{Type: event.PhaseStarted, Phase: "map", Time: at(0)},
		event.Event{Type: event.PhaseFinished, Phase: "map", Status: event.Succeeded, Time: at(9)},
	)
	row := line.Row("map")
	for want, n := range map[string]journal.Counts{
		event.CompletedWithFailures + " 98\u202f800 of 100\u202f000, 1\u202f200 failed": {Total: 100_000, Succeeded: 98_800, Failed: 1200, DeadLettered: 1200},
		event.Succeeded + " 9 of 10, 1 skipped":                                         {Total: 10, Succeeded: 9, Skipped: 1},
		event.Succeeded + " ":                                                           {},
	} {
		if status, done := row.Told(n); status+" "+done != want {
			t.Errorf("of %+v it says %q %q, want %q", n, status, done, want)
		}
	}
	spent(t, "the map", row, at(50), 9*time.Second, 0)

	// What nobody failed at may still be no success; a page knows it from the end.
	line.Apply(event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures, Time: at(10), Data: []byte(`{"items":{"degraded":5,"tolerated":2}}`)})
	counts := journal.Counts{Total: 10, Succeeded: 9, Failed: 1, KindCounts: line.ItemKinds}
	if got, want := line.Now("RUN", at(50), counts, time.Time{}), "; 1 item failed for good, 2 failed and tolerated, 5 degraded."; !strings.HasSuffix(got, want) {
		t.Errorf("it says %q, want …%q", got, want)
	}
	if status, done := row.Told(counts); status+" "+done != event.CompletedWithFailures+" 9 of 10, 1 failed, 5 degraded, 2 tolerated" {
		t.Errorf("it says %q %q", status, done)
	}
}

// TestRoundsAndKinds: a step in a foreach says what its round is for, and one
// that ended well by other means than its own says so.
func TestRoundsAndKinds(t *testing.T) {
	t.Parallel()
	line := told(journal.Header{Kind: "workflow"},
		event.Event{Type: event.RunStarted, Time: at(0)},
		event.Event{Type: event.StepStarted, Step: "commands[0].do[0]@0", Label: "test ${item}", Time: at(0), Data: []byte(`{"action":"shell","for":"linux"}`)},
		event.Event{Type: event.StepFinished, Step: "commands[0].do[0]@0", Label: "test ${item}", Status: event.Succeeded, Time: at(1), Data: []byte(`{"recovered":true}`)},
		event.Event{Type: event.StepStarted, Step: "commands[0].do[0]@1", Label: "test", Time: at(1), Data: []byte(`{"for":"darwin"}`)},
		event.Event{Type: event.StepFinished, Step: "commands[0].do[0]@1", Label: "test", Status: event.Failed, Time: at(2), Data: []byte(`{"tolerated":true}`)},
		event.Event{Type: event.RunFinished, Status: event.Succeeded, Time: at(2)},
	)
	got := ""
	for _, r := range line.Rows() {
		got += r.Label + " is " + r.Status + "; "
	}
	if want := "test linux is recovered; test · darwin is tolerated; "; got != want {
		t.Errorf("the rows: %s want %s", got, want)
	}
	if got, want := line.Now("RUN", at(3), journal.Counts{}, time.Time{}), "It succeeded after 2s; 1 step by a handler, 1 failed and tolerated."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
