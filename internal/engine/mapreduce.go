package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// mapReduce runs setup, the map over the items, and reduce. Each phase that is
// recorded as finished is passed over step by step, as steps are.
func (r *run) mapReduce(ctx context.Context) error {
	p := place{r: r, scope: r.scope, dir: r.dir, env: r.base, steps: r.state.Steps}
	if r.file.Setup != nil {
		if err := r.phase(ctx, p, "setup", r.setup); err != nil {
			return err
		}
	}
	if err := r.readItems(ctx, p); err != nil {
		return err
	}
	if err := r.phase(ctx, p, "map", r.mapPhase); err != nil {
		return err
	}
	if r.file.Reduce == nil {
		return nil
	}
	return r.phase(ctx, p, "reduce", r.reduce)
}

// phase tells the beginning and the end of a phase.
func (r *run) phase(ctx context.Context, p place, name string, f func(context.Context, place) error) error {
	p.phase = name
	start := time.Now()
	r.emit(event.Event{Type: event.PhaseStarted, Phase: name})
	err := f(ctx, p)
	if errors.Is(err, ErrInterrupted) {
		return err
	}
	e := event.Event{Type: event.PhaseFinished, Phase: name, Status: event.Succeeded, DurationMS: time.Since(start).Milliseconds()}
	if err != nil {
		e.Status, e.Message = event.Failed, err.Error()
	}
	r.emit(e)
	return err
}

// setup runs the setup steps and takes capture_outputs out of them.
func (r *run) setup(ctx context.Context, p place) error {
	b := r.file.Setup
	if t := r.span(b.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "setup", After: t})
		defer cancel()
	}
	results := make([]action.Result, len(b.Steps))
	for i, s := range b.Steps {
		if err := r.stopping(ctx); err != nil {
			return err
		}
		out := r.step(ctx, p, s)
		if out.err != nil && !out.tolerated {
			return out.err
		}
		results[i] = out.result
	}
	if len(b.Outputs) == 0 {
		return nil
	}
	const path = "setup.capture_outputs"
	if rec, ok := p.steps[path]; ok && rec.Status == event.Succeeded {
		_, done := r.replay(p, &workflow.Step{Path: path, Action: &workflow.Analyze{}}, rec)
		if done {
			return nil
		}
	}
	set := map[string]any{}
	for _, c := range b.Outputs {
		v, err := setupOutput(c, results[c.Command])
		if err != nil {
			return fmt.Errorf("%s: capture_outputs %s: %w", c.Pos, c.Name, err)
		}
		set[c.Name] = v
		p.scope.Set(c.Name, v)
	}
	r.emit(event.Event{Type: event.StepFinished, Phase: p.phase, Step: path, Label: "capture_outputs",
		Status: event.Succeeded, Attempts: 1, Data: r.encode(recorded{Vars: set})})
	return nil
}

// readItems reads the work items into the journal, unless they are there.
func (r *run) readItems(ctx context.Context, p place) error {
	n, _, loaded, err := r.j.ItemList(ctx)
	if err != nil {
		return err
	}
	if loaded {
		err = r.readSealed()
	} else {
		n, err = r.loadItems(ctx, p)
	}
	if err != nil {
		return err
	}
	r.items.Total = n
	if n == 0 {
		r.note("there are no work items: the map is left out")
	}
	return nil
}

func (r *run) loadItems(ctx context.Context, p place) (int, error) {
	p.phase = "setup"
	spec, clean, err := r.inputSpec(ctx, p)
	if err != nil {
		return 0, fmt.Errorf("map.input: %w", err)
	}
	defer clean()
	items, end := r.journalItems(spec)
	n, digest, err := r.j.PutItems(ctx, items)
	if err = errors.Join(err, end()); err != nil {
		return 0, fmt.Errorf("map.input: %w", err)
	}
	r.emit(event.Event{Type: event.ItemsReady, Total: n, Data: data(map[string]any{"digest": digest})})
	return n, nil
}

