package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/workflow"
)

// This file is about what `bide show` prints for a person.

// commands lists the commands that are useful next.
func (s *shown) commands() []string {
	out := []string{}
	switch {
	case s.Status == event.Running:
		out = append(out, "bide events "+s.Run+" -f")
		if s.Hold != "" || s.QueueHold != "" {
			out = append(out, "bide control "+s.Run+" probe")
		}
		if s.Hold != "" && s.Paused.IsZero() {
			out = append(out, "bide control "+s.Run+" continue")
		}
		out = append(out, "bide stop "+s.Run)
	case s.Resumable && !s.left.ended:
		out = append(out, "bide resume "+s.Run)
	}
	if !s.Paused.IsZero() {
		out = append(out, "bide control "+s.Run+" continue")
	}
	if !s.Limited.IsZero() {
		out = append(out, "bide control "+s.Run+" retry-now")
	}
	if s.Letters > 0 {
		out = append(out, "bide dlq list "+s.Run, "bide dlq retry "+s.Run)
	}
	if s.left.Command != "" {
		out = append(out, s.left.Command)
	}
	return append(out, "bide logs "+s.Run)
}

func (o *showOptions) printShown(s *shown) error {
	p := o.palette(o.out)
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			b.WriteString(fold(fmt.Sprintf("%-9s %s", name, text), o.columns(o.out), "          ") + "\n")
		}
	}
	line("run", p.bold(s.Run))
	kind := "workflow"
	if s.Kind == workflow.Dataflow.String() {
		kind = s.Kind
	}
	if command, batch := strings.CutPrefix(s.Title, "batch: "); batch && s.Name == "batch" {
		line("batch", visible(command))
	} else {
		line(kind, visible(s.Name))
		line("file", visible(s.Path))
	}
	line("in", visible(s.Dir))
	line("params", givenText(s.Params))
	line("status", p.sgr(statusCode(s.Status), s.left.title(s.Status))+s.because())
	for _, h := range s.holds() {
		line(h.word, visible(h.text))
	}
	line("at once", visible(s.AtOnce))
	for _, i := range s.StepList {
		line("at once", visible(i.AtOnce))
	}
	line("started", s.times())
	if s.Resumes > 0 {
		line("resumed", diag.Count(s.Resumes, "time"))
	}
	line("items", s.items())
	evidence, merges := s.proven()
	line("evidence", evidence)
	line("merges", merges)
	line("agents", s.usage())
	line("state", s.State)
	if _, err := fmt.Fprint(o.out, b.String()); err != nil {
		return err
	}
	return errors.Join(o.printPhases(s, p), o.printSteps(s, p), o.printRest(s, p))
}

// givenText shows in one line what a run was started with.
func givenText(params map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		parts = append(parts, cut(oneLine(name+"="+params[name]), 120))
	}
	return strings.Join(parts, ", ")
}

func (s *shown) because() string {
	if s.Status == event.Interrupted {
		return ": " + s.how
	}
	if s.Message == "" || s.left.byHand {
		return ""
	}
	return ": " + oneLine(strings.ReplaceAll(s.Message, "\n", "; "))
}

// heldBy is something that holds up a run: the heading of its line, "" if it belongs to the
// status, and its text.
type heldBy struct{ word, text string }

// holds lists what holds up the run.
func (s *shown) holds() (list []heldBy) {
	add := func(word, text string) {
		if text != "" {
			list = append(list, heldBy{word, text})
		}
	}
	paused := timeline.Holdups{Paused: s.Paused}
	add("", paused.PausedText(shortRun(s.Run)))
	add("", s.Agents)
	add("held", s.Hold)
	add("held", s.QueueHold)
	add("held up", s.Trouble)
	add("waits for", strings.Join(s.Waits, "; "))
	return list
}

// why lists what holds up the run, in one sentence each.
func (s *shown) why() []string {
	list := []string{}
	for _, h := range s.holds() {
		switch h.word {
		case "held up":
			h.text = h.word + ": " + h.text
		case "waits for":
			h.text = h.word + " " + h.text
		}
		list = append(list, h.text)
	}
	return list
}

func (s *shown) times() string {
	if s.Started.IsZero() {
		return ""
	}
	t := s.Started.Local().Format(time.DateTime)
	if d := took(s.DurationMS); d != "" {
		t += ", " + d
	}
	return t
}

