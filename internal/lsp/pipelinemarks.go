package lsp

import (
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// The types and modifiers of semantic tokens, by the numbers that stand for them.
const (
	keywordMark = iota
	numberMark
	stringMark
	commentMark
	operatorMark
	variableMark
	parameterMark
	functionMark
	typeMark
	propertyMark
	namespaceMark
	enumMark
)

var (
	tokenTypes     = []string{"keyword", "number", "string", "comment", "operator", "variable", "parameter", "function", "type", "property", "namespace", "enumMember"}
	tokenModifiers = []string{"declaration"}
)

var classMarks = map[syntax.TokenClass]int{syntax.NameToken: variableMark, syntax.KeywordToken: keywordMark, syntax.NumberToken: numberMark,
	syntax.StringToken: stringMark, syntax.CommentToken: commentMark, syntax.OperatorToken: operatorMark}

// semanticTokens says of every token what it is.
func (s *server) semanticTokens(d *document, _ documentParams, _ int) (any, error) {
	f, ok := d.kind.(*pipelineFile)
	if !ok {
		return nil, nil
	}
	marks := f.marks()
	out := semanticTokens{Data: []int{}}
	last := position{}
	for _, t := range syntax.Tokens([]byte(d.text)) {
		mark, known := marks[t.Start]
		if !known {
			if mark, known = classMarks[t.Class]; !known {
				continue // a bracket
			}
		}
		modifier := 0
		if symbol := f.info.Uses[t.Span]; symbol != nil && symbol.Span == t.Span {
			modifier = 1
		}
		for start := int(t.Start); start < int(t.End); { // a token for each line that a string goes over
			end := int(t.End)
			if n := strings.IndexByte(d.text[start:end], '\n'); n >= 0 {
				end = start + n
			}
			p := d.position(start)
			if length := unitsOf(strings.TrimSuffix(d.text[start:end], "\r")); length > 0 {
				character := p.Character
				if p.Line == last.Line {
					character -= last.Character
				}
				out.Data = append(out.Data, p.Line-last.Line, character, length, mark, modifier)
				last = p
			}
			start = end + 1
		}
	}
	return out, nil
}

// marks says what the names in a file are, by where they begin.
func (f *pipelineFile) marks() map[int32]int {
	marks := map[int32]int{}
	syntax.InspectFile(f.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.NamedType:
			marks[n.Start] = typeMark
		case *syntax.GenericType:
			marks[n.Name.Start] = typeMark
		case *syntax.RecordType:
			for _, field := range n.Fields {
				marks[field.Name.Start] = propertyMark
			}
		case *syntax.RecordLit:
			for _, field := range n.Fields {
				if !field.Shorthand {
					marks[field.Name.Start] = propertyMark
				}
			}
		case *syntax.FieldExpr:
			marks[n.Field.Start] = propertyMark
		case *syntax.ProjectExpr:
			for _, field := range n.Fields {
				marks[field.Start] = propertyMark
			}
		case *syntax.TypePattern:
			marks[n.Type.Start] = typeMark
		case *syntax.Option:
			marks[n.Name.Start] = propertyMark
		case *syntax.WordValue:
			marks[n.Start] = enumMark
		case *syntax.MatchersValue:
			for _, m := range n.Matchers {
				marks[m.Name.Start] = enumMark
			}
		case *syntax.UseDecl:
			for _, part := range n.Path.Parts {
				marks[part.Start] = namespaceMark
			}
		case *syntax.CallExpr:
			for _, part := range n.Func.Parts {
				marks[part.Start] = namespaceMark
			}
			marks[n.Func.Last().Start] = functionMark
		case *syntax.PolicyDecl:
			marks[n.Start] = keywordMark // it is reserved nowhere else
		}
		return true
	})
	kinds := map[check.SymbolKind]int{check.ParamSymbol: parameterMark, check.TypeSymbol: typeMark, check.AliasSymbol: namespaceMark, check.PolicySymbol: enumMark}
	for span, symbol := range f.info.Uses {
		mark, ok := kinds[symbol.Kind]
		if !ok {
			mark = variableMark
		}
		marks[span.Start] = mark
	}
	return marks
}

