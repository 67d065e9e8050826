package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/retry/driver"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestStateOfSteps tells one run event by event.
func TestStateOfSteps(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	at := func(sec int) time.Time { return epoch.Add(time.Duration(sec) * time.Second) }
	add(t, j,
		event.Event{Type: event.RunStarted, Time: at(0)},
		event.Event{Type: event.PhaseStarted, Phase: "setup", Time: at(1)},
		event.Event{Type: event.StepStarted, Step: "setup[0]", Phase: "setup"},
		event.Event{Type: event.AttemptStarted, Step: "setup[0]", Attempt: 1},
		event.Event{Type: event.StepFinished, Step: "setup[0]", Status: event.Succeeded, Attempts: 1, Data: json.RawMessage(`{"output":"x"}`), Time: at(3)},
		event.Event{Type: event.PhaseFinished, Phase: "setup", Status: event.Succeeded, Time: at(4)},
		event.Event{Type: event.StepStarted, Step: "commands[1]"},
		event.Event{Type: event.AttemptStarted, Step: "commands[1]", Attempt: 1},
		event.Event{Type: event.AttemptFailed, Step: "commands[1]", Attempt: 1, Class: "exit", Message: "one", Time: at(10)},
		event.Event{Type: event.RetryScheduled, Step: "commands[1]", Attempt: 1, DelayMS: 2000, Time: at(10)},
		event.Event{Type: event.AttemptStarted, Step: "commands[1]", Attempt: 2},
		event.Event{Type: event.AttemptFailed, Step: "commands[1]", Attempt: 2, Class: "timeout", Message: "two", Time: at(20)},
		event.Event{Type: event.RetryScheduled, Step: "commands[1]", Attempt: 2, DelayMS: 4000, Time: at(20)},
		event.Event{Type: event.AttemptStarted, Step: "commands[1]", Attempt: 3, Time: at(24)},
		event.Event{Type: event.StepStarted, Step: "agent_template[0]", Index: 4}, // of an item: not the run's
		event.Event{Type: event.BreakerChanged, Label: "api", From: "closed", To: "open", Data: json.RawMessage(`{"until":5}`), Time: at(21)},
		event.Event{Type: event.RunPaused, DelayMS: 60_000, Message: "rate limit", Time: at(22)},
		event.Event{Type: event.AgentUsage, Step: "commands[1]", Data: json.RawMessage(`{"tokens":100,"cost":0.25,"model":"m"}`)},
		event.Event{Type: event.AgentUsage, Item: "a", Index: 1, Data: json.RawMessage(`{"tokens":50}`)},
		event.Event{Type: event.Note, Message: "hm"},
	)
	retry := Retry{Failures: 2, Slept: 6 * time.Second, Prev: 4 * time.Second, FirstFailure: at(10), NotBefore: at(24)}
	want := &State{
		Started: at(0), Status: event.Running, Phase: "", Pauses: 1, Pause: event.Pause{Until: at(82), Since: at(22), Streak: 1, Noted: at(22)},
		Phases: map[string]PhaseRecord{"setup": {Status: event.Succeeded, Started: at(1), Finished: at(4)}},
		Steps: map[string]StepRecord{
			"setup[0]":    {Phase: "setup", Status: event.Succeeded, Attempts: 1, Data: json.RawMessage(`{"output":"x"}`), Finished: at(3), BeganAt: 4, First: 3, Last: 5},
			"commands[1]": {Status: event.Running, Attempts: 3, Began: at(24), BeganAt: 14, First: 7, Last: 14, Class: "timeout", Message: "two", FailedAt: at(20), Retry: retry},
		},
		Breakers: map[string]BreakerRecord{"api": {State: "open", Since: at(21), Data: json.RawMessage(`{"until":5}`)}},
		Usage:    map[string]float64{"tokens": 150, "cost": 0.25},
	}
	check := func(j *Journal, what string) {
		t.Helper()
		got, err := j.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got.Seq, got.Items = 0, Items{}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", what, got, want)
		}
	}
	check(j, "while it runs")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	r, err := s.Read("")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := r.State(t.Context()); err != nil || got.Steps["commands[1]"].Status != event.Running {
		t.Errorf("a reader sees %v, %v", got, err)
	}
	if sum, err := r.Summary(t.Context()); err != nil || sum.Status != event.Interrupted || sum.Steps.Succeeded != 1 {
		t.Errorf("summary %+v, %v", sum, err)
	}

	j, err = s.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	step := want.Steps["commands[1]"]
	step.Status, step.Recoveries = event.Interrupted, 1
	want.Steps["commands[1]"] = step
	check(j, "after the process ended")
	add(t, j, event.Event{Type: event.RunResumed})
	want.Resumes = 1
	check(j, "resumed")
	add(t, j, event.Event{Type: event.StepStarted, Step: "commands[1]"})
	step.Status, step.Last = event.Running, 22
	want.Steps["commands[1]"] = step
	check(j, "the step goes on with its waits")
	add(t, j,
		event.Event{Type: event.StepFinished, Step: "commands[1]", Status: event.Failed, Attempts: 4, Class: "exit", Message: "end", Time: at(30)},
		event.Event{Type: event.RunFinished, Status: event.Failed, Class: "exit", Message: "end", Time: at(31)})
	want.Steps["commands[1]"] = StepRecord{Status: event.Failed, Attempts: 4, Class: "exit", Message: "end", Finished: at(30), BeganAt: 14, First: 7, Last: 23}
	want.Status, want.Finished, want.Class, want.Message = event.Failed, at(31), "exit", "end"
	check(j, "finished")
	add(t, j, event.Event{Type: event.RunResumed}, event.Event{Type: event.StepStarted, Step: "commands[1]"})
	want.Steps["commands[1]"] = StepRecord{Status: event.Running, BeganAt: 14, First: 26, Last: 26} // what has ended inside of it has
	want.Status, want.Finished, want.Class, want.Message, want.Resumes = event.Running, time.Time{}, "", "", 2
	check(j, "a failed step begins anew")
}

