package timeline

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

var zero = time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)

// told folds events that happen at the given seconds.
func told(h journal.Header, events ...event.Event) *Timeline {
	h.Started = zero
	t := New(h)
	for i, e := range events {
		e.Seq = int64(i + 1)
		t.Apply(e)
	}
	return t
}

func at(s float64) time.Time { return zero.Add(time.Duration(s * float64(time.Second))) }

func TestAttemptsAndWaits(t *testing.T) {
	t.Parallel()
	line := told(journal.Header{Name: "n", Kind: "workflow", Path: "n.yml", Source: []byte("commands:\n  - shell: \"true\"\n    name: up\n  - shell: \"true\"\n    name: later\n")},
		event.Event{Type: event.RunStarted, Time: at(0)},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Label: "up", Time: at(0)},
		event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1, Time: at(0), Data: []byte(`{"waited_ms":0}`)},
		event.Event{Type: event.AttemptFailed, Step: "commands[0]", Attempt: 1, Class: "exit", Message: "no", Time: at(1)},
		event.Event{Type: event.RetryScheduled, Step: "commands[0]", Attempt: 1, DelayMS: 4000, Time: at(1), Data: []byte(`{"source":"retry_after","delay_ns":4000000000,"least_ns":1,"greatest_ns":5}`)},
		event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 2, Time: at(5)},
		event.Event{Type: event.StepFinished, Step: "commands[0]", Status: event.Succeeded, Attempts: 2, Time: at(7)},
	)
	rows := line.Rows()
	if len(rows) != 2 || rows[0].Label != "up" || rows[1].Label != "later" || rows[1].Status != event.Pending {
		t.Fatalf("the rows are %+v", rows)
	}
	up := rows[0]
	if len(up.Attempts) != 2 || up.Attempts[0].Status != event.Failed || !up.Attempts[0].To.Equal(at(1)) || up.Attempts[1].Status != event.Succeeded || !up.Attempts[1].To.Equal(at(7)) {
		t.Errorf("the attempts are %+v", up.Attempts)
	}
	if len(up.Waits) != 1 || up.Waits[0].Source != event.FromRetryAfter || !up.Waits[0].To.Equal(at(5)) || up.Waits[0].Greatest != 5 {
		t.Errorf("the waits are %+v", up.Waits)
	}
	if s := line.Waited[event.FromRetryAfter]; s.Count != 1 || s.Total != 4*time.Second {
		t.Errorf("the waits sum up to %+v", line.Waited)
	}
}

// TestUnmergedIsToldByTheLastLife: what a life leaves unmerged is no news once the next
// one has merged it.
func TestUnmergedIsToldByTheLastLife(t *testing.T) {
	t.Parallel()
	left := event.Event{Type: event.Note, Class: event.Unmerged, Message: "left"}
	events := []event.Event{{Type: event.RunStarted}, {Type: event.Note, Message: "other"}, left, {Type: event.RunFinished}, {Type: event.RunResumed}}
	if got := strings.Join(told(journal.Header{}, events...).Notes, " "); got != "other" {
		t.Errorf("after all is merged the notes are %q", got)
	}
	if got := strings.Join(told(journal.Header{}, append(events, left)...).Notes, " "); got != "other left" {
		t.Errorf("where some is left again the notes are %q", got)
	}
	merged := event.Event{Type: event.Note, Class: event.Unmerged, Message: "merged"}
	if got := strings.Join(told(journal.Header{}, append(events, left, event.Event{Type: event.RunFinished}, merged)...).Notes, " "); got != "other merged" {
		t.Errorf("once a command has merged it the notes are %q", got)
	}
}

// TestPassingNotesAreNotKept: what is true when it is told, such as how long a rate limit
// lasts, is no note of the run.
func TestPassingNotesAreNotKept(t *testing.T) {
	t.Parallel()
	events := []event.Event{{Type: event.RunStarted}, {Type: event.Note, Message: "other"}, {Type: event.Note, Class: event.Passing, Message: "agents wait 22h more"}}
	if got := told(journal.Header{}, events...).Notes; !slices.Equal(got, []string{"other"}) {
		t.Errorf("the notes are %q", got)
	}
}

// TestRoundsHaveNoRow: that a round began is for a resume to know; what is shown are the
// steps in it.
func TestRoundsHaveNoRow(t *testing.T) {
	t.Parallel()
	line := told(journal.Header{Name: "n", Kind: "workflow"},
		event.Event{Type: event.RunStarted},
		event.Event{Type: event.RoundStarted, Step: "@1"},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Label: "each"},
		event.Event{Type: event.ForeachStarted, Step: "commands[0]"},
		event.Event{Type: event.RoundStarted, Step: "commands[0]@1"},
		event.Event{Type: event.StepStarted, Step: "commands[0].do[0]@1", Label: "do"},
		event.Event{Type: event.StepFinished, Step: "commands[0].do[0]@1", Label: "do", Status: event.Succeeded},
		event.Event{Type: event.RoundFinished, Step: "commands[0]@1", Status: event.Succeeded},
		event.Event{Type: event.StepFinished, Step: "commands[0]", Label: "each", Status: event.Succeeded},
		event.Event{Type: event.RoundFinished, Step: "@1", Status: event.Succeeded},
	)
	var labels []string
	for _, r := range line.Rows() {
		labels = append(labels, r.Label)
	}
	if got := strings.Join(labels, ","); got != "each,do" {
		t.Errorf("the rows are %q", got)
	}
}

