package workflow

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/template"
)

// actionKeys are the keys of which a step has exactly one. validate is one
// only where it stands alone.
var actionKeys = []string{
	"shell", "claude", "command", "http", "write_file", "foreach", "goal_seek", "test", "pipeline", "workflow", "analyze", "handler",
}

// action reads what a step does into s.Action; nil after an error.
func (d *decoder) action(o *object, s *Step) {
	var written []string
	for _, p := range o.n.pairs {
		if slices.Contains(actionKeys, p.key.text) || d.agents[p.key.text] {
			written = append(written, p.key.text)
		}
	}
	switch {
	case len(written) == 0:
		d.actionless(o, s)
		return
	case len(written) > 1:
		d.errorf(o.keyNode(written[1]), "several-actions", "a step has one action; this has %s", strings.Join(written, " and ")).
			Suggest("make it %d steps", len(written))
		o.skip(written...)
		o.skip("with", "do", "parallel", "max_items", "args")
		return
	}
	key := written[0]
	n := o.peek(key)
	o.skip(key)
	d.noteFormer(o, o.keyNode(key))
	if n.kind == nullNode && key != "analyze" {
		d.errorf(o.keyNode(key), "empty-action", "the step's %s is empty", key).Suggest("write what it does behind %s:", key)
		o.skip("with", "do", "parallel", "max_items", "args", "name")
		return
	}
	if n.scalar() && key != "analyze" && strings.TrimSpace(n.text) == "" {
		d.errorf(n, "empty-action", "the step's %s is empty", key).Suggest("write what it does behind %s:", key)
		return
	}
	s.Action = d.actionOf(o, s, key, n)
}

// actionOf reads the one action of a step. A typed nil never leaves it.
func (d *decoder) actionOf(o *object, s *Step, key string, n *node) Action {
	switch key {
	case "shell":
		if t := d.text(n, key); t != nil {
			return &Shell{Text: t}
		}
	case "claude", "command":
		if t := d.text(n, key); t != nil {
			if key == "command" {
				t = d.parsed(n, slashed(n.text))
			}
			return d.prompt(o, t, "")
		}
	case "http":
		if h := d.http(n); h != nil {
			return h
		}
	case "write_file":
		if w := d.writeFile(n); w != nil {
			return w
		}
	case "foreach":
		if f := d.foreach(o, n, s.Path); f != nil {
			return f
		}
	case "goal_seek":
		if g := d.goalSeek(n, s.Path); g != nil {
			return g
		}
	case "test":
		if t := d.test(n, s); t != nil {
			return t
		}
	case "pipeline":
		if t := d.text(n, key); t != nil {
			return &Pipeline{File: t, With: d.with(o)}
		}
	case "workflow":
		if c := d.call(o, n); c != nil {
			return c
		}
	case "analyze":
		f, _ := stepTable.field("analyze")
		d.warnf(o.keyNode(key), "no-effect", "analyze has no effect: %s", f.inert).Suggest("remove the step")
		return &Analyze{}
	case "handler":
		d.errorf(n, "unsupported", "handler: names a handler of the program it was written for, which does not exist here").
			Suggest("put its commands into a shell: or claude: step")
	default:
		if t := d.text(n, key); t != nil {
			return d.prompt(o, t, key)
		}
	}
	return nil
}

// actionless is a step without an action key: a validation of its own, a
// prompt in the legacy form, or a mistake.
func (d *decoder) actionless(o *object, s *Step) {
	if n := o.take("validate"); n != nil {
		if v := d.validate(n, s.Path); v != nil {
			s.Action = v
		}
		return
	}
	mistaken, near := o.mistakenAction()
	if mistaken == nil {
		if n := o.take("name"); n != nil && n.scalar() {
			d.namedPrompt(o, n, s)
			return
		}
	}
	if mistaken != nil {
		d.errorf(mistaken, "no-action", "this step does nothing: it has no action, and %q is no key of a step", mistaken.text).Suggest("did you mean %q?", near)
		o.skip(mistaken.text)
		return
	}
	p := d.errorf(o.n, "no-action", "this step does nothing: it has no action")
	p.EndColumn = 0
	p.Suggest("write one of shell, claude, http, write_file, foreach, validate, goal_seek, test, pipeline or workflow")
}

