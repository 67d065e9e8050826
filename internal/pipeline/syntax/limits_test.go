package syntax

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestHostile parses sources made to overflow the stack or to take
// quadratic time.
func TestHostile(t *testing.T) {
	const n = 50_000
	usually := chainSource(2000)
	took := fastest(usually, 0)
	for name, src := range map[string]string{
		"parentheses":   "v = " + strings.Repeat("(", n),
		"closed":        "v = " + strings.Repeat("(", n) + "x" + strings.Repeat(")", n),
		"brackets":      "v = " + strings.Repeat("[{a:", n),
		"closers":       "v = " + strings.Repeat("(", n) + strings.Repeat("]", n),
		"strings":       "v = " + strings.Repeat(`"${`, n),
		"lambdas":       "v = " + strings.Repeat("x => ", n),
		"open lambdas":  "v = " + strings.Repeat("(x) => (", n),
		"not":           "v = " + strings.Repeat("not ", n),
		"minus":         "v = " + strings.Repeat("- ", n),
		"ifs":           "v = " + strings.Repeat("if (a) b else ", n),
		"thens":         "v = " + strings.Repeat("if ", n),
		"coalesce":      "v = " + strings.Repeat("a ?? ", n),
		"sum":           "v = " + strings.Repeat("a + ", n),
		"fields":        "v = a" + strings.Repeat(".a", n),
		"calls":         "v = " + strings.Repeat("f(", n),
		"methods":       "v = f()" + strings.Repeat(".f()", n),
		"pipes":         "v = a" + strings.Repeat("| f()", n),
		"fallbacks":     "v = " + strings.Repeat("f() with fallback: ", n),
		"records":       "v = " + strings.Repeat("{a: f() with retry: 1, fallback: ", n),
		"types":         "in v: " + strings.Repeat("List<", n),
		"unions":        "in v: A" + strings.Repeat("|A", n),
		"merges":        "in v: A" + strings.Repeat("+A", n),
		"matches":       "v = " + strings.Repeat("match ", n),
		"whens":         "v = " + strings.Repeat("when ", n),
		"branches":      "v = " + strings.Repeat("branch { ", n),
		"semicolons":    strings.Repeat(";", n),
		"quotes":        strings.Repeat("\"\n", n),
		"one line":      strings.Repeat("a = \"", n),
		"bytes":         strings.Repeat("\xff", n),
		"projections":   "v = a" + strings.Repeat("[a]", n),
		"names":         "use a" + strings.Repeat(".a", n),
		"annotations":   strings.Repeat("@example(1) ", n),
		"notes":         "in a: A " + strings.Repeat("@example(1) ", n),
		"lists":         "v = [" + strings.Repeat("1 ", n),
		"many comments": strings.Repeat("# c\n", n),
	} {
		usual := took * time.Duration(max(len(src), 8000)) / time.Duration(len(usually))
		if d := fastest([]byte(src), 100*usual); d > 100*usual {
			t.Errorf("%s: %v for %d bytes, where a usual source takes %v", name, d, len(src), usual)
		}
		f, list := Parse("x.cst", []byte(src))
		if !list.HasErrors() {
			t.Errorf("%s: no error", name)
		}
		if len(list) > maxErrors+2 {
			t.Errorf("%s: %d errors", name, len(list))
		}
		checkSpans(t, f)
	}
}

// fastest is the shortest of three parses, or the first within the time that is
// good enough: a busy machine makes any one of them slow.
func fastest(src []byte, enough time.Duration) time.Duration {
	var best time.Duration
	for i := range 3 {
		start := time.Now()
		Parse("x.cst", src)
		if d := time.Since(start); i == 0 || d < best {
			best = d
		}
		if best <= enough {
			break
		}
	}
	return best
}

func TestLimits(t *testing.T) {
	deep := func(n int) string { return "v = " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) + "\nout v" }
	long := func(n int) string { return "v = 1" + strings.Repeat(" + 1", n) + "\nout v" }
	for _, c := range []struct {
		name, src string
		ok        bool
	}{
		{"deep enough", deep(900), true},
		{"too deep", deep(1100), false},
		{"long enough", long(19_000), true},
		{"too long", long(21_000), false},
		{"large enough", long(10) + "\n#" + strings.Repeat(" ", maxSource-100), true},
		{"too large", long(10) + "\n#" + strings.Repeat(" ", maxSource), false},
	} {
		f, list := Parse("x.cst", []byte(c.src))
		if list.HasErrors() == c.ok {
			t.Errorf("%s: %v", c.name, list)
		}
		if !c.ok && (len(list) != 1 || list[0].Code != CodeLimit) {
			t.Errorf("%s: %v", c.name, list)
		}
		if again, list := Parse("x.cst", Format(f)); list.HasErrors() != !c.ok || c.ok && !bytes.Equal(Format(again), Format(f)) {
			t.Errorf("%s: formatting is not stable: %.200v", c.name, list)
		}
	}
}
