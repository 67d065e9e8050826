package workflow

import (
	"strings"
)

// defaultCapture is what a step keeps of its result where nothing is said.
func defaultCapture() Capture {
	return Capture{Format: "string", Streams: Streams{Stdout: true, ExitCode: true, Success: true, Duration: true}}
}

// capture reads the variable that takes a step's output, and its format.
func (d *decoder) capture(o *object, key string, n *node, c *Capture) {
	switch {
	case n.kind == mapNode:
		m, _ := d.object(n, captureTable) // it is a map
		captureTable.read(m, c)
		m.close()
	case d.madeName(n):
		c.Text = d.text(n, key)
	default:
		c.Name = d.identifierAt(o, n, key)
	}
	c.Set = c.Name != "" || c.Text != nil
}

// madeName reports whether the name of a variable has variables in it that are
// not known yet, as in found_${item}.
func (d *decoder) madeName(n *node) bool {
	if n == nil || n.kind != strNode {
		return false
	}
	return strings.Contains(d.resolved(n).text, "${")
}

func (d *decoder) captureOutput(o *object, key string, n *node, c *Capture) {
	if d.madeName(n) && !c.Set {
		c.Text = d.text(n, key)
		c.Set = c.Text != nil
		return
	}
	n = d.resolved(n)
	switch {
	case n.kind == boolNode:
		c.Set = true
		c.Off = !isTrue(n)
		if !c.Off {
			d.named("CAPTURED_OUTPUT")
		}
		if c.Off && c.Name != "" {
			d.warnf(n, "contradiction", "capture_output: false contradicts capture: %s, which counts", c.Name).Suggest("remove one of the two")
			c.Off = false
		}
	case n.kind != strNode || !identifierText().MatchString(n.text):
		o.hint(d.wrong(n, key, "true, false or the name of a variable"), key)
	case c.Name != "" && c.Name != n.text:
		d.warnf(n, "contradiction", "capture_output names %q and capture names %q, which counts", n.text, c.Name).Suggest("keep one of the two")
	default:
		c.Name, c.Set = n.text, true
		d.named(n.text)
	}
}

func (d *decoder) streams(n *node, c *Capture) {
	n = d.resolved(n)
	switch {
	case n.kind == listNode:
		d.streamNames(n.items, c)
		return
	case n.scalar():
		var names []*node
		for _, word := range strings.Split(n.text, ",") {
			one := *n
			one.text = strings.TrimSpace(word)
			names = append(names, &one)
		}
		d.streamNames(names, c)
		return
	}
	o, _ := d.object(n, captureStreamsTable) // it is a map
	captureStreamsTable.read(o, &c.Streams)
	o.close()
}

// part is the part of a result that has a name; nil for none.
func (s *Streams) part(name string) *bool {
	return map[string]*bool{"stdout": &s.Stdout, "stderr": &s.Stderr, "exit_code": &s.ExitCode, "success": &s.Success, "duration": &s.Duration}[name]
}

// streamNames reads the names of what is kept: one, several with commas between,
// or a list. A single name is about the two texts; with several, what is not
// named is not kept.
func (d *decoder) streamNames(names []*node, c *Capture) {
	if len(names) > 1 {
		c.Streams = Streams{}
	}
	for _, n := range names {
		part := c.Streams.part(n.text)
		switch {
		case n.text == "both", n.text == "combined":
			c.Streams.Stdout, c.Streams.Stderr, c.Streams.Joined = true, true, true
		case part != nil:
			if len(names) == 1 && (n.text == "stdout" || n.text == "stderr") {
				c.Streams.Stdout, c.Streams.Stderr = false, false
			}
			*part = true
		default:
			p := d.errorf(n, "bad-value", "capture_streams cannot be %q", short(n.text))
			p.Near(n.text, []string{"stdout", "stderr", "both", "exit_code", "success", "duration"}).Or("write stdout, stderr, both or a map such as {stdout: true, stderr: true}")
		}
	}
}

// outputs reads the named outputs of a step.
func (d *decoder) outputs(n *node, key string) []Output {
	var list []Output
	for _, p := range d.pairs(n, key, "a map of names", "outputs: {report: {file_pattern: '*.md'}}") {
		out := Output{Name: p.key.text, Pos: p.key.pos}
		d.named(out.Name)
		if p.val.scalar() {
			d.shortOutput(p.val, key, &out)
			list = append(list, out)
			continue
		}
		o, ok := d.object(p.val, outputTable)
		if !ok {
			continue
		}
		outputTable.read(o, &out)
		var older outputForm
		outputTable.read(o, &older)
		o.close()
		if older.n != nil {
			d.extracted(older.n, &out)
		} else if out.FilePattern == "" && out.JSONPath == "" && out.Value == nil {
			d.errorf(p.val, "missing-key", "the output %q says nothing about where it comes from", out.Name).
				Suggest("write one of file_pattern, json_path and value")
			continue
		}
		list = append(list, out)
	}
	return list
}

// outputForm is an output in an older form.
type outputForm struct{ n *node }

// shortOutput decides what a single text means: a JSONPath, a text with
// variables, or a file pattern.
func (d *decoder) shortOutput(n *node, key string, out *Output) {
	switch text := n.text; {
	case strings.HasPrefix(text, "$.") || strings.HasPrefix(text, "$["):
		out.JSONPath = d.jsonPath(n, key)
	case strings.Contains(text, "$"):
		out.Value = d.text(n, key)
	default:
		out.FilePattern = text
	}
}
