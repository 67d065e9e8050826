package syntax

import "strconv"

// optionList writes " option, option": on the line if they fit, else each on
// a line of its own.
func (p *printer) optionList(list []*Option) {
	if len(list) == 0 {
		return
	}
	flat := func(q *printer) {
		for i, o := range list {
			if q.full() {
				return
			}
			if i > 0 {
				q.text(",")
			}
			q.sp()
			q.option(o)
		}
	}
	if p.fits(list[len(list)-1].End, flat) {
		flat(p)
		return
	}
	p.nest(func() {
		for i, o := range list {
			if i > 0 {
				p.text(",")
			}
			p.newline()
			p.option(o)
		}
	})
}

func (p *printer) option(o *Option) {
	p.at(o.Start)
	if b, ok := o.Value.(*BoolValue); ok && b.Value && o.Kind == OptLazy {
		p.text(o.Name.Name)
		return
	}
	p.text(o.Name.Name)
	p.word(":")
	switch v := o.Value.(type) {
	case *IntValue:
		p.at(v.Start)
		p.text(strconv.FormatInt(v.Value, 10))
	case *DurationValue:
		p.at(v.Start)
		p.text(v.Text)
	case *RateValue:
		p.at(v.Start)
		if v.Share != "" {
			p.text(v.Share + "/")
		}
		p.text(strconv.FormatInt(v.Count, 10) + "/" + v.Per.Text)
	case *WordValue:
		p.at(v.Start)
		p.text(v.Word)
	case *BoolValue:
		p.at(v.Start)
		p.text(strconv.FormatBool(v.Value))
	case *StringValue:
		p.at(v.Start)
		p.text(`"` + v.Value + `"`)
	case *MatchersValue:
		p.matchers(v)
	case *RulesValue:
		p.at(v.Start)
		p.list("[", "]", v.End, false, len(v.Rules), func(p *printer, i int) { p.rule(v.Rules[i]) })
	case *WindowValue:
		p.at(v.Start)
		p.text(windowText(v))
	case *JoinValue:
		p.at(v.Start)
		p.text(v.Shape)
		if v.Shape == "buffer" {
			p.text("(" + v.Size.Text + ")")
		}
	case *ExprValue:
		p.expr(v.X)
	default:
		panic(&Unhandled{"the formatter", v})
	}
}

// rule writes one rule: whom it is for, then its options.
func (p *printer) rule(r *Rule) {
	n := len(r.Options)
	if r.On != nil {
		n++
	}
	p.list("{", "}", r.End, false, n, func(p *printer, i int) {
		if r.On != nil {
			if i == 0 {
				p.text("on")
				p.word(":")
				p.matchers(r.On)
				return
			}
			i--
		}
		p.option(r.Options[i])
	})
}

func (p *printer) matchers(v *MatchersValue) {
	p.at(v.Start)
	p.list("[", "]", v.End, false, len(v.Matchers), func(p *printer, i int) { p.matcher(v.Matchers[i]) })
}

func windowText(v *WindowValue) string {
	switch v.Shape {
	case "count":
		return "count(" + strconv.FormatInt(v.Count, 10) + ")"
	case "sliding":
		return "sliding(" + v.Size.Text + ", " + v.Slide.Text + ")"
	}
	return v.Shape + "(" + v.Size.Text + ")"
}

func (p *printer) matcher(m Matcher) {
	p.name(m.Name)
	switch {
	case m.Name.Name == "pattern":
		p.text("(" + Quote(m.Pattern) + ")")
	case len(m.Codes) > 0:
		text := "("
		for i, c := range m.Codes {
			if i > 0 {
				text += ", "
			}
			text += strconv.FormatInt(c, 10)
		}
		p.text(text + ")")
	}
}

// Quote writes a string as a literal of the language.
func Quote(s string) string {
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '\n':
			b = append(b, `\n`...)
		case '\t':
			b = append(b, `\t`...)
		case '\r':
			b = append(b, `\r`...)
		case '"', '\\':
			b = append(b, '\\', c)
		case '$':
			if i+1 < len(s) && s[i+1] == '{' {
				b = append(b, '\\')
			}
			b = append(b, c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
