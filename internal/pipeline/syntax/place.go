package syntax

// PlaceKind says what can be written at a place in a source.
type PlaceKind uint8

// The kinds of places.
const (
	PlaceNone        PlaceKind = iota // in a comment, a string or a number; a name that the author makes up
	PlaceDecl                         // a declaration
	PlaceExpr                         // an expression
	PlaceType                         // a type
	PlaceField                        // a field or a part of a dotted name, after "."
	PlaceOption                       // the name of an option
	PlaceOptionValue                  // the value of an option; see Place.Option
	PlaceNamespace                    // the name of a namespace, after "use"
	PlaceAnnotation                   // the word after "@"
)

// Place is what an editor wants to know to complete what is being written.
type Place struct {
	Kind   PlaceKind
	Option OptionKind // of PlaceOptionValue
	Prefix Span       // the beginning of the word that has been written; may be empty
}

// PlaceAt finds out what can be written at an offset, from the source before
// it alone: the rest is usually not finished.
func PlaceAt(src []byte, offset int32) Place {
	offset = max(0, min(offset, int32(len(src))))
	if len(src) > maxSource {
		return Place{}
	}
	f := &File{Src: src[:offset]}
	p := &parser{f: f, src: string(f.Src)}
	p.toks = scan(f, &p.list)
	if n := len(f.Comments); n > 0 && p.lineEnd(f.Comments[n-1].End) >= offset {
		return Place{}
	}
	for _, problem := range p.list {
		if problem.Code == CodeString {
			return Place{}
		}
	}
	i := len(p.toks) - 2 // the last token before the end
	place := Place{Prefix: Span{offset, offset}}
	newLine := p.toks[i+1].newLine
	if i >= 0 && p.toks[i].end == offset {
		switch t := &p.toks[i]; {
		case t.kind.isWord():
			place.Prefix = t.span()
			newLine = t.newLine || i == 0
			i--
		case t.kind == tInt, t.kind == tFloat, t.kind == tQuantity:
			return Place{}
		}
	}
	place.Kind, place.Option = p.placeAfter(i, newLine)
	return place
}

// lineEnd is the end of the line of an offset.
func (p *parser) lineEnd(offset int32) int32 {
	for int(offset) < len(p.src) && p.src[offset] != '\n' {
		offset++
	}
	return offset
}

// placeAfter says what can follow the token i; newLine says that it would
// begin a line.
func (p *parser) placeAfter(i int, newLine bool) (PlaceKind, OptionKind) {
	if i < 0 {
		return PlaceDecl, 0
	}
	before := func(n int) *token {
		if i-n < 0 {
			return &token{}
		}
		return &p.toks[i-n]
	}
	switch t := &p.toks[i]; t.kind {
	case tDot:
		return PlaceField, 0
	case tAt:
		return PlaceAnnotation, 0
	case tUse:
		return PlaceNamespace, 0
	case tIn, tType, tAs:
		return PlaceNone, 0
	case tWith:
		return PlaceOption, 0
	case tLt:
		if p.inType(i) {
			return PlaceType, 0
		}
	case tAssign:
		if before(2).kind == tType {
			return PlaceType, 0
		}
		if before(2).kind == tIdent && p.text(before(2)) == "policy" {
			return PlaceOption, 0
		}
		if k := p.optionBefore(i); k != BadOption {
			return PlaceOptionValue, k
		}
	case tColon:
		if before(2).kind == tIn || p.inType(i) {
			return PlaceType, 0
		}
		if k := p.optionBefore(i); k != BadOption {
			return PlaceOptionValue, k
		}
	case tBar, tPlus, tLBrace:
		if t.kind == tLBrace && before(1).kind == tWith {
			return PlaceOption, 0
		}
		if p.inType(i) {
			return PlaceType, 0
		}
	case tLBrack:
		if k := p.optionBefore(i - 1); k == OptRetryOn || k == OptAbortOn {
			return PlaceOptionValue, k
		}
	case tComma:
		return p.placeAfterComma(i)
	default:
		if newLine && len(p.openBefore(i+1)) == 0 {
			return PlaceDecl, 0
		}
	}
	return PlaceExpr, 0
}

// openBefore gives the brackets that are open before the token i, the
// innermost last.
func (p *parser) openBefore(i int) []int {
	var open []int
	for n := range p.toks[:i] {
		switch p.toks[n].kind {
		case tLParen, tLBrack, tLBrace, tStrHead, tStrMid:
			if m := int(p.toks[n].match); m == 0 || m >= i {
				open = append(open, n)
			}
		}
	}
	return open
}

// clauseOf gives the index of the "with" or "=" of the clause that the token
// i is in, in the same brackets; -1 if it is in none.
func (p *parser) clauseOf(i int) int {
	first := 0
	if open := p.openBefore(i); len(open) > 0 {
		first = open[len(open)-1]
		if first > 0 && p.toks[first].kind == tLBrace && p.toks[first-1].kind == tWith {
			return first - 1
		}
	}
	for n := i - 1; n > first; n-- {
		switch t := &p.toks[n]; {
		case t.kind == tWith:
			return n
		case t.kind == tRParen, t.kind == tRBrack, t.kind == tRBrace:
			for m := first; m < n; m++ {
				if int(p.toks[m].match) == n {
					n = m
					break
				}
			}
		case p.declStart(n):
			if n > 0 && n+1 < i && p.isIdent(&p.toks[n-1], "policy") {
				return n + 1
			}
			return -1
		}
	}
	return -1
}

// optionBefore gives the option whose ":" or "=" is the token i.
func (p *parser) optionBefore(i int) OptionKind {
	if i < 1 || !p.toks[i-1].kind.isWord() || p.toks[i].kind != tColon && p.toks[i].kind != tAssign || p.clauseOf(i-1) < 0 {
		return BadOption
	}
	return OptionByName(p.text(&p.toks[i-1]))
}

// placeAfterComma tells options, matchers, types and expressions apart.
func (p *parser) placeAfterComma(i int) (PlaceKind, OptionKind) {
	open := p.openBefore(i)
	if n := len(open); n > 0 && p.toks[open[n-1]].kind == tLBrack {
		if k := p.optionBefore(open[n-1] - 1); k == OptRetryOn || k == OptAbortOn {
			return PlaceOptionValue, k
		}
	}
	switch {
	case p.clauseOf(i) >= 0:
		return PlaceOption, 0
	case p.inType(i):
		return PlaceType, 0
	}
	return PlaceExpr, 0
}

// inType reports whether the token i is in the type of an input or of a
// type declaration.
func (p *parser) inType(i int) bool {
	for n := i; n >= 0; n-- {
		switch t := &p.toks[n]; {
		case t.kind == tIn && n+2 <= i && p.toks[n+2].kind == tColon:
			return true
		case t.kind == tType && n+2 <= i && p.toks[n+2].kind == tAssign:
			return true
		case t.kind == tAssign, t.kind == tFatArrow, t.kind == tArrow, t.kind == tOut, t.kind == tWith:
			if t.kind == tAssign && n >= 2 && p.toks[n-2].kind == tType {
				continue
			}
			return false
		}
	}
	return false
}
