package template

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/value"
)

const (
	maxNesting   = 32      // references inside defaults
	maxReference = 4 << 10 // bytes of one reference
)

// reference is a parsed ${…} or $NAME.
type reference struct {
	src     string
	bare    bool
	head    head
	old     *head // head without a :modifier, with that modifier as filter
	filters []filter
	def     *Text
	defOff  int // of def in src
	problem string
	unknown string // the filter that does not exist
	raw, sh bool   // has |raw, ends in |sh
	option  bool   // has |option
}

func (r *reference) hasDefault() bool {
	return r.def != nil || slices.ContainsFunc(r.filters, func(f filter) bool { return f.name == "default" })
}

// head is what a reference looks up: the whole name, then shorter prefixes.
type head struct {
	name      string
	path      expr.Path
	env       string // NAME of env.NAME and env:NAME
	prefixes  []prefix
	sep       string   // between the elements of its list; "" for the usual
	modifiers []filter // of the older spelling
}

type prefix struct {
	name string
	rest expr.Path
}

// wordLists are the objects whose lists are written with blanks between, as
// the words of a command: the git context.
var wordLists = map[string]bool{"step": true, "workflow": true, "git": true}

func newHead(name string, p expr.Path) head {
	h := head{name: name, path: p}
	if len(p) == 2 && wordLists[p[0].Name] {
		h.sep = " "
	}
	for n := len(p) - 1; n > 0; n-- {
		h.prefixes = append(h.prefixes, prefix{p[:n].String(), p[n:]})
	}
	if rest, ok := strings.CutPrefix(name, "env:"); ok {
		h.env = rest
	} else if len(p) == 2 && p[0].Name == "env" {
		h.env = p[1].Name
	}
	return h
}

// lookup finds the value in s: the flat name, the longest prefix whose value
// can be walked, the environment.
func (h *head) lookup(s Scope) (v Value, ok bool, err error) {
	if v, ok = h.find(s); v.Kept {
		v.V, err = value.Read(v.V)
	} else if lost, is := v.V.(error); is {
		err = lost
	}
	return v, ok, err
}

func (h *head) find(s Scope) (Value, bool) {
	if v, ok := s.Lookup(h.name); ok {
		return v, true
	}
	for i := range h.prefixes {
		v, ok := s.Lookup(h.prefixes[i].name)
		if !ok {
			continue
		}
		if found, ok := expr.Walk(v.V, h.prefixes[i].rest); ok {
			return Value{V: found, Origin: v.Origin, Kept: v.Kept}, true
		}
	}
	if h.env != "" {
		return s.Env(h.env)
	}
	return Value{}, false
}

