package workflow

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/template"
)

func (d *decoder) http(n *node, key string) *HTTP {
	if n.scalar() {
		if t := d.text(n, key); t != nil {
			d.url(n, t)
			return &HTTP{Method: "GET", URL: t}
		}
		return nil
	}
	o, ok := d.object(n, httpTable)
	if !ok {
		return nil
	}
	defer o.close()
	h := &HTTP{}
	httpTable.read(o, h)
	switch key := o.keyOf(h, &h.URL); {
	case key == nil:
		d.errorf(n, "missing-key", "an http step needs a url").Suggest("for example: url: https://example.org/status")
	case h.URL != nil:
		d.url(o.peek(key.text), h.URL)
	}
	var body httpBody
	httpTable.read(o, &body)
	switch v := body.val; {
	case v == nil:
	case v.scalar() && !body.json:
		h.Body = d.text(v, body.key.text)
	default:
		h.JSON = d.deep(v)
	}
	var method httpMethod
	httpTable.read(o, &method)
	d.method(o, method.written, h)
	if h.URL == nil {
		return nil
	}
	return h
}

// url reports an address to which no request can be sent, whatever its data are.
func (d *decoder) url(n *node, t *template.Text) {
	const data = "\x00"
	lead, _, open := strings.Cut(t.Outline(data), data)
	begins := func(scheme string) bool {
		known := min(len(lead), len(scheme))
		return strings.EqualFold(lead[:known], scheme[:known]) && (known == len(scheme) || open)
	}
	var p *diag.Problem
	switch {
	case lead == "" && !open:
		p = d.errorf(n, "bad-value", "the url is empty")
	case !begins("http://") && !begins("https://"):
		p = d.errorf(n, "bad-value", "the url %q does not begin with http:// or https://", short(t.String()))
	case !open:
		switch u, err := url.Parse(lead); {
		case err != nil:
			p = d.errorf(n, "bad-value", "the url %q is no address: %v", short(lead), errors.Unwrap(err))
		case u.Host == "":
			p = d.errorf(n, "bad-value", "the url %q names no server", short(lead))
		}
	}
	if p != nil {
		p.Suggest("for example: url: https://example.org/status")
	}
}

// httpBody is what a request sends, as JSON whatever it is where json says so.
type httpBody struct {
	written
	json bool
}

// asJSON takes a body that is sent as JSON, whatever it is.
func (b *httpBody) asJSON(o *object, key string, n *node) {
	if b.val != nil {
		o.saysTheSame(key, b.key.text, b.val)
		return
	}
	b.written, b.json = written{o.keyNode(key), n}, true
}

type httpMethod struct{ written }

// method reads the method of a request, or chooses it by its body.
func (d *decoder) method(o *object, w written, h *HTTP) {
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	if w.val != nil {
		h.Method = strings.ToUpper(o.strAt(w.val, w.key.text))
	}
	switch {
	case h.Method == "" && (h.Body != nil || h.JSON != nil):
		h.Method = "POST"
	case h.Method == "":
		h.Method = "GET"
	case !slices.Contains(methods, h.Method):
		p := d.errorf(w.val, "bad-value", "there is no HTTP method %q", short(h.Method))
		p.Near(h.Method, methods).Or("write one of %s", strings.Join(methods, ", "))
	}
}

func (d *decoder) headers(n *node, key string) []Header {
	var list []Header
	for _, p := range d.pairs(n, key, "a map", "headers: {Accept: application/json}") {
		if !headerName(p.key.text) {
			d.errorf(p.key, "bad-name", "%q is no header name", short(p.key.text)).Suggest("a header name has letters, digits and hyphens")
			continue
		}
		for _, v := range p.val.each() {
			if t := d.text(v, p.key.text); t != nil {
				list = append(list, Header{Name: p.key.text, Value: t})
			}
		}
	}
	return list
}

// headerName reports whether s is a token (RFC 9110, 5.6.2).
func headerName(s string) bool {
	for _, r := range s {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) {
			return false
		}
	}
	return s != ""
}

// expect reads statuses: 200, "2xx", "400-404", or a list of these.
func (d *decoder) expect(n *node) []StatusRange {
	var list []StatusRange
	for _, it := range n.each() {
		it = d.resolved(it)
		if r, ok := statusRange(it); ok {
			list = append(list, r)
			continue
		}
		d.errorf(it, "bad-value", "expect cannot be %q", short(it.text)).Suggest("write a status from 100 to 599, a class such as 2xx or a range such as 200-204")
	}
	return list
}

func statusRange(n *node) (StatusRange, bool) {
	text := strings.ToLower(strings.TrimSpace(n.text))
	if !n.scalar() || text == "" {
		return StatusRange{}, false
	}
	if len(text) == 3 && text[1:] == "xx" && text[0] >= '1' && text[0] <= '5' {
		from := int(text[0]-'0') * 100
		return StatusRange{from, from + 99}, true
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	a, errA := strconv.Atoi(strings.TrimSpace(from))
	b, errB := strconv.Atoi(strings.TrimSpace(to))
	if errA != nil || errB != nil || a < 100 || b > 599 || a > b {
		return StatusRange{}, false
	}
	return StatusRange{a, b}, true
}
