package syntax

import (
	"slices"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
)

// Span is a piece of the source: the bytes from Start up to, not including,
// End. [File.Pos] turns an offset into line and column.
type Span struct{ Start, End int32 }

// Extent returns the span; every node has it through embedding.
func (s Span) Extent() Span { return s }

// Node is anything in the tree that has a place in the source.
type Node interface{ Extent() Span }

// File is one parsed source. It is never changed after Parse returns, so any
// number of goroutines may read it.
type File struct {
	Name     string // as given to Parse; used in positions
	Src      []byte // the source itself; not to be changed
	Decls    []Decl // in source order; a declaration that was not understood is a *BadDecl
	Comments []Comment

	lines  []int32 // the offset of the first byte of each line
	faulty bool    // Parse reported an error
	wrong  []int32 // where it did, in order
	lost   []Span  // what was passed over because of that
}

// Faulty reports whether Parse found an error.
func (f *File) Faulty() bool { return f.faulty }

// WrongIn reports whether Parse found an error in a span: what is missing or
// strange there may be so because of it.
func (f *File) WrongIn(s Span) bool {
	i, _ := slices.BinarySearch(f.wrong, s.Start)
	return i < len(f.wrong) && f.wrong[i] <= s.End
}

// Lost lists what Parse passed over because of errors: no declaration stands
// for it.
func (f *File) Lost() []Span { return f.lost }

// Extent is the whole source.
func (f *File) Extent() Span { return Span{0, int32(len(f.Src))} }

// Pos gives line and column (in characters) of a byte offset. An offset
// outside the source gives the nearest place inside it.
func (f *File) Pos(offset int32) diag.Pos {
	offset = max(0, min(offset, int32(len(f.Src))))
	line, found := slices.BinarySearch(f.lines, offset)
	if !found {
		line--
	}
	column := utf8.RuneCount(f.Src[f.lines[line]:offset]) + 1
	return diag.Pos{File: f.Name, Line: line + 1, Column: column}
}

// Span gives the position of a span's start and, if it ends on the same
// line, the column after its last character, else 0: what a [diag.Problem]
// wants.
func (f *File) Span(s Span) (pos diag.Pos, endColumn int) {
	pos = f.Pos(s.Start)
	if end := f.Pos(s.End); end.Line == pos.Line && end.Column > pos.Column {
		endColumn = end.Column
	}
	return pos, endColumn
}

// Text is the source of a span.
func (f *File) Text(s Span) string { return string(f.Src[s.Start:s.End]) }

// Comment is "# …" up to the end of its line. Text has the # and no trailing
// blanks.
type Comment struct {
	Span
	Text    string
	OwnLine bool // nothing but blanks is before it on its line
}

// Ident is a name as it is written. A name that the parser had to make up
// while recovering from an error is empty.
type Ident struct {
	Span
	Name string
}

// QName is a dotted name: "stdlib.math.add" has three parts.
type QName struct {
	Span
	Parts []Ident // at least one
}

// String joins the parts with dots.
func (q QName) String() string {
	if len(q.Parts) == 1 {
		return q.Parts[0].Name
	}
	n := 0
	for _, p := range q.Parts {
		n += len(p.Name) + 1
	}
	b := make([]byte, 0, n)
	for i, p := range q.Parts {
		if i > 0 {
			b = append(b, '.')
		}
		b = append(b, p.Name...)
	}
	return string(b)
}

// Last is the last part.
func (q QName) Last() Ident { return q.Parts[len(q.Parts)-1] }

// Decl is a declaration: *TypeDecl, *InDecl, *OutDecl, *UseDecl,
// *AssignDecl, *PolicyDecl or *BadDecl.
type Decl interface {
	Node
	declNode()
}

