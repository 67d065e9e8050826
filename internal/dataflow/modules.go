package dataflow

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/step"
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
	m := &attempted{host: h, p: h.Executor.After(h.placeOf(ctx), at.Number, at.Last), d: d, args: args, path: h.step(at.Call), n: at.Number, priority: priority(at.Call), timeout: at.Call.Timeout}
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

// foreign makes one attempt of a module that is Go code on ports that are none of
// this machine: as of a command.
func foreign(ctx context.Context, m module.Module, args []any) (any, error) {
	return runModule(ctx, &module.Definition{Name: m.Name(), Params: m.Params(), Result: m.Result(), Shell: anyCommand}, args)
}

// anyCommand fails where its exit status is not 0.
var anyCommand = &module.Shell{Exit: module.StatusMap{Retryable: []module.StatusRange{{From: 1, To: 125}, {From: 128, To: 255}}, Fatal: []module.StatusRange{{From: 126, To: 127}}}}

// attempted is one attempt of a module.
type attempted struct {
	*host
	p       step.Place // that of the host, with what the attempt holds, and how the one before failed
	d       *module.Definition
	args    []any
	path    string        // of the call as a step
	n       int           // of the attempt
	timeout time.Duration // of each attempt; 0: none. The context ends with it
	// priority is that of the call, where its agent has limits of the machine.
	priority int
}

// shell runs a command: inputs on standard input and in the environment, the
// result on standard output.
func (m *attempted) shell(ctx context.Context) (any, error) {
	env, err := m.environment(ctx)
	if err != nil {
		return nil, retry.Permanent(&action.InputError{Err: err})
	}
	c := m.call()
	c.Dir, c.Environ, c.Quiet = m.dir(), environ.Of(env), m.p.Quiet
	res, err := m.Executor.Attempt(ctx, &m.p, c)
	m.said.Store(m.path, res.Stderr)
	code, exited := failure.ExitCode(err)
	if err != nil && !exited {
		return nil, err
	}
	switch m.d.Shell.Exit.Outcome(code) {
	case module.Success:
		return m.d.Parse(m.d.Shell.Output, []byte(res.Output))
	case module.Fatal:
		return nil, retry.Permanent(notNil(err, code))
	}
	return nil, notNil(err, code)
}

// call is the attempt as the executor's actions take it.
func (m *attempted) call() *step.Call {
	return &step.Call{Address: m.p.Address, Path: m.path, Number: m.n, Priority: m.priority, Module: m.d, Args: m.args, Timeout: m.timeout}
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
		return m.p.Dir
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
	local, err := m.Env.AddDynamic(ctx, m.p.Env, m.p.Scope)
	if err != nil {
		return nil, err
	}
	env := local.List()
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
	res, err := m.Executor.Attempt(ctx, &m.p, m.call())
	if err == nil {
		return m.d.Parse(m.d.HTTP.Output, []byte(res.Output))
	}
	var answered interface{ HTTPStatus() int }
	if step.IsInput(err) || errors.As(err, &answered) && m.d.HTTP.Status.Outcome(answered.HTTPStatus()) == module.Fatal {
		err = retry.Permanent(err)
	}
	return nil, err
}

// prompted is the prompt of an agent module: a value, and so no template.
var prompted = sync.OnceValue(func() *template.Text {
	t, err := template.Parse("${prompt}")
	if err != nil {
		panic(err)
	}
	return t
})

// agent asks an agent. All rules for the agents of a run hold: rate limits,
// budgets, usage.
func (m *attempted) agent(ctx context.Context) (any, error) {
	q := m.p
	q.Scope = q.Scope.Child()
	q.Scope.Set("prompt", m.d.Fill(m.d.Agent.Prompt, m.args))
	a := &workflow.Claude{Text: prompted(), Provider: m.d.Agent.Provider}
	c := m.call()
	c.Action, c.Scope, c.Dir, c.Environ, c.Quiet = a, m.Executor.View(ctx, &q), q.Dir, q.Env, true
	c.Timeout = 0 // ctx ends with it
	res, err := m.Executor.AskAgent(ctx, q, c)
	if m.instead.Delete(m.path); res.Instead != "" {
		m.instead.Store(m.path, res.Instead)
	}
	if err != nil {
		if step.Final(err) {
			err = retry.Permanent(err)
		}
		return nil, err
	}
	return m.d.Parse(m.d.Agent.Output, []byte(res.Output))
}

// workflow runs the steps of a workflow inside this run. The inputs are its
// parameters.
func (m *attempted) workflow(ctx context.Context) (any, error) {
	d := m.d
	f := m.pl.workflows[d]
	if f == nil {
		return nil, retry.Permanent(fmt.Errorf("the workflow of %s was not read", d.Name))
	}
	q := m.p
	q.Scope = q.Scope.Child()
	if m.n > 1 {
		q.Rounds += fmt.Sprintf("@%d", m.n)
	}
	sub := &workflow.SubWorkflow{Name: d.Name, Pos: d.Pos, File: f, Outputs: m.outputs()}
	if _, err := m.Executor.Call(ctx, q, sub, d.Inputs(m.args), m.path); err != nil {
		if step.Final(err) {
			err = retry.Permanent(err)
		}
		return nil, err
	}
	if m.Sampled { // the steps have printed nothing of which the outputs could be made
		return types.Sample(d.Result, 1), nil
	}
	if name := d.Workflow.Output; name != "" {
		v, ok, err := step.Lookup(q.Scope, name)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, retry.Permanent(fmt.Errorf("the workflow of %s did not set its output %s", d.Name, name))
		}
		return m.result(v.V)
	}
	record := map[string]any{}
	for _, f := range d.Result.Fields {
		v, ok, err := step.Lookup(q.Scope, f.Name)
		if err != nil {
			return nil, err
		}
		if ok {
			record[f.Name] = fitted(v.V, f.Type)
		}
	}
	return m.result(record)
}

func (m *attempted) outputs() []string {
	if name := m.d.Workflow.Output; name != "" {
		return []string{name}
	}
	return value.Map(m.d.Result.Fields, func(f types.Field) string { return f.Name })
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
