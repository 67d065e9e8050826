package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/vars"
)

// standard runs a standard workflow: once, once per argument, or several
// times.
func (r *run) standard(ctx context.Context) error {
	p := r.place()
	args, isFile := r.opt.Args, false
	if len(r.opt.Files) > 0 {
		args, isFile = r.opt.Files, true
	}
	if len(args) == 0 {
		return r.iterations(ctx, p)
	}
	numbered := isFile && !slices.ContainsFunc(args, func(file string) bool { return number(file) == "" })
	if numbered {
		r.note("ARG is the number that the name of each file begins with; FILE is its path")
	}
	var errs []error
	for i, arg := range args {
		round := p.Round(i)
		setArgument(round.Scope, arg, isFile, i, len(args))
		if numbered {
			round.Scope.SetTrusted("ARG", number(arg))
			round.Scope.SetTrusted("1", number(arg))
		}
		err := r.iterations(ctx, round)
		if err == nil {
			continue
		}
		if stop := r.x.Life.Stopping(ctx); stop != nil {
			return stop
		}
		errs = append(errs, fmt.Errorf("argument %q: %w", arg, err))
		if r.opt.FailFast {
			break
		}
	}
	return errors.Join(errs...)
}

// number is what the name of a file begins with, as in specs/042-title.md; empty
// for most.
func number(file string) string {
	digits, _, ok := strings.Cut(filepath.Base(file), "-")
	if !ok || strings.Trim(digits, "0123456789") != "" {
		return ""
	}
	return digits
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
func (r *run) setIteration(p step.Place, i int) {
	whole := map[string]any{"name": r.file.Name, "id": r.x.Run}
	if known, ok := p.Scope.Get("workflow").(map[string]any); ok {
		maps.Copy(whole, known)
	}
	whole["iteration"] = int64(i + 1)
	if r.gitWork.Context {
		p.Scope.Set("workflow", whole)
	} else {
		p.Scope.SetTrusted("workflow", whole)
	}
}

// iterations runs the steps up to -n times, and stops early when a round
// changed nothing.
func (r *run) iterations(ctx context.Context, p step.Place) error {
	n := max(r.opt.MaxIterations, r.file.MaxIterations, 1)
	if r.opt.MaxIterations > 0 {
		n = r.opt.MaxIterations
	}
	for i := range n {
		round := p
		if i > 0 {
			round.Rounds += "@" + strconv.Itoa(i)
		}
		r.setIteration(p, i)
		p.Scope.SetTrusted("ITERATION", int64(i+1))
		changed, err := r.iteration(ctx, round, p.Rounds+"@"+strconv.Itoa(i), n)
		if err != nil {
			return err
		}
		if !changed {
			r.note("iteration %d changed nothing: the rest of %d iterations is left out", i+1, n)
			return nil
		}
	}
	return nil
}

// iteration runs the steps once, of n times, and reports whether that may have changed
// something. path is that of the round in the record: whether an earlier life of the run
// has changed something is read there, since its steps do not run again.
func (r *run) iteration(ctx context.Context, p step.Place, path string, n int) (changed bool, err error) {
	left, known := r.state.Iterations[path]
	e := event.Event{Type: event.RoundStarted, Step: path}
	if !known {
		left.Before = r.fingerprint(ctx, p.Dir, n)
		if left.Before != "" {
			e.Data = data(map[string]string{"state": left.Before})
			r.emit(e)
		}
	}
	if err := r.x.Sequence(ctx, &p, r.file.Steps); err != nil {
		return false, err
	}
	switch {
	case left.Before == "":
		return true, nil
	case left.Over:
		return left.Changed, nil
	}
	changed = r.fingerprint(ctx, p.Dir, n) != left.Before
	e.Type, e.Status, e.Data = event.RoundFinished, event.Succeeded, data(map[string]bool{"changed": changed})
	r.emit(e)
	return changed, nil
}

// fingerprint is what an iteration may change: the commit and the state of
// the working tree. It is empty outside git and where nobody asks.
func (r *run) fingerprint(ctx context.Context, dir string, n int) string {
	if n <= 1 || r.x.Git == nil {
		return ""
	}
	at, err := r.x.Git.Repo.Mark(ctx, dir)
	if err != nil {
		return ""
	}
	return at.Commit + at.Tree
}
