package web

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/workflow"
)

// maxCauses is how many causes a run's page lists, maxNotes how many of its notes,
// and maxBars how many runs of the same workflow.
const (
	maxCauses = 6
	maxNotes  = 6
	maxBars   = 24
)

// answer is what somebody wants to know first who comes back to a run: what
// failed and why, what was not merged, what it waits for.
type answer struct {
	Run      string
	Causes   []cause
	More     int    // causes that are not listed
	Unmerged string // what is not merged; "" for nothing
	Merges   string // the command that merges it; "" where none does
	Own      bool   // of what is not merged: nothing is in branches of items that succeeded
	Kept     int    // items that failed whose work is in branches
	Waits    []string
	Notes    []string // the last ones
	Earlier  []string // those before
	Last     *strip   // of the same workflow; nil where there is but one
}

// Lists reports whether the page still has to say which command lists the branches.
func (a *answer) Lists() bool { return !strings.Contains(a.Unmerged, "bide worktree ls") }

// cause is one reason for which something failed.
type cause struct {
	Count       int
	What        string // step, item
	Class, Text string
	Href        string
	Group       string // of dead letters, which a button runs again
}

// answer tells it; run.mu is held.
func (run *run) answer(now time.Time) *answer {
	a := &answer{Run: run.id, Waits: run.waits(now)}
	notes := a.left(run)
	a.Causes, a.More = run.causes()
	at := max(0, len(notes)-maxNotes)
	a.Notes, a.Earlier = slices.Clone(notes[at:]), slices.Clone(notes[:at])
	return a
}

// left fills in what is not merged, and gives the notes that do not tell of it.
func (a *answer) left(run *run) (others []string) {
	what, command, others := run.line.Unmerged()
	failed := run.items.leftBad
	succeeded := len(run.items.left) - failed
	if what == "" && succeeded > 0 { // its process died before it told
		what, command = "the work of "+diag.Count(succeeded, "item")+" was left in branches, not merged", "bide worktree merge "+run.id
	}
	if what != "" {
		what = capital(what)
	}
	if a.Unmerged, a.Merges, a.Own = what, command, succeeded == 0; command != "" || what == "" {
		a.Kept = failed // else what is told includes them
	}
	return others
}

// causes are those of steps of the run's own that failed, of dead letters, and of
// other items that failed, the most frequent of each first; more is how many are left
// out. run.mu is held.
func (run *run) causes() (out []cause, more int) {
	t := &run.items
	var letters, others most
	steps := most{list: run.stepCauses()}
	slices.SortFunc(steps.list, beforeCause)
	for _, g := range t.groups {
		if g.Count > 0 {
			letters.add(cause{Count: g.Count, What: "item", Class: g.Class, Text: g.text(), Href: "/runs/" + run.id + "/dlq?" + address("group", g.ID), Group: g.ID})
		}
	}
	if n := t.counts[journal.ItemFailed]; n > 0 {
		others.add(cause{Count: n, What: "item", Text: "failed, and is no dead letter", Href: "/runs/" + run.id + "/map?" + address("state", event.Failed)})
	}
	for _, of := range []most{steps, letters, others} {
		out, more = append(out, of.list...), more+of.more
	}
	if n := len(out) - maxCauses; n > 0 {
		out, more = out[:maxCauses], more+n
	}
	return out, more
}

// text is the message of one of the letters, with the step that failed where the message
// names no cause.
func (g *group) text() string {
	if g.Step == "" {
		return g.Example
	}
	return fmt.Sprintf("step %q: %s", g.Step, g.Example)
}

// most is the causes that are the most frequent, those first; there may be as many causes
// as items.
type most struct {
	list []cause
	more int // that are left out
}

func beforeCause(x, y cause) int {
	return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Text, y.Text))
}

func (m *most) add(c cause) {
	at, _ := slices.BinarySearchFunc(m.list, c, beforeCause)
	if at < maxCauses {
		m.list = slices.Insert(m.list, at, c)
	} else {
		m.more++
	}
	if len(m.list) > maxCauses {
		m.list, m.more = m.list[:maxCauses], m.more+1
	}
}

// stepCauses are those of the steps that failed, without the steps around them,
// which failed of the same.
func (run *run) stepCauses() []cause {
	var list []cause
	what := "step"
	if run.r.Header().Kind == workflow.Dataflow.String() {
		what = "call"
	}
	around := map[*timeline.Row]bool{}
	rows := run.line.Rows()
	for _, r := range rows {
		if r.Status == event.Failed && r.Kind == timeline.Step {
			for up := r.Parent; up != nil; up = up.Parent {
				around[up] = true
			}
		}
	}
	for _, r := range rows {
		if r.Status != event.Failed || r.Kind != timeline.Step || around[r] {
			continue
		}
		text := r.Label
		if r.Message != "" {
			text += ": " + diag.ClipBytes(r.Message, 500)
		}
		same := func(c cause) bool {
			return failure.Sign(c.Class, "", c.Text) == failure.Sign(r.Class, "", text)
		}
		if i := slices.IndexFunc(list, same); i >= 0 {
			list[i].Count++
			continue
		}
		list = append(list, cause{Count: 1, What: what, Class: r.Class, Text: text, Href: "/runs/" + run.id + "/step?" + address("path", r.Path)})
	}
	return list
}

