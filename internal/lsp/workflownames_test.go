package lsp

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// deploy has every way in which a workflow names things.
const deploy = `env:
  LEVEL: debug
parameters:
  required:
    - {name: target, type: string}
profiles:
  fast: {RATE: "9"}
active_profile: fast
agents:
  helper: {command: [ask, "${prompt}"]}
handlers:
  tell:
    - shell: notify ${target}
templates:
  greet:
    commands: [{shell: echo hi}]
commands:
  - id: build
    shell: make ${target} LEVEL=$LEVEL RATE=${RATE}
    capture: size
  - shell: 'echo "${size}" ${build.output} ''${build.exit_code}'''
    when: size > 3 && build.success && "${size} size" != 'build' && item.size == 1
  - shell: |
      echo one ${size:-0}
      echo two $size $LEVEL
  - helper: "is ${size} good?"
    retry: {attempts: 2, until: "size != ''"}
  - use: greet
    on_failure:
      - shell: echo ${helper.output}
`

func TestWorkflowNames(t *testing.T) {
	c, uri := workflowSession(t, deploy)
	for _, x := range []struct {
		word  string
		nth   int
		marks string // what is at the places, in their order
		to    string
		text  []string // what must be in the text then
	}{
		{"build", 1, "18 21 21 22", "make-it", []string{"id: make-it\n", "${make-it.output}", "${make-it.exit_code}", "make-it.success", "!= 'build'"}},
		{"size", 2, "20 21 22 22 24 25 26 27", "bytes", []string{"capture: bytes", `"${bytes}"`, "bytes > 3", `"${bytes} size"`, "item.size == 1", "${bytes:-0}", "$bytes $LEVEL", "bytes != ''"}},
		{"LEVEL", 3, "2 19 25", "LOG-LEVEL", []string{"LOG-LEVEL: debug", "LEVEL=${LOG-LEVEL} ", "$size ${LOG-LEVEL}"}},
		{"target", 1, "5 13 19", "aim", []string{"{name: aim,", "notify ${aim}", "make ${aim} "}},
		{"RATE", 3, "7 19", "PACE", []string{`{PACE: "9"}`, "RATE=${PACE}"}},
		{"fast", 2, "7 8", "quick", []string{"  quick: {", "active_profile: quick"}},
		{"helper", 2, "10 26 30", "adviser", []string{"  adviser: {", "- adviser:", "${adviser.output}"}},
		{"greet", 2, "15 28", "hello", []string{"  hello:\n", "use: hello"}},
	} {
		got := decode[[]location](t, c.ask("textDocument/references", place(uri, deploy, x.word, x.nth)))
		var marks []int
		d := &document{}
		d.setText(deploy)
		for _, l := range got {
			from, err := d.offset(l.Range.Start)
			to, err2 := d.offset(l.Range.End)
			if err != nil || err2 != nil || d.text[from:to] != x.word {
				t.Errorf("%s: %+v marks %q", x.word, l.Range, d.text[from:to])
			}
			marks = append(marks, l.Range.Start.Line+1)
		}
		slices.Sort(marks)
		if got := strings.Trim(fmt.Sprint(marks), "[]"); got != x.marks {
			t.Errorf("%s is on the lines %s, want %s", x.word, got, x.marks)
		}
		if string(c.ask("textDocument/prepareRename", place(uri, deploy, x.word, x.nth))) == "null" {
			t.Errorf("%s cannot be changed", x.word)
		}
		edit := decode[workspaceEdit](t, c.ask("textDocument/rename", with(place(uri, deploy, x.word, x.nth), "newName", x.to)))
		changed := applied(t, deploy, edit.Changes[uri])
		for _, want := range x.text {
			if !strings.Contains(changed, want) {
				t.Errorf("%s → %s: no %q in\n%s", x.word, x.to, want, changed)
			}
		}
		c.write(uri, changed)
		for _, p := range c.problems[uri] {
			if p.Severity == 1 && p.Code != "misplaced-variable" || p.Code == "unknown-variable" {
				t.Errorf("%s → %s: %s", x.word, x.to, p.Message)
			}
		}
		c.write(uri, deploy)
	}
	// Without where it is given, and what cannot be changed.
	without := place(uri, deploy, "target", 1)
	without["context"] = map[string]any{"includeDeclaration": false}
	if got := lines(decode[[]location](t, c.ask("textDocument/references", without))); got != "12:22 18:18" {
		t.Errorf("uses of target: %s", got)
	}
	for _, x := range []struct {
		word string
		nth  int
		to   string
	}{
		{"target", 1, "LEVEL"}, {"target", 1, "item"}, {"target", 1, "1st"}, {"target", 1, "a b"}, {"fast", 1, "a: b"}, {"prompt", 1, "x"}, {"item", 1, "x"}, {"commands", 2, "x"}, {"notify", 1, "x"},
	} {
		if result, failure := c.try("textDocument/rename", with(place(uri, deploy, x.word, x.nth), "newName", x.to)); failure == nil {
			t.Errorf("%s → %q: %s", x.word, x.to, result)
		}
	}
	for _, word := range []string{"prompt", "notify", "echo"} {
		if got := string(c.ask("textDocument/prepareRename", place(uri, deploy, word, 1))); got != "null" {
			t.Errorf("%s can be changed: %s", word, got)
		}
	}
}

