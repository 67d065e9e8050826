package stdlib

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// Samples makes the demo modules of constellation-engine: text and number
// functions, and services that are slow, fail and hang in known ways. They are
// what examples and tests call. Each call of Samples gives modules with
// counters of their own; waits end when the context does.
//
// The services, all (String) -> String:
//
//	SlowQuery 500ms, SlowApiCall 1s, ExpensiveCompute 2s, RateLimitedApi 50ms,
//	ResourceIntensiveTask 200ms, QuickCheck 10ms, DeepAnalysis 1.5s
//	FlakyService        succeeds on every third call
//	TimeoutProneService takes 3s on the first call, 100ms on later ones
//	AlwaysFailsService  fails
func Samples() []module.Module {
	var flaky, prone atomic.Int64
	ms := append(textSamples(), numberSamples()...)
	for _, s := range []struct {
		name string
		wait time.Duration
	}{
		{"SlowQuery", 500 * time.Millisecond}, {"SlowApiCall", time.Second}, {"ExpensiveCompute", 2 * time.Second},
		{"RateLimitedApi", 50 * time.Millisecond}, {"ResourceIntensiveTask", 200 * time.Millisecond},
		{"QuickCheck", 10 * time.Millisecond}, {"DeepAnalysis", 1500 * time.Millisecond},
	} {
		ms = append(ms, service(s.name, func(ctx context.Context, text string) (string, error) {
			return s.name + " of " + text, wait(ctx, s.wait)
		}))
	}
	return append(ms,
		service("FlakyService", func(_ context.Context, text string) (string, error) {
			if n := flaky.Add(1); n%3 != 0 {
				return "", fmt.Errorf("service temporarily unavailable (call %d)", n)
			}
			return "FlakyService of " + text, nil
		}),
		service("TimeoutProneService", func(ctx context.Context, text string) (string, error) {
			d := 100 * time.Millisecond
			if prone.Add(1) == 1 {
				d = 3 * time.Second
			}
			return "TimeoutProneService of " + text, wait(ctx, d)
		}),
		service("AlwaysFailsService", func(context.Context, string) (string, error) {
			return "", errors.New("this service always fails")
		}))
}

// wait waits for d, or until the context is done, which is its error.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func service(name string, call func(ctx context.Context, text string) (string, error)) module.Module {
	sig := types.Signature{Params: params("input", types.String), Result: types.String}
	return module.Func(name, "sample", sig, func(ctx context.Context, args []any) (any, error) {
		s, err := call(ctx, str(args[0]))
		if err != nil {
			return nil, err
		}
		return s, nil
	})
}

// sample makes a module of a function over values.
func sample(name string, ps []types.Param, result *types.Type, eval func([]any) (any, error)) module.Module {
	return module.Func(name, "sample", types.Signature{Params: ps, Result: result}, func(_ context.Context, args []any) (any, error) {
		return eval(args)
	})
}

func textSamples() []module.Module {
	text := params("text", types.String)
	return []module.Module{
		sample("Uppercase", text, types.String, text1(strings.ToUpper)),
		sample("Lowercase", text, types.String, text1(strings.ToLower)),
		sample("Trim", text, types.String, text1(strings.TrimSpace)),
		sample("Replace", params("text", types.String, "find", types.String, "replace", types.String), types.String, replaceText),
		sample("WordCount", text, types.Int, func(a []any) (any, error) { return int64(len(strings.Fields(str(a[0])))), nil }),
		sample("TextLength", text, types.Int, func(a []any) (any, error) { return utf16Len(str(a[0])), nil }),
		sample("Contains", params("text", types.String, "substring", types.String), types.Boolean, test(strings.Contains)),
		sample("SplitLines", text, strList, func(a []any) (any, error) {
			if str(a[0]) == "" {
				return texts([]string{""}), nil // as theirs; our own function lines gives none
			}
			return texts(splitLines(str(a[0]))), nil
		}),
		sample("Split", params("text", types.String, "delimiter", types.String), strList, func(a []any) (any, error) {
			return texts(strings.Split(str(a[0]), str(a[1]))), nil
		}),
	}
}

func numberSamples() []module.Module {
	ints := types.ListOf(types.Int)
	numbers := params("numbers", ints)
	return []module.Module{
		sample("SumList", numbers, types.Int, func(a []any) (any, error) { return sum(items(a[0])) }),
		sample("Max", numbers, types.Int, orZero(int64(0), extreme(1))),
		sample("Min", numbers, types.Int, orZero(int64(0), extreme(-1))),
		sample("Average", numbers, types.Float, orZero(0.0, average)),
		sample("FilterGreaterThan", params("numbers", ints, "threshold", types.Int), ints, func(a []any) (any, error) {
			out := []any{}
			for _, n := range items(a[0]) {
				if whole(n) > whole(a[1]) {
					out = append(out, n)
				}
			}
			return out, nil
		}),
		sample("MultiplyEach", params("numbers", ints, "multiplier", types.Int), ints, func(a []any) (any, error) {
			out := make([]any, 0, len(items(a[0])))
			for _, n := range items(a[0]) {
				v, err := MulFunc.Eval([]any{n, a[1]})
				if err != nil {
					return nil, err
				}
				out = append(out, v)
			}
			return out, nil
		}),
		sample("Range", params("start", types.Int, "end", types.Int), ints, func(a []any) (any, error) {
			end := whole(a[1])
			if end == 1<<63-1 {
				return fail("Range", "The end is too large")
			}
			return intRange("Range", whole(a[0]), end+1)
		}),
		sample("FormatNumber", params("number", types.Int), types.String, func(a []any) (any, error) { return grouped(whole(a[0])), nil }),
	}
}

// orZero gives zero for the empty list, as the original's documents say. The
// library's list-max and its kin give none.
func orZero(zero any, eval func([]any) (any, error)) func([]any) (any, error) {
	return func(a []any) (any, error) {
		if len(items(a[0])) == 0 {
			return zero, nil
		}
		return eval(a)
	}
}

// grouped writes a number with a comma between groups of three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
