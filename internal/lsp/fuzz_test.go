package lsp

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"
)

// requests are all that a document can be asked.
var requests = []string{"hover", "completion", "signatureHelp", "definition", "references", "prepareRename", "rename", "documentSymbol", "codeAction", "formatting", "inlayHint", "semanticTokens/full"}

// FuzzServe opens a file, and makes random edits of it between random requests
// for random places: no answer is a panic, and the server comes to its end.
func FuzzServe(f *testing.F) {
	for i, text := range []string{flowText, hoverSource, nightly, "modules:\n  - name: A\n    params: {id: Int}\n    result: Int\n    http: {url: \"https://x/{id}\"}\n", deploy, "x = \"é𝄞\" y = x out y", "- shell: a ${b", "commands: [{shell: x, timuot: 3}]"} {
		f.Add(text, uint64(i), true)
		f.Add(text, uint64(i), false)
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64, pipeline bool) {
		if len(text) > 1<<16 {
			t.Skip()
		}
		uri := "file:///nowhere/flow.bide.yml"
		if strings.HasPrefix(text, "modules:") {
			uri = "file:///nowhere/modules.yml"
		}
		if pipeline {
			uri = "file:///nowhere/flow.cst"
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		anywhere := func() map[string]any { return map[string]any{"line": rnd.IntN(20), "character": rnd.IntN(40)} }
		doc := map[string]any{"uri": uri, "version": 1, "text": text}
		var script strings.Builder
		script.WriteString(frame("initialize", 1, nil) + frame("textDocument/didOpen", 0, map[string]any{"textDocument": doc}))
		pieces := []string{"", "\n", "{", "}", "\"", "${", ": ", "(", "x", "- ", "é", " with retry: ", "  ", text[:min(len(text), rnd.IntN(len(text)+1))]}
		for i := range 12 {
			a, b := anywhere(), anywhere()
			if b["line"].(int) < a["line"].(int) || b["line"] == a["line"] && b["character"].(int) < a["character"].(int) {
				a, b = b, a
			}
			if i%3 == 2 {
				script.WriteString(frame("textDocument/didChange", 0, map[string]any{"textDocument": doc, "contentChanges": []any{
					map[string]any{"text": pieces[rnd.IntN(len(pieces))], "range": map[string]any{"start": a, "end": b}}}}))
				continue
			}
			script.WriteString(frame("textDocument/"+requests[rnd.IntN(len(requests))], i+2, map[string]any{"textDocument": doc, "position": a, "range": map[string]any{"start": a, "end": b}, "newName": "name"}))
		}
		script.WriteString(frame("shutdown", 99, nil))
		var out bytes.Buffer
		if err := Serve(context.Background(), strings.NewReader(script.String()), &out, full()); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Contains(got, "a mistake in bide") {
			t.Fatalf("%q, seed %d: %s", text, seed, got)
		}
	})
}
