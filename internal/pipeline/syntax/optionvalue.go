package syntax

import (
	"slices"
	"strconv"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/option"
)

// optionValue reads the value of an option. On an error it passes what
// is in the value's place.
func (p *parser) optionValue(k OptionKind) OptionValue {
	switch k.Row().Kind {
	case option.Count:
		return p.countValue(k)
	case option.Span:
		if d, ok := p.duration(k.example); ok {
			return p.timeVals.new(d)
		}
		return p.badValue()
	case option.Rate, option.Breaker:
		return p.rateValue(k)
	case option.Expression, option.Condition:
		x := p.exprAt(levelCoalesce)
		return &ExprValue{x.Extent(), x}
	case option.Quoted:
		if t := p.tok(); t.kind == tString {
			p.take()
			return &StringValue{t.span(), rawString(p.text(t))}
		}
	case option.Flag:
		if t := p.tok(); t.kind == tTrue || t.kind == tFalse {
			p.take()
			return &BoolValue{t.span(), t.kind == tTrue}
		}
	case option.Jitter:
		switch t := p.tok(); t.kind {
		case tTrue:
			p.take()
			return &WordValue{t.span(), "factor"}
		case tFalse:
			p.take()
			return &WordValue{t.span(), "none"}
		}
		return p.wordValue(k)
	case option.Strategy, option.Word:
		return p.wordValue(k)
	case option.Level:
		return p.priorityValue()
	case option.Matchers:
		return p.matchersValue(k)
	case option.Rules:
		return p.rulesValue()
	case option.Grouping:
		return p.windowValue()
	case option.Joining:
		return p.joinValue()
	case option.PolicyName:
		if t := p.tok(); t.kind == tIdent {
			p.take()
			return p.wordVals.new(WordValue{t.span(), p.text(t)})
		}
	default:
		panic("syntax: the option " + k.String() + " has a kind that pipelines have no value for")
	}
	p.errorTok(CodeOption, "%s does not take %s", k, p.describe(p.tok())).Suggest("write %q", k.example())
	return p.badValue()
}

// badValue passes the value that was reported, up to the next comma, closing
// bracket or line.
func (p *parser) badValue() OptionValue {
	start := p.tok().start
	for first := true; !p.stop() && !p.declStart(p.i); first = false {
		t := p.tok()
		switch t.kind {
		case tComma, tRParen, tRBrack, tRBrace:
			return &BadValue{p.from(start)}
		}
		if t.newLine && !first {
			break
		}
		p.skipBracket(t)
	}
	return &BadValue{p.from(start)}
}

// countValue reads an integer that is not negative, or a word that stands for
// one.
func (p *parser) countValue(k OptionKind) OptionValue {
	t := p.tok()
	if p.wordOf(t, k) {
		p.take()
		return p.wordVals.new(WordValue{t.span(), p.text(t)})
	}
	switch t.kind {
	case tInt:
		p.take()
		if n, ok := p.integer(t.span(), p.text(t)); ok {
			return p.intVals.new(IntValue{t.span(), n})
		}
		return &BadValue{t.span()}
	case tMinus:
		p.errorTok(CodeOption, "%s cannot be negative", k).Suggest("write %q", k.example())
	case tFloat, tQuantity:
		p.errorTok(CodeOption, "%s takes a whole number without a unit, not %s", k, p.describe(t)).Suggest("write %q", k.example())
	default:
		p.errorTok(CodeOption, "%s takes a whole number, not %s", k, p.describe(t)).Suggest("write %q", k.example())
	}
	return p.badValue()
}

func (p *parser) wordValue(k OptionKind) OptionValue {
	t := p.tok()
	if p.wordOf(t, k) {
		p.take()
		return p.wordVals.new(WordValue{t.span(), p.text(t)})
	}
	p.unknownWord(t, k)
	return p.badValue()
}

// unknownWord reports a word that an option does not take.
func (p *parser) unknownWord(t *token, k OptionKind) {
	words := k.Row().CallWords()
	word := p.text(t)
	if t.kind == tString {
		word = rawString(word)
	}
	d := p.errorTok(CodeOption, "%s does not take %s", k, p.describe(t))
	switch near := diag.Nearest(word, words); {
	case t.kind == tString && slices.Contains(words, word):
		d.Suggest("write it without quotes: %q", k.String()+": "+word)
	case near != "" && t.kind.isWord():
		d.Suggest("did you mean %q?", near)
	default:
		d.Suggest("it takes %s", list(words))
	}
}

// list joins words: "a, b or c".
func list(words []string) string {
	s := ""
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			s += " or "
		default:
			s += ", "
		}
		s += w
	}
	return s
}

