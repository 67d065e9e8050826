package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// runModule makes one attempt of a module of a manifest.
func runModule(ctx context.Context, d *module.Definition, args []any) (any, error) {
	h, ok := ctx.Value(hostKey{}).(*host)
	at, called := flow.AttemptFrom(ctx)
	if !ok || !called {
		return nil, fmt.Errorf("the module %s can be called only by a run of bide", d.Name)
	}
	m := attempted{host: h, d: d, args: args, path: h.step(at.Call), n: at.Number}
	switch {
	case d.Shell != nil:
		return m.shell(ctx)
	case d.HTTP != nil:
		return m.http(ctx)
	case d.Agent != nil:
		return m.agent(ctx)
	}
	return m.workflow(ctx)
}

// attempted is one attempt of a module.
type attempted struct {
	*host
	d    *module.Definition
	args []any
	path string // of the call as a step
	n    int    // of the attempt
}

// maxResult is how large the result of a module may be.
const maxResult = 64 << 20

// shell runs a command: inputs on standard input and in the environment, the
// result on standard output.
func (m *attempted) shell(ctx context.Context) (any, error) {
	r, s := m.r, m.d.Shell
	env, err := m.environment(ctx)
	if err != nil {
		return nil, retry.Permanent(&action.InputError{Err: err})
	}
	argv := s.Argv
	if len(argv) == 0 {
		argv = []string{"sh", "-c", s.Text}
	}
	out := r.outputsOf(m.p, m.path, m.n, nil)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	result := &limited{limit: maxResult, full: stop}
	c := &action.Call{Dir: m.dir(), Env: env, Stdout: result, Stderr: out.stderr, Spill: out.spill, Log: out.log}
	res, err := r.world.Command(ctx, c, argv, m.d.Stdin(m.args))
	if cerr := out.close(&res); err == nil {
		err = cerr
	}
	var exit *action.ExitError
	switch {
	case result.over:
		return nil, retry.Permanent(fmt.Errorf("the output of %s is larger than %d MiB", m.d.Name, maxResult>>20))
	case err != nil && !errors.As(err, &exit):
		return nil, err
	}
	switch s.Exit.Outcome(res.ExitCode) {
	case module.Success:
		return m.d.Parse(s.Output, result.b)
	case module.Fatal:
		err = retry.Permanent(notNil(err, res.ExitCode))
	default:
		err = notNil(err, res.ExitCode)
	}
	return nil, err
}

// limited keeps what is written to it. Of more than limit bytes nothing is kept,
// and full is called.
type limited struct {
	b     []byte
	limit int
	full  func()
	over  bool
}

func (l *limited) Write(b []byte) (int, error) {
	switch {
	case l.over:
	case len(l.b)+len(b) > l.limit:
		l.b, l.over = nil, true
		l.full()
	default:
		l.b = append(l.b, b...)
	}
	return len(b), nil
}

// notNil is the failure of a command that its module calls a failure, although
// its exit status is 0.
func notNil(err error, code int) error {
	if err == nil {
		return fmt.Errorf("exit status %d, which the module calls a failure", code)
	}
	return err
}

// dir is where the command of a module runs: the folder of the run, or the one
// that the manifest names, seen from the manifest.
func (m *attempted) dir() string {
	dir := m.d.Shell.Dir
	switch {
	case dir == "":
		return m.p.dir
	case filepath.IsAbs(dir):
		return dir
	}
	return filepath.Join(m.d.Dir, dir)
}

// longestVariable is how long a value in the environment may be: Linux takes
// 128 KiB for name and value.
const longestVariable = 100 << 10

// environment is that of the run with the inputs. One that no environment can
// hold is only on standard input, unless the command asks for it by name.
func (m *attempted) environment(ctx context.Context) ([]string, error) {
	at, err := m.r.addDynamic(ctx, m.p)
	if err != nil {
		return nil, err
	}
	env := slices.Clip(at.env)
	for _, kv := range m.d.Env(m.args) {
		name, v, _ := strings.Cut(kv, "=")
		if len(v) > longestVariable || strings.ContainsRune(v, 0) {
			if strings.Contains(m.d.Shell.Text, name) {
				return nil, fmt.Errorf("%s: the input is too long for the environment, or has a NUL byte in it: read it from standard input, which is a JSON object of all inputs", name)
			}
			continue
		}
		env = append(env, kv)
	}
	return env, nil
}

