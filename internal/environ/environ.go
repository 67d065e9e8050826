// Package environ holds the environment in which the steps of a run run, and
// its secrets: inherited variables, env files, env blocks, profiles, what a
// command computes; who wins over whom; and what is masked wherever it would
// be shown or stored.
//
// An [Environment] is that of a run. A place inside the run has a [Local]
// one over it: the variables of a step, of a called workflow, of a work item.
// Reading goes through [Environment.View], which carries the context, so that
// a command that computes a value ends when its reader is stopped.
package environ

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// Command is a shell text that computes a value.
type Command struct {
	Text    *template.Text
	Scope   *vars.Scope
	Dir     string
	Env     []string
	Timeout time.Duration
}

// Options is what an environment is made of.
type Options struct {
	File      *workflow.File
	Inherited []string // NAME=value
	Profile   string   // in place of the file's own
	Run       string   // the id of the run
	Dir       string   // where steps run, and commands that compute values
	// Vars are variables that every run has, beside those of its directory.
	Vars map[string]any
	// Command runs a shell text and gives its output.
	Command func(ctx context.Context, c Command) (string, error)
	Now     func() time.Time
	// Warn tells something once for each key. It is called from many goroutines.
	Warn func(key, text string)
}

// Environment is what the steps of a run run in: its variables, secrets and
// directory. Precedence, low to high: inherited, env_files, env, profile, (step
// env,) secrets. After Load only Move and Disinherit change it, before any step runs; it is then
// safe for concurrent use. Its Mask is so at any time.
type Environment struct {
	opt Options
	// Scope is the outermost of the run. Its texts may name variables of the
	// environment; commands that it runs for that end with the context of Load.
	Scope *vars.Scope
	// Notes are to be told when the run has begun.
	Notes []string

	names  []string // in order of definition
	values map[string]template.Value
	// dynamic variables are computed at each use
	dynamic map[string]workflow.EnvVar
	secrets map[string]string
	// declared are the names of env blocks, env files and secrets.
	declared map[string]bool
	base     []string
	mask     atomic.Pointer[mask.Masker]
	outer    *source // of Scope
	warned   sync.Map
}

// New makes the environment of a run. [Environment.Load] computes it.
func New(opt Options) *Environment {
	e := &Environment{opt: opt, values: map[string]template.Value{}, dynamic: map[string]workflow.EnvVar{},
		secrets: map[string]string{}, declared: map[string]bool{}}
	e.outer = &source{context.Background(), e}
	e.Scope = vars.New(e.outer)
	for _, kv := range opt.Inherited {
		name, v, ok := strings.Cut(kv, "=")
		// CLAUDECODE makes an agent CLI refuse to run inside another one.
		if ok && name != "CLAUDECODE" {
			// What was inherited is nobody's code.
			e.set(name, template.Value{V: v, Origin: template.Quoted})
		}
	}
	for _, p := range opt.File.Params {
		if p.HasValue {
			e.Scope.SetTrusted(p.Name, p.Value)
		}
	}
	for name, v := range opt.Vars {
		e.Scope.SetTrusted(name, v)
	}
	e.Move(opt.Dir)
	return e
}

// Load computes the variables and reads the secrets. Where it fails, the
// environment is what is known so far.
func (e *Environment) Load(ctx context.Context) error {
	e.outer.ctx = ctx
	err := e.load(ctx)
	e.base = e.list()
	return err
}

func (e *Environment) load(ctx context.Context) error {
	f := e.opt.File
	for _, file := range f.EnvFiles {
		missing, err := readFile(ctx, file, f.Path, e.Scope, func(name string, v template.Value) {
			e.declared[name] = true
			e.set(name, v)
		})
		if err != nil {
			return err
		}
		if missing != "" {
			e.Notes = append(e.Notes, missing)
		}
	}
	if err := e.loadSecrets(ctx); err != nil { // which the files may hold
		return err
	}
	if err := e.setAll(ctx, f.Env); err != nil {
		return err
	}
	profile := cmp.Or(e.opt.Profile, f.Profile)
	if profile != "" {
		vars, ok := f.Profiles[profile]
		if !ok {
			return fmt.Errorf("%s has no profile %q; it has: %s", f.Path, profile, names(f.Profiles))
		}
		if err := e.setAll(ctx, vars); err != nil {
			return err
		}
	}
	for name, v := range e.secrets {
		e.set(name, template.Value{V: v, Origin: template.Data})
		e.declared[name] = true
	}
	for _, kv := range [][2]string{{"BIDE_AUTOMATION", "true"}, {"PRODIGY_AUTOMATION", "true"}, {"BIDE_ATTEMPT", "1"}, {"BIDE_RUN", e.opt.Run}} {
		e.set(kv[0], template.Value{V: kv[1], Origin: template.Trusted})
	}
	return nil
}

// Mask is what hides the secrets; nil, which hides nothing, before they are known.
func (e *Environment) Mask() *mask.Masker {
	return e.mask.Load()
}

