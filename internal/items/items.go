// Package items makes the list of the work items of a map: out of a file, a value or the
// output of a command, with the secrets in them masked. It explains a list that is empty
// and fields that no item has.
package items

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// List makes the list of a run.
type List struct {
	Executor *step.Executor
	Seals    *Seals
	// Temp is where large inputs are sorted, and the outputs of commands wait; "" is the
	// system's.
	Temp string
	// Command gives what runs the command that gives the items; ErrUnread where nobody
	// knows them before the run.
	Command func() (func(context.Context, *workflow.Shell, *action.Call) (action.Result, error), error)

	unsure bool // see step.Listed, of the command that was run last
}

// ErrUnread says that the run itself makes the work items, so that nobody knows them
// before.
var ErrUnread = errors.New("the work items are not known before the run")

// Read reads the work items of the input; put keeps them, and says how many
// there are.
func (l *List) Read(ctx context.Context, p step.Place, put func(iter.Seq2[event.Item, error]) (int, error)) (int, error) {
	p.Phase = "setup"
	var said string // by the command, on standard error
	spec, clean, err := l.spec(ctx, p, &said)
	if err != nil {
		return 0, fmt.Errorf("map.input: %w", err)
	}
	defer clean()
	until, stop := l.Executor.Life.Until(ctx)
	defer stop()
	least, err := l.Executor.Number(ctx, &p, l.Executor.File.Map.MinItems)
	if err != nil {
		return 0, fmt.Errorf("map.min_items: %w", err)
	}
	spec.Seen, spec.Context = &input.Seen{Lacking: namedIn(l.Executor.File.Map, spec)}, until
	items, end := l.Seals.list(spec)
	n, err := put(l.enough(l.judged(items, spec), spec, least, said))
	if err = errors.Join(err, end()); err != nil {
		return 0, fmt.Errorf("map.input: %w", err)
	}
	if n == 0 {
		if why, _ := whyEmpty(spec, spec.Seen.Items); why != "" {
			l.Executor.Note("%s", why)
		}
	}
	if doubt := (step.Listed{Read: spec.Seen.Items, Said: said, Unsure: l.unsure}).Doubt(); doubt != "" {
		l.Executor.Note("the command of map.input %s", doubt)
	}
	return n, nil
}

// spec says where the items come from. The output of a command waits in a
// file of the run; clean removes it. said is what a command wrote to standard error.
func (l *List) spec(ctx context.Context, p step.Place, said *string) (input.Spec, func(), error) {
	m := l.Executor.File.Map
	clean := func() {}
	spec := input.Spec{JSONPath: m.JSONPath, Filter: m.Filter, SortBy: m.SortBy, TempDir: l.Temp}
	var err error
	if spec.Offset, err = l.Executor.Number(ctx, &p, m.Offset); err != nil {
		return spec, clean, fmt.Errorf("offset: %w", err)
	}
	if spec.Max, err = l.Executor.Number(ctx, &p, m.MaxItems); err != nil {
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
				l.Executor.Note("%s is no JSON: each line of it is an item", name)
				spec.Kind = "lines"
			}
		}
		return spec, clean, nil
	case m.InputKind != "command" && (m.InputKind != "" || looksLikeFile(name)):
		if serr == nil {
			serr = errors.New("it is a directory")
		}
		if errors.Is(serr, fs.ErrNotExist) {
			return spec, clean, fmt.Errorf("%s: %w", m.Pos, &missingError{name, file.Dir})
		}
		return spec, clean, fmt.Errorf("the file %s: %w", name, serr)
	}
	spec.File, *said, clean, err = l.commandInput(ctx, p, m.Input)
	spec.Called = "the output of its command"
	return spec, clean, err
}

// missingError is an fs.ErrNotExist that says where a file is looked for.
type missingError struct{ name, dir string }

func (e *missingError) Error() string {
	where := ""
	if e.dir != "" && !filepath.IsAbs(e.name) {
		where = fmt.Sprintf(" in %s, where the run works", e.dir)
	}
	return fmt.Sprintf("there is no file %s%s; write another path, or input: {command: COMMAND}", e.name, where)
}

func (e *missingError) Unwrap() error { return fs.ErrNotExist }

// looksLikeFile keeps a misspelt file name from being run as a command.
func looksLikeFile(s string) bool {
	switch filepath.Ext(s) {
	case ".json", ".jsonl", ".ndjson", ".csv", ".tsv":
		return !strings.ContainsAny(s, " \t\n|;&<>()$`")
	}
	return false
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

// NameOf is the name of an item; a secret in it is masked before the name is cut.
func NameOf(m *mask.Masker, it event.Item) string {
	if m.Active() {
		it.Data = []byte(m.String(string(it.Data)))
	}
	return it.Name()
}
