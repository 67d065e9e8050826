package step

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/workflow"
)

// Sequence runs steps one after another until one fails for good. The error is
// an *Error, or the reason for which the run stops.
func (x *Executor) Sequence(ctx context.Context, p *Place, steps []*workflow.Step) error {
	return x.Each(ctx, p, steps, func(int, *Outcome) {})
}

// Each is [Executor.Sequence]; ended is told how each step ended, by its place
// in the list.
func (x *Executor) Each(ctx context.Context, p *Place, steps []*workflow.Step, ended func(i int, out *Outcome)) error {
	for i, s := range steps {
		if err := x.Life.Stopping(ctx); err != nil {
			return err
		}
		out := x.Step(ctx, p, s)
		ended(i, out)
		if out.Err != nil && (!out.Tolerated || out.Status == event.Interrupted) { // what is cut short has not failed
			return out.Err
		}
	}
	return nil
}

// Block runs a list of steps under its timeout; what names it. ended is told
// how each of them ended; nil: nobody asks.
func (x *Executor) Block(ctx context.Context, p *Place, b *workflow.Block, what string, ended func(i int, out *Outcome)) error {
	if ended == nil {
		ended = func(int, *Outcome) {}
	}
	t, err := x.Span(ctx, p, b.Timeout)
	if err != nil {
		return inputError("the timeout of %s: %w", what, err)
	}
	return x.within(ctx, t, what, func(ctx context.Context) error { return x.Each(ctx, p, b.Steps, ended) })
}

// Span resolves a span of time that may be a variable; 0 where there is none.
func (x *Executor) Span(ctx context.Context, p *Place, d workflow.Duration) (time.Duration, error) {
	if d.Text == nil {
		return d.D, nil
	}
	text, err := d.Text.Expand(x.View(ctx, p))
	if err != nil {
		return 0, err
	}
	unit := cmp.Or(d.Unit, time.Second)
	got := time.Duration(0)
	if f, ferr := strconv.ParseFloat(strings.TrimSpace(text), 64); ferr == nil && f >= 0 {
		got = duration.FromFloat(f * float64(unit))
	} else if got, err = duration.Parse(strings.TrimSpace(text)); err != nil {
		return 0, fmt.Errorf("%s: %w", d.Text, err)
	}
	if d.Bound && got <= 0 {
		return 0, fmt.Errorf("%s is %s; it must be more than 0", d.Text, strings.TrimSpace(text))
	}
	return got, nil
}

// Number resolves a whole number that may be a variable.
func (x *Executor) Number(ctx context.Context, p *Place, n workflow.Int) (int, error) {
	if n.Text == nil {
		return n.N, nil
	}
	text, err := n.Text.Expand(x.View(ctx, p))
	if err != nil {
		return 0, err
	}
	got, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%s is %q, which is no whole number", n.Text, text)
	}
	if got < n.Least {
		return 0, fmt.Errorf("%s is %d; it must be %d or more", n.Text, got, n.Least)
	}
	return got, nil
}
