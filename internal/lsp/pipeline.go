package lsp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// pipelineFile is what is known of a pipeline.
type pipelineFile struct {
	file   *syntax.File
	parsed diag.List
	info   *check.Info
	env    *check.Env // what the file is checked with: never nil once it is analysed

	modules  *check.Env // what the manifest gives; nil if nobody knows
	manifest diag.List  // what is wrong with it
}

func (f *pipelineFile) analyse(s *server, d *document) diag.List {
	f.file, f.parsed = syntax.Parse(d.path, []byte(d.text))
	if s.options.Modules != nil && !d.deps.fresh() {
		d.deps = s.sources()
		f.modules, f.manifest = s.options.Modules(d.path, d.deps.read)
	}
	if f.env = f.modules; f.env == nil {
		f.env, _ = check.NewEnv() // the library alone is never wrong
	}
	var checked diag.List
	f.info, checked = check.Resolve(f.file, f.env)
	problems := slices.Concat(f.parsed, f.manifest)
	switch {
	case f.manifest.HasErrors():
		at := diag.Pos{File: d.path, Line: 1, Column: 1}
		problems.Warnf(at, "manifest", "types and calls are not checked: there are errors in %s", f.manifest[0].File)
	case f.modules != nil:
		problems = append(problems, checked...)
	}
	return problems
}

// within reports whether an offset is in a span or at its end.
func within(s syntax.Span, at int) bool { return int(s.Start) <= at && at <= int(s.End) }

// callAt gives what the call of a function calls whose name is at an offset.
func (f *pipelineFile) callAt(at int) (*check.Callee, syntax.Span) {
	for span, c := range f.info.Calls {
		if within(span, at) {
			return c, span
		}
	}
	return nil, syntax.Span{}
}

func (f *pipelineFile) hover(d *document, at int) (string, syntax.Span) {
	if s, span := f.info.At(int32(at)); s != nil {
		text := code(d.at(s.Decl.Extent()))
		if s.Type != nil && s.Kind != check.TypeSymbol && s.Type.Kind != types.InvalidKind {
			text = code(s.Name + ": " + s.Type.String())
			if !within(s.Decl.Extent(), at) {
				text = code(s.Name + ": " + s.Type.String() + "\n" + d.at(s.Decl.Extent()))
			}
		}
		return text, span
	}
	if c, span := f.callAt(at); c != nil {
		return strings.TrimSpace(code(c.Full+c.Sig.String()) + "\n" + c.Doc), span
	}
	for span, t := range f.info.Fields {
		if within(span, at) {
			return code(d.at(span) + ": " + t.String()), span
		}
	}
	return f.hoverOption(at)
}

func code(text string) string { return "```\n" + text + "\n```" }

// hoverOption explains the option whose name is at an offset.
func (f *pipelineFile) hoverOption(at int) (text string, span syntax.Span) {
	syntax.InspectFile(f.file, func(n syntax.Node) bool {
		if o, ok := n.(*syntax.Option); ok && within(o.Name.Span, at) {
			text, span = optionText(o.Kind), o.Name.Span
		}
		return within(n.Extent(), at)
	})
	return text, span
}

// definition gives where a name is defined; that of a module is in the
// manifest.
func (f *pipelineFile) definition(d *document, at int) []location {
	if s, _ := f.info.At(int32(at)); s != nil {
		return []location{{d.uri, d.span(s.Span)}}
	}
	if c, _ := f.callAt(at); c != nil && c.Pos.IsValid() {
		start := position{c.Pos.Line - 1, max(c.Pos.Column-1, 0)}
		return []location{{fileURI(c.Pos.File), textRange{start, start}}}
	}
	return nil
}

func (f *pipelineFile) symbols(d *document) []documentSymbol {
	kinds := map[check.SymbolKind]int{check.InputSymbol: propertySymbol, check.ValueSymbol: variableSymbol, check.OutputSymbol: propertySymbol,
		check.TypeSymbol: structSymbol, check.PolicySymbol: constantSymbol, check.AliasSymbol: namespaceSymbol}
	list := []documentSymbol{}
	for _, s := range f.info.Symbols {
		kind := kinds[s.Kind]
		if kind == 0 {
			continue // it is inside an expression
		}
		detail := ""
		if s.Type != nil && s.Type.Kind != types.InvalidKind {
			detail = s.Type.String()
		}
		list = append(list, documentSymbol{Name: s.Name, Detail: detail, Kind: kind, Range: d.span(s.Decl.Extent()), SelectionRange: d.span(s.Span)})
	}
	return list
}

