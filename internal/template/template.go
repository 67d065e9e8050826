// Package template puts values into texts and knows where each value came
// from, so that data never becomes code.
//
// A reference is one of
//
//	${path}              item.name  results[0].output  files[*].size  a["b c"]
//	${name:-default}     the variable, else the environment's, else the default, which may hold references
//	${path|filter|…}     see filterFuncs
//	${path:json}         :json :newline :comma :*.rs, the older spelling of some filters
//	${date:%Y-%m-%d}     a provider: what is before a colon and its text, as the Scope knows it
//	$NAME                for names that the Scope knows, and no others
//
// As in the shell, a default stands in for a value that is missing, null or
// empty; its text stands as written, quotes included. $$ gives $, and \${ gives ${. Whatever is not known is left exactly as
// it is written: $1, ${V%.*}, ${#x}, $(…), and ${foo.bar} where there is no foo.
//
// Values read as value.Text writes them: strings as they are, numbers as
// written, null as nothing, lists of scalars joined with ", ", anything else as
// compact JSON (its own text where that is known).
//
// # Shell texts
//
// Text.Shell pastes Trusted values into the script, and hands others over
// in environment variables; the script gets an expansion of them that is right
// for the place. No word of data is an option: see option.go. The rules stand
// at the head of shell.go.
package template

import (
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
)

// Origin says whether a value may be pasted into code.
type Origin uint8

const (
	Trusted Origin = iota // the workflow's own text, env, parameters, arguments
	Quoted                // as Trusted; but it would be other code where it is pasted, and is handed over
	Data                  // items, outputs, captures, file names, answers: anything from outside
)

// Value is a value (of package value) with its origin.
type Value struct {
	V      any
	Origin Origin
	Raw    string // V's own JSON text where known; how an object or array reads in a text
	Kept   bool   // V is, or has in it, a [value.Kept], which is read before the value is used
}

// Scope finds values. A Scope must be safe for the concurrency its Text is used with.
type Scope interface {
	// Lookup is asked for the whole name first ("shell.output", "a.b[0]",
	// "date:%Y"), then for ever shorter prefixes of a path, whose value is walked
	// into. It must not answer for the process's environment.
	Lookup(name string) (Value, bool)
	// Env answers env.NAME, env:NAME, and the NAME of ${NAME:-default} where
	// Lookup does not know it.
	Env(name string) (Value, bool)
}

// Filer is what a Scope may also be: for a value too large for an environment
// variable it names the reference to a file that holds it, such as
// "map.results_file" for "map.results". It serves error messages.
type Filer interface {
	FileFor(name string) (reference string, ok bool)
}

// Ref is one reference in a text.
type Ref struct {
	Name    string    // what is looked up: the text without filters and default
	Path    expr.Path // Name as a path; nil where it is none (date:%Y)
	Offset  int       // of its $, in bytes
	Default bool      // it has a default, so that it may be unknown
	Bare    bool      // written $NAME: it may well be the shell's own
	Raw     bool      // |raw: the author takes its value for his own word
	Problem string    // what is wrong with its filters, if anything is
}

// Text is a parsed text. It is safe for concurrent use.
type Text struct {
	src   string
	segs  []segment
	refs  int                       // references among segs
	place func(offset int) diag.Pos // nil where nobody knows

	shell shellCache
}

// segment is a stretch of a text: a literal, an escape or a reference.
type segment struct {
	kind segKind
	text string // as written
	off  int
	ref  *reference // for segRef and segEscapedName
}

type segKind uint8

const (
	segLiteral     segKind = iota
	segRef                 // ${…} or $NAME
	segDollars             // $$ before anything but { or a name
	segDollarsRef          // $$ before {
	segDollarsName         // $$ before a name, which ref looks up
	segBackslash           // \$ before {
	segEscapedName         // \$ before a name, which ref looks up
)

// Parse reads a text. References nested more than 32 deep in defaults are the
// one error, an *expr.SyntaxError.
func Parse(src string) (*Text, error) { return parse(src, 0) }

// Locate says where the text is, so that its errors name their place. It is called
// before the text is used; place is called by many goroutines at once.
func (t *Text) Locate(place func(offset int) diag.Pos) { t.place = place }

// Place is where an offset of the text stands; zero where nobody knows.
func (t *Text) Place(offset int) diag.Pos {
	if t.place == nil {
		return diag.Pos{}
	}
	return t.place(offset)
}

// located is an error of the text with its place.
func (t *Text) located(err error) error {
	if e, ok := err.(*expr.SyntaxError); ok && e.At == "" {
		e.At = t.Place(e.Offset).String()
	}
	return err
}

// String is the source.
func (t *Text) String() string { return t.src }

