package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// compound runs an action that is made of steps.
func (r *run) compound(ctx context.Context, p place, s *workflow.Step, path string) (action.Result, error) {
	switch a := s.Action.(type) {
	case *workflow.Foreach:
		return r.foreach(ctx, p, a, path)
	case *workflow.Validate:
		return action.Result{}, r.validate(ctx, p, a, path)
	case *workflow.GoalSeek:
		return r.goalSeek(ctx, p, a, path)
	case *workflow.Call:
		return r.call(ctx, p, a, path)
	case *workflow.Pipeline:
		return r.pipelineStep(ctx, p, a, path)
	}
	return action.Result{}, fmt.Errorf("a step of kind %T cannot be run", s.Action)
}

// foreach runs its steps for each of a list of values, one after another or
// several at a time. Its output is the outputs of the rounds, in order.
func (r *run) foreach(ctx context.Context, p place, a *workflow.Foreach, path string) (action.Result, error) {
	list, err := r.foreachItems(ctx, p, a, path)
	if err != nil {
		return action.Result{}, err
	}
	parallel, err := r.number(a.Parallel, p.scope)
	if err != nil {
		return action.Result{}, &action.InputError{Err: fmt.Errorf("parallel: %w", err)}
	}
	if t := r.span(a.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "foreach", After: t})
		defer cancel()
	}
	f := &rounds{r: r, p: p, a: a, list: list, outs: make([]string, len(list)), errs: make([]error, len(list))}
	f.run(ctx, max(1, parallel))
	return f.result(ctx)
}

// rounds are the rounds of one foreach.
type rounds struct {
	r    *run
	p    place
	a    *workflow.Foreach
	list []any
	outs []string
	errs []error
}

// run takes the rounds in order, several at a time.
func (f *rounds) run(ctx context.Context, parallel int) {
	next := make(chan int)
	var failed sync.Once
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for range min(parallel, len(f.list)) {
		workers.Go(func() {
			for i := range next {
				if f.errs[i] = f.round(ctx, i); f.errs[i] != nil && !f.a.ContinueOnError {
					failed.Do(func() { close(stop) })
				}
			}
		})
	}
	for i := range f.list {
		select {
		case next <- i:
			continue
		case <-stop:
		case <-ctx.Done():
		}
		break
	}
	close(next)
	workers.Wait()
}

func (f *rounds) round(ctx context.Context, i int) error {
	select {
	case <-ctx.Done():
		return f.r.stopping(ctx)
	default:
	}
	q := f.p.round(i)
	v, n := f.list[i], int64(len(f.list))
	q.scope.Set("item", v)
	q.scope.Set("index", int64(i))
	q.scope.Set("total", n)
	q.scope.Set("foreach", map[string]any{"item": v, "index": int64(i), "total": n})
	err := f.r.sequence(ctx, q, f.a.Do)
	if last, ok := q.scope.Lookup("last.output"); ok {
		f.outs[i] = value.Text(last.V)
	} else if last, ok := q.scope.Lookup("last"); ok {
		if m, ok := last.V.(map[string]any); ok {
			f.outs[i] = value.Text(m["output"])
		}
	}
	return err
}

// result joins what the rounds gave.
func (f *rounds) result(ctx context.Context) (action.Result, error) {
	var errs []error
	done := 0
	results := make([]any, len(f.list))
	for i, err := range f.errs {
		results[i] = map[string]any{"item": f.list[i], "output": f.outs[i], "success": err == nil}
		if err != nil {
			errs = append(errs, fmt.Errorf("foreach: item %d of %d (%s): %w", i+1, len(f.list), clipName(f.list[i]), err))
			continue
		}
		done++
	}
	f.p.scope.Set("foreach.results", results)
	f.p.scope.Set("foreach.succeeded", int64(done))
	f.p.scope.Set("foreach.failed", int64(len(errs)))
	f.p.scope.Set("foreach.total", int64(len(f.list)))
	res := action.Result{Output: bounded(strings.Join(f.outs, "\n"))}
	if err := f.r.stopping(ctx); err != nil {
		return res, err
	}
	if len(errs) > 0 {
		res.ExitCode = 1
		if !f.a.ContinueOnError {
			return res, errs[0]
		}
		f.r.note("foreach went on after %d of %d items failed; the first: %v", len(errs), len(f.list), errs[0])
	}
	return res, nil
}

