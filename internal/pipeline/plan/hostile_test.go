package plan_test

import (
	"fmt"
	"github.com/bide-dev/bide/internal/worst"
	"strings"
	"testing"
)

// TestHostile compiles sources that are made to be slow or deep. Each must end
// soon, in a plan or in errors, not in a crash.
func TestHostile(t *testing.T) {
	env := environment(t)
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, src := range map[string]string{
		"a long sum":                "in a: Int\nx = a" + strings.Repeat(" + a", 200_000) + "\nout x",
		"a long chain of fields":    "in a: {b: Int}\nx = a" + strings.Repeat(".b", 200_000) + "\nout x",
		"a long chain of coalesces": "in a: Optional<Int>\nx = a" + strings.Repeat(" ?? a", 100_000) + " ?? 1\nout x",
		"deep parentheses":          "x = " + strings.Repeat("(", 200_000) + "1" + strings.Repeat(")", 200_000) + "\nout x",
		"deep lists":                "x = " + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "\nout x",
		"deep calls":                "x = " + strings.Repeat("add(1, ", 100_000) + "1" + strings.Repeat(")", 100_000) + "\nout x",
		"deep types":                "in x: " + strings.Repeat("List<", 100_000) + "Int" + strings.Repeat(">", 100_000) + "\nout x",
		"many undefined names":      many(3000, "v%[1]d = w%[1]d\n") + "out v0",
		"many undefined types":      many(30_000, "in v%[1]d: W%[1]d\n") + "out v0",
		"many undefined functions":  many(30_000, "v%[1]d = w%[1]d(1)\n") + "out v0",
		"far from all names":        many(30_000, "v%d = 1\n") + many(200, "u%[1]d = w%[1]d\n") + "out v0",
		"many outputs":              "x = 1\n" + many(30_000, "out y%d = x\n"),
		"many imports":              strings.Repeat("use stdlib.string\n", 30_000) + "use stdlib.math\n" + many(30_000, "v%d = add(1, 2)\n") + "out v0",
		"many record types":         "x = [" + many(20_000, "{a%d: 1}, ") + "{b: 1}]\nout x",
		"a wide union":              "in x: " + many(3000, "{a%d: Int} | ") + "Int\ny = match x { _ -> 1 }\nout y",
		"a wide record":             "x = {" + many(8000, "a%d: 1, ") + "b: 1}\ny = x.a7\nout y",
		"a doubling type":           "a0 = {x: 1, y: 1}\n" + doubling(60) + "out a60",
		"a doubling type by merge":  "a0 = {x: 1}\n" + strings.ReplaceAll(doubling(60), "{x: a", "{x1: a0} + {x: a") + "out a60",
		"a long chain of values":    "v0 = 1\n" + chainOf(20_000) + "out v20000",
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := compileErr(env, src); err == nil {
				worst.Calls(p)
			} else if len(err.Error()) > 4<<20 {
				t.Errorf("%d bytes of errors", len(err.Error()))
			}
		})
	}
}

func doubling(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d = {x: a%d, y: a%d}\n", i+1, i, i)
	}
	return b.String()
}

func chainOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "v%d = v%d + 1\n", i+1, i)
	}
	return b.String()
}
