package syntax

import (
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/option"
)

// withClause reads "with option, …" and "with { option, … }".
func (p *parser) withClause() *WithClause {
	start := p.take().start
	w := p.clauses.new(WithClause{})
	p.withOptions(w)
	w.Span = p.from(start)
	return w
}

// withOptions reads what follows "with" and adds it to a clause.
func (p *parser) withOptions(w *WithClause) {
	start := p.lastEnd - int32(len("with"))
	if p.kind() == tLBrace {
		w.Braces = true
		p.items(tRBrace, ctxWith, "an option", func() { w.Options = p.option(w.Options, true) })
		if len(w.Options) == 0 {
			p.errorAt(p.from(start), CodeOption, "this with clause has no options").Suggest(`write "with retry: 3", for example`)
		}
	} else {
		w.Options = p.options(w.Options)
	}
}

// options reads "option, option, …" and adds them to a list.
//
// Whom a comma belongs to depends on where the clause is. Outside all
// brackets it can only be followed by an option (or end the clause). Inside
// arguments, lists and cases it is followed by one if "name:" comes next.
// In a record, where "name:" also begins a field, only a complete and valid
// option counts: "{a: f(x) with retry: 3, delay: 5}" has a field "delay".
func (p *parser) options(list []*Option) []*Option {
	if list == nil {
		list = make([]*Option, 0, 4)
	}
	list = p.option(list, true)
	for p.kind() == tComma {
		follows, trailing := p.optionFollows()
		if trailing {
			end := p.lastEnd
			p.take()
			p.lastEnd = end
		}
		if !follows {
			break
		}
		p.take()
		list = p.option(list, p.ctx == ctxTop)
	}
	return list
}

// optionFollows looks at what comes after a comma. trailing says that the
// comma ends the clause and belongs to it.
func (p *parser) optionFollows() (follows, trailing bool) {
	next, after := p.peek(1), p.peek(2)
	switch p.ctx {
	case ctxRecord:
		return p.completeOption(), false
	case ctxInside:
		if next.kind == tLazy || next.kind.isWord() && after.kind == tColon {
			return true, false
		}
		return next.kind == tIdent && after.kind == tAssign && OptionByName(p.text(next)) != BadOption, false
	}
	switch next.kind {
	case tEOF, tStrMid, tStrTail:
		return false, true
	}
	if p.declStart(p.i + 1) {
		sameLine := after.kind == tAssign && !next.newLine && OptionByName(p.text(next)) != BadOption
		return sameLine, !sameLine
	}
	return true, false
}

// completeOption reports whether after the comma a whole valid option
// follows; only the tokens that decide are looked at.
func (p *parser) completeOption() bool {
	name, sep, v := p.peek(1), p.peek(2), p.peek(3)
	if name.kind == tLazy && sep.kind != tColon {
		return true
	}
	if !name.kind.isWord() || sep.kind != tColon {
		return false
	}
	k := OptionByName(p.text(name))
	if k == BadOption {
		return false
	}
	switch k.Row().Kind {
	case option.PolicyName:
		return false
	case option.Expression, option.Condition:
		return true
	case option.Rules:
		return v.kind == tLBrack && p.peek(4).kind == tLBrace
	case option.Flag:
		return v.kind == tTrue || v.kind == tFalse
	case option.Count:
		return v.kind == tInt || p.wordOf(v, k)
	case option.Quoted:
		return v.kind == tString
	case option.Rate, option.Breaker:
		d := p.peek(5)
		if v.kind == tFloat && k == OptBreaker { // rate/calls/duration
			return p.peek(4).kind == tSlash && d.kind == tInt && p.peek(6).kind == tSlash
		}
		return v.kind == tInt && p.peek(4).kind == tSlash &&
			(d.kind == tQuantity || d.kind == tIdent && p.unit(d))
	case option.Level:
		return v.kind == tInt || v.kind == tMinus && p.peek(4).kind == tInt || p.wordOf(v, k)
	case option.Matchers:
		if v.kind == tLBrack {
			v = p.peek(4)
		}
		return v.kind == tIdent && slices.Contains(matcherNames, p.text(v))
	case option.Span:
		return v.kind == tQuantity
	}
	return p.wordOf(v, k)
}

func (p *parser) wordOf(t *token, k OptionKind) bool {
	return t.kind == tIdent && slices.Contains(k.Row().CallWords(), p.text(t))
}

