package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// attempt makes one attempt of a step: its action, the commits that it has to
// make, the variables that it sets.
func (r *run) attempt(ctx context.Context, p place, s *workflow.Step, path string, n int) (_ action.Result, err error) {
	defer func() {
		// A panic in an action fails that action, not the run.
		if x := recover(); x != nil {
			err = fmt.Errorf("panic in the %s action: %v", s.Action.Kind(), x)
		}
	}()
	commits, err := r.beforeCommits(ctx, p, s)
	if err != nil {
		return action.Result{}, err
	}
	res, err := r.act(ctx, p, s, path, n)
	// Before the commit, whose message may read the output.
	if serr := r.setResult(p, s, res, err); err == nil {
		err = serr
	}
	if err == nil {
		if err = commits.after(ctx, p, s); err != nil {
			err = errors.Join(err, r.setResult(p, s, res, err))
		}
	}
	if r.git {
		commits.variables(ctx, p)
	}
	if err == nil {
		err = r.saveOutputs(p, s, res)
	}
	if err == nil && s.Check != nil {
		err = r.check(ctx, p, s.Check)
	}
	return res, err
}

// act runs the action of a step, made of steps or not.
func (r *run) act(ctx context.Context, p place, s *workflow.Step, path string, n int) (action.Result, error) {
	t := r.span(s.Timeout)
	if s.Retry != nil && s.Retry.Timeout > 0 && (t == 0 || s.Retry.Timeout < t) {
		t = s.Retry.Timeout
	}
	switch s.Action.(type) {
	case *workflow.Shell, *workflow.Claude, *workflow.HTTP, *workflow.WriteFile, *workflow.Analyze:
		return r.leafWithin(ctx, p, s, s.Action, path, n, t)
	}
	if t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: fmt.Sprintf("step %q", label(s)), After: t})
		defer cancel()
	}
	start := time.Now()
	q, err := r.surroundings(ctx, p, s, nil)
	if err != nil {
		return action.Result{Start: start}, &action.InputError{Err: err}
	}
	res, err := r.compound(ctx, q, s, path)
	res.Start, res.Duration = start, time.Since(start)
	if err != nil && ctx.Err() != nil {
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			err = cause
		}
	}
	return res, err
}

func (r *run) leaf(ctx context.Context, p place, s *workflow.Step, a workflow.Action, path string, n int) (action.Result, error) {
	return r.leafWithin(ctx, p, s, a, path, n, r.span(s.Timeout))
}

// leafWithin runs a leaf action with a timeout.
func (r *run) leafWithin(ctx context.Context, p place, s *workflow.Step, a workflow.Action, path string, n int, t time.Duration) (action.Result, error) {
	if limit := p.limits[a.Kind()]; limit > 0 && (t == 0 || limit < t) {
		t = limit
	}
	c := &action.Call{Timeout: t}
	at, err := r.addDynamic(ctx, p)
	if err == nil {
		at, err = r.surroundings(ctx, at, s, r.agentEnv(a))
	}
	if err != nil {
		return action.Result{Start: time.Now()}, &action.InputError{Err: err}
	}
	c.Dir, c.Env, c.Scope = at.dir, at.env, at.view()
	out := r.outputsOf(p, path, n, a)
	c.Stdout, c.Stderr, c.Spill, c.Log = out.stdout, out.stderr, out.spill, out.log
	var res action.Result
	if _, isAgent := a.(*workflow.Claude); isAgent {
		res, err = r.askAgent(ctx, p, a, path, c)
	} else {
		res, err = r.world.Run(ctx, a, c)
	}
	if cerr := out.close(&res); err == nil {
		err = cerr
	}
	if r.mask.Active() {
		res.Output, res.Stderr = r.mask.Seams(res.Output, leftOut()), r.mask.Seams(res.Stderr, leftOut())
	}
	return res, err
}