// waits says what the run waits for and what holds it, beside what it does.
func (run *run) waits(now time.Time) (out []string) {
	if !run.held {
		return nil
	}
	name := journal.ShortRun(run.id)
	for _, s := range run.line.Holdups.Says(name, now, true) {
		if timeline.Sentence(s) != run.line.Now(name, now, run.tally(), run.items.due.first()) { // which is above
			out = append(out, s)
		}
	}
	// What cannot be read is not waited for, as far as this page knows.
	if limited, err := limits.Waits(filepath.Dir(filepath.Dir(run.r.Dir())), run.id, now); err == nil {
		for _, w := range limited {
			out = append(out, "waits for "+w+"; bide limits shows who has it")
		}
	}
	for _, f := range run.line.Widths {
		out = append(out, f.Text(now))
	}
	if first := run.items.due.first(); first.After(now) && run.line.Holdups.Paused.IsZero() {
		out = append(out, "the next retry begins in "+timeline.Short(first.Sub(now))) // how many wait is above
	} else if n := run.items.due.len(); n > 0 && !run.line.Holdups.Paused.IsZero() {
		out = append(out, diag.Count(n, "item")+" "+diag.Plural(n, "waits", "wait")+" for a retry")
	}
	if n := run.items.counts[journal.ItemHandling]; n > 0 {
		out = append(out, timeline.Number(n)+" wait for their handler")
	}
	last := map[string]timeline.Breaker{}
	var names []string
	for _, b := range run.line.Breakers {
		if _, ok := last[b.Name]; !ok {
			names = append(names, b.Name)
		}
		last[b.Name] = b
	}
	for _, name := range names {
		if b := last[name]; b.To == "open" {
			out = append(out, "the breaker "+cmp.Or(name, "of the map")+" is open, since "+b.At.Local().Format("15:04:05"))
		}
	}
	return out
}

// eta says how long a map that runs takes still, and between which bounds that may be by
// chance. "" where too little is known.
func (t *items) eta(now time.Time) string {
	rest := t.pace.Rest(now, t.tally().Pending)
	if !rest.Sure {
		return ""
	}
	return fmt.Sprintf("about %s left (%s to %s)", timeline.Short(rest.About), timeline.Short(rest.Least), timeline.Short(rest.Most))
}

// given are the values that a run was started with, by name, as much of each as fits.
func given(h journal.Header) []journal.Given {
	list := h.Given()
	for i := range list {
		list[i].Value = diag.ClipBytes(list[i].Value, 500)
	}
	return list
}

// strip is the last runs of a workflow, the oldest first: how long they took, and how they
// ended.
type strip struct {
	Bars   []runBar
	Text   string // the same in words
	Width  float64
	Height float64
}

// runBar is a run in it.
type runBar struct {
	ID, Status string
	X, Y, H    float64
	Title      string
	This       bool
}

// barHeight and barWidth are the sizes of the strip, in pixels.
const (
	barHeight = 34.0
	barWidth  = 12.0
)

// strip gives the last runs of the same workflow, with bars as high as the runs are long.
func (l *list) strip(id, path, name string) *strip {
	l.mu.Lock()
	defer l.mu.Unlock()
	var same []*entry
	for _, other := range l.order {
		e := l.entries[other]
		if e != nil && (e.Path == path && e.Name == name || e.ID == id) {
			if same = append(same, e); len(same) == maxBars {
				break
			}
		}
	}
	if len(same) < 2 {
		return nil
	}
	shortest, longest := same[0].Took(), same[0].Took()
	counts := map[string]int{}
	for _, e := range same {
		shortest, longest = min(shortest, e.Took()), max(longest, e.Took())
		counts[e.Status]++
	}
	slices.Reverse(same)
	out := &strip{Width: float64(len(same)) * barWidth, Height: barHeight}
	for i, e := range same {
		h := max(3, barHeight*float64(e.Took())/float64(max(longest, time.Millisecond)))
		out.Bars = append(out.Bars, runBar{ID: e.ID, Status: e.Status, X: float64(i) * barWidth, Y: barHeight - h, H: h, This: e.ID == id,
			Title: fmt.Sprintf("%s, %s, %s", e.Started.Local().Format(time.DateTime), words(e.Status), timeline.Short(e.Took()))})
	}
	var ends []string
	for _, s := range statuses {
		if n := counts[s]; n > 0 {
			ends = append(ends, timeline.Number(n)+" "+words(s))
		}
	}
	out.Text = fmt.Sprintf("the last %d runs: %s; %s", len(same), strings.Join(ends, ", "), between(timeline.Short(shortest), timeline.Short(longest)))
	return out
}
