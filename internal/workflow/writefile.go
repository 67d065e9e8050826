package workflow

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/value"
)

func (d *decoder) writeFile(n *node) *WriteFile {
	o, ok := d.object(n, writeFileTable)
	if !ok {
		return nil
	}
	defer o.close()
	w := &WriteFile{Format: "text", Mode: 0o644}
	writeFileTable.read(o, w)
	if key := o.keyOf(w, &w.Path); key != nil && w.Path != nil && w.Path.IsLiteral() {
		d.insidePath(o.peek(key.text), w.Path.String())
	} else if key == nil {
		d.errorf(n, "missing-key", "a write_file step needs a path").Suggest("for example: path: out/result.txt")
	}
	var c fileContent
	writeFileTable.read(o, &c)
	d.content(o, c.orNull, w)
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

// fileContent is what is written into a file.
type fileContent struct{ orNull }

func (d *decoder) content(o *object, c orNull, w *WriteFile) {
	if c.key == nil {
		d.errorf(o.n, "missing-key", "a write_file step needs content").Suggest("for example: content: hello")
		return
	}
	switch n := c.val; {
	case n.scalar():
		w.Content = d.parsed(n, n.text)
	case w.Format == "text":
		d.wrong(n, c.key.text, "a text").Suggest("write format: json to have a map or a list written as JSON")
	default:
		w.Content = d.parsed(n, value.JSON(n.value()))
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
	for bit, mode := range map[uint64]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if m&bit != 0 {
			w.Mode |= mode
		}
	}
}
