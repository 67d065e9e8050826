// Package evidence has the items of a map show that their work is good before it is merged
// (map.evidence): what they changed is compared with the patterns of the file, and checks
// run on what they committed. The agent has no part in it.
package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// Checks are the checks of a map.
type Checks struct {
	Executor *step.Executor
	Git      *gitwork.Work
	// Keep keeps what belongs to an attempt at an item as a file, and gives its name; ""
	// where nothing is kept.
	Keep func(index, attempt int, what, text string) (string, error)
	// AllowRed: a check that fails on the base already is no bar to an item.
	AllowRed bool

	red map[int]bool // checks of items that fail on the base as well, by place
}

// RedBase says whether a check fails on the base as well.
func (c *Checks) RedBase(check int) bool { return c.red[check] }

// Recall takes over which checks have failed on the base before this life of the run, and
// gives those that did not run there. p is where items run.
func (c *Checks) Recall(p step.Place) (open []int) {
	c.red = map[int]bool{}
	if c.asked() == nil {
		return nil
	}
	p.Rounds = onBase
	for i, s := range c.asked().Checks {
		switch rec, ok := p.Past[p.Path(s.Path)]; {
		case workflow.ReadsItem(c.Executor.File, s), ok && rec.Status == event.Succeeded:
		case ok && rec.Status == event.Failed && c.AllowRed:
			c.red[i] = true
		default:
			open = append(open, i)
		}
	}
	return open
}

// onBase is the round in which the checks run on what the items start from.
const onBase = "@base"

// asked is what the file asks for; nil for nothing.
func (c *Checks) asked() *workflow.Evidence { return c.Executor.File.Map.Evidence }

// errNoWorktrees is the error of evidence where no item has a worktree.
var errNoWorktrees = errors.New("map.evidence: what is checked is what an item has committed, in a worktree of its own, and this run has none: run it in a git repository with a commit, without isolation: none")

// Show has an item show what the file asks for. It gives an error of the class
// evidence where the item does not.
func (c *Checks) Show(ctx context.Context, at *step.Place, a *gitwork.Agent) error {
	if c.asked() == nil || a.Tree == nil {
		return nil
	}
	return c.show(ctx, *at, a)
}

// Uncommitted is the error of an item with paths that its commits do not have, of which why says
// what follows. Where bide commits what is left, these are in repositories of their own.
func Uncommitted(left []string, why string, commits bool) error {
	do := "commit them in a step, or leave auto_commit: false out"
	if commits {
		do = "the files of a git repository, or of a submodule, in the worktree of the item are in no commit of the item; write them to another place, or remove its .git"
	}
	return Unshown("%s uncommitted (%s), and %s: %s", diag.Count(len(left), "file")+" "+diag.Plural(len(left), "is", "are"), diag.First(left, 3), why, do)
}

func (c *Checks) show(ctx context.Context, p step.Place, a *gitwork.Agent) error {
	for round := 1; ; round++ {
		text := c.Git.LeftMessage(c.Git.Label(a))
		at, err := a.Tree.Commit(ctx, text)
		if err != nil {
			return err
		}
		a.Result.Evidence = &mapper.Evidence{Commit: at.Commit, Tree: at.Tree, Base: a.Tree.Base, Changed: len(at.Files)}
		if len(at.Left) > 0 {
			return Uncommitted(at.Left, "a check sees what is committed", text != "")
		}
		if err := c.allowed(p, a, at); err != nil {
			return err
		}
		if err := a.Tree.Bare(ctx); err != nil {
			return err
		}
		mended, err := c.check(ctx, p, a, at.Commit)
		if err != nil {
			return err
		}
		if !mended {
			return nil
		}
		changed, err := a.Tree.Changed(ctx, at.Commit)
		switch {
		case err != nil:
			return err
		case !changed:
			return nil
		case round == workflow.MaxCheckRounds:
			return Unshown("the handlers of the checks changed the work %d times, and it has not been checked as it is", round)
		}
	}
}

