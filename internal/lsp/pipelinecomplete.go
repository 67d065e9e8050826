package lsp

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// item is one completion.
type item struct {
	label  string // what is shown, and inserted if insert is ""
	kind   itemKind
	detail string // a few words beside it
	doc    string // Markdown
	insert string
}

// completion gives what can be written at a place, of which those that do not
// begin with what is written there are left out.
func (s *server) completion(d *document, _ documentParams, at int) (any, error) {
	items, span := d.kind.complete(d, at)
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.label, b.label) })
	items = slices.CompactFunc(items, func(a, b item) bool { return a.label == b.label })
	prefix := strings.ToLower(d.at(span))
	r := d.span(span)
	list := []completionItem{}
	for _, i := range items {
		if !strings.HasPrefix(strings.ToLower(i.label), prefix) {
			continue
		}
		c := completionItem{Label: i.label, Kind: i.kind, Detail: i.detail, TextEdit: &textEdit{r, cmp.Or(i.insert, i.label)}}
		if i.doc != "" {
			c.Documentation = &markup{"markdown", i.doc}
		}
		list = append(list, c)
	}
	return list, nil
}

func (f *pipelineFile) complete(d *document, at int) ([]item, syntax.Span) {
	place := syntax.PlaceAt([]byte(d.text), int32(at))
	start := place.Prefix.Start
	switch place.Kind {
	case syntax.PlaceDecl:
		return keywords("in", "out", "type", "use", "policy"), place.Prefix
	case syntax.PlaceAnnotation:
		return keywords("example"), place.Prefix
	case syntax.PlaceExpr:
		items := keywords("if", "branch", "match", "not", "true", "false", "else", "when", "and", "or", "otherwise", "with")
		return slices.Concat(f.variables(start), items, f.functions(start)), place.Prefix
	case syntax.PlaceType:
		return f.types(start), place.Prefix
	case syntax.PlaceField:
		return f.members(start), place.Prefix
	case syntax.PlaceNamespace:
		return namespaces(f.env, ""), place.Prefix
	case syntax.PlaceOption:
		var items []item
		for _, name := range syntax.UsableNames() {
			k := syntax.OptionByName(name)
			items = append(items, item{label: name, kind: optionItem, detail: syntax.OptionExample(k), doc: k.Row().Doc})
		}
		return items, place.Prefix
	case syntax.PlaceOptionValue:
		return f.values(place), place.Prefix
	}
	return nil, place.Prefix
}

func words(kind itemKind, words ...string) []item {
	var items []item
	for _, w := range words {
		items = append(items, item{label: w, kind: kind})
	}
	return items
}

func keywords(list ...string) []item { return words(keywordItem, list...) }

// visible lists the symbols of some kinds that can be meant at an offset.
func (f *pipelineFile) visible(at int32, kind itemKind, kinds ...check.SymbolKind) []item {
	var items []item
	for _, s := range f.info.Visible(at) {
		if a, ok := s.Decl.(*syntax.AssignDecl); ok && s.Kind == check.ValueSymbol {
			if _, unfinished := a.Value.(*syntax.BadExpr); unfinished {
				continue // the one that is being written
			}
		}
		if !slices.Contains(kinds, s.Kind) {
			continue
		}
		i := item{label: s.Name, kind: kind}
		if s.Type != nil && s.Type.Kind != types.InvalidKind {
			i.detail = s.Type.String()
		}
		items = append(items, i)
	}
	return items
}

func (f *pipelineFile) variables(at int32) []item {
	return f.visible(at, variableItem, check.InputSymbol, check.ValueSymbol, check.ParamSymbol, check.BindingSymbol, check.FailureSymbol)
}

func (f *pipelineFile) types(at int32) []item {
	return append(f.visible(at, typeItem, check.TypeSymbol), words(typeItem, "String", "Int", "Float", "Boolean", "List", "Seq", "Map", "Optional")...)
}