// mistakenAction finds an unknown key that is probably an action's.
func (o *object) mistakenAction() (key *node, near string) {
	names := append(slices.Clone(actionKeys), "validate")
	for name := range o.d.agents {
		names = append(names, name)
	}
	for _, q := range o.n.pairs {
		if _, known := o.field(q.key.text); known {
			continue
		}
		if near := diag.Nearest(q.key.text, names); near != "" {
			return q.key, near
		}
	}
	return nil, ""
}

// namedPrompt reads {name: x, args: […]}: the agent's command /x.
func (d *decoder) namedPrompt(o *object, n *node, s *Step) {
	text := slashed(n.text)
	for _, a := range o.strings("args") {
		text += " " + a.text
	}
	if !o.has("args") && strings.Contains(strings.TrimSpace(n.text), " ") {
		d.warnf(n, "name-as-prompt", "this step has no action, so its name is run as the agent prompt %q", short(text)).
			Suggest("write claude: %s to say so, or add the action that is missing", short(text))
	}
	if t := d.parsed(n, text); t != nil {
		s.Action = &Claude{Text: t}
	}
}

// prompt reads what stands beside an agent's prompt.
func (d *decoder) prompt(o *object, t *template.Text, provider string) Action {
	if t == nil {
		return nil
	}
	c := &Claude{Text: t, Provider: provider, Args: texts(o.strings("args"))}
	if v, ok := o.flag("skip_permissions"); ok {
		c.SkipPermissions = &v
	}
	return c
}

// with reads the arguments of a pipeline or workflow.
func (d *decoder) with(o *object) []Arg {
	n := o.take("with")
	if n == nil {
		return nil
	}
	return d.args(n, "with")
}

func (d *decoder) args(n *node, key string) []Arg {
	if n.kind != mapNode {
		d.wrong(n, key, "a map of values").Suggest("for example: %s: {level: high}", key)
		return nil
	}
	list := make([]Arg, 0, len(n.pairs))
	for _, p := range n.pairs {
		list = append(list, Arg{Name: p.key.text, Pos: p.key.pos, Value: d.deep(p.val)})
	}
	return list
}

func (d *decoder) call(o *object, n *node) *Call {
	if !n.scalar() {
		d.wrong(n, "workflow", "the name of an imported workflow").Suggest("for example: workflow: deploy, with the import's name under imports")
		return nil
	}
	with := o.peek("with")
	c := &Call{Workflow: n.text, With: d.with(o)}
	d.calls = append(d.calls, pendingCall{c, n, with})
	return c
}

func (d *decoder) http(n *node) *HTTP {
	if n.scalar() {
		if t := d.text(n, "http"); t != nil {
			return &HTTP{Method: "GET", URL: t}
		}
		return nil
	}
	o, ok := d.object(n, httpTable)
	if !ok {
		return nil
	}
	defer o.close()
	h := &HTTP{URL: o.text("url"), Method: strings.ToUpper(o.str("method"))}
	if h.URL == nil && !o.has("url") {
		d.errorf(n, "missing-key", "an http step needs a url").Suggest("for example: url: https://example.org/status")
	}
	if v := o.take("headers"); v != nil {
		h.Headers = d.headers(v)
	}
	if key, v := o.first("body", "json"); v != nil {
		if key == "body" && v.scalar() {
			h.Body = d.text(v, key)
		} else {
			h.JSON = d.deep(v)
		}
	}
	if v := o.take("expect"); v != nil {
		h.Expect = d.expect(v)
	}
	if v, ok := o.integer(1, "max_body"); ok {
		h.MaxBody = v
	}
	d.method(o, h)
	if h.URL == nil {
		return nil
	}
	return h
}

func (d *decoder) method(o *object, h *HTTP) {
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	switch {
	case h.Method == "" && (h.Body != nil || h.JSON != nil):
		h.Method = "POST"
	case h.Method == "":
		h.Method = "GET"
	case !slices.Contains(methods, h.Method):
		p := d.errorf(o.peek("method"), "bad-value", "there is no HTTP method %q", short(h.Method))
		if s := diag.DidYouMean(h.Method, methods); s != "" {
			p.Suggest("%s", s)
		} else {
			p.Suggest("write one of %s", strings.Join(methods, ", "))
		}
	}
}

