package stdlib

import (
	"cmp"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/types"
)

const (
	inCompare = group("stdlib.compare")
	inBool    = group("stdlib.bool")
)

// The comparisons, which operators stand for too.
var (
	EqFunc = inCompare.fn("eq", "whether two are equal", two(scalar), types.Boolean, func(a []any) (any, error) { return equal(a[0], a[1]), nil })
	NeFunc = inCompare.fn("neq", "whether two differ", two(scalar), types.Boolean, func(a []any) (any, error) { return !equal(a[0], a[1]), nil })
	LtFunc = inCompare.fn("lt", "whether a is less than b", two(ordered), types.Boolean, compare(func(c int) bool { return c < 0 }))
	LeFunc = inCompare.fn("lte", "whether a is at most b", two(ordered), types.Boolean, compare(func(c int) bool { return c <= 0 }))
	GtFunc = inCompare.fn("gt", "whether a is greater than b", two(ordered), types.Boolean, compare(func(c int) bool { return c > 0 }))
	GeFunc = inCompare.fn("gte", "whether a is at least b", two(ordered), types.Boolean, compare(func(c int) bool { return c >= 0 }))
	// NotFunc is what `not` does.
	NotFunc = inBool.fn("not", "the opposite", params("value", types.Boolean), types.Boolean, func(a []any) (any, error) { return !isTrue(a[0]), nil })
)

func compareFuncs() []*Func {
	return append([]*Func{
		LtFunc, LeFunc, GtFunc, GeFunc,
		inCompare.fn("eq-int", "whether two Ints are equal", two(types.Int), types.Boolean, EqFunc.Eval),
		inCompare.fn("eq-string", "whether two Strings are equal", two(types.String), types.Boolean, EqFunc.Eval),
	}, ours(EqFunc, NeFunc)...)
}

func boolFuncs() []*Func {
	return []*Func{
		inBool.fn("and", "whether both hold", two(types.Boolean), types.Boolean, func(a []any) (any, error) { return isTrue(a[0]) && isTrue(a[1]), nil }),
		inBool.fn("or", "whether one holds", two(types.Boolean), types.Boolean, func(a []any) (any, error) { return isTrue(a[0]) || isTrue(a[1]), nil }),
		NotFunc,
	}
}

func isTrue(v any) bool {
	b, _ := v.(bool)
	return b
}

// equal compares two scalars: Int and Float by their number, anything else as
// it is.
func equal(a, b any) bool {
	_, anumber := rank(a)
	_, bnumber := rank(b)
	if anumber && bnumber {
		return order(a, b) == 0
	}
	return anumber == bnumber && a == b
}

// rank reports whether v is a Float, and whether it is a number at all.
func rank(v any) (float, number bool) {
	switch v.(type) {
	case int64:
		return false, true
	case float64:
		return true, true
	}
	return false, false
}

// order compares two numbers or two Strings, by code points: -1, 0 or 1.
func order(a, b any) int {
	switch x := a.(type) {
	case string:
		y, _ := b.(string)
		return strings.Compare(x, y)
	case int64:
		switch y := b.(type) {
		case int64:
			return cmp.Compare(x, y)
		case float64:
			return -orderMixed(y, x)
		}
	case float64:
		if y, ok := b.(int64); ok {
			return orderMixed(x, y)
		}
		return cmp.Compare(x, asFloat(b))
	}
	return 0
}

// orderMixed compares without losing the digits that an int64 has beyond
// those of a float64.
func orderMixed(f float64, i int64) int {
	switch {
	case f >= 1<<63:
		return 1
	case f < -(1 << 63):
		return -1
	}
	whole := int64(f)
	if whole != i {
		return cmp.Compare(whole, i)
	}
	return cmp.Compare(f, float64(whole))
}

func compare(holds func(int) bool) func([]any) (any, error) {
	return func(a []any) (any, error) { return holds(order(a[0], a[1])), nil }
}
