package workflow

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/template"
	"github.com/google/jsonschema-go/jsonschema"
)

// WriteMeaning writes what steps do, with the workflows and the agents of a file
// that they call: the same bytes for the same meaning, however it is written and
// wherever it stands. What has its zero value is left out, so that a later
// version of the model says the same of the files of today.
func WriteMeaning(w io.Writer, f *File, steps []*Step) {
	m := meaning{w: w, seen: map[uintptr]bool{}}
	m.all(f, steps)
}

func (m *meaning) all(f *File, steps []*Step) {
	m.value(reflect.ValueOf(steps))
	asked := map[string]bool{}
	eachStep(steps, func(s *Step) {
		if c, ok := s.Action.(*Claude); ok {
			asked[c.Provider] = true
		}
	})
	agents := AllAgents(f)
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if a := agents[name]; a != nil {
			m.value(reflect.ValueOf(a))
		}
	}
}

// Reads lists the variables that steps of a file name, and those of the workflows
// and agents that they call, each once: in texts, and in conditions.
func Reads(f *File, steps []*Step) []Named {
	m := meaning{w: io.Discard, seen: map[uintptr]bool{}, named: map[string]Named{}}
	m.all(f, steps)
	var list []Named
	for _, name := range slices.Sorted(maps.Keys(m.named)) {
		list = append(list, m.named[name])
	}
	return list
}

// Named is a variable that a text or a condition names.
type Named struct {
	Name string
	Path expr.Path // nil where the name is none: env:HOME
}

// eachStep visits steps, and those of the workflows that they call.
func eachStep(steps []*Step, visit func(*Step)) {
	var called []*File
	walkSteps(steps, func(s *Step) {
		visit(s)
		if c, ok := s.Action.(*Call); ok && c.Target != nil && !slices.Contains(called, c.Target.File) {
			called = append(called, c.Target.File)
			for _, f := range Files(c.Target.File) {
				Walk(f, visit)
			}
		}
	})
}

// Called are the files of the workflows that steps call, and of those that these
// call.
func Called(steps []*Step) []*File { return Files(&File{Steps: steps})[1:] }

// PipelineFiles are the files of the pipelines that steps run, in their order.
func PipelineFiles(steps []*Step) (list []*template.Text) {
	eachStep(steps, func(s *Step) {
		if p, ok := s.Action.(*Pipeline); ok {
			list = append(list, p.File)
		}
	})
	return list
}

// WorkingDirs are the directories that steps name to work in.
func WorkingDirs(steps []*Step) (list []*template.Text) {
	eachStep(steps, func(s *Step) {
		if s.WorkingDir != nil {
			list = append(list, s.WorkingDir)
		}
	})
	return list
}

// meaning writes values of the model.
type meaning struct {
	w     io.Writer
	seen  map[uintptr]bool // files and workflows
	named map[string]Named // nil: not wanted
}

// hasNoMeaning reports whether a field says where something stands, tells it to a person,
// or bounds when it runs.
func hasNoMeaning(f reflect.StructField) bool {
	switch f.Name {
	case "Limits", "ItemLimits": // which bound when it runs
		return f.Type == reflect.TypeFor[[]LimitRef]()
	case "Priority":
		return f.Type.Kind() == reflect.Int
	case "Path", "Description":
		return f.Type.Kind() == reflect.String
	case "Source":
		return f.Type == reflect.TypeFor[[]byte]()
	case "Others":
		return f.Type == reflect.TypeFor[map[string][]byte]()
	}
	return f.Type == reflect.TypeFor[diag.Pos]()
}

func (m *meaning) value(v reflect.Value) {
	if v.Kind() == reflect.Pointer && v.IsNil() || !v.IsValid() {
		m.put("nil")
		return
	}
	if v.CanInterface() && m.known(v.Interface()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if _, ok := v.Interface().(*File); ok {
			if m.seen[v.Pointer()] {
				m.put("above")
				return
			}
			m.seen[v.Pointer()] = true
		}
		m.value(v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			m.put("nil")
			return
		}
		m.put(v.Elem().Type().String())
		m.value(v.Elem())
	case reflect.Struct:
		m.fields(v)
	case reflect.Slice, reflect.Array:
		m.put(fmt.Sprint(v.Len()))
		for i := range v.Len() {
			m.value(v.Index(i))
		}
	case reflect.Map:
		m.put(fmt.Sprint(v.Len()))
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for _, k := range keys {
			m.put(fmt.Sprint(k))
			m.value(v.MapIndex(k))
		}
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		// Made of what is beside it.
	default:
		m.put(fmt.Sprint(v))
	}
}

// fields writes the fields of a struct that have a value.
func (m *meaning) fields(v reflect.Value) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || v.Field(i).IsZero() || hasNoMeaning(f) {
			continue
		}
		m.put(f.Name)
		m.value(v.Field(i))
	}
	m.put("end")
}

// known writes a value of a type that says itself what it is.
func (m *meaning) known(v any) bool {
	switch v := v.(type) {
	case *template.Text:
		m.put(v.String())
		if m.named != nil {
			for _, r := range v.Refs() {
				m.named[r.Name] = Named{r.Name, r.Path}
			}
		}
	case *expr.Expr:
		m.put(v.String())
		if m.named != nil {
			for _, p := range v.Refs() {
				m.named[p.String()] = Named{p.String(), p}
			}
		}
	case *expr.Sort:
		m.put(v.String())
	case *regexp.Regexp:
		m.put(v.String())
	case option.Matcher:
		m.put(v.Name)
	case *jsonschema.Resolved:
		text, err := json.Marshal(v.Schema())
		if err != nil {
			text = []byte(err.Error())
		}
		m.put(string(text))
	default:
		return false
	}
	return true
}

// put writes a text with its length, so that two texts are none that is both.
func (m *meaning) put(s string) { fmt.Fprintf(m.w, "%d:%s", len(s), s) } // a hash fails never
