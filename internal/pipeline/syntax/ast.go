package syntax

import (
	"slices"
	"time"
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
}

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
	OwnLine bool // nothing but blanks stands before it on its line
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
	// form; Name and Value are how it is written.
	OutDecl struct {
		Span
		Annotations []*Annotation
		Name        *Ident // of "out name = expr", else nil
		Value       Expr
		Outputs     []Output // one or more, unless there was an error
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
// @sink("connector", key: expr, …). @example and @source stand before (or at
// the end of the line of) an input, @sink before an output.
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

// Expr is an expression: *Name, *IntLit, *FloatLit, *BoolLit, *StringLit,
// *Interpolation, *ListLit, *RecordLit, *ParenExpr, *FieldExpr,
// *ProjectExpr, *UnaryExpr, *BinaryExpr, *WhenExpr, *IfExpr, *BranchExpr,
// *MatchExpr, *LambdaExpr, *CallExpr or *BadExpr.
type Expr interface {
	Node
	exprNode()
}

// Op is an operator.
type Op uint8

// The operators, from the loosest binding to the tightest. "not" stands
// between And and the comparisons, Neg above Div.
const (
	BadOp    Op = iota
	Coalesce    // ??, groups to the right
	Or
	And
	Not // unary
	Eq  // comparisons do not chain
	Ne
	Lt
	Le
	Gt
	Ge
	Add
	Sub
	Mul
	Div
	Neg // unary -
)

var opText = [...]string{BadOp: "?", Coalesce: "??", Or: "or", And: "and", Not: "not", Eq: "==", Ne: "!=", Lt: "<", Le: "<=",
	Gt: ">", Ge: ">=", Add: "+", Sub: "-", Mul: "*", Div: "/", Neg: "-"}

func (o Op) String() string {
	if int(o) < len(opText) {
		return opText[o]
	}
	return opText[BadOp]
}

// CallForm says how a call is written; it has no meaning for the result.
type CallForm uint8

// The forms of a call.
const (
	PlainCall  CallForm = iota // f(a, b)
	MethodCall                 // a.f(b), where a is not just a dotted name
	PipeCall                   // a | f(b)
)

type (
	// Name is the use of a variable.
	Name struct {
		Span
		Name string
	}

	// IntLit is a 64-bit integer, sign included.
	IntLit struct {
		Span
		Value int64
	}

	// FloatLit is a number with a fraction or an exponent, sign included.
	FloatLit struct {
		Span
		Value float64
		Text  string // as written
	}

	// BoolLit is true or false.
	BoolLit struct {
		Span
		Value bool
	}

	// StringLit is a string without interpolation; Value has the escapes
	// resolved.
	StringLit struct {
		Span
		Value string
	}

	// Interpolation is a string with at least one "${expr}".
	Interpolation struct {
		Span
		Parts []StringPart
	}

	// StringPart is a piece of an Interpolation: text if X is nil, else an
	// expression. Its span leaves out quotes, "${" and "}".
	StringPart struct {
		Span
		Text string // escapes resolved
		X    Expr
	}

	// ListLit is "[a, b]".
	ListLit struct {
		Span
		Elems []Expr
	}

	// RecordLit is "{a: x, b}".
	RecordLit struct {
		Span
		Fields []RecordField
	}

	// RecordField is one field of a RecordLit, or an argument of an
	// annotation. For the shorthand "{a}" Value is the *Name a.
	RecordField struct {
		Name      Ident
		Value     Expr
		Shorthand bool
	}

	// ParenExpr is "(x)"; kept so that the formatter gives back what the
	// author grouped. See [Unparen].
	ParenExpr struct {
		Span
		X Expr
	}

	// FieldExpr is "x.f". The field may be a reserved word.
	FieldExpr struct {
		Span
		X     Expr
		Field Ident
	}

	// ProjectExpr is "x[a, b]" or, the same, "x{a, b}".
	ProjectExpr struct {
		Span
		X      Expr
		Fields []Ident
		Braces bool
	}

	// UnaryExpr is "not x" or "-x".
	UnaryExpr struct {
		Span
		Op Op // Not or Neg
		X  Expr
	}

	// BinaryExpr is "x op y".
	BinaryExpr struct {
		Span
		Op     Op
		OpSpan Span
		X, Y   Expr
	}

	// WhenExpr is the guard "x when cond": x if cond holds, else none.
	// "when cond then x" without else is read as the same.
	WhenExpr struct {
		Span
		X, Cond Expr
	}

	// IfExpr is "if (cond) a else b"; "if cond then a else b" and
	// "when cond then a else b" are read as the same.
	IfExpr struct {
		Span
		Cond, Then, Else Expr
	}

	// BranchExpr is "branch { cond -> x, …, otherwise -> z }".
	BranchExpr struct {
		Span
		Cases     []BranchCase
		Otherwise Expr // nil only after an error
	}

	// BranchCase is one "cond -> value".
	BranchCase struct{ Cond, Value Expr }

	// MatchExpr is "match x { pattern -> value, … }".
	MatchExpr struct {
		Span
		X     Expr
		Cases []MatchCase
	}

	// MatchCase is one "pattern -> value".
	MatchCase struct {
		Pattern Pattern
		Value   Expr
	}

	// LambdaExpr is "(a, b: T) => body"; "a => body" is read as the same.
	LambdaExpr struct {
		Span
		Params []Param
		Body   Expr
	}

	// Param is a parameter of a lambda.
	Param struct {
		Name Ident
		Type TypeExpr // nil if not annotated
	}

	// CallExpr is "f(args) with options". The receiver of a method or pipe
	// call is Args[0], so a reader may ignore Form.
	//
	// "a.f(b)" is a PlainCall of the qualified name a.f, for the parser does
	// not know whether a is a namespace or a variable; see [CallExpr.AsMethod].
	CallExpr struct {
		Span
		Func QName
		Args []Expr
		Form CallForm
		With *WithClause // nil without options

		argsEnd int32 // the offset after the closing parenthesis
	}

	// BadExpr stands for source that is no expression; the error has been
	// reported.
	BadExpr struct{ Span }
)

func (*Name) exprNode()          {}
func (*IntLit) exprNode()        {}
func (*FloatLit) exprNode()      {}
func (*BoolLit) exprNode()       {}
func (*StringLit) exprNode()     {}
func (*Interpolation) exprNode() {}
func (*ListLit) exprNode()       {}
func (*RecordLit) exprNode()     {}
func (*ParenExpr) exprNode()     {}
func (*FieldExpr) exprNode()     {}
func (*ProjectExpr) exprNode()   {}
func (*UnaryExpr) exprNode()     {}
func (*BinaryExpr) exprNode()    {}
func (*WhenExpr) exprNode()      {}
func (*IfExpr) exprNode()        {}
func (*BranchExpr) exprNode()    {}
func (*MatchExpr) exprNode()     {}
func (*LambdaExpr) exprNode()    {}
func (*CallExpr) exprNode()      {}
func (*BadExpr) exprNode()       {}

// Unparen takes off all parentheses around an expression.
func Unparen(e Expr) Expr {
	for {
		p, ok := e.(*ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}

// AsMethod reads a plain call of a qualified name "a.b.f(x)" as the method
// call "f(a.b, x)": a copy of the call whose function is the last part and
// whose first argument is the rest as a variable with fields. The caller
// uses it when the first part of the name is a variable in scope. It returns
// false for any other call.
func (c *CallExpr) AsMethod() (*CallExpr, bool) {
	n := len(c.Func.Parts)
	if c.Form != PlainCall || n < 2 {
		return nil, false
	}
	first := c.Func.Parts[0]
	var recv Expr = &Name{Span: first.Span, Name: first.Name}
	for _, p := range c.Func.Parts[1 : n-1] {
		recv = &FieldExpr{Span: Span{first.Start, p.End}, X: recv, Field: p}
	}
	last := c.Func.Last()
	m := *c
	m.Func = QName{Span: last.Span, Parts: []Ident{last}}
	m.Args = append([]Expr{recv}, c.Args...)
	m.Form = MethodCall
	return &m, true
}

// Pattern is the left side of a match case: *RecordPattern,
// *WildcardPattern, *TypePattern or *BadPattern.
type Pattern interface {
	Node
	patternNode()
}

type (
	// RecordPattern is "{a, b}": it matches a record with these fields and
	// binds them.
	RecordPattern struct {
		Span
		Fields []Ident
	}

	// WildcardPattern is "_".
	WildcardPattern struct{ Span }

	// TypePattern is "is Name".
	TypePattern struct {
		Span
		Type Ident
	}

	// BadPattern stands for source that is no pattern; the error has been
	// reported.
	BadPattern struct{ Span }
)

func (*RecordPattern) patternNode()   {}
func (*WildcardPattern) patternNode() {}
func (*TypePattern) patternNode()     {}
func (*BadPattern) patternNode()      {}

// WithClause is "with option, option, …". Call forms such as
// "with retry(3, 1s)" have been turned into options. No option occurs twice
// (the second is an error and is left out).
type WithClause struct {
	Span
	Options []*Option
	Braces  bool // written "with { … }"
}

// Get returns the option of that kind, or nil. A nil clause has none.
func (w *WithClause) Get(k OptionKind) *Option {
	if w == nil {
		return nil
	}
	for _, o := range w.Options {
		if o.Kind == k {
			return o
		}
	}
	return nil
}

// OptionKind says which option it is.
type OptionKind uint8

// The options. Beside each stands the type of its value.
const (
	BadOption       OptionKind = iota
	OptRetry                   // IntValue, not negative
	OptDelay                   // DurationValue
	OptBackoff                 // WordValue: fixed, linear, exponential, fibonacci
	OptMaxDelay                // DurationValue
	OptJitter                  // WordValue: none, factor, full, equal, decorrelated
	OptRetryOn                 // MatchersValue
	OptAbortOn                 // MatchersValue
	OptBudget                  // DurationValue
	OptDeadline                // DurationValue
	OptBreaker                 // RateValue: opens after Count failures, for Per
	OptTimeout                 // DurationValue
	OptFallback                // ExprValue
	OptOnError                 // WordValue: propagate, skip, log, wrap
	OptCache                   // DurationValue
	OptCacheBackend            // StringValue
	OptThrottle                // RateValue
	OptConcurrency             // IntValue, not negative
	OptPriority                // IntValue, or WordValue: critical, high, normal, low, background
	OptLazy                    // BoolValue
	OptBatch                   // IntValue, not negative
	OptBatchTimeout            // DurationValue
	OptWindow                  // WindowValue
	OptCheckpoint              // DurationValue
	OptJoin                    // JoinValue
	OptPolicy                  // WordValue: the name of a policy declaration
)

var optionNames = [...]string{BadOption: "?", OptRetry: "retry", OptDelay: "delay", OptBackoff: "backoff", OptMaxDelay: "max_delay", OptJitter: "jitter",
	OptRetryOn: "retry_on", OptAbortOn: "abort_on", OptBudget: "budget", OptDeadline: "deadline", OptBreaker: "breaker",
	OptTimeout: "timeout", OptFallback: "fallback", OptOnError: "on_error", OptCache: "cache", OptCacheBackend: "cache_backend",
	OptThrottle: "throttle", OptConcurrency: "concurrency", OptPriority: "priority", OptLazy: "lazy", OptBatch: "batch",
	OptBatchTimeout: "batch_timeout", OptWindow: "window", OptCheckpoint: "checkpoint", OptJoin: "join", OptPolicy: "policy"}

// String is the option's name as written in a source.
func (k OptionKind) String() string {
	if int(k) < len(optionNames) {
		return optionNames[k]
	}
	return optionNames[BadOption]
}

// OptionNames lists the names of all options, in the order of their kinds.
func OptionNames() []string { return slices.Clone(optionNames[1:]) }

// OptionByName finds an option's kind; BadOption if there is none.
func OptionByName(name string) OptionKind {
	for k := OptRetry; int(k) < len(optionNames); k++ {
		if optionNames[k] == name {
			return k
		}
	}
	return BadOption
}

// Option is one "name: value" of a with clause or policy.
type Option struct {
	Span
	Kind  OptionKind
	Name  Ident
	Value OptionValue // never nil; *BadValue after an error
}

// OptionValue is *IntValue, *DurationValue, *RateValue, *WordValue,
// *BoolValue, *StringValue, *MatchersValue, *WindowValue, *JoinValue,
// *ExprValue or *BadValue.
type OptionValue interface {
	Node
	optionValue()
}

type (
	// IntValue is an integer; negative only for priority.
	IntValue struct {
		Span
		Value int64
	}

	// DurationValue is a number with one of the units ms, s, min, h, d.
	// Zero is possible; the checker refuses it.
	DurationValue struct {
		Span
		Value time.Duration
		Text  string // as written: "90s"
	}

	// RateValue is "count/duration".
	RateValue struct {
		Span
		Count int64 // not negative
		Per   DurationValue
	}

	// WordValue is a bare word.
	WordValue struct {
		Span
		Word string
	}

	// BoolValue is true or false; a bare "lazy" is true.
	BoolValue struct {
		Span
		Value bool
	}

	// StringValue is a quoted string.
	StringValue struct {
		Span
		Value string
	}

	// MatchersValue is "[network, exit_code(75), pattern("…")]", or one of
	// these without brackets.
	MatchersValue struct {
		Span
		Matchers []Matcher
	}

	// Matcher is one of network, timeout, server_error, rate_limit,
	// circuit_open, exit_code(75, 111) and pattern("RE").
	Matcher struct {
		Span
		Name    Ident
		Codes   []int64 // of exit_code; at least one
		Pattern string  // of pattern; not yet compiled
	}

	// WindowValue is tumbling(size), sliding(size, slide) or count(n).
	WindowValue struct {
		Span
		Shape string // "tumbling", "sliding", "count"
		Size  DurationValue
		Slide DurationValue
		Count int64
	}

	// JoinValue is combine_latest, zip or buffer(size).
	JoinValue struct {
		Span
		Shape string // "combine_latest", "zip", "buffer"
		Size  DurationValue
	}

	// ExprValue is any expression.
	ExprValue struct {
		Span
		X Expr
	}

	// BadValue stands for a value that was not understood; the error has
	// been reported.
	BadValue struct{ Span }
)

func (*IntValue) optionValue()      {}
func (*DurationValue) optionValue() {}
func (*RateValue) optionValue()     {}
func (*WordValue) optionValue()     {}
func (*BoolValue) optionValue()     {}
func (*StringValue) optionValue()   {}
func (*MatchersValue) optionValue() {}
func (*WindowValue) optionValue()   {}
func (*JoinValue) optionValue()     {}
func (*ExprValue) optionValue()     {}
func (*BadValue) optionValue()      {}
