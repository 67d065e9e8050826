package dataflow

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// Pipeline is a pipeline file that was read, checked and planned, with all that
// it is made of.
type Pipeline struct {
	Path     string
	Sources  map[string][]byte // by path: the file, the manifest, the workflows that it calls
	File     *syntax.File
	Manifest string // the path of the manifest; "": there is none
	Plan     *plan.Plan

	defs      []*module.Definition
	workflows map[*module.Definition]*workflow.File
}

// kind is the kind of action of a module of the manifest; "" for what is none.
func (p *Pipeline) kind(callee string) string {
	for _, d := range p.defs {
		switch {
		case d.Name != callee:
		case d.Shell != nil:
			return "shell"
		case d.HTTP != nil:
			return "http"
		case d.Agent != nil:
			return "claude"
		case d.Workflow != nil:
			return "workflow"
		}
	}
	return ""
}

// ManifestName is the file of modules beside a pipeline.
const ManifestName = "modules.yml"

// ScriptExtensions are the extensions of scripts of other programs.
var ScriptExtensions = []string{".sh", ".bash", ".py", ".js", ".ts", ".rb", ".pl"}

// IsPipeline reports whether a file is a pipeline and not a workflow: by its
// name or, where that does not tell, by its first line that is no comment; where
// that is NAME = VALUE, as in many files, a line of it has to begin with out. A
// file that cannot be read is none, nor is a script of another program.
func IsPipeline(path string) bool {
	switch filepath.Ext(path) {
	case ".cst":
		return true
	case ".yml", ".yaml", ".json":
		return false
	}
	if slices.Contains(ScriptExtensions, filepath.Ext(path)) {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(io.LimitReader(f, 64<<10))
	assigns := false
	for n := 0; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		word, _, _ := strings.Cut(line, " ")
		switch {
		case n == 0 && strings.HasPrefix(line, "#!") && !strings.Contains(line, "bide"):
			return false
		case assigns:
			if word == "out" {
				return true
			}
		case line == "" || line[0] == '#':
		case declares(line):
			return true
		case !assignment(line):
			return false
		default:
			assigns = true
		}
	}
	return false
}

// declares reports whether a line begins a declaration of a pipeline with a word or a mark.
func declares(line string) bool {
	if line[0] == '@' {
		return true
	}
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "in", "out", "type", "use", "policy":
		return strings.TrimSpace(rest) != "" && rest[0] != ':'
	}
	return false
}

// assignment reports whether a line may be NAME = VALUE of a pipeline.
func assignment(line string) bool {
	name, _, assigned := strings.Cut(line, "=")
	return assigned && !strings.ContainsAny(strings.TrimSpace(name), ":\"'{[ ")
}

// Load reads a pipeline and its manifest, "" for the one beside it, and
// gives everything that is wrong with them. Plan is nil where there is an
// error. read is os.ReadFile, or what gives recorded texts.
func Load(path, manifest string, read func(string) ([]byte, error)) (*Pipeline, diag.List) {
	p := &Pipeline{Path: path, Sources: map[string][]byte{}, workflows: map[*module.Definition]*workflow.File{}}
	var problems diag.List
	src, err := read(path)
	if err != nil {
		problems.Errorf(diag.Pos{File: path}, "unreadable", "the file cannot be read: %v", step.Cause(err))
		return p, problems
	}
	p.Sources[path] = src
	f, list := syntax.Parse(path, src)
	p.File = f
	env := p.modules(manifest, read, &problems)
	if env == nil || problems.HasErrors() && p.lacksModules(env) {
		return p, append(problems, list...)
	}
	program, more := check.Check(f, env)
	list = append(list, more...)
	list.Sort()
	problems = append(problems, list...)
	if program == nil || problems.HasErrors() {
		return p, problems
	}
	p.Plan, err = plan.New(program)
	if list, ok := err.(diag.List); ok {
		return p, append(problems, list...)
	}
	if err != nil {
		problems.Errorf(diag.Pos{File: path}, "unsupported", "%v", err)
	}
	return p, problems
}

// lacksModules reports whether the manifest is so wrong that nobody knows which modules it
// declares. A pipeline is then not checked against it: each of its calls would be an error.
func (p *Pipeline) lacksModules(env *check.Env) bool {
	return len(p.defs)+len(env.Wrong) == 0 || slices.Contains(env.Wrong, "")
}

// Modules reads the manifest of a pipeline: what an editor checks a file
// with that it has open. read is os.ReadFile, or what gives texts as the editor
// has them.
func Modules(path, manifest string, read func(string) ([]byte, error)) (*check.Env, diag.List) {
	p := &Pipeline{Path: path, Sources: map[string][]byte{}, workflows: map[*module.Definition]*workflow.File{}}
	var problems diag.List
	env := p.modules(manifest, read, &problems)
	return env, problems
}

