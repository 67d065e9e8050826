package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

// blockOf gives the lines at a moment, without the glyphs that turn.
func blockOf(b *board, s float64, width, height int) string {
	text := strings.Join(b.lines(at(s), width, height), "\n")
	return regexp.MustCompile("["+string(spinner)+"] ").ReplaceAllString(text, "* ")
}

func TestBoard(t *testing.T) {
	item := func(typ event.Type, index int, s float64, status string) event.Event {
		return event.Event{Type: typ, Phase: "map", Item: fmt.Sprintf("i%d", index), Index: index, Attempt: 1, Time: at(s), Status: status}
	}
	b := newBoard()
	take := func(list ...event.Event) {
		for _, e := range list {
			b.take(e)
		}
	}
	check := func(what string, s float64, width, height int, want string) {
		t.Helper()
		if got := blockOf(b, s, width, height); got != strings.TrimPrefix(want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
		}
	}
	check("nothing runs", 0, 80, 10, "")
	take(event.Event{Type: event.StepStarted, Step: "setup[0]", Label: "get\x1b[31m\nready", Time: at(0)})
	check("a step", 2.5, 80, 10, "* get\\x1b[31m ready · 3s")
	take(event.Event{Type: event.AttemptStarted, Step: "setup[0]", Attempt: 2, Time: at(3)},
		event.Event{Type: event.RetryScheduled, Step: "setup[0]", Attempt: 2, DelayMS: 5000, Time: at(3)})
	check("a wait", 4, 80, 10, "* get\\x1b[31m ready · attempt 2 · next attempt in 4s")
	check("the end of a wait", 7.75, 80, 10, "* get\\x1b[31m ready · attempt 2 · next attempt in 300ms")
	take(event.Event{Type: event.StepFinished, Step: "setup[0]", Time: at(9)},
		event.Event{Type: event.ItemsReady, Total: 40, Time: at(9)},
		event.Event{Type: event.PhaseStarted, Phase: "map", Time: at(10)})
	for i := 1; i <= 10; i++ {
		take(item(event.ItemStarted, i, 10, ""), item(event.ItemFinished, i, 10+float64(i)/2, event.Succeeded))
	}
	take(item(event.ItemStarted, 11, 11, ""), item(event.ItemFinished, 11, 15, event.DeadLettered),
		item(event.ItemStarted, 12, 11, ""), item(event.ItemRetry, 12, 15, ""),
		item(event.ItemStarted, 13, 12, ""), event.Event{Type: event.StepStarted, Index: 13, Step: "x", Label: "build", Time: at(12)},
		event.Event{Type: event.AttemptStarted, Index: 13, Step: "x", Attempt: 3, Time: at(13)},
		event.Event{Type: event.ItemStarted, Item: "i14", Label: "fourteen", Index: 14, Attempt: 2, Time: at(14)},
		item(event.ItemStarted, 15, 14.9, ""))
	check("a map", 15, 100, 10, `
* ━━━━━━━━────────────────────── 11/40 · 1 failed · 1 retrying · 3 running · 2/s · 14s left
  * i13 · build · attempt 3 of the step · 3s
  * fourteen · attempt 2 · 1s`)
	b.waiting[12] = at(18)
	check("a wait of an item", 15, 100, 1, "* ━━━━━━━━────────────────────── 11/40 · 1 failed · 1 retrying in 3s · 3 running · 2/s · 14s left")
	b.waiting[16] = at(17)
	check("waits of items", 15, 110, 1, "* ━━━━━━━━────────────────────── 11/40 · 1 failed · 2 retrying, the first in 2s · 3 running · 2/s · 14s left")
	delete(b.waiting, 16)
	b.waiting[12] = at(15)
	check("narrow", 15, 30, 10, `
* 11/40 · 1 failed · 1 retryi…
  * i13 · build · attempt 3 o…
  * fourteen · attempt 2 · 1s`)
	check("low", 15, 100, 2, `
* ━━━━━━━━────────────────────── 11/40 · 1 failed · 1 retrying · 3 running · 2/s · 14s left
  … and 2 more`)
	take(event.Event{Type: event.BreakerChanged, Label: "map", From: "closed", To: "open", Time: at(15)},
		event.Event{Type: event.RunPaused, DelayMS: 90_000, Time: at(15)},
		event.Event{Type: event.AgentUsage, Data: []byte(`{"cost_usd":1.256}`), Time: at(15)})
	take(event.Event{Type: event.RunControlled, Label: "pause", Run: "01ABCDEF", Time: at(15)}, event.Event{Type: event.RunControlled, Label: "parallel", Total: 3, Time: at(15)})
	local := func(s float64) string { return at(s).Local().Format(time.DateTime) }
	check("held", 16, 60, 5, `
* 11/40 · 1 failed · 1 retrying · 3 running · 2/s · breaker…
paused since `+local(15)+`: nothing new starts until
  bide control ABCDEF continue
agents are held back by a rate limit until `+strings.Replace(local(105), " ", "\n  ", 1)+`; bide control ABCDEF retry-now asks them now`)
	take(event.Event{Type: event.RunControlled, Label: "continue"}, event.Event{Type: event.PauseEnded})
	take(event.Event{Type: event.HoldStarted, Message: `the map is held: 3 items failed with "no"`, DelayMS: 30_000, Time: at(15)})
	check("held by its items", 16, 200, 2, `
* ━━━━━━━━────────────────────── 11/40 · 1 failed · 1 retrying · 3 running · 2/s · breaker open · $1.26 · 16s left
the map is held: 3 items failed with "no", since `+local(15)+`; one item is tried at `+at(45).Local().Format(time.TimeOnly)+`; bide control ABCDEF probe tries one now, continue ends the hold`)
	take(event.Event{Type: event.HoldEnded})
	b.ending = true
	check("stopped", 16, 140, 1, "* ━━━━━━━━────────────────────── 11/40 · 1 failed · 1 retrying · 3 running · 2/s · breaker open · $1.26 · ending")
	take(event.Event{Type: event.BreakerChanged, Label: "map", From: "open", To: "closed", Time: at(16)}, event.Event{Type: event.PhaseFinished, Phase: "map"})
	for _, i := range []int{13, 14, 15} {
		take(item(event.ItemFinished, i, 17, event.Interrupted))
	}
	check("the end", 17, 80, 10, "")
}

