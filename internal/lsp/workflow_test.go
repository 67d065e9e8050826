package lsp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const nightly = `name: nightly
env:
  LEVEL: debug
parameters:
  required:
    - name: target
      type: string
handlers:
  tell:
    - shell: notify
setup:
  - shell: make items.json
map:
  input: items.json
  agent_template:
    - id: build
      shell: make ${target} LEVEL=${LEVEL}
      capture: size
      retry: {attempts: 3, backoff: fixed}
      on_failure:
        - shell: echo ${item.name}
    - shell: "echo ${size} ${build.output}"
  error_policy:
    on_item_failure: {custom: tell}
`

// workflowSession opens one workflow file in a folder of its own.
func workflowSession(t testing.TB, text string) (*client, string) {
	t.Helper()
	uri := fileURI(filepath.Join(t.TempDir(), "nightly.yml"))
	c := connect(t, full())
	c.open(uri, text)
	return c, uri
}

func TestWorkflowProblems(t *testing.T) {
	c, uri := workflowSession(t, nightly)
	if got := messages(c.problems[uri]); got != "" {
		t.Fatalf("of a good file: %s", got)
	}
	wrong := strings.NewReplacer("capture: size", "captrue: size", "backoff: fixed", "backoff: fixd", "attempts: 3", "attempts: many").Replace(nightly)
	c.write(uri, wrong)
	got := messages(c.problems[uri])
	for _, want := range []string{`17:6 unknown key "captrue"`, `18:24 `, `18:39 `} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	// A file of another program is none of ours.
	c.write(uri, "on: push\njobs:\n  build:\n    steps: [{run: make}]\n")
	if got := messages(c.problems[uri]); got != "" {
		t.Error(got)
	}
	if got := string(c.ask("textDocument/hover", place(uri, "on: push", "on", 1))); got != "null" {
		t.Error(got)
	}
	c.write(uri, "commands:\n  - shell: [\n")
	if got := messages(c.problems[uri]); got == "" {
		t.Error("text that is no YAML has no problem")
	}
}

func TestWorkflowQuickFixes(t *testing.T) {
	c, uri := workflowSession(t, "")
	for wrong, right := range map[string]string{
		"captrue: size": "capture: size", "backoff: fixd": "backoff: fixed", "id: build\n      shel: x": "id: build\n      shell: x", "${targt}": "${target}", "custom: tel}": "custom: tell}",
	} {
		old := right
		if strings.HasPrefix(right, "id:") {
			old = "id: build\n      shell: make ${target} LEVEL=${LEVEL}"
		}
		text := strings.Replace(nightly, old, wrong, 1)
		want := strings.Replace(nightly, old, right, 1)
		if text == nightly {
			t.Fatal(wrong)
		}
		c.write(uri, text)
		d := &document{}
		d.setText(text)
		actions := decode[[]codeAction](t, c.ask("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": uri}, "range": textRange{End: d.position(len(text))}}))
		if len(actions) != 1 {
			t.Errorf("%s: %d fixes of\n%s", wrong, len(actions), messages(c.problems[uri]))
			continue
		}
		if got := applied(t, text, actions[0].Edit.Changes[uri]); got != want {
			t.Errorf("%s became\n%s", wrong, got)
		}
	}
}

// TestFixesWithValues: a fix may write the value too, where nothing is to be filled in.
func TestFixesWithValues(t *testing.T) {
	c, uri := workflowSession(t, "")
	for wrong, right := range map[string]string{
		"timeout: 2 minutes":         "timeout: 2m",
		"timeout-minutes: 5":         "timeout: 5m",
		"retries: 3 # times":         "retry: {attempts: 4} # times",
		"retry_delay: 5":             "retry: {initial_delay: 5s}",
		"retry: {max_retries: 3}":    "retry: {attempts: 4}",
		"concurrency: 3":             "", // a name is to be filled in
		"retries:\n      count: 3":   "", // the value is a map
		"retry: {retries: 3, a: 1 }": "retry: {attempts: 4, a: 1 }",
	} {
		before := "commands:\n  - shell: make\n    "
		text, got := before+wrong+"\n", ""
		c.write(uri, text)
		d := &document{}
		d.setText(text)
		for _, a := range decode[[]codeAction](t, c.ask("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": uri}, "range": textRange{End: d.position(len(text))}})) {
			if strings.HasPrefix(a.Title, "Write ") && !strings.Contains(a.Title, "instead of count") {
				got = applied(t, text, a.Edit.Changes[uri])
			}
		}
		if want := before + right + "\n"; right != "" && got != want || right == "" && got != "" {
			t.Errorf("%s became\n%s", wrong, got)
		}
	}
}

