// Package plan turns a checked pipeline into a graph that an engine runs:
// numbered nodes with the numbers of their inputs, no names, no types to
// resolve, every option turned into numbers.
//
// # How a plan is run
//
// A [Func] is a set of nodes: Funcs[0] is the pipeline, the others are the
// lambdas in it. Running one takes a slot for the value of each node. A node
// may start when all nodes of its In have values. What has to be computed in
// any case is listed in Eager; every other node is computed when something
// that runs asks for it, and never twice:
//
//   - a [Select] asks for its tests in order and for the value of one arm
//   - a [Call] asks for its Fallback after its last failure
//   - an [Input] asks for its Default if nobody gave a value
//   - an [Outer] asks the function around it for the value of a node there
//   - an [Apply] runs its function once for each element of a list, each time
//     with slots of its own
//
// A node that fails fails the ones that have it in their In; a Select, the one
// that asked.
package plan

import (
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// Plan is a pipeline ready to be run. It is never changed, so one Plan serves
// any number of runs at once.
type Plan struct {
	Funcs   []Func // the pipeline and its lambdas; a function is after those around it
	Inputs  []Param
	Outputs []Output

	file *syntax.File
	hash func() string // made when it is first asked for
}

// Hash names the content: the same for the same graph, literals, options
// and module versions, whatever the layout, comments and names of
// variables. Plans of one Hash have the same nodes under the same numbers,
// so a journal may name a call by its function and node.
func (p *Plan) Hash() string { return p.hash() }

// Param is an input of the pipeline.
type Param struct {
	Name     string
	Type     *types.Type
	Node     int32 // in Funcs[0]
	Required bool  // there is no default
	Examples []any // from @example annotations that are literals
}

// Output is a result of the pipeline.
type Output struct {
	Name string
	Type *types.Type
	Node int32 // in Funcs[0]
}

// Func is the pipeline, or the body of a lambda.
type Func struct {
	Nodes  []Node  // every node is after the ones that it refers to
	Params []int32 // the nodes of a lambda's parameters
	Result int32   // the node of a lambda's result; None for the pipeline
	Outer  int     // the function around it; -1 for the pipeline

	// Eager are the nodes that are needed in any case, in an order in which
	// every node is after its inputs.
	Eager []int32
	// Users lists for each node the eager nodes that have it in their In, as
	// often as it is there.
	Users [][]int32
	// Captures are the nodes of the function around that a lambda refers to.
	Captures []int32
	// Pure is whether a lambda can be evaluated on the spot: it makes no call,
	// and whatever it may refer to of the Captures, it always needs, so that
	// they may be waited for before.
	Pure bool
}

// None stands where there is no node.
const None = int32(-1)

// Op is what a node does.
type Op uint8

// The kinds of nodes.
const (
	Const   Op = iota // Value
	Input             // the input Index of the pipeline, or else Default
	Arg               // the parameter Index of the lambda
	Failure           // the failure that a fallback answers, set by the call
	Outer             // the value of the node Index in the function around
	Pure              // Eval of the values of In
	Select            // the value of the first of Arms whose test holds
	Call              // Call.Module with the values of In
	Apply             // Call.Each with each element of the value of In[0]
)

var opNames = [...]string{"const", "input", "arg", "failure", "outer", "pure", "select", "call", "apply"}

// String is the name of the kind in lower case.
func (o Op) String() string { return opNames[o] }

// Node is one node.
type Node struct {
	Op      Op
	In      []int32 // all of them are needed
	Index   int32   // of an Input, Arg, Outer
	Default int32   // of an Input; None
	Value   any     // of a Const
	Eval    func(args []any) (any, error)
	Arms    []Arm
	Call    *CallSite // of a Call, Apply
	Type    *types.Type
	Label   string // "Search", "if", "field:name", …
	Span    syntax.Span
}

// Arm is one arm of a Select.
type Arm struct {
	Test  int32 // None: always
	Value int32
}

// CallSite is what is known of a call beyond its inputs.
type CallSite struct {
	Name    string        // the variable it is assigned to, or else what it calls
	Module  module.Module // of a Call
	Each    *stdlib.Each  // of an Apply
	Fn      int           // of an Apply: which of Funcs is applied
	Options *check.Options
	// Fallback is the node of the value to use after the last failure, and
	// Failure the node that has to be given the failure before; None: there
	// is no fallback, or it does not look at the failure.
	Fallback, Failure int32
	Until             int // which of Funcs says that a value is the end; -1: none
}

// Pos is where a node is in the source.
func (p *Plan) Pos(n *Node) diag.Pos { return p.file.Pos(n.Span.Start) }

// Source is the text of a node.
func (p *Plan) Source(n *Node) string { return p.file.Text(n.Span) }

// File is the name of the source.
func (p *Plan) File() string { return p.file.Name }
