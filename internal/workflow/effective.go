package workflow

import (
	"strings"

	"github.com/bide-dev/bide/internal/mask"
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

func (s *Step) firstLine() string {
	text, _, _ := strings.Cut(strings.TrimSpace(ActionText(s.Action)), "\n")
	return text
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