// TestFixesOfAMap: what a map is said to lack is written in the place of the key that is meant.
func TestFixesOfAMap(t *testing.T) {
	c, uri := workflowSession(t, "")
	const text = "map:\n  over: items.json\n  steps:\n    - shell: make\n  parallel: 3\n"
	c.write(uri, text)
	d := &document{}
	d.setText(text)
	for _, f := range []struct{ key, want string }{{"over", "input"}, {"steps", "agent_template"}, {"parallel", "max_parallel"}} {
		at := d.position(strings.Index(text, f.key))
		var got []string
		for _, a := range decode[[]codeAction](t, c.ask("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": uri}, "range": textRange{at, at}})) {
			got = append(got, a.Title, applied(t, text, a.Edit.Changes[uri]))
		}
		if want := []string{"Write " + f.want + " instead of " + f.key, strings.Replace(text, f.key, f.want, 1)}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", f.key, got, want)
		}
	}
}

// TestFixesOfOneKey: two fixes that write the same key into one map are one fix, or only the
// first is offered; no key is there twice, whichever fixes are applied.
func TestFixesOfOneKey(t *testing.T) {
	c, uri := workflowSession(t, "")
	const before = "commands:\n  - shell: make\n"
	for wrong, right := range map[string]string{
		"    retries: 3\n    retry_delay: 5\n":               "    retry: {attempts: 4, initial_delay: 5s}\n",
		"    retries: 3 # a\n    retry_delay: 5 # b\n":       "    retry: {attempts: 4, initial_delay: 5s} # a\n    # b\n",
		"    retry: {jitter: full}\n    retries: 3\n":        "    retry: {jitter: full, attempts: 4}\n",
		"    retries: 3\n    retry: {attempts: 2}\n":         "    retries: 3\n    retry: {attempts: 2}\n",
		"    retries: 3\n    retry:\n      jitter: full\n":   "    retries: 3\n    retry:\n      jitter: full\n",
		"    retries: 3\n    backoffLimit: 5\n":              "    retry: {attempts: 4}\n    backoffLimit: 5\n",
		"    timout: 3s\n    timeout: 5s\n":                  "    timout: 3s\n    timeout: 5s\n",
		"    timout: 3s\n    tmeout: 5s\n":                   "    timeout: 3s\n    tmeout: 5s\n",
		"    retries: 3\n  - shell: b\n    retry_delay: 5\n": "    retry: {attempts: 4}\n  - shell: b\n    retry: {initial_delay: 5s}\n",
		"  - {shell: b, retries: 3, retry_delay: 5}\n":       "  - {shell: b, retry: {attempts: 4}, retry_delay: 5}\n",
	} {
		text := before + wrong
		c.write(uri, text)
		d := &document{}
		d.setText(text)
		var all []textEdit
		for _, a := range decode[[]codeAction](t, c.ask("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": uri}, "range": textRange{End: d.position(len(text))}})) {
			all = append(all, a.Edit.Changes[uri]...)
		}
		if got := applied(t, text, all); got != before+right {
			t.Errorf("%sbecame\n%s", wrong, strings.TrimPrefix(got, before))
		}
		for range 5 { // and one after another
			actions := decode[[]codeAction](t, c.ask("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": uri}, "range": textRange{End: d.position(len(text))}}))
			if len(actions) == 0 {
				break
			}
			text = applied(t, text, actions[len(actions)-1].Edit.Changes[uri])
			if c.write(uri, text); strings.Contains(messages(c.problems[uri]), "twice") || strings.Contains(messages(c.problems[uri]), "YAML") {
				t.Errorf("%sbecame\n%s%s", wrong, text, messages(c.problems[uri]))
			}
			d.setText(text)
		}
	}
}