func (p *parser) priorityValue() OptionValue {
	t := p.tok()
	negative := t.kind == tMinus && p.peek(1).kind == tInt
	if !negative && t.kind != tInt {
		return p.wordValue(OptPriority)
	}
	if negative {
		p.take()
	}
	p.take()
	s := p.from(t.start)
	text := p.text(&p.toks[p.i-1])
	if negative {
		text = "-" + text
	}
	if n, ok := p.integer(s, text); ok {
		return &IntValue{s, n}
	}
	return &BadValue{s}
}

// rateValue reads "count/duration"; the number of the duration may be left
// out: "100/min".
func (p *parser) rateValue(k OptionKind) OptionValue {
	start := p.tok().start
	share := ""
	if t := p.tok(); k == OptBreaker && t.kind == tFloat && p.peek(1).kind == tSlash {
		share = p.text(t)
		p.take()
		p.take()
	}
	t := p.tok()
	if t.kind != tInt {
		p.errorTok(CodeDuration, "%s takes a count per duration, not %s", k, p.describe(t)).Suggest("write %q", k.example())
		return p.badValue()
	}
	p.take()
	n, ok := p.integer(t.span(), p.text(t))
	if !ok {
		return p.badValue()
	}
	if !p.got(tSlash) {
		p.errorAt(t.span(), CodeDuration, "%s takes a count per duration, not a number alone", k).Suggest("write %q", k.String()+": "+p.text(t)+"/1s")
		p.lastErr = p.tok().start
		return &BadValue{t.span()}
	}
	v := &RateValue{Count: n, Share: share}
	if u := p.tok(); u.kind == tIdent && !p.declStart(p.i) {
		text := "1" + p.text(u)
		d, ok := readDuration(text)
		if !ok {
			p.errorTok(CodeDuration, "%s is not a unit of time", quote(p.text(u))).Suggest("%s", durationHint(text, k.example()))
			return p.badValue()
		}
		p.take()
		v.Per = DurationValue{u.span(), d, text}
	} else if v.Per, ok = p.duration(k.example); !ok {
		return p.badValue()
	}
	v.Span = p.from(start)
	return v
}

// matcherNames are the matchers of retry_on and abort_on.
var matcherNames = []string{"network", "timeout", "server_error", "rate_limit", "circuit_open", "exit_code", "pattern"}

// MatcherNames returns the names of the matchers of retry_on and abort_on.
func MatcherNames() []string { return append([]string(nil), matcherNames...) }

func (p *parser) matchersValue(k OptionKind) OptionValue {
	v := &MatchersValue{}
	v.Span = p.oneOrMore("a matcher", func() {
		if m, ok := p.matcher(k); ok {
			v.Matchers = append(v.Matchers, m)
		}
	})
	return v
}

// oneOrMore reads a value, or several in brackets, and gives where they are.
func (p *parser) oneOrMore(what string, one func()) Span {
	start := p.tok().start
	if p.kind() == tLBrack {
		p.items(tRBrack, ctxInside, what, one)
	} else {
		one()
	}
	return p.from(start)
}

// rulesValue reads "[{on: network, retry: 5}, …]" or one of these.
func (p *parser) rulesValue() OptionValue {
	v := &RulesValue{}
	v.Span = p.oneOrMore("a rule", func() {
		if r := p.rule(); r != nil {
			v.Rules = append(v.Rules, r)
		}
	})
	return v
}

// rule reads "{on: network, retry: 5}"; nil after an error.
func (p *parser) rule() *Rule {
	t := p.tok()
	if t.kind != tLBrace {
		p.errorTok(CodeOption, "a rule is written in braces, not as %s", p.describe(t)).Suggest("write %q", "rules: [{on: rate_limit, retry: 20, delay: 1s}]")
		p.skipItem()
		return nil
	}
	r := &Rule{}
	p.items(tRBrace, ctxWith, "an option", func() {
		if t := p.tok(); t.kind == tIdent && p.text(t) == "on" && (p.peek(1).kind == tColon || p.peek(1).kind == tAssign) {
			p.take()
			p.take()
			if on, ok := p.matchersValue(OptRetryOn).(*MatchersValue); ok {
				r.On = on
			}
			return
		}
		r.Options = p.option(r.Options, false)
	})
	r.Span = p.from(t.start)
	return r
}

