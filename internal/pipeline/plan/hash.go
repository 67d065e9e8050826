package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"

	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/value"
)

// digest is the SHA-256, in hexadecimal, of everything that decides what a run
// does: nodes, edges, literals, types, options, and the modules with their
// versions and signatures. Names of variables, layout and comments are not in
// it.
func (p *Plan) digest() string {
	nodes := 0
	for i := range p.Funcs {
		nodes += len(p.Funcs[i].Nodes)
	}
	w := &content{b: make([]byte, 0, 32*nodes+256), modules: map[module.Module]int32{}}
	for i := range p.Inputs {
		in := &p.Inputs[i]
		w.text(in.Name)
		w.text(in.Type.String())
		w.number(in.Node)
	}
	for i := range p.Outputs {
		w.text(p.Outputs[i].Name)
		w.number(p.Outputs[i].Node)
	}
	for i := range p.Funcs {
		f := &p.Funcs[i]
		w.number(int32(f.Outer))
		w.number(f.Result)
		w.numbers(f.Eager)
		w.number(int32(len(f.Nodes)))
		for j := range f.Nodes {
			w.node(&f.Nodes[j])
		}
	}
	sum := sha256.Sum256(w.b)
	return hex.EncodeToString(sum[:])
}

// content gathers parts so that no two lists of parts look alike.
type content struct {
	b       []byte
	modules map[module.Module]int32 // written before: where
}

func (w *content) text(s string) {
	w.b = binary.AppendUvarint(w.b, uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *content) number(n int32) { w.b = binary.AppendVarint(w.b, int64(n)) }

func (w *content) numbers(ns []int32) {
	w.number(int32(len(ns)))
	for _, n := range ns {
		w.number(n)
	}
}

func (w *content) node(n *Node) {
	w.b = append(w.b, byte(n.Op))
	w.numbers(n.In)
	switch n.Op {
	case Const:
		w.text(n.Type.String())
		w.literal(n.Value)
	case Input:
		w.number(n.Index)
		w.number(n.Default)
	case Arg, Outer:
		w.number(n.Index)
	case Pure:
		w.text(n.Label)
	case Select:
		w.number(int32(len(n.Arms)))
		for _, a := range n.Arms {
			w.number(a.Test)
			w.number(a.Value)
		}
	case Call, Apply:
		w.call(n)
	}
}

func (w *content) literal(v any) {
	switch v := v.(type) {
	case string:
		w.text(v)
	case int64:
		w.b = binary.AppendVarint(w.b, v)
	case float64:
		w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(v))
	default:
		w.text(value.JSON(v))
	}
}

func (w *content) call(n *Node) {
	c := n.Call
	w.text(n.Label)
	w.number(int32(c.Fn))
	w.number(c.Fallback)
	w.number(c.Failure)
	w.number(int32(c.Until))
	if c.Module != nil {
		w.module(c.Module)
	}
	if c.Options != nil {
		w.text(c.Options.Text)
	}
}

// module writes what a module is where it is first called, and then only
// which one it is.
func (w *content) module(m module.Module) {
	if at, known := w.modules[m]; known {
		w.number(at)
		return
	}
	w.modules[m] = int32(len(w.modules))
	w.text(m.Version())
	w.text(m.Result().String())
	for _, p := range m.Params() {
		w.text(p.Name)
		w.text(p.Type.String())
	}
}
