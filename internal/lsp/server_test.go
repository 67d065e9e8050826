package lsp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

const uri = "file:///pipelines/flow.cst"

// reply is any message of the server.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// frame writes a message as an editor does.
func frame(method string, id int, params any) string {
	m := map[string]any{"jsonrpc": "2.0", "method": method}
	if id > 0 {
		m["id"] = id
	}
	if params != nil {
		m["params"] = params
	}
	body, err := json.Marshal(m)
	if err != nil {
		panic(err) // the tests' own values
	}
	return fmt.Sprintf("Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n%s", len(body), body)
}

// talk runs a session: the messages are sent one after another, and what the
// server wrote is returned with Serve's error.
func talk(t *testing.T, o Options, messages ...string) ([]reply, error) {
	t.Helper()
	var out bytes.Buffer
	err := Serve(context.Background(), strings.NewReader(strings.Join(messages, "")), &out, o)
	c := conn{in: bufio.NewReader(&out)}
	var replies []reply
	for {
		body, readErr := c.read()
		if readErr == io.EOF {
			return replies, err
		}
		if readErr != nil {
			t.Fatal(readErr)
		}
		var r reply
		if e := json.Unmarshal(body, &r); e != nil {
			t.Fatal(e)
		}
		replies = append(replies, r)
	}
}

// session is talk for a whole session in which everything goes well; it
// returns what was written between the answers to initialize and shutdown.
func session(t *testing.T, o Options, messages ...string) []reply {
	t.Helper()
	all := append([]string{frame("initialize", 1, map[string]any{}), frame("initialized", 0, map[string]any{})}, messages...)
	all = append(all, frame("shutdown", 999, nil), frame("exit", 0, nil))
	replies, err := talk(t, o, all...)
	if err != nil {
		t.Fatal(err)
	}
	if len(replies) < 2 || string(replies[0].ID) != "1" || string(replies[len(replies)-1].ID) != "999" {
		t.Fatalf("%+v", replies)
	}
	return replies[1 : len(replies)-1]
}

func open(text string) string {
	return frame("textDocument/didOpen", 0, map[string]any{"textDocument": map[string]any{"uri": uri, "languageId": "cst", "version": 1, "text": text}})
}

func at(line, character int) map[string]any {
	return map[string]any{"textDocument": map[string]any{"uri": uri}, "position": map[string]any{"line": line, "character": character}}
}

