package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The server that an editor starts knows what check knows: the modules of the
// manifest, with what is wrong in it, and the pipelines that steps run.
func TestLanguageServerOfTheProgram(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules.yml": "modules:\n  - name: Fetch\n    params: {id: Int}\n    result: Strng\n    shell: [fetch]\n",
		"good.cst":    "x = Trim(\"a\")\nout x\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var in strings.Builder
	send := func(id int, method string, params any) {
		m := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
		if id > 0 {
			m["id"] = id
		}
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&in, "Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	open := func(name, text string) {
		send(0, "textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": "file://" + filepath.Join(dir, name), "version": 1, "text": text}})
	}
	send(1, "initialize", map[string]any{})
	open("flow.cst", "x = Fetch(1)\nout x\n")
	open("steps.yml", "commands:\n  - pipeline: missing.cst\n  - shell: x\n    timuot: 3s\n")
	open("new.yml", "")
	send(3, "textDocument/completion", map[string]any{"textDocument": map[string]any{"uri": "file://" + filepath.Join(dir, "new.yml")}, "position": map[string]int{"line": 0, "character": 0}})
	send(2, "shutdown", nil)
	send(0, "exit", nil)

	a, out, _ := newApp()
	a.in = strings.NewReader(in.String())
	root := a.root()
	root.SetArgs([]string{"lsp"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`Undefined type: Strng; did you mean \"String\"?`,
		`types and calls are not checked: there are errors in `,
		`unknown key \"timuot\" in a step; it is ignored\ndid you mean \"timeout\"?`,
		`missing.cst`,
		`"label":"map (bide init --mapreduce)"`,
		`"label":"workflow (bide init)"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}
