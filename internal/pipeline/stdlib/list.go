package stdlib

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

const (
	inList       = group("stdlib.list")
	inMap        = group("stdlib.map")
	inCollection = group("stdlib.collection")
	inStd        = group("stdlib")
)

var (
	list1    = params("list", anySeq)
	numbers1 = params("list", types.SeqOf(number))
	predT    = types.FuncOf([]*types.Type{anyT}, types.Boolean)
)

func listFuncs() []*Func {
	return append([]*Func{
		inList.fn("list-length", "the number of elements", list1, types.Int, func(a []any) (any, error) { return int64(len(items(a[0]))), nil }),
		inList.fn("list-first", "the first element; an error if there is none", list1, anyT, func(a []any) (any, error) {
			if l := items(a[0]); len(l) > 0 {
				return l[0], nil
			}
			return fail("list-first", "list is empty")
		}),
		inList.fn("list-last", "the last element; an error if there is none", list1, anyT, func(a []any) (any, error) {
			if l := items(a[0]); len(l) > 0 {
				return l[len(l)-1], nil
			}
			return fail("list-last", "list is empty")
		}),
		inList.fn("list-is-empty", "whether there are no elements", list1, types.Boolean, func(a []any) (any, error) { return len(items(a[0])) == 0, nil }),
		inList.fn("list-sum", "the sum of the elements", numbers1, number, func(a []any) (any, error) { return sum(items(a[0])) }),
		like(inList.fn("list-concat", "the elements of a, then those of b", params("a", anySeq, "b", anySeq), anyList, func(a []any) (any, error) {
			if len(items(a[0]))+len(items(a[1])) > maxRange {
				return fail("list-concat", tooMany)
			}
			return append(append([]any{}, items(a[0])...), items(a[1])...), nil
		})),
		inList.fn("list-contains", "whether value is one of the elements", params("list", types.SeqOf(scalar), "value", scalar), types.Boolean, func(a []any) (any, error) {
			return slices.ContainsFunc(items(a[0]), func(e any) bool { return equal(e, a[1]) }), nil
		}),
		like(inList.fn("list-reverse", "the elements from the last to the first", list1, anyList, func(a []any) (any, error) {
			l := slices.Clone(items(a[0]))
			slices.Reverse(l)
			return l, nil
		})),
	}, ours(
		inList.fn("list-get", "the element at index, counted from 0; none if there is none", params("list", anySeq, "index", types.Int), types.OptionalOf(anyT), func(a []any) (any, error) {
			if l, i := items(a[0]), whole(a[1]); i >= 0 && i < int64(len(l)) {
				return l[i], nil
			}
			return nil, nil
		}),
		like(inList.fn("list-append", "the list with value after its last element", params("list", anySeq, "value", anyT), anyList, func(a []any) (any, error) {
			return append(slices.Clip(items(a[0])), a[1]), nil
		})),
		like(inList.fn("list-take", "the first count elements, or all", params("list", anySeq, "count", types.Int), anyList, func(a []any) (any, error) {
			l := items(a[0])
			return l[:clamp(whole(a[1]), len(l))], nil
		})),
		like(inList.fn("list-drop", "all but the first count elements", params("list", anySeq, "count", types.Int), anyList, func(a []any) (any, error) {
			l := items(a[0])
			return l[clamp(whole(a[1]), len(l)):], nil
		})),
		like(inList.fn("list-unique", "each element once, where it stands first", list1, anyList, func(a []any) (any, error) { return unique(items(a[0])), nil })),
		like(inList.fn("list-sort", "the elements in order", params("list", types.SeqOf(ordered)), types.ListOf(ordered), func(a []any) (any, error) {
			l := slices.Clone(items(a[0]))
			slices.SortStableFunc(l, order)
			return l, nil
		})),
		inList.fn("list-flatten", "the elements of the elements", params("list", types.SeqOf(anySeq)), anyList, func(a []any) (any, error) { return flatten(items(a[0])), nil }),
		inList.fn("list-max", "the greatest element; none of an empty list", params("list", types.SeqOf(ordered)), types.OptionalOf(ordered), extreme(1)),
		inList.fn("list-min", "the least element; none of an empty list", params("list", types.SeqOf(ordered)), types.OptionalOf(ordered), extreme(-1)),
		inList.fn("list-average", "the mean of the elements; none of an empty list", numbers1, types.OptionalOf(types.Float), average),
		inList.fn("list-range", "the Ints from start up to, not including, end", params("start", types.Int, "end", types.Int), types.ListOf(types.Int), func(a []any) (any, error) {
			return intRange("list-range", whole(a[0]), whole(a[1]))
		}),
		inList.fn("list-zip", "pairs of the elements at one place, as many as the shorter has", params("a", anySeq, "b", types.SeqOf(anyU)),
			types.ListOf(types.RecordOf(types.Field{Name: "first", Type: anyT}, types.Field{Name: "second", Type: anyU})), zip),
	)...)
}

