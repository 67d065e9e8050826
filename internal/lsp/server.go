// Package lsp is a language server for pipelines and workflow files: it reads
// requests of an editor from one stream and writes answers to another, as the
// language server protocol says (JSON-RPC 2.0 with Content-Length headers,
// usually over standard input and output).
//
// What it says of a pipeline it reads from what the checker resolved
// (check.Info); what it says of a workflow from the problems that package
// workflow finds and from its table of keys, by way of the schema. Files that
// an open one depends on (a manifest, imports) are read when they change, as
// the editor has them.
package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/workflow"
)

// Options says what the server knows beyond the languages. Every field may be
// left out.
type Options struct {
	// Version is the program's, told to the editor.
	Version string
	// Modules gives what the pipeline at a path can call, nil if that cannot be
	// found out, and what is wrong with its manifest and other files.
	Modules func(path string, read func(string) ([]byte, error)) (*check.Env, diag.List)
	// Workflow gives the problems of a workflow that only who runs it sees.
	Workflow func(*workflow.File) diag.List
	// First are whole files to begin with.
	First []FirstFile
}

// FirstFile is a whole file to begin with.
type FirstFile struct {
	Label, Detail string
	Text          string
}

// Serve answers an editor until it asks to exit, the input ends or the
// context is done, which is looked at between two messages: a caller that
// wants to end it sooner closes in. It answers one message after another in
// the order they come, in the calling goroutine. An end without a
// "shutdown" before it is an error.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	s := &server{conn: conn{in: bufio.NewReader(in), out: out}, options: o, documents: map[string]*document{}, published: map[string]map[string]diag.List{}}
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
	documents map[string]*document            // by URI
	published map[string]map[string]diag.List // of files that are not open: by URI, by the open document that they matter to

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

// answers are the requests that are about a place in a document.
var answers = map[string]func(*server, *document, documentParams, int) (any, error){
	"textDocument/hover":               (*server).hover,
	"textDocument/completion":          (*server).completion,
	"textDocument/signatureHelp":       (*server).signatureHelp,
	"textDocument/definition":          (*server).definition,
	"textDocument/references":          (*server).references,
	"textDocument/prepareRename":       (*server).prepareRename,
	"textDocument/rename":              (*server).rename,
	"textDocument/documentSymbol":      (*server).documentSymbols,
	"textDocument/codeAction":          (*server).codeActions,
	"textDocument/formatting":          (*server).formatting,
	"textDocument/inlayHint":           (*server).inlayHints,
	"textDocument/semanticTokens/full": (*server).semanticTokens,
}

// request answers a request. A panic is a mistake of ours: the editor is told,
// the trace goes to standard error, and the server continues.
func (s *server) request(m message) (result any, failure *rpcError) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "bide lsp: %s: panic: %v\n%s", m.Method, r, debug.Stack())
			result, failure = nil, &rpcError{codeInternal, fmt.Sprintf("a mistake in bide: %v", r)}
		}
	}()
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
	answer := answers[m.Method]
	if answer == nil {
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
	at, err := d.offset(p.Position)
	if err == nil && d.kind != nil {
		result, err = answer(s, d, p, at)
	}
	if err != nil {
		return nil, &rpcError{codeInvalidParams, err.Error()}
	}
	return result, nil
}

func (s *server) initialize() any {
	var r initializeResult
	c := &r.Capabilities
	c.PositionEncoding = "utf-16"
	c.TextDocumentSync.OpenClose, c.TextDocumentSync.Change, c.TextDocumentSync.Save = true, 2, true
	c.CompletionProvider.TriggerCharacters = []string{".", ":", ",", "@", " ", "{"}
	c.SignatureHelpProvider.TriggerCharacters = []string{"(", ","}
	c.CodeActionProvider.CodeActionKinds = []string{quickFix}
	c.RenameProvider.PrepareProvider = true
	c.HoverProvider, c.DefinitionProvider, c.ReferencesProvider, c.DocumentSymbolProvider = true, true, true, true
	c.DocumentFormattingProvider, c.InlayHintProvider, c.SemanticTokensProvider.Full = true, true, true
	c.SemanticTokensProvider.Legend.TokenTypes = tokenTypes
	c.SemanticTokensProvider.Legend.TokenModifiers = tokenModifiers
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
		d := &document{uri: p.TextDocument.URI, language: p.TextDocument.LanguageID, version: p.TextDocument.Version}
		d.path = fileName(d.uri)
		d.setText(p.TextDocument.Text)
		delete(s.published, d.uri)
		return s.changed(d, nil)
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
		if json.Unmarshal(m.Params, &p) != nil || s.documents[p.TextDocument.URI] == nil {
			return nil
		}
		return s.closed(s.documents[p.TextDocument.URI])
	case "textDocument/didSave", "workspace/didChangeWatchedFiles":
		return s.dependents(nil)
	}
	return nil
}