// functions lists what can be called, by the shortest name that means it.
func (f *pipelineFile) functions(at int32) []item {
	var items []item
	for _, full := range f.env.Functions() {
		c := f.env.Callee(full)
		label := full[strings.LastIndexByte(full, '.')+1:]
		if found := f.env.Find(f.file, label, at); found == nil || found.Full != full {
			label = full
		}
		items = append(items, item{label: label, kind: functionItem, detail: c.Sig.String(), doc: c.Doc})
	}
	return items
}

// members lists what can be after the dot before an offset: the fields of a
// variable, or what a namespace has.
func (f *pipelineFile) members(at int32) []item {
	path := pathBefore(string(f.file.Src), at)
	if len(path) == 0 {
		return nil
	}
	var found *check.Symbol
	for _, s := range f.info.Visible(at) {
		if s.Name == path[0] && s.Type != nil && s.Kind != check.TypeSymbol {
			found = s
			break
		}
		if s.Name == path[0] && s.Kind == check.AliasSymbol {
			if use, ok := s.Decl.(*syntax.UseDecl); ok {
				return namespaces(f.env, use.Path.String()+".")
			}
		}
	}
	if found == nil {
		return namespaces(f.env, strings.Join(path, ".")+".")
	}
	t := record(found.Type)
	for _, name := range path[1:] {
		if t == nil {
			return nil
		}
		t = record(t.Field(name))
	}
	if t == nil {
		return nil
	}
	var items []item
	for _, field := range t.Fields {
		items = append(items, item{label: field.Name, kind: fieldItem, detail: field.Type.String()})
	}
	return items
}

// record is the record whose fields a value of a type has, nil if it has none.
func record(t *types.Type) *types.Type {
	if t != nil && t.IsSequence() {
		t = t.Elem
	}
	if t == nil || t.Kind != types.RecordKind {
		return nil
	}
	return t
}

// pathBefore reads "a.b." backwards from an offset.
func pathBefore(src string, at int32) []string {
	start := int(min(at, int32(len(src))))
	end := start
	for start > 0 && (isWord(src[start-1]) || src[start-1] == '.') {
		start--
	}
	text, ok := strings.CutSuffix(src[start:end], ".")
	if !ok || text == "" {
		return nil
	}
	return strings.Split(text, ".")
}

// namespaces lists the next parts of the full names that begin with a prefix,
// and after it what is in that namespace itself.
func namespaces(env *check.Env, prefix string) []item {
	items := map[string]item{}
	for _, full := range env.Functions() {
		rest, ok := strings.CutPrefix(full, prefix)
		if !ok {
			continue
		}
		part, _, more := strings.Cut(rest, ".")
		switch {
		case more && prefix == "":
			ns := full[:strings.LastIndexByte(full, '.')]
			items[ns] = item{label: ns, kind: namespaceItem}
		case more:
			items[part] = item{label: part, kind: namespaceItem}
		case prefix != "":
			c := env.Callee(full)
			items[part] = item{label: part, kind: functionItem, detail: c.Sig.String(), doc: c.Doc}
		}
	}
	return slices.Collect(maps.Values(items))
}

// values are the values of an option.
func (f *pipelineFile) values(place syntax.Place) []item {
	switch place.Option {
	case syntax.OptRetryOn, syntax.OptAbortOn:
		return words(wordItem, syntax.MatcherNames()...)
	case syntax.OptLazy:
		return words(wordItem, "true", "false")
	case syntax.OptFallback:
		return append(f.variables(place.Prefix.Start), f.functions(place.Prefix.Start)...)
	case syntax.OptPolicy:
		return f.visible(place.Prefix.Start, wordItem, check.PolicySymbol)
	}
	return words(wordItem, syntax.OptionWords(place.Option)...)
}

// optionText explains an option.
func optionText(k syntax.OptionKind) string {
	doc := k.Row().Doc
	if k.Streaming() {
		doc = "For streams, which are not supported here."
	}
	return fmt.Sprintf("```\n%s\n```\n%s", syntax.OptionExample(k), doc)
}