// Unshown is a failure to show what is asked.
func Unshown(format string, args ...any) error {
	return &failure.Failure{Class: mapper.ClassEvidence, Message: fmt.Sprintf(format, args...)}
}

// allowed looks at what the item has changed.
func (c *Checks) allowed(p step.Place, a *gitwork.Agent, at worktree.Committed) error {
	e := c.asked()
	paths, err := patterns(p, e.Paths)
	if err != nil {
		return fmt.Errorf("map.evidence.paths: %w", err)
	}
	protect, err := patterns(p, e.Protect)
	if err != nil {
		return fmt.Errorf("map.evidence.protect: %w", err)
	}
	var protected, outside []string
	for _, name := range at.Files {
		no, err := fits(protect, name)
		if err != nil {
			return err
		}
		yes, err := fits(paths, name)
		if err != nil {
			return err
		}
		switch {
		case no:
			protected = append(protected, name)
		case len(paths) > 0 && !yes:
			outside = append(outside, name)
		}
	}
	a.Result.Evidence.Refused = append(protected, outside...)
	switch {
	case len(protected) > 0:
		return Unshown("it changed %s, which map.evidence.protect keeps as it is", diag.First(protected, 3))
	case len(outside) > 0:
		return Unshown("it changed %s, which map.evidence.paths does not have", diag.First(outside, 3))
	}
	return nil
}

// patterns expands patterns of files: what an item says stands for itself in them.
func patterns(p step.Place, texts []*template.Text) (list []string, err error) {
	for _, t := range texts {
		pattern, err := t.Expand(literalData{p.Scope})
		if err != nil {
			return nil, err
		}
		list = append(list, pattern)
	}
	return list, nil
}

// literalData is a scope whose data means nothing in a pattern.
type literalData struct{ template.Scope }

// Lookup gives a value with what is special in patterns escaped.
func (s literalData) Lookup(name string) (template.Value, bool) {
	v, ok := s.Scope.Lookup(name)
	if ok && v.Origin == template.Data {
		v.V, v.Raw = escaped(v.V), ""
	}
	return v, ok
}

var patternSigns = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

