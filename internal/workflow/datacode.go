package workflow

import (
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// dataAsCode warns of shell texts that are refused for what data would do in them: a text
// that was tried with numbers alone works, and fails with the first name.
func (d *decoder) dataAsCode() {
	var o origins
	told := map[*template.Text]bool{}
	Walk(d.file, func(s *Step) {
		o.step(s)
		a, ok := s.Action.(*Shell)
		if !ok || d.full() || told[a.Text] {
			return
		}
		told[a.Text] = true // a handler may be in many places
		if _, _, open := a.Text.Unclosed(); open || len(a.Text.Foreign()) > 0 {
			return // which is told
		}
		o.begin(d, s)
		for _, e := range a.Text.AsCode(o.of) {
			p := d.warnAt(a.Text.Place(e.Offset), "data-as-code", "%s", e.Message)
			if e.Suggestion != "" {
				p.Suggest("%s", e.Suggestion)
			}
		}
	})
}

// origins says which names in a text are data.
type origins struct {
	d        *decoder
	captured map[string]template.Nature // by name; nil before it is asked for
	loops    map[*Step]*Foreach         // the foreach around a step
	inMap    map[*Step]bool
	at       *Step
}

// step notes what is inside a step, before that is come to.
func (o *origins) step(s *Step) {
	f, ok := s.Action.(*Foreach)
	if !ok {
		return
	}
	Walk(&File{Steps: f.Do}, func(inner *Step) { value.Put(&o.loops, inner, f) })
}

func (o *origins) begin(d *decoder, s *Step) {
	o.at = s
	if o.captured != nil {
		return
	}
	o.d, o.captured, o.inMap = d, map[string]template.Nature{}, map[*Step]bool{}
	Walk(d.file, func(s *Step) {
		if c := s.Capture; c.Name != "" {
			o.captured[c.Name] = template.Outside
			if c.Format == "number" {
				o.captured[c.Name] = template.Numeric
			}
		}
	})
	for _, name := range d.outputNames {
		o.captured[name] = template.Outside
	}
	walkTemplate(d.file, func(s *Step) { o.inMap[s] = true })
	own := func(vars []EnvVar) {
		for _, v := range vars {
			delete(o.captured, v.Name)
		}
	}
	own(d.file.Env)
	for _, p := range d.file.Params {
		delete(o.captured, p.Name)
	}
}

// of is what is known of a reference in the step that is looked at.
func (o *origins) of(r template.Ref) template.Nature {
	if len(r.Path) == 0 {
		return template.Own
	}
	head := r.Path[0].Name
	if n, ok := o.captured[head]; ok {
		if len(r.Path) > 1 {
			n = template.Outside
		}
		return n
	}
	member := ""
	if len(r.Path) > 1 {
		member = r.Path[1].Name
	}
	switch head {
	case "item", "item_json":
		return o.item(r.Path)
	case "shell", "claude", "http", "last", "test", "write_file":
		return result(member)
	case "error":
		if slices.Contains([]string{"message", "output", "stderr", "step"}, member) {
			return template.Outside
		}
	case "map":
		if slices.Contains([]string{"results", "results_json", "results_array", "outputs"}, member) {
			return template.Outside
		}
	case "foreach":
		if member == "item" {
			return o.item(append(expr.Path{{Name: "item"}}, r.Path[2:]...))
		}
	}
	if o.d.plainIDs[head] {
		return result(member)
	}
	if o.d.names[head] > 0 {
		return template.Own
	}
	return template.Unset
}

// result is the nature of a member of the result of a step.
func result(member string) template.Nature {
	switch member {
	case "output", "stderr", "body":
		return template.Outside
	}
	return template.Own
}

// item is the nature of a value of an item, or of a part of it. Where the list is in
// the file it is known.
func (o *origins) item(p expr.Path) template.Nature {
	var list []any
	switch loop := o.loops[o.at]; {
	case loop != nil:
		list = loop.List
	case !o.inMap[o.at]:
		return template.Unset
	default:
		list = o.d.file.Map.List
	}
	if len(list) == 0 {
		return template.Outside
	}
	for _, v := range list {
		found, ok := expr.Item(v).Lookup(p)
		if !ok || !isNumberText(found) {
			return template.Outside
		}
	}
	return template.Numeric
}

// isNumberText reports whether a value of a list of the file is a number.
func isNumberText(v any) bool {
	text := value.Text(v)
	if t, ok := v.(*template.Text); ok {
		text = t.String()
	}
	return text != "" && strings.Trim(text, "0123456789.") == ""
}
