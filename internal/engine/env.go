package engine

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// environment is the variables in which steps run. Precedence, low to high:
// inherited, env_files, env, profile, (step env,) secrets.
type environment struct {
	names  []string // in order of definition
	values map[string]template.Value
	// dynamic variables are computed at each use
	dynamic map[string]workflow.EnvVar
	secrets map[string]string
}

func newEnvironment(inherited []string) *environment {
	e := &environment{values: map[string]template.Value{}, dynamic: map[string]workflow.EnvVar{}, secrets: map[string]string{}}
	for _, kv := range inherited {
		name, v, ok := strings.Cut(kv, "=")
		// CLAUDECODE makes an agent CLI refuse to run inside another one.
		if ok && name != "CLAUDECODE" {
			// What was inherited is nobody's code.
			e.set(name, template.Value{V: v, Origin: template.Data})
		}
	}
	return e
}

func (e *environment) set(name string, v template.Value) {
	if _, old := e.values[name]; !old {
		e.names = append(e.names, name)
	}
	e.values[name] = v
}

// list gives the environment as os/exec wants it.
func (e *environment) list() []string {
	out := make([]string, 0, len(e.names)+4)
	for _, n := range e.names {
		out = append(out, n+"="+fmt.Sprint(e.values[n].V))
	}
	return out
}

// source answers the scopes of a run for what is made when asked for.
type source struct {
	r   *run
	env *environment
}

// Value gives date:, uuid, file:, env: and cmd: values.
func (s *source) Value(name string) (template.Value, bool) {
	if name == "uuid" {
		return template.Value{V: newUUID(), Origin: template.Trusted}, true
	}
	kind, arg, ok := strings.Cut(name, ":")
	if !ok {
		if rest, isEnv := strings.CutPrefix(name, "env."); isEnv {
			return s.Env(rest)
		}
		return s.declared(name)
	}
	switch kind {
	case "env":
		return s.Env(arg)
	case "date":
		return template.Value{V: strftime(arg, time.Now()), Origin: template.Trusted}, true
	case "file":
		return s.r.fileValue(arg)
	case "cmd":
		return s.r.commandValue(arg)
	case "json":
		return s.r.jsonValue(arg)
	}
	return template.Value{}, false
}

// declared gives the variables of env blocks and secrets, which may be named
// without env.; inherited variables are left to the shell.
func (s *source) declared(name string) (template.Value, bool) {
	if _, ok := s.r.declared[name]; !ok {
		return template.Value{}, false
	}
	return s.Env(name)
}

// Env gives a variable of the environment.
func (s *source) Env(name string) (template.Value, bool) {
	if v, ok := s.env.dynamic[name]; ok {
		text, err := s.r.dynamicValue(context.Background(), v, s.r.scope)
		if err != nil {
			s.r.noteOnce("env "+name, fmt.Sprintf("env %s: %v", name, err))
			return template.Value{}, false
		}
		return template.Value{V: text, Origin: template.Data}, true
	}
	v, ok := s.env.values[name]
	return v, ok
}

// exported is a value of an env block as steps read it. Their shells
// have it in the environment, where it is no code: one that would mean
// something else when pasted is handed over as data, so that "$NAME" is the
// same with us and with the shell.
func exported(v template.Value) template.Value {
	if s, ok := v.V.(string); ok && strings.ContainsAny(s, "$`\"'\\;&|<>()#!\n") {
		v.Origin = template.Data
	}
	return v
}

// ownEnv is the environment of a step and of the steps around it, over that of
// the run.
type ownEnv struct {
	vars    map[string]template.Value
	cleared bool // nothing of what lies under it, but the basics
	parent  *ownEnv
}

// find gives a variable; it is also known where clear_env took it away.
func (o *ownEnv) find(name string) (v template.Value, known bool) {
	for ; o != nil; o = o.parent {
		if v, ok := o.vars[name]; ok {
			return v, true
		}
		if o.cleared && !isBasic(name) {
			return template.Value{}, true
		}
	}
	return v, false
}

