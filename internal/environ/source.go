package environ

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/vars"
)

// View is a scope for reading: with the environment of a place, and a context
// with which everything ends that is run to compute a value.
func (e *Environment) View(ctx context.Context, l Local, sc *vars.Scope) *vars.Scope {
	if l.own == nil {
		return sc.With(&source{ctx, e})
	}
	return sc.With(&local{source{ctx, e}, l.own})
}

// source answers scopes for what is made when asked for.
type source struct {
	ctx context.Context
	*Environment
}

// Value gives date:, uuid, file:, env:, json: and cmd: values.
func (s *source) Value(name string) (template.Value, bool) {
	if name == "uuid" {
		return template.Value{V: newUUID(), Origin: template.Trusted}, true
	}
	kind, arg, ok := strings.Cut(name, ":")
	if !ok {
		if rest, isEnv := strings.CutPrefix(name, "env."); isEnv {
			return s.Env(rest)
		}
		return s.named(name)
	}
	switch kind {
	case "env":
		return s.Env(arg)
	case "date":
		return template.Value{V: strftime(arg, s.opt.Now()), Origin: template.Trusted}, true
	case "file":
		return s.fileValue(arg)
	case "cmd":
		return s.commandValue(arg)
	case "json":
		return s.jsonValue(arg)
	}
	return template.Value{}, false
}

// named gives the variables of env blocks and secrets, which may be named
// without env.; inherited variables are left to the shell.
func (s *source) named(name string) (template.Value, bool) {
	if _, ok := s.declared[name]; !ok {
		return template.Value{}, false
	}
	return s.Env(name)
}

// Env gives a variable of the environment.
func (s *source) Env(name string) (template.Value, bool) {
	if v, ok := s.dynamic[name]; ok {
		text, err := s.output(s.ctx, v.Command, s.Scope)
		if err != nil {
			s.failed("env "+name, err)
			return template.Value{}, false
		}
		return printed(name, text), true
	}
	v, ok := s.values[name]
	return v, ok
}

// failed tells that a value could not be computed, unless its reader was
// stopped.
func (s *source) failed(what string, err error) {
	if s.ctx.Err() == nil {
		s.warn(what, "%s: %v", what, err)
	}
}

// exported is a value of an env block as steps read it. Their shells
// have it in the environment, where it is no code: one that would mean
// something else when pasted is handed over as data, so that "$NAME" is the
// same with us and with the shell.
func exported(v template.Value) template.Value {
	if s, ok := v.V.(string); ok && strings.ContainsAny(s, "$`\"'\\;&|<>()#!\n") {
		v.Origin = max(v.Origin, template.Quoted)
	}
	return v
}

// local is the source of a place with an environment of its own.
type local struct {
	source
	own *layer
}

// Value gives what the source of the run gives, and the place's own variables.
func (s *local) Value(name string) (template.Value, bool) {
	kind, arg, ok := strings.Cut(name, ":")
	if ok && kind == "env" {
		return s.Env(arg)
	}
	if rest, isEnv := strings.CutPrefix(name, "env."); isEnv && !ok {
		return s.Env(rest)
	}
	if v, known := s.own.find(name); known && !ok && (v.V != nil || s.declared[name]) {
		return v, v.V != nil
	}
	return s.source.Value(name)
}

// Env gives a variable of the environment.
func (s *local) Env(name string) (template.Value, bool) {
	if v, known := s.own.find(name); known {
		return v, v.V != nil
	}
	return s.source.Env(name)
}

// fileValue is ${file:PATH}: a file that the author names.
func (s *source) fileValue(path string) (template.Value, bool) {
	b, err := files.Name{Dir: s.opt.Dir, Path: path}.Read(s.ctx)
	if err != nil {
		s.failed("${file:"+path+"}", err)
		return template.Value{}, false
	}
	return template.Value{V: strings.TrimRight(string(b), "\n"), Origin: template.Data}, true
}

// jsonValue is ${json:PATH:FILE}: a value out of a JSON file.
func (s *source) jsonValue(arg string) (template.Value, bool) {
	path, file, ok := strings.Cut(arg, ":")
	if !ok {
		return template.Value{}, false
	}
	text, ok := s.fileValue(file)
	if !ok {
		return template.Value{}, false
	}
	doc, err := value.Parse([]byte(fmt.Sprint(text.V)))
	if err != nil {
		s.failed("${json:"+arg+"}", fmt.Errorf("%s is no JSON: %w", file, err))
		return template.Value{}, false
	}
	at, err := expr.ParsePath(strings.TrimPrefix(path, "$."))
	if err != nil {
		s.failed("${json:"+arg+"}", err)
		return template.Value{}, false
	}
	v, ok := expr.Walk(doc, at)
	return template.Value{V: v, Origin: template.Data}, ok
}

// commandValue is ${cmd:TEXT}: the output of a command. The text is the
// workflow's own, so it may be a shell text; variables in it are not expanded.
func (s *source) commandValue(text string) (template.Value, bool) {
	t, err := template.Parse(text)
	var out string
	if err == nil {
		out, err = s.output(s.ctx, t, s.Scope)
	}
	if err != nil {
		s.failed("${cmd:"+text+"}", err)
		return template.Value{}, false
	}
	return template.Value{V: out, Origin: template.Data}, true
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// strftime formats a time; the letters are those of date(1). A text without a
// % sign is a Go layout, and no text at all is RFC 3339.
func strftime(layout string, t time.Time) string {
	if layout == "" {
		return t.Format(time.RFC3339)
	}
	if !strings.Contains(layout, "%") {
		return t.Format(layout)
	}
	parts := map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05",
		'p': "PM", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'Z': "MST", 'z': "-0700",
		'F': "2006-01-02", 'T': "15:04:05", 'j': "002", 'D': "01/02/06", 'R': "15:04", 'N': "000000000",
	}
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		i++
		switch c := layout[i]; {
		case c == '%':
			b.WriteByte('%')
		case c == 's':
			fmt.Fprint(&b, t.Unix())
		case c == 'N':
			fmt.Fprintf(&b, "%09d", t.Nanosecond())
		case parts[c] != "":
			b.WriteString(t.Format(parts[c]))
		default:
			b.WriteByte('%')
			b.WriteByte(c)
		}
	}
	return b.String()
}
