package module

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// piece is a part of a text with placeholders: literal text, or the name of
// an input.
type piece struct {
	text  string
	input bool
}

// pieces splits a text at its placeholders. "{name}" is one where name is a
// parameter; "{{" and "}}" stand for braces; any other brace stands for
// itself, so that JSON and CSS need no escapes.
func pieces(text string, params []string) (out []piece) {
	literal := ""
	for text != "" {
		if strings.HasPrefix(text, "{{") || strings.HasPrefix(text, "}}") {
			literal += text[:1]
			text = text[2:]
			continue
		}
		if text[0] == '{' {
			if name, rest, ok := strings.Cut(text[1:], "}"); ok && slices.Contains(params, name) {
				if literal != "" {
					out = append(out, piece{text: literal})
					literal = ""
				}
				out = append(out, piece{name, true})
				text = rest
				continue
			}
		}
		literal += text[:1]
		text = text[1:]
	}
	if literal != "" {
		out = append(out, piece{text: literal})
	}
	return out
}

// suspects are the placeholders of a text that look like names but are no
// parameters.
func suspects(text string, params []string) (names []string) {
	for {
		_, rest, ok := strings.Cut(text, "{")
		if !ok {
			return names
		}
		if strings.HasPrefix(rest, "{") {
			text = rest[1:]
			continue
		}
		name, _, closed := strings.Cut(rest, "}")
		if closed && isIdent(name) && !slices.Contains(params, name) {
			names = append(names, name)
		}
		text = rest
	}
}

func (d *Definition) paramNames() []string {
	return value.Map(d.Params, func(p types.Param) string { return p.Name })
}

// Fill puts inputs in the place of the placeholders of a text.
func (d *Definition) Fill(text string, args []any) string {
	return d.fill(text, args, func(s string) string { return s })
}

func (d *Definition) fill(text string, args []any, escape func(string) string) string {
	names := d.paramNames()
	var b strings.Builder
	for _, p := range pieces(text, names) {
		if p.input {
			b.WriteString(escape(asText(args[slices.Index(names, p.text)])))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// TextBody is a body that is sent as it is.
type TextBody string

// Request gives the parts of the request for the arguments. body is nil where
// there is none, else a JSON value or a [TextBody]. An input in the URL is escaped as part of
// a path or, behind the ?, of a query, so it cannot change what is asked of
// whom.
func (d *Definition) Request(args []any) (requestURL string, headers [][2]string, body any) {
	h := d.HTTP
	path, query, hasQuery := strings.Cut(h.URL, "?")
	requestURL = d.fill(path, args, url.PathEscape)
	if hasQuery {
		requestURL += "?" + d.fill(query, args, url.QueryEscape)
	}
	for _, header := range h.Headers {
		// A line end would begin another header.
		v := d.fill(header[1], args, func(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) })
		headers = append(headers, [2]string{header[0], v})
	}
	switch {
	case h.Body != nil:
		if text, is := h.Body.(string); is && !d.isInput(text) {
			return requestURL, headers, d.fillText(text, args)
		}
		body = d.fillValue(h.Body, args)
	case h.HasBody:
		body = d.unused(args)
	}
	return requestURL, headers, body
}

// isInput says whether a text is one placeholder and nothing else.
func (d *Definition) isInput(text string) bool {
	ps := pieces(text, d.paramNames())
	return len(ps) == 1 && ps[0].input
}

// fillText fills a body that is a text. Where that is JSON, inputs are escaped for their
// place in it.
func (d *Definition) fillText(text string, args []any) any {
	names := d.paramNames()
	ps := pieces(text, names)
	var probe, b strings.Builder
	for _, p := range ps {
		if p.input {
			probe.WriteByte('0')
		} else {
			probe.WriteString(p.text)
		}
	}
	if !json.Valid([]byte(probe.String())) {
		return TextBody(d.Fill(text, args))
	}
	inputs := d.Inputs(args)
	for _, p := range ps {
		switch {
		case !p.input:
			b.WriteString(p.text)
		case value.InJSONString(b.String()):
			b.WriteString(value.JSONStringPart(asText(args[slices.Index(names, p.text)])))
		default:
			b.WriteString(value.JSON(inputs[p.text]))
		}
	}
	return json.RawMessage(b.String())
}

// fillValue fills the strings of a JSON value. A string that is one
// placeholder becomes the input itself, not its text.
func (d *Definition) fillValue(v any, args []any) any {
	switch v := v.(type) {
	case string:
		names := d.paramNames()
		if ps := pieces(v, names); len(ps) == 1 && ps[0].input {
			i := slices.Index(names, ps[0].text)
			return d.Inputs(args)[names[i]]
		}
		return d.Fill(v, args)
	case []any:
		return value.Map(v, func(e any) any { return d.fillValue(e, args) })
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = d.fillValue(e, args)
		}
		return out
	}
	return v
}

// unused are the inputs that neither URL nor headers have.
func (d *Definition) unused(args []any) map[string]any {
	out := d.Inputs(args)
	texts := []string{d.HTTP.URL}
	for _, h := range d.HTTP.Headers {
		texts = append(texts, h[1])
	}
	names := d.paramNames()
	for _, t := range texts {
		for _, p := range pieces(t, names) {
			if p.input {
				delete(out, p.text)
			}
		}
	}
	return out
}