// TestRequeueOutdatesReduce has a dead letter run again after the end.
func TestRequeueOutdatesReduce(t *testing.T) {
	j := newJournal(t, newStore(t))
	if _, _, err := j.PutItems(t.Context(), list(2)); err != nil {
		t.Fatal(err)
	}
	add(t, j,
		event.Event{Type: event.RunStarted},
		event.Event{Type: event.StepStarted, Step: "setup[0]", Phase: "setup"},
		event.Event{Type: event.StepFinished, Step: "setup[0]", Phase: "setup", Status: event.Succeeded},
		event.Event{Type: event.PhaseStarted, Phase: "map"},
		event.Event{Type: event.ItemStarted, Index: 1, Attempt: 1},
		event.Event{Type: event.ItemFinished, Index: 1, Status: event.Failed, Attempts: 3},
		event.Event{Type: event.ItemFinished, Status: event.DeadLettered, Index: 1, Attempts: 3},
		event.Event{Type: event.PhaseFinished, Phase: "map", Status: event.CompletedWithFailures},
		event.Event{Type: event.PhaseStarted, Phase: "reduce"},
		event.Event{Type: event.StepStarted, Step: "reduce[0]"},
		event.Event{Type: event.StepFinished, Step: "reduce[0]", Status: event.Succeeded},
		event.Event{Type: event.PhaseFinished, Phase: "reduce", Status: event.Succeeded},
		event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures},
	)
	st, err := j.State(t.Context())
	if err != nil || st.Items.At(1).Status != ItemDeadLettered || st.Steps["reduce[0]"].Status != event.Succeeded {
		t.Fatalf("%+v, %v", st, err)
	}
	add(t, j, event.Event{Type: event.ItemRequeued, Index: 1})
	if st, err = j.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := st.Steps["reduce[0]"]; ok || st.Phases["map"].Status != event.Running || len(st.Phases) != 1 {
		t.Errorf("reduce is not outdated: %+v", st)
	}
	if st.Steps["setup[0]"].Status != event.Succeeded {
		t.Error("setup is outdated")
	}
	if got := st.Items.At(1); !reflect.DeepEqual(got, ItemRecord{Status: ItemPending, Attempts: 3, Before: 3}) {
		t.Errorf("the item is %+v", got)
	}
	if c := st.Items.Counts(); c != (Counts{Total: 2, Pending: 2}) {
		t.Errorf("counts %+v", c)
	}
}

// TestStateRefusesUnknownItems has an event of an item beyond the list.
func TestStateRefusesUnknownItems(t *testing.T) {
	j := newJournal(t, newStore(t))
	if _, _, err := j.PutItems(t.Context(), list(2)); err != nil {
		t.Fatal(err)
	}
	add(t, j, event.Event{Type: event.ItemStarted, Index: 1 << 40})
	var d *DamagedError
	if _, err := j.State(t.Context()); !errors.As(err, &d) {
		t.Errorf("State: %v", err)
	}
	add(t, j, event.Event{Type: event.ItemFinished, Index: 1 << 40, Status: event.Succeeded})
	for _, err := range j.Results(t.Context()) {
		if !errors.As(err, &d) {
			t.Errorf("Results: %v", err)
		}
	}
}