func clipName(v any) string {
	s := value.Text(v)
	if r := []rune(s); len(r) > 60 {
		s = string(r[:57]) + "..."
	}
	return s
}

// foreachItems gives the values of a foreach.
func (r *run) foreachItems(ctx context.Context, p place, a *workflow.Foreach, path string) ([]any, error) {
	var list []any
	var err error
	switch {
	case a.Input != nil:
		list, err = r.foreachFile(p, a)
	case a.Text != nil:
		list, err = r.foreachText(ctx, p, a, path)
	default:
		for _, e := range a.List {
			v, eerr := action.Expand(e, p.scope)
			if eerr != nil {
				return nil, &action.InputError{Err: eerr}
			}
			list = append(list, v)
		}
	}
	if err != nil {
		return nil, err
	}
	limit, err := r.number(a.MaxItems, p.scope)
	if err != nil {
		return nil, &action.InputError{Err: fmt.Errorf("max_items: %w", err)}
	}
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	return list, nil
}

func (r *run) foreachFile(p place, a *workflow.Foreach) ([]any, error) {
	name, err := a.Input.Expand(p.scope)
	if err != nil {
		return nil, &action.InputError{Err: err}
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(p.dir, name)
	}
	var list []any
	for it, err := range (input.Spec{File: name, JSONPath: a.JSONPath}).Items() {
		if err != nil {
			return nil, &action.InputError{Err: fmt.Errorf("foreach: %w", err)}
		}
		v, err := value.Parse(it.Data)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// foreachText gives the values of a text: those of the list that it names, or
// the lines of the command that it is.
func (r *run) foreachText(ctx context.Context, p place, a *workflow.Foreach, path string) ([]any, error) {
	if v, ok := a.Text.Value(p.scope); ok {
		switch v := v.V.(type) {
		case []any:
			return v, nil
		case string:
			return lines(v), nil
		case nil:
			return nil, nil
		default:
			return []any{v}, nil
		}
	}
	step := &workflow.Step{Path: path + ".items", Action: &workflow.Shell{Text: a.Text}}
	q := p
	q.quiet = true // what it prints are the items
	res, err := r.leafWithin(ctx, q, step, step.Action, step.Path+p.at, 1, 0)
	if err != nil {
		return nil, fmt.Errorf("the items of foreach: %w", err)
	}
	text := res.Output
	if res.StdoutFile != "" {
		b, err := os.ReadFile(res.StdoutFile)
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	if v, err := value.Parse([]byte(text)); err == nil {
		if list, ok := v.([]any); ok {
			return list, nil
		}
	}
	return lines(text), nil
}

// lines gives the lines of a text that are not blank.
func lines(text string) []any {
	var list []any
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, len(text)+1)
	for sc.Scan() {
		if l := strings.TrimSpace(sc.Text()); l != "" {
			list = append(list, l)
		}
	}
	return list
}

// score is what a validation found.
type score struct {
	percent float64
	status  string
	vars    map[string]any
}

// IncompleteError is a validation that stayed below its threshold.
type IncompleteError struct {
	Score, Threshold float64
	Attempts         int
	What             string
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s: %.4g of at least %.4g percent after %d rounds", e.What, e.Score, e.Threshold, e.Attempts)
}

// Class is "validation".
func (e *IncompleteError) Class() string { return "validation" }

// validate runs a validation and, below its threshold, what is to be done then,
// up to max_attempts times.
func (r *run) validate(ctx context.Context, p place, v *workflow.Validate, path string) error {
	if t := r.span(v.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "the validation", After: t})
		defer cancel()
	}
	for n := 0; ; n++ {
		q := p
		q.at += fmt.Sprintf("%%%d", n)
		got, err := r.measure(ctx, q, v)
		if err != nil {
			return err
		}
		got.vars["attempt_number"], got.vars["attempt"] = int64(n+1), int64(n+1)
		p.scope.Set("validation", got.vars)
		inc := v.OnIncomplete
		if got.percent >= v.Threshold || inc == nil {
			if got.percent < v.Threshold {
				r.note("validation: %.4g of %.4g percent, and nothing is to be done about it (no on_incomplete)", got.percent, v.Threshold)
			}
			return nil
		}
		if n >= max(1, inc.MaxAttempts) {
			e := &IncompleteError{Score: got.percent, Threshold: v.Threshold, Attempts: n, What: "the validation is incomplete"}
			if inc.FailWorkflow {
				return e
			}
			r.note("%v; the workflow goes on (fail_workflow: false)", e)
			return nil
		}
		if err := r.complete(ctx, q, inc); err != nil {
			return err
		}
	}
}