func TestLivesAndRecoveries(t *testing.T) {
	t.Parallel()
	line := told(journal.Header{Name: "n", Kind: "workflow"},
		event.Event{Type: event.RunStarted, Time: at(0)},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Label: "up", Time: at(0)},
		event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1, Time: at(1)},
	)
	line.Gone()
	if line.Status != event.Interrupted || line.Row("commands[0]").Status != event.Interrupted {
		t.Errorf("after its process has gone, the run is %q and its step %q", line.Status, line.Row("commands[0]").Status)
	}
	for i, e := range []event.Event{
		{Type: event.RunResumed, Time: at(100)},
		{Type: event.StepStarted, Step: "commands[0]", Time: at(101)},
		{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 2, Time: at(101)},
		{Type: event.StepFinished, Step: "commands[0]", Status: event.Succeeded, Time: at(103)},
		{Type: event.RunFinished, Status: event.Succeeded, Time: at(103)},
	} {
		e.Seq = int64(4 + i)
		line.Apply(e)
	}
	row := line.Row("commands[0]")
	if len(line.Lives) != 2 || !line.Lives[0].Died || line.Lives[1].Died {
		t.Errorf("the lives are %+v", line.Lives)
	}
	if len(row.Recovered) != 1 || !row.Recovered[0].Equal(at(101)) || row.Attempts[0].Status != event.Interrupted {
		t.Errorf("the row is %+v", row)
	}
	if took := line.Took(at(1000)); took != 4*time.Second { // 1 s and 3 s; nobody had it from 1 to 100
		t.Errorf("it took %v", took)
	}
	axis := line.Axis(at(1000), true)
	if len(axis.Folds) != 1 || !axis.Folds[0].From.Equal(at(1)) || !axis.Folds[0].To.Equal(at(101)) {
		t.Fatalf("the folds are %+v", axis.Folds)
	}
	// One second, a fold, two seconds.
	for when, want := range map[float64]float64{0: 0, 1: 0.975 / 3, 101: 0.975/3 + 0.025, 103: 1, 500: 1} {
		if got := axis.Place(at(when)); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("second %g is at %g, want %g", when, got, want)
		}
	}
	if unfolded := line.Axis(at(1000), false); len(unfolded.Folds) != 0 || unfolded.Place(at(51.5)) != 0.5 {
		t.Errorf("without folds the middle is at %g", unfolded.Place(at(51.5)))
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	started := func(path, phase string) event.Event {
		return event.Event{Type: event.StepStarted, Step: path, Phase: phase, Label: path, Time: at(0)}
	}
	line := told(journal.Header{Kind: "workflow"},
		started("commands[0]", ""), started("commands[0].do[0]@0", ""), started("commands[0].do[0].on_failure[0]@0#1", ""), started("commands[0].do[0]@1", ""),
		event.Event{Type: event.PhaseStarted, Phase: "reduce", Time: at(1)}, started("reduce[0]", "reduce"),
	)
	var got []string
	for _, r := range line.Rows() {
		got = append(got, strings.Repeat(" ", r.Depth)+r.Path)
	}
	want := "commands[0]| commands[0].do[0]@0|  commands[0].do[0].on_failure[0]@0#1| commands[0].do[0]@1|reduce| reduce[0]"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("the tree is\n%s\nwant\n%s", s, want)
	}
	list := told(journal.Header{Kind: "pipeline"}, started("pages[0].Get", ""), started("pages[1].Get", ""),
		event.Event{Type: event.StepFinished, Step: "pages[0].Get", Status: event.Succeeded, Time: at(1)})
	if r := list.Row("pages"); r == nil || r.Kind != List || r.Total != 2 || r.Done != 1 || r.Status != event.Running {
		t.Errorf("the list is %+v", r)
	}
}