// modules gives what the pipeline can call: the standard library, and the
// modules of its manifest or, without one, those for trying things out.
func (p *Pipeline) modules(manifest string, read func(string) ([]byte, error), problems *diag.List) *check.Env {
	given := manifest != ""
	if !given {
		manifest = filepath.Join(filepath.Dir(p.Path), ManifestName)
	}
	modules := stdlib.Samples()
	var wrong []string
	src, err := read(manifest)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !given:
	case err != nil:
		problems.Errorf(diag.Pos{File: manifest}, "unreadable", "the manifest cannot be read: %v", err)
		return nil
	default:
		p.Manifest, p.Sources[manifest] = manifest, src
		defs, names, list := module.ParseManifest(manifest, src)
		wrong = names
		*problems = append(*problems, list...)
		modules = nil
		for _, d := range defs {
			d.Dir = files.Absolute(d.Dir)
			modules = append(modules, module.Bind(d, runModule))
			if d.Workflow != nil {
				p.loadWorkflow(d, read, problems)
			}
		}
		p.defs = defs
	}
	env, err := check.NewEnv(modules...)
	if err != nil {
		problems.Errorf(diag.Pos{File: manifest}, "bad-module", "%v", err)
		return nil
	}
	if p.Manifest == "" {
		env.NoManifest = manifest
	}
	env.Wrong = wrong
	return env
}

// loadWorkflow reads the workflow of a module.
func (p *Pipeline) loadWorkflow(d *module.Definition, read func(string) ([]byte, error), problems *diag.List) {
	path := d.Workflow.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(d.Dir, path)
	}
	f, list := workflow.Load(path, workflow.Options{ReadFile: read, Unfilled: true})
	*problems = append(*problems, list...)
	if f == nil {
		return
	}
	p.workflows[d] = f
	p.Sources[path] = f.Source
	content := [][]byte{f.Source}
	for _, other := range slices.Sorted(maps.Keys(f.Others)) {
		p.Sources[other] = f.Others[other]
		content = append(content, f.Others[other])
	}
	d.Sum = checksum(bytes.Join(content, []byte{0}))
	at := d.Pos
	refuse := func(format string, args ...any) {
		problems.Errorf(at, "bad-module", "the workflow of module %s %s", d.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case f.Kind == workflow.MapReduce:
		refuse("has a map: it can be run only by itself")
	case len(f.Workflows) > 0 || f.Merge != nil:
		refuse("has workflows or a merge of its own: it can be run only by itself")
	}
	declared := map[string]bool{}
	for _, prm := range f.Params {
		declared[prm.Name] = true
	}
	for _, prm := range d.Params {
		delete(declared, prm.Name)
	}
	for _, prm := range f.Params {
		if declared[prm.Name] && prm.Required && !prm.HasValue {
			refuse("needs the parameter %s, which the module does not have", prm.Name)
		}
	}
}

// AsFile is the pipeline as a file without steps, which is how a run knows what
// it runs.
func (p *Pipeline) AsFile() *workflow.File {
	others := map[string][]byte{}
	for path, src := range p.Sources {
		if path != p.Path {
			others[files.Absolute(path)] = src
		}
	}
	return &workflow.File{
		Path: p.Path, Source: p.Sources[p.Path], Others: others, Kind: workflow.Dataflow,
		Name: strings.TrimSuffix(filepath.Base(p.Path), filepath.Ext(p.Path)),
	}
}

// unknownAgents reports the modules that ask an agent that nobody has configured.
func (p *Pipeline) unknownAgents(agents map[string]*workflow.Agent) (problems diag.List) {
	for _, d := range p.defs {
		if d.Agent == nil || d.Agent.Provider == "" || d.Agent.Provider == action.DefaultAgent || agents[d.Agent.Provider] != nil || workflow.BuiltIn(d.Agent.Provider) != nil {
			continue
		}
		problems.Errorf(d.Pos, "unknown-agent", "module %s asks the agent %q, which is not configured", d.Name, d.Agent.Provider).
			Suggest("configure it under agents: in the workflow that runs the pipeline, or leave provider out")
	}
	return problems
}

// Agents calls ask with each agent that modules of the pipeline, or steps of
// the workflows that it calls, need.
func (p *Pipeline) Agents(ask func(name string)) {
	for _, d := range p.defs {
		if d.Agent != nil {
			ask(d.Agent.Provider)
		}
		if f := p.workflows[d]; f != nil {
			workflow.WalkAll(f, func(s *workflow.Step) {
				if a, ok := s.Action.(*workflow.Claude); ok {
					ask(a.Provider)
				}
			})
		}
	}
}
