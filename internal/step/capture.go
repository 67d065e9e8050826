package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// MaxVar is the largest value of a variable, in bytes; the middle of a larger
// one is left out and marked.
const MaxVar = 1 << 20

// setResult sets the variables that a step's attempt leaves: shell.output and its kin,
// last.*, those of its id and of its capture. It gives the failure of the attempt, or why what
// it printed cannot be captured, which is no failure of one that has failed already.
func (x *Executor) setResult(ctx context.Context, p *Place, s *workflow.Step, res *action.Result, failed error) error {
	err := x.setVariables(ctx, p, s, res, failed)
	return cmp.Or(failed, err)
}

func (x *Executor) setVariables(ctx context.Context, p *Place, s *workflow.Step, res *action.Result, failed error) error {
	c := s.Capture
	if c.Text != nil {
		name, err := c.Text.Expand(x.View(ctx, p))
		switch {
		case err != nil:
		case name == "":
			err = errors.New("the name of the variable is empty")
		case !workflow.IsVariable(name): // it may be made of data
			err = fmt.Errorf("%q cannot be the name of a variable: that begins with a letter or _, and has letters, digits and any of _-. after it", x.text(name).Head(100))
		}
		if err != nil {
			return &action.InputError{Kind: "capture", Err: fmt.Errorf("capture %s: %w", c.Text, err)}
		}
		c.Name = name
	}
	text := x.printed(res)
	gave := &given{output: text.output, stderr: text.stderr, exit: res.ExitCode, status: res.Status, took: res.Duration, header: res.Header,
		usage: res.Usage, session: res.Session, file: res.StdoutFile, succeeded: failed == nil}
	if res.StdoutFile != "" && res.Usage == nil {
		// What is too large for a variable of the environment is had as a file.
		for _, name := range []string{s.Action.Kind(), "last", s.ID} {
			if name != "" {
				p.Scope.SetFile(name+".output", name+".output_file")
			}
		}
		if c.Set && c.Name != "" {
			p.Scope.SetFile(c.Name, "last.output_file")
		}
	}
	names := append(gave.names[:0], s.Action.Kind())
	if a, ok := s.Action.(*workflow.Shell); ok && a.Test {
		names = append(names, "test")
	}
	if a, ok := s.Action.(*workflow.Claude); ok && a.Provider != "" {
		names = append(names, a.Provider)
	}
	names = append(names, "last")
	if s.ID != "" {
		names = append(names, s.ID)
	}
	p.Scope.SetLate(gave, names...)
	if !c.Set || c.Off {
		return nil
	}
	if c.Name == "" {
		p.Scope.SetKept("CAPTURED_OUTPUT", text.output)
		return nil
	}
	return x.setCapture(p, c, text, gave.parts())
}

// given is what an attempt gave, for the variables that have it in common.
type given struct {
	output, stderr any // as in printed
	exit, status   int
	took           time.Duration
	header         map[string]string
	usage          *action.Usage
	session, file  string
	succeeded      bool
	names          [4]string // room for those of most steps
}

// Value is what variables have of it.
func (g *given) Value() template.Value {
	obj := g.parts()
	return template.Value{V: obj, Origin: template.Data, Kept: value.HasKept(obj)}
}

func (g *given) parts() map[string]any {
	obj := map[string]any{
		"output":    g.output,
		"stderr":    g.stderr,
		"exit_code": int64(g.exit),
		"success":   g.succeeded,
		"duration":  seconds(g.took.Seconds()),
	}
	if g.status != 0 {
		obj["status"], obj["body"] = int64(g.status), g.output
		h := make(map[string]any, len(g.header))
		for k, v := range g.header {
			h[k] = v
		}
		obj["headers"] = h
	}
	if u := g.usage; u != nil {
		obj["cost_usd"], obj["tokens"], obj["session"] = u.CostUSD, u.Tokens(), g.session
	}
	if g.file != "" && g.usage == nil {
		obj["output_file"] = g.file
	}
	return obj
}

// seconds keeps a duration to the millisecond, so that it reads well.
func seconds(f float64) any {
	ms := int64(f * 1000)
	if ms%1000 == 0 {
		return ms / 1000
	}
	return float64(ms) / 1000
}