// Keys of a manifest are offered and explained where they belong, and the
// parameters of a module within its texts.
func TestManifestCompletionAndHover(t *testing.T) {
	const text = `modules:
  - name: Page
    params: {id: Int, lang: String}
    result: String
    http:
      url: "https://example.com/{id}?l={lang}"
      status: {success: [2xx]}
  - name: Build
    params: {n: Int}
    result: String
    workflow: {file: build.yml, output: x}
`
	uri := fileURI(filepath.Join(t.TempDir(), "modules.yml"))
	c := connect(t, full())
	c.open(uri, text)
	if got := messages(c.problems[uri]); got != "" {
		t.Fatal(got)
	}
	for _, x := range []struct {
		word string
		nth  int
		want string
	}{
		{"params", 1, "its inputs"}, {"url", 1, "where to"}, {"status", 1, "408, 425"}, {"success", 1, "are a success"}, {"output", 1, "record of variables"},
		{"id}?", 1, "id: Int"}, {"lang}", 1, "lang: String"}, {"Page", 1, ""}, {"modules", 1, "what pipelines"},
	} {
		got := string(c.ask("textDocument/hover", place(uri, text, x.word, x.nth)))
		if (x.want == "") != (got == "null") || !strings.Contains(got, x.want) {
			t.Errorf("%s: %s", x.word, got)
		}
	}
	head := "modules:\n  - name: Page\n    params: {id: Int, lang: String}\n    result: String\n"
	for _, x := range []struct {
		text      string // with ^ where the cursor is
		want, not []string
	}{
		{"modules:\n  - ^", []string{"name", "shell", "http"}, []string{"url", "modules"}},
		{head + "    ^", []string{"shell", "exit", "env"}, []string{"name", "params", "url"}},
		{head + "    sh^\n", []string{"shell"}, []string{"name"}},
		{head + "    http:\n      ^", []string{"url", "method", "status"}, []string{"shell", "prompt"}},
		{head + "    http: {url: \"https://x/\", ^}", []string{"method", "body"}, []string{"url", "shell"}},
		{head + "    http:\n      method: ^\n      url: https://x/\n", []string{"GET", "POST"}, []string{"url", "shell"}},
		{head + "    http:\n      url: https://x/{^}\n", []string{"id", "lang"}, []string{"method"}},
		{head + "    http:\n      url: \"https://x/{l^\"\n", []string{"lang"}, []string{"method"}},
		{head + "    agent: {prompt: \"x {^}\"}\n", []string{"id", "lang"}, []string{"provider"}},
		{head + "    shell: x\n    output: ^\n", []string{"json", "text"}, []string{"shell"}},
		{head + "    shell: x\n    exit: {^}\n", []string{"success", "retryable", "fatal"}, []string{"shell"}},
		{"modules:\n  - name: Page\n    result: ^\n", []string{"String", "List<String>"}, []string{"shell"}},
		{"modules:\n  - name: Page\n    params:\n      id: ^\n", []string{"Int"}, []string{"shell"}},
	} {
		before, after, _ := strings.Cut(x.text, "^")
		c.write(uri, head+"    shell: x\n") // well formed
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
	c.write(uri, text)
	if _, failure := c.try("textDocument/rename", with(place(uri, text, "Page", 1), "newName", "x")); failure == nil {
		t.Error("the name of a module is changed here, and not in the pipelines")
	}
}