func collectionFuncs() []*Func {
	return append([]*Func{
		each("filter", "the elements for which the predicate holds", predT, anyList, true, Each{Combine: filterItems}),
		each("map", "what the transform gives for each element", types.FuncOf([]*types.Type{anyT}, anyU), types.ListOf(anyU), true, Each{Combine: func(_, results []any) (any, error) { return results, nil }}),
		each("all", "whether the predicate holds for every element", predT, types.Boolean, false, Each{Until: func(r any) bool { return !isTrue(r) }, Combine: func(_, results []any) (any, error) {
			return len(results) == 0 || isTrue(results[len(results)-1]), nil
		}}),
		each("any", "whether the predicate holds for some element", predT, types.Boolean, false, Each{Until: isTrue, Combine: func(_, results []any) (any, error) {
			return len(results) > 0 && isTrue(results[len(results)-1]), nil
		}}),
		each("sortBy", "the elements in the order of their keys, which the function gives; equal ones as they stood", types.FuncOf([]*types.Type{anyT}, ordered), anyList, true, Each{Combine: sortByKeys}),
	}, ours(
		each("flatMap", "the elements of the lists that the transform gives", types.FuncOf([]*types.Type{anyT}, types.SeqOf(anyU)), types.ListOf(anyU), true, Each{Combine: func(_, results []any) (any, error) { return flatten(results), nil }}),
		each("find", "the first element for which the predicate holds; none if there is none", predT, types.OptionalOf(anyT), false, Each{Until: isTrue, Combine: func(in, results []any) (any, error) {
			if n := len(results); n > 0 && isTrue(results[n-1]) {
				return in[n-1], nil
			}
			return nil, nil
		}}),
		each("groupBy", "the elements by their keys, which the function gives", types.FuncOf([]*types.Type{anyT}, types.String), types.MapOf(types.String, anyList), false, Each{Combine: groupItems}),
		inCollection.fn("collect", "the elements as a List", list1, anyList, func(a []any) (any, error) { return items(a[0]), nil }),
	)...)
}

func mapFuncs() []*Func {
	return ours(
		inMap.fn("map-get", "the value under key; none if there is none", params("map", types.MapOf(anyK, anyT), "key", anyK), types.OptionalOf(anyT), func(a []any) (any, error) { return entries(a[0])[Text(a[1])], nil }),
		inMap.fn("map-has", "whether there is a value under key", params("map", types.MapOf(anyK, anyT), "key", anyK), types.Boolean, func(a []any) (any, error) {
			_, there := entries(a[0])[Text(a[1])]
			return there, nil
		}),
		inMap.fn("map-keys", "the keys, sorted", params("map", types.MapOf(types.String, anyT)), strList, func(a []any) (any, error) {
			return texts(slices.Sorted(maps.Keys(entries(a[0])))), nil
		}),
		inMap.fn("map-values", "the values, in the order of their keys", params("map", types.MapOf(anyK, anyT)), anyList, mapValues),
		inMap.fn("map-size", "the number of entries", params("map", types.MapOf(anyK, anyT)), types.Int, func(a []any) (any, error) { return int64(len(entries(a[0]))), nil }),
	)
}