// ownSource is the source of a place with an environment of its own.
type ownSource struct {
	r   *run
	own *ownEnv
}

func (s *ownSource) base() *source { return &source{s.r, s.r.env} }

// Value gives what the source of the run gives, and the place's own variables.
func (s *ownSource) Value(name string) (template.Value, bool) {
	kind, arg, ok := strings.Cut(name, ":")
	if ok && kind == "env" {
		return s.Env(arg)
	}
	if rest, isEnv := strings.CutPrefix(name, "env."); isEnv && !ok {
		return s.Env(rest)
	}
	if v, known := s.own.find(name); known && !ok && (v.V != nil || s.r.declared[name]) {
		return v, v.V != nil
	}
	return s.base().Value(name)
}

// Env gives a variable of the environment.
func (s *ownSource) Env(name string) (template.Value, bool) {
	if v, known := s.own.find(name); known {
		return v, v.V != nil
	}
	return s.base().Env(name)
}

// fileValue is ${file:PATH}: a file inside the working directory.
func (r *run) fileValue(path string) (template.Value, bool) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		r.noteOnce("file:"+path, fmt.Sprintf("${file:%s}: %v", path, err))
		return template.Value{}, false
	}
	return template.Value{V: strings.TrimRight(string(b), "\n"), Origin: template.Data}, true
}

// jsonValue is ${json:PATH:FILE}: a value out of a JSON file.
func (r *run) jsonValue(arg string) (template.Value, bool) {
	path, file, ok := strings.Cut(arg, ":")
	if !ok {
		return template.Value{}, false
	}
	text, ok := r.fileValue(file)
	if !ok {
		return template.Value{}, false
	}
	doc, err := value.Parse([]byte(fmt.Sprint(text.V)))
	if err != nil {
		r.noteOnce("json:"+arg, fmt.Sprintf("${json:%s}: %s is no JSON: %v", arg, file, err))
		return template.Value{}, false
	}
	at, err := expr.ParsePath(strings.TrimPrefix(path, "$."))
	if err != nil {
		r.noteOnce("json:"+arg, fmt.Sprintf("${json:%s}: %v", arg, err))
		return template.Value{}, false
	}
	v, ok := expr.Walk(doc, at)
	return template.Value{V: v, Origin: template.Data}, ok
}

// commandValue is ${cmd:TEXT}: the output of a command. The text is the
// workflow's own, so it may be a shell text; variables in it are not expanded.
func (r *run) commandValue(text string) (template.Value, bool) {
	out, err := r.output(context.Background(), r.scope, text)
	if err != nil {
		r.noteOnce("cmd:"+text, fmt.Sprintf("${cmd:%s}: %v", text, err))
		return template.Value{}, false
	}
	return template.Value{V: out, Origin: template.Data}, true
}

// output runs a trusted shell text in the run's directory.
func (r *run) output(ctx context.Context, sc *vars.Scope, text string) (string, error) {
	t, err := template.Parse(text)
	if err != nil {
		return "", err
	}
	res, err := r.world.Run(ctx, &workflow.Shell{Text: t}, &action.Call{
		Scope: sc, Dir: r.dir, Env: r.baseEnv(), Timeout: 5 * time.Minute,
	})
	return res.Output, err
}