// Dir is where steps run, and commands that compute values.
func (e *Environment) Dir() string { return e.opt.Dir }

// Move has them run in another directory.
func (e *Environment) Move(dir string) {
	e.opt.Dir = dir
	e.Scope.SetTrusted("PROJECT_ROOT", dir)
	e.Scope.SetTrusted("WORKTREE", dir)
}

// Disinherit takes inherited variables away, unless the file sets them as well.
func (e *Environment) Disinherit(names []string) {
	for _, name := range names {
		if e.declared[name] {
			continue
		}
		delete(e.values, name)
		e.names = slices.DeleteFunc(e.names, func(n string) bool { return n == name })
	}
	e.base = e.list()
}

func (e *Environment) set(name string, v template.Value) {
	if _, old := e.values[name]; !old {
		e.names = append(e.names, name)
	}
	e.values[name] = v
}

// list gives the environment as os/exec wants it.
func (e *Environment) list() []string {
	out := make([]string, 0, len(e.names)+4)
	for _, n := range e.names {
		out = append(out, n+"="+fmt.Sprint(e.values[n].V))
	}
	return out
}

// Get gives a variable that is not computed.
func (e *Environment) Get(name string) (string, bool) {
	v, ok := e.values[name]
	return fmt.Sprint(v.V), ok
}

func names[V any](m map[string]V) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

func (e *Environment) setAll(ctx context.Context, list []workflow.EnvVar) error {
	for _, v := range list {
		e.declared[v.Name] = true
		if v.Command != nil && !v.Cache {
			e.dynamic[v.Name] = v
		}
		val, err := e.compute(ctx, v, e.Scope)
		if err != nil {
			return fmt.Errorf("%s: env %s: %w", v.Pos, v.Name, err)
		}
		e.set(v.Name, exported(val))
	}
	return nil
}

// compute gives one variable of an env block.
func (e *Environment) compute(ctx context.Context, v workflow.EnvVar, sc *vars.Scope) (template.Value, error) {
	switch {
	case v.Command != nil:
		text, err := e.output(ctx, v.Command, sc)
		return printed(v.Name, text), err
	case v.Condition != nil:
		ok, err := v.Condition.EvalBool(template.Resolver(sc))
		if err != nil {
			return template.Value{}, err
		}
		text := v.WhenFalse
		if ok {
			text = v.WhenTrue
		}
		return expandFor(v.Name, text, sc)
	}
	return expandFor(v.Name, v.Text, sc)
}

// printed is the value of a variable that a command prints, which is data; but that this
// command chooses what programs run, is what the file says.
func printed(name, text string) template.Value {
	if template.ChoosesProgram(name) {
		return template.Value{V: text, Origin: template.Quoted}
	}
	return template.Value{V: text, Origin: template.Data}
}

// expandFor gives the value of a variable. Data does not choose what programs run, as in a
// shell text; what a command prints that the file names is the author's choice.
func expandFor(name string, t *template.Text, sc *vars.Scope) (template.Value, error) {
	v, err := expand(t, sc)
	if err == nil && v.Origin == template.Data && template.ChoosesProgram(name) {
		err = fmt.Errorf("data in %s would choose what programs run, by way of the variable; write |raw behind its name if it is meant to", t)
	}
	return v, err
}

func expand(t *template.Text, sc *vars.Scope) (template.Value, error) {
	if t == nil {
		return template.Value{V: ""}, nil
	}
	s, origin, err := t.ExpandOrigin(envScope{sc})
	return template.Value{V: s, Origin: origin}, err
}

// envScope is a scope for texts that no shell will see: there ${HOME} is the
// inherited variable, which is left to the shell elsewhere.
type envScope struct{ *vars.Scope }

// Lookup finds a variable, else one of the environment.
func (s envScope) Lookup(name string) (template.Value, bool) {
	if v, ok := s.Scope.Lookup(name); ok || !isName(name) {
		return v, ok
	}
	return s.Env(name)
}

// longest is how long a command may take that computes a value.
const longest = 5 * time.Minute

func (e *Environment) output(ctx context.Context, text *template.Text, sc *vars.Scope) (string, error) {
	env := e.base
	if env == nil {
		env = e.list()
	}
	out, err := e.opt.Command(ctx, Command{Text: text, Scope: sc, Dir: e.opt.Dir, Env: env, Timeout: longest})
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return out, err
}

// warn tells something once for each key.
func (e *Environment) warn(key, format string, args ...any) {
	if _, told := e.warned.LoadOrStore(key, true); !told {
		e.opt.Warn(key, fmt.Sprintf(format, args...))
	}
}

// Own gives the variables that the workflow gives its steps: those of its env
// blocks, env files and profile, and its secrets. One that is computed at each use
// has the text of its command in place of its value.
func (e *Environment) Own() map[string]string {
	own := make(map[string]string, len(e.declared))
	for name := range e.declared {
		if v, ok := e.dynamic[name]; ok {
			own[name] = "$(" + v.Command.String() + ")"
			continue
		}
		own[name], _ = e.Get(name)
	}
	return own
}
