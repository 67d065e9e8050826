package workflow

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/template"
	"go.yaml.in/yaml/v3"
)

// openSecrets finds the secrets whose values are in the file, and warns about them.
func (d *decoder) openSecrets() {
	for i := range d.file.Secrets {
		s := &d.file.Secrets[i]
		if s.Provider != "value" || s.Key == nil || s.Key.String() == "" || slices.ContainsFunc(s.Key.Refs(), func(r template.Ref) bool { return d.fills(s.Key, r) }) {
			continue
		}
		s.InFile = true
		unsure := len(s.Key.Refs()) > 0 && len(d.file.EnvFiles) > 0
		if len(s.Key.Foreign()) == 0 && !unsure && !d.full() {
			d.warnAt(s.Pos, "secret-in-file", "the value of the secret %s is in the file, where everybody who has the file can read it", s.Name).
				Suggest("write %s: ${env:%[1]s} under secrets:, or {provider: file, key: PATH}, {provider: command, key: COMMAND}", s.Name)
		}
	}
}

// fills reports whether a reference of a secret's text stands for a value, or for an
// environment variable that must be set. $NAME that nothing sets is a part of the value.
func (d *decoder) fills(t *template.Text, r template.Ref) bool {
	if !r.Bare || d.isVariable(r.Name) || t.IsReference() && r.Name == strings.ToUpper(r.Name) {
		return true
	}
	_, set := d.environ(r.Name)
	return set
}

// Literals are the secrets whose values are in the texts of a workflow and of those that
// it calls, by name. A value that a text does not have as it is, because YAML spells it with
// escapes or in several lines, is there as it is spelled too.
func Literals(f *File) map[string]string {
	values := map[string]string{}
	files := Files(f)
	for _, file := range files {
		for _, s := range file.Secrets {
			if s.InFile {
				values[s.Name] = s.Key.String()
			}
		}
	}
	if len(values) == 0 {
		return values
	}
	names := make(map[string]string, len(values))
	for name, v := range values {
		names[v] = name
	}
	for _, file := range files {
		texts := [][]byte{file.Source}
		for _, text := range file.Others {
			texts = append(texts, text)
		}
		for _, text := range texts {
			spellings(text, names, values)
		}
	}
	return values
}

// spellings adds to values how a text of YAML spells values that have names.
func spellings(text []byte, names, values map[string]string) {
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil {
		return
	}
	lines := strings.SplitAfter(string(text), "\n")
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for _, c := range n.Content {
			walk(c)
		}
		name, known := names[n.Value]
		if !known || n.Kind != yaml.ScalarNode || n.Line < 1 || n.Line > len(lines) {
			return
		}
		if raw := spelled(n, lines[n.Line-1:]); raw != n.Value && raw != "" {
			values[name+" in line "+strconv.Itoa(n.Line)] = raw
		}
	}
	walk(&doc)
}

// spelled is how the lines that begin with a scalar's own spell its value; "" where nobody
// knows.
func spelled(n *yaml.Node, lines []string) string {
	rest := strings.Join(lines, "")
	for range n.Column - 1 {
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		_, rest, _ = strings.Cut(rest, `"`) // behind a tag or an anchor
		for i := 0; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
			case '"':
				return rest[:i]
			}
		}
	case n.Style&yaml.SingleQuotedStyle != 0:
		_, rest, _ = strings.Cut(rest, "'")
		for i := 0; i < len(rest); i++ {
			if rest[i] == '\'' {
				if !strings.HasPrefix(rest[i+1:], "'") {
					return rest[:i]
				}
				i++
			}
		}
	default: // its words, in one line or in several
		words := strings.Fields(n.Value)
		if len(words) == 0 {
			return ""
		}
		start := strings.Index(rest, words[0])
		end := start
		for _, w := range words {
			i := strings.Index(rest[max(0, end):], w)
			if start < 0 || i < 0 {
				return ""
			}
			end += i + len(w)
		}
		return rest[start:end]
	}
	return ""
}