func decode[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

func TestInitialize(t *testing.T) {
	replies, err := talk(t, Options{Version: "1.2"}, frame("initialize", 1, nil), frame("shutdown", 2, nil), frame("exit", 0, nil))
	if err != nil || len(replies) != 2 {
		t.Fatal(replies, err)
	}
	r := decode[initializeResult](t, replies[0].Result)
	if r.ServerInfo.Name != "bide" || r.ServerInfo.Version != "1.2" || !r.Capabilities.HoverProvider ||
		!r.Capabilities.DocumentFormattingProvider || r.Capabilities.TextDocumentSync.Change != 2 {
		t.Fatalf("%s", replies[0].Result)
	}
	if string(replies[1].Result) != "null" {
		t.Fatalf("%+v", replies[1])
	}
}

func TestDiagnostics(t *testing.T) {
	change := func(version int, changes ...any) string {
		return frame("textDocument/didChange", 0, map[string]any{"textDocument": map[string]any{"uri": uri, "version": version}, "contentChanges": changes})
	}
	replies := session(t, Options{},
		open("in x: Int\ny = \"é𝄞\" + F(x) with timeout: 30\nout y\n"),
		// Only the missing unit is put in; the place is in UTF-16 units.
		change(2, map[string]any{"text": "s", "range": map[string]any{"start": map[string]any{"line": 1, "character": 33}, "end": map[string]any{"line": 1, "character": 33}}}),
		change(3, map[string]any{"text": "x = 1\nx = )\nout x"}),
		frame("textDocument/didClose", 0, map[string]any{"textDocument": map[string]any{"uri": uri}}),
	)
	var got []string
	for _, r := range replies {
		if r.Method != "textDocument/publishDiagnostics" {
			t.Fatal(r.Method)
		}
		p := decode[diagnosticsParams](t, r.Params)
		s := "-"
		if p.Version != nil {
			s = fmt.Sprint(*p.Version)
		}
		for _, d := range p.Diagnostics {
			s += fmt.Sprintf(" %d:%d-%d:%d %d %s %q", d.Range.Start.Line, d.Range.Start.Character, d.Range.End.Line, d.Range.End.Character, d.Severity, d.Code, d.Message)
		}
		got = append(got, s)
	}
	want := []string{
		`1 1:31-1:33 1 E024 "the duration 30 has no unit\nwrite \"30ms\" or \"30s\", or another of the units ms, s, m, h, d"`,
		"2",
		`3 1:4-1:5 1 E020 "expected an expression, found \")\""`,
		"-",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(string(replies[3].Params), "null") {
		t.Fatalf("%s", replies[3].Params)
	}
}

const hoverSource = `in x: Int = 3
policy p = retry: 3
y = F(x) with timeout: 5s, policy: p
z = map(y, (x) => x + y)
m = match y { {x} -> x, _ -> x }
out z
`

func TestHover(t *testing.T) {
	for _, c := range []struct {
		line, character int
		want            string // "" for nothing
	}{
		{2, 6, "in x: Int = 3"},
		{2, 15, "timeout: 5s"},
		{2, 36, "policy p = retry: 3"},
		{3, 18, "z = map"}, // the lambda's own x
		{3, 22, "y = F(x)"},
		{4, 21, "m = match y"}, // the pattern's x
		{4, 29, "in x: Int = 3"},
		{5, 4, "z = map"},
		{2, 4, ""},
		{3, 0, "z = map"},
	} {
		replies := session(t, Options{}, open(hoverSource), frame("textDocument/hover", 5, at(c.line, c.character)))
		got := string(replies[1].Result)
		if (c.want == "") != (got == "null") || !strings.Contains(got, c.want) {
			t.Errorf("%d:%d: got %s, want %s", c.line, c.character, got, c.want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		text string // the place is at ^
		want []string
		not  []string
	}{
		{"in abc: Int\nx = ^", []string{"abc", "if", "branch"}, []string{"x", "retry", "in"}},
		{"in abc: Int\nx = ab^", []string{"abc"}, []string{"if"}},
		{"x = f(1) with ^", []string{"retry", "timeout", "policy", "jitter"}, []string{"if", "in"}},
		{"x = f(1) with retry: 3, de^", []string{"delay", "deadline"}, []string{"retry"}},
		{"x = f(1) with backoff: ^", []string{"fixed", "fibonacci"}, []string{"full"}},
		{"x = f(1) with retry_on: [ne^", []string{"network"}, []string{"timeout"}},
		{"policy flaky = retry: 1\nx = f(1) with policy: ^", []string{"flaky"}, nil},
		{"type Row = { a: Int }\nin x: ^", []string{"Row", "String", "List"}, []string{"retry"}},
		{"^", []string{"in", "out", "use"}, []string{"if"}},
		{"@^", []string{"example"}, []string{"source", "sink"}},
		{"x = list-f^", []string{"list-first"}, []string{"list-last"}},
		{"x = \"te^", nil, []string{"if"}},
	} {
		before, after, _ := strings.Cut(c.text, "^")
		line := strings.Count(before, "\n")
		character := len(before) - strings.LastIndexByte(before, '\n') - 1
		replies := session(t, Options{}, open(before+after), frame("textDocument/completion", 5, at(line, character)))
		var labels []string
		for _, item := range decode[[]completionItem](t, replies[1].Result) {
			labels = append(labels, item.Label)
			if item.TextEdit.NewText != item.Label || item.TextEdit.Range.End != (position{line, character}) {
				t.Errorf("%q: %+v", c.text, item)
			}
		}
		for _, w := range c.want {
			if !slices.Contains(labels, w) {
				t.Errorf("%q: no %q in %v", c.text, w, labels)
			}
		}
		for _, w := range c.not {
			if slices.Contains(labels, w) {
				t.Errorf("%q: %q in %v", c.text, w, labels)
			}
		}
	}
}

func TestFormatting(t *testing.T) {
	ask := frame("textDocument/formatting", 5, map[string]any{"textDocument": map[string]any{"uri": uri}, "options": map[string]any{"tabSize": 4}})
	replies := session(t, Options{}, open("in  x:Int\nout x"), ask)
	edits := decode[[]textEdit](t, replies[1].Result)
	if len(edits) != 1 || edits[0].NewText != "in x: Int\nout x\n" || edits[0].Range.End != (position{1, 5}) {
		t.Fatalf("%+v", edits)
	}
	replies = session(t, Options{}, open("in x: Int\nout x\n"), ask)
	if string(replies[1].Result) != "[]" {
		t.Fatalf("%s", replies[1].Result)
	}
	replies = session(t, Options{}, open("in x: )"), ask)
	if string(replies[1].Result) != "null" {
		t.Fatalf("%s", replies[1].Result)
	}
}

func TestProtocolErrors(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages []string
		codes    []int
		wrong    bool // Serve returns an error
	}{
		{"too early", []string{frame("textDocument/hover", 1, at(0, 0))}, []int{codeNotInitialized}, true},
		{"unknown method", []string{frame("initialize", 1, nil), frame("bide/none", 2, nil), frame("shutdown", 3, nil), frame("exit", 0, nil)}, []int{0, codeMethodNotFound, 0}, false},
		{"unknown notification", []string{frame("initialize", 1, nil), frame("$/cancelRequest", 0, nil), frame("shutdown", 3, nil)}, []int{0, 0}, false},
		{"not open", []string{frame("initialize", 1, nil), frame("textDocument/hover", 2, at(0, 0))}, []int{0, codeInvalidParams}, true},
		{"no such line", []string{frame("initialize", 1, nil), open("out x"), frame("textDocument/hover", 2, at(7, 0))}, []int{0, 0, codeInvalidParams}, true},
		{"after shutdown", []string{frame("initialize", 1, nil), frame("shutdown", 2, nil), frame("initialize", 3, nil)}, []int{0, 0, codeInvalidRequest}, false},
		{"exit without shutdown", []string{frame("initialize", 1, nil), frame("exit", 0, nil)}, []int{0}, true},
		{"no JSON", []string{"Content-Length: 3\r\n\r\n{{{"}, []int{codeParseError}, true},
		{"no method", []string{"Content-Length: 2\r\n\r\n{}"}, []int{codeInvalidRequest}, true},
		{"no length", []string{"X: 3\r\n\r\n{}"}, nil, true},
		{"bad length", []string{"Content-Length: -3\r\n\r\n{}"}, nil, true},
		{"huge length", []string{"Content-Length: 99999999999\r\n\r\n{}"}, nil, true},
		{"cut off", []string{"Content-Length: 30\r\n\r\n{}"}, nil, true},
		{"no colon", []string{"hello\r\n\r\n"}, nil, true},
		{"bad change", []string{frame("initialize", 1, nil), open("out x"), frame("textDocument/didChange", 0, map[string]any{
			"textDocument": map[string]any{"uri": uri}, "contentChanges": []any{map[string]any{"text": "", "range": map[string]any{
				"start": map[string]any{"line": 9, "character": 0}, "end": map[string]any{"line": 9, "character": 0}}}}}),
			frame("textDocument/hover", 2, at(0, 0))}, []int{0, 0, 0, codeInvalidParams}, true},
	} {
		replies, err := talk(t, Options{}, c.messages...)
		if (err != nil) != c.wrong {
			t.Errorf("%s: %v", c.name, err)
		}
		var codes []int
		for _, r := range replies {
			code := 0
			if r.Error != nil {
				code = r.Error.Code
			}
			codes = append(codes, code)
		}
		if !slices.Equal(codes, c.codes) {
			t.Errorf("%s: got %v, want %v", c.name, codes, c.codes)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Serve(ctx, strings.NewReader(""), io.Discard, Options{}); err != context.Canceled {
		t.Fatal(err)
	}
}

// What is always refused is not offered.
func TestStreamingOptionsAreNotOffered(t *testing.T) {
	text := "x = F(1) with "
	replies := session(t, Options{}, open(text), frame("textDocument/completion", 5, at(0, len(text))))
	got := string(replies[1].Result)
	if !strings.Contains(got, `"label":"retry"`) {
		t.Fatal(got)
	}
	for _, name := range []string{"batch", "batch_timeout", "window", "checkpoint", "join"} {
		if strings.Contains(got, `"label":"`+name+`"`) {
			t.Errorf("%s is offered", name)
		}
	}
}