// setCapture sets the variable of `capture:` with its companions.
func (x *Executor) setCapture(p *Place, c workflow.Capture, of printed, obj map[string]any) error {
	res := of.res
	text := res.Output
	switch {
	case c.Streams.Joined && text != "" && res.Stderr != "":
		text += "\n" + res.Stderr
	case c.Streams.Joined:
		text += res.Stderr
	case c.Streams.Stderr && !c.Streams.Stdout:
		text = res.Stderr
	case !c.Streams.Stdout:
		text = ""
	}
	v, err := formatted(c.Format, text, obj["success"] == true, x.Values.Mask())
	if err != nil {
		return &action.InputError{Kind: "capture", Err: fmt.Errorf("capture %s: %w", c.Name, err)}
	}
	p.Scope.SetKept(c.Name, of.refer(v))
	p.Scope.SetKept(c.Name+".output", of.refer(text))
	p.Scope.SetKept(c.Name+".stderr", obj["stderr"])
	for k, keep := range map[string]bool{"exit_code": c.Streams.ExitCode, "success": c.Streams.Success, "duration": c.Streams.Duration} {
		if keep {
			p.Scope.Set(c.Name+"."+k, obj[k])
		}
	}
	return nil
}

// formatted reads an output as capture_format says.
func formatted(format, text string, success bool, m *mask.Masker) (any, error) {
	switch format {
	case "json":
		v, err := value.Parse([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("the output is no JSON: %w", err)
		}
		return v, nil
	case "lines":
		out := []any{}
		for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			if line = strings.TrimRight(line, "\r"); line != "" || strings.Contains(text, "\n") {
				out = append(out, line)
			}
		}
		return out, nil
	case "number":
		t := strings.TrimSpace(text)
		if _, ok := value.Number(t); !ok || t == "" {
			return nil, fmt.Errorf("the output %q is no number", m.Text(t).Ends(Brief))
		}
		return value.FromNumber(t), nil
	case "boolean":
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return success, nil
	}
	return m.Bound(text, MaxVar), nil
}

// saveFile writes output_file. err is why the attempt failed: what it has printed until then
// is written as well, and nothing where it has not run, or runs again in the next life.
func (x *Executor) saveFile(ctx context.Context, p *Place, s *workflow.Step, res *action.Result, err error) error {
	ran := err == nil || res.ExitCode != 0 || res.Output != "" || res.StdoutFile != ""
	if s.OutputFile == nil || !ran || err != nil && ctx.Err() != nil && x.Life.Stopping(ctx) != nil {
		return nil
	}
	path, err := s.OutputFile.Expand(x.View(ctx, p))
	if err != nil {
		return inputError("output_file: %w", err)
	}
	if stop := x.Life.Stopping(ctx); stop != nil && ctx.Err() != nil {
		return stop // a name that was computed may be cut short
	}
	if err := x.Actions.Save(ctx, p.File(s.OutputFile, path), *res); err != nil {
		return fmt.Errorf("output_file: %w", err)
	}
	return nil
}

// nameOutputs sets the named outputs.
func (x *Executor) nameOutputs(ctx context.Context, p *Place, s *workflow.Step, res *action.Result) error {
	if len(s.Outputs) == 0 {
		return nil
	}
	text := x.printed(res)
	for _, o := range s.Outputs {
		v, err := x.namedOutput(ctx, *p, o, res)
		if err != nil {
			return &action.InputError{Kind: "capture", Err: fmt.Errorf("outputs %s: %w", o.Name, err)}
		}
		v = text.refer(v)
		p.Scope.SetKept(o.Name, v)
		if s.ID != "" {
			p.Scope.SetKept(s.ID+"."+o.Name, v)
		}
	}
	return nil
}

// namesData reports whether a text has something in it that came from outside:
// an item, an output, a name of a file. The environment is the caller's word.
func (p Place) namesData(t *template.Text) bool {
	for _, ref := range t.Refs() {
		if ref.Raw {
			continue
		}
		name := ref.Name
		if kind, _, ok := strings.Cut(name, ":"); ok && (kind == "cmd" || kind == "file" || kind == "json") {
			return true
		}
		if len(ref.Path) > 0 && ref.Path[0].Name != "" {
			name = ref.Path[0].Name
		}
		for _, n := range []string{ref.Name, name} {
			if v, ok := p.Scope.Variable(n); ok && v.Origin == template.Data {
				return true
			}
		}
	}
	return false
}