// setupEnv computes the environment and the secrets, and with them the mask.
func (r *run) setupEnv(ctx context.Context) error {
	f := r.file
	r.declared = map[string]bool{}
	r.env = newEnvironment(r.opt.Environ)
	r.scope = vars.New(&source{r, r.env})
	for _, p := range f.Params {
		if p.HasValue {
			r.scope.SetTrusted(p.Name, p.Value)
		}
	}
	r.setBuiltins()
	for _, file := range f.EnvFiles {
		if err := r.loadEnvFile(file, r.file.Path, func(name string, v template.Value) {
			r.declared[name] = true
			r.env.set(name, v)
		}); err != nil {
			return err
		}
	}
	if err := r.loadSecrets(ctx); err != nil { // which the files may hold
		return err
	}
	if err := r.setAll(ctx, f.Env); err != nil {
		return err
	}
	profile := r.opt.Profile
	if profile == "" {
		profile = f.Profile
	}
	if profile != "" {
		vars, ok := f.Profiles[profile]
		if !ok {
			return fmt.Errorf("%s has no profile %q; it has: %s", f.Path, profile, names(f.Profiles))
		}
		if err := r.setAll(ctx, vars); err != nil {
			return err
		}
	}
	for name, v := range r.env.secrets {
		r.env.set(name, template.Value{V: v, Origin: template.Data})
		r.declared[name] = true
	}
	for _, kv := range [][2]string{{"BIDE_AUTOMATION", "true"}, {"PRODIGY_AUTOMATION", "true"}, {"BIDE_RUN", r.id}} {
		r.env.set(kv[0], template.Value{V: kv[1], Origin: template.Trusted})
	}
	r.base = r.env.list()
	return nil
}

func names[V any](m map[string]V) string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (r *run) setAll(ctx context.Context, list []workflow.EnvVar) error {
	for _, v := range list {
		r.declared[v.Name] = true
		if v.Command != nil && !v.Cache {
			r.env.dynamic[v.Name] = v
		}
		val, err := r.envValue(ctx, v, r.scope)
		if err != nil {
			return fmt.Errorf("%s: env %s: %w", v.Pos, v.Name, err)
		}
		r.env.set(v.Name, exported(val))
	}
	return nil
}

// envValue computes one variable of an env block.
func (r *run) envValue(ctx context.Context, v workflow.EnvVar, sc *vars.Scope) (template.Value, error) {
	switch {
	case v.Command != nil:
		text, err := r.dynamicValue(ctx, v, sc)
		return template.Value{V: text, Origin: template.Data}, err
	case v.Condition != nil:
		ok, err := v.Condition.EvalBool(template.Resolver(sc))
		if err != nil {
			return template.Value{}, err
		}
		text := v.WhenFalse
		if ok {
			text = v.WhenTrue
		}
		return expandEnv(text, sc)
	}
	return expandEnv(v.Text, sc)
}

func expandEnv(t *template.Text, sc *vars.Scope) (template.Value, error) {
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
	if v, ok := s.Scope.Lookup(name); ok || !isEnvName(name) {
		return v, ok
	}
	return s.Env(name)
}

func (r *run) dynamicValue(ctx context.Context, v workflow.EnvVar, sc *vars.Scope) (string, error) {
	res, err := r.world.Run(ctx, &workflow.Shell{Text: v.Command}, &action.Call{
		Scope: sc, Dir: r.dir, Env: r.env.list(), Timeout: 5 * time.Minute,
	})
	return res.Output, err
}

// loadEnvFile reads NAME=value lines. A name that the file gives twice has its
// last value; blank lines, comments, `export` and quotes are understood.
// A relative path is one beside the workflow file at base.
func (r *run) loadEnvFile(f workflow.EnvFile, base string, set func(string, template.Value)) error {
	path, err := f.Path.Expand(r.scope)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(base), path)
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !f.Required {
		const left = "%s: env_files: %s is not there and is left out"
		if base != r.file.Path {
			r.note(left, f.Pos, path)
			return nil
		}
		r.notes = append(r.notes, fmt.Sprintf(left, f.Pos, path)) // told when the run has begun
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: env_files: %w", f.Pos, err)
	}
	defer file.Close()
	sc := bufio.NewScanner(file)
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		line = strings.TrimPrefix(line, "export ")
		if line == "" || line[0] == '#' {
			continue
		}
		name, v, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || !isEnvName(name) {
			return fmt.Errorf("%s:%d: %q is no NAME=value line", path, n, line)
		}
		set(name, template.Value{V: unquote(strings.TrimSpace(v)), Origin: template.Data})
	}
	return sc.Err()
}

