package reference

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/event"
)

// eventLine is a row of the table in the comment of event.Event: the type, and
// behind two blanks or more what it carries.
var eventLine = regexp.MustCompile(`^(\S+(?:, …\S+)?)\s{2,}(.*)$`)

// Events is the page of the events of a run, from the source of package event.
func Events(source string) (string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(Made + `# Events of a run

` + "`bide run --json`, `bide resume --json` and `bide events --json`" + ` print one JSON object a line, in the order in which things happened. Each has ` + "`event`, `time`" + `
(RFC 3339, nanoseconds, UTC) and ` + "`run`" + `; what is zero is left out, and the members of its data stand beside the other fields. The data differs from type to type,
and readers are to pass over members that they do not know.

`)
	Head(&b, "event", "carries")
	told := map[string]bool{}
	for _, row := range eventRows(f) {
		for _, name := range row.types {
			told[name] = true
			Row(&b, Code(name), row.text)
		}
	}
	types := eventTypes(f)
	for _, name := range types {
		if !told[name] {
			err = errors.Join(err, fmt.Errorf("the comment of event.Event has no row for %s", name))
		}
		delete(told, name)
	}
	for name := range told {
		err = errors.Join(err, fmt.Errorf("the comment of event.Event has a row for %s, which is no event", name))
	}
	b.WriteString("\n## Fields\n\n")
	Head(&b, "field", "in the table above", "form")
	t := reflect.TypeFor[event.Event]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		Row(&b, Code(name), t.Field(i).Name, fieldForm(t.Field(i).Type))
	}
	return b.String(), err
}

func fieldForm(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "number"
	case reflect.String:
		return "text"
	}
	switch t.String() {
	case "time.Time":
		return "time"
	}
	return "object"
}

type eventRow struct {
	types []string
	text  string
}

func eventRows(f *ast.File) []eventRow {
	var rows []eventRow
	for line := range strings.Lines(commentOf(f, "Event")) {
		line = strings.TrimRight(line, "\n")
		if m := eventLine.FindStringSubmatch(line); m != nil && !strings.HasPrefix(line, " ") {
			rows = append(rows, eventRow{eventNames(m[1]), m[2]})
		} else if len(rows) > 0 {
			rows[len(rows)-1].text += " " + strings.TrimSpace(line)
		}
	}
	return rows
}

// eventNames writes out "phase_started, …_finished".
func eventNames(names string) []string {
	first, second, both := strings.Cut(names, ", …")
	if !both {
		return []string{first}
	}
	return []string{first, first[:strings.LastIndex(first, "_")] + second}
}

// commentOf is the first block of code in the comment of a type.
func commentOf(f *ast.File, name string) string {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE || g.Specs[0].(*ast.TypeSpec).Name.Name != name {
			continue
		}
		var p comment.Parser
		for _, block := range p.Parse(g.Doc.Text()).Content {
			if code, ok := block.(*comment.Code); ok {
				return code.Text
			}
		}
	}
	return ""
}

// eventTypes are the values of the constants of type Type.
func eventTypes(f *ast.File) []string {
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Type" {
			name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err == nil {
				out = append(out, name)
			}
		}
		return true
	})
	return out
}
