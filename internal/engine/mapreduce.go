package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
)

// mapReduce runs setup, the map over the items, and reduce. Each phase that is
// recorded as finished is passed over step by step, as steps are.
func (r *run) mapReduce(ctx context.Context) error {
	p := r.site()
	if r.file.Setup != nil {
		if err := r.phase(ctx, p, "setup", r.setup); err != nil {
			return err
		}
	}
	if err := r.readItems(ctx, p); err != nil {
		return err
	}
	phase := r.mapPhase
	if r.opt.Part != nil && r.opt.Part.Map != nil {
		phase = r.elsewhere
	}
	if err := r.phase(ctx, p, "map", phase); err != nil {
		return err
	}
	if r.file.Reduce == nil {
		return nil
	}
	return r.phase(ctx, p, "reduce", r.reduce)
}

// phase tells the beginning and the end of a phase. A part of a run does not
// tell again what another one has told.
func (r *run) phase(ctx context.Context, p step.Site, name string, f func(context.Context, step.Site) error) error {
	p.Phase = name
	start := r.x.Clock.Now()
	told := r.told(name)
	if told.Status == "" {
		r.emit(event.Event{Type: event.PhaseStarted, Phase: name})
	} else {
		start = told.Started
	}
	err := f(ctx, p)
	if errors.Is(err, ErrInterrupted) || errors.Is(err, errPart) || told.Status == event.Succeeded && err == nil {
		return err
	}
	e := event.Event{Type: event.PhaseFinished, Phase: name, Status: event.Succeeded, DurationMS: r.x.Clock.Now().Sub(start).Milliseconds()}
	if err != nil {
		e.Status, e.Message = event.Failed, err.Error()
	}
	r.emit(e)
	return err
}

// setup runs the setup steps and takes capture_outputs out of them.
func (r *run) setup(ctx context.Context, p step.Site) error {
	b := r.file.Setup
	t, err := r.x.Span(ctx, p, b.Timeout)
	if err != nil {
		return fmt.Errorf("setup.timeout: %w", err)
	}
	return r.x.Within(ctx, t, "setup", func(ctx context.Context) error { return r.setupSteps(ctx, p) })
}

func (r *run) setupSteps(ctx context.Context, p step.Site) error {
	b := r.file.Setup
	results := make([]action.Result, len(b.Steps))
	if err := r.x.Each(ctx, p, b.Steps, func(i int, out step.Outcome) { results[i] = out.Result }); err != nil {
		return err
	}
	if len(b.Outputs) == 0 {
		return nil
	}
	const path = "setup.capture_outputs"
	if rec, ok := p.Past[path]; ok && rec.Status == event.Succeeded {
		if _, done := r.x.Replay(p, path, rec); done {
			return nil
		}
	}
	set := map[string]any{}
	for _, c := range b.Outputs {
		v, err := step.Captured(ctx, c, results[c.Command], r.env.Mask())
		if err != nil {
			return fmt.Errorf("%s: capture_outputs %s: %w", c.Pos, c.Name, err)
		}
		set[c.Name] = v
	}
	r.x.Set(p, path, "capture_outputs", set)
	return nil
}

// readItems reads the work items into the journal, unless they are there.
func (r *run) readItems(ctx context.Context, p step.Site) error {
	n, err := r.host.list(ctx, p)
	if err != nil {
		return err
	}
	r.tally.items.Total = n
	if n == 0 {
		r.note("there are no work items: the map is left out%s", map[bool]string{true: ", reduce runs"}[r.file.Reduce != nil])
	}
	return nil
}

// loadItems reads the work items of the input; put keeps them, and says how many
// there are.
func (r *run) loadItems(ctx context.Context, p step.Site, put func(iter.Seq2[event.Item, error]) (int, error)) (int, error) {
	p.Phase = "setup"
	spec, clean, err := r.inputSpec(ctx, p)
	if err != nil {
		return 0, fmt.Errorf("map.input: %w", err)
	}
	defer clean()
	until, stop := r.x.Life.Until(ctx)
	defer stop()
	spec.Seen, spec.Context = &input.Seen{Lacking: namedIn(r.file.Map, spec)}, until
	items, end := r.seals.list(spec)
	n, err := put(r.judged(items, spec))
	if err = errors.Join(err, end()); err != nil {
		return 0, fmt.Errorf("map.input: %w", err)
	}
	if n == 0 {
		if why := whyEmpty(spec, spec.Seen.Items); why != "" {
			r.note("%s", why)
		}
	}
	return n, nil
}

