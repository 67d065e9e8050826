package template

import (
	"fmt"

	"github.com/bide-dev/bide/internal/expr"
)

// Nature is what is known of the value of a reference before there is one.
type Nature uint8

const (
	Unset   Nature = iota // nothing of ours has the name: it stays as it is written
	Own                   // the author's own words
	Outside               // data of any form
	Numeric               // data that is a number
)

// AsCode finds what a shell text does with data that it is refused for, whatever the
// data: one error, or one for each place in code of another language, where nothing but a
// number may stand. natureOf says what the references are.
func (t *Text) AsCode(natureOf func(Ref) Nature) []*expr.SyntaxError {
	var uses []use
	var natures []Nature
	outside := false
	for _, seg := range t.shellSegs() {
		if seg.kind == segLiteral {
			continue
		}
		u, n := use{how: useUnknown}, Unset
		if seg.kind == segRef && !(len(seg.ref.head.path) == 1 && t.own(seg.ref.head.name, seg.off)) {
			n = natureOf(seg.asRef(0))
			if n > Own && seg.ref.raw {
				n = Own
			}
			if n == Outside && seg.ref.counts() {
				n = Numeric
			}
		}
		switch {
		case n == Own:
			u = use{how: usePaste, text: "x"}
		case n > Own:
			u = use{how: useData}
			outside = true
		}
		uses, natures = append(uses, u), append(natures, n)
	}
	if !outside {
		return nil
	}
	p := t.compile(uses)
	if p.err != nil {
		return []*expr.SyntaxError{p.err}
	}
	var list []*expr.SyntaxError
	for _, sl := range p.slots {
		if sl.number != "" && natures[sl.use] == Outside {
			list = append(list, &expr.SyntaxError{Offset: sl.off, Suggestion: codeAdvice(sl.number, sl.src),
				Message: fmt.Sprintf("the value of %s would become code of %s: the step is refused for all that is no number", sl.src, sl.number)})
		}
	}
	return list
}

// counts says whether the filters make a number of whatever there is.
func (r *reference) counts() bool {
	for _, f := range r.filters {
		switch f.name {
		case "count", "length", "len", "sum", "avg", "average", "mean", "median", "variance", "stddev":
			return true
		}
	}
	return false
}
