package expr

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/value"
)

// Sort is a parsed sort_by. It is immutable and safe for concurrent use.
type Sort struct {
	src  string
	keys []sortKey
}

type sortKey struct {
	path       Path
	desc       bool
	nullsFirst bool
}

// ParseSort reads `path [ASC|DESC] [NULLS FIRST|LAST], …`, words in whatever
// case; without them a key is ASC NULLS LAST. The error is a *SyntaxError.
func ParseSort(src string) (*Sort, error) {
	if len(src) > maxSource {
		return nil, &SyntaxError{Offset: maxSource, Message: "the sort order is longer than 64 KiB"}
	}
	p := &parser{src: src}
	s := &Sort{src: src}
	for {
		k, err := p.sortKey()
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, k)
		if p.eat(",") {
			continue
		}
		if p.space(); p.pos < len(src) {
			return nil, &SyntaxError{Offset: p.pos, Message: "a comma or the end is expected here, not " + quoteAt(src, p.pos),
				Suggestion: diag.DidYouMean(p.peekWord(), []string{"ASC", "DESC", "NULLS FIRST", "NULLS LAST"})}
		}
		return s, nil
	}
}

func (p *parser) sortKey() (sortKey, error) {
	var k sortKey
	braced := p.eat("${")
	p.space()
	at := p.pos
	if p.eat("-") {
		if path, _, err := scanPath(p.src, p.pos); err == nil {
			return k, &SyntaxError{Offset: at, Message: "a name is expected here, not -", Suggestion: "write " + path.String() + " DESC"}
		}
		p.pos = at
	}
	path, end, err := scanPath(p.src, p.pos)
	if err != nil {
		return k, err
	}
	k.path, p.pos = path, end
	if braced && !p.eat("}") {
		return k, p.fail(p.pos, "} is expected here, not %s", quoteAt(p.src, p.pos))
	}
	if !p.eatWord("asc") {
		k.desc = p.eatWord("desc")
	}
	if p.eatWord("nulls") {
		if k.nullsFirst = p.eatWord("first"); !k.nullsFirst && !p.eatWord("last") {
			return k, p.fail(p.pos, "FIRST or LAST is expected after NULLS, not %s", quoteAt(p.src, p.pos))
		}
	}
	return k, nil
}

// Keys gives the sort keys of what r resolves: nil for a missing one.
func (s *Sort) Keys(r Resolver) []any {
	keys := make([]any, len(s.keys))
	for i, k := range s.keys {
		keys[i], _ = (&ref{path: k.path}).lookup(r)
	}
	return keys
}

// Compare orders two key lists made by Keys: -1, 0, +1. The order is total:
// booleans before numbers before strings before arrays before objects, each
// kind in itself by value, strings by code point. Nulls and missing keys stand
// where the key says, whatever its direction. Equal keys give 0, so that a
// stable sort keeps the order of the items.
func (s *Sort) Compare(a, b []any) int {
	for i, k := range s.keys {
		if c := k.compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

func (k sortKey) compare(a, b any) int {
	if a == nil || b == nil {
		c := 0
		switch {
		case a == nil && b != nil:
			c = 1
		case a != nil:
			c = -1
		}
		if k.nullsFirst {
			return -c
		}
		return c
	}
	c := Order(a, b)
	if k.desc {
		return -c
	}
	return c
}

// Refs lists the paths that are sorted by.
func (s *Sort) Refs() []Path {
	return value.Map(s.keys, func(k sortKey) Path { return k.path })
}

// String is the source.
func (s *Sort) String() string { return s.src }

// Order is the total order of values that sorting uses, null before all else.
// See Sort.Compare.
func Order(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch x := a.(type) {
	case nil:
		return 0
	case bool:
		c, _ := value.Compare(a, b)
		return c
	case string:
		return strings.Compare(x, b.(string))
	case []any:
		return slices.CompareFunc(x, b.([]any), Order)
	case map[string]any:
		return strings.Compare(value.JSON(a), value.JSON(b))
	}
	return orderNumbers(a, b)
}

func rank(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case string:
		return 3
	case []any:
		return 4
	case map[string]any:
		return 5
	}
	return 2
}

func orderNumbers(a, b any) int {
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y)
		}
	}
	if x, ok := value.Number(a); ok {
		if y, ok := value.Number(b); ok {
			return x.Cmp(y)
		}
	}
	// Beyond what value.Number takes only the magnitude is left to compare.
	if c := cmp.Compare(magnitude(a), magnitude(b)); c != 0 {
		return c
	}
	return strings.Compare(value.Text(a), value.Text(b))
}

func magnitude(v any) float64 {
	if f, ok := value.Float(v); ok {
		return f
	}
	n, ok := v.(json.Number)
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil && f == 0 {
		return 0
	}
	return f
}
