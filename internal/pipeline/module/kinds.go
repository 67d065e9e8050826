package module

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

var kinds = []string{"shell", "http", "agent", "workflow"}

// kind reads what the module does, and refuses keys of another kind.
func (m *manifest) kind(n *yaml.Node, f map[string]entry, d *Definition) {
	var given []string
	for _, k := range kinds {
		if _, ok := f[k]; ok {
			given = append(given, k)
		}
	}
	if len(given) != 1 {
		p := m.errorf(n, "%s must have exactly one of shell, http, agent and workflow", d.called())
		if len(given) > 1 {
			p.Suggest("it has %s; make a module of each", strings.Join(given, " and "))
		}
		return
	}
	if given[0] != "shell" {
		for _, k := range []string{"exit", "env", "dir", "output"} {
			if e, ok := f[k]; ok {
				p := m.errorf(e.key, "The key %q is for shell modules", k)
				if k == "output" && given[0] != "workflow" {
					p.Suggest("put it into %s: {output: …}", given[0])
				}
			}
		}
	}
	v := f[given[0]].value
	switch given[0] {
	case "shell":
		m.shell(v, f, d)
	case "http":
		m.http(v, d)
	case "agent":
		m.agent(v, d)
	case "workflow":
		m.workflow(v, d)
	}
}

func (m *manifest) shell(n *yaml.Node, f map[string]entry, d *Definition) {
	s := &Shell{Dir: m.text(f, "dir"), Output: m.output(f, d)}
	s.Exit = StatusMap{Success: []StatusRange{{0, 0}}, other: Retryable}
	switch {
	case n.Kind == yaml.ScalarNode && strings.TrimSpace(n.Value) != "":
		s.Text = n.Value
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		for _, a := range n.Content {
			if a = deref(a); a.Kind != yaml.ScalarNode {
				m.errorf(a, "An argument must be a text")
			}
			s.Argv = append(s.Argv, a.Value)
		}
	default:
		m.errorf(n, "shell must be a command: a text for sh, or a list of program and arguments")
	}
	if e, ok := f["env"]; ok {
		s.Env = m.pairs(e.value, "env")
	}
	if e, ok := f["exit"]; ok {
		m.status(e.value, "exit", &s.Exit, 0, 255)
	}
	d.Shell = s
}

// output reads the format of the result. Unless it is given, a String is read
// as text and anything else as JSON.
func (m *manifest) output(f map[string]entry, d *Definition) Format {
	standard := JSON
	if d.Result.Kind == types.StringKind {
		standard = Text
	}
	switch text := m.text(f, "output"); text {
	case "":
		return standard
	case "json":
		return JSON
	case "text":
		switch d.Result.Kind {
		case types.StringKind, types.IntKind, types.FloatKind, types.BooleanKind, types.InvalidKind:
		default:
			m.errorf(f["output"].value, "output: text can give a String, Int, Float or Boolean, but the result is %s", d.Result).Suggest("write output: json")
		}
		return Text
	default:
		m.errorf(f["output"].value, "output must be json or text, not %q", text)
	}
	return standard
}

func (m *manifest) pairs(n *yaml.Node, what string) (out [][2]string) {
	f := m.fields(n, what, nil)
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		e := f[deref(n.Content[i]).Value]
		if e.value.Kind != yaml.ScalarNode {
			m.errorf(e.value, "The value of %s must be a text", e.key.Value)
			continue
		}
		out = append(out, [2]string{e.key.Value, e.value.Value})
	}
	return out
}

// status reads {success: […], retryable: […], fatal: […]}. Naming what is
// retryable makes every other failure fatal.
func (m *manifest) status(n *yaml.Node, what string, s *StatusMap, least, most int) {
	f := m.fields(n, what, names("status"))
	read := func(key string, into *[]StatusRange) {
		if e, ok := f[key]; ok {
			*into = m.ranges(e.value, least, most)
		}
	}
	read("success", &s.Success)
	read("retryable", &s.Retryable)
	read("fatal", &s.Fatal)
	if _, ok := f["retryable"]; ok {
		s.other = Fatal
	}
	for status := least; status <= most; status++ {
		var in []string
		for _, k := range []struct {
			name string
			rs   []StatusRange
		}{{"success", s.Success}, {"retryable", s.Retryable}, {"fatal", s.Fatal}} {
			if _, named := f[k.name]; named && slices.ContainsFunc(k.rs, func(r StatusRange) bool { return r.From <= status && status <= r.To }) {
				in = append(in, k.name)
			}
		}
		if len(in) > 1 {
			m.errorf(n, "The status %d is in %s", status, strings.Join(in, " and in "))
			return
		}
	}
}

// ranges reads a status or a list of them: 404, "5xx", "500-503".
func (m *manifest) ranges(n *yaml.Node, least, most int) (out []StatusRange) {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	for _, item := range nodes {
		item = deref(item)
		r, ok := parseRange(item.Value)
		if item.Kind != yaml.ScalarNode || !ok || r.From < least || r.To > most || r.From > r.To {
			m.errorf(item, "%q is no status; write a number from %d to %d, or a range as in \"%d-%d\"", item.Value, least, most, least, most)
			continue
		}
		out = append(out, r)
	}
	return out
}