// inputSpec says where the items come from. The output of a command waits in a
// file of the run; clean removes it.
func (r *run) inputSpec(ctx context.Context, p place) (input.Spec, func(), error) {
	m := r.file.Map
	clean := func() {}
	spec := input.Spec{JSONPath: m.JSONPath, Filter: m.Filter, SortBy: m.SortBy, TempDir: r.j.Dir()}
	var err error
	if spec.Offset, err = r.number(m.Offset, p.scope); err != nil {
		return spec, clean, fmt.Errorf("offset: %w", err)
	}
	if spec.Max, err = r.number(m.MaxItems, p.scope); err != nil {
		return spec, clean, fmt.Errorf("max_items: %w", err)
	}
	if m.Distinct != nil {
		field := strings.TrimPrefix(strings.Trim(m.Distinct.String(), "${} "), "$.")
		if spec.Distinct, err = expr.ParsePath(field); err != nil {
			return spec, clean, fmt.Errorf("distinct: %w", err)
		}
	}
	if m.Input == nil {
		v, err := action.Expand(m.List, p.scope)
		if err != nil {
			return spec, clean, err
		}
		spec.List, _ = v.([]any)
		return spec, clean, nil
	}
	if v, ok := m.Input.Value(p.scope); ok {
		if list, is := v.V.([]any); is {
			spec.List = list
			return spec, clean, nil
		}
	}
	switch m.InputKind {
	case "json", "jsonl", "csv", "lines":
		spec.Kind = m.InputKind
	}
	name, err := m.Input.Expand(p.scope)
	if err != nil {
		return spec, clean, err
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.dir, path)
	}
	info, serr := os.Stat(path)
	switch {
	case m.InputKind != "command" && serr == nil && !info.IsDir():
		spec.File = path
		if spec.Kind == "" && spec.JSONPath == "" && strings.HasSuffix(path, ".json") {
			if plain, err := notJSON(path); err != nil {
				return spec, clean, err
			} else if plain {
				r.note("%s is no JSON: each line of it is an item", name)
				spec.Kind = "lines"
			}
		}
		return spec, clean, nil
	case m.InputKind != "command" && (m.InputKind != "" || looksLikeFile(name)):
		if serr == nil {
			serr = errors.New("it is a directory")
		}
		return spec, clean, fmt.Errorf("the file %s: %w", name, serr)
	}
	spec.File, clean, err = r.commandInput(ctx, p, m.Input)
	return spec, clean, err
}

// looksLikeFile keeps a misspelt file name from being run as a command.
func looksLikeFile(s string) bool {
	switch filepath.Ext(s) {
	case ".json", ".jsonl", ".ndjson", ".csv", ".tsv":
		return !strings.ContainsAny(s, " \t\n|;&<>()$`")
	}
	return false
}

// commandInput runs the input's command with its output in a file.
func (r *run) commandInput(ctx context.Context, p place, text *template.Text) (string, func(), error) {
	f, err := os.CreateTemp(r.j.Dir(), "input-*")
	if err != nil {
		return "", func() {}, err
	}
	clean := func() { _ = os.Remove(f.Name()) } // a leftover goes with the run's directory
	_, err = r.world.Run(ctx, &workflow.Shell{Text: text}, &action.Call{Scope: p.scope, Dir: p.dir, Env: p.env, Stdout: f})
	if err = errors.Join(err, f.Close()); err != nil {
		clean()
		return "", func() {}, err
	}
	return f.Name(), clean, nil
}

// itemValue gives an item as a variable: its value, with its text as it was
// written.
func itemValue(raw []byte) (template.Value, error) {
	v, err := value.Parse(raw)
	return template.Value{V: v, Origin: template.Data, Raw: string(raw)}, err
}

// reduce runs the reduce steps with all that the map gave. The journal forgets
// those of an earlier reduce once dead letters are run again.
func (r *run) reduce(ctx context.Context, p place) error {
	if err := r.setMapVariables(ctx, p); err != nil {
		return err
	}
	return r.block(ctx, p, r.file.Reduce, "reduce")
}

// maxInline is the largest map.results that is held in memory as a variable.
const maxInline = 64 << 20

