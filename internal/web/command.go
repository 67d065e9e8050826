package web

import (
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/workflow"
)

// command is what a step does, as the run's file says it: values in ${…} were put in
// when it ran.
type command struct {
	Kind string // the action's key: shell, claude, http, …
	Text text   // without secrets; "" where the file does not say
	Sent bool   // it is the prompt that an agent was sent, with all values in it
}

// sent puts the prompt that an attempt sent in the place of what the file says.
func (c *command) sent(r *journal.Reader, t *tried) error {
	if err := t.find(r); err != nil {
		return err
	}
	prompt, err := t.prompt(r)
	if prompt != "" {
		c.Text, c.Sent = prompt, true
	}
	return err
}

// Title is what is above it.
func (c command) Title() string {
	if c.Sent {
		return c.Kind + ", the prompt as it was sent"
	}
	return c.Kind
}

// commandsOf gives what finds, by its address, what a step does.
func commandsOf(h journal.Header) func(address string) command {
	if h.Kind == workflow.Dataflow.String() || len(h.Source) > maxEdit {
		return func(string) command { return command{} }
	}
	f := timeline.File(h)
	hidden := timeline.Secrets(f)
	return func(address string) command {
		s := timeline.StepAt(f, address)
		if s == nil || s.Action == nil {
			return command{}
		}
		return command{Kind: s.Action.Kind(), Text: text(hidden.String(workflow.ActionText(s.Action)))}
	}
}