func TestNow(t *testing.T) {
	t.Parallel()
	line := told(journal.Header{Kind: "workflow"},
		event.Event{Type: event.RunStarted, Time: at(0)},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Label: "upload", Time: at(0)},
		event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1, Time: at(0)},
		event.Event{Type: event.AttemptFailed, Step: "commands[0]", Attempt: 1, Time: at(1)},
		event.Event{Type: event.RetryScheduled, Step: "commands[0]", Attempt: 1, DelayMS: 60_000, Time: at(1)},
	)
	if got, want := line.Now("RUN", at(31), journal.Counts{}, time.Time{}), "upload waits: attempt 2 follows in 30s."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	line.Apply(event.Event{Seq: 8, Type: event.RunControlled, Label: "pause", Time: at(35)})
	if got, want := line.Now("RUN", at(36), journal.Counts{}, time.Time{}), "Paused since "+at(35).Local().Format(time.DateTime)+": nothing new starts until bide control RUN continue."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	line.Apply(event.Event{Seq: 8, Type: event.RunControlled, Label: "continue", Time: at(37)})
	line.Apply(event.Event{Seq: 9, Type: event.RunPaused, DelayMS: 60_000, Time: at(40)})
	if got, want := line.Now("RUN", at(50), journal.Counts{}, time.Time{}), "Agents are held back by a rate limit until "+at(100).Local().Format(time.DateTime)+"; bide control RUN retry-now asks them now."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	line.Apply(event.Event{Seq: 10, Type: event.PauseEnded, Time: at(60)})
	if got, want := line.Now("RUN", at(60), journal.Counts{}, time.Time{}), "upload waits: attempt 2 follows in 1s."; got != want {
		t.Errorf("after the pause it says %q, want %q", got, want)
	}
	if w := line.Waited[event.FromRateLimit]; w.Total != 20*time.Second {
		t.Errorf("the rate limit held it back for %s, want 20s", w.Total)
	}
}

// TestPausesForRateLimits: two answers make one pause; it ends with its process, goes
// on with the next, and ends for good when it is lifted, as the waits of steps do.
func TestPausesForRateLimits(t *testing.T) {
	t.Parallel()
	line := told(journal.Header{Name: "n", Kind: "workflow"},
		event.Event{Type: event.RunStarted, Time: at(0)},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Label: "up", Time: at(0)},
		event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1, Time: at(0)},
		event.Event{Type: event.AttemptFailed, Step: "commands[0]", Attempt: 1, Class: "exit", Message: "no", Time: at(1)},
		event.Event{Type: event.RetryScheduled, Step: "commands[0]", Attempt: 1, DelayMS: 3_600_000, Time: at(1)},
		event.Event{Type: event.RunPaused, DelayMS: 7_200_000, Time: at(2)},
		event.Event{Type: event.RunPaused, DelayMS: 7_200_000, Time: at(4)},
		event.Event{Type: event.RunFinished, Status: event.Interrupted, Time: at(10)},
		event.Event{Type: event.RunResumed, Time: at(20)},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Label: "up", Time: at(20)},
		event.Event{Type: event.RetryScheduled, Step: "commands[0]", Attempt: 1, DelayMS: 3_600_000, Time: at(20)},
	)
	if got, want := line.Now("RUN", at(30), journal.Counts{}, time.Time{}), "Agents are held back by a rate limit until "+at(7204).Local().Format(time.DateTime)+"; bide control RUN retry-now asks them now."; got != want {
		t.Errorf("before it is lifted: %q, want %q", got, want)
	}
	stopped := told(journal.Header{Name: "n", Kind: "workflow"}, event.Event{Type: event.RunStarted, Time: at(0)},
		event.Event{Type: event.RunPaused, DelayMS: 7_200_000, Time: at(2)}, event.Event{Type: event.RunFinished, Status: event.Interrupted, Time: at(10)})
	if got, want := stopped.Now("RUN", at(30), journal.Counts{}, time.Time{}), " Agents are held back by a rate limit until "+at(7202).Local().Format(time.DateTime)+"; bide control RUN retry-now asks them now. A resume is worth it then."; !strings.HasSuffix(got, want) {
		t.Errorf("while nobody has the run: %q, want %q at the end", got, want)
	}
	if got := stopped.Now("RUN", at(7300), journal.Counts{}, time.Time{}); strings.Contains(got, "held back") {
		t.Errorf("after the limit has ended: %q", got)
	}
	line.Apply(event.Event{Seq: 12, Type: event.RunControlled, Label: journal.RetryNow, Time: at(40)})
	if n := len(line.Pauses); n != 2 || !line.Pauses[0].To.Equal(at(10)) || !line.Pauses[1].From.Equal(at(20)) || !line.Pauses[1].To.Equal(at(40)) {
		t.Errorf("the pauses are %+v", line.Pauses)
	}
	if s := line.Waited[event.FromRateLimit]; s.Count != 2 || s.Total != 28*time.Second {
		t.Errorf("the pauses sum up to %+v", s)
	}
	if got, want := line.Now("RUN", at(45), journal.Counts{}, time.Time{}), "up waits for its turn."; got != want {
		t.Errorf("after it is lifted: %q, want %q", got, want)
	}
	if w, ok := line.Row("commands[0]").Turn(at(45)); !ok || !w.From.Equal(at(40)) {
		t.Errorf("it waits for its turn since %v (%v), want since it was to be tried at once", w.From, ok)
	}
	line.Apply(event.Event{Seq: 13, Type: event.RunFinished, Status: event.Interrupted, Time: at(50)})
	line.Apply(event.Event{Seq: 14, Type: event.RunResumed, Time: at(60)})
	if n := len(line.Pauses); n != 2 {
		t.Errorf("a pause that was lifted is back: %+v", line.Pauses)
	}
}
