package check_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

func TestNewEnv(t *testing.T) {
	def := func(name string, result *types.Type, params ...types.Param) module.Module {
		return module.Bind(&module.Definition{Name: name, Result: result, Params: params}, nil)
	}
	_, err := check.NewEnv(
		def("A", types.Int), def("A", types.Int), def("match", types.Int), def("B", nil), def("C", types.OpenRecordOf()),
		def("D", types.Int, types.Param{Name: "x", Type: types.Int}, types.Param{Name: "x", Type: types.Int}),
		def("E", types.Int, types.Param{Name: "x", Type: types.VarOf("T")}), def("F", types.Int, types.Param{Name: "x"}),
		def("stdlib.math.add", types.Int),
	)
	for _, want := range []string{
		"there are two modules named A", "match is a word of the language", "module B has no result type", "module C: the result {...} is an open record",
		`module D: there are two parameters "x"`, `module E: the parameter "x" has the type T with a variable in it`, `module F: the parameter "x" has no type`,
		"the module stdlib.math.add has the name of a standard function",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestFunctionsAndSignatures(t *testing.T) {
	var logged string
	env, err := check.NewEnv(stdlib.Log(func(m string) { logged = m }), stdlib.Samples()[0])
	if err != nil || logged != "" {
		t.Fatal(err)
	}
	all := env.Functions()
	for _, name := range []string{"Uppercase", "stdlib.debug.log", "stdlib.collection.map"} {
		if !slices.Contains(all, name) {
			t.Errorf("%s is not listed", name)
		}
	}
	c := env.Callee("stdlib.collection.map")
	if c == nil || c.Sig.String() != "(items: Seq<T>, function: (T) => U) -> List<U>" || c.Doc == "" {
		t.Errorf("%+v", c)
	}
	if env.Callee("nothing") != nil {
		t.Error("there is a function nothing")
	}
}

// The worst case is what adding up every delay at its longest gives.
func TestWorst(t *testing.T) {
	strategies := []backoff.Strategy{backoff.Fixed{}, backoff.Linear{}, backoff.Exponential{}, backoff.Fibonacci{}}
	rapid.Check(t, func(t *rapid.T) {
		o := check.Options{Plain: new(check.Plain)}
		o.Retry.Attempts = rapid.IntRange(1, 300).Draw(t, "attempts")
		o.Retry.Timeout = time.Duration(rapid.IntRange(0, 5).Draw(t, "timeout")) * time.Second
		b := &o.Retry.Backoff
		b.Strategy = rapid.SampledFrom(strategies).Draw(t, "strategy")
		b.Initial = time.Duration(rapid.IntRange(0, 3000).Draw(t, "initial")) * time.Millisecond
		b.Max = rapid.SampledFrom([]time.Duration{0, backoff.Unlimited, time.Minute, 3 * time.Second}).Draw(t, "max")
		b.Jitter = rapid.SampledFrom([]backoff.Jitter{backoff.None, backoff.Factor, backoff.Full, backoff.Equal, backoff.Decorrelated}).Draw(t, "jitter")
		var sum, prev float64
		for i := 1; i < o.Retry.Attempts; i++ {
			_, d := b.Range(i, time.Duration(prev))
			prev = float64(d)
			sum += prev
		}
		want := time.Duration(1<<63 - 1)
		if sum < 9e18 {
			want = time.Duration(sum)
		}
		got := o.Retries()
		if diff := got.Waits.D - want; diff > time.Microsecond*10 || diff < -time.Microsecond*10 {
			if want != 1<<63-1 || got.Waits.D < 9e18 {
				t.Fatalf("%v, want %v", got.Waits.D, want)
			}
		}
		if total := o.Worst().Time; total.Open == (o.Retry.Timeout > 0) || !total.Open && total.D < got.Waits.D {
			t.Fatal(total)
		}
	})
}

// The checker knows every option of the syntax; one that is added there must
// be given a meaning here.
func TestEveryOptionIsKnown(t *testing.T) {
	for _, name := range syntax.OptionNames() {
		if k := syntax.OptionByName(name); k > syntax.OptPolicy {
			t.Errorf("the option %s has no meaning", name)
		}
	}
}