const modelItems = 4

// someEvent draws an event that a run may have, in any order: the fold must
// make something of each.
func someEvent(t *rapid.T) event.Event {
	index := rapid.IntRange(1, modelItems).Draw(t, "index")
	item := event.Event{Index: index, Item: fmt.Sprintf("item-%d", index), Phase: "map"}
	step := event.Event{Step: rapid.SampledFrom([]string{"a[0]", "a[1]", "reduce[0]"}).Draw(t, "step"), Phase: rapid.SampledFrom([]string{"", "reduce"}).Draw(t, "phase")}
	number := rapid.IntRange(1, 5).Draw(t, "number")
	delay := rapid.Int64Range(0, 5000).Draw(t, "delay")
	status := rapid.SampledFrom([]string{event.Succeeded, event.Failed, event.Skipped, event.Degraded, event.Interrupted, event.DeadLettered}).Draw(t, "status")
	type maker func() event.Event
	makers := []maker{
		func() event.Event { return event.Event{Type: event.RunStarted} },
		func() event.Event { return event.Event{Type: event.RunResumed} },
		func() event.Event { return event.Event{Type: event.RunFinished, Status: status, Message: "m"} },
		func() event.Event { return event.Event{Type: event.PhaseStarted, Phase: "map"} },
		func() event.Event { return event.Event{Type: event.PhaseStarted, Phase: "reduce"} },
		func() event.Event { return event.Event{Type: event.PhaseFinished, Phase: "map", Status: status} },
		func() event.Event { step.Type = event.StepStarted; return step },
		func() event.Event { step.Type, step.Attempt = event.AttemptStarted, number; return step },
		func() event.Event {
			step.Type, step.Attempt, step.Class, step.Message = event.AttemptFailed, number, "exit", "no"
			return step
		},
		func() event.Event { step.Type, step.DelayMS = event.RetryScheduled, delay; return step },
		func() event.Event {
			step.Type, step.Status, step.Attempts, step.Data = event.StepFinished, status, number, json.RawMessage(`{"n":1}`)
			return step
		},
		func() event.Event { item.Type, item.Step = event.StepStarted, "inner[0]"; return item },
		func() event.Event {
			return event.Event{Type: event.BreakerChanged, Label: "b", To: status, Data: json.RawMessage(`{}`)}
		},
		func() event.Event { return event.Event{Type: event.RunPaused, DelayMS: delay} },
		func() event.Event {
			return event.Event{Type: event.AgentUsage, Index: index, Data: json.RawMessage(`{"tokens":2}`)}
		},
		func() event.Event { return event.Event{Type: event.Note, Message: "n"} },
	}
	for range 3 { // items are what it is about
		makers = append(makers,
			func() event.Event { item.Type, item.Attempt = event.ItemStarted, number; return item },
			func() event.Event {
				item.Type, item.Attempt, item.DelayMS, item.Data = event.ItemRetry, number, delay, json.RawMessage(`{"attempt":1}`)
				return item
			},
			func() event.Event {
				item.Type, item.Status, item.Attempts, item.Data = event.ItemFinished, status, number, json.RawMessage(`{"r":1}`)
				return item
			},
			func() event.Event {
				item.Type, item.Status, item.Attempts, item.Class = event.ItemFinished, event.DeadLettered, number, "exit"
				return item
			},
			func() event.Event {
				item.Type, item.Attempts, item.Class = event.ItemHandlerDue, number, "exit"
				return item
			},
			func() event.Event {
				at := epoch.Add(time.Duration(delay) * time.Microsecond)
				item.Type, item.Attempt, item.DelayMS = event.ItemRetry, number, delay
				item.Retry = &driver.State{Attempt: number, Slept: time.Duration(delay) + 7, Prev: 3, FirstFailure: at, Due: at.Add(11)}
				return item
			},
			func() event.Event { item.Type = event.ItemRequeued; return item },
			func() event.Event { item.Type = event.ItemRemoved; return item },
		)
	}
	return rapid.SampledFrom(makers).Draw(t, "make")()
}