// askAgent asks an agent, again after each rate limit: an answer that says
// "later" pauses all agents of the run and uses up no attempt.
func (r *run) askAgent(ctx context.Context, p place, a workflow.Action, path string, c *action.Call) (action.Result, error) {
	c.OnMessage = func(m action.Message) {
		e := event.Event{Type: event.AgentMessage, Phase: p.phase, Step: path, Item: p.item, Index: p.index, Message: m.Text}
		if m.Tool != "" {
			e.Data = data(map[string]any{"tool": m.Tool, "input": r.clip(string(m.Input))})
		}
		r.emit(e)
	}
	for {
		if err := r.await(ctx); err != nil {
			return action.Result{Start: time.Now()}, err
		}
		res, err := r.world.Run(ctx, a, c)
		r.used(p, path, res.Usage)
		var ae *action.AgentError
		if errors.As(err, &ae) && ae.Limited && r.pauseFor(ae) {
			continue
		}
		r.agents.passed()
		return res, err
	}
}

// workingDir is where a step runs.
func (r *run) workingDir(p place, s *workflow.Step) (string, error) {
	if s.WorkingDir == nil {
		return p.dir, nil
	}
	dir, err := s.WorkingDir.Expand(p.scope)
	if err != nil {
		return "", fmt.Errorf("working_dir: %w", err)
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.dir, dir)
	}
	if info, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("working_dir: %w", err)
	} else if !info.IsDir() {
		return "", fmt.Errorf("working_dir: %s is no directory", dir)
	}
	return dir, nil
}

// surroundings is the place that a step has with its working_dir, env and
// clear_env, which also hold for the steps inside it. more are variables that
// come before its own.
func (r *run) surroundings(ctx context.Context, p place, s *workflow.Step, more []workflow.EnvVar) (place, error) {
	var err error
	if p.dir, err = r.workingDir(p, s); err != nil {
		return p, err
	}
	if s.ClearEnv {
		p.env, p.own = keepBasics(p.env), &ownEnv{cleared: true}
	}
	return r.addEnv(ctx, p, slices.Concat(more, s.Env))
}

// addDynamic computes the variables that are computed at each use.
func (r *run) addDynamic(ctx context.Context, p place) (place, error) {
	for _, v := range r.env.dynamic {
		if _, known := p.own.find(v.Name); known {
			continue // a step around this one has set it
		}
		text, err := r.dynamicValue(ctx, v, p.scope)
		if err != nil {
			return p, fmt.Errorf("env %s: %w", v.Name, err)
		}
		p.env = append(slices.Clip(p.env), v.Name+"="+text)
	}
	return p, nil
}

// addEnv adds variables to the environment of a place. Secrets win over them.
func (r *run) addEnv(ctx context.Context, p place, list []workflow.EnvVar) (place, error) {
	if len(list) == 0 {
		return p, nil
	}
	p.env = slices.Clip(p.env)
	p.own = &ownEnv{parent: p.own, vars: make(map[string]template.Value, len(list))}
	for _, v := range list {
		if _, secret := r.env.secrets[v.Name]; secret {
			continue
		}
		val, err := r.envValue(ctx, v, p.view())
		if err != nil {
			return p, fmt.Errorf("env %s: %w", v.Name, err)
		}
		text := value.Text(val.V)
		if strings.ContainsRune(text, 0) {
			return p, fmt.Errorf("env %s: its value has a NUL byte in it", v.Name)
		}
		p.env = append(p.env, v.Name+"="+text)
		p.own.vars[v.Name] = exported(val)
	}
	return p, nil
}

// leftOut is what stands where the middle of a large output was left out.
var leftOut = pattern.Lazy(`\n?… \d+ bytes left out …\n`)

// agentEnv gives the variables that are configured for an agent.
func (r *run) agentEnv(a workflow.Action) []workflow.EnvVar {
	if c, ok := a.(*workflow.Claude); ok {
		if cfg := r.world.Agents[action.AgentName(c)]; cfg != nil {
			return cfg.Env
		}
	}
	return nil
}

// keepBasics is what is left of an environment that is cleared: without PATH
// and HOME hardly a program starts, and bide's own variables stay.
func keepBasics(env []string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if isBasic(name) {
			out = append(out, kv)
		}
	}
	return out
}

