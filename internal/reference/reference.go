// Package reference makes the reference pages of docs/reference from the tables
// that the program itself reads by: the keys of workflow files, the options of
// policies, the flags, the events. `make docs` writes the pages, and a test
// fails where one is not what the tables give. The program does not import it.
package reference

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/workflow"
)

// Made is what stands at the top of each page that is made.
const Made = "<!-- Made by \"make docs\" from the tables of the program. -->\n\n"

// Row writes a row of a Markdown table.
func Row(b *strings.Builder, cells ...string) {
	for _, c := range cells {
		b.WriteString("| " + Cell(c) + " ")
	}
	b.WriteString("|\n")
}

// Head writes the head of a Markdown table.
func Head(b *strings.Builder, names ...string) {
	Row(b, names...)
	b.WriteString(strings.Repeat("| --- ", len(names)) + "|\n")
}

// Cell makes a text fit a cell of a Markdown table.
func Cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(s), "\n", " "), "|", `\|`)
}

// Code sets a text as code, "" as nothing.
func Code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// Keys is the page of the keys of workflow files.
func Keys() string {
	var b strings.Builder
	b.WriteString(Made + `# Keys of workflow files

Every key that a workflow file may have, by the map it stands in. The kind says the form of the value; where it names another map, that map has a section
of its own here. A value may also be written with variables, as ` + "`${NAME}`" + `, unless it is a name. A duration is written ` + "`500ms`, `30s`, `1h30m`, `1d`" + `; a bare
number is in seconds. A key of a step works in every place where steps stand: ` + strings.Join(workflow.Places, ", ") + `.

Each key has one row, under its present spelling, with what holds where it is missing; "none" is no bound, no wait, no name, no such step. Older spellings of it, in the
last column, mean the same, so that existing files run; ` + "`bide migrate`" + ` rewrites most of them.

"bide schema" prints the same as a JSON Schema.
`)
	fields := workflow.Fields()
	older := olderSpellings(fields)
	object := ""
	for _, f := range fields {
		if f.Object != object {
			object = f.Object
			fmt.Fprintf(&b, "\n## %s\n\n", object)
			Head(&b, "key", "kind", "where missing", "bounds", "example", "what", "older spellings")
		}
		if f.Present != "" {
			continue // it stands in the row of the present spelling
		}
		doc := f.Doc
		if f.Inert != "" {
			doc = strings.TrimSpace(doc + " No effect: " + f.Inert)
		}
		missing := cmp.Or(f.Default, "none")
		if f.Inert != "" {
			missing = ""
		}
		Row(&b, Code(f.Key), f.Kind, missing, f.Bounds, Code(f.Key+": "+f.Example), doc, strings.Join(older[[2]string{f.Object, f.Key}], ", "))
	}
	return b.String()
}

// olderSpellings are those of each key, by its map and its present spelling, with the
// unit of those that are no spans of time but numbers.
func olderSpellings(fields []workflow.FieldInfo) map[[2]string][]string {
	older := map[[2]string][]string{}
	for _, f := range fields {
		if f.Present == "" {
			continue
		}
		text := Code(f.Key)
		if _, unit, ok := strings.Cut(f.Doc, ", in "); ok {
			text += " (in " + unit + ")"
		}
		older[[2]string{f.Object, f.Present}] = append(older[[2]string{f.Object, f.Present}], text)
	}
	return older
}

// Options is the page of the options of policies and calls.
func Options() string {
	var b strings.Builder
	b.WriteString(Made + `# Options of a policy

One table of options is behind ` + "`retry_config`" + ` of a workflow file, the ` + "`with`" + ` clause of a pipeline and the flags of ` + "`bide exec`, `bide batch` and `bide backoff`" + `.
An empty cell says that the option cannot be written there. A retry policy counts attempts: ` + "`attempts: 3`" + ` is three runs; in a pipeline ` + "`retry: 2`" + ` is the same.

`)
	Head(&b, "option", "in a workflow", "in a pipeline", "flag", "of", "where missing", "bounds", "what")
	for _, r := range option.Table() {
		Row(&b, optionCells(r)...)
	}
	b.WriteString("\nOther spellings that a workflow may have:\n\n")
	Head(&b, "spelling", "is")
	for _, r := range option.Table() {
		if r.In&option.File != 0 {
			for _, s := range r.Spellings()[1:] {
				Row(&b, Code(s), Code(r.Name))
			}
		}
	}
	b.WriteString("\n## Options of a circuit breaker\n\n`circuit_breaker: {failure_threshold: 5, timeout: 30s}` in a workflow; `5/30s` or `0.5/20/30s` in a pipeline and in a flag.\n\n")
	Head(&b, "option", "in a workflow", "where missing", "bounds", "what")
	for _, r := range option.BreakerTable() {
		Row(&b, Code(r.Name), Code(r.Name+": "+r.Example), r.Default, bounds(r), r.Doc)
	}
	return b.String()
}

func optionCells(r *option.Row) []string {
	file, call, flag, of := "", "", "", ""
	if r.In&option.File != 0 {
		file = Code(r.Name + ": " + r.Example)
	}
	if r.In&option.Call != 0 {
		call = Code(r.CallExample())
	}
	if r.In&option.Command != 0 {
		flag = Code("--" + r.FlagName())
		for _, in := range []struct {
			layer option.Layer
			name  string
		}{{option.Exec, "exec"}, {option.Batch, "batch"}, {option.Backoff, "backoff"}} {
			if r.In&in.layer != 0 {
				of += ", " + in.name
			}
		}
	}
	doc := r.Doc
	if len(r.Words) > 0 {
		doc += " Words: " + strings.Join(r.Words, ", ") + "."
	}
	if r.Stream {
		doc += " It is read and refused: there are no streams."
	}
	return []string{Code(r.Name), file, call, flag, strings.TrimPrefix(of, ", "), r.Default, bounds(r), doc}
}

// bounds says between which values an option is to be.
func bounds(r *option.Row) string {
	switch {
	case r.Positive:
		return "more than 0"
	case r.Greatest > 0:
		return fmt.Sprintf("%.0f to %.0f", r.Least, r.Greatest)
	case r.Least > 0:
		return fmt.Sprintf("%.0f or more", r.Least)
	}
	return ""
}
