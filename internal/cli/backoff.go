package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/bound"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
	"github.com/spf13/cobra"
)

// headRows and tailRows are how many rows of a longer table are printed at its head and tail.
const headRows, tailRows = 40, 10

// schedule is the delays of one strategy.
type schedule struct {
	name     string
	policy   retry.Policy
	timeline bound.Timeline
}

// delaysJSON is the machine-readable form of a schedule.
type delaysJSON struct {
	DelaysNS  []int64 `json:"delays_ns"`
	TotalNS   int64   `json:"total_ns"`
	StoppedBy string  `json:"stopped_by"`
}

func (s schedule) json() delaysJSON {
	delays := value.Map(s.timeline.Waits, func(w bound.Wait) int64 { return w.Delay.Nanoseconds() })
	return delaysJSON{DelaysNS: delays, TotalNS: s.timeline.Total.Nanoseconds(), StoppedBy: s.timeline.Reason.String()}
}

// backoffOptions are the options of backoff.
type backoffOptions struct {
	*streams
	pf  policyFlags
	svg string
}

func backoffCmd(a *app) *cobra.Command {
	o := &backoffOptions{streams: &a.streams}
	cmd := &cobra.Command{
		Use:   "backoff",
		Short: "Show the delays of a backoff strategy as a table and a plot",
		Long: `Shows the delays of a retry policy when every attempt fails, computed as in a run.
--attempts N is N executions, so there are N-1 delays. Several strategies are shown
side by side.

With jitter the delays are drawn at random, from --seed if it is given; the table
and the plot also show the bounds of each.

--json prints {"delays_ns": [...], "total_ns": N, "stopped_by": "attempts",
"budget" or "deadline"}; for several strategies an object that has one of these under the name
of each.`,
		Example: `  bide backoff --backoff exponential --attempts 8
  bide backoff --backoff fixed,linear,exponential,fibonacci --attempts 10 --svg delays.svg
  bide backoff --backoff exponential --jitter full --seed 7 --budget 1m --attempts 20 --json`,
		RunE: func(*cobra.Command, []string) error {
			return o.run()
		},
	}
	o.pf.register(o.streams, cmd.Flags(), option.Backoff)
	o.renamedFlag(cmd.Flags(), "strategy", "backoff")
	alsoNamed(cmd.Flags(), retryNames)
	cmd.Flags().StringVar(&o.svg, "svg", "", "also write the plot to this file, as SVG")
	return o.withJSON(cmd, "print the delays as JSON")
}

func (o *backoffOptions) run() error {
	list, err := schedules(&o.pf)
	if err != nil {
		return usageError{err}
	}
	if o.svg != "" {
		if err := os.WriteFile(o.svg, []byte(svgPlot(list)), 0o644); err != nil {
			return fmt.Errorf("writing the plot: %w", err)
		}
	}
	if o.json {
		return o.printDelays(list)
	}
	p := o.palette(o.out)
	width := o.columns(o.out)
	if err := delayTable(list, p).print(o.out, width); err != nil {
		return err
	}
	width = cmp.Or(width, 80)
	return o.print(endings(list) + plot(list, width, p))
}

// schedules reads the flags and computes the delays.
func schedules(pf *policyFlags) ([]schedule, error) {
	policies, err := pf.policies()
	seen := map[string]bool{}
	for _, n := range policies {
		if seen[n.name] {
			err = errors.Join(err, fmt.Errorf("--backoff names %s twice", n.name))
		}
		seen[n.name] = true
	}
	if err != nil {
		return nil, err
	}
	return value.Map(policies, func(n named) schedule { return schedule{n.name, n.policy, bound.Failures(n.policy, -1)} }), nil
}

func (o *backoffOptions) printDelays(list []schedule) error {
	if len(list) == 1 {
		return printJSON(o.out, list[0].json())
	}
	all := map[string]delaysJSON{}
	for _, s := range list {
		all[s.name] = s.json()
	}
	return printJSON(o.out, all)
}

// delayTable has a row for each failed attempt: one schedule with the sums
// and ranges, several side by side.
func delayTable(list []schedule, p palette) *table {
	t := &table{head: []string{"AFTER ATTEMPT"}, right: map[int]bool{0: true}}
	_, rows := longest(list)
	jitter := slices.ContainsFunc(list, schedule.ranged)
	for _, s := range list {
		head := "DELAY"
		if len(list) > 1 {
			head = s.name
		}
		t.head = append(t.head, head, "SUM")
		if jitter {
			t.head = append(t.head, "DRAWN FROM")
		}
	}
	each := (len(t.head) - 1) / len(list)
	for i := range t.head {
		t.right[i] = true
	}
	t.flex = len(t.head) - 1
	t.paint = func(col int, cell string) string {
		switch {
		case col == 0:
			return p.dim(cell)
		case len(list) > 1 && (col-1)%each == 0:
			return p.sgr(seriesColor((col-1)/each), cell)
		}
		return cell
	}
	for n := range rows {
		if rows > headRows+tailRows && n >= headRows && n < rows-tailRows {
			if n == headRows {
				t.add(append([]string{fmt.Sprintf("… %d more …", rows-headRows-tailRows)}, make([]string, len(t.head)-1)...)...)
			}
			continue
		}
		row := []string{strconv.Itoa(n + 1)}
		for _, s := range list {
			row = append(row, s.cells(n, jitter)...)
		}
		t.add(row...)
	}
	return t
}

// cells are the columns of a schedule in one row.
func (s schedule) cells(n int, jitter bool) []string {
	out := []string{"", "", ""}
	if n < len(s.timeline.Waits) {
		w := s.timeline.Waits[n]
		out = []string{duration.Format(brief(w.Delay)), duration.Format(brief(w.Sum)), span(w.Least, w.Greatest)}
	}
	if !jitter {
		return out[:2]
	}
	return out
}

// ranged reports whether a delay of the schedule is drawn from a range.
func (s schedule) ranged() bool {
	return slices.ContainsFunc(s.timeline.Waits, func(w bound.Wait) bool { return w.Least != w.Greatest })
}

// endings says in a sentence how each schedule ends.
func endings(list []schedule) string {
	var b strings.Builder
	for _, s := range list {
		t := s.timeline
		b.WriteByte('\n')
		if len(list) > 1 {
			b.WriteString(s.name + ": ")
		}
		fmt.Fprintf(&b, "%s, %s of waits", diag.Count(t.Attempts, "attempt"), duration.Format(brief(t.Total)))
		switch t.Reason {
		case driver.ReasonBudget:
			fmt.Fprintf(&b, "; the budget of %s ends it: the next delay would exceed it", duration.Format(s.policy.Budget))
		case driver.ReasonDeadline:
			fmt.Fprintf(&b, "; the deadline of %s ends it: the next delay would exceed it", duration.Format(s.policy.Deadline))
		}
	}
	return "\n" + strings.TrimPrefix(b.String(), "\n") + "\n"
}
