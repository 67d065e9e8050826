package items

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
)

// This file runs the command that gives the items. What it wrote is looked at too, as a list
// whose source failed would pass for a short one, or for a night with nothing to do.

// inputFiles are the names of the files that hold the outputs of inputs' commands,
// as they are: secrets too.
const inputFiles = "input-*"

// DropInputs removes those that a life of the run left that was killed.
func DropInputs(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, inputFiles))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// commandInput runs the input's command with its output in a file. said is what it wrote to
// standard error.
func (l *List) commandInput(ctx context.Context, p step.Place, text *template.Text) (name, said string, clean func(), err error) {
	none := func() {}
	command, err := l.Command()
	if err != nil {
		return "", "", none, err
	}
	f, err := os.CreateTemp(l.Temp, inputFiles)
	if err != nil {
		return "", "", none, err
	}
	pipe := f.Name() + ".pipe"
	clean = func() { _ = errors.Join(os.Remove(f.Name()), os.Remove(pipe)) } // a leftover goes when the run is resumed, or with its directory
	res, err := command(ctx, &workflow.Shell{Text: text}, &action.Call{Scope: p.Scope, Dir: p.Dir, Env: p.Env.List(), Stdout: f, Pipe: pipe, Mask: l.Executor.Values.Mask()})
	l.unsure = res.Unsure
	l.record(p, res, err)
	// A list that is not all there must not pass for a shorter one.
	if err = errors.Join(err, res.OutputErr, f.Close()); err != nil {
		clean()
		return "", "", none, err
	}
	return f.Name(), l.Executor.Values.Mask().Text(res.Stderr).Tail(step.Brief), clean, nil
}

// record keeps what the command wrote to standard error as the output of a step.
func (l *List) record(p step.Place, res action.Result, err error) {
	if res.Stderr == "" {
		return
	}
	e := p.Event(event.StepFinished, event.InputStep)
	e.Label, e.Attempts, e.Status, e.DurationMS = event.InputStep, 1, event.Succeeded, res.Duration.Milliseconds()
	e.Data = step.Data(map[string]any{"stderr": l.Executor.Clip(res.Stderr)})
	if err != nil {
		e.Status, e.Message = event.Failed, l.Executor.Tail(err.Error())
	}
	if err := l.Executor.Recorder.Record(e); err != nil {
		l.Executor.Life.Halt(fmt.Errorf("the journal cannot be written: %w", err))
	}
}

// enough gives the items, and ends with an error where they are fewer than the map must
// have, or where a command gave none and wrote what may say why.
func (l *List) enough(items iter.Seq2[event.Item, error], spec input.Spec, least int, said string) iter.Seq2[event.Item, error] {
	return func(yield func(event.Item, error) bool) {
		n := 0
		for it, err := range items {
			if !yield(it, err) || err != nil {
				return
			}
			n++
		}
		got := step.Listed{Items: n, Read: max(n, spec.Seen.Items), Said: said}
		if n == 0 {
			got.Why, got.Astray = whyEmpty(spec, spec.Seen.Items)
		}
		if err := got.Enough(least, l.Executor.File.Map.MinItems.Set, "below map"); err != nil {
			yield(event.Item{}, err)
		}
	}
}
