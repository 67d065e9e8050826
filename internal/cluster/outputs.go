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
// their paths. In a directory, all machines see these files. With any other store they
// travel: the file is an object before the fact is recorded, and the fact has the name of
// the object where it had the path. Whoever takes the fact over has the file beside his
// own journal then.

// carried is what is before the name of an object with an output, in the data of facts.
const carried = "bide-output:"

// digestMark ends the name of a file and begins the digest of its content, as a later
// attempt may write the same file again.
const digestMark = "~sha256-"

// carry puts the files that facts name into the store, and gives the facts that name the
// objects. logs is the directory of the files.
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
				return path, nil // a text that looks like a path, perhaps
			}
			return r.putOutput(path, name)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// renamed gives data in which another text stands for each name behind before: up to the
// end of the JSON string that it is in.
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

// inJSON is a text as it stands in a JSON string.
func inJSON(text string) []byte {
	b, _ := json.Marshal(text) // a string always can be
	return b[1 : len(b)-1]
}

// putOutput makes an object of a file, and gives what facts have instead of its path. Where
// an object of the same content was damaged, there is another one.
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

// createOutput creates an object with an output, unless it is there; it is not done where that
// is damaged.
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
	return err == nil, err // the same content
}

// digestIn is the digest of an output that the name of its object has.
func digestIn(object string) (file, digest string, ok bool) {
	file, digest, ok = strings.Cut(object, digestMark)
	digest, _, _ = strings.Cut(digest, "~")
	return file, digest, ok && filepath.IsLocal(filepath.FromSlash(file))
}

// isOutput reads an object with an output, also into to, and compares it with its digest.
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
// of the record that does.
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

// uncarry is the opposite of carry: it has the files in logs that facts name.
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

// getOutput has an object in a file, which is there whole or not at all.
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

// holds reports whether a file has a content.
func holds(path, digest string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return errors.Join(err, f.Close()) == nil && sum(h) == digest
}
