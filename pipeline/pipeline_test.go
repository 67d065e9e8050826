package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/pipeline"
)

type level string

type inner struct {
	ID    int32
	Score float32
	Note  *string
}

type wide struct {
	UserID  string
	URLPath string
	Count   uint8
	Ratio   float64
	On      bool
	Tags    []string
	Rates   map[level]int
	Limit   *int
	Inner   inner
	List    []inner
	Level   level
	Renamed string `json:"other,omitempty"`
	Hidden  string `json:"-"`
	_       string
}

func one(t testing.TB, r *pipeline.Registry) module.Module {
	t.Helper()
	ms := r.Modules()
	if len(ms) != 1 {
		t.Fatalf("%d modules", len(ms))
	}
	return ms[0]
}

func TestStruct(t *testing.T) {
	var r pipeline.Registry
	err := pipeline.Add(&r, "Echo", func(_ context.Context, in wide) (wide, error) { return in, nil }, pipeline.Version("7"))
	if err != nil {
		t.Fatal(err)
	}
	m := one(t, &r)
	sig := types.Signature{Params: m.Params(), Result: m.Result()}
	inner := "{id: Int, score: Float, note: Optional<String>}"
	fields := "userID: String, urlPath: String, count: Int, ratio: Float, on: Boolean, tags: List<String>, rates: Map<String, Int>, limit: Optional<Int>, inner: " + inner + ", list: List<" + inner + ">, level: String, other: String"
	if got, want := sig.String(), "("+fields+") -> {"+fields+"}"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if m.Version() != "7" || m.Name() != "Echo" {
		t.Error(m.Version(), m.Name())
	}
	const in = `["u","/p",200,0.5,true,["a"],{"k":1},null,{"id":-1,"score":1.5,"note":"n"},[{"id":2,"score":0.0,"note":null}],"high","o"]`
	v, err := value.Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	args := v.([]any)
	for i, p := range m.Params() {
		if args[i], err = types.Decode(args[i], p.Type); err != nil {
			t.Fatal(err)
		}
	}
	out, err := m.Call(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	if !types.Conforms(out, m.Result()) {
		t.Errorf("%v is no %s", out, m.Result())
	}
	for i, p := range m.Params() {
		if got, want := value.JSON(out.(map[string]any)[p.Name]), value.JSON(args[i]); got != want {
			t.Errorf("%s came back as %s, was %s", p.Name, got, want)
		}
	}
	args[2] = int64(300)
	if _, err := m.Call(t.Context(), args); err == nil || !strings.Contains(err.Error(), "count: 300 does not fit into a Go uint8") {
		t.Error(err)
	}
	args[2], args[8] = int64(1), map[string]any{"id": int64(math.MaxInt32 + 1), "score": 1.0}
	if _, err := m.Call(t.Context(), args); err == nil || !strings.Contains(err.Error(), "inner: id: 2147483648 does not fit into a Go int32") {
		t.Error(err)
	}
}

func TestScalars(t *testing.T) {
	var r pipeline.Registry
	if err := pipeline.Add(&r, "Len", func(_ context.Context, s string) (int64, error) { return int64(len(s)), nil }); err != nil {
		t.Fatal(err)
	}
	m := one(t, &r)
	if v, err := m.Call(t.Context(), []any{"abc"}); err != nil || v != int64(3) || m.Params()[0].Name != "value" {
		t.Error(v, err)
	}
	if _, err := m.Call(t.Context(), []any{int64(1)}); err == nil {
		t.Error("an Int was taken for a String")
	}
	var none pipeline.Registry
	if err := pipeline.Add(&none, "Now", func(context.Context, struct{}) (float64, error) { return math.NaN(), nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := one(t, &none).Call(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "NaN is no value of a Float") {
		t.Error(err)
	}
}

func TestErrorsPass(t *testing.T) {
	var r pipeline.Registry
	boom := errors.New("boom")
	if err := pipeline.Add(&r, "Fail", func(ctx context.Context, s string) (string, error) { return "", fmt.Errorf("%s: %w", s, boom) }); err != nil {
		t.Fatal(err)
	}
	if v, err := one(t, &r).Call(t.Context(), []any{"x"}); !errors.Is(err, boom) || v != nil {
		t.Error(v, err)
	}
}

type node struct {
	Name string
	Next []node
}

type bad struct {
	A chan int
	B func()
	C any
	D time.Duration
	E map[int]string
	F **int
	G error
	H string `json:"i"`
	I string
}

func TestRefused(t *testing.T) {
	var r pipeline.Registry
	err := pipeline.Add(&r, "in", func(context.Context, bad) (node, error) { return node{}, nil })
	for _, want := range []string{
		`module "in": "in" cannot be the name of a module: in is a word of the language`,
		"field A: pipelines have no type for chan int", "field B: pipelines have no type for func()", "field C: pipelines have no type for interface {}",
		"field D: pipelines have no type for time.Duration", "field E: pipelines have no type for map[int]string", "field F: pipelines have no type for **int",
		"field G: pipelines have no type for error", "has two fields named i", "the type pipeline_test.node contains itself",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	if err := pipeline.Add[string, string](&r, "F", nil); err == nil || !strings.Contains(err.Error(), "the function is nil") {
		t.Error(err)
	}
	f := func(_ context.Context, s string) (string, error) { return s, nil }
	if err := pipeline.Add(&r, "F", f); err != nil {
		t.Error(err)
	}
	if err := pipeline.Add(&r, "F", f); err == nil || !strings.Contains(err.Error(), `there is already a module "F"`) {
		t.Error(err)
	}
}

// A registered function is called from a source like any other module, and
// its types are checked.
func TestInAPipeline(t *testing.T) {
	if err := pipeline.Register("test.Pick", func(_ context.Context, in struct {
		Names []string
		At    int
	}) (*string, error) {
		if in.At < 0 || in.At >= len(in.Names) {
			return nil, nil
		}
		return &in.Names[in.At], nil
	}); err != nil {
		t.Fatal(err)
	}
	env, err := check.NewEnv(pipeline.Default.Modules()...)
	if err != nil {
		t.Fatal(err)
	}
	src := "in names: List<String>\nx = Pick(names, 1) ?? \"none\"\ny = Pick(1, names)\nout x\n"
	f, problems := syntax.Parse("x.cst", []byte(src))
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	_, problems = check.Check(f, env)
	if got := problems.Error(); !strings.HasPrefix(got, "x.cst:3:10: error: Type mismatch: expected List<String>, got Int [E010]") || len(problems) != 2 {
		t.Error(got)
	}
}

func BenchmarkCall(b *testing.B) {
	var r pipeline.Registry
	type in struct {
		Text  string
		Limit int
	}
	type out struct {
		Text string
		N    int
	}
	if err := pipeline.Add(&r, "F", func(_ context.Context, i in) (out, error) { return out{i.Text, i.Limit}, nil }); err != nil {
		b.Fatal(err)
	}
	m := one(b, &r)
	args := []any{"x", int64(3)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Call(b.Context(), args); err != nil {
			b.Fatal(err)
		}
	}
}