func (d *decoder) headers(n *node) []Header {
	if n.kind != mapNode {
		d.wrong(n, "headers", "a map").Suggest("for example: headers: {Accept: application/json}")
		return nil
	}
	var list []Header
	for _, p := range n.pairs {
		if !headerName(p.key.text) {
			d.errorf(p.key, "bad-name", "%q is no header name", short(p.key.text)).Suggest("a header name has letters, digits and hyphens")
			continue
		}
		values := []*node{p.val}
		if p.val.kind == listNode {
			values = p.val.items
		}
		for _, v := range values {
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
	items := []*node{n}
	if n.kind == listNode {
		items = n.items
	}
	var list []StatusRange
	for _, it := range items {
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

func (d *decoder) writeFile(n *node) *WriteFile {
	o, ok := d.object(n, writeFileTable)
	if !ok {
		return nil
	}
	defer o.close()
	w := &WriteFile{Path: o.text("path"), Format: o.choice("text", "format"), Mode: 0o644, CreateDirs: o.yes("create_dirs")}
	if !o.has("path") {
		d.errorf(n, "missing-key", "a write_file step needs a path").Suggest("for example: path: out/result.txt")
	}
	if w.Path != nil && w.Path.IsLiteral() {
		d.insidePath(o.peek("path"), w.Path.String())
	}
	d.content(o, w)
	if v := o.take("mode"); v != nil {
		d.mode(v, w)
	}
	if w.Path == nil || w.Content == nil {
		return nil
	}
	return w
}

// insidePath refuses paths that lead out of the working directory.
func (d *decoder) insidePath(n *node, path string) {
	if strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
		d.errorf(n, "path-outside", "the path %q leads out of the working directory", short(path)).
			Suggest("write a path relative to the working directory, without ..")
	}
}

func (d *decoder) content(o *object, w *WriteFile) {
	i := o.find("content")
	if i < 0 {
		d.errorf(o.n, "missing-key", "a write_file step needs content").Suggest("for example: content: hello")
		return
	}
	n := o.n.pairs[i].val
	o.used[i] = true
	switch {
	case n.scalar():
		w.Content = d.parsed(n, n.text)
	case w.Format == "text":
		d.wrong(n, "content", "a text").Suggest("write format: json to have a map or a list written as JSON")
	default:
		w.Content = d.parsed(n, valueJSON(n))
	}
}

// mode reads permissions: octal digits, quoted or not.
func (d *decoder) mode(n *node, w *WriteFile) {
	n = d.resolved(n)
	m, err := strconv.ParseUint(strings.TrimPrefix(n.text, "0o"), 8, 32)
	if !n.scalar() || err != nil || m > 0o7777 {
		d.errorf(n, "bad-value", "mode %q is no permissions in octal", short(n.text)).Suggest("for example: mode: '0644'")
		return
	}
	w.Mode = os.FileMode(m & 0o777)
	if m&0o4000 != 0 {
		w.Mode |= os.ModeSetuid
	}
	if m&0o2000 != 0 {
		w.Mode |= os.ModeSetgid
	}
	if m&0o1000 != 0 {
		w.Mode |= os.ModeSticky
	}
}

// test reads the old name of a shell step with a repair loop.
func (d *decoder) test(n *node, s *Step) *Shell {
	if n.scalar() {
		if t := d.text(n, "test"); t != nil {
			return &Shell{Text: t, Test: true}
		}
		return nil
	}
	o, ok := d.object(n, testTable)
	if !ok {
		return nil
	}
	defer o.close()
	t := o.text("command", "shell")
	if h := o.take("on_failure"); h != nil {
		d.nested++
		d.handlersOpen++
		s.OnFailure = d.handler(h, s.Path+".on_failure")
		d.handlersOpen--
		d.nested--
	}
	if t == nil {
		d.errorf(n, "missing-key", "a test needs a command").Suggest("for example: test: {command: make test}")
		return nil
	}
	return &Shell{Text: t, Test: true}
}