// namedOutput is one entry of outputs: the first file that the step changed
// and that fits a pattern, a value out of its output, or a text.
func (x *Executor) namedOutput(ctx context.Context, p Place, o workflow.Output, res *action.Result) (any, error) {
	switch {
	case o.FilePattern != "":
		return x.madeFile(ctx, p, o.FilePattern)
	case o.JSONPath != "":
		v, err := value.Parse([]byte(res.Output))
		if err != nil {
			return nil, fmt.Errorf("the output is no JSON: %w", err)
		}
		found, err := input.Path(ctx, o.JSONPath, v)
		if err != nil {
			return nil, err
		}
		if len(found) == 1 {
			return found[0], nil
		}
		return found, nil
	case o.Value != nil:
		return o.Value.Expand(x.View(ctx, &p))
	}
	return res.Output, nil
}

// madeFile is the first file that fits a pattern, of those that the last step added
// or changed where that is known, else of all below the directory.
func (x *Executor) madeFile(ctx context.Context, p Place, pattern string) (any, error) {
	v, _ := p.Scope.Lookup("step")
	made, _ := v.V.(map[string]any)
	for _, key := range []string{"files_added", "files_modified"} {
		list, _ := made[key].([]any)
		for _, f := range list {
			ok, err := files.Match(pattern, value.Text(f))
			if err != nil {
				return nil, err
			}
			if ok {
				return f, nil
			}
		}
	}
	found, err := x.Actions.Find(ctx, files.Name{Dir: p.Dir, Path: pattern})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no file matches %q", pattern)
	}
	rel, err := filepath.Rel(p.Dir, found[0])
	return rel, err
}

// Captured takes a variable of capture_outputs out of what a command gave.
func Captured(ctx context.Context, c workflow.CaptureOutput, res action.Result, m *mask.Masker) (any, error) {
	text := res.Output
	switch c.Source {
	case "stderr":
		text = res.Stderr
	case "both", "combined":
		text = strings.TrimRight(res.Output+"\n"+res.Stderr, "\n")
	}
	if c.MaxSize > 0 {
		text = m.First(text, c.MaxSize)
	}
	if c.Pattern != nil {
		m := c.Pattern.FindStringSubmatch(text)
		switch {
		case m == nil && c.HasDef:
			return c.Default, nil
		case m == nil:
			return nil, fmt.Errorf("the output does not match %s", c.Pattern)
		}
		text = m[min(1, len(m)-1)]
	}
	if c.JSONPath != "" {
		v, err := value.Parse([]byte(text))
		if err != nil && c.HasDef {
			return c.Default, nil
		} else if err != nil {
			return nil, fmt.Errorf("the output is no JSON: %w", err)
		}
		found, err := input.Path(ctx, c.JSONPath, v)
		switch {
		case err != nil:
			return nil, err
		case len(found) == 0 && c.HasDef:
			return c.Default, nil
		case len(found) == 0:
			return nil, fmt.Errorf("%s finds nothing in the output", c.JSONPath)
		case len(found) == 1:
			return found[0], nil
		}
		return found, nil
	}
	if text == "" && c.HasDef {
		return c.Default, nil
	}
	switch c.Format {
	case "", "string", "text":
		return multiline(c.Multiline, text), nil
	}
	v, err := formatted(c.Format, text, res.ExitCode == 0, m)
	if err != nil && c.HasDef {
		return c.Default, nil
	}
	return v, err
}

var lineEnds = pattern.Lazy(`\r?\n`)

func multiline(how, text string) any {
	lines := lineEnds().Split(text, -1)
	switch how {
	case "join":
		return strings.Join(lines, " ")
	case "first_line":
		return lines[0]
	case "last_line":
		return lines[len(lines)-1]
	case "array":
		return Anys(lines)
	}
	return text
}