// naiveItem says where an item is by looking back over everything that
// happened, again and again.
func naiveItem(events []event.Event, index int) (r ItemRecord) {
	for i, e := range events {
		switch {
		case e.Type == event.RunResumed || e.Type == event.RunFinished:
			if r.Status == ItemRunning {
				r.Status = ItemPending
				if e.Type == event.RunResumed {
					r.Recoveries++
				}
			}
		case e.Index != index:
		case e.Type == event.ItemStarted:
			r.Status, r.Attempts = ItemRunning, max(r.Attempts, e.Attempt)
		case e.Type == event.ItemRetry:
			r.Status, r.Attempts, r.Failed = ItemWaiting, max(r.Attempts, e.Attempt), e.Seq
		case e.Type == event.ItemFinished:
			r.Attempts = max(r.Attempts, e.Attempts)
			r.Status = map[string]ItemStatus{
				event.Succeeded: ItemSucceeded, event.Degraded: ItemSucceeded, event.Failed: ItemFailed,
				event.Skipped: ItemSkipped, event.DeadLettered: ItemDeadLettered, event.Interrupted: ItemPending,
			}[e.Status]
		case e.Type == event.ItemHandlerDue:
			r.Status, r.Attempts, r.Recoveries, r.Handler, r.Failed = ItemHandling, max(r.Attempts, e.Attempts), 0, e.Seq, 0
		case e.Type == event.ItemRequeued:
			r.Status, r.Recoveries, r.Before, r.Handler, r.Failed = ItemPending, 0, r.Attempts, 0, 0
		case e.Type == event.ItemRemoved && r.Status == ItemDeadLettered:
			r.Status = ItemFailed
		}
		if r.Status.Done() {
			r.Recoveries, r.Before, r.Handler, r.Failed = 0, 0, 0, 0
		}
		r.Since = naiveSince(events[:i+1], index, r.Status.Done())
		r.Retry = naiveRetry(events[:i+1], index, r.Status.Done())
	}
	return r
}

// naiveSince goes back over the starts of an item in flight: from each to the
// one before, as long as the process ended in between; or to where its handler begins.
func naiveSince(events []event.Event, index int, done bool) (since int64) {
	ended := true
	for i := len(events) - 1; i >= 0 && !done; i-- {
		switch e := events[i]; {
		case e.Type == event.RunResumed || e.Type == event.RunFinished:
			ended = true
		case e.Index != index:
		case e.Type == event.ItemHandlerDue && ended:
			return e.Seq
		case e.Type == event.ItemRetry, e.Type == event.ItemHandlerDue, e.Type == event.ItemRequeued,
			e.Type == event.ItemFinished && finished(e.Status).Done():
			return since
		case e.Type == event.ItemStarted && !ended && since > 0:
			return since
		case e.Type == event.ItemStarted:
			since, ended = e.Seq, false
		}
	}
	return since
}

// naiveRetry sums the retries since the item was last done or requeued.
func naiveRetry(events []event.Event, index int, done bool) (r Retry) {
	if done {
		return r
	}
	status := ItemPending
	for _, e := range events {
		if e.Index != index {
			continue
		}
		switch e.Type {
		case event.ItemStarted:
			if r.Began.IsZero() {
				r.Began = e.Time
			}
		case event.ItemRetry:
			if r.Failures == 0 {
				r.FirstFailure = e.Time
			}
			r.Failures++
			if s := e.Retry; s != nil {
				r = Retry{Failures: s.Attempt, Slept: s.Slept, Prev: s.Prev, FirstFailure: s.FirstFailure, NotBefore: s.Due, Rules: s.Rules, Began: s.Began}
				continue
			}
			r.Prev = time.Duration(e.DelayMS) * time.Millisecond
			r.Slept += r.Prev
			r.NotBefore = e.Time.Add(r.Prev)
		case event.ItemFinished:
			if status = finished(e.Status); status.Done() {
				r = Retry{}
			}
		case event.ItemHandlerDue, event.ItemRequeued:
			r = Retry{}
		}
	}
	return r
}

// TestFoldAgainstModel records any events, with the journal closed and opened
// in between, and compares what comes out with simpler ways to say it.
func TestFoldAgainstModel(t *testing.T) {
	s := newStore(t)
	rapid.Check(t, func(t *rapid.T) {
		j, err := s.Create(header())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := errors.Join(j.Close(), s.Remove(j.Run())); err != nil {
				t.Fatal(err)
			}
		}()
		if _, _, err := j.PutItems(t.Context(), list(modelItems)); err != nil {
			t.Fatal(err)
		}
		var events []event.Event
		more := func() {
			for range rapid.IntRange(0, 40).Draw(t, "events") {
				e := someEvent(t)
				e.Time = epoch.Add(time.Duration(len(events)) * time.Second)
				if e, err = j.Record(e); err != nil {
					t.Fatal(err)
				}
				events = append(events, e)
			}
		}
		more()
		if rapid.Bool().Draw(t, "reopen") {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if j, err = s.Open(j.Run()); err != nil {
				t.Fatal(err)
			}
			resumed, err := j.Record(event.Event{Type: event.RunResumed, Time: epoch.Add(time.Duration(len(events)) * time.Second)})
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, resumed)
			more()
		}
		// That a process died counts only while the run was in progress, which is
		// where the fold through the table and the one in memory may differ.
		checkModel(t, j, events)
	})
}

