package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
)

// client is an editor that talks to a server over pipes.
type client struct {
	t    testing.TB
	in   io.WriteCloser
	out  conn
	done chan error
	id   int
	// problems are the last ones published, by URI.
	problems map[string][]diagnostic
	versions map[string]int
}

// connect begins a session, which ends with the test.
func connect(t testing.TB, o Options) *client {
	t.Helper()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	c := &client{t: t, in: in, out: conn{in: bufio.NewReader(out)}, done: make(chan error, 1), problems: map[string][]diagnostic{}, versions: map[string]int{}}
	go func() {
		err := Serve(context.Background(), toServer, fromServer, o)
		fromServer.Close()
		toServer.Close()
		c.done <- err
	}()
	c.ask("initialize", map[string]any{})
	t.Cleanup(func() {
		c.ask("shutdown", nil)
		c.tell("exit", nil)
		if err := <-c.done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// full reads manifests as the program does. (What it plugs in itself would link the
// whole engine, which makes fuzzing slow; TestScripts of package cli has that.)
func full() Options {
	return Options{Modules: func(path string, read func(string) ([]byte, error)) (*check.Env, diag.List) {
		manifest := filepath.Join(filepath.Dir(path), "modules.yml")
		src, err := read(manifest)
		if errors.Is(err, fs.ErrNotExist) {
			env, _ := check.NewEnv(stdlib.Samples()...)
			env.NoManifest = manifest
			return env, nil
		}
		var modules []module.Module
		defs, _, problems := module.ParseManifest(manifest, src)
		for _, d := range defs {
			modules = append(modules, module.Bind(d, nil))
		}
		env, _ := check.NewEnv(modules...)
		return env, problems
	}}
}

func (c *client) tell(method string, params any) {
	if _, err := io.WriteString(c.in, frame(method, 0, params)); err != nil && method != "exit" {
		c.t.Fatal(err)
	}
}

// try sends a request and gives its answer; what is published before it is kept.
func (c *client) try(method string, params any) (json.RawMessage, *rpcError) {
	c.t.Helper()
	c.id++
	return c.exchange(frame(method, c.id, params))
}

// exchange sends messages of which the last is a request, and gives its answer.
func (c *client) exchange(messages string) (json.RawMessage, *rpcError) {
	c.t.Helper()
	go io.WriteString(c.in, messages) // the server may be publishing
	for {
		body, err := c.out.read()
		if err != nil {
			c.t.Fatal(err)
		}
		r := decodeIn[reply](c.t, body)
		if r.Method == "textDocument/publishDiagnostics" {
			p := decodeIn[diagnosticsParams](c.t, r.Params)
			c.problems[p.URI] = p.Diagnostics
		}
		if string(r.ID) == fmt.Sprint(c.id) {
			return r.Result, r.Error
		}
	}
}

func (c *client) ask(method string, params any) json.RawMessage {
	c.t.Helper()
	result, failure := c.try(method, params)
	if failure != nil {
		c.t.Fatalf("%s: %v", method, failure)
	}
	return result
}

func (c *client) open(uri, text string) {
	c.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": uri, "version": 1, "text": text}})
	c.versions[uri] = 1
}

func (c *client) write(uri, text string) {
	c.versions[uri]++
	c.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": c.versions[uri]}, "contentChanges": []any{map[string]any{"text": text}}})
}

// notify is tell, and waits for what comes of it: the server answers in order.
func (c *client) notify(method string, params any) {
	c.t.Helper()
	c.id++
	c.exchange(frame(method, 0, params) + frame("bide/none", c.id, map[string]any{}))
}

func decodeIn[T any](t testing.TB, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

// place gives the parameters for the place of a mark in a text: the nth time that
// word is in it, its first character.
func place(uri, text, word string, nth int) map[string]any {
	offset := 0
	for {
		i := strings.Index(text[offset:], word)
		if i < 0 {
			panic(fmt.Sprintf("no %q in %q", word, text))
		}
		if nth--; nth == 0 {
			offset += i
			break
		}
		offset += i + len(word)
	}
	d := &document{}
	d.setText(text)
	return map[string]any{"textDocument": map[string]any{"uri": uri}, "position": d.position(offset), "range": textRange{d.position(offset), d.position(offset)},
		"context": map[string]any{"includeDeclaration": true}}
}

func with(params map[string]any, key string, value any) map[string]any {
	params[key] = value
	return params
}

// applied is a text with edits made.
func applied(t testing.TB, text string, edits []textEdit) string {
	t.Helper()
	d := &document{}
	d.setText(text)
	slices.SortFunc(edits, func(a, b textEdit) int {
		return 1000*(b.Range.Start.Line-a.Range.Start.Line) + b.Range.Start.Character - a.Range.Start.Character
	})
	for _, e := range edits {
		if err := d.change(&e.Range, e.NewText); err != nil {
			t.Fatal(err)
		}
	}
	return d.text
}

// lines shows ranges as "line:character line:character".
func lines(list []location) string {
	var out []string
	for _, l := range list {
		out = append(out, fmt.Sprintf("%d:%d", l.Range.Start.Line, l.Range.Start.Character))
	}
	return strings.Join(out, " ")
}

func messages(list []diagnostic) string {
	var out []string
	for _, d := range list {
		out = append(out, fmt.Sprintf("%d:%d %s", d.Range.Start.Line, d.Range.Start.Character, strings.ReplaceAll(d.Message, "\n", "; ")))
	}
	return strings.Join(out, "\n")
}