func isNameStart(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func isNameByte(c byte) bool  { return isNameStart(c) || c >= '0' && c <= '9' }

// nameEnd gives the end of the shell name at i, or i.
func nameEnd(s string, i int) int {
	if i < len(s) && !isNameStart(s[i]) {
		return i
	}
	for i < len(s) && isNameByte(s[i]) {
		i++
	}
	return i
}

func parse(src string, depth int) (*Text, error) {
	t := &Text{src: src}
	start := 0 // of the literal that is being gathered
	add := func(kind segKind, from, to int, r *reference) {
		if start < from {
			t.segs = append(t.segs, segment{kind: segLiteral, text: src[start:from], off: start})
		}
		t.segs = append(t.segs, segment{kind: kind, text: src[from:to], off: from, ref: r})
		start = to
	}
	for i := strings.IndexByte(src, '$'); i >= 0 && i < len(src); {
		next := i + 1
		name := nameEnd(src, next)
		switch {
		case escaped(src, start, i) && name > next:
			add(segEscapedName, i-1, name, newBare(src[i:name]))
		case escaped(src, start, i) && strings.HasPrefix(src[next:], "{"):
			add(segBackslash, i-1, next, nil)
		case escaped(src, start, i):
		case strings.HasPrefix(src[next:], "$"):
			next++
			kind, r := segDollars, (*reference)(nil)
			if strings.HasPrefix(src[next:], "{") {
				kind = segDollarsRef
			} else if end := nameEnd(src, next); end > next {
				kind, r = segDollarsName, newBare(src[next-1:end])
			}
			add(kind, i, next, r)
		case name > next:
			add(segRef, i, name, newBare(src[i:name]))
			next = name
		case strings.HasPrefix(src[next:], "{"):
			r, err := parseReference(src[i:], depth)
			if err != nil {
				return nil, at(err, i)
			}
			next++
			if r != nil {
				next = i + len(r.src)
				add(segRef, i, next, r)
			}
		}
		i = max(next, start)
		if n := strings.IndexByte(src[i:], '$'); n >= 0 {
			i += n
		} else {
			break
		}
	}
	if start < len(src) {
		t.segs = append(t.segs, segment{kind: segLiteral, text: src[start:], off: start})
	}
	for i := range t.segs {
		if t.segs[i].kind == segRef {
			t.refs++
		}
	}
	return t, nil
}

// escaped reports whether an odd number of backslashes is before i.
func escaped(s string, from, i int) bool {
	n := 0
	for j := i - 1; j >= from && s[j] == '\\'; j-- {
		n++
	}
	return n%2 == 1
}

func newBare(src string) *reference {
	name := src[1:]
	return &reference{src: src, bare: true, head: head{name: name, path: expr.Path{{Name: name}}}}
}

// providerRE is a name, a colon and a text: date:%Y, file:a/b.txt, and
// V:0:3, which no scope will know.
var providerRE = pattern.Lazy(`^[A-Za-z_][\w.\[\]-]*:[^-]`)

// parseReference reads the ${…} that src begins with. It gives nil for what
// cannot be a reference of ours; the shell's own forms are among these.
func parseReference(src string, depth int) (*reference, error) {
	end, sep, ok := bounds(src)
	if !ok {
		return nil, nil
	}
	body := src[2:end]
	r := &reference{src: src[:end+1]}
	if sep >= 0 {
		body = src[2:sep]
	}
	name, filters := cutFilters(body)
	name = strings.TrimSpace(name)
	p, err := expr.ParsePath(name)
	switch {
	case err == nil && p[0].Name != "":
		r.head = newHead(name, p)
	case providerRE().MatchString(name):
		r.head = newHead(name, nil)
		r.old = oldSpelling(name)
	default:
		return nil, nil
	}
	for _, f := range filters {
		r.addFilter(f, depth)
	}
	if sep < 0 {
		return r, nil
	}
	if depth == maxNesting {
		return nil, &expr.SyntaxError{Message: fmt.Sprintf("references are nested more than %d deep in defaults", maxNesting)}
	}
	r.defOff = sep + 2
	def, err := parse(src[r.defOff:end], depth+1)
	if err != nil {
		return nil, at(err, r.defOff)
	}
	r.def = def
	return r, nil
}

// bounds finds the } that closes the ${ at the start of src, and the first :-
// (-1 without one). ok is false where it is not closed, or where another $ or
// a quote is in its name, which ours never have.
func bounds(src string) (end, sep int, ok bool) {
	sep = -1
	inCommand := strings.HasPrefix(src, "${cmd:")
	for i, depth := 2, 0; i < len(src) && i < maxReference; i++ {
		inName := sep < 0 && depth == 0 && !inCommand
		switch c := src[i]; {
		case c == '\\' && sep >= 0:
			i++
		case c == '$' && i+1 < len(src) && src[i+1] == '{':
			if sep < 0 {
				if !strings.Contains(src[2:i], "|default:") {
					return 0, 0, false
				}
			}
			depth++
			i++
		case c == '}' && depth > 0:
			depth--
		case c == '}':
			return i, sep, true
		case inName && c == '[' && i+1 < len(src) && (src[i+1] == '"' || src[i+1] == '\''):
			n := strings.Index(src[i+2:], string(src[i+1])+"]")
			if n < 0 {
				return 0, 0, false
			}
			i += n + 3
		case inName && (c == '`' || c == '\n') && !strings.Contains(src[2:i], "|"):
			return 0, 0, false
		case inName && c == ':' && i+1 < len(src) && src[i+1] == '-':
			sep = i
		}
	}
	return 0, 0, false
}

// cutFilters splits name|filter|filter. In cmd: a | may belong to the command,
// so there only known filters at the end are taken.
func cutFilters(body string) (name string, filters []string) {
	if !strings.HasPrefix(body, "cmd:") {
		parts := splitFilters(body)
		return parts[0], parts[1:]
	}
	for {
		i := strings.LastIndexByte(body, '|')
		if i < 0 {
			return body, filters
		}
		name, _, _ := strings.Cut(body[i+1:], ":")
		if _, known := filterFuncs[name]; !known {
			return body, filters
		}
		filters = append([]string{body[i+1:]}, filters...)
		body = body[:i]
	}
}

// splitFilters splits at each | that is not inside a nested reference.
func splitFilters(body string) []string {
	var parts []string
	depth, start := 0, 0
	for i := 0; i < len(body); i++ {
		switch {
		case strings.HasPrefix(body[i:], "${"):
			depth++
		case body[i] == '}' && depth > 0:
			depth--
		case body[i] == '|' && depth == 0:
			parts, start = append(parts, body[start:i]), i+1
		}
	}
	return append(parts, body[start:])
}

// oldSpelling reads name:json, name:lines, name:csv and their kin, name:*.ext,
// and several of them after each other.
func oldSpelling(name string) *head {
	parts := strings.Split(name, ":")
	p, err := expr.ParsePath(parts[0])
	if err != nil {
		return nil
	}
	h := newHead(parts[0], p)
	for _, m := range parts[1:] {
		f, ok := oldModifier(m)
		if !ok {
			return nil
		}
		h.modifiers = append(h.modifiers, f)
	}
	return &h
}

// oldModifier is one :modifier. It is about names, which blanks part too.
func oldModifier(m string) (filter, bool) {
	f := filter{name: m}
	switch m {
	case "json":
		f.fn = func(r result, _ string) (result, error) {
			if r.v = r.list(); r.v.([]any) == nil {
				r.v = []any{}
			}
			return toJSON(r, "")
		}
	case "newline", "lines":
		f.fn = func(r result, _ string) (result, error) { return r.join("\n"), nil }
	case "comma", "csv":
		f.fn = joinedBy(",")
	default:
		if _, err := files.Match(m, ""); err != nil || !strings.ContainsAny(m, "*?[") {
			return f, false
		}
		f = filter{name: "glob", arg: m, fn: glob}
	}
	return f, true
}

func (r *reference) addFilter(src string, depth int) {
	name, arg, _ := strings.Cut(src, ":")
	f := filter{name: strings.TrimSpace(name), arg: arg}
	fn, known := filterFuncs[f.name]
	f.fn = fn
	switch {
	case !known:
		if r.problem == "" {
			r.problem = fmt.Sprintf("there is no filter %q", f.name)
			r.unknown = f.name
		}
		return
	case f.name == "default":
		def, err := parse(unquote(arg), min(depth+1, maxNesting))
		if err != nil && r.problem == "" {
			r.problem = err.Error()
		}
		f.def = def
	case f.name == "raw":
		r.raw = true
	case f.name == "option":
		r.option = true
		return
	}
	r.filters = append(r.filters, f)
	r.sh = f.name == "sh"
}

// unquote takes the quotes off an argument that is written in quotes.
func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}
