package check_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/diag"
)

// TestVerdicts holds the rules of constellation-engine that decide whether a
// pipeline is accepted: "ok", refused by the parser ("!"), or by the checker
// with a code.
func TestVerdicts(t *testing.T) {
	compat := newEnv(t)
	compat.Compat = true
	for _, c := range []struct{ want, src string }{
		// Merging is for records and lists of records; the right side wins.
		{"ok", "in a: {p: Int, q: Int}\nin b: {q: String}\nx = (a + b).q\ny = trim(x)\nout y"},
		{"ok", "in a: Seq<{p: Int}>\nin b: {}\nx = a + b\nout x"},
		{"ok", "in a: {}\nin b: Candidates<{}>\nx = b + a + b\nout x"},
		{"E014", "in a: Seq<Int>\nin b: {p: Int}\nx = a + b\nout x"},
		{"E014", "in a: Map<String, Int>\nin b: {p: Int}\nx = b + a\nout x"},
		{"E014", "in a: List<Int>\nin b: List<Int>\nx = a + b\nout x"},
		{"E014", "in a: Int\nin b: {p: Int}\nx = a + b\nout x"},
		{"E014", "in a: Boolean\nx = a + a\nout x"},
		{"E014", "in a: String\nx = a + a\nout x"},
		{"E012", "type T = {p: Int} + String\nin a: T\nout a"},

		// Operands of a comparison have one type, Int or String.
		{"E010", "in a: Int\nin b: String\nx = a == b\nout x"},
		{"E010", "in a: Int\nin b: Optional<Int>\nx = a < b\nout x"},
		{"E010", "in a: Int\nin b: Float\nx = a == b\nout x"},
		{"E013", "in a: {p: Int}\nx = a == a\nout x"},
		{"E013", "in a: String\nx = a < a\nout x"},
		{"E013", "in a: Float\nx = a > a\nout x"},
		{"ok", "in a: String\nx = a != \"z\" and not a == \"y\" or 1 <= 2\nout x"},

		// Guards give Optionals, ?? takes them.
		{"ok", "in a: Int\nin c: Boolean\nx = a * 2 when a > 1 and c ?? a when c ?? 0\ny = x + 1\nout y"},
		{"ok", "in a: Optional<Int>\nin b: Optional<Int>\nx = (a ?? b) ?? 1\nout x"},
		{"E015", "in a: Int\nx = a ?? 1\nout x"},
		{"E010", "in a: Optional<Int>\nx = a ?? \"none\"\nout x"},
		{"E010", "in a: Optional<Int>\nin b: Optional<String>\nx = a ?? b\nout x"},
		{"E010", "in a: Int\nx = a when a\nout x"},

		// What arms have in common is a union if nothing else.
		{"ok", "in c: Boolean\nx = if (c) 1 else \"one\"\ny = match x { is Int -> \"i\", is String -> \"s\" }\nout y"},
		{"ok", "in c: Boolean\nx = branch { c -> {p: 1}, not c -> {p: 1, q: 2}, otherwise -> {p: 3} }\ny = x.p\nout y"},
		{"E007", "in c: Boolean\nx = if (c) {p: 1} else {p: 1, q: 2}\ny = x.q\nout y"},
		{"E010", "in c: Int\nx = branch { c -> 1, otherwise -> 2 }\nout x"},
		{"E010", "in a: Int | Float\nx = match a { is String -> 1, _ -> 2 }\nout x"},
		{"E015", "in a: {p: Int} | {q: Int}\nx = match a { {p} -> p }\nout x"},
		{"E003", "in a: Int | Float\nx = match a { is Whole -> 1, _ -> 2 }\nout x"},

		// Functions of elements.
		{"ok", "in a: List<Int>\nin top: Int\nx = filter(a, (n) => n > 0 and n < top)\ny = any(x, (n: Int) => n == 3)\nout y"},
		{"ok", "x = filter([], (n) => n > 0)\nout x"},
		{"ok", "none = []\nx = all(none, (n) => n * 2 == 4)\nout x"},
		{"E010", "in a: List<Int>\nx = filter(a, (n) => n + 1)\nout x"},
		{"E010", "in a: List<Int>\nx = filter(a, (n: String) => true)\nout x"},
		{"E015", "in a: List<Int>\nx = filter(a, (n, m) => n > m)\nout x"},
		{"E001", "in a: List<Int>\nx = filter(a, (n) => m > 0)\nout x"},
		{"E015", "x = ((n) => n)\nout x"},

		// Namespaces.
		{"ok", "use stdlib.string as s\nx = s.trim(\" a \")\nout x"},
		{"ok", "use stdlib.string\nx = 1 + 2\ny = stdlib.math.add(x, 1) != 3\nout y"},
		{"E002", "use stdlib.string\nx = add(1, 2)\nout x"},
		{"E004", "use stdlib.math\nx = math.add(1, 2)\nout x"},
		{"E004", "use nowhere\nx = 1\nout x"},
		{"E005", "use one\nuse two\nx = clash(1)\nout x"},
		{"E002", "use one as o\nx = o(1)\nout x"},

		// Options.
		{"ok", "x = Trim(\"a\") with retry: 0, lazy, priority: 7, cache: 1d, cache_backend: \"far\"\nout x"},
		{"ok", "x = Trim(\"a\") with batch: 5, batch_timeout: 1s, window: count(3), join: zip, checkpoint: 1s\nout x"},
		{"ok", "@source(\"http\")\nin x: Int\n@sink(\"log\")\nout x"},
		{"E016", "x = Trim(\"a\") with concurrency: 0\nout x"},
		{"E016", "x = Trim(\"a\") with batch: 0\nout x"},
		{"E017", "x = Trim(\"a\") with fallback: 0\nout x"},
		{"!", "x = Trim(\"a\") with retry: -1\nout x"},
		{"!", "x = Trim(\"a\") with on_error: fail\nout x"},

		// What is no pipeline.
		{"!", ""}, {"!", "# nothing"}, {"!", "in x: Int"}, {"!", "in when: Int\nout when"},
		{"!", "x = y = 1\nout x"}, {"!", "in x:: Int\nout x"}, {"!", "in x: List<>\nout x"},
		{"!", "in x: Int Int\nout x"}, {"!", "x = \"open\nout x"}, {"!", "x = 007\nout x"},
		{"!", "in b: Boolean\nx = branch { b->1, otherwise -> 2 }\nout x"},
		{"!", "in b: Boolean\nx = branch { b -> 1 }\nout x"},
		{"!", "x = 1 < 2 < 3\nout x"},
	} {
		p, problems := run(compat, c.src)
		got := "ok"
		for _, problem := range problems {
			if problem.Severity == diag.Error {
				got = problem.Code
				break
			}
		}
		if p == nil && c.want == "!" && got >= "E020" {
			got = "!"
		}
		if got != c.want {
			t.Errorf("%s\n\twant %s, got %s: %v", c.src, c.want, got, problems)
		}
	}
}
