package lsp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// optionDocs says what each option does, in a sentence.
var optionDocs = map[syntax.OptionKind]string{
	syntax.OptRetry:        "Tries again up to N times after the first attempt fails.",
	syntax.OptDelay:        "The base wait before a retry; without it retries are immediate.",
	syntax.OptBackoff:      "How the wait grows: fixed, linear (n·D), exponential (2^(n−1)·D) or fibonacci.",
	syntax.OptMaxDelay:     "The longest wait between attempts.",
	syntax.OptJitter:       "How waits are spread at random.",
	syntax.OptRetryOn:      "Retries only errors that one of these accepts.",
	syntax.OptAbortOn:      "Never retries errors that one of these accepts; it wins over retry_on.",
	syntax.OptBudget:       "A bound on the sum of the waits.",
	syntax.OptDeadline:     "A bound on everything: attempts, waits and queues.",
	syntax.OptBreaker:      "Refuses calls for the duration after N failures in a row.",
	syntax.OptTimeout:      "A bound on each attempt; a timed-out attempt is stopped and counts as failed.",
	syntax.OptFallback:     "The value after the last failure; evaluated only then. The variable error holds the failure.",
	syntax.OptOnError:      "What a failure becomes: propagate, skip and log (the zero of the type), wrap.",
	syntax.OptCache:        "Keeps a successful result for this long.",
	syntax.OptCacheBackend: "Where results are kept: \"memory\" or \"disk\".",
	syntax.OptThrottle:     "At most this many attempts per duration, for the module.",
	syntax.OptConcurrency:  "At most this many attempts at once, for the module.",
	syntax.OptPriority:     "The order of waiting calls: a level or a number, 0 to 100.",
	syntax.OptLazy:         "Computed only if it is needed.",
	syntax.OptBatch:        "Streaming: how many elements are taken together.",
	syntax.OptBatchTimeout: "Streaming: how long a batch waits to fill.",
	syntax.OptWindow:       "Streaming: how elements are grouped over time.",
	syntax.OptCheckpoint:   "Streaming: how often the state is saved.",
	syntax.OptJoin:         "Streaming: how inputs are joined.",
	syntax.OptPolicy:       "Takes the options of a policy declared in this file.",
}

func optionText(k syntax.OptionKind) string {
	return fmt.Sprintf("```\n%s\n```\n%s", syntax.OptionExample(k), optionDocs[k])
}

// hover explains what stands at a place.
func (s *server) hover(d *document, p documentParams) (any, error) {
	at, err := d.offset(p.Position)
	if err != nil {
		return nil, err
	}
	if s.options.Hover != nil {
		if text, span, ok := s.options.Hover(d.file, int32(at)); ok {
			return hover{markup{"markdown", text}, d.span(span)}, nil
		}
	}
	if text, span, ok := explain(d.file, int32(at)); ok {
		return hover{markup{"markdown", text}, d.span(span)}, nil
	}
	return nil, nil
}

func contains(s syntax.Span, at int32) bool { return s.Start <= at && at <= s.End }

// explain says what the syntax alone tells about a place: an option's
// meaning, a variable's declaration.
func explain(f *syntax.File, at int32) (text string, span syntax.Span, ok bool) {
	for i, decl := range f.Decls {
		if !contains(decl.Extent(), at) {
			continue
		}
		var bound []string
		syntax.Inspect(decl, func(n syntax.Node) bool {
			if !contains(n.Extent(), at) {
				return false
			}
			switch n := n.(type) {
			case *syntax.LambdaExpr:
				for _, p := range n.Params {
					bound = append(bound, p.Name.Name)
				}
			case *syntax.MatchExpr:
				bound = append(bound, bindings(n, at)...)
			case *syntax.Option:
				if contains(n.Name.Span, at) {
					text, span, ok = optionText(n.Kind), n.Name.Span, true
				} else if w, isWord := n.Value.(*syntax.WordValue); isWord && n.Kind == syntax.OptPolicy {
					text, span, ok = declared(f, f.Decls, w.Word, true, w.Span)
				}
			case *syntax.Name:
				text, span, ok = "", n.Span, false
				if !slices.Contains(bound, n.Name) {
					text, span, ok = declared(f, f.Decls[:i], n.Name, false, n.Span)
				}
			}
			return true
		})
	}
	return text, span, ok
}

// bindings are the fields that the pattern of the case at a place binds.
func bindings(m *syntax.MatchExpr, at int32) []string {
	var names []string
	for _, c := range m.Cases {
		r, ok := c.Pattern.(*syntax.RecordPattern)
		if !ok || !contains(c.Value.Extent(), at) {
			continue
		}
		for _, f := range r.Fields {
			names = append(names, f.Name)
		}
	}
	return names
}