func escaped(v any) any {
	switch v := v.(type) {
	case string:
		return patternSigns.Replace(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = escaped(v[i])
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k := range v {
			m[k] = escaped(v[k])
		}
		return m
	}
	return v
}

func fits(patterns []string, name string) (bool, error) {
	for _, pattern := range patterns {
		if ok, err := files.Match(pattern, name); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// check runs the checks on what an item has committed, and says whether a handler has mended
// something. What a check leaves behind is nobody's work, and the next check does not see it,
// except for files that git ignores.
func (c *Checks) check(ctx context.Context, p step.Place, a *gitwork.Agent, commit string) (mended bool, err error) {
	p.Past, p.Keep = nil, false // what an earlier life checked may have been something else
	p.Scope = p.Scope.Child()
	for i, s := range c.asked().Checks {
		start := c.Executor.Clock.Now()
		out := c.Executor.Step(ctx, &p, s)
		if out.Status == event.Interrupted || c.Executor.Life.Stopped(ctx, out.Err) || errors.As(out.Err, new(*step.LimitError)) {
			return mended, out.Err
		}
		mended = mended || out.Recovered
		done, err := c.checked(a, i, s, out, c.Executor.Clock.Now().Sub(start))
		if err != nil {
			return mended, err
		}
		failed := out.Err != nil && !out.Tolerated
		done.RedBase = failed && c.red[i]
		a.Result.Evidence.Checks = append(a.Result.Evidence.Checks, done)
		if failed && !done.RedBase {
			return mended, unproven(p.Path(s.Path), s, out)
		}
		if mended {
			continue // the next round checks what the handler did
		}
		changed, err := a.Tree.Changed(ctx, commit)
		if err == nil && changed {
			err = a.Tree.Reset(ctx, commit)
		}
		if err != nil {
			return mended, err
		}
	}
	return mended, nil
}

// unproven is the failure of a check.
func unproven(path string, s *workflow.Step, out *step.Outcome) error {
	f := *failure.From(step.Cause(out.Err))
	f.Class, f.Message = mapper.ClassEvidence, fmt.Sprintf("the check %q failed: %s", s.Label(), f.Message)
	return &step.Error{Step: path, Label: s.Label(), Attempts: out.Attempts, Reason: out.Reason, Err: &f}
}

// checked keeps what a check printed, and says how it went.
func (c *Checks) checked(a *gitwork.Agent, i int, s *workflow.Step, out *step.Outcome, took time.Duration) (mapper.Check, error) {
	done := mapper.Check{Check: c.Executor.Values.Mask().String(s.Label()), Status: out.Status, ExitCode: out.Result.ExitCode, DurationMS: took.Milliseconds()}
	if code, ok := failure.ExitCode(out.Err); ok {
		done.ExitCode = code
	}
	text, err := printed(out)
	if err != nil || text == "" {
		return done, err
	}
	text = c.Executor.Values.Mask().String(text)
	done.Digest = sha256Of(text)
	done.File, err = c.Keep(a.Item.Index, a.Attempt, fmt.Sprintf("evidence-%d", i+1), text)
	return done, err
}

// printed is all that a check printed, errors last.
func printed(out *step.Outcome) (string, error) {
	text, stderr := out.Result.Output, out.Result.Stderr
	if out.Err != nil {
		text, stderr = failure.Tails(step.Cause(out.Err))
	} else if out.Result.StdoutFile != "" {
		f, err := out.Result.OpenOutput()
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return "", err
		}
		text = string(b)
	}
	if text != "" && stderr != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + stderr, nil
}

// Set sets what the attempt before did not show, for an agent that is to do
// better.
func (c *Checks) Set(p *step.Place, last *failure.Failure) {
	if c.asked() == nil {
		return
	}
	v := map[string]any{"output": "", "check": "", "message": ""}
	if last != nil && last.Class == mapper.ClassEvidence {
		v["message"], v["output"] = failure.Plain(last.Message), failure.Plain(failure.Output(last.Stdout, last.Stderr))
		for _, s := range c.asked().Checks {
			if strings.HasPrefix(last.Message, fmt.Sprintf("the check %q failed", s.Label())) {
				v["check"] = s.Label()
			}
		}
	}
	p.Scope.Set("evidence", v)
}

// Base runs the checks on what the items start from, once, before the first of them:
// one that fails there says nothing about an item. Checks that read the item are not run.
func (c *Checks) Base(ctx context.Context, p step.Place) (err error) {
	e := c.asked()
	if e == nil {
		return nil
	}
	if c.Git.Tree == nil {
		return errNoWorktrees
	}
	open := c.Recall(p)
	p.Rounds = onBase
	if len(open) == 0 {
		return nil
	}
	tree, err := c.Git.Tree.Checkout(ctx)
	if err != nil {
		return fmt.Errorf("map.evidence: %w", err)
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		if rerr := tree.Reset(ctx, tree.Base); rerr == nil {
			_, rerr = tree.Release(ctx)
			err = errors.Join(err, rerr)
		}
	}()
	p.Dir, p.Past = tree.WorkDir, nil
	p.Scope = p.Scope.Child()
	for _, i := range open {
		s := e.Checks[i]
		out := c.Executor.Step(ctx, &p, s)
		switch {
		case out.Err == nil || out.Tolerated && out.Status != event.Interrupted:
		case out.Status == event.Interrupted || c.Executor.Life.Stopped(ctx, out.Err):
			return out.Err
		case c.AllowRed:
			c.red[i] = true
			c.Executor.Note("the check %q fails on the base, %.12s, already: an item need not pass it (--allow-red-base)", s.Label(), tree.Base)
		default:
			return fmt.Errorf("the base is red: the check %q fails on %.12s, before any item has run: %w; mend it and run again, or run with --allow-red-base: then a check that fails there is no bar to an item",
				s.Label(), tree.Base, step.Cause(out.Err))
		}
		if err := tree.Reset(ctx, tree.Base); err != nil {
			return err
		}
	}
	return nil
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