func parseRange(text string) (StatusRange, bool) {
	if class, ok := strings.CutSuffix(text, "xx"); ok {
		n, err := strconv.Atoi(class)
		return StatusRange{n * 100, n*100 + 99}, err == nil
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	a, err := strconv.Atoi(from)
	if err != nil {
		return StatusRange{}, false
	}
	b, err := strconv.Atoi(to)
	return StatusRange{a, b}, err == nil
}

func (m *manifest) http(n *yaml.Node, d *Definition) {
	h := &HTTP{Status: StatusMap{
		Success: []StatusRange{{200, 299}}, Retryable: []StatusRange{{408, 408}, {425, 425}, {429, 429}, {500, 599}}, other: Fatal,
	}}
	d.HTTP = h
	if n.Kind == yaml.ScalarNode {
		h.URL, h.Method, h.Output = n.Value, "GET", m.output(nil, d)
		m.url(n, d)
		return
	}
	f := m.fields(n, "http", names("http"))
	h.URL = m.text(f, "url")
	h.Output = m.output(f, d)
	h.Method = strings.ToUpper(m.text(f, "method"))
	if e, ok := f["url"]; ok {
		m.url(e.value, d)
	} else {
		m.errorf(n, "http has no url")
	}
	if e, ok := f["headers"]; ok {
		h.Headers = m.pairs(e.value, "headers")
		for _, header := range h.Headers {
			m.placeholders(e.value, header[1], d)
		}
	}
	if e, ok := f["body"]; ok {
		h.Body = m.body(e.value, d)
	}
	m.method(n, f, h)
	if e, ok := f["status"]; ok {
		m.status(e.value, "status", &h.Status, 100, 599)
	}
}

func (m *manifest) method(n *yaml.Node, f map[string]entry, h *HTTP) {
	switch h.Method {
	case "":
		h.Method = "GET"
		if h.Body != nil {
			h.Method = "POST"
		}
	case "POST", "PUT", "PATCH":
		h.HasBody = true
	case "GET", "HEAD", "DELETE", "OPTIONS":
	default:
		m.errorf(f["method"].value, "%q is no HTTP method", h.Method).Suggestion = diag.DidYouMean(h.Method, methods)
	}
	if h.Body != nil && (h.Method == "GET" || h.Method == "HEAD") {
		m.errorf(f["body"].key, "A %s request has no body", h.Method).Suggest("write method: POST, or put the inputs into the url")
	}
}

func (m *manifest) url(n *yaml.Node, d *Definition) {
	u := d.HTTP.URL
	if !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
		m.errorf(n, "The url must begin with http:// or https://, but is %q", u)
		return
	}
	m.placeholders(n, u, d)
	host, _, _ := strings.Cut(strings.SplitN(u, "://", 2)[1], "/")
	if len(pieces(host, d.paramNames())) > 1 || host == "" || strings.Contains(host, "{") {
		m.errorf(n, "The host of the url must be fixed, but is %q", host).Suggest("inputs may stand behind the first /")
	}
}

// placeholders reports what looks like an input but is none.
func (m *manifest) placeholders(n *yaml.Node, text string, d *Definition) {
	for _, name := range suspects(text, d.paramNames()) {
		p := m.errorf(n, "{%s} is no parameter of %s", name, d.Name)
		p.Near(name, d.paramNames()).Or("write {{%s}} if the braces are meant", name)
	}
}

func (m *manifest) body(n *yaml.Node, d *Definition) any {
	var v any
	if err := n.Decode(&v); err != nil {
		m.errorf(n, "The body cannot be read: %v", err)
		return nil
	}
	m.bodyTexts(n, d)
	return value.Normal(v)
}

func (m *manifest) bodyTexts(n *yaml.Node, d *Definition) {
	n = deref(n)
	if n.Kind == yaml.ScalarNode {
		m.placeholders(n, n.Value, d)
	}
	for _, c := range n.Content {
		m.bodyTexts(c, d)
	}
}

func (m *manifest) agent(n *yaml.Node, d *Definition) {
	a := &Agent{}
	d.Agent = a
	if n.Kind == yaml.ScalarNode {
		a.Prompt, a.Output = n.Value, m.output(nil, d)
	} else {
		f := m.fields(n, "agent", names("agent"))
		a.Prompt, a.Provider, a.Output = m.text(f, "prompt"), m.text(f, "provider"), m.output(f, d)
	}
	if strings.TrimSpace(a.Prompt) == "" {
		m.errorf(n, "The agent has no prompt")
	}
	m.placeholders(n, a.Prompt, d)
}

func (m *manifest) workflow(n *yaml.Node, d *Definition) {
	w := &Workflow{}
	d.Workflow = w
	if n.Kind == yaml.ScalarNode {
		w.File = n.Value
	} else {
		f := m.fields(n, "workflow", names("workflow"))
		w.File, w.Output = m.text(f, "file"), m.text(f, "output")
	}
	if w.File == "" {
		m.errorf(n, "The workflow has no file")
	}
	if w.Output == "" && d.Result.Kind != types.RecordKind && d.Result.Kind != types.InvalidKind {
		m.errorf(n, "The result of %s is %s, but nothing says which variable of the workflow it is", d.Name, d.Result).
			Suggest("write workflow: {file: %s, output: NAME}, or make the result a record of variables", fmt.Sprint(w.File))
	}
}
