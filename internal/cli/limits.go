package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/spf13/cobra"
)

// limitInfo is a limit as `bide limits --json` prints it.
type limitInfo struct {
	Name   string       `json:"name"`
	Slots  int          `json:"slots,omitempty"`
	Rate   string       `json:"rate,omitempty"`
	Shared bool         `json:"pause_shared,omitempty"`
	Held   []limits.Who `json:"held"`
	Waits  []limits.Who `json:"waiting"`
	Paused time.Time    `json:"paused_until,omitzero"`
	By     string       `json:"paused_by,omitempty"`
	Why    string       `json:"paused_why,omitempty"`
}

// limitsOptions are the options of limits.
type limitsOptions struct {
	*app
	do       string // what to do with the limit of this name; "": show all
	name     string
	settings []string
}

// maxWaits is how many waits for a limit are listed.
const maxWaits = 10

// limitActions are what can be done with a limit.
var limitActions = []string{"set", "lift"}

func limitsCmd(a *app) *cobra.Command {
	o := &limitsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "limits [set NAME KEY=VALUE... | lift NAME]",
		Short: "Show and change what all runs of this machine may do together",
		Long: `Shows the limits of limits.yml in the home directory: for each, how many attempts
hold a slot and of which runs, how many attempts wait, and how long a pause lasts.
Steps, agents, maps, pipelines,
bide exec and bide batch use a limit by its name.

"set" changes settings of one, and adds it where there is none. They apply immediately, also to running runs. KEY= removes a setting. The keys:

  slots  how many attempts run at once
  rate   how many attempts begin per time, evenly spaced, as in 50/1m
  pause  shared: when a server makes one run wait, all users of the limit wait

"lift" ends the pause of a limit, for all runs: the provider answers again. "bide control
RUN retry-now" lifts the pauses of the limits that a run names.`,
		Example: `  bide limits
  bide limits set anthropic slots=6 rate=50/1m pause=shared
  bide limits set anthropic slots=4
  bide limits lift anthropic`,
		Args: func(_ *cobra.Command, args []string) error { return o.read(args) },
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	return o.withJSON(cmd, "print one JSON array")
}

// read takes from the arguments what to do.
func (o *limitsOptions) read(args []string) error {
	if len(args) == 0 {
		return nil
	}
	o.do = args[0]
	switch {
	case formerly["bide limits "+o.do] != "":
		return usagef("the action %s is not known; %s", o.do, formerly["bide limits "+o.do])
	case !slices.Contains(limitActions, o.do):
		return usageError{unknownWord("the action", o.do, limitActions)}
	case o.do == "set" && len(args) < 3:
		return usagef("set needs the name of a limit and its settings: bide limits set anthropic slots=4")
	case o.do == "lift" && len(args) != 2:
		return usagef("lift needs the name of one limit: bide limits lift anthropic")
	}
	o.name, o.settings = args[1], args[2:]
	return nil
}

func (o *limitsOptions) run() error {
	home, err := journal.Home()
	if err != nil {
		return err
	}
	if o.do == "set" {
		if err := limits.Set(home, o.name, o.settings); err != nil {
			return usageError{err}
		}
	}
	h := limits.Open(home, nil)
	if o.do == "lift" {
		err = o.lift(h, home)
	}
	var list []limits.Status
	if err == nil {
		list, err = h.Status()
	}
	if err = errors.Join(err, h.Close()); err != nil {
		return err
	}
	now, infos := time.Now(), []limitInfo{}
	for _, s := range list {
		i := limitInfo{Name: s.Name, Slots: s.Slots, Shared: s.Shared, Held: append([]limits.Who{}, s.Held...), Waits: append([]limits.Who{}, s.Waiting...)}
		if s.Limit.Rate > 0 {
			i.Rate = s.RateText()
		}
		if s.Paused(now) {
			i.Paused, i.By, i.Why = s.PausedUntil, s.PausedBy, s.Why
		}
		infos = append(infos, i)
	}
	return answer(&o.streams, infos, func(infos []limitInfo) error { return o.printLimits(infos, now) })
}

// lift ends the pause of the limit.
func (o *limitsOptions) lift(h *limits.Home, home string) error {
	c, err := limits.Read(home)
	if err != nil {
		return err
	}
	if err := knownLimit(c, o.name); err != nil {
		return err
	}
	was, err := h.Status()
	if err != nil {
		return err
	}
	lifted, err := h.Lift([]string{o.name}, time.Now())
	if err == nil && lifted == nil {
		o.tell("the limit %s is not paused", o.name)
	}
	for _, s := range was {
		if s.Name != o.name || lifted == nil || s.PausedBy == "" {
			continue
		}
		// The run that met the limit has a wait of its own, on record.
		if inUse, err := o.inUse(s.PausedBy); err == nil && inUse {
			o.tell("run %s, which met the limit, still waits for its own pause; to end that: bide control %[1]s retry-now", shortRun(s.PausedBy))
		}
	}
	return err
}

// knownLimit rejects the name of a limit that the machine does not have.
func knownLimit(c *limits.Config, name string) error {
	if _, ok := c.Limits[name]; ok {
		return nil
	}
	var problems diag.List
	c.Unknown(&problems, diag.Pos{}, name)
	return usagef("%s; %s", problems[0].Message, problems[0].Suggestion)
}

func (o *limitsOptions) printLimits(infos []limitInfo, now time.Time) error {
	if len(infos) == 0 {
		_, err := fmt.Fprintln(o.err, "there are no limits; for example:\n  bide limits set anthropic slots=6 \\\n    rate=50/1m pause=shared")
		return err
	}
	p := o.palette(o.out)
	var b strings.Builder
	for _, i := range infos {
		line := parts{p.bold(i.Name)}
		line.add(i.Slots > 0, "%d of %s held", len(i.Held), diag.Count(i.Slots, "slot"))
		line.add(i.Rate != "", "%s", i.Rate)
		line.add(len(i.Waits) > 0, "%d waiting", len(i.Waits))
		line.add(i.Shared && i.Paused.IsZero(), "pauses are shared")
		b.WriteString(strings.Join(line, " · ") + "\n")
		if !i.Paused.IsZero() {
			fmt.Fprintf(&b, "  paused until %s", i.Paused.Local().Format(time.DateTime))
			if i.By != "" {
				fmt.Fprintf(&b, ", as run %s was told to wait", shortRun(i.By))
			}
			if i.Why != "" {
				fmt.Fprintf(&b, ": %s", visible(i.Why))
			}
			b.WriteString("\n")
		}
		for _, w := range i.Held {
			fmt.Fprintf(&b, "  held by %s\n", whoText(w, now))
		}
		for _, w := range i.Waits[:min(len(i.Waits), maxWaits)] {
			fmt.Fprintf(&b, "  waiting %s\n", whoText(w, now))
		}
		if more := len(i.Waits) - maxWaits; more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	width := o.columns(o.out)
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(o.out, fold(strings.TrimSuffix(line, "\n"), width, "    ")); err != nil {
			return err
		}
	}
	return nil
}

// whoText says who holds a slot, or waits for one.
func whoText(w limits.Who, now time.Time) string {
	text := cmp.Or(shortRun(w.Run), w.Name, "an unknown process")
	if w.Item != "" {
		text += " item " + w.Item
	}
	if w.Step != "" {
		text += " " + w.Step
	}
	if w.PID > 0 {
		text += fmt.Sprintf(" (process %d, since %s)", w.PID, duration.Format(now.Sub(w.At).Round(time.Second)))
	}
	return visible(text)
}