// OptionWords returns the words that an option takes as its value, nil if it
// takes none.
func OptionWords(k OptionKind) []string {
	if k.Row().Kind == option.Quoted {
		return nil
	}
	return k.Row().CallWords()
}

// option reads one option and appends it. The call forms "retry(3, 1s)" and
// "name(value)" are read only where they cannot be a call: callForm.
func (p *parser) option(list []*Option, callForm bool) []*Option {
	t := p.tok()
	if !t.kind.isWord() || p.declStart(p.i) && OptionByName(p.text(t)) == BadOption {
		p.unexpected("an option").Suggest(`write "with retry: 3, delay: 1s", for example`)
		return list
	}
	name := Ident{t.span(), p.text(t)}
	k := OptionByName(name.Name)
	sep := p.peek(1).kind
	switch {
	case k == BadOption:
		return p.unknownOption(list, name)
	case sep == tLParen && callForm:
		p.take()
		return p.calledOption(list, name, k)
	case k == OptLazy && sep != tColon && sep != tAssign:
		p.take()
		return p.add(list, p.opts.new(Option{Span: t.span(), Kind: k, Name: name, Value: &BoolValue{t.span(), true}}))
	}
	p.take()
	if !p.got(tColon) && !p.got(tAssign) {
		p.unexpected(`":" and a value after `+quote(name.Name)).Suggest("write %q", k.example())
		return p.add(list, p.opts.new(Option{Span: name.Span, Kind: k, Name: name, Value: &BadValue{p.here()}}))
	}
	value := p.optionValue(k)
	return p.add(list, p.opts.new(Option{Span: p.from(t.start), Kind: k, Name: name, Value: value}))
}

// add appends an option unless the clause has it already.
func (p *parser) add(list []*Option, o *Option) []*Option {
	for _, other := range list {
		if other.Kind == o.Kind {
			p.errorAt(o.Span, CodeOption, "the option %q is given twice", o.Name.Name).
				Suggest("remove one of the two; parentheses around the value of fallback close its own with clause")
			return list
		}
	}
	return append(list, o)
}

// calledOption reads "(value)" after an option's name; for retry a delay
// and a strategy may follow.
func (p *parser) calledOption(list []*Option, name Ident, k OptionKind) []*Option {
	kinds := []OptionKind{k}
	if k == OptRetry {
		kinds = append(kinds, OptDelay, OptBackoff)
	}
	n := 0
	p.items(tRParen, ctxInside, "a value", func() {
		if n == len(kinds) {
			p.errorTok(CodeOption, "%s(…) takes no more values", name.Name).Suggest("write the options one by one: %q", k.example())
			p.skipItem()
			return
		}
		start := p.tok().start
		value := p.optionValue(kinds[n])
		o := &Option{Span: p.from(start), Kind: kinds[n], Name: Ident{name.Span, kinds[n].String()}, Value: value}
		if n == 0 {
			o.Span.Start = name.Start
		}
		list = p.add(list, o)
		n++
	})
	if n == 0 {
		p.errorAt(p.from(name.Start), CodeOption, "%s needs a value", name.Name).Suggest("write %q", k.example())
	} else if len(list) > 0 {
		p.upTo(list[len(list)-1])
	}
	return list
}

func (p *parser) unknownOption(list []*Option, name Ident) []*Option {
	p.take()
	d := p.errorAt(name.Span, CodeOption, "unknown option %q", name.Name)
	if m := option.MeantInCall(name.Name); m != "" {
		d.Suggest("did you mean %q?", m)
		if m == "retry" && strings.Contains(strings.ToLower(name.Name), "attempt") {
			d.Suggest("did you mean %q? it counts the attempts after the first one", m)
		}
	} else {
		d.Suggestion = diag.DidYouMean(name.Name, UsableNames())
	}
	switch k := p.kind(); {
	case k == tColon, k == tAssign, k == tLParen:
	case !p.tok().newLine && (k == tInt || k == tFloat || k == tQuantity || k == tString): // "retries 3"
	default:
		return list
	}
	for first := true; !p.stop(); first = false {
		switch t := p.tok(); {
		case t.kind == tComma, t.kind == tRParen, t.kind == tRBrack, t.kind == tRBrace, t.newLine && !first:
			return list
		default:
			p.skipBracket(t)
		}
	}
	return list
}

func (k OptionKind) example() string { return k.Row().CallExample() }

// OptionExample shows how an option is written: "timeout: 5s".
func OptionExample(k OptionKind) string { return k.example() }