func TestWorkflowCompletion(t *testing.T) {
	c, uri := workflowSession(t, "")
	for _, x := range []struct {
		text      string // with ^ where the cursor is
		want, not []string
	}{
		{"commands:\n  - shell: x\n    ti^", []string{"timeout"}, []string{"shell"}},
		{"commands:\n  - ^", []string{"shell", "claude", "foreach"}, []string{"commands", "max_parallel"}},
		{"commands:\n  - shell: x\n    retry:\n      ^", []string{"attempts", "backoff"}, []string{"shell", "commands"}},
		{"commands:\n  - shell: x\n    retry: {^}", []string{"attempts", "backoff"}, []string{"shell"}},
		{"commands:\n  - shell: x\n    retry: {attempts: 3, ^}", []string{"backoff"}, []string{"attempts"}},
		{"commands:\n  - shell: x\n    retry:\n      backoff: ^", []string{"exponential", "fixed"}, []string{"attempts"}},
		{"commands:\n  - shell: x\nisolation: ^\n", []string{"worktree", "none"}, []string{"commands"}},
		{"commands:\n  - shell: x\n^", []string{"map", "max_parallel", "env"}, []string{"commands", "shell", "checkpoint"}},
		{"map:\n  input: x\n  ^\n  agent_template:\n    - shell: x\n", []string{"max_parallel", "filter"}, []string{"input", "agent_template", "shell"}},
		{"commands:\n  - shell: x\n    ^\n  - shell: [\n", []string{"timeout"}, nil}, // broken below
		{"env: {LEVEL: a}\ncommands:\n  - id: build\n    shell: echo ${^\n", []string{"LEVEL", "build", "last"}, []string{"timeout"}},
		{"env: {LEVEL: a}\ncommands:\n  - shell: echo ${LE^}\n", []string{"LEVEL"}, []string{"last"}},
		{strings.Replace(nightly, "custom: tell", "custom: ^", 1), []string{"tell"}, nil},
		{"commands:\n  - id: build\n    shell: echo ${build.^}\n", []string{"output", "exit_code", "success"}, []string{"build", "last", "total", "timeout"}},
		{"commands:\n  - shell: echo ${last.ex^\n", []string{"exit_code"}, []string{"last", "timeout"}},
		{"commands:\n  - shell: echo ${map.^}\n", []string{"total", "results_file"}, []string{"output", "map"}},
		{"commands:\n  - shell: echo ${workflow.^}\n", []string{"id", "status", "commits"}, []string{"output"}},
		{"commands:\n  - shell: echo ${last.output|^}\n", []string{"json", "lines", "len"}, []string{"output", "build"}},
		{"commands:\n  - shell: echo ${last.output|lines|so^\n", []string{"sort"}, []string{"output"}},
		{"commands:\n  - shell: echo ${cmd:ls|^}\n", nil, []string{"sort", "json", "output"}},
	} {
		before, after, _ := strings.Cut(x.text, "^")
		if strings.Contains(before, "${") && !strings.HasPrefix(after, "}") {
			c.write(uri, before+"LEVEL}"+after) // what a file had when it was well formed last
		}
		c.write(uri, before+after)
		d := &document{}
		d.setText(before)
		var labels []string
		for _, i := range decode[[]completionItem](t, c.ask("textDocument/completion", map[string]any{"textDocument": map[string]any{"uri": uri}, "position": d.position(len(before))})) {
			labels = append(labels, i.Label)
		}
		for _, w := range x.want {
			if !slices.Contains(labels, w) {
				t.Errorf("%q: no %q in %q", x.text, w, labels)
			}
		}
		for _, w := range x.not {
			if slices.Contains(labels, w) {
				t.Errorf("%q: %q in %q", x.text, w, labels)
			}
		}
	}
}