// complete runs the on_incomplete steps.
func (r *run) complete(ctx context.Context, p place, inc *workflow.OnIncomplete) error {
	if inc.Prompt != nil && r.opt.Ask != nil {
		text, err := inc.Prompt.Expand(p.scope)
		if err != nil {
			return &action.InputError{Err: err}
		}
		if !r.opt.Ask(text) {
			return &IncompleteError{What: "the validation was given up"}
		}
	}
	if err := r.sleep(ctx, r.span(inc.RetryDelay)); err != nil {
		return err
	}
	check, err := r.beforeCommits(ctx, p, &workflow.Step{CommitRequired: inc.CommitRequired})
	if err != nil {
		return err
	}
	if err := r.sequence(ctx, p, inc.Steps); err != nil {
		return err
	}
	return check.after(ctx, p, &workflow.Step{Name: "on_incomplete", CommitRequired: inc.CommitRequired})
}

// measure runs the validation's commands and reads what they found.
func (r *run) measure(ctx context.Context, p place, v *workflow.Validate) (score, error) {
	err := r.sequence(ctx, p, v.Steps)
	var failed *StepError
	if err != nil && (!errors.As(err, &failed) || r.interrupted(ctx, err)) {
		return score{}, err
	}
	text := ""
	switch {
	case v.ResultFile != nil:
		name, eerr := v.ResultFile.Expand(p.scope)
		if eerr != nil {
			return score{}, &action.InputError{Err: eerr}
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.dir, name)
		}
		b, rerr := os.ReadFile(name)
		if rerr != nil && err == nil {
			return score{}, fmt.Errorf("the validation's result_file: %w", rerr)
		}
		text = string(b)
	default:
		if m, ok := p.scope.Get("last").(map[string]any); ok {
			text = value.Text(m["output"])
		}
	}
	got, perr := parseScore(text, err == nil)
	if perr != nil {
		return score{}, perr
	}
	if v.Schema != nil {
		if serr := fits(v.Schema, text); serr != nil {
			return score{}, serr
		}
	}
	return got, nil
}

// parseScore reads a validation's result. Both documented shapes are
// understood: {completion_percentage, status, implemented, missing, gaps} and
// {complete, score, gaps}. A text that is no JSON is complete where the
// command ended well.
func parseScore(text string, ok bool) (score, error) {
	s := score{vars: map[string]any{"missing": []any{}, "implemented": []any{}, "gaps": map[string]any{}}}
	v, err := value.Parse([]byte(text))
	m, isMap := v.(map[string]any)
	switch {
	case err != nil || !isMap:
		if f, is := value.Float(strings.TrimSuffix(strings.TrimSpace(text), "%")); is && ok && text != "" {
			s.percent = f
		} else if ok {
			s.percent = 100
		}
	default:
		for _, k := range []string{"missing", "implemented", "gaps"} {
			if x, has := m[k]; has {
				s.vars[k] = x
			}
		}
		s.percent, err = percentOf(m, ok)
		if err != nil {
			return s, err
		}
		s.status, _ = m["status"].(string)
	}
	if s.status == "" {
		s.status = "incomplete"
		if s.percent >= 100 {
			s.status = "complete"
		}
	}
	missing, _ := s.vars["missing"].([]any)
	s.vars["completion"], s.vars["completion_percentage"], s.vars["score"] = s.percent, s.percent, s.percent
	s.vars["status"], s.vars["missing_count"] = s.status, int64(len(missing))
	return s, nil
}