// IsLiteral says that the text stands for itself: it has no references or escapes.
func (t *Text) IsLiteral() bool {
	for i := range t.segs {
		if t.segs[i].kind != segLiteral {
			return false
		}
	}
	return true
}

// Refs lists the references in order; those inside a default follow theirs.
func (t *Text) Refs() []Ref { return t.appendRefs(nil, 0) }

func (t *Text) appendRefs(refs []Ref, base int) []Ref {
	for i := range t.segs {
		s := &t.segs[i]
		if s.kind != segRef {
			continue
		}
		r := s.ref
		refs = append(refs, s.asRef(base))
		if r.def != nil {
			refs = r.def.appendRefs(refs, base+s.off+r.defOff)
		}
	}
	return refs
}

// asRef is the reference of a segment of a text that is at base.
func (s *segment) asRef(base int) Ref {
	r := s.ref
	return Ref{Name: r.head.name, Path: r.head.path, Offset: base + s.off,
		Default: r.hasDefault(), Bare: r.bare, Raw: r.raw, Problem: r.problem}
}

// Expand gives the text with its values, for prompts, paths and bodies. The
// error is an *expr.SyntaxError at the reference whose filter cannot do its work.
func (t *Text) Expand(s Scope) (string, error) {
	text, _, err := t.ExpandOrigin(s)
	return text, err
}

// ExpandOrigin is Expand; the origin is Data where data took part.
func (t *Text) ExpandOrigin(s Scope) (string, Origin, error) { return t.expand(s, nil) }

// ExpandPlaced is Expand for a text in another language, such as a URL. For each value that is
// data, put gets the text before it, as filled in so far, and gives what is written.
func (t *Text) ExpandPlaced(s Scope, put func(before, data string) (string, error)) (string, error) {
	text, _, err := t.expand(s, put)
	return text, err
}

// Outline is the text with something in the place of each reference.
func (t *Text) Outline(something string) string {
	var b strings.Builder
	for i := range t.segs {
		if t.segs[i].kind == segRef {
			b.WriteString(something)
		} else {
			b.WriteString(t.segs[i].text)
		}
	}
	return b.String()
}

func (t *Text) expand(s Scope, put func(before, data string) (string, error)) (string, Origin, error) {
	if len(t.segs) == 0 {
		return "", Trusted, nil
	}
	if len(t.segs) == 1 && t.segs[0].kind == segLiteral {
		return t.src, Trusted, nil
	}
	var b strings.Builder
	origin := Trusted
	for i := range t.segs {
		seg := &t.segs[i]
		switch seg.kind {
		case segDollars, segDollarsRef, segDollarsName:
			b.WriteByte('$')
		case segBackslash:
			b.WriteByte('$')
		case segEscapedName:
			if _, ok := s.Lookup(seg.ref.head.name); ok {
				b.WriteString(seg.text[1:])
			} else {
				b.WriteString(seg.text)
			}
		case segRef:
			v, known, err := seg.ref.resolve(s)
			if err != nil {
				return "", origin, t.located(at(err, seg.off))
			}
			if !known {
				b.WriteString(seg.text)
				continue
			}
			origin = max(origin, v.origin)
			text := v.text()
			if put != nil && v.origin == Data {
				if text, err = put(b.String(), text); err != nil {
					return "", origin, t.located(at(err, seg.off))
				}
			}
			b.WriteString(text)
		default:
			b.WriteString(seg.text)
		}
	}
	return b.String(), origin, nil
}

// IsReference reports whether the text is exactly one reference.
func (t *Text) IsReference() bool { return len(t.segs) == 1 && t.segs[0].kind == segRef }

// Value gives the typed value where the text is exactly one reference that s
// knows and whose filters succeed.
func (t *Text) Value(s Scope) (Value, bool) {
	v, ok, err := t.Find(s)
	return v, ok && err == nil
}

// Find is Value that tells why there is none.
func (t *Text) Find(s Scope) (Value, bool, error) {
	if !t.IsReference() {
		return Value{}, false, nil
	}
	v, known, err := t.segs[0].ref.resolve(s)
	if err != nil || !known {
		return Value{}, false, err
	}
	return Value{V: v.v, Origin: v.origin, Raw: v.raw}, true, nil
}

// Resolver lets an expression read the values of a scope as a template does:
// flat names first, then the longest prefix, then env.NAME.
func Resolver(s Scope) expr.Resolver {
	return expr.ResolverFunc(func(p expr.Path) (any, bool) {
		h := newHead(p.String(), p)
		v, ok, err := h.lookup(s)
		if err != nil {
			return err, true // which is the error of the expression
		}
		return v.V, ok
	})
}

// at puts an error of a reference at its place in the text.
func at(err error, off int) error {
	if e, ok := err.(*expr.SyntaxError); ok {
		e.Offset += off
		return e
	}
	return &expr.SyntaxError{Offset: off, Message: err.Error()}
}