// TestANewFile: a file that says not yet what it is gets the keys of all kinds of files and
// whole files, and no problems; one of another program gets nothing.
func TestANewFile(t *testing.T) {
	o := full()
	o.First = []FirstFile{{"workflow (first)", "ready to run", "# One.\nname: first\ncommands:\n  - shell: make\n"}}
	uri := fileURI(filepath.Join(t.TempDir(), "new.yml"))
	c := connect(t, o)
	for _, x := range []struct {
		text      string // with ^ where the cursor is
		want, not []string
		whole     string // the file with the whole file in the place of what is written
	}{
		{"^", []string{"commands", "map", "modules", "name", "workflow (first)"}, nil, "# One.\nname: first\ncommands:\n  - shell: make\n"},
		{"# mine\n\n^", []string{"commands", "modules", "workflow (first)"}, nil, "# mine\n\n# One.\nname: first\ncommands:\n  - shell: make\n"},
		{"---\nname: mine\nwo^\n", []string{"workflows", "workflow (first)"}, []string{"name", "commands", "modules"}, "---\nname: mine\n# One.\ncommands:\n  - shell: make\n\n"},
		{"^\nname: mine\n", []string{"commands", "workflow (first)"}, []string{"name"}, "# One.\ncommands:\n  - shell: make\n\nname: mine\n"},
		{"name: ^", nil, []string{"commands", "workflow (first)"}, ""},
		{"- hosts: all\n^", nil, []string{"commands", "workflow (first)"}, ""},
		{"version: 3\n^", nil, []string{"commands", "workflow (first)"}, ""},
		{"on: push\nname: x\n^", nil, []string{"commands", "workflow (first)"}, ""},
	} {
		before, after, _ := strings.Cut(x.text, "^")
		if c.problems[uri] == nil {
			c.open(uri, before+after)
		} else {
			c.write(uri, before+after)
		}
		if got := messages(c.problems[uri]); got != "" {
			t.Errorf("%q: %s", x.text, got)
		}
		d := &document{}
		d.setText(before + after)
		var labels []string
		for _, i := range decode[[]completionItem](t, c.ask("textDocument/completion", map[string]any{"textDocument": map[string]any{"uri": uri}, "position": d.position(len(before))})) {
			labels = append(labels, i.Label)
			if i.Kind == firstItem {
				if got := applied(t, before+after, []textEdit{*i.TextEdit}); got != x.whole {
					t.Errorf("%q becomes %q, want %q", x.text, got, x.whole)
				}
			}
		}
		for _, w := range x.want {
			if !slices.Contains(labels, w) {
				t.Errorf("%q: no %q in %q", x.text, w, labels)
			}
		}
		for _, w := range x.not {
			if slices.Contains(labels, w) {
				t.Errorf("%q: %q in %q", x.text, w, labels)
			}
		}
	}
	c.write(uri, "commands:\n  - shel: x\n")
	if got := messages(c.problems[uri]); !strings.Contains(got, "shel") {
		t.Errorf("a new file that becomes a workflow: %q", got)
	}
	uri = fileURI(filepath.Join(t.TempDir(), "new.bide.yml"))
	c.open(uri, "name: x\n")
	if got := messages(c.problems[uri]); !strings.Contains(got, "commands") {
		t.Errorf("a workflow by its name that has nothing: %q", got)
	}
	if got := string(c.ask("textDocument/completion", map[string]any{"textDocument": map[string]any{"uri": uri}, "position": position{1, 0}})); !strings.Contains(got, "workflow (first)") {
		t.Errorf("it has no whole file: %s", got)
	}
}

// Every key of the language is offered in the place that it belongs to and
// explained there: what is read is the table that the parser reads by.
func TestEveryKeyIsKnown(t *testing.T) {
	for _, key := range []string{"commands", "map", "env", "retry_defaults", "imports"} {
		if k, ok := keysAt(nil)[key]; !ok || k.doc == "" && k.example == "" {
			t.Errorf("%s: %+v", key, k)
		}
	}
	for path, key := range map[string]string{"commands..retry": "attempts", "map.agent_template..on_failure": "max_attempts", "map.error_policy": "max_failures", "commands..validate": "threshold", "commands..foreach": "", "setup.": "shell", "commands..do..http": "url"} {
		keys := keysAt(strings.Split(path, "."))
		if _, ok := keys[key]; !ok && key != "" {
			t.Errorf("%s has no %s: %d keys", path, key, len(keys))
		}
	}
}