// declared shows the last of some declarations that gives a name its
// meaning.
func declared(f *syntax.File, decls []syntax.Decl, name string, policy bool, span syntax.Span) (string, syntax.Span, bool) {
	for _, d := range slices.Backward(decls) {
		if n, isPolicy := declName(d); n == name && isPolicy == policy {
			return "```\n" + f.Text(d.Extent()) + "\n```", span, true
		}
	}
	return "", span, false
}

// declName is the name of the variable or policy that a declaration
// declares; "" if it declares none.
func declName(d syntax.Decl) (name string, policy bool) {
	switch d := d.(type) {
	case *syntax.InDecl:
		return d.Name.Name, false
	case *syntax.AssignDecl:
		return d.Name.Name, false
	case *syntax.PolicyDecl:
		return d.Name.Name, true
	}
	return "", false
}

// completion gives what can be written at a place.
func (s *server) completion(d *document, p documentParams) (any, error) {
	at, err := d.offset(p.Position)
	if err != nil {
		return nil, err
	}
	place := syntax.PlaceAt([]byte(d.text), int32(at))
	if place.Kind == syntax.PlaceNone {
		return []completionItem{}, nil
	}
	var items []Item
	if s.options.Complete != nil {
		items = s.options.Complete(d.file, place)
	}
	items = append(items, known(d.file, place)...)
	slices.SortStableFunc(items, func(a, b Item) int { return cmp.Compare(a.Label, b.Label) })
	items = slices.CompactFunc(items, func(a, b Item) bool { return a.Label == b.Label })
	prefix := strings.ToLower(d.text[place.Prefix.Start:place.Prefix.End])
	span := *d.span(place.Prefix)
	list := []completionItem{}
	for _, item := range items {
		if !strings.HasPrefix(strings.ToLower(item.Label), prefix) {
			continue
		}
		c := completionItem{Label: item.Label, Kind: item.Kind, Detail: item.Detail, TextEdit: &textEdit{span, item.Label}}
		if item.Documentation != "" {
			c.Documentation = &markup{"markdown", item.Documentation}
		}
		list = append(list, c)
	}
	return list, nil
}

// known gives what the syntax alone offers for a place.
func known(f *syntax.File, place syntax.Place) []Item {
	switch place.Kind {
	case syntax.PlaceDecl:
		return keywords("in", "out", "type", "use", "policy")
	case syntax.PlaceAnnotation:
		return keywords("example", "source", "sink")
	case syntax.PlaceExpr:
		return append(keywords("if", "branch", "match", "not", "true", "false", "else", "when", "and", "or", "otherwise", "with"),
			variables(f, place.Prefix.Start)...)
	case syntax.PlaceType:
		return typeItems(f)
	case syntax.PlaceOption:
		var items []Item
		for _, name := range syntax.OptionNames() {
			k := syntax.OptionByName(name)
			items = append(items, Item{name, OptionItem, syntax.OptionExample(k), optionDocs[k]})
		}
		return items
	case syntax.PlaceOptionValue:
		return values(f, place)
	}
	return nil
}

func keywords(words ...string) []Item {
	var items []Item
	for _, w := range words {
		items = append(items, Item{Label: w, Kind: KeywordItem})
	}
	return items
}

// variables are the inputs and assignments declared before a place.
func variables(f *syntax.File, before int32) []Item {
	var items []Item
	for _, d := range f.Decls {
		name, policy := declName(d)
		if name == "" || policy || d.Extent().End > before {
			continue
		}
		if a, ok := d.(*syntax.AssignDecl); ok {
			if _, bad := a.Value.(*syntax.BadExpr); bad {
				continue // the one that is being written
			}
		}
		detail := ""
		if in, ok := d.(*syntax.InDecl); ok {
			detail = f.Text(in.Type.Extent())
		}
		items = append(items, Item{Label: name, Kind: VariableItem, Detail: detail})
	}
	return items
}

func typeItems(f *syntax.File) []Item {
	var items []Item
	for _, name := range []string{"String", "Int", "Float", "Boolean", "List", "Seq", "Map", "Optional"} {
		items = append(items, Item{Label: name, Kind: TypeItem})
	}
	for _, d := range f.Decls {
		if t, ok := d.(*syntax.TypeDecl); ok {
			items = append(items, Item{Label: t.Name.Name, Kind: TypeItem, Detail: f.Text(t.Type.Extent())})
		}
	}
	return items
}

// values are the values of an option.
func values(f *syntax.File, place syntax.Place) []Item {
	words := syntax.OptionWords(place.Option)
	switch place.Option {
	case syntax.OptRetryOn, syntax.OptAbortOn:
		words = syntax.MatcherNames()
	case syntax.OptLazy:
		words = []string{"true", "false"}
	case syntax.OptFallback:
		return variables(f, place.Prefix.Start)
	case syntax.OptPolicy:
		for _, d := range f.Decls {
			if name, policy := declName(d); policy {
				words = append(words, name)
			}
		}
	}
	var items []Item
	for _, w := range words {
		items = append(items, Item{Label: w, Kind: WordItem})
	}
	return items
}