func percentOf(m map[string]any, ok bool) (float64, error) {
	for _, k := range []string{"completion_percentage", "completion", "score", "percentage"} {
		if x, has := m[k]; has {
			f, is := value.Float(x)
			if !is || f < 0 || f > 100 {
				return 0, fmt.Errorf("the validation's %s is %s; it must be a number from 0 to 100", k, value.JSON(x))
			}
			if k == "score" && f <= 1 && f != 0 && m["complete"] == nil {
				f *= 100
			}
			return f, nil
		}
	}
	switch done, has := m["complete"]; {
	case has && value.Truthy(done):
		return 100, nil
	case has:
		return 0, nil
	}
	switch m["status"] {
	case "complete", "skipped":
		return 100, nil
	case "incomplete", "failed":
		return 0, nil
	}
	if ok {
		return 100, nil
	}
	return 0, nil
}

// check runs the commands of step_validate.
func (r *run) check(ctx context.Context, p place, c *workflow.StepValidate) error {
	if t := r.span(c.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "step_validate", After: t})
		defer cancel()
	}
	var errs []error
	for n := 1; ; n++ {
		errs = errs[:0]
		for i, cmd := range c.Commands {
			if err := r.checkOne(ctx, p, cmd, n); err != nil {
				errs = append(errs, fmt.Errorf("check %d: %w", i+1, err))
			}
		}
		if err := r.stopping(ctx); err != nil {
			return err
		}
		passed := len(c.Commands) - len(errs)
		if len(errs) == 0 || c.Criteria == "any" && passed > 0 || c.Criteria == "at_least" && passed >= c.AtLeast {
			return nil
		}
		if n >= max(1, c.MaxAttempts) {
			break
		}
		if err := r.sleep(ctx, r.span(c.RetryDelay)); err != nil {
			return err
		}
	}
	err := fmt.Errorf("step_validate: %w", errors.Join(errs...))
	if c.IgnoreFailure {
		r.note("%v; it is ignored (ignore_validation_failure)", err)
		return nil
	}
	return err
}

func (r *run) checkOne(ctx context.Context, p place, c workflow.CheckCommand, n int) error {
	q := p
	q.scope = p.scope.Child()
	res, err := r.leaf(ctx, q, c.Step, c.Step.Action, fmt.Sprintf("%s%s%%%d", c.Step.Path, p.at, n), 1)
	code := 0
	if err != nil {
		var ok bool
		if code, ok = exitCode(err); !ok {
			return err
		}
	}
	if code != c.ExpectExitCode {
		return fmt.Errorf("exit status %d where %d is expected", code, c.ExpectExitCode)
	}
	if c.ExpectOutput != nil && !c.ExpectOutput.MatchString(res.Output) {
		return fmt.Errorf("the output does not match %s", c.ExpectOutput)
	}
	return nil
}