// setMapVariables sets map.*: the counts, and the results of all items in
// order, as a value and as a file.
func (r *run) setMapVariables(ctx context.Context, p place) error {
	name := filepath.Join(r.j.Dir(), "results.json")
	size, err := r.writeResults(ctx, name)
	if err != nil {
		return fmt.Errorf("map.results: %w", err)
	}
	c := r.items
	rate, failures := 0.0, 0.0 // in percent; from 0 to 1
	if c.Total > 0 {
		rate = 100 * float64(c.Succeeded) / float64(c.Total)
		failures = float64(c.Failed) / float64(c.Total)
	}
	m := map[string]any{
		"successful": int64(c.Succeeded), "succeeded": int64(c.Succeeded), "failed": int64(c.Failed), "skipped": int64(c.Skipped),
		"total": int64(c.Total), "success_rate": value.FromNumber(fmt.Sprintf("%.4g", rate)),
		"failure_rate": value.FromNumber(fmt.Sprintf("%.4g", failures)), "results_file": name,
	}
	if size <= maxInline {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		v, err := value.Parse(b)
		if err != nil {
			return fmt.Errorf("map.results: %w", err)
		}
		m["results"], m["results_json"] = v, string(b)
		p.scope.SetValue("map.results", template.Value{V: v, Origin: template.Data, Raw: string(b)})
		p.scope.SetValue("map.results_json", template.Value{V: string(b), Origin: template.Data})
	} else {
		r.note("the results of the map are %d MB: ${map.results} is not there, read ${map.results_file}", size>>20)
	}
	p.scope.Set("map", m)
	p.scope.SetTrusted("map.results_file", name)
	p.scope.SetFile("map.results", "map.results_file")
	p.scope.SetFile("map.results_json", "map.results_file")
	p.env = append(slices.Clip(p.env), "BIDE_RESULTS_FILE="+name)
	return nil
}

// writeResults streams the results of all finished items into a JSON file.
func (r *run) writeResults(ctx context.Context, name string) (size int64, err error) {
	f, err := os.OpenFile(name+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	w := newCountingWriter(f)
	sep := "["
	for res, rerr := range r.j.Results(ctx) {
		if err = rerr; err != nil {
			break
		}
		if _, err = w.WriteString(sep); err == nil {
			_, err = w.Write(r.resultJSON(res))
		}
		if err != nil {
			break
		}
		sep = ",\n"
	}
	if err == nil && sep == "[" {
		_, err = w.WriteString(sep)
	}
	if err == nil {
		_, err = w.WriteString("]\n")
	}
	if err = errors.Join(err, w.Flush(), f.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(f.Name()))
	}
	return w.n, os.Rename(f.Name(), name)
}

// itemResult is one element of map.results.
type itemResult struct {
	ItemID     string   `json:"item_id"`
	Index      int      `json:"index"`
	Status     string   `json:"status"`
	Success    bool     `json:"success"`
	Output     any      `json:"output"`
	OutputFile string   `json:"output_file,omitempty"`
	Error      string   `json:"error,omitempty"`
	Class      string   `json:"class,omitempty"`
	Attempts   int      `json:"attempts"`
	DurationMS int64    `json:"duration_ms"`
	Commits    []string `json:"commits,omitempty"`
	Files      []string `json:"files_modified,omitempty"`
	Branch     string   `json:"branch_name,omitempty"`
	Worktree   string   `json:"worktree_path,omitempty"`
	Log        string   `json:"json_log_location,omitempty"`
}

func (r *run) resultJSON(res journal.Result) []byte {
	out := itemResult{ItemID: res.ID, Index: res.Index - 1, Status: res.Status, Success: res.Status == event.Succeeded || res.Status == event.Degraded,
		Error: res.Message, Class: res.Class, Attempts: res.Attempts, DurationMS: res.DurationMS}
	var d itemData
	if len(res.Data) > 0 && json.Unmarshal(res.Data, &d) == nil {
		out.Output, out.OutputFile, out.Commits, out.Files = d.Output, d.File, d.Commits, d.Files
		out.Branch, out.Worktree, out.Log = d.Branch, d.Worktree, d.Log
		if d.File != "" && d.Size <= maxVar {
			if b, err := os.ReadFile(d.File); err == nil {
				out.Output = strings.TrimRight(string(b), "\n")
			}
		}
	}
	return data(out)
}

// notJSON reports whether a file cannot be JSON by its first byte that is no
// blank, as a list of paths that ls has written under a name in .json.
func notJSON(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	text := strings.TrimLeft(strings.TrimPrefix(string(head[:n]), "\ufeff"), " \t\r\n")
	return text != "" && !strings.ContainsRune(`[{"-0123456789tfn`, rune(text[0])), nil
}
