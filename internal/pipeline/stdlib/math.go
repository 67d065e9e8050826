package stdlib

import (
	"math"

	"github.com/bide-dev/bide/internal/pipeline/types"
)

const inMath = group("stdlib.math")

// The functions that operators stand for. They are reached through these
// variables, not by name, so that an operator means the same whatever a file
// imports. Whole numbers that do not fit 64 bits, and floats that are infinite
// or no number, are errors: a result is right or it is none.
var (
	AddFunc = inMath.fn("add", "the sum", two(number), number, arithmetic("stdlib.add", addInt, func(a, b float64) float64 { return a + b }))
	SubFunc = inMath.fn("subtract", "the difference", two(number), number, arithmetic("stdlib.subtract", subInt, func(a, b float64) float64 { return a - b }))
	MulFunc = inMath.fn("multiply", "the product", two(number), number, arithmetic("stdlib.multiply", mulInt, func(a, b float64) float64 { return a * b }))
	DivFunc = inMath.fn("divide", "the quotient; of two Ints, without its fraction", two(number), number, divide)
	NegFunc = inMath.fn("negate", "the number with the other sign", params("value", number), number, negate)
)

func mathFuncs() []*Func {
	return append([]*Func{
		AddFunc, SubFunc, MulFunc, DivFunc, NegFunc,
		inMath.fn("max", "the greater of two", two(number), number, pick(func(a, b float64) bool { return a >= b }, func(a, b int64) bool { return a >= b })),
		inMath.fn("min", "the lesser of two", two(number), number, pick(func(a, b float64) bool { return a <= b }, func(a, b int64) bool { return a <= b })),
		inMath.fn("modulo", "the rest of the division, with the sign of a", two(number), number, modulo),
		inMath.fn("abs", "the number without its sign", params("value", number), number, abs),
		inMath.fn("round", "the nearest Int, of two the greater", params("value", number), types.Int, toInt("stdlib.round", nearest)),
	}, ours(
		inMath.fn("floor", "the greatest Int that is not above", params("value", number), types.Int, toInt("stdlib.floor", math.Floor)),
		inMath.fn("ceil", "the least Int that is not below", params("value", number), types.Int, toInt("stdlib.ceil", math.Ceil)),
		inMath.fn("sqrt", "the square root", params("value", number), types.Float, float1("stdlib.sqrt", math.Sqrt)),
		inMath.fn("power", "base to the exponent", params("base", number, "exponent", number), types.Float, func(a []any) (any, error) {
			return finite("stdlib.power", math.Pow(asFloat(a[0]), asFloat(a[1])))
		}),
	)...)
}

// nearest has no sum of f and a half, which may be no float64.
func nearest(f float64) float64 {
	below := math.Floor(f)
	if f-below >= 0.5 {
		return below + 1
	}
	return below
}

func two(t *types.Type) []types.Param { return params("a", t, "b", t) }

func asFloat(v any) float64 {
	if i, ok := v.(int64); ok {
		return float64(i)
	}
	f, _ := v.(float64)
	return f
}

// ints gives both values as integers if they are.
func ints(a []any) (x, y int64, ok bool) {
	x, okx := a[0].(int64)
	y, oky := a[1].(int64)
	return x, y, okx && oky
}

func finite(fn string, f float64) (any, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return fail(fn, "The result is not a finite number")
	}
	return f, nil
}

func arithmetic(fn string, whole func(a, b int64) (int64, bool), float func(a, b float64) float64) func([]any) (any, error) {
	return func(a []any) (any, error) {
		if x, y, ok := ints(a); ok {
			if r, fits := whole(x, y); fits {
				return r, nil
			}
			return fail(fn, "The result does not fit into 64 bits")
		}
		return finite(fn, float(asFloat(a[0]), asFloat(a[1])))
	}
}

func addInt(a, b int64) (int64, bool) {
	r := a + b
	return r, (r > a) == (b > 0)
}

func subInt(a, b int64) (int64, bool) {
	r := a - b
	return r, (r < a) == (b > 0)
}

func mulInt(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	r := a * b
	minusOne := a == -1 && b == math.MinInt64 || b == -1 && a == math.MinInt64
	return r, !minusOne && r/b == a
}

func divide(a []any) (any, error) {
	const fn = "stdlib.divide"
	if asFloat(a[1]) == 0 {
		return fail(fn, "Division by zero")
	}
	if x, y, ok := ints(a); ok {
		if x == math.MinInt64 && y == -1 {
			return fail(fn, "The result does not fit into 64 bits")
		}
		return x / y, nil
	}
	return finite(fn, asFloat(a[0])/asFloat(a[1]))
}

func modulo(a []any) (any, error) {
	const fn = "stdlib.modulo"
	if asFloat(a[1]) == 0 {
		return fail(fn, "Division by zero")
	}
	if x, y, ok := ints(a); ok {
		if y == -1 {
			return int64(0), nil // the one that would overflow
		}
		return x % y, nil
	}
	return finite(fn, math.Mod(asFloat(a[0]), asFloat(a[1])))
}

func negate(a []any) (any, error) {
	if i, ok := a[0].(int64); ok {
		if i == math.MinInt64 {
			return fail("stdlib.negate", "The result does not fit into 64 bits")
		}
		return -i, nil
	}
	return -asFloat(a[0]), nil
}

func abs(a []any) (any, error) {
	if i, ok := a[0].(int64); ok {
		switch {
		case i == math.MinInt64:
			return fail("stdlib.abs", "The result does not fit into 64 bits")
		case i < 0:
			return -i, nil
		}
		return i, nil
	}
	return math.Abs(asFloat(a[0])), nil
}

// pick gives the first where the relation holds, else the second, as a Float
// if one of them is.
func pick(float func(a, b float64) bool, whole func(a, b int64) bool) func([]any) (any, error) {
	return func(a []any) (any, error) {
		if x, y, ok := ints(a); ok {
			if whole(x, y) {
				return x, nil
			}
			return y, nil
		}
		x, y := asFloat(a[0]), asFloat(a[1])
		if float(x, y) {
			return x, nil
		}
		return y, nil
	}
}

func toInt(fn string, to func(float64) float64) func([]any) (any, error) {
	return func(a []any) (any, error) {
		if i, ok := a[0].(int64); ok {
			return i, nil
		}
		f := to(asFloat(a[0]))
		// 2^63 is a float64 but no int64.
		if !(f >= math.MinInt64 && f < math.MaxInt64) {
			return fail(fn, "The result does not fit into 64 bits")
		}
		return int64(f), nil
	}
}

func float1(fn string, f func(float64) float64) func([]any) (any, error) {
	return func(a []any) (any, error) { return finite(fn, f(asFloat(a[0]))) }
}
