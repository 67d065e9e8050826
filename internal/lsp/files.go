package lsp

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"time"
)

// stamp tells one state of a file from another: the version of the open
// document, or time and size of what is on the disk.
type stamp struct {
	open *document
	text int // how often the open document was changed
	mod  time.Time
	size int64
	none bool // there is no such file
}

// stamp looks at a file without reading it.
func (s *server) stamp(name string) stamp {
	if d := s.documents[fileURI(name)]; d != nil {
		return stamp{open: d, text: d.changes}
	}
	info, err := os.Stat(name)
	if err != nil {
		return stamp{none: true}
	}
	return stamp{mod: info.ModTime(), size: info.Size()}
}

// sources reads files as the editor has them, and remembers in which state each
// was, so that what was made of them is made again only when one has changed.
type sources struct {
	s    *server
	seen map[string]stamp
	text map[string][]byte
}

func (s *server) sources() *sources {
	return &sources{s: s, seen: map[string]stamp{}, text: map[string][]byte{}}
}

// read gives the text of a file. One that is missing is an fs.ErrNotExist.
func (r *sources) read(name string) ([]byte, error) {
	name = absolute(name)
	at := r.s.stamp(name)
	r.seen[name] = at
	if at.open != nil {
		return []byte(at.open.text), nil
	}
	if at.none {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		r.seen[name] = stamp{none: true}
	}
	r.text[name] = b
	return b, err
}

// fresh reports whether every file that was read is as it was.
func (r *sources) fresh() bool {
	if r == nil {
		return false
	}
	for name, at := range r.seen {
		if r.s.stamp(name) != at {
			return false
		}
	}
	return true
}

func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

// fileName is the path of a document's file, beside which its modules are
// looked for; of one that is no file, the last part of its name.
func fileName(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Path != "" {
		if u.Scheme == "file" {
			return filepath.FromSlash(u.Path)
		}
		return path.Base(u.Path)
	}
	return uri
}

// fileURI is the inverse of fileName for files.
func fileURI(name string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(absolute(name))}).String()
}
