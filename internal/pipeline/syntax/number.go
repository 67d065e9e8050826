package syntax

import "strconv"

// number reads an integer or a decimal number; a sign before it has been
// passed.
func (p *parser) number(start int32, negative bool) Expr {
	t := p.take()
	text := p.text(t)
	if negative {
		text = "-" + text
	}
	s := p.from(start)
	if t.kind == tFloat {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			p.errorAt(s, CodeNumber, "%s is too large for a Float", quote(text)).Suggest("the largest is about 1.8e308")
		}
		return &FloatLit{s, f, text}
	}
	n, ok := p.integer(s, text)
	if !ok {
		return &BadExpr{s}
	}
	return &IntLit{s, n}
}

// integer converts an integer's text, with its sign.
func (p *parser) integer(s Span, text string) (int64, bool) {
	digits := text
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) > 1 && digits[0] == '0' {
		p.errorAt(s, CodeNumber, "%s begins with a zero", quote(text)).Suggest("leave out the zeros at the front")
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.errorAt(s, CodeNumber, "%s is out of the range of Int", quote(text)).
			Suggest("an Int lies between -9223372036854775808 and 9223372036854775807")
		return 0, false
	}
	return n, true
}