// goalSeek repeats an attempt until the validation's score reaches the
// threshold.
func (r *run) goalSeek(ctx context.Context, p place, g *workflow.GoalSeek, path string) (action.Result, error) {
	if t := r.span(g.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "goal_seek", After: t})
		defer cancel()
	}
	goal := ""
	if g.Goal != nil {
		var err error
		if goal, err = g.Goal.Expand(p.scope); err != nil {
			return action.Result{}, &action.InputError{Err: err}
		}
	}
	best := score{vars: map[string]any{}}
	for n := 1; n <= max(1, g.MaxAttempts); n++ {
		q := p.round(n - 1)
		q.env = append(slices.Clip(p.env), "PRODIGY_VALIDATION="+value.JSON(best.vars), fmt.Sprintf("BIDE_GOAL_ATTEMPT=%d", n))
		q.scope.Set("goal", map[string]any{"text": goal, "attempt": int64(n), "score": best.percent})
		q.scope.Set("validation", best.vars)
		if err := r.sequence(ctx, q, g.Do); err != nil {
			return action.Result{}, err
		}
		got, err := r.measure(ctx, q, &workflow.Validate{Steps: g.Validate})
		if err != nil {
			return action.Result{}, err
		}
		best = scoreText(q, got)
		p.scope.Set("validation", best.vars)
		p.scope.Set("goal_seek.score", best.percent)
		p.scope.Set("goal_seek.attempts", int64(n))
		if best.percent >= g.Threshold {
			return action.Result{Output: fmt.Sprintf("%.4g", best.percent)}, nil
		}
	}
	e := &IncompleteError{Score: best.percent, Threshold: g.Threshold, Attempts: g.MaxAttempts, What: "goal_seek: the goal was not reached"}
	if g.FailOnIncomplete {
		return action.Result{ExitCode: 1}, e
	}
	r.note("%v; the workflow goes on (fail_on_incomplete: false)", e)
	return action.Result{Output: fmt.Sprintf("%.4g", best.percent)}, nil
}

// scoreText takes "score: 85" out of a validation's text, the form that goals
// are documented with.
func scoreText(p place, got score) score {
	m, _ := p.scope.Get("last").(map[string]any)
	text := value.Text(m["output"])
	if _, err := value.Parse([]byte(text)); err == nil {
		return got
	}
	for line := range strings.Lines(text) {
		name, v, ok := strings.Cut(line, ":")
		if ok && strings.EqualFold(strings.TrimSpace(name), "score") {
			if f, is := value.Float(strings.TrimSpace(v)); is {
				got.percent = f
				got.vars["completion"], got.vars["score"] = f, f
			}
		}
	}
	return got
}

// call runs an imported workflow as a step.
func (r *run) call(ctx context.Context, p place, a *workflow.Call, path string) (action.Result, error) {
	if a.Target == nil || a.Target.File == nil {
		return action.Result{}, &action.InputError{Err: fmt.Errorf("no workflow is named %q; import it under `imports:` or `workflows:`", a.Workflow)}
	}
	args := map[string]any{}
	for _, arg := range slices.Concat(a.Target.With, a.With) {
		v, err := action.Expand(arg.Value, p.view())
		if err != nil {
			return action.Result{}, &action.InputError{Err: fmt.Errorf("with %s: %w", arg.Name, err)}
		}
		args[arg.Name] = v
	}
	return r.sub(ctx, p, a.Target, args, path)
}

// sub runs another file's steps inside this run, with variables of its own.
func (r *run) sub(ctx context.Context, p place, w *workflow.SubWorkflow, args map[string]any, path string) (action.Result, error) {
	q := p
	q.scope = p.scope.Child()
	q.at = p.at + "/" + path
	for _, prm := range w.File.Params {
		if prm.HasValue {
			q.scope.SetTrusted(prm.Name, prm.Value)
		}
	}
	var missing []string
	for name, v := range args {
		q.scope.Set(name, v)
	}
	for _, prm := range w.File.Params {
		if _, ok := args[prm.Name]; prm.Required && !prm.HasValue && !ok {
			missing = append(missing, prm.Name)
		}
	}
	if len(missing) > 0 {
		return action.Result{}, &action.InputError{Err: fmt.Errorf("workflow %s needs the parameters %s: give them under `with:`", w.Name, strings.Join(missing, ", "))}
	}
	q, err := r.calledEnv(ctx, q, w.File)
	if err != nil {
		return action.Result{}, &action.InputError{Err: err}
	}
	if w.WorkingDir != nil {
		dir, err := r.workingDir(p, &workflow.Step{WorkingDir: w.WorkingDir})
		if err != nil {
			return action.Result{}, &action.InputError{Err: err}
		}
		q.dir = dir
	}
	for _, d := range []workflow.Duration{w.Timeout, w.File.Timeout} {
		if t := r.span(d); t > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "workflow " + w.Name, After: t})
			defer cancel()
		}
	}
	if err := r.sequence(ctx, q, w.File.Steps); err != nil {
		return action.Result{ExitCode: 1}, err
	}
	out := map[string]any{}
	for _, name := range w.Outputs {
		if v, ok := find(q.scope, name); ok {
			out[name] = v.V
			p.scope.SetValue(name, v)
			p.scope.SetValue(w.Name+"."+name, template.Value{V: v.V, Origin: template.Data})
		}
	}
	res := action.Result{}
	if m, ok := q.scope.Get("last").(map[string]any); ok {
		res.Output = value.Text(m["output"])
	}
	if len(out) > 0 {
		res.Output = value.JSON(out)
	}
	return res, nil
}