// inputSpec says where the items come from. The output of a command waits in a
// file of the run; clean removes it.
func (r *run) inputSpec(ctx context.Context, p step.Site) (input.Spec, func(), error) {
	m := r.file.Map
	clean := func() {}
	spec := input.Spec{JSONPath: m.JSONPath, Filter: m.Filter, SortBy: m.SortBy, TempDir: r.temp}
	var err error
	if spec.Offset, err = r.x.Number(ctx, p, m.Offset); err != nil {
		return spec, clean, fmt.Errorf("offset: %w", err)
	}
	if spec.Max, err = r.x.Number(ctx, p, m.MaxItems); err != nil {
		return spec, clean, fmt.Errorf("max_items: %w", err)
	}
	if m.Distinct != nil {
		field := strings.TrimPrefix(strings.Trim(m.Distinct.String(), "${} "), "$.")
		if spec.Distinct, err = expr.ParsePath(field); err != nil {
			return spec, clean, fmt.Errorf("distinct: %w", err)
		}
	}
	if m.Input == nil {
		v, err := action.Expand(m.List, p.Scope)
		if err != nil {
			return spec, clean, err
		}
		spec.List, _ = v.([]any)
		return spec, clean, nil
	}
	if v, ok := m.Input.Value(p.Scope); ok {
		if list, is := v.V.([]any); is {
			spec.List = list
			return spec, clean, nil
		}
	}
	switch m.InputKind {
	case "json", "jsonl", "csv", "lines":
		spec.Kind = m.InputKind
	}
	name, err := m.Input.Expand(p.Scope)
	if err != nil {
		return spec, clean, err
	}
	file := p.File(m.Input, name)
	info, serr := file.Stat()
	if outside := new(files.OutsideError); errors.As(serr, &outside) && (m.InputKind != "" || looksLikeFile(name)) {
		return spec, clean, outside
	}
	switch {
	case m.InputKind != "command" && serr == nil && !info.IsDir():
		spec.File = file.Full()
		if file.ByData {
			spec.Within = file.Dir
		}
		if spec.Kind == "" && spec.JSONPath == "" && info.Mode().IsRegular() && strings.HasSuffix(name, ".json") {
			if plain, err := notJSON(ctx, file); err != nil {
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
	spec.Called = "the output of its command"
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

// inputFiles are the names of the files that hold the outputs of inputs' commands,
// as they are: secrets too.
const inputFiles = "input-*"

// dropInputs removes those that a life of the run left that was killed.
func dropInputs(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, inputFiles))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// commandInput runs the input's command with its output in a file.
func (r *run) commandInput(ctx context.Context, p step.Site, text *template.Text) (string, func(), error) {
	command, err := r.host.command()
	if err != nil {
		return "", func() {}, err
	}
	f, err := os.CreateTemp(r.temp, inputFiles)
	if err != nil {
		return "", func() {}, err
	}
	clean := func() { _ = os.Remove(f.Name()) } // a leftover goes when the run is resumed, or with its directory
	res, err := command(ctx, &workflow.Shell{Text: text}, &action.Call{Scope: p.Scope, Dir: p.Dir, Env: p.Env.List(), Stdout: f})
	// A list that is not all there must not pass for a shorter one.
	if err = errors.Join(err, res.OutputErr, f.Close()); err != nil {
		clean()
		return "", func() {}, err
	}
	return f.Name(), clean, nil
}

// notJSON reports whether a file cannot be JSON by its first byte that is no
// blank, as a list of paths that ls has written under a name in .json.
func notJSON(ctx context.Context, file files.Name) (bool, error) {
	f, err := file.Open(ctx)
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
