package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
)

// finally runs the steps that follow the end of a run, whichever it is: not where it
// was interrupted, as it will continue. They run in the directory in which the run was
// started, anew in each life of it, and know how it ended. The error is the run's.
func (r *run) finally(ctx context.Context, err error) error {
	status, message, class := r.ending(err)
	if r.file.Finally == nil || status == event.Interrupted || r.opt.Part != nil && r.opt.Part.Lanes {
		return err
	}
	p := r.place()
	p.Dir, p.Past, p.Scope = r.opt.Dir, nil, p.Scope.Child()
	whole := map[string]any{"name": r.file.Name, "id": r.x.Run}
	if known, ok := p.Scope.Get("workflow").(map[string]any); ok {
		maps.Copy(whole, known)
	}
	whole["status"], whole["message"], whole["class"] = status, message, class
	p.Scope.Set("workflow", whole)
	p = p.With("BIDE_STATUS", status, "BIDE_MESSAGE", message)
	ferr := r.phase(step.Finish(ctx), p, "finally", func(ctx context.Context, p step.Place) error {
		return r.x.Block(ctx, &p, r.file.Finally, "finally", nil)
	})
	switch {
	case ferr == nil:
		return err
	case err == nil || errors.Is(ferr, ErrInterrupted):
		return fmt.Errorf("finally: %w", ferr)
	}
	r.note("finally failed too: %v", ferr)
	return err
}