// A resumed run begins where it stood.
func TestBoardOfAResumedRun(t *testing.T) {
	b := newBoard()
	b.take(event.Event{Type: event.RunResumed, Data: []byte(`{"items":{"total":10,"succeeded":4,"failed":1,"skipped":2,"pending":3}}`)})
	b.take(event.Event{Type: event.PhaseStarted, Phase: "map", Time: at(0)})
	b.take(event.Event{Type: event.ItemFinished, Index: 8, Status: event.Succeeded, Time: at(2)})
	if got, want := blockOf(b, 2, 60, 5), "* ━━━━━━━━━━━━━━━━━━━━━━━━───── 8/10 · 1 failed · 30/min · 4s left"; ansi.Truncate(got, 10, "") != ansi.Truncate(want, 10, "") || !strings.HasSuffix(got, "8/10 · 1 failed · 30/min · 4s left") {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// Whatever happens, no line is wider than asked, and there are not too many.
func TestBoardFits(t *testing.T) {
	types := []event.Type{event.ItemsReady, event.RunResumed, event.PhaseStarted, event.PhaseFinished, event.StepStarted, event.AttemptStarted,
		event.RetryScheduled, event.StepFinished, event.ItemStarted, event.ItemRetry, event.ItemFinished, event.ItemRequeued, event.BreakerChanged,
		event.RunPaused, event.AgentUsage}
	rapid.Check(t, func(t *rapid.T) {
		b := newBoard()
		now := noon
		for range rapid.IntRange(0, 60).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			text := rapid.SampledFrom([]string{"", "map", "日本語のラベル", "a\tb\x1b[2J", strings.Repeat("long ", 40)}).Draw(t, "text")
			b.take(event.Event{Type: rapid.SampledFrom(types).Draw(t, "type"), Phase: "map", Step: text, Label: text, Item: text,
				Index: rapid.IntRange(0, 9).Draw(t, "index"), Attempt: rapid.IntRange(0, 3).Draw(t, "attempt"), Total: rapid.IntRange(0, 99).Draw(t, "total"),
				DelayMS: rapid.Int64Range(0, 1<<60).Draw(t, "delay"), Status: rapid.SampledFrom([]string{event.Failed, event.Succeeded, event.Interrupted}).Draw(t, "status"),
				To: text, Time: now, Data: []byte(rapid.SampledFrom([]string{``, `{"cost_usd":1}`, `[`, `{"items":{"total":5,"failed":9}}`}).Draw(t, "data"))})
		}
		width, height := rapid.IntRange(1, 200).Draw(t, "width"), rapid.IntRange(1, 12).Draw(t, "height")
		lines := b.lines(now, width, height)
		if len(lines) > height {
			t.Fatalf("%d lines of %d", len(lines), height)
		}
		for _, l := range lines {
			if ansi.StringWidth(l) > width || strings.ContainsAny(l, "\x1b\n\t") {
				t.Fatalf("%q is %d columns wide, %d are there", l, ansi.StringWidth(l), width)
			}
		}
	})
}

// A question stands where the block was, and nothing is drawn over it.
func TestLiveQuestion(t *testing.T) {
	var out bytes.Buffer
	d := &liveDisplay{plainDisplay: plainDisplay{app: &app{streams: streams{err: &out, out: &out}}}, now: func() time.Time { return at(1) },
		size: func() (int, int) { return 80, 24 }, board: newBoard()}
	d.Emit(event.Event{Type: event.StepStarted, Step: "a", Label: "work", Time: at(0)})
	d.draw()
	if !strings.Contains(out.String(), "work · 1s") {
		t.Fatalf("nothing is drawn: %q", out.String())
	}
	out.Reset()
	answer := d.ask(func(string) bool {
		if out.String() != "\r\x1b[J" {
			t.Errorf("the block was not taken away: %q", out.String())
		}
		d.mu.Lock()
		d.draw()
		d.mu.Unlock()
		return true
	})("Merge?")
	if !answer || out.String() != "\r\x1b[J" {
		t.Errorf("answer %t; written over the question: %q", answer, out.String())
	}
	d.draw()
	if !strings.Contains(out.String(), "work · 1s") {
		t.Errorf("the block does not come back: %q", out.String())
	}
	if (&liveDisplay{}).ask(nil) != nil {
		t.Error("nobody is there to be asked")
	}
}

// TestWaitsAreToldByTheFirstInLine: who waits behind others of the same run says nothing, as
// those say what the run waits for, whoever comes first.
func TestWaitsAreToldByTheFirstInLine(t *testing.T) {
	var said strings.Builder
	d := &plainDisplay{app: &app{streams: streams{out: io.Discard, err: &said}}}
	for _, b := range []limits.Block{{Limit: "gpu", Before: 1}, {Limit: "gpu", Full: true, Held: 1, Slots: 1}, {Limit: "gpu", Before: 2}, {Limit: "gpu", Paused: true, By: []string{""}}} {
		x := &step.Executor{Clock: virtual.NewClock(at(0)), Recorder: shownTo{d}}
		x.ShowWait(step.Place{}, "", 1, &b)
	}
	if got := strings.Count(said.String(), "\n"); got != 2 || !strings.Contains(said.String(), "gpu: 1 of 1 held") || !strings.Contains(said.String(), "gpu: paused until") {
		t.Errorf("%s", said.String())
	}
}

// shownTo shows events to a display.
type shownTo struct{ d *plainDisplay }

func (s shownTo) Record(...event.Event) error { return nil }
func (s shownTo) Detailed() bool              { return false }
func (s shownTo) Sync(context.Context) error  { return nil }
func (s shownTo) Show(e event.Event)          { s.d.Emit(e) }
