package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestForeachForms: where the values come from, in each documented form.
func TestForeachForms(t *testing.T) {
	const do = "[{shell: 'echo \"${item}\" >> @EV@/x'}]"
	for name, row := range map[string]struct{ text, want string }{
		"nested, a list":             {"commands: [{foreach: {foreach: [a, b c], do: " + do + "}}]", "a\nb c"},
		"nested, a command":          {"commands: [{foreach: {foreach: 'printf \"a\\nb c\\n\"', do: " + do + "}}]", "a\nb c"},
		"items":                      {"commands: [{foreach: {items: [a, b], do: " + do + "}}]", "a\nb"},
		"list":                       {"commands: [{foreach: {list: [a, b], do: " + do + "}}]", "a\nb"},
		"a JSON file":                {"commands: [{foreach: {input: in.json, do: " + do + "}}]", "1\ntwo"},
		"a path in it":               {"commands: [{foreach: {input: deep.json, json_path: '$.l[*].n', do: " + do + "}}]", "5\n6"},
		"a text file":                {"commands: [{foreach: {input: lines.txt, do: " + do + "}}]", "a b\nc"},
		"beside do, a list":          {"commands: [{foreach: [a, b], do: " + do + "}]", "a\nb"},
		"beside do, a text":          {"commands: [{foreach: 'echo a; echo b', do: " + do + "}]", "a\nb"},
		"a variable":                 {"commands: [{shell: cat in.json, capture: l, capture_format: json}, {foreach: '${l}', do: " + do + "}]", "1\ntwo"},
		"lines of one":               {"commands: [{shell: 'echo a; echo b', capture: l}, {foreach: '${l}', do: " + do + "}]", "a\nb"},
		"a JSON array":               {"commands: [{foreach: 'cat in.json', do: " + do + "}]", "1\ntwo"},
		"do, one step":               {"commands: [{foreach: [a], do: {shell: 'echo \"${item}\" >> @EV@/x'}}]", "a"},
		"nothing":                    {"commands: [{foreach: [], do: " + do + "}]", "-"},
		"references":                 {"env: {A: z}\ncommands: [{foreach: ['${A}', 'x${A}'], do: " + do + "}]", "z\nxz"},
		"a list of lists":            {"commands: [{foreach: [[1, 2], {a: 3}], do: " + do + "}]", "1, 2\n{\"a\":3}"},
		"max_items":                  {"commands: [{foreach: {items: [a, b, c], max_items: 2, do: " + do + "}}]", "a\nb"},
		"min_items":                  {"commands: [{foreach: {items: [a, b], min_items: 2, do: " + do + "}}]", "a\nb"},
		"max_items, 1 of a variable": {"env: {N: 1}\ncommands: [{foreach: {items: [a, b, c], max_items: $N, do: " + do + "}}]", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("in.json", `[1, "two"]`)
			b.write("deep.json", `{"l": [{"n": 5}, {"n": 6}]}`)
			b.write("lines.txt", "a b\nc\n")
			r := b.run(row.text)
			r.status(event.Succeeded)
			r.want("x", row.want)
		})
	}
}

