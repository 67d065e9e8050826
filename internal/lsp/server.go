// Package lsp is a language server for pipelines: it reads requests of an
// editor from one stream and writes answers to another, as the language
// server protocol says (JSON-RPC 2.0 with Content-Length headers, usually
// over standard input and output).
//
// It reports problems while a source is being written, completes names,
// options and their values, explains what the pointer is on, and formats.
// What only a parser knows it knows itself. Types, modules and their
// functions come from the functions in [Options], which the caller plugs in.
package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// Options says what the server knows beyond the syntax. Every field may be
// left out.
type Options struct {
	// Version is the program's, told to the editor.
	Version string
	// Check gives the problems of a file beyond those of the syntax; the file
	// may have such as well.
	Check func(*syntax.File) diag.List
	// Hover explains what stands at an offset, in Markdown; false if it
	// has nothing to say, and the server says what it knows.
	Hover func(f *syntax.File, offset int32) (string, syntax.Span, bool)
	// Complete gives completions for a place, beyond those of the server.
	// Those that do not begin with what is written there are left out.
	Complete func(f *syntax.File, place syntax.Place) []Item
}

// Item is one completion.
type Item struct {
	Label         string // what is inserted
	Kind          ItemKind
	Detail        string // a few words beside it
	Documentation string // Markdown
}

// Serve answers an editor until it asks to exit, the input ends or the
// context is done, which is looked at between two messages: a caller that
// wants to end it sooner closes in. It answers one message after another in
// the order they come, in the calling goroutine. An end without a
// "shutdown" before it is an error.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	s := &server{conn: conn{in: bufio.NewReader(in), out: out}, options: o, documents: map[string]*document{}}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		body, err := s.conn.read()
		if errors.Is(err, io.EOF) && s.shutdown {
			return nil
		}
		if err != nil {
			return fmt.Errorf("language server: %w", err)
		}
		if err := s.handle(body); err != nil {
			if errors.Is(err, errExit) && s.shutdown {
				return nil
			}
			return fmt.Errorf("language server: %w", err)
		}
	}
}

var errExit = errors.New("the editor left without a shutdown")

type server struct {
	conn      conn
	options   Options
	documents map[string]*document

	initialized, shutdown bool
}

// handle answers one message. Its error ends the server.
func (s *server) handle(body []byte) error {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return s.conn.answer(nil, nil, &rpcError{codeParseError, "this is no JSON-RPC message: " + err.Error()})
	}
	if m.Method == "" {
		if len(m.ID) > 0 {
			return nil // an answer; nothing was asked
		}
		return s.conn.answer(nil, nil, &rpcError{codeInvalidRequest, "the message has no method"})
	}
	if m.Method == "exit" {
		return errExit
	}
	if len(m.ID) == 0 {
		return s.notification(m)
	}
	result, failure := s.request(m)
	return s.conn.answer(m.ID, result, failure)
}

// request answers a request.
func (s *server) request(m message) (any, *rpcError) {
	switch {
	case s.shutdown:
		return nil, &rpcError{codeInvalidRequest, "the server was shut down"}
	case m.Method == "initialize":
		s.initialized = true
		return s.initialize(), nil
	case !s.initialized:
		return nil, &rpcError{codeNotInitialized, "the first request must be \"initialize\""}
	case m.Method == "shutdown":
		s.shutdown = true
		return nil, nil
	}
	var answer func(*document, documentParams) (any, error)
	switch m.Method {
	case "textDocument/hover":
		answer = s.hover
	case "textDocument/completion":
		answer = s.completion
	case "textDocument/formatting":
		answer = s.formatting
	default:
		return nil, &rpcError{codeMethodNotFound, fmt.Sprintf("there is no method %q", m.Method)}
	}
	var p documentParams
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil, &rpcError{codeInvalidParams, err.Error()}
	}
	d := s.documents[p.TextDocument.URI]
	if d == nil {
		return nil, &rpcError{codeInvalidParams, fmt.Sprintf("the document %q is not open", p.TextDocument.URI)}
	}
	result, err := answer(d, p)
	if err != nil {
		return nil, &rpcError{codeInvalidParams, err.Error()}
	}
	return result, nil
}

