package check

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// The computations that expressions stand for, over run-time values. None
// changes what it is given.

// quoteAll writes texts so that no two lists of them look alike.
func quoteAll(texts []string) string {
	b := make([]byte, 0, 64)
	for i, s := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, s)
	}
	return string(b)
}

func makeList(args []any) (any, error) {
	return append(make([]any, 0, len(args)), args...), nil
}

func makeRecord(names []string) func([]any) (any, error) {
	return func(args []any) (any, error) {
		m := make(map[string]any, len(names))
		for i, n := range names {
			m[n] = args[i]
		}
		return m, nil
	}
}

// record gives a value as the record that its type says it is. A module that
// returns something else breaks its promise; the pipeline says so.
func record(v any) (map[string]any, error) {
	if m, ok := v.(map[string]any); ok {
		return m, nil
	}
	return nil, fmt.Errorf("a record is expected here, but the value is %s", stdlib.Text(v))
}

func getField(name string) func([]any) (any, error) {
	return func(args []any) (any, error) {
		m, err := record(args[0])
		if err != nil {
			return nil, err
		}
		return m[name], nil // an absent optional field is none
	}
}

func projectRecord(names []string) func([]any) (any, error) {
	return func(args []any) (any, error) {
		m, err := record(args[0])
		if err != nil {
			return nil, err
		}
		out := make(map[string]any, len(names))
		for _, n := range names {
			out[n] = m[n]
		}
		return out, nil
	}
}

// eachItem does to each element of a list what one does to its argument.
func eachItem(one func([]any) (any, error)) func([]any) (any, error) {
	return func(args []any) (any, error) {
		list, _ := args[0].([]any)
		out := make([]any, len(list))
		arg := make([]any, 1)
		for i, e := range list {
			arg[0] = e
			v, err := one(arg)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	}
}

// merge is + for records and lists of records; the right side wins.
func merge(args []any) (any, error) {
	left, leftList := args[0].([]any)
	right, rightList := args[1].([]any)
	switch {
	case leftList && rightList:
		if len(left) != len(right) {
			return nil, fmt.Errorf("lists that are merged must be of one length, but one has %d elements and the other %d", len(left), len(right))
		}
		return mergeEach(len(left), func(i int) (any, any) { return left[i], right[i] })
	case leftList:
		return mergeEach(len(left), func(i int) (any, any) { return left[i], args[1] })
	case rightList:
		return mergeEach(len(right), func(i int) (any, any) { return args[0], right[i] })
	}
	return mergeTwo(args[0], args[1])
}

func mergeEach(n int, at func(int) (any, any)) (any, error) {
	out := make([]any, n)
	for i := range out {
		v, err := mergeTwo(at(i))
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func mergeTwo(a, b any) (any, error) {
	x, err := record(a)
	if err != nil {
		return nil, err
	}
	y, err := record(b)
	if err != nil {
		return nil, err
	}
	out := make(map[string]any, len(x)+len(y))
	maps.Copy(out, x)
	maps.Copy(out, y)
	return out, nil
}

func interpolate(pieces []string) func([]any) (any, error) {
	return func(args []any) (any, error) {
		var b strings.Builder
		b.WriteString(pieces[0])
		for i, a := range args {
			b.WriteString(stdlib.Text(a))
			b.WriteString(pieces[i+1])
			if b.Len() > stdlib.MaxText {
				return nil, fmt.Errorf("the text would be longer than %d MiB", stdlib.MaxText>>20)
			}
		}
		return b.String(), nil
	}
}

func isSome(args []any) (any, error) { return args[0] != nil, nil }

// isMember tests whether a value is of one of the members of a union, told
// apart as [types.Member] does.
func isMember(union *types.Type, members []bool) func([]any) (any, error) {
	return func(args []any) (any, error) {
		i := types.Member(args[0], union)
		return i >= 0 && members[i], nil
	}
}

func conforms(t *types.Type) func([]any) (any, error) {
	return func(args []any) (any, error) { return types.Conforms(args[0], t), nil }
}

// asFloat makes a Float of a result that an empty list left an Int.
func asFloat(eval func([]any) (any, error)) func([]any) (any, error) {
	return func(args []any) (any, error) {
		v, err := eval(args)
		if i, ok := v.(int64); ok {
			return float64(i), err
		}
		return v, err
	}
}
