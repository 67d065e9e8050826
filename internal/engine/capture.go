package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// maxVar is the largest value of a variable, in bytes; the middle of a larger
// one is left out and marked.
const maxVar = 1 << 20

// setResult sets the variables that a step's attempt leaves: shell.output and
// its kin, last.*, those of its id and of its capture.
func (r *run) setResult(p place, s *workflow.Step, res action.Result, failed error) error {
	c := s.Capture
	if c.Text != nil {
		name, err := c.Text.Expand(p.scope)
		if err == nil && name == "" {
			err = errors.New("the name of the variable is empty")
		}
		if err != nil {
			return &action.InputError{Class_: "capture", Err: fmt.Errorf("capture %s: %w", c.Text, err)}
		}
		c.Name = name
	}
	obj := map[string]any{
		"output":    res.Output,
		"stderr":    res.Stderr,
		"exit_code": int64(res.ExitCode),
		"success":   failed == nil,
		"duration":  seconds(res.Duration.Seconds()),
	}
	if res.Status != 0 {
		obj["status"], obj["body"] = int64(res.Status), res.Output
		h := make(map[string]any, len(res.Header))
		for k, v := range res.Header {
			h[k] = v
		}
		obj["headers"] = h
	}
	if u := res.Usage; u != nil {
		obj["cost_usd"], obj["tokens"], obj["session"] = u.CostUSD, u.Tokens(), res.Session
	}
	if res.StdoutFile != "" && res.Usage == nil {
		// What is too large for a variable of the environment is had as a file.
		obj["output_file"] = res.StdoutFile
		for _, name := range []string{s.Action.Kind(), "last", s.ID} {
			if name != "" {
				p.scope.SetFile(name+".output", name+".output_file")
			}
		}
		if c.Set && c.Name != "" {
			p.scope.SetFile(c.Name, "last.output_file")
		}
	}
	p.scope.Set(s.Action.Kind(), obj)
	if a, ok := s.Action.(*workflow.Shell); ok && a.Test {
		p.scope.Set("test", obj)
	}
	if a, ok := s.Action.(*workflow.Claude); ok && a.Provider != "" {
		p.scope.Set(a.Provider, obj)
	}
	p.scope.Set("last", obj)
	if s.ID != "" {
		p.scope.Set(s.ID, obj)
	}
	if !c.Set || c.Off {
		return nil
	}
	if c.Name == "" {
		p.scope.Set("CAPTURED_OUTPUT", res.Output)
		return nil
	}
	return setCapture(p, c, res, obj)
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
func setCapture(p place, c workflow.Capture, res action.Result, obj map[string]any) error {
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
	v, err := formatted(c.Format, text, obj["success"] == true)
	if err != nil {
		return &action.InputError{Class_: "capture", Err: fmt.Errorf("capture %s: %w", c.Name, err)}
	}
	p.scope.Set(c.Name, v)
	p.scope.Set(c.Name+".output", text)
	p.scope.Set(c.Name+".stderr", obj["stderr"])
	for k, keep := range map[string]bool{"exit_code": c.Streams.ExitCode, "success": c.Streams.Success, "duration": c.Streams.Duration} {
		if keep {
			p.scope.Set(c.Name+"."+k, obj[k])
		}
	}
	return nil
}

// formatted reads an output as capture_format says.
func formatted(format, text string, success bool) (any, error) {
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
			return nil, fmt.Errorf("the output %q is no number", clip(t))
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
	return bounded(text), nil
}

func bounded(s string) string {
	if len(s) <= maxVar {
		return s
	}
	half := maxVar / 2
	return strings.ToValidUTF8(s[:half], "") + fmt.Sprintf("\n… %d bytes left out …\n", len(s)-2*half) + strings.ToValidUTF8(s[len(s)-half:], "")
}

// saveOutputs writes output_file and sets the named outputs.
func (r *run) saveOutputs(p place, s *workflow.Step, res action.Result) error {
	if s.OutputFile != nil {
		path, err := s.OutputFile.Expand(p.scope)
		if err != nil {
			return &action.InputError{Err: fmt.Errorf("output_file: %w", err)}
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.dir, path)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := copyOutput(path, res); err != nil {
			return fmt.Errorf("output_file: %w", err)
		}
	}
	for _, o := range s.Outputs {
		v, err := r.namedOutput(p, o, res)
		if err != nil {
			return &action.InputError{Class_: "capture", Err: fmt.Errorf("outputs %s: %w", o.Name, err)}
		}
		p.scope.Set(o.Name, v)
		if s.ID != "" {
			p.scope.Set(s.ID+"."+o.Name, v)
		}
	}
	return nil
}

// copyOutput writes the whole output, also where only its head and tail are
// kept as a variable.
func copyOutput(path string, res action.Result) error {
	text := []byte(res.Output)
	if len(text) > 0 {
		text = append(text, '\n')
	}
	if res.StdoutFile != "" && res.Usage == nil {
		whole, err := os.ReadFile(res.StdoutFile)
		if err != nil {
			return err
		}
		text = whole
	}
	return os.WriteFile(path, text, 0o644)
}

// namedOutput is one entry of outputs: the first file that the step changed
// and that fits a pattern, a value out of its output, or a text.
func (r *run) namedOutput(p place, o workflow.Output, res action.Result) (any, error) {
	switch {
	case o.FilePattern != "":
		return r.changedFile(p, o.FilePattern)
	case o.JSONPath != "":
		v, err := value.Parse([]byte(res.Output))
		if err != nil {
			return nil, fmt.Errorf("the output is no JSON: %w", err)
		}
		found, err := input.Path(o.JSONPath, v)
		if err != nil {
			return nil, err
		}
		if len(found) == 1 {
			return found[0], nil
		}
		return found, nil
	case o.Value != nil:
		return o.Value.Expand(p.scope)
	}
	return res.Output, nil
}

// changedFile is the first file that fits a pattern, of those that the last
// step changed where that is known, else of all below the directory.
func (r *run) changedFile(p place, pattern string) (any, error) {
	if v, ok := p.scope.Lookup("step"); ok {
		if m, is := v.V.(map[string]any); is {
			if list, is := m["files_changed"].([]any); is {
				for _, f := range list {
					if ok, _ := filepath.Match(pattern, filepath.Base(fmt.Sprint(f))); ok {
						return f, nil
					}
				}
			}
		}
	}
	found, err := filepath.Glob(filepath.Join(p.dir, pattern))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no file fits %q", pattern)
	}
	rel, err := filepath.Rel(p.dir, found[0])
	return rel, err
}

// setupOutputs takes the variables of setup's capture_outputs.
func setupOutput(c workflow.CaptureOutput, res action.Result) (any, error) {
	text := res.Output
	switch c.Source {
	case "stderr":
		text = res.Stderr
	case "both", "combined":
		text = strings.TrimRight(res.Output+"\n"+res.Stderr, "\n")
	}
	if c.MaxSize > 0 && len(text) > c.MaxSize {
		text = strings.ToValidUTF8(text[:c.MaxSize], "")
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
		found, err := input.Path(c.JSONPath, v)
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
	v, err := formatted(c.Format, text, res.ExitCode == 0)
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
		out := make([]any, len(lines))
		for i, l := range lines {
			out[i] = l
		}
		return out
	}
	return text
}

func normalJSON(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return v
	}
	got, err := value.Parse(b)
	if err != nil {
		return v
	}
	return got
}