func (s *server) initialize() any {
	var r initializeResult
	c := &r.Capabilities
	c.PositionEncoding = "utf-16"
	c.TextDocumentSync.OpenClose = true
	c.TextDocumentSync.Change = 2
	c.HoverProvider = true
	c.CompletionProvider.TriggerCharacters = []string{".", ":", ",", "@", " "}
	c.DocumentFormattingProvider = true
	r.ServerInfo.Name, r.ServerInfo.Version = "bide", s.options.Version
	return r
}

// notification acts on a notification. One that is not known or makes no
// sense is passed over: the protocol has no answer to it.
func (s *server) notification(m message) error {
	if !s.initialized || s.shutdown {
		return nil
	}
	switch m.Method {
	case "textDocument/didOpen":
		var p documentParams
		if json.Unmarshal(m.Params, &p) != nil {
			return nil
		}
		d := &document{uri: p.TextDocument.URI, version: p.TextDocument.Version}
		return s.changed(d, d.change(nil, p.TextDocument.Text))
	case "textDocument/didChange":
		var p changeParams
		if json.Unmarshal(m.Params, &p) != nil {
			return nil
		}
		d := s.documents[p.TextDocument.URI]
		if d == nil {
			return nil
		}
		d.version = p.TextDocument.Version
		for _, c := range p.ContentChanges {
			if err := d.change(c.Range, c.Text); err != nil {
				return s.changed(d, err)
			}
		}
		return s.changed(d, nil)
	case "textDocument/didClose":
		var p documentParams
		if json.Unmarshal(m.Params, &p) != nil {
			return nil
		}
		delete(s.documents, p.TextDocument.URI)
		return s.conn.notify("textDocument/publishDiagnostics", diagnosticsParams{URI: p.TextDocument.URI, Diagnostics: []diagnostic{}})
	}
	return nil
}

// changed parses a document anew and publishes its problems. failure is what
// went wrong with the change; the document is then closed, since its text is
// no longer known.
func (s *server) changed(d *document, failure error) error {
	if failure != nil {
		delete(s.documents, d.uri)
		return s.conn.notify("window/showMessage", map[string]any{
			"type": 1, "message": fmt.Sprintf("bide: a change of %s makes no sense: %v; close and open it again", fileName(d.uri), failure),
		})
	}
	s.documents[d.uri] = d
	d.parse()
	problems := d.parsed
	if s.options.Check != nil {
		problems = append(problems[:len(problems):len(problems)], s.options.Check(d.file)...)
		problems.Sort()
	}
	p := diagnosticsParams{URI: d.uri, Version: d.version, Diagnostics: []diagnostic{}}
	for _, problem := range problems {
		p.Diagnostics = append(p.Diagnostics, d.diagnostic(problem))
	}
	return s.conn.notify("textDocument/publishDiagnostics", p)
}

func (d *document) diagnostic(p diag.Problem) diagnostic {
	text := p.Message
	if p.Suggestion != "" {
		text += "\n" + p.Suggestion
	}
	severity := 1
	if p.Severity == diag.Warning {
		severity = 2
	}
	return diagnostic{Range: d.problemRange(p), Severity: severity, Code: p.Code, Source: "bide", Message: text}
}

// formatting gives one edit that replaces the whole text, none if it is
// formatted already, and nothing if it has errors.
func (s *server) formatting(d *document, _ documentParams) (any, error) {
	if d.parsed.HasErrors() {
		return nil, nil
	}
	text := string(syntax.Format(d.file))
	if text == d.text {
		return []textEdit{}, nil
	}
	return []textEdit{{Range: textRange{End: d.position(len(d.text))}, NewText: text}}, nil
}
