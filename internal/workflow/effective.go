package workflow

import (
	"cmp"
	"strings"

	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/template"
)

// Label is what a person knows a step by: its name, its id, or the first line
// of what it does, in at most 72 characters.
func (s *Step) Label() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.ID != "":
		return s.ID
	}
	if s.label != "" {
		return s.label
	}
	return (*mask.Masker)(nil).Text(s.firstLine()).Head(labelWidth)
}

// labelWidth is how many characters of a text are a label.
const labelWidth = 72

// Filled is the label with its variables filled in, for one execution of the step: the
// first line of that, cut as a label is. It is "" where the label has no variables, or
// one whose value costs something or is another each time (cmd:, file:, date:, uuid).
func (s *Step) Filled(sc template.Scope, m *mask.Masker) string {
	return FillLabel(cmp.Or(s.Name, s.ID, s.firstLine()), sc, m)
}

// FillLabel is Filled of a label that is alone, as a record has it.
func FillLabel(label string, sc template.Scope, m *mask.Masker) string {
	if !strings.Contains(label, "$") {
		return ""
	}
	t, err := template.Parse(label)
	if err != nil || t.IsLiteral() {
		return ""
	}
	for _, r := range t.Refs() {
		if r.Path == nil || r.Name == "uuid" {
			return ""
		}
	}
	text, err := t.Expand(sc)
	if err != nil || text == label {
		return ""
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return m.Text(text).Head(labelWidth)
}

func (s *Step) firstLine() string {
	text, rest, _ := strings.Cut(strings.TrimSpace(ActionText(s.Action)), "\n")
	for line := text; ; {
		if line != "" && !strings.HasSuffix(line, " -c '") && !strings.HasPrefix(line, "set -") {
			return line
		}
		if rest == "" {
			return text
		}
		line, rest, _ = strings.Cut(rest, "\n") // what is around it says nothing
		line = strings.TrimSpace(line)
	}
}

// Hide has the labels of all steps without secrets: they are masked before they
// are cut. It is called before anybody else reads the file.
func Hide(f *File, m *mask.Masker) {
	if !m.Active() {
		return
	}
	WalkAll(f, func(s *Step) {
		text := s.firstLine()
		if hidden := m.Text(text); hidden.String() != text {
			s.label = hidden.Head(labelWidth)
		}
	})
}

// ActionText says what an action does: the text of a command or prompt, the
// target of others.
func ActionText(action Action) string {
	switch a := action.(type) {
	case *Shell:
		return a.Text.String()
	case *Claude:
		return a.Text.String()
	case *HTTP:
		return a.Method + " " + a.URL.String()
	case *WriteFile:
		return "write " + a.Path.String()
	case *Call:
		return "workflow " + a.Workflow
	case *Pipeline:
		return "pipeline " + a.File.String()
	}
	return action.Kind()
}