func isBasic(name string) bool {
	return name == "PATH" || name == "HOME" || strings.HasPrefix(name, "BIDE_") || strings.HasPrefix(name, "PRODIGY_")
}

// stepOutputs is where the output of an attempt goes: to whoever watches, and
// to files.
type stepOutputs struct {
	stdout, stderr io.Writer
	log            io.Writer
	spill          func(string) (*os.File, error)
	flush          []func() error
	logPath        string
}

// LogName is the name under which the outputs of a step are kept: its path, and
// in the second and later attempts at a work item the number of that.
func LogName(path string, itemAttempt int) string {
	if itemAttempt > 1 {
		return fmt.Sprintf("attempt%d.%s", itemAttempt, path)
	}
	return path
}

// outputsOf opens what an attempt writes to.
func (r *run) outputsOf(p place, path string, n int, a workflow.Action) *stepOutputs {
	o := &stepOutputs{}
	var begun sync.Map // streams, asked for from several goroutines
	file := func(stream string) (*os.File, error) {
		step := LogName(path, p.attempt)
		if _, again := begun.LoadOrStore(stream, true); !again {
			// What a killed life of the run left of this attempt is not of it.
			if err := os.Remove(r.j.OutputFile(p.index, step, n, stream)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		return r.j.CreateOutput(p.index, step, n, stream)
	}
	_, isAgent := a.(*workflow.Claude)
	if isAgent {
		// The raw stream of an agent is always kept.
		o.toFile(r, "agent", file)
	}
	if !p.quiet && len(r.sink) > 0 {
		stdout := "stdout"
		if r.file.Kind == workflow.Dataflow {
			stdout = "stderr" // a pipeline's own output has nothing else in it
		}
		o.stdout = o.live(r, p, path, stdout)
		o.stderr = o.live(r, p, path, "stderr")
	}
	if !r.mask.Active() {
		o.spill = file
		return o
	}
	// With secrets, nothing may reach the disk unmasked: the whole output goes
	// through the mask into files.
	if !isAgent {
		o.stdout = both(o.stdout, o.masked(r, &lazyFile{open: func() (*os.File, error) { return file("stdout") }}))
	}
	o.stderr = both(o.stderr, o.masked(r, &lazyFile{open: func() (*os.File, error) { return file("stderr") }}))
	return o
}

func both(a, b io.Writer) io.Writer {
	if a == nil {
		return b
	}
	return io.MultiWriter(a, b)
}

func (o *stepOutputs) toFile(r *run, stream string, open func(string) (*os.File, error)) {
	l := &lazyFile{open: func() (*os.File, error) {
		f, err := open(stream)
		if err == nil {
			o.logPath = f.Name()
		}
		return f, err
	}}
	o.log = o.masked(r, l)
}

// masked puts the mask in front of a file.
func (o *stepOutputs) masked(r *run, l *lazyFile) io.Writer {
	w := r.mask.NewWriter(l)
	o.flush = append(o.flush, w.Flush, l.Close)
	return w
}

// live passes output on to whoever watches the run.
func (o *stepOutputs) live(r *run, p place, path, stream string) io.Writer {
	w := r.mask.NewWriter(writerFunc(func(b []byte) (int, error) {
		r.emit(event.Event{Type: event.Output, Phase: p.phase, Step: path, Label: stream, Item: p.item, Index: p.index, Message: string(b)})
		return len(b), nil
	}))
	o.flush = append(o.flush, w.Flush)
	return w
}

func (o *stepOutputs) close(res *action.Result) error {
	var errs []error
	for _, f := range o.flush {
		errs = append(errs, f())
	}
	if o.logPath != "" && res.StdoutFile == "" {
		res.StdoutFile = o.logPath
	}
	return errors.Join(errs...)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// lazyFile is a file that is made at the first byte.
type lazyFile struct {
	open func() (*os.File, error)
	f    *os.File
}

func (l *lazyFile) Write(b []byte) (int, error) {
	if l.f == nil {
		f, err := l.open()
		if err != nil {
			return 0, err
		}
		l.f = f
	}
	return l.f.Write(b)
}

func (l *lazyFile) Close() error {
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}

// normal restores the kinds of numbers of a value that came out of JSON.
func normal(m map[string]any) map[string]any {
	if len(m) == 0 {
		return nil
	}
	out, ok := normalJSON(m).(map[string]any)
	if !ok {
		return nil
	}
	return out
}

// commitCheck is what is to be known of the git history around an attempt.
type commitCheck struct {
	r    *run
	dir  string
	from *worktree.Point // nil where nobody asks, and outside git
}

func (r *run) beforeCommits(ctx context.Context, p place, s *workflow.Step) (*commitCheck, error) {
	c := &commitCheck{r: r, dir: p.dir}
	must := s.CommitRequired || s.AutoCommit != nil
	if !must && !r.git {
		return c, nil
	}
	if r.repo == nil {
		if must {
			return nil, &action.InputError{Err: fmt.Errorf("the step has to commit, but %s is in no git repository with a commit", p.dir)}
		}
		return c, nil
	}
	from, err := r.repo.Mark(ctx, p.dir)
	if err != nil {
		return nil, err
	}
	c.from = &from
	return c, nil
}

// after makes the step's own commit and checks that there is one.
func (c *commitCheck) after(ctx context.Context, p place, s *workflow.Step) error {
	if a := s.AutoCommit; a != nil {
		if err := c.commit(ctx, p, s, a); err != nil {
			return err
		}
	}
	if !s.CommitRequired || c.r.noCommitValidation() {
		return nil
	}
	return c.r.repo.RequireCommit(ctx, c.dir, c.from.Commit)
}

func (r *run) noCommitValidation() bool {
	v, ok := r.env.values["PRODIGY_NO_COMMIT_VALIDATION"]
	return ok && v.V == "true"
}

func (c *commitCheck) commit(ctx context.Context, p place, s *workflow.Step, a *workflow.Commit) error {
	msg := "bide: " + label(s)
	if a.Message != nil {
		var err error
		if msg, err = a.Message.Expand(p.scope); err != nil {
			return &action.InputError{Err: fmt.Errorf("commit_config: %w", err)}
		}
	}
	if a.Pattern != nil && !a.Pattern.MatchString(msg) {
		return &action.InputError{Err: fmt.Errorf("commit_config: the message %q does not match message_pattern %s", msg, a.Pattern)}
	}
	o := worktree.CommitOptions{Message: msg, Author: a.Author, Sign: a.Sign, Include: a.Include, Exclude: a.Exclude}
	if a.Squash {
		o.SquashSince = c.from.Commit
	}
	_, err := c.r.repo.AutoCommit(ctx, c.dir, o)
	return err
}

// variables sets step.* and workflow.* of the git context.
func (c *commitCheck) variables(ctx context.Context, p place) {
	if c.from == nil {
		return
	}
	step, err := c.r.repo.Context(ctx, c.dir, *c.from)
	if err != nil {
		c.r.noteOnce("git "+c.dir, fmt.Sprintf("the git context of %s: %v", c.dir, err))
		return
	}
	p.scope.Set("step", gitContext(step))
	if c.r.head == nil {
		return
	}
	if all, err := c.r.repo.Context(ctx, c.dir, *c.r.head); err == nil {
		m := gitContext(all)
		m["name"], m["id"] = c.r.file.Name, c.r.id
		if it, ok := p.scope.Lookup("ITERATION"); ok {
			m["iteration"] = it.V
		}
		p.scope.Set("workflow", m)
	}
}

func gitContext(g worktree.GitContext) map[string]any {
	return map[string]any{
		"files_added": anys(g.FilesAdded), "files_modified": anys(g.FilesModified), "files_deleted": anys(g.FilesDeleted),
		"files_changed": anys(g.FilesChanged), "commits": anys(g.Commits), "commit_count": int64(g.CommitCount),
		"insertions": int64(g.Insertions), "deletions": int64(g.Deletions),
	}
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
