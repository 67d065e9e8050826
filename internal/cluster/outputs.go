package cluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
)

// Outputs that are too large for the record are files beside the journal, and facts have
// their paths. If the store is a directory, all machines see these files. With any other
// store they travel: the file becomes an object before the fact is recorded, and the fact
// has the object's name instead of the path. A machine that takes the fact over then has
// the file beside its own journal.

// carried precedes the name of an object with an output, in the data of facts.
const carried = "bide-output:"

// digestMark comes between the name of a file and the digest of its content, because a
// later attempt may write the same file again.
const digestMark = "~sha256-"

// carry puts the files that facts name into the store, and gives the facts with the names
// of the objects. logs is the directory of the files.
func (r Shared) carry(facts []event.Event, logs string) ([]event.Event, error) {
	if _, ok := r.o.(Directory); ok {
		return facts, nil
	}
	out := append([]event.Event(nil), facts...)
	for i := range out {
		var err error
		out[i].Data, err = renamed(out[i].Data, inJSON(logs+string(filepath.Separator)), func(name string) (string, error) {
			path := filepath.Join(logs, filepath.FromSlash(name))
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				return path, nil // it may be a text that looks like a path
			}
			return r.putOutput(path, name)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// renamed replaces each name that follows before in data, up to the end of the JSON string
// that it is in.
func renamed(data json.RawMessage, before []byte, to func(name string) (string, error)) (json.RawMessage, error) {
	if !bytes.Contains(data, before) {
		return data, nil
	}
	var out []byte
	for {
		start := bytes.Index(data, before)
		if start < 0 {
			return append(out, data...), nil
		}
		out = append(out, data[:start]...)
		rest := data[start+len(before):]
		end := bytes.IndexAny(rest, `"\ `)
		if end < 0 {
			end = len(rest)
		}
		text, err := to(string(rest[:end]))
		if err != nil {
			return nil, err
		}
		out = append(out, inJSON(text)...)
		data = rest[end:]
	}
}

// inJSON gives a text as it is written in a JSON string.
func inJSON(text string) []byte {
	b, _ := json.Marshal(text) // a string never fails
	return b[1 : len(b)-1]
}

// putOutput makes an object of a file, and gives the text that facts have instead of the
// path. If an object with the same content was damaged, it makes another one.
func (r Shared) putOutput(path, name string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	object, done := name+digestMark+sum(h), false
	for n := 2; err == nil && !done; n++ {
		if done, err = r.createOutput(object, f); err == nil && !done {
			object = fmt.Sprintf("%s%s%s~%d", name, digestMark, sum(h), n)
		}
	}
	return carried + object, errors.Join(err, f.Close())
}

// createOutput creates an object with an output, unless it exists. done is false if the
// existing one is damaged.
func (r Shared) createOutput(object string, f io.ReadSeeker) (done bool, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	err = r.o.Create(r.name("logs", object), func(w io.Writer) error { _, err := io.Copy(w, f); return err })
	switch {
	case err == nil:
		return true, nil
	case !errors.Is(err, fs.ErrExist):
		return false, storeError{err}
	}
	if err = r.isOutput(object, nil); errors.As(err, new(*DamagedError)) {
		return false, nil
	}
	return err == nil, err // it has the same content
}

// digestIn gives the file and the digest that the name of an output's object has.
func digestIn(object string) (file, digest string, ok bool) {
	file, digest, ok = strings.Cut(object, digestMark)
	digest, _, _ = strings.Cut(digest, "~")
	return file, digest, ok && filepath.IsLocal(filepath.FromSlash(file))
}

// isOutput reads an object with an output, writes it to to as well, and compares it with
// its digest.
func (r Shared) isOutput(object string, to io.Writer) error {
	_, digest, _ := digestIn(object)
	f, err := r.o.Read(r.name("logs", object), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &DamagedError{r.name("logs", object), errors.New("it is missing")}
	}
	if err != nil {
		return err
	}
	d := newDigested(f)
	_, err = io.Copy(cmp.Or(to, io.Discard), d)
	if err == nil && d.sum() != digest {
		err = &DamagedError{r.name("logs", object), errors.New("it is not what was written")}
	}
	return errors.Join(err, f.Close())
}

// outputsOf gives the objects with outputs that a part of a log names, each with the offset
// of the record that names it.
func (r Shared) outputsOf(p Prefix, each func(object string, at int64) error) error {
	at := int64(0)
	_, err := r.readLog(p.Log, 0, p.Length, func(text []byte, end int64) error {
		facts, err := eventsOf(text)
		for i := range facts {
			if err == nil {
				_, err = renamed(facts[i].Data, []byte(carried), func(name string) (string, error) {
					if _, _, ok := digestIn(name); ok {
						return name, each(name, at)
					}
					return name, nil
				})
			}
		}
		at = end
		return err
	})
	return err
}

// uncarry is the opposite of carry: it writes the files that facts name to logs.
func (r Shared) uncarry(e *event.Event, logs string) (err error) {
	e.Data, err = renamed(e.Data, []byte(carried), func(name string) (string, error) {
		file, digest, ok := digestIn(name)
		if !ok {
			return carried + name, nil
		}
		path := filepath.Join(logs, filepath.FromSlash(file))
		return path, r.getOutput(name, path, digest)
	})
	return err
}

// getOutput writes an object to a file, all of it or nothing.
func (r Shared) getOutput(object, path, digest string) error {
	if holds(path, digest) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	err := files.Replace(path, 0o600, func(to *os.File) error { return r.isOutput(object, to) })
	if errors.As(err, new(*DamagedError)) {
		err = repairable(err)
	}
	return err
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// holds reports whether a file has the content with a digest.
func holds(path, digest string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return errors.Join(err, f.Close()) == nil && sum(h) == digest
}
