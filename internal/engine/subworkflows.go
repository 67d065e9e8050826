package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// subWorkflows runs the `workflows:` of a composed file, each after those it
// depends on, those marked parallel at once.
func (r *run) subWorkflows(ctx context.Context) error {
	batches, circle := workflow.Batches(r.file.Workflows)
	for _, list := range batches {
		if err := r.subBatch(ctx, list); err != nil {
			return err
		}
	}
	if len(circle) > 0 {
		return fmt.Errorf("the workflows %s wait for each other", subNames(circle))
	}
	return nil
}

func subNames(list []*workflow.SubWorkflow) string {
	var out []string
	for _, w := range list {
		out = append(out, w.Name)
	}
	return strings.Join(out, ", ")
}

func (r *run) subBatch(ctx context.Context, list []*workflow.SubWorkflow) error {
	errs := make([]error, len(list))
	r.x.Clock.Together(len(list), func(i int) { errs[i] = r.subOne(ctx, list[i], len(list) == 1) })
	return errors.Join(errs...)
}

// subOne runs a workflow, alone or beside others.
func (r *run) subOne(ctx context.Context, w *workflow.SubWorkflow, alone bool) error {
	p := r.place()
	p.Alone = alone
	view := r.x.View(ctx, &p)
	args := map[string]any{}
	for name, from := range w.Inputs {
		v, ok, err := step.Lookup(view, from)
		if err != nil {
			return fmt.Errorf("workflow %s: inputs %s: %w", w.Name, name, err)
		}
		if ok {
			args[name] = v.V
		}
	}
	for _, arg := range w.With {
		v, err := action.Expand(arg.Value, view)
		if err != nil {
			return err
		}
		args[arg.Name] = v
	}
	_, err := r.x.Call(ctx, p, w, args, "workflows."+w.Name)
	if err != nil && w.ContinueOnError && !r.x.Life.Interrupted(ctx, err) {
		r.note("workflow %s failed and the run continues (continue_on_error): %v", w.Name, err)
		return nil
	}
	return err
}