// TestForeachVariables: the variables in the rounds and after them.
func TestForeachVariables(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - foreach: [{n: a}, {n: b}]
    id: loop
    do:
      - shell: echo "${item.n} ${foreach.item.n} ${index} ${total} ${foreach.index} ${foreach.total}"
      - shell: echo "${last.output}" >> @EV@/x
      - shell: echo "out ${item.n}"
  - shell: echo "${loop.output|lines}" > @EV@/out; echo "${foreach.succeeded} ${foreach.failed} ${foreach.total} ${foreach.results[1].output} ${foreach.results[*].success}" > @EV@/after; echo '${item}' > @EV@/item
`)
	r.status(event.Succeeded)
	r.want("x", "a a 0 2 0 2\nb b 1 2 1 2")
	r.want("out", "out a\nout b")
	r.want("after", "2 0 2 out b true, true")
	r.want("item", "${item}")
}

// TestForeachOverACutValue: a value whose middle was left out is not a list of values.
func TestForeachOverACutValue(t *testing.T) {
	for _, row := range []struct{ capture, items string }{
		{"capture: big", "${big|lines}"},
		{"capture: big, capture_format: lines", "${big}"},
		{"id: big", "${big.output}"},
	} {
		t.Run(row.capture, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run(`
commands:
  - {shell: 'head -c 1500000 /dev/zero | tr "\\0" x | fold -w 100000', ` + row.capture + `}
  - foreach: {items: '` + row.items + `', do: [{shell: 'echo x >> @EV@/x'}]}
`)
			r.status(event.Failed)
			r.want("x", "-")
			if !strings.Contains(r.sum.Message, "451438 bytes left out") {
				t.Errorf("%q does not say how much was left out", r.sum.Message)
			}
		})
	}
}

// TestForeachErrors: the first failure ends the loop, or no failure does.
func TestForeachErrors(t *testing.T) {
	for _, row := range []struct{ more, status, x string }{
		{"", event.Failed, "a\nb"},
		{"continue_on_error: true", event.Succeeded, "a\nb\nc"},
		{"continue_on_error: true, parallel: 3", event.Succeeded, "a\nb\nc"},
	} {
		t.Run(row.more, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("commands:\n- foreach: {items: [a, b, c], do: [{shell: 'echo ${item} >> @EV@/all; test ${item} != b'}]" + strings.TrimSuffix(", "+row.more, ", ") + "}\n- shell: sort @EV@/all > @EV@/x\n- shell: echo ${foreach.failed} > @EV@/failed\n")
			r.status(row.status)
			if row.status == event.Succeeded {
				r.want("x", row.x)
				r.want("failed", "1")
				return
			}
			r.want("all", row.x)
			if !strings.Contains(r.sum.Message, "item 2 of 3 (b)") {
				t.Errorf("the message is %q", r.sum.Message)
			}
		})
	}
}

// TestForeachParallel: how many rounds run at once.
func TestForeachParallel(t *testing.T) {
	for _, row := range []struct {
		parallel string
		most     int
	}{{"false", 1}, {"1", 1}, {"2", 2}, {"true", 6}, {"$N", 3}} {
		t.Run(row.parallel, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("env: {N: 3}\ncommands:\n- foreach: {items: [1, 2, 3, 4, 5, 6], parallel: " + row.parallel + `, do: [{shell: 'touch @EV@/on-${item} @EV@/seen-${item}; ls @EV@ | grep -c on- >> @EV@/n; for i in $(seq 600); do [ $(ls @EV@ | grep -c seen-) -lt ` + fmt.Sprint(row.most) + ` ] || break; sleep 0.05; done; ls @EV@ | grep -c on- >> @EV@/n; sleep 0.1; rm @EV@/on-${item}; [ $i -lt 600 ]'}]}` + "\n")
			r.status(event.Succeeded)
			most := 0
			for _, line := range strings.Fields(r.file("n")) {
				most = max(most, int(line[0]-'0'))
			}
			if most > row.most { // so many do run at once: each of the first has waited for the others
				t.Errorf("%d rounds ran at once, want %d", most, row.most)
			}
		})
	}
}

// TestDurationsOfVariables: a bound of time that a variable gives is more than zero, as one in
// the file is.
func TestDurationsOfVariables(t *testing.T) {
	const step = "commands: [{shell: 'echo a >> @EV@/x', "
	for text, want := range map[string]string{
		step + "timeout: $N}]":        "timeout: $N is 0; it must be more than 0",
		step + "timeout: '${N}ms'}]":  "timeout: ${N}ms is 0ms; it must be more than 0",
		step + "stall_timeout: $N}]":  "stall_timeout: $N is 0; it must be more than 0",
		"timeout: $N\n" + step + "}]": "timeout: $N is 0; it must be more than 0",
		"map: {input: [a], agent_template: [{shell: 'echo a >> @EV@/x'}], agent_timeout_secs: $N}": "$N is 0; it must be more than 0",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("env: {N: '0'}\n" + text)
			r.status(event.Failed)
			r.want("x", "-")
			if end := r.of(event.RunFinished)[0]; !strings.Contains(end.Message, want) {
				t.Errorf("it ended: %s; want %s", end.Message, want)
			}
		})
	}
}

// TestNumbersOfVariables: a number that a variable gives is within the bounds of its key, as
// one in the file is.
func TestNumbersOfVariables(t *testing.T) {
	const foreach, items = "commands: [{foreach: {items: [a, b], do: [{shell: 'echo a >> @EV@/x'}], ", "map: {input: [a, b], agent_template: [{shell: 'echo a >> @EV@/x'}], "
	for text, want := range map[string]string{
		foreach + "max_items: $N}}]":     "max_items: $N is -1; it must be 0 or more",
		foreach + "min_items: '${N}'}}]": "min_items: ${N} is -1; it must be 0 or more",
		foreach + "parallel: $N}}]":      "parallel: $N is -1; it must be 1 or more",
		items + "max_items: $N}":         "max_items: $N is -1; it must be 0 or more",
		items + "min_items: $N}":         "min_items: $N is -1; it must be 0 or more",
		items + "offset: $N}":            "offset: $N is -1; it must be 0 or more",
		items + "max_parallel: $N}":      "max_parallel: $N is -1; it must be 1 or more",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("env: {N: '-1'}\n" + text)
			r.status(event.Failed)
			r.want("x", "-")
			if end := r.of(event.RunFinished)[0]; !strings.HasSuffix(end.Message, want) {
				t.Errorf("it ended: %s; want %s", end.Message, want)
			}
		})
	}
}