// inlayHints gives the types that nobody wrote, and the names of parameters
// where a literal does not tell them.
func (s *server) inlayHints(d *document, p documentParams, _ int) (any, error) {
	hints := []inlayHint{}
	f, ok := d.kind.(*pipelineFile)
	if !ok {
		return hints, nil
	}
	from, err := d.offset(p.Range.Start)
	if err != nil {
		return nil, err
	}
	to, err := d.offset(p.Range.End)
	if err != nil {
		to = len(d.text) // some editors ask for a line too many
	}
	add := func(at int32, label string, kind int) {
		if from <= int(at) && int(at) <= to {
			hints = append(hints, inlayHint{Position: d.position(int(at)), Label: label, Kind: kind, PaddingRight: kind == 2})
		}
	}
	typed := func(name syntax.Ident) {
		if s := f.info.Uses[name.Span]; s != nil && s.Type != nil && s.Type.Kind != types.InvalidKind {
			add(name.End, ": "+diag.Clip(s.Type.String(), 39), 1)
		}
	}
	syntax.InspectFile(f.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.AssignDecl:
			typed(n.Name)
		case *syntax.LambdaExpr:
			for _, param := range n.Params {
				if param.Type == nil {
					typed(param.Name)
				}
			}
		case *syntax.CallExpr:
			f.parameterHints(n, add)
		}
		return true
	})
	slices.SortStableFunc(hints, func(a, b inlayHint) int {
		if a.Position.Line != b.Position.Line {
			return a.Position.Line - b.Position.Line
		}
		return a.Position.Character - b.Position.Character
	})
	return hints, nil
}

func (f *pipelineFile) parameterHints(e *syntax.CallExpr, add func(int32, string, int)) {
	args := e.Args
	c := f.info.Calls[e.Func.Span]
	if c == nil { // a.f(b) is f(a, b)
		if c = f.info.Calls[e.Func.Last().Span]; c == nil {
			return
		}
		args = append([]syntax.Expr{nil}, args...)
	}
	if len(c.Sig.Params) < 2 || len(args) != len(c.Sig.Params) {
		return
	}
	for i, a := range args {
		switch a.(type) {
		case *syntax.IntLit, *syntax.FloatLit, *syntax.BoolLit, *syntax.StringLit:
			add(a.Extent().Start, c.Sig.Params[i].Name+":", 2)
		}
	}
}

// signatureHelp shows the parameters of the call that a place is in.
func (s *server) signatureHelp(d *document, _ documentParams, at int) (any, error) {
	f, ok := d.kind.(*pipelineFile)
	if !ok {
		return nil, nil
	}
	name, argument := callAround(d.text, at)
	c := f.env.Find(f.file, name, int32(at))
	if first, last := strings.IndexByte(name, '.'), strings.LastIndexByte(name, '.'); c == nil && first > 0 {
		for _, v := range f.variables(int32(at)) {
			if v.label == name[:first] { // a.f(b) is f(a, b)
				c = f.env.Find(f.file, name[last+1:], int32(at))
				argument++
				break
			}
		}
	}
	if c == nil {
		return nil, nil
	}
	sig := signature{Label: c.Full, Parameters: []parameterInfo{}}
	sig.Label += "("
	for i, p := range c.Sig.Params {
		if i > 0 {
			sig.Label += ", "
		}
		start := unitsOf(sig.Label)
		sig.Label += p.Name + ": " + p.Type.String()
		sig.Parameters = append(sig.Parameters, parameterInfo{[2]int{start, unitsOf(sig.Label)}})
	}
	sig.Label += ") -> " + c.Sig.Result.String()
	if c.Doc != "" {
		sig.Documentation = &markup{"markdown", c.Doc}
	}
	return signatureHelp{Signatures: []signature{sig}, ActiveParameter: argument}, nil
}

// callAround gives the name of the function whose brackets are the innermost
// around an offset, and which argument the offset is in.
func callAround(text string, at int) (name string, argument int) {
	type bracket struct{ token, commas int }
	var open []bracket
	tokens := syntax.Tokens([]byte(text[:at]))
	word := func(i int) string {
		if i < 0 {
			return ""
		}
		return text[tokens[i].Start:tokens[i].End]
	}
	for i, t := range tokens {
		if t.Class != syntax.BracketToken {
			continue
		}
		switch word(i) {
		case "(", "[", "{":
			open = append(open, bracket{token: i})
		case ")", "]", "}":
			open = open[:max(len(open)-1, 0)]
		case ",":
			if len(open) > 0 {
				open[len(open)-1].commas++
			}
		}
	}
	if len(open) == 0 {
		return "", 0
	}
	b := open[len(open)-1]
	i := b.token - 1
	if word(b.token) != "(" || i < 0 || tokens[i].Class != syntax.NameToken && tokens[i].Class != syntax.KeywordToken {
		return "", 0
	}
	name = word(i)
	for word(i-1) == "." && i >= 2 {
		name = word(i-2) + "." + name
		i -= 2
	}
	if word(i-1) == "|" { // a | f(b) is f(a, b)
		b.commas++
	}
	return name, b.commas
}