// http makes a request.
func (m *attempted) http(ctx context.Context) (any, error) {
	d := m.d
	url, headers, body := d.Request(m.args)
	q := &action.Request{Method: d.HTTP.Method, URL: url, Headers: headers, MaxBody: maxResult,
		Expected: func(status int) bool { return d.HTTP.Status.Outcome(status) == module.Success }}
	if body != nil {
		q.Body, q.ContentType = value.JSON(body), "application/json"
	}
	res, err := m.r.world.Send(ctx, q, &action.Call{})
	var answered *action.HTTPError
	switch {
	case err == nil:
		return d.Parse(d.HTTP.Output, []byte(res.Output))
	case errors.As(err, &answered) && d.HTTP.Status.Outcome(answered.Status) == module.Fatal:
		return nil, retry.Permanent(err)
	case errors.As(err, new(*action.InputError)):
		return nil, retry.Permanent(err)
	}
	return nil, err
}

// prompted is the prompt of an agent module: a value, and so no template.
var prompted = func() *template.Text {
	t, err := template.Parse("${prompt}")
	if err != nil {
		panic(err)
	}
	return t
}()

// agent asks an agent. All rules for the agents of a run hold: rate limits,
// budgets, usage.
func (m *attempted) agent(ctx context.Context) (any, error) {
	r := m.r
	q := m.p
	q.scope = q.scope.Child()
	q.scope.Set("prompt", m.d.Fill(m.d.Agent.Prompt, m.args))
	a := &workflow.Claude{Text: prompted, Provider: m.d.Agent.Provider}
	out := r.outputsOf(q, m.path, m.n, a)
	c := &action.Call{Dir: q.dir, Env: q.env, Scope: q.scope, Stderr: out.stderr, Spill: out.spill, Log: out.log}
	res, err := r.askAgent(ctx, q, a, m.path, c)
	if cerr := out.close(&res); err == nil {
		err = cerr
	}
	if err != nil {
		if isInput(err) {
			err = retry.Permanent(err)
		}
		return nil, err
	}
	return m.d.Parse(m.d.Agent.Output, []byte(res.Output))
}

// workflow runs the steps of a workflow inside this run. The inputs are its
// parameters.
func (m *attempted) workflow(ctx context.Context) (any, error) {
	r, d := m.r, m.d
	f := m.pl.workflows[d]
	if f == nil {
		return nil, retry.Permanent(fmt.Errorf("the workflow of %s was not read", d.Name))
	}
	q := m.p
	q.scope = q.scope.Child()
	if m.n > 1 {
		q.at += fmt.Sprintf("@%d", m.n)
	}
	sub := &workflow.SubWorkflow{Name: d.Name, Pos: d.Pos, File: f, Outputs: m.outputs()}
	if _, err := r.sub(ctx, q, sub, d.Inputs(m.args), m.path); err != nil {
		return nil, err
	}
	if name := d.Workflow.Output; name != "" {
		v, ok := find(q.scope, name)
		if !ok {
			return nil, retry.Permanent(fmt.Errorf("the workflow of %s did not set its output %s", d.Name, name))
		}
		return m.result(v.V)
	}
	record := map[string]any{}
	for _, f := range d.Result.Fields {
		if v, ok := find(q.scope, f.Name); ok {
			record[f.Name] = fitted(v.V, f.Type)
		}
	}
	return m.result(record)
}

func (m *attempted) outputs() []string {
	if name := m.d.Workflow.Output; name != "" {
		return []string{name}
	}
	var names []string
	for _, f := range m.d.Result.Fields {
		names = append(names, f.Name)
	}
	return names
}

func (m *attempted) result(v any) (any, error) {
	out, err := types.Decode(fitted(v, m.d.Result), m.d.Result)
	if err != nil {
		return nil, fmt.Errorf("the output of %s is %w", m.d.Name, err)
	}
	return out, nil
}

// fitted reads a text as what it spells where the type is no text: what steps
// capture are texts.
func fitted(v any, t *types.Type) any {
	s, ok := v.(string)
	if !ok || t.Kind == types.StringKind {
		return v
	}
	if got, err := types.FromText(strings.TrimSpace(s), t); err == nil {
		return types.Encode(got)
	}
	return v
}
