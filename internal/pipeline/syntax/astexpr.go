package syntax

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

		word int32 // where "otherwise" stands
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