func (s *shown) items() string {
	c := s.Items
	if c.Total == 0 {
		return ""
	}
	var ended parts
	ended.add(true, "%d: %d succeeded", c.Total, c.Succeeded-c.Degraded-c.Recovered-c.Tolerated-c.Incomplete)
	ended.kinds(c.KindCounts)
	ended.add(c.Unchanged > 0, "%d unchanged", c.Unchanged)
	ended.add(c.Failed > 0, "%d failed", c.Failed)
	ended.add(c.Skipped > 0, "%d skipped", c.Skipped)
	ended.add(c.Pending > 0, "%d not finished", c.Pending)
	all := parts{strings.Join(ended, ", ")}
	all.add(s.Letters > 0, "%s", diag.Count(s.Letters, "dead letter"))
	all.add(s.Retried > 0, "%d needed more than one attempt", s.Retried)
	return strings.Join(all, "; ")
}

func (s *shown) usage() string {
	if s.Usage["calls"] == 0 {
		return ""
	}
	u := s.Usage
	return usageText(step.Usage{InputTokens: int64(u["input_tokens"]), OutputTokens: int64(u["output_tokens"]), CacheTokens: int64(u["cache_tokens"]),
		OtherTokens: int64(u["other_tokens"]), CostUSD: u["cost_usd"], Calls: int(u["calls"])})
}

func (o *showOptions) printPhases(s *shown, p palette) error {
	if len(s.Phases) == 0 {
		return nil
	}
	t := table{head: []string{"PHASE", "STATUS", "TOOK"}, right: map[int]bool{2: true}, block: true}
	t.paint = paintStatus(p, 1)
	for _, x := range s.Phases {
		t.add(x.Phase, words(x.Status), took(x.DurationMS))
	}
	return o.section(&t)
}

func (s *streams) section(t *table) error {
	if _, err := fmt.Fprintln(s.out); err != nil {
		return err
	}
	return t.print(s.out, s.columns(s.out))
}

func paintStatus(p palette, column int) func(int, string) string { return painted(column, p.status) }

// painted returns a function that colours one column of a table.
func painted(column int, paint func(string) string) func(int, string) string {
	return func(col int, s string) string {
		if col == column {
			return paint(s)
		}
		return s
	}
}

func (o *showOptions) printSteps(s *shown, p palette) error {
	if len(s.StepList) == 0 {
		return nil
	}
	t := table{head: []string{"STEP", "STATUS", "ATTEMPTS", "TOOK", "WAITED", "WHAT"}, right: map[int]bool{2: true, 3: true, 4: true}, flex: 5, also: []int{0}, drop: []int{4, 2}, block: true}
	t.paint = paintStatus(p, 1)
	for _, x := range s.StepList {
		if s.Proof != nil && ofQueue().MatchString(x.Step) {
			continue
		}
		what := x.Label
		switch {
		case x.Message == "":
		case x.Status == event.Failed, x.Status == event.Tolerated:
			what += ": " + x.Message
		case x.Status == event.Skipped:
			what += ": skipped, as " + x.Message
		}
		t.add(x.Step, words(x.Status), strconv.Itoa(x.Attempts), took(x.DurationMS), took(x.WaitedMS), oneLine(what))
	}
	return o.section(&t)
}

func (o *showOptions) printRest(s *shown, p palette) error {
	var b strings.Builder
	if len(s.Errors) > 0 {
		b.WriteString("\n" + p.bold("errors of items") + "\n")
		causes, others := firstCauses(s.Errors)
		for _, e := range causes {
			b.WriteString(fold("  "+causeText(e, oneLine(e.Example)), o.columns(o.out), "      ") + "\n")
		}
		if others != "" {
			b.WriteString("  " + others + "\n")
		}
	}
	if len(s.Notes) > 0 {
		b.WriteString("\n" + p.bold("notes") + "\n")
		for _, n := range s.Notes {
			b.WriteString(fold("  "+shortly(oneLine(n), s.Run), o.columns(o.out), "    ") + "\n")
		}
	}
	b.WriteString("\n" + p.bold("next") + "\n")
	for _, c := range s.Commands {
		b.WriteString("  " + shortly(c, s.Run) + "\n")
	}
	return o.print(b.String())
}