// matcher reads network, exit_code(75, 111) or pattern("RE").
func (p *parser) matcher(k OptionKind) (Matcher, bool) {
	t := p.tok()
	if t.kind != tIdent || !slices.Contains(matcherNames, p.text(t)) {
		d := p.errorTok(CodeOption, "%s does not take %s", k, p.describe(t))
		if near := diag.Nearest(p.text(t), matcherNames); near != "" && t.kind == tIdent {
			d.Suggest("did you mean %q?", near)
		} else {
			d.Suggest(`it takes network, timeout, server_error, rate_limit, circuit_open, exit_code(75) or pattern("…")`)
		}
		p.badValue()
		return Matcher{}, false
	}
	p.take()
	m := Matcher{Name: Ident{t.span(), p.text(t)}}
	takes := m.Name.Name == "exit_code" || m.Name.Name == "pattern"
	if p.kind() != tLParen {
		m.Span = t.span()
		if takes {
			p.errorAt(t.span(), CodeOption, "%s needs a value", m.Name.Name).Suggest(`write exit_code(75) or pattern("…")`)
		}
		return m, !takes
	}
	ok := takes
	if !takes {
		p.errorTok(CodeOption, "%s takes no value", m.Name.Name).Suggest("write %q", m.Name.Name)
	}
	n := 0
	p.items(tRParen, ctxInside, "a value", func() {
		ok = takes && p.matcherValue(&m, n) && ok
		if !takes {
			p.skipItem()
		}
		n++
	})
	m.Span = p.from(t.start)
	if takes && n == 0 {
		p.errorAt(m.Span, CodeOption, "%s needs a value", m.Name.Name).Suggest(`write exit_code(75) or pattern("…")`)
	}
	return m, ok && n > 0
}

func (p *parser) matcherValue(m *Matcher, n int) bool {
	t := p.tok()
	switch {
	case m.Name.Name == "exit_code" && t.kind == tInt:
		p.take()
		code, err := strconv.ParseInt(p.text(t), 10, 64)
		if err != nil || code > 255 {
			p.errorAt(t.span(), CodeNumber, "%s is no exit status", p.text(t)).Suggest("an exit status lies between 0 and 255")
			return false
		}
		m.Codes = append(m.Codes, code)
		return true
	case m.Name.Name == "pattern" && t.kind == tString && n == 0:
		p.take()
		m.Pattern = p.unescape(t.start+1, p.stringEnd(t))
		return true
	}
	p.errorTok(CodeOption, "%s does not take %s", m.Name.Name, p.describe(t)).Suggest(`write exit_code(75, 111) or pattern("…")`)
	p.skipItem()
	return false
}

// windowValue reads tumbling(size), sliding(size, slide) or count(n).
func (p *parser) windowValue() OptionValue {
	t := p.tok()
	if !p.wordOf(t, OptWindow) || p.peek(1).kind != tLParen {
		p.unknownWord(t, OptWindow)
		return p.badValue()
	}
	p.take()
	v := &WindowValue{Shape: p.text(t)}
	want := 1
	if v.Shape == "sliding" {
		want = 2
	}
	n := 0
	p.items(tRParen, ctxInside, "a value", func() {
		if v.Shape == "count" {
			if c, ok := p.countValue(OptBatch).(*IntValue); ok {
				v.Count = c.Value
			}
		} else if d, ok := p.duration(func() string { return "window: " + v.Shape + "(5s)" }); !ok {
			p.skipItem()
		} else if n == 0 {
			v.Size = d
		} else {
			v.Slide = d
		}
		n++
	})
	v.Span = p.from(t.start)
	if n != want {
		p.errorAt(v.Span, CodeOption, "%s takes %d value(s), not %d", v.Shape, want, n).
			Suggest("write tumbling(5s), sliding(10min, 1min) or count(100)")
		return &BadValue{v.Span}
	}
	return v
}

// joinValue reads combine_latest, zip or buffer(size).
func (p *parser) joinValue() OptionValue {
	t := p.tok()
	if !p.wordOf(t, OptJoin) {
		p.unknownWord(t, OptJoin)
		return p.badValue()
	}
	p.take()
	v := &JoinValue{Span: t.span(), Shape: p.text(t)}
	if v.Shape != "buffer" {
		return v
	}
	if p.kind() != tLParen {
		p.errorAt(t.span(), CodeOption, "buffer needs a duration").Suggest(`write "join: buffer(5s)"`)
		return &BadValue{t.span()}
	}
	n := 0
	p.items(tRParen, ctxInside, "a value", func() {
		d, ok := p.duration(func() string { return "join: buffer(5s)" })
		if !ok {
			p.skipItem()
		}
		v.Size = d
		n++
	})
	v.Span = p.from(t.start)
	if n != 1 {
		p.errorAt(v.Span, CodeOption, "buffer takes one duration, not %d", n).Suggest(`write "join: buffer(5s)"`)
		return &BadValue{v.Span}
	}
	return v
}