func isEnvName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func unquote(v string) string {
	if len(v) >= 2 && v[0] == '\'' && v[len(v)-1] == '\'' {
		return v[1 : len(v)-1]
	}
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\$`, "$").Replace(v[1 : len(v)-1])
	}
	if i := strings.Index(v, " #"); i >= 0 {
		v = strings.TrimSpace(v[:i])
	}
	return v
}

func (r *run) loadSecrets(ctx context.Context) error {
	var errs []error
	// Those of called workflows as well: what is printed before the call is
	// masked, too.
	var list []workflow.Secret
	for _, f := range workflow.Files(r.file) {
		list = append(list, f.Secrets...)
	}
	for _, s := range list {
		if _, known := r.env.secrets[s.Name]; known {
			continue // the outer file's
		}
		v, err := r.secret(ctx, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: secret %s: %w", s.Pos, s.Name, err))
			continue
		}
		r.env.secrets[s.Name] = v
		r.declared[s.Name] = true
	}
	m, short := mask.New(r.env.secrets)
	r.mask = m
	for _, name := range short {
		r.notes = append(r.notes, fmt.Sprintf("the value of secret %s is shorter than %d characters: it is not masked", name, mask.MinLength))
	}
	return errors.Join(errs...)
}

func (r *run) secret(ctx context.Context, s workflow.Secret) (string, error) {
	key, err := s.Key.Expand(envScope{r.scope})
	if err != nil {
		return "", err
	}
	switch s.Provider {
	case "env":
		v, ok := r.env.values[key]
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", key)
		}
		return fmt.Sprint(v.V), nil
	case "file":
		if rest, ok := strings.CutPrefix(key, "~/"); ok {
			if home, ok := r.env.values["HOME"]; ok {
				key = filepath.Join(fmt.Sprint(home.V), rest)
			}
		}
		if !filepath.IsAbs(key) {
			key = filepath.Join(filepath.Dir(r.file.Path), key)
		}
		b, err := os.ReadFile(key)
		return strings.TrimSpace(string(b)), err
	case "command":
		res, err := r.world.Run(ctx, &workflow.Shell{Text: s.Key}, &action.Call{
			Scope: r.scope, Dir: r.dir, Env: r.env.list(), Timeout: time.Minute})
		return res.Output, err
	case "value":
		return key, nil
	}
	return "", fmt.Errorf("the provider %q is not known; use env, file or command", s.Provider)
}

// baseEnv is the environment of a step without an env of its own.
func (r *run) baseEnv() []string {
	if r.base != nil {
		return r.base
	}
	return r.env.list()
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// strftime formats a time; the letters are those of date(1). A text without a
// % sign is a Go layout, and no text at all is RFC 3339.
func strftime(layout string, t time.Time) string {
	if layout == "" {
		return t.Format(time.RFC3339)
	}
	if !strings.Contains(layout, "%") {
		return t.Format(layout)
	}
	parts := map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05",
		'p': "PM", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'Z': "MST", 'z': "-0700",
		'F': "2006-01-02", 'T': "15:04:05", 'j': "002", 'D': "01/02/06", 'R': "15:04", 'N': "000000000",
	}
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		i++
		switch c := layout[i]; {
		case c == '%':
			b.WriteByte('%')
		case c == 's':
			fmt.Fprint(&b, t.Unix())
		case c == 'N':
			fmt.Fprintf(&b, "%09d", t.Nanosecond())
		case parts[c] != "":
			b.WriteString(t.Format(parts[c]))
		default:
			b.WriteByte('%')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// once remembers which warnings have been given.
type once struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (o *once) first(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[key] {
		return false
	}
	if o.seen == nil {
		o.seen = map[string]bool{}
	}
	o.seen[key] = true
	return true
}