func checkModel(t *rapid.T, j *Journal, events []event.Event) {
	var mine State
	mine.Items.limit = modelItems
	if err := mine.Items.grow(modelItems); err != nil {
		t.Fatal(err)
	}
	status := ""
	for i, e := range events {
		if e.Type == event.RunResumed && int64(i) == j.dead && j.dead > 0 {
			mine.settle(status == event.Running)
		}
		if err := mine.Apply(e); err != nil {
			t.Fatal(err)
		}
		status = mine.Status
	}
	got, err := j.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The fold in memory has no events to find another example in.
	for _, c := range got.Items.causes.list {
		if c.Count == 0 {
			continue
		}
		var last event.Event
		for _, e := range events {
			if e.Type == event.ItemFinished && e.Index == c.Index {
				last = e
			}
		}
		if last.Class != c.Class || last.Message != c.Example || last.Item != c.Item {
			t.Fatalf("the example of %s is %+v, and the item ended with %+v", c.Class, c, last)
		}
	}
	mine.Items.causes.list, got.Items.causes.list = withoutExamples(mine.Items.causes.list), withoutExamples(got.Items.causes.list)
	mine.Seq, got.Seq = 0, 0
	if !reflect.DeepEqual(got.Steps, mine.Steps) && len(got.Steps)+len(mine.Steps) > 0 {
		t.Fatalf("steps\ngot  %+v\nwant %+v", got.Steps, mine.Steps)
	}
	got.Steps, mine.Steps = nil, nil
	if a, b := got.Items.special, mine.Items.special; !reflect.DeepEqual(a, b) && len(a)+len(b) > 0 {
		t.Fatalf("special\ngot  %+v\nwant %+v", a, b)
	}
	a, b := *got, mine
	a.Items.special, b.Items.special = nil, nil // they have pointers
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
		t.Fatalf("got  %+v\nwant %+v", a, b)
	}
	var counts Counts
	for index, r := range got.Items.All() {
		want := naiveItem(events, index)
		if j.dead > 0 {
			r.Recoveries, want.Recoveries = 0, 0
		}
		if !reflect.DeepEqual(r, want) {
			t.Fatalf("item %d\ngot  %+v\nwant %+v", index, r, want)
		}
		countOne(&counts, r.Status)
	}
	if c := got.Items.Counts(); c != counts {
		t.Fatalf("counts %+v, want %+v", c, counts)
	}
	checkResults(t, j, events)
	checkLetters(t, j, events)
}

// withoutExamples are causes with what is counted alone.
func withoutExamples(causes []Cause) (out []Cause) {
	for _, c := range causes {
		out = append(out, Cause{Class: c.Class, Group: c.Group, Count: c.Count})
	}
	return out
}

func countOne(c *Counts, s ItemStatus) {
	c.Total++
	switch s.String() {
	case event.Succeeded:
		c.Succeeded++
	case event.Failed, event.DeadLettered:
		c.Failed++
	case event.Skipped:
		c.Skipped++
	default:
		c.Pending++
	}
	switch s {
	case ItemRunning:
		c.Running++
	case ItemWaiting:
		c.Waiting++
	case ItemDeadLettered:
		c.DeadLettered++
	}
}

func checkResults(t *rapid.T, j *Journal, events []event.Event) {
	var want []Result
	for index := 1; index <= modelItems; index++ {
		i := lastIndex(events, func(e event.Event) bool {
			return e.Index == index && (e.Type == event.ItemFinished || e.Type == event.ItemRequeued)
		})
		if i >= 0 && events[i].Type == event.ItemFinished && events[i].Status != event.Interrupted {
			want = append(want, ResultOf(events[i]))
		}
	}
	var got []Result
	for r, err := range j.Results(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("results\ngot  %+v\nwant %+v", got, want)
	}
}