type (
	// TypeDecl is "type Name = Type".
	TypeDecl struct {
		Span
		Name Ident
		Type TypeExpr
	}

	// InDecl is "in name: Type", optionally "= default", with its
	// @example and @source annotations.
	InDecl struct {
		Span
		Annotations []*Annotation
		Name        Ident
		Type        TypeExpr
		Default     Expr // nil without a default
	}

	// OutDecl is "out name", "out name = expr", "out r.f", "out r{a, b}"
	// or "out {a, b: expr}". Outputs says what it declares, whatever the
	// form; Name and Value are how it is written. Any other "out expr" is
	// Unnamed: its output is called "result", see [UnnamedOutput].
	OutDecl struct {
		Span
		Annotations []*Annotation
		Name        *Ident // of "out name = expr", else nil
		Value       Expr
		Outputs     []Output // one or more, unless there was an error
		Unnamed     bool
	}

	// UseDecl is "use ns.name", optionally "as alias".
	UseDecl struct {
		Span
		Path  QName
		Alias *Ident // nil without "as"
	}

	// AssignDecl is "name = expr".
	AssignDecl struct {
		Span
		Name  Ident
		Value Expr
	}

	// PolicyDecl is "policy name = option, option, …".
	PolicyDecl struct {
		Span
		Name    Ident
		Options []*Option
	}

	// BadDecl stands for source that is no declaration; the error has been
	// reported.
	BadDecl struct{ Span }
)

func (*TypeDecl) declNode()   {}
func (*InDecl) declNode()     {}
func (*OutDecl) declNode()    {}
func (*UseDecl) declNode()    {}
func (*AssignDecl) declNode() {}
func (*PolicyDecl) declNode() {}
func (*BadDecl) declNode()    {}

// UnnamedOutput is the name of an output that is written without one and has
// none to take over, as "out f(x)". A pipeline has at most one such output.
const UnnamedOutput = "result"

// Output is one named output of a pipeline. The outputs of "out r{a, b}" are
// a = r.a and b = r.b; there r is a name or a path of fields, never a call,
// so that evaluating it for each output costs nothing.
type Output struct {
	Name  Ident
	Value Expr
}

// AnnotationKind says which annotation it is.
type AnnotationKind uint8

// The annotations. The zero value is an unknown one (an error was reported).
const (
	BadAnnotation AnnotationKind = iota
	Example
	Source
	Sink
)

// Annotation is @example(expr), @source("connector", key: expr, …) or
// @sink("connector", key: expr, …); a connector that is a name may stand
// without quotes. @example and @source are before (or at the end of the
// line of) an input, @sink before an output.
type Annotation struct {
	Span
	Kind      AnnotationKind
	Name      Ident // the word after @
	Value     Expr  // of @example, else nil
	Connector string
	Args      []RecordField // of @source and @sink
}

// TypeExpr is a type as written: *NamedType, *GenericType, *RecordType,
// *UnionType, *MergeType or *BadType.
type TypeExpr interface {
	Node
	typeNode()
}

type (
	// NamedType is a name: "String", or one declared with "type".
	NamedType struct {
		Span
		Name string
	}

	// GenericType is "Name<T, …>"; "Name[T, …]" is read as the same.
	GenericType struct {
		Span
		Name Ident
		Args []TypeExpr
	}

	// RecordType is "{a: T, b: U}". Field names may be reserved words.
	RecordType struct {
		Span
		Fields []TypeField
	}

	// TypeField is one field of a RecordType.
	TypeField struct {
		Name Ident
		Type TypeExpr
	}

	// UnionType is "A | B | C", in the order written; two members or more.
	UnionType struct {
		Span
		Members []TypeExpr
	}

	// MergeType is "A + B", which groups to the left and binds tighter
	// than "|".
	MergeType struct {
		Span
		X, Y TypeExpr
	}

	// BadType stands for source that is no type; the error has been reported.
	BadType struct{ Span }
)

func (*NamedType) typeNode()   {}
func (*GenericType) typeNode() {}
func (*RecordType) typeNode()  {}
func (*UnionType) typeNode()   {}
func (*MergeType) typeNode()   {}
func (*BadType) typeNode()     {}