// calledEnv is a place with the environment of a called workflow's file: its
// env_files, its env, its profile of the name that the run uses or its own.
func (r *run) calledEnv(ctx context.Context, p place, f *workflow.File) (place, error) {
	for _, file := range f.EnvFiles {
		own := &ownEnv{parent: p.own, vars: map[string]template.Value{}}
		p.env = slices.Clip(p.env)
		if err := r.loadEnvFile(file, f.Path, func(name string, v template.Value) {
			if _, secret := r.env.secrets[name]; !secret {
				own.vars[name] = v
				p.env = append(p.env, name+"="+value.Text(v.V))
			}
		}); err != nil {
			return p, err
		}
		p.own = own
	}
	profile := f.Profile
	if _, has := f.Profiles[r.opt.Profile]; has {
		profile = r.opt.Profile
	}
	return r.addEnv(ctx, p, slices.Concat(f.Env, f.Profiles[profile]))
}

// subWorkflows runs the `workflows:` of a composed file, each after those it
// depends on, those marked parallel at once.
func (r *run) subWorkflows(ctx context.Context) error {
	var todo []*workflow.SubWorkflow
	for _, w := range r.file.Workflows {
		if w.Run {
			todo = append(todo, w)
		}
	}
	done := map[string]bool{}
	for len(todo) > 0 {
		ready, rest := split(todo, done)
		if len(ready) == 0 {
			return fmt.Errorf("the workflows %s wait for each other", subNames(todo))
		}
		if err := r.subBatch(ctx, ready); err != nil {
			return err
		}
		for _, w := range ready {
			done[w.Name] = true
		}
		todo = rest
	}
	return nil
}

// split takes the next workflows to run: the first that is ready, and with it
// every other ready one where all are marked parallel.
func split(todo []*workflow.SubWorkflow, done map[string]bool) (ready, rest []*workflow.SubWorkflow) {
	for _, w := range todo {
		can := !slices.ContainsFunc(w.DependsOn, func(d string) bool { return !done[d] })
		if can && (len(ready) == 0 || w.Parallel && ready[0].Parallel) {
			ready = append(ready, w)
		} else {
			rest = append(rest, w)
		}
	}
	return ready, rest
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
	var wg sync.WaitGroup
	for i, w := range list {
		wg.Go(func() { errs[i] = r.subOne(ctx, w) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *run) subOne(ctx context.Context, w *workflow.SubWorkflow) error {
	p := place{r: r, scope: r.scope, dir: r.dir, env: r.base, steps: r.state.Steps}
	args := map[string]any{}
	for name, from := range w.Inputs {
		if v, ok := find(r.scope, from); ok {
			args[name] = v.V
		}
	}
	for _, arg := range w.With {
		v, err := action.Expand(arg.Value, p.scope)
		if err != nil {
			return err
		}
		args[arg.Name] = v
	}
	_, err := r.sub(ctx, p, w, args, "workflows."+w.Name)
	if err != nil && w.ContinueOnError && !r.interrupted(ctx, err) {
		r.note("workflow %s failed and the run goes on (continue_on_error): %v", w.Name, err)
		return nil
	}
	return err
}
