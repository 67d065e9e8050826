package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/spf13/cobra"
)

// limitInfo is a limit as `bide limits --json` tells it.
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

// limitsOptions are what limits was asked to do.
type limitsOptions struct {
	*app
	name     string // of the limit that is to be changed; "": none is
	settings []string
}

func limitsCmd(a *app) *cobra.Command {
	o := &limitsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "limits [set NAME KEY=VALUE...]",
		Short: "Show and change what all runs of this machine may do together",
		Long: `Shows the limits that limits.yml in the home directory names: how many attempts hold
each, of which runs; who waits; until when it is paused. Steps, agents, maps, pipelines,
bide exec and bide batch use a limit by its name.

"set" changes settings of one, and adds it where there is none. They hold at once, for
runs too that are under way. KEY= takes a setting away. The keys:

  slots  how many attempts run at once
  rate   how many begin in a time, evenly, as in 50/1m
  pause  shared: when one run is told to wait, all that use the limit wait`,
		Example: `  bide limits
  bide limits set anthropic slots=6 rate=50/1m pause=shared
  bide limits set anthropic slots=4`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && args[0] != "set":
				return usageError{unknownWord("the action", args[0], []string{"set"})}
			case len(args) == 1 || len(args) == 2:
				return usagef("set needs the name of a limit and its settings: bide limits set anthropic slots=4")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.name, o.settings = args[1], args[2:]
			}
			return o.run()
		},
	}
	return o.withJSON(cmd, "print one JSON array")
}

func (o *limitsOptions) run() error {
	home, err := journal.Home()
	if err != nil {
		return err
	}
	if o.name != "" {
		if err := limits.Set(home, o.name, o.settings); err != nil {
			return usageError{err}
		}
	}
	h := limits.Open(home, nil)
	list, err := h.Status()
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

func (o *limitsOptions) printLimits(infos []limitInfo, now time.Time) error {
	if len(infos) == 0 {
		_, err := fmt.Fprintf(o.err, "there are no limits; for example: bide limits set anthropic slots=6 rate=50/1m pause=shared\n")
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
				fmt.Fprintf(&b, ", as run %s was told to wait", i.By)
			}
			if i.Why != "" {
				fmt.Fprintf(&b, ": %s", visible(i.Why))
			}
			b.WriteString("\n")
		}
		for _, w := range i.Held {
			fmt.Fprintf(&b, "  held by %s\n", whoText(w, now))
		}
		for _, w := range i.Waits {
			fmt.Fprintf(&b, "  waiting %s\n", whoText(w, now))
		}
	}
	_, err := fmt.Fprint(o.out, b.String())
	return err
}

// whoText says who holds a slot, or waits for one.
func whoText(w limits.Who, now time.Time) string {
	text := cmp.Or(w.Run, w.Name, "an unknown process")
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