// changed analyses a document anew and publishes its problems. failure is what
// went wrong with the change; the document is then closed, since its text is
// no longer known.
func (s *server) changed(d *document, failure error) error {
	if failure != nil {
		delete(s.documents, d.uri)
		return s.conn.notify("window/showMessage", map[string]any{
			"type": 1, "message": fmt.Sprintf("bide: a change of %s makes no sense: %v; close and open it again", d.path, failure),
		})
	}
	s.documents[d.uri] = d
	if err := s.analyse(d); err != nil {
		return err
	}
	return s.dependents(d)
}

// dependents analyses those open documents anew that depend on a file which has
// changed, all but d.
func (s *server) dependents(d *document) error {
	for _, uri := range slices.Sorted(maps.Keys(s.documents)) {
		if other := s.documents[uri]; other != d && other.deps != nil && !other.deps.fresh() {
			if err := s.analyse(other); err != nil {
				return err
			}
		}
	}
	return nil
}

// closed forgets a document, and publishes that it has no problems, nor have
// the files that only it was the reason to look at.
func (s *server) closed(d *document) error {
	delete(s.documents, d.uri)
	if err := s.conn.notify("textDocument/publishDiagnostics", diagnosticsParams{URI: d.uri, Diagnostics: []diagnostic{}}); err != nil {
		return err
	}
	if err := s.publishOthers(d, nil); err != nil {
		return err
	}
	return s.dependents(nil)
}

// analyse finds out everything about a document and publishes the problems.
func (s *server) analyse(d *document) (err error) {
	if kind := kindOf(d); reflect.TypeOf(kind) != reflect.TypeOf(d.kind) {
		d.kind = kind
	}
	others := map[string]diag.List{}
	d.problems = nil
	for _, p := range s.find(d) {
		if p.File == "" || p.File == d.path || absolute(p.File) == absolute(d.path) {
			d.problems = append(d.problems, p)
		} else {
			uri := fileURI(p.File)
			others[uri] = append(others[uri], p)
		}
	}
	d.problems.Sort()
	p := diagnosticsParams{URI: d.uri, Version: d.version, Diagnostics: []diagnostic{}}
	for _, problem := range d.problems {
		p.Diagnostics = append(p.Diagnostics, d.diagnostic(problem))
	}
	if err := s.conn.notify("textDocument/publishDiagnostics", p); err != nil {
		return err
	}
	return s.publishOthers(d, others)
}

// find gives every problem. A panic is one, too.
func (s *server) find(d *document) (problems diag.List) {
	if d.kind == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "bide lsp: %s: panic: %v\n%s", d.uri, r, debug.Stack())
			problems = diag.List{{Code: "internal", Message: fmt.Sprintf("a mistake in bide: %v", r)}}
			d.kind = nil
		}
	}()
	return d.kind.analyse(s, d)
}

// publishOthers publishes the problems of files that are not open but matter to
// d, and that those which no longer have any have none.
func (s *server) publishOthers(d *document, others map[string]diag.List) error {
	was := d.others
	d.others = map[string]bool{}
	for uri, list := range others {
		d.others[uri] = true
		if s.published[uri] == nil {
			s.published[uri] = map[string]diag.List{}
		}
		s.published[uri][d.uri] = list
	}
	for uri := range was {
		if !d.others[uri] {
			delete(s.published[uri], d.uri)
		}
	}
	all := maps.Clone(was)
	if all == nil {
		all = map[string]bool{}
	}
	maps.Copy(all, d.others)
	for _, uri := range slices.Sorted(maps.Keys(all)) {
		if s.documents[uri] != nil {
			continue // it has its own
		}
		file := &document{uri: uri, path: fileName(uri)}
		text, _ := os.ReadFile(file.path) // without it, columns are not exact
		file.setText(string(text))
		var list diag.List
		for _, from := range slices.Sorted(maps.Keys(s.published[uri])) {
			list = append(list, s.published[uri][from]...)
		}
		list.Sort()
		p := diagnosticsParams{URI: uri, Diagnostics: []diagnostic{}}
		for _, problem := range list {
			p.Diagnostics = append(p.Diagnostics, file.diagnostic(problem))
		}
		if err := s.conn.notify("textDocument/publishDiagnostics", p); err != nil {
			return err
		}
	}
	return nil
}

// kindOf tells the languages apart by name, and YAML files by what is in them:
// of a file that is neither workflow nor manifest nothing is said.
func kindOf(d *document) language {
	switch ext := strings.ToLower(filepath.Ext(d.path)); {
	case ext == ".cst" || d.language == "cst":
		return &pipelineFile{}
	case ext == ".yml" || ext == ".yaml" || d.language == "yaml":
		return yamlKind(d)
	}
	return nil
}