func TestWorkflowHoverDefinitionSymbols(t *testing.T) {
	c, uri := workflowSession(t, nightly)
	for _, x := range []struct {
		word string
		nth  int
		want string
	}{
		{"agent_template", 1, "the steps of each item"},
		{"attempts", 1, "attempts: "},
		{"capture", 1, "capture: "},
		{"LEVEL}", 1, "LEVEL: debug"},
		{"make items", 1, ""},
	} {
		got := string(c.ask("textDocument/hover", place(uri, nightly, x.word, x.nth)))
		if (x.want == "") != (got == "null") || !strings.Contains(got, x.want) {
			t.Errorf("%s: %s", x.word, got)
		}
	}
	for _, x := range []struct {
		word string
		nth  int
		want string
	}{
		{"target}", 1, "5:12"}, {"LEVEL}", 1, "2:2"}, {"size}", 1, "17:15"}, {"build.", 1, "15:10"}, {"tell}", 1, "8:2"}, {"item.n", 1, ""}, {"nightly", 1, ""},
	} {
		if got := lines(decode[[]location](t, c.ask("textDocument/definition", place(uri, nightly, x.word, x.nth)))); got != x.want {
			t.Errorf("%s is defined at %q, want %q", x.word, got, x.want)
		}
	}
	var names []string
	var list func([]documentSymbol, string)
	list = func(ss []documentSymbol, indent string) {
		for _, s := range ss {
			names = append(names, indent+s.Name)
			list(s.Children, indent+" ")
		}
	}
	list(decode[[]documentSymbol](t, c.ask("textDocument/documentSymbol", place(uri, nightly, "name", 1))), "")
	want := []string{"name", "env", "parameters", " required", "  target", "handlers", " tell", "  shell: notify", "setup", " shell: make items.json", "map", " agent_template",
		"  build", "   on_failure", "    shell: echo ${item.name}", "  shell: echo ${size} ${build.output}"}
	if !slices.Equal(names[:min(len(names), len(want))], want) {
		t.Errorf("got %q", names)
	}
}

// A file that a workflow takes in is read when it changes, and a path leads to it.
func TestWorkflowImports(t *testing.T) {
	dir := t.TempDir()
	uri, other := fileURI(filepath.Join(dir, "main.yml")), filepath.Join(dir, "base.yml")
	text := "extends: base.yml\ncommands:\n  - shell: x\n"
	c := connect(t, full())
	c.open(uri, text)
	if got := messages(c.problems[uri]); !strings.Contains(got, "base.yml") {
		t.Fatal(got)
	}
	if err := os.WriteFile(other, []byte("name: base\ntimeuot: 3s\ncommands: [{shell: y}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.notify("textDocument/didSave", map[string]any{"textDocument": map[string]any{"uri": uri}})
	if got := messages(c.problems[uri]); got != "" {
		t.Error(got)
	}
	if got := messages(c.problems[fileURI(other)]); !strings.Contains(got, `1:0 unknown key "timeuot"`) {
		t.Error(got)
	}
	at := decode[[]location](t, c.ask("textDocument/definition", place(uri, text, "base", 1)))
	if len(at) != 1 || at[0].URI != fileURI(other) {
		t.Errorf("%+v", at)
	}
	c.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": uri}})
	if got := messages(c.problems[fileURI(other)]); got != "" {
		t.Errorf("after the end: %s", got)
	}
}

// A manifest has its problems at their places, fixes for them, and its modules
// as symbols.
func TestManifestInTheEditor(t *testing.T) {
	const text = "modules:\n  - name: Fetch\n    params: {id: Int}\n    result: Strng\n    shell: [fetch]\n    exti: {fatal: [2]}\n"
	uri := fileURI(filepath.Join(t.TempDir(), "modules.yml"))
	c := connect(t, full())
	c.open(uri, text)
	d := &document{}
	d.setText(text)
	got := text
	for _, a := range decode[[]codeAction](t, c.ask("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": uri}, "range": textRange{End: d.position(len(text))}})) {
		got = applied(t, got, a.Edit.Changes[uri])
	}
	if want := strings.NewReplacer("Strng", "String", "exti", "exit").Replace(text); got != want {
		t.Errorf("%s\nbecame\n%s", messages(c.problems[uri]), got)
	}
	list := decode[[]documentSymbol](t, c.ask("textDocument/documentSymbol", place(uri, text, "modules", 1)))
	if len(list) != 1 || len(list[0].Children) != 1 || list[0].Children[0].Name != "Fetch" {
		t.Errorf("%+v", list)
	}
}

// TestHoverOfAnOlderSpelling: it says what the key means, and not only what it is called now.
func TestHoverOfAnOlderSpelling(t *testing.T) {
	keys := keysAt([]string{"commands", ""})
	retry, config := keys["retry"], keys["retry_config"]
	if retry.doc == "" || config.doc != "the same as retry: "+retry.doc {
		t.Errorf("%q, and of retry %q", config.doc, retry.doc)
	}
}