func otherFuncs() []*Func {
	return []*Func{
		inStd.fn("identity", "the value itself", params("value", anyT), anyT, func(a []any) (any, error) { return a[0], nil }),
	}
}

// each makes a function that applies its second argument to each element of
// its first.
func each(name, doc string, fn, result *types.Type, sameKind bool, e Each) *Func {
	f := inCollection.fn(name, doc, params("items", anySeq, "function", fn), result, nil)
	f.Each, f.Sig.Like = &e, sameKind
	return f
}

func items(v any) []any {
	l, _ := v.([]any)
	return l
}

func entries(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func whole(v any) int64 {
	i, _ := v.(int64)
	return i
}

func clamp(i int64, n int) int { return int(min(max(i, 0), int64(n))) }

// sum adds up; Ints as Ints, as soon as one is a Float as Floats.
func sum(l []any) (any, error) {
	total := any(int64(0))
	for _, e := range l {
		t, err := AddFunc.Eval([]any{total, e})
		if err != nil {
			return nil, &Error{"list-sum", "The result does not fit into 64 bits"}
		}
		total = t
	}
	return total, nil
}

func average(a []any) (any, error) {
	l := items(a[0])
	if len(l) == 0 {
		return nil, nil
	}
	total := 0.0
	for _, e := range l {
		total += asFloat(e)
	}
	return finite("list-average", total/float64(len(l)))
}

func unique(l []any) []any {
	seen := make(map[string]bool, len(l))
	out := make([]any, 0, len(l))
	for _, e := range l {
		if k := value.Kind(e) + value.JSON(e); !seen[k] {
			seen[k] = true
			out = append(out, e)
		}
	}
	return out
}

func flatten(l []any) []any {
	out := []any{}
	for _, e := range l {
		out = append(out, items(e)...)
	}
	return out
}

func extreme(sign int) func([]any) (any, error) {
	return func(a []any) (any, error) {
		l := items(a[0])
		if len(l) == 0 {
			return nil, nil
		}
		best := l[0]
		for _, e := range l[1:] {
			if order(e, best) == sign {
				best = e
			}
		}
		return best, nil
	}
}

// maxRange bounds the lists that functions make longer than what they got.
const maxRange = 10_000_000

var tooMany = fmt.Sprintf("The list would have more than %d elements", maxRange)

func intRange(fn string, from, to int64) (any, error) {
	if to > from && (uint64(to)-uint64(from) > maxRange) {
		return fail(fn, tooMany)
	}
	out := make([]any, 0, max(0, to-min(from, to)))
	for i := from; i < to && i < math.MaxInt64; i++ {
		out = append(out, i)
	}
	return out, nil
}

func zip(a []any) (any, error) {
	x, y := items(a[0]), items(a[1])
	out := make([]any, min(len(x), len(y)))
	for i := range out {
		out[i] = map[string]any{"first": x[i], "second": y[i]}
	}
	return out, nil
}

func filterItems(in, results []any) (any, error) {
	out := []any{}
	for i, r := range results {
		if isTrue(r) {
			out = append(out, in[i])
		}
	}
	return out, nil
}

func sortByKeys(in, keys []any) (any, error) {
	at := make([]int, len(keys))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(i, j int) int { return order(keys[i], keys[j]) })
	return value.Map(at, func(j int) any { return in[j] }), nil
}

func groupItems(in, keys []any) (any, error) {
	out := map[string]any{}
	for i, k := range keys {
		out[str(k)] = append(items(out[str(k)]), in[i])
	}
	return out, nil
}

func mapValues(a []any) (any, error) {
	m := entries(a[0])
	out := make([]any, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out, nil
}
