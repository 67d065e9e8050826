package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/value"
	"github.com/spf13/cobra"
)

// eventTypes are the types that a journal holds.
var eventTypes = []string{
	string(event.RunStarted), string(event.RunResumed), string(event.PhaseStarted), string(event.PhaseFinished),
	string(event.StepStarted), string(event.AttemptStarted), string(event.AttemptFailed), string(event.AttemptFinished), string(event.RetryScheduled),
	string(event.StepFinished), string(event.ItemsReady), string(event.ItemsCompared), string(event.ItemStarted), string(event.ItemUsed), string(event.ItemRetry), string(event.ItemMerging),
	string(event.StepRequeued), string(event.ForeachStarted), string(event.RoundStarted), string(event.RoundFinished), string(event.ItemHandlerDue), string(event.ItemFinished), string(event.ItemRequeued), string(event.ItemRemoved), string(event.ItemReturned),
	string(event.HoldStarted), string(event.HoldProbe), string(event.HoldEnded), string(event.CanaryFinished), string(event.WidthChanged), string(event.AgentPaused),
	string(event.BreakerChanged), string(event.RunPaused), string(event.PauseEnded), string(event.RunControlled), string(event.AgentUsage), string(event.AgentMessage),
	string(event.Note), string(event.RunFinished),
}

// eventsOptions are the options of events.
type eventsOptions struct {
	*app
	id     string // of the run
	types  []string
	item   string
	step   string
	follow bool
}

func eventsCmd(a *app) *cobra.Command {
	o := &eventsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "events [RUN]",
		Short: "List everything that happened in a run",
		Long: `Lists the events of a run, first to last. With --json they are what "bide run
--json" writes: one object per line. -f waits for more until the
run ends. Without RUN, it is the newest run of this directory.`,
		Example: `  bide events
  bide events 01KAJ3 -f --type item_finished,item_retry_scheduled
  bide events 01KAJ3 --item 42 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&o.types, "type", nil, "only these types, as in step_finished")
	fs.StringVar(&o.item, "item", "", "only those of this work item, by its id, what it is called, or its index (from 0)")
	fs.StringVar(&o.step, "step", "", "only those of the step with this path, as in commands[2]")
	fs.BoolVarP(&o.follow, "follow", "f", false, "wait for more until the run ends")
	return o.withJSON(cmd, "one JSON object per line")
}

func (o *eventsOptions) run(ctx context.Context) error {
	types, err := oneOf("type", o.types, eventTypes)
	if err != nil {
		return err
	}
	filter := journal.EventFilter{Step: o.step, Types: value.Map(types, func(t string) event.Type { return event.Type(t) })}
	return o.reading(o.id, func(r *journal.Reader) error {
		if filter.Item, err = resolveItem(ctx, r, o.tell, o.item); err != nil {
			return err
		}
		p, names, width := o.palette(o.out), namesIn(ctx, r), o.columns(o.out)
		n := 0
		for e, err := range eventsOf(ctx, r, filter, o.follow) {
			if err != nil {
				return err
			}
			n++
			if o.json {
				_, err = o.out.Write(append(eventJSON(e), '\n'))
			} else {
				_, err = io.WriteString(o.out, fold(eventLine(e, names.of(e), p), width, "  ")+"\n")
			}
			if err != nil {
				return err
			}
		}
		switch run := shortRun(r.Run()); {
		case n > 0:
		case o.step != "":
			return usagef("run %s has no such event of a step %s; --step takes the path of a step, as in commands[2]: bide events %s shows them", run, visible(o.step), run)
		case len(types) > 0:
			o.tell("run %s has no event of the type %s", run, strings.Join(types, " or "))
		case o.item != "":
			o.tell("item %s of run %s has not begun", visible(o.item), run)
		}
		if o.follow {
			return o.brokenOff(ctx, r)
		}
		return nil
	})
}

func eventsOf(ctx context.Context, r *journal.Reader, f journal.EventFilter, follow bool) iter.Seq2[event.Event, error] {
	if follow {
		return r.Follow(ctx, 1, f)
	}
	return r.Events(ctx, 1, f)
}

// givenIn is what the run was started with, according to its first event.
func givenIn(e event.Event) map[string]string {
	var d struct{ Params json.RawMessage }
	if json.Unmarshal(e.Data, &d) != nil {
		return nil
	}
	given := map[string]string{}
	for _, v := range (&journal.Header{Params: d.Params}).Given() {
		given[v.Name] = v.Value
	}
	return given
}

// eventLine is an event for a person: when, what, which step or item, and how it ended.
func eventLine(e event.Event, item string, p palette) string {
	what := fmt.Sprintf("%-20s", e.Type)
	if statusCode(e.Status) != "" {
		what = p.sgr(statusCode(e.Status), what)
	}
	line := parts{e.Time.Local().Format("15:04:05.000"), what}
	line.add(item != "", "item %s", item)
	line.add(e.Step != "", "%s", visible(e.Step))
	line.add(e.Step == "" && e.Phase != "" && e.Item == "", "%s", e.Phase)
	line.add(e.Label != "" && oneLine(e.Label) != item, "%q", visible(e.Label))
	line.add(e.Attempt > 0, "attempt %d", e.Attempt)
	if e.Type == event.RunStarted {
		given := givenText(givenIn(e))
		line.add(given != "", "%s", given)
	}
	line.add(e.Status != "", "%s", words(e.Status))
	line.add(e.Attempts > 1, "%d attempts", e.Attempts)
	line.add(e.Total > 0, "%d items", e.Total)
	line.add(e.To != "", "%s, was %s", e.To, e.From)
	line.add(e.DelayMS > 0, "in %s", millis(e.DelayMS))
	line.add(e.DurationMS > 0, "(%s)", took(e.DurationMS))
	line.add(e.Class != "", "%s", e.Class)
	line.add(e.Message != "", "%s", oneLine(e.Message))
	return strings.Join(line, "  ")
}