// renamed gives the edits that give a symbol another name. Where the name is
// that of a field or of an output as well, this one is kept.
func (f *pipelineFile) renamed(d *document, s *check.Symbol, name string) ([]textEdit, error) {
	switch {
	case !isName(name):
		return nil, fmt.Errorf("%q cannot be a name: write letters, digits, _ and -, with a letter or _ first", name)
	case slices.Contains(syntax.ReservedWords(), name):
		return nil, fmt.Errorf("%q is a reserved word", name)
	case s.Kind == check.BindingSymbol:
		return nil, fmt.Errorf("%s is the name of the field that the pattern takes", s.Name)
	}
	for _, other := range f.info.Symbols {
		if other.Name == name && other != s && sameSpace(other, s) && other.Scope.Start <= s.Scope.End && s.Scope.Start <= other.Scope.End {
			return nil, fmt.Errorf("there is already a %s, at line %d", name, d.position(int(other.Span.Start)).Line+1)
		}
	}
	both := f.doubleNames()
	var edits []textEdit
	for _, span := range f.info.Places(s) {
		edits = append(edits, textEdit{d.span(span), both[span] + name})
	}
	return edits, nil
}

func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r|0x20 >= 'a' && r|0x20 <= 'z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}

// sameSpace reports whether two symbols of one name would be taken for each
// other.
func sameSpace(a, b *check.Symbol) bool {
	space := func(s *check.Symbol) check.SymbolKind {
		switch s.Kind {
		case check.TypeSymbol, check.PolicySymbol, check.AliasSymbol, check.OutputSymbol:
			return s.Kind
		}
		return check.ValueSymbol
	}
	return space(a) == space(b)
}

// doubleNames gives, for each place where one name is that of a variable and of
// a field or an output, what has to be written before another name of the
// variable.
func (f *pipelineFile) doubleNames() map[syntax.Span]string {
	both := map[syntax.Span]string{}
	syntax.InspectFile(f.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.RecordLit:
			for _, field := range n.Fields {
				if field.Shorthand {
					both[field.Name.Span] = field.Name.Name + ": "
				}
			}
		case *syntax.OutDecl:
			if v, ok := n.Value.(*syntax.Name); ok && n.Name == nil {
				both[v.Span] = v.Name + " = "
			}
		}
		return true
	})
	return both
}

// hover explains what is at a place.
func (s *server) hover(d *document, _ documentParams, at int) (any, error) {
	text, span := d.kind.hover(d, at)
	if text == "" {
		return nil, nil
	}
	r := d.span(span)
	return hover{markup{"markdown", text}, &r}, nil
}

func (s *server) definition(d *document, _ documentParams, at int) (any, error) {
	if list := d.kind.definition(d, at); list != nil {
		return list, nil
	}
	return []location{}, nil
}

func (s *server) documentSymbols(d *document, _ documentParams, _ int) (any, error) {
	if list := d.kind.symbols(d); list != nil {
		return list, nil
	}
	return []documentSymbol{}, nil
}

func (f *pipelineFile) references(_ *document, at int, definition bool) (spans []syntax.Span) {
	symbol, _ := f.info.At(int32(at))
	if symbol == nil {
		return nil
	}
	spans = f.info.Places(symbol)
	return slices.DeleteFunc(spans, func(s syntax.Span) bool { return s == symbol.Span && !definition })
}

func (f *pipelineFile) renamable(_ *document, at int) (syntax.Span, bool) {
	symbol, span := f.info.At(int32(at))
	return span, symbol != nil && f.info.Uses[symbol.Span] == symbol // otherwise: the error of a fallback is called so
}

func (f *pipelineFile) rename(d *document, at int, to string) ([]textEdit, error) {
	symbol, _ := f.info.At(int32(at))
	if symbol == nil || f.info.Uses[symbol.Span] != symbol {
		return nil, errNotChangeable
	}
	return f.renamed(d, symbol, to)
}

func (s *server) references(d *document, p documentParams, at int) (any, error) {
	list := []location{}
	for _, span := range d.kind.references(d, at, p.Context.IncludeDeclaration) {
		list = append(list, location{d.uri, d.span(span)})
	}
	return list, nil
}

func (s *server) prepareRename(d *document, _ documentParams, at int) (any, error) {
	if span, ok := d.kind.renamable(d, at); ok {
		return d.span(span), nil
	}
	return nil, nil
}

func (s *server) rename(d *document, p documentParams, at int) (any, error) {
	edits, err := d.kind.rename(d, at, p.NewName)
	if err != nil {
		return nil, err
	}
	return workspaceEdit{map[string][]textEdit{d.uri: edits}}, nil
}

// formatting gives one edit that replaces the whole text, none if it is
// formatted already, and nothing if it has errors or is no pipeline.
func (s *server) formatting(d *document, _ documentParams, _ int) (any, error) {
	f, ok := d.kind.(*pipelineFile)
	if !ok || f.parsed.HasErrors() {
		return nil, nil
	}
	text := string(syntax.Format(f.file))
	if text == d.text {
		return []textEdit{}, nil
	}
	return []textEdit{{Range: textRange{End: d.position(len(d.text))}, NewText: text}}, nil
}
