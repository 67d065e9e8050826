package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
)

// usageText says what agents used, as far as they reported it.
func usageText(u step.Usage) string {
	text := diag.Count(u.Calls, "call")
	in := u.InputTokens + u.CacheTokens
	if in == 0 && u.OutputTokens == 0 && u.CostUSD == 0 {
		if u.OtherTokens == 0 {
			return text + ", which did not tell what they used"
		}
		return text + fmt.Sprintf(", %d tokens", u.OtherTokens)
	}
	text += fmt.Sprintf(", %d tokens in, %d out", in, u.OutputTokens)
	if u.OtherTokens > 0 {
		text += fmt.Sprintf(", %d more", u.OtherTokens)
	}
	return text + fmt.Sprintf(", $%.2f", u.CostUSD)
}

func summarise(w io.Writer, s *engine.Summary, width int) {
	left := unmergedOf(s.Status, journal.Left{Command: s.MergeWith, Once: s.OnceMerged})
	head, rest := fmt.Sprintf("bide: %s in %s:", left.title(s.Status), millis(s.DurationMS)), counts(s)
	if width > 0 && widthOf(head)+1+widthOf(rest) > width {
		fmt.Fprintln(w, head)
		fmt.Fprintln(w, fold("  "+rest, width, "    "))
	} else {
		fmt.Fprintln(w, head, rest)
	}
	causes, others := firstCauses(s.Errors)
	for _, c := range causes {
		fmt.Fprintln(w, someLines("  "+causeText(c, reason("", c.Example)), width, "    "))
	}
	if others != "" {
		fmt.Fprintln(w, "  "+others)
	}
	if s.Repeated != nil {
		fmt.Fprintln(w, repeatedText(s.Repeated, width))
	}
	if s.Usage != nil {
		fmt.Fprintln(w, fold("  agents: "+usageText(*s.Usage), width, "    "))
	}
	if s.Message != "" && s.Status == event.Failed {
		for line := range strings.SplitSeq(indent(strings.TrimSpace(s.Message), "  "), "\n") {
			if !strings.HasPrefix(line, "   ") { // a line of a file, with the marks below it
				line = fold(line, width, "    ")
			}
			fmt.Fprintln(w, line)
		}
	}
	switch {
	case s.Status == event.Interrupted:
		hint(w, width, whenLimited("continue with", s.Limited), "bide resume "+shortRun(s.Run))
	case s.Status == event.Failed:
		hint(w, width, "look further", fmt.Sprintf("bide show %[1]s; bide logs %[1]s", shortRun(s.Run)))
		when := whenLimited("after the cause is mended", s.Limited)
		for _, c := range left.commands(s.Run, true, false) {
			hint(w, width, when, shortly(c, s.Run))
			when = "merge what is done"
		}
	case s.MapReduce && s.Items.Failed > 0 && s.Letters == 0:
		hint(w, width, "look further", fmt.Sprintf("bide show %[1]s; bide logs %[1]s", shortRun(s.Run)))
	case s.MapReduce && s.Items.Failed > 0:
		hint(w, width, "look further", "bide dlq list "+shortRun(s.Run))
		hint(w, width, "after the cause is mended", "bide dlq retry "+shortRun(s.Run))
	}
	if s.MergeWith != "" && s.Status != event.Failed && s.Status != event.Interrupted {
		hint(w, width, "merge what is done", shortly(s.MergeWith, s.Run))
	}
}

// whenLimited says when it makes sense to resume a run whose agents are held back by a rate
// limit: an earlier resume stops immediately. It returns otherwise for other runs.
func whenLimited(otherwise string, until time.Time) string {
	if until.IsZero() {
		return otherwise
	}
	return "when agents may be asked again, at " + until.Local().Format(time.DateTime)
}

// causeText says how many items failed of a cause, and shows the error of one of them if it
// is known. It names the step where the error names no cause.
func causeText(c journal.Cause, example string) string {
	text := fmt.Sprintf("%d × %s", c.Count, c.Class)
	if failure.Unnamed(c.Example, c.Step) {
		text += fmt.Sprintf(" of step %q", oneLine(c.Step))
	}
	if c.Example == "" {
		return text
	}
	return text + fmt.Sprintf(", for example item %s: %s", oneLine(cmp.Or(c.Label, c.Item)), example)
}

// maxCauses is how many causes are told one by one.
const maxCauses = 5

// firstCauses gives the causes of which most items failed, and says what the others are;
// "" for none.
func firstCauses(list []journal.Cause) (first []journal.Cause, others string) {
	if len(list) <= maxCauses+1 {
		return list, ""
	}
	n := 0
	for _, c := range list[maxCauses:] {
		n += c.Count
	}
	return list[:maxCauses], fmt.Sprintf("%d × other causes", n)
}

// repeatedText says what a hold would have saved, or why none was possible.
func repeatedText(r *policy.Repeated, width int) string {
	head := fmt.Sprintf("  %s %s spent after %d items had failed with %q", diag.Count(r.Attempts, "attempt"), diag.Plural(r.Attempts, "was", "were"), r.Items, oneLine(r.Message))
	rest := "    same_error: true would have held the run (bide docs cookbook)"
	if r.Weak {
		rest = "    it names no cause: same_error holds a run only for failures that print one"
	}
	return fitLine(head, "", width) + "\n" + fold(rest, width, "      ")
}

// stepWord is the word for a step of the run.
func stepWord(pipeline bool) string {
	if pipeline {
		return "call"
	}
	return "step"
}

// howMany is how many ended in one way.
type howMany struct {
	n   int
	way string
}

// counted lists in words how many ended in which way; "" if there are none.
func counted(word string, list ...howMany) string {
	var parts []string
	for _, c := range list {
		if c.n == 0 {
			continue
		}
		if c.way == event.Tolerated {
			c.way = "failed and tolerated"
		}
		if len(parts) == 0 {
			c.way = diag.Plural(c.n, word) + " " + c.way
		}
		parts = append(parts, fmt.Sprintf("%d %s", c.n, c.way))
	}
	return strings.Join(parts, ", ")
}

func counts(s *engine.Summary) string {
	var text, word string
	if s.MapReduce {
		word = "item"
		i := s.Items
		text = counted(word, howMany{i.Succeeded - i.Degraded - i.Recovered - i.Incomplete - i.Tolerated, event.Succeeded}, howMany{i.Degraded, event.Degraded},
			howMany{i.Recovered, event.Recovered}, howMany{i.Incomplete, event.Incomplete}, howMany{i.Failed, event.Failed},
			howMany{i.Tolerated, event.Tolerated}, howMany{i.Unchanged, event.Unchanged}, howMany{i.Skipped, event.Skipped}, howMany{i.Pending, "not finished"})
	} else {
		word = stepWord(s.Pipeline)
		text = stepCounts(word, s.Steps)
	}
	if text != "" {
		return text
	}
	if steps := stepCounts("step", s.Steps); s.MapReduce && steps != "" {
		return "no items, " + steps // steps of setup and reduce
	}
	return "no " + word + "s"
}

// stepCounts says how many steps ended in which way.
func stepCounts(word string, c event.Counts) string {
	return counted(word, howMany{c.Succeeded, event.Succeeded}, howMany{c.Degraded, event.Degraded}, howMany{c.Recovered, event.Recovered},
		howMany{c.Incomplete, event.Incomplete}, howMany{c.Failed, event.Failed}, howMany{c.Tolerated, event.Tolerated}, howMany{c.Skipped, event.Skipped})
}
