package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/spf13/cobra"
)

// mostProposed limits how many values the shell is offered at once.
const mostProposed = 200

// completeRuns proposes the runs that a command accepts, newest first, each with what a person
// knows it by: by short names, or by whole ids if the user is typing one. It leaves out runs
// that are named already. Without a readable state directory it proposes nothing.
func (a *app) completeRuns(cmd *cobra.Command, named []string, typed string) []string {
	st, err := a.openStore()
	if err != nil {
		return nil
	}
	var out []string
	for s, err := range st.Runs(cmd.Context()) {
		name := shortRun(s.ID)
		if typed != "" && !strings.HasPrefix(name, typed) {
			name = s.ID
		}
		i := infoOf(s, err)
		suit := runArgs[cmd.CommandPath()].suits
		if s.ID == "" || !strings.HasPrefix(name, typed) || slices.Contains(named, s.ID) || slices.Contains(named, shortRun(s.ID)) || suit != nil && !suit(i) {
			continue
		}
		out = append(out, cobra.CompletionWithDesc(name, visible(i.Title)+", "+words(i.Status)))
		if len(out) == mostProposed {
			break
		}
	}
	return out
}

// completeItems proposes the items of a run; for a command about dead letters, only those.
func (a *app) completeItems(cmd *cobra.Command, run, typed string) (out []string) {
	add := func(id, label string) bool {
		if strings.HasPrefix(id, typed) {
			out = append(out, cobra.CompletionWithDesc(visible(id), oneLine(label)))
		}
		return len(out) < mostProposed
	}
	a.recorded(cmd, run, func(ctx context.Context, r *journal.Reader) error {
		if cmd.Parent().Name() == "dlq" {
			return eachLetter(ctx, r, letterFilter{}, func(i *letterInfo, _ journal.DeadLetter) error {
				add(i.Item, i.Label)
				return nil
			})
		}
		for from := 1; ; {
			list, err := r.Items(ctx, from, itemPage)
			if err != nil || len(list) == 0 {
				return err
			}
			for _, it := range list {
				if !add(it.ID, it.Name()) {
					return nil
				}
			}
			from = list[len(list)-1].Index + 1
		}
	})
	return out
}

// seenEvents limits how many ends of steps are read for their names.
const seenEvents = 2000

// completeSteps proposes the steps of a run by their paths, also those inside its items: only
// rerun does not accept these.
func (a *app) completeSteps(cmd *cobra.Command, run, typed string) (out []string) {
	a.recorded(cmd, run, func(ctx context.Context, r *journal.Reader) error {
		seen, n := map[string]bool{}, 0
		for e, err := range r.Events(ctx, 0, journal.EventFilter{Types: []event.Type{event.StepFinished}}) {
			if n++; err != nil || n > seenEvents || len(out) == mostProposed {
				return err
			}
			if seen[e.Step] || !strings.HasPrefix(e.Step, typed) || e.Item != "" && cmd.Name() == "rerun" {
				continue
			}
			seen[e.Step] = true
			out = append(out, cobra.CompletionWithDesc(e.Step, oneLine(e.Label)))
		}
		return nil
	})
	return out
}

// completeClasses proposes a filter for each class of the dead letters of a run.
func (a *app) completeClasses(cmd *cobra.Command, run, typed string) (out []string) {
	a.recorded(cmd, run, func(ctx context.Context, r *journal.Reader) error {
		return eachLetter(ctx, r, letterFilter{}, func(i *letterInfo, _ journal.DeadLetter) error {
			if text := "class == " + strconv.Quote(i.Class); strings.HasPrefix(text, typed) && !slices.Contains(out, text) {
				out = append(out, text)
			}
			return nil
		})
	})
	return out
}

// recorded reads a run, or the one that a command takes without a name, for a proposal. If it
// cannot be read, there is no proposal.
func (a *app) recorded(cmd *cobra.Command, run string, f func(context.Context, *journal.Reader) error) {
	ctx := cmd.Context()
	if m, err := a.meant(ctx, run, runArgs[cmd.CommandPath()]); err == nil && m.ID != "" {
		run = m.ID
	}
	_ = a.reading(run, func(r *journal.Reader) error { return f(ctx, r) })
}
