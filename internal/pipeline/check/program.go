// Package check gives a parsed pipeline its meaning: it resolves names, finds
// the type of every expression, validates options, and reports everything that
// is wrong, with places and suggestions, at once.
//
// What it returns is a typed [Program] in which sugar, operators, namespaces
// and named policies are gone: package plan makes a graph of it.
package check

import (
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// Program is a checked pipeline. It is not changed after Check returns.
type Program struct {
	File    *syntax.File
	Inputs  []*Var   // in declared order
	Assigns []*Var   // in source order; every one is computed, unless it is lazy
	Outputs []Output // in declared order
	Types   map[string]*types.Type

	unsupported diag.List
}

// Unsupported lists what was accepted for compatibility but cannot be run.
// Without [Env.Compat] it is empty: those are errors then.
func (p *Program) Unsupported() diag.List { return p.unsupported }

// Output is one named result.
type Output struct {
	Name  string
	Value Expr
	Span  syntax.Span
}

// VarKind says where a variable has its value from.
type VarKind uint8

// The kinds of variables.
const (
	LetVar   VarKind = iota // Value
	InputVar                // whoever starts the run, or else Value if it is not nil
	ParamVar                // the caller of the lambda
	ErrorVar                // the failure that a fallback answers
)

// Var is a variable. Two variables of one name are two Vars.
type Var struct {
	Name     string
	Kind     VarKind
	Type     *types.Type
	Value    Expr
	Lazy     bool // not computed unless something needs it
	Examples []any
	Span     syntax.Span // of the name
}

// Expr is a typed expression: *Const, *Ref, *Pure, *Select, *Let, *Call,
// *Apply or *Lambda.
type Expr interface {
	Type() *types.Type
	Extent() syntax.Span
}

// base is what all expressions have.
type base struct {
	typ  *types.Type
	span syntax.Span
}

// Type is the type of the expression's value.
func (b base) Type() *types.Type { return b.typ }

// Extent is the place in the source.
func (b base) Extent() syntax.Span { return b.span }

type (
	// Const is a value known now.
	Const struct {
		base
		Value any
	}

	// Ref is the value of a variable.
	Ref struct {
		base
		Var *Var
	}

	// Pure is a computation without effects over values that are all needed.
	Pure struct {
		base
		// Op tells it apart from others: two with equal Op compute the same.
		Op   string
		Args []Expr
		Eval func(args []any) (any, error)
	}

	// Select is the value of the first arm whose test holds. Tests are
	// evaluated in order, as far as needed, and of the values only that one.
	Select struct {
		base
		Op   string // if, branch, match, when, ??, and, or
		Arms []Arm
	}

	// Arm is one arm of a Select.
	Arm struct {
		Test  Expr // nil: always
		Value Expr
	}

	// Let makes a variable that Body may refer to more than once.
	Let struct {
		base
		Var  *Var
		Body Expr
	}

	// Call is one call of a module.
	Call struct {
		base
		Module  module.Module
		Args    []Expr
		Options *Options // nil without options
	}

	// Apply applies a function to each element of a list.
	Apply struct {
		base
		Func    *stdlib.Func
		Items   Expr
		Fn      *Lambda
		Options *Options // nil without options
	}

	// Lambda is a function; it stands only in an Apply.
	Lambda struct {
		base
		Params []*Var
		Body   Expr
	}
)
