package lsp

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/docs"
)

const mapped = `env: {LEVEL: debug}
setup:
  - shell: make items.json
map:
  input: items.json
  agent_template:
    - id: build
      shell: make ${item.name[0]|lower} ${item} $LEVEL ${date:%Y} ${env.HOME} ${shell.output} ${ARG_12} ${nothing.here}
    - shell: echo ${build.output} ${claude.exit_code} ${workflow.id} ${workflow.commits}
      when: item.size > 3 && last.success
reduce:
  - shell: echo ${map.results|json} ${cmd:ls|sort} ${map.outputs|join:, |upper} ${map.success_rate} ${validation.own}
`

// TestHoverOfVariables: the editor says of each variable of bide what the reference does, and
// of one of the file where it is defined.
func TestHoverOfVariables(t *testing.T) {
	const item = "In a loop or a map: in a `foreach` the value; in a map the item, whose members are `${item.path}` and so on"
	const output = "After a step: what it wrote to standard output, without the last line end"
	c, uri := workflowSession(t, mapped)
	for at, want := range map[string]string{
		"item.name[0]": code("item.name[0]") + "\n" + item, "name[0]": code("item.name[0]") + "\n" + item, "${item} ": code("item") + "\n" + item,
		"item.size":      code("item.size") + "\n" + item,
		"$LEVEL":         code("env: {LEVEL: debug}"),
		"date:":          code("date:%Y") + "\nEverywhere: the time, as in `${date:%Y-%m-%d}`",
		"HOME":           code("env.HOME") + "\nEverywhere: an environment variable; `${NAME}` alone is one of the `env` block",
		"shell.output":   code("shell.output") + "\n" + output,
		"ARG_12":         code("ARG_12") + "\nEverywhere: `ARG_1`, `ARG_2`, …: the words behind the file of `bide run`",
		"nothing.here":   "",
		"build.output":   code("- id: build") + "\n" + output,
		"claude.exit":    code("claude.exit_code") + "\nAfter a step: its exit status",
		"workflow.id":    code("workflow.id") + "\nEverywhere: the id of the run",
		"commits}":       code("workflow.commits") + "\nAfter a step: in a repository: the commits of the last step, and their lines; of the whole run `workflow.commits` and so on",
		"last.success":   code("last.success") + "\nAfter a step: whether it succeeded",
		"results|":       code("map.results") + "\nAfter a map: in reduce and merge: a list, one element an item, in their order: ",
		"success_rate":   code("map.success_rate") + "\nAfter a map: in reduce and merge: in percent",
		"lower}":         code("|lower") + "\nof a text",
		"json}":          code("|json") + "\nJSON text of the value",
		"join:,":         code("|join") + "\na list joined with a comma, or as in `${x|join:; }`",
		"upper}":         code("|upper") + "\nof a text",
		"sort}":          "",
		"validation.own": code("validation.own") + "\nAfter a failure or a check: after a check with a score: its result, every member of it included",
	} {
		got := ""
		if answer := c.ask("textDocument/hover", place(uri, mapped, at, 1)); string(answer) != "null" {
			got = decode[hover](t, answer).Contents.Value
		}
		if got != want && (!strings.HasSuffix(want, ": ") || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
}

// TestEveryVariableIsExplained: none of the reference is missing, and names that stand for
// many are found by one of them.
func TestEveryVariableIsExplained(t *testing.T) {
	n := 0
	for _, row := range docs.Table("variables") {
		for _, name := range row.Names() {
			if row.Head[0] == "variable" && !strings.HasPrefix(name, "ID.") && !strings.HasPrefix(name, "NAME.") {
				n++
				if got := variableDoc(name); !strings.HasSuffix(got, row.Cells[1]) && !strings.HasPrefix(got, row.Section) {
					t.Errorf("%s: %q", name, got)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d variables", n)
	}
}

// TestCompletionExplains: each name that is proposed behind "${" has what the reference says
// of it, those that the file gives apart.
func TestCompletionExplains(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"${^":             {"last": "After a step: the step before", "workflow": "", "LEVEL": ""},
		"${last.^":        {"exit_code": "After a step: its exit status"},
		"${last.output|^": {"basename": "file names without their directories"},
	} {
		c, uri := workflowSession(t, mapped)
		whole := strings.Replace(mapped, "shell: echo ${build.output}", "shell: echo "+strings.TrimSuffix(text, "^")+"}", 1)
		c.write(uri, whole)
		at := strings.Index(whole, "shell: echo "+strings.TrimSuffix(text, "^")) + len("shell: echo "+text) - 1
		d := &document{}
		d.setText(whole)
		docs := map[string]string{}
		for _, i := range decode[[]completionItem](t, c.ask("textDocument/completion", map[string]any{"textDocument": map[string]any{"uri": uri}, "position": d.position(at)})) {
			docs[i.Label] = ""
			if i.Documentation != nil {
				docs[i.Label] = i.Documentation.Value
			}
		}
		for name, begins := range want {
			if got, there := docs[name]; !there || !strings.HasPrefix(got, begins) || begins == "" && got != "" {
				t.Errorf("%s: %s: %q, %v, want %q", text, name, got, there, begins)
			}
		}
	}
}
