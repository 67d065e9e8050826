package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// place is where steps run: the workflow, a phase, an item's agent, a round of
// a foreach. A place inside another one is a changed copy of it.
type place struct {
	r     *run
	scope *vars.Scope
	dir   string
	env   []string // complete
	own   *ownEnv  // the part of env that is not the run's; nil for none
	phase string
	// at is appended to the paths of steps: the rounds of the loops around
	// them, "@3" or "@3@0".
	at string
	// item and index are those of the work item, index from 1; attempt is its.
	item    string
	index   int
	attempt int
	// steps are the recorded steps of an earlier life; nil in an item.
	steps map[string]journal.StepRecord
	// limit bounds each command by kind (timeout_config.command_timeouts).
	limits map[string]time.Duration
	quiet  bool // output is not passed on live
}

// round is the place of one round of a loop, with variables of its own.
func (p place) round(n int) place {
	p.at += "@" + strconv.Itoa(n)
	p.scope = p.scope.Child()
	return p
}

// with is the place with more variables in its environment: names and values
// in turn.
func (p place) with(pairs ...string) place {
	p.env = append(make([]string, 0, len(p.env)+len(pairs)/2), p.env...)
	p.own = &ownEnv{parent: p.own, vars: make(map[string]template.Value, len(pairs)/2)}
	for i := 0; i < len(pairs); i += 2 {
		p.env = append(p.env, pairs[i]+"="+pairs[i+1])
		p.own.vars[pairs[i]] = template.Value{V: pairs[i+1], Origin: template.Data}
	}
	return p
}

// view is the place's scope for reading, with the place's own environment.
func (p place) view() *vars.Scope {
	if p.own == nil {
		return p.scope
	}
	return p.scope.With(&ownSource{p.r, p.own})
}

// standard runs a standard workflow: once, once per argument, or several
// times.
func (r *run) standard(ctx context.Context) error {
	p := place{r: r, scope: r.scope, dir: r.dir, env: r.base, steps: r.state.Steps}
	args, isFile := r.opt.Args, false
	if len(r.opt.Files) > 0 {
		args, isFile = r.opt.Files, true
	}
	if len(args) == 0 {
		return r.iterations(ctx, p)
	}
	var errs []error
	for i, arg := range args {
		round := p.round(i)
		setArgument(round.scope, arg, isFile, i, len(args))
		err := r.iterations(ctx, round)
		if err == nil {
			continue
		}
		if stop := r.stopping(ctx); stop != nil {
			return stop
		}
		errs = append(errs, fmt.Errorf("argument %q: %w", arg, err))
		if r.opt.FailFast {
			break
		}
	}
	return errors.Join(errs...)
}

// setArgument sets the variables of one round over --args or --map.
func setArgument(sc *vars.Scope, arg string, isFile bool, i, total int) {
	sc.SetTrusted("ARG", arg)
	sc.SetTrusted("1", arg)
	sc.SetTrusted("INDEX", int64(i))
	sc.SetTrusted("TOTAL", int64(total))
	if isFile {
		// A file's name is not the author's word: it must not become code.
		base := filepath.Base(arg)
		for name, v := range map[string]string{"ARG": arg, "1": arg, "FILE": arg, "FILE_PATH": arg,
			"FILE_NAME": base, "FILE_STEM": strings.TrimSuffix(base, filepath.Ext(base))} {
			sc.Set(name, v)
		}
	}
}

// setIteration counts workflow.iteration, beside the git context so far, whose
// file names are nobody's code.
func (r *run) setIteration(p place, i int) {
	whole := map[string]any{"name": r.file.Name, "id": r.id}
	if known, ok := p.scope.Get("workflow").(map[string]any); ok {
		maps.Copy(whole, known)
	}
	whole["iteration"] = int64(i + 1)
	if r.git {
		p.scope.Set("workflow", whole)
	} else {
		p.scope.SetTrusted("workflow", whole)
	}
}

// iterations runs the steps up to -n times, and stops early when a round
// changed nothing.
func (r *run) iterations(ctx context.Context, p place) error {
	n := max(r.opt.MaxIterations, r.file.MaxIterations, 1)
	if r.opt.MaxIterations > 0 {
		n = r.opt.MaxIterations
	}
	for i := range n {
		round := p
		if i > 0 {
			round.at += "@" + strconv.Itoa(i)
		}
		r.setIteration(p, i)
		p.scope.SetTrusted("ITERATION", int64(i+1))
		before := r.fingerprint(ctx, p.dir, n)
		if err := r.sequence(ctx, round, r.file.Steps); err != nil {
			return err
		}
		if after := r.fingerprint(ctx, p.dir, n); n > 1 && before != "" && after == before {
			r.note("iteration %d changed nothing: the rest of %d iterations is left out", i+1, n)
			return nil
		}
	}
	return nil
}

// fingerprint is what an iteration may change: the commit and the state of
// the working tree. It is empty outside git and where nobody asks.
func (r *run) fingerprint(ctx context.Context, dir string, n int) string {
	if n <= 1 || r.repo == nil {
		return ""
	}
	at, err := r.repo.Mark(ctx, dir)
	if err != nil {
		return ""
	}
	return at.Commit + at.Tree
}

// sequence runs steps one after another until one fails for good.
func (r *run) sequence(ctx context.Context, p place, steps []*workflow.Step) error {
	for _, s := range steps {
		if err := r.stopping(ctx); err != nil {
			return err
		}
		out := r.step(ctx, p, s)
		if out.err != nil && !out.tolerated {
			return out.err
		}
	}
	return nil
}

// block runs a list of steps under its timeout.
func (r *run) block(ctx context.Context, p place, b *workflow.Block, what string) error {
	if t := r.span(b.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: what, After: t})
		defer cancel()
	}
	return r.sequence(ctx, p, b.Steps)
}

// TimeoutError is a workflow, a phase or an agent that took too long and was
// stopped.
type TimeoutError struct {
	What  string
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s timed out after %s and was stopped", e.What, duration.Format(e.After))
}

// Timeout is true.
func (e *TimeoutError) Timeout() bool { return true }

// Class is "timeout".
func (e *TimeoutError) Class() string { return "timeout" }

// span resolves a span of time that may be a variable; 0 where there is none.
func (r *run) span(d workflow.Duration) time.Duration {
	if d.Text == nil {
		return d.D
	}
	text, err := d.Text.Expand(r.scope)
	if err != nil {
		r.noteOnce("span "+d.Text.String(), fmt.Sprintf("%s: %v", d.Text, err))
		return 0
	}
	unit := d.Unit
	if unit == 0 {
		unit = time.Second
	}
	if f, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && f >= 0 {
		return duration.FromFloat(f * float64(unit))
	}
	got, err := duration.Parse(text)
	if err != nil {
		r.noteOnce("span "+d.Text.String(), fmt.Sprintf("%s: %v", d.Text, err))
	}
	return got
}

// whole number that may be a variable.
func (r *run) number(n workflow.Int, sc *vars.Scope) (int, error) {
	if n.Text == nil {
		return n.N, nil
	}
	text, err := n.Text.Expand(sc)
	if err != nil {
		return 0, err
	}
	got, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%s is %q, which is no whole number", n.Text, text)
	}
	return got, nil
}