func checkLetters(t *rapid.T, j *Journal, events []event.Event) {
	var want []string
	for index := 1; index <= modelItems; index++ {
		letter := lastIndex(events, func(e event.Event) bool {
			return e.Index == index && e.Type == event.ItemFinished && e.Status == event.DeadLettered
		})
		closed := lastIndex(events, func(e event.Event) bool {
			return e.Index == index && (e.Type == event.ItemRequeued || e.Type == event.ItemRemoved ||
				e.Type == event.ItemFinished && e.Status != event.DeadLettered)
		})
		if letter < 0 || closed > letter {
			continue
		}
		line := fmt.Sprint(index, ":")
		for _, e := range events[:letter+1] {
			if e.Index == index && (e.Type == event.ItemRetry ||
				e.Type == event.ItemFinished && e.Status != event.Succeeded && e.Status != event.Degraded) {
				line += fmt.Sprint(" ", e.Seq)
			}
		}
		want = append(want, line)
	}
	var got []string
	for l, err := range j.DeadLetters(t.Context(), DeadLetterFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprint(l.Index, ":")
		for _, e := range l.History {
			line += fmt.Sprint(" ", e.Seq)
		}
		if string(l.Item) != fmt.Sprintf(`{"n":%d}`, l.Index) || l.Class != events[l.Seq-1].Class {
			t.Fatalf("letter %+v", l)
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("letters\ngot  %v\nwant %v", got, want)
	}
}

func lastIndex[T any](s []T, f func(T) bool) int {
	for i := len(s) - 1; i >= 0; i-- {
		if f(s[i]) {
			return i
		}
	}
	return -1
}

// TestCauses: the causes of items that failed for good and are not to be run again.
func TestCauses(t *testing.T) {
	j := newJournal(t, newStore(t))
	end := func(index int, status, class, message string) event.Event {
		id := fmt.Sprint("i", index)
		e := event.Event{Type: event.ItemFinished, Phase: "map", Index: index, Item: id, Status: status, Class: class, Attempts: 1, Message: message}
		switch {
		case status == event.DeadLettered:
			e.Data = json.RawMessage(`{"vars":{"step":"another"},"correlation_id":"r/1","step":"agent_template[1]"}`)
		case index == 10: // by an earlier version
			e.Data = json.RawMessage(`{"steps":[{"step":"fetch","status":"failed","size":0}]}`)
		case index == 11:
			e.Data = json.RawMessage(`{"steps":[{"step":"fetch","status":"failed","size":0}],"step":"agent_template[0]","step_label":"echo \"step\":\"no\""}`)
		case index == 12: // no step failed
			e.Data = json.RawMessage(`{"steps":[{"step":"fetch","status":"failed","size":0}],"step":""}`)
		}
		return e
	}
	for _, e := range []event.Event{
		end(1, event.DeadLettered, "exit", "exit status 1: no such user u1"),
		end(2, event.Skipped, "timeout", "it took 5s"),
		end(3, event.DeadLettered, "exit", "exit status 1: the disk is full"),
		end(4, event.Succeeded, "", ""),
		end(5, event.Skipped, "", ""),
		end(6, event.DeadLettered, "network", "no answer"),
		end(7, event.DeadLettered, "exit", "exit status 1: no such user u7"),
		{Type: event.ItemRequeued, Index: 1, Item: "i1"},
		{Type: event.ItemRequeued, Index: 6, Item: "i6"},
		{Type: event.ItemRequeued, Index: 7, Item: "i7"},
		end(1, event.Succeeded, "", ""),
		end(7, event.Skipped, "timeout", "it took 6s"),
		end(8, event.Failed, "exit", "exit status 1: the disk is full"), // not at a step
		end(9, event.DeadLettered, "exit", "exit status 1: the disk is full"),
		end(10, event.Skipped, "exit", "exit status 1: the disk is full"),
		end(11, event.Skipped, "exit", "exit status 3"),
		end(12, event.Failed, "exit", "exit status 1: the disk is full"),
	} {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	s, err := j.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cause := func(step, label, pattern string, count, index int, example string) Cause {
		class, _, _ := strings.Cut(pattern, " ")
		if class == "it" {
			class = "timeout"
		}
		return Cause{Class: class, Group: failure.Signature{Class: class, Step: step, Pattern: pattern}.ID(), Step: label, Count: count, Example: example, Item: fmt.Sprint("i", index), Index: index}
	}
	want := []Cause{
		cause("", "", "exit status N: the disk is full", 3, 8, "exit status 1: the disk is full"),
		cause("agent_template[1]", "agent_template[1]", "exit status N: the disk is full", 2, 3, "exit status 1: the disk is full"),
		cause("", "", "it took Ns", 2, 2, "it took 5s"),
		cause("agent_template[0]", `echo "step":"no"`, "exit status N", 1, 11, "exit status 3"),
	}
	if got := s.Items.Causes().List(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestCausesKeepAnExample: while items of a cause are left, one of them is its example, also
// when that of before runs again.
func TestCausesKeepAnExample(t *testing.T) {
	var x Causes
	for i := range 9 {
		x.Apply(event.Event{Type: event.ItemFinished, Status: event.DeadLettered, Index: i + 1, Item: fmt.Sprint("i", i+1), Class: "exit", Message: "no"})
	}
	other := x.Clone()
	for _, c := range []struct {
		again []int
		left  string
	}{{[]int{1}, "i2"}, {[]int{2}, "i3"}, {[]int{4, 3}, "i5"}, {[]int{5, 6, 7, 8}, "i9"}} {
		for _, i := range c.again {
			x.Apply(event.Event{Type: event.ItemRequeued, Index: i})
		}
		if list := x.List(); len(list) != 1 || list[0].Item != c.left || list[0].Example != "no" {
			t.Fatalf("%+v, want %s as the example", list, c.left)
		}
	}
	other.Apply(event.Event{Type: event.ItemRequeued, Index: 1})
	if list := other.List(); len(list) != 1 || list[0].Item != "i2" || list[0].Count != 8 {
		t.Errorf("the copy has %+v", list)
	}
}

// TestCausesBeyondTheFirst: where each item fails of a cause of its own, the later ones are
// counted by their class.
func TestCausesBeyondTheFirst(t *testing.T) {
	var x Causes
	for i := range 1000 {
		x.Apply(event.Event{Type: event.ItemFinished, Status: event.Failed, Index: i + 1, Item: "i", Class: []string{"exit", "network"}[i%2],
			Message: strings.Repeat("x", i+1)})
	}
	for i := range 800 {
		x.Apply(event.Event{Type: event.ItemRequeued, Index: i + 1})
	}
	if list := x.List(); len(list) != 2 || list[0].Count != 100 || list[1].Count != 100 || list[0].Group+list[1].Group != "" {
		t.Errorf("%+v", list)
	}
}

// TestMergingIsOfTheLastAttempt: what an item_merging says holds until
// something else is known of the item.
func TestMergingIsOfTheLastAttempt(t *testing.T) {
	start := event.Event{Type: event.ItemStarted, Index: 1, Attempt: 1}
	merging := event.Event{Type: event.ItemMerging, Index: 1, Attempt: 1, Data: []byte(`{"commit":"c"}`)}
	for _, c := range []struct {
		name string
		next []event.Event
		want string
	}{
		{"killed", nil, `{"commit":"c"}`},
		{"failed", []event.Event{{Type: event.ItemRetry, Index: 1, Attempt: 1}}, ""},
		{"finished", []event.Event{{Type: event.ItemFinished, Index: 1, Status: event.Succeeded}}, ""},
		{"started again", []event.Event{{Type: event.RunResumed}, {Type: event.ItemStarted, Index: 1, Attempt: 2}}, ""},
		{"killed again", []event.Event{{Type: event.RunResumed}, {Type: event.RunResumed}}, `{"commit":"c"}`},
	} {
		j := newJournal(t, newStore(t))
		for _, e := range append([]event.Event{{Type: event.RunStarted}, start, merging}, c.next...) {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		s, err := j.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Items.At(1).Merging; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestPauseEnds: a pause is as it is recorded, to the nanosecond, and over once
// an agent got another answer.
func TestPauseEnds(t *testing.T) {
	j := newJournal(t, newStore(t))
	p := event.Pause{Until: epoch.Add(time.Minute + 1), Since: epoch.Add(-3), Streak: 2}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	p.Noted = epoch.Add(-1)
	add(t, j, event.Event{Type: event.RunPaused, Time: p.Noted, DelayMS: 60_000, Data: b})
	if st, err := j.State(t.Context()); err != nil || st.Pause != p || st.Pauses != 1 {
		t.Errorf("%+v, %v; want %+v", st.Pause, err, p)
	}
	add(t, j, event.Event{Type: event.PauseEnded})
	if st, err := j.State(t.Context()); err != nil || st.Pause != (event.Pause{}) {
		t.Errorf("%+v, %v; want none", st.Pause, err)
	}
}

// TestRetryNowEndsWaits: what was to be tried at once does not wait again, whoever
// resumes the run.
func TestRetryNowEndsWaits(t *testing.T) {
	at := func(sec int) time.Time { return epoch.Add(time.Duration(sec) * time.Second) }
	s := &State{}
	for i, e := range []event.Event{
		{Type: event.RunStarted, Time: at(0)},
		{Type: event.StepStarted, Step: "commands[0]", Time: at(0)},
		{Type: event.AttemptFailed, Step: "commands[0]", Attempt: 1, Class: "exit", Time: at(1)},
		{Type: event.RetryScheduled, Step: "commands[0]", Attempt: 1, DelayMS: 3_600_000, Time: at(1)},
		{Type: event.ItemStarted, Index: 1, Attempt: 1, Time: at(1)},
		{Type: event.ItemRetry, Index: 1, Attempt: 1, DelayMS: 3_600_000, Time: at(2)},
		{Type: event.RunPaused, DelayMS: 7_200_000, Time: at(3)},
		{Type: event.AgentPaused, Label: "one", Time: at(3), Data: []byte(`{"until":"2126-01-02T03:04:05Z","streak":1}`)},
	} {
		e.Seq = int64(i + 1)
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if !s.Waits(at(10)) {
		t.Error("nothing waits before")
	}
	if err := s.Apply(event.Event{Seq: 9, Type: event.RunControlled, Label: RetryNow, Time: at(10)}); err != nil {
		t.Fatal(err)
	}
	if step, item := s.Steps["commands[0]"].Retry.NotBefore, s.Items.At(1).Retry.NotBefore; !step.Equal(at(10)) || !item.Equal(at(10)) || s.Pause != (event.Pause{}) || s.Waits(at(10)) {
		t.Errorf("the step waits until %v, the item until %v, the agents until %v", step, item, s.Pause.Until)
	}
}

// TestEditedItem: an item that was edited when it was requeued has that data,
// and its original is kept.
func TestEditedItem(t *testing.T) {
	j := newJournal(t, newStore(t))
	if _, _, err := j.PutItems(t.Context(), list(2)); err != nil {
		t.Fatal(err)
	}
	was, err := j.Item(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	dead := event.Event{Type: event.ItemFinished, Status: event.DeadLettered, Index: 1, Class: "exit"}
	again := event.Event{Type: event.ItemRequeued, Index: 1}
	edited := again
	edited.Data = []byte(`{"item":{"n":2}}`)
	add(t, j, dead, edited, dead, again, dead)
	st, err := j.State(t.Context())
	if err != nil || string(st.Items.Edited(1)) != `{"n":2}` || st.Items.Edited(2) != nil {
		t.Errorf("edited: %s, %s, %v", st.Items.Edited(1), st.Items.Edited(2), err)
	}
	l := collect(t, j.DeadLetters(t.Context(), DeadLetterFilter{}))
	if len(l) != 1 || string(l[0].Item) != `{"n":2}` || string(l[0].Original) != string(was.Data) {
		t.Errorf("%+v", l)
	}
}

// TestFactsOfItemsThatCameLater: a state that is read from a journal has what the facts say
// whose words the vocabulary lacks, also where they are of an item.
func TestFactsOfItemsThatCameLater(t *testing.T) {
	j := newJournal(t, newStore(t))
	pause, err := json.Marshal(event.Pause{Until: epoch.Add(time.Hour), Since: epoch, Streak: 1})
	if err != nil {
		t.Fatal(err)
	}
	began := epoch.Add(-time.Minute)
	facts := []event.Event{
		{Type: event.RunStarted},
		{Type: event.ItemStarted, Index: 1, Attempt: 1, Time: epoch},
		{Type: event.ItemUsed, Index: 1, DurationMS: 1500},
		{Type: event.AgentPaused, Index: 1, Step: "map.agent_template[0]", Label: "claude", Data: pause},
		{Type: event.ItemRetry, Index: 1, Attempt: 1, DelayMS: 1000, DurationMS: 9000, Retry: &driver.State{Attempt: 1, Began: began}},
		{Type: event.ItemStarted, Index: 2, Attempt: 1, Time: epoch},
		{Type: event.ItemStarted, Index: 1, Attempt: 2, Time: epoch},
		{Type: event.ItemUsed, Index: 1, DurationMS: 2500},
		{Type: event.ItemUsed, Index: 2, DurationMS: 700},
		{Type: event.ItemReturned, Index: 2, Attempt: 1, Retry: &driver.State{Began: began}},
		{Type: event.ItemFinished, Index: 1, Attempt: 2, Status: event.Interrupted, DurationMS: 9000},
	}
	add(t, j, facts...)
	st, err := j.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p := st.AgentPauses["claude"]; !p.Until.Equal(epoch.Add(time.Hour)) {
		t.Errorf("claude is paused until %v", p.Until)
	}
	one, two := st.Items.At(1), st.Items.At(2)
	if one.Status != ItemPending || one.Used.Time != 2500*time.Millisecond || one.Recoveries != 0 {
		t.Errorf("item 1: %+v", one)
	}
	if two.Status != ItemPending || two.Used != (event.Used{}) || two.Recoveries != 0 || two.Before != 1 {
		t.Errorf("item 2: %+v", two)
	}
}
