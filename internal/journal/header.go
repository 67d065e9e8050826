package journal

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/value"
)

// Header is what is recorded of a run before its first event.
type Header struct {
	Run     string // id; set by Create
	Name    string // of the workflow
	Path    string // of its file, absolute; "" if there is none
	Kind    string // workflow, mapreduce, pipeline, …
	Dir     string // the working directory
	Source  []byte // the file's content
	Others  map[string][]byte
	Params  json.RawMessage // parameters; nil for none
	Options json.RawMessage // options of the command; nil for none
	Started time.Time       // set by Create if it is zero
	// BideVersion is the program's that made the journal.
	BideVersion string
}

// Title is what a person knows the run by: the name of its workflow, or of a batch the
// command as it was given.
func (h *Header) Title() string {
	var o struct {
		Batch struct {
			Command string   `json:"command"`
			Words   []string `json:"words"`
		} `json:"batch"`
	}
	if h.Options == nil || json.Unmarshal(h.Options, &o) != nil {
		return h.Name
	}
	command := o.Batch.Command
	switch len(o.Batch.Words) {
	case 0:
	case 1:
		command = o.Batch.Words[0] // a text for the shell, where it is more than a word
	default:
		command = strings.Join(value.Map(o.Batch.Words, func(w string) string {
			if strings.HasPrefix(w, "{") && strings.HasSuffix(w, "}") {
				return w // where the item goes
			}
			return diag.ShellWord(w)
		}), " ")
	}
	if command == "" {
		return h.Name
	}
	return "batch: " + diag.ClipBytes(command, maxBatchTitle)
}

// maxBatchTitle is how much of a batch's command its title has, in bytes.
const maxBatchTitle = 200

// meta is the header as rows of the table of that name.
func (h *Header) meta() map[string]driver.Value {
	rows := map[string]driver.Value{
		"run": h.Run, "name": h.Name, "path": h.Path, "kind": h.Kind, "dir": h.Dir,
		"source": h.Source, "params": []byte(h.Params), "options": []byte(h.Options),
		"started": h.Started.UnixNano(), "bide_version": h.BideVersion,
	}
	for name, content := range h.Others {
		rows[otherKey+name] = content
	}
	return rows
}

// otherKey is what the keys of Header.Others begin with.
const otherKey = "file:"

func (h *Header) check() error {
	if h.Params != nil && !json.Valid(h.Params) {
		return errors.New("journal: Header.Params is not JSON")
	}
	if h.Options != nil && !json.Valid(h.Options) {
		return errors.New("journal: Header.Options is not JSON")
	}
	return nil
}

// writeNew makes an empty journal for h in the file path, which must not
// exist, and closes it: complete, in one piece, on the disk with its name.
func (h *Header) writeNew(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(empty); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	named := begin(func() error { return syncDir(filepath.Dir(path)) })
	return errors.Join(h.complete(path), named())
}

// complete fills the header in and syncs it.
func (h *Header) complete(path string) error {
	if err := h.write(path); err != nil {
		return err
	}
	// A handle of our own may be closed while nobody else has the database:
	// then it takes no locks away.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(syncFile(f), f.Close())
}

// write fills the header in.
func (h *Header) write(path string) (err error) {
	c, err := open(path, readWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// Until it is renamed to its final place, nobody knows of the file, so it
	// need not survive anything before it is complete and synced.
	if err := execSQL(c, "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; BEGIN"); err != nil {
		return err
	}
	var meta []driver.Value
	for key, value := range h.meta() {
		meta = append(meta, key, value)
	}
	rows := strings.TrimSuffix(strings.Repeat("(?, ?),", len(meta)/2), ",")
	if err := execSQL(c, "INSERT INTO meta VALUES "+rows, named(meta...)...); err != nil {
		return err
	}
	return execSQL(c, "COMMIT; PRAGMA journal_mode = WAL")
}

// recorded is h as it is read back.
func (h *Header) recorded() (out Header) {
	for key, value := range h.meta() {
		out.set(key, value)
	}
	return out
}

func named(values ...driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, len(values))
	for i, v := range values {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return out
}

// readHeader reads the header.
func (r *Reader) readHeader(ctx context.Context) (h Header, err error) {
	seen := map[string]bool{}
	err = r.query(ctx, func(row []driver.Value) error {
		seen[text(row[0])] = true
		h.set(text(row[0]), row[1])
		return nil
	}, "SELECT key, value FROM meta")
	if err != nil {
		return h, err
	}
	for _, key := range []string{"run", "name", "kind", "source", "started"} {
		if !seen[key] {
			return h, damaged(r.path, fmt.Sprintf("its header lacks %q", key), nil)
		}
	}
	if r.version < othersInMeta {
		err = r.query(ctx, func(row []driver.Value) error {
			value.Put(&h.Others, text(row[0]), blob(row[1]))
			return nil
		}, "SELECT name, content FROM texts")
	}
	return h, err
}

func (h *Header) set(key string, v driver.Value) {
	switch key {
	case "run":
		h.Run = text(v)
	case "name":
		h.Name = text(v)
	case "path":
		h.Path = text(v)
	case "kind":
		h.Kind = text(v)
	case "dir":
		h.Dir = text(v)
	case "source":
		h.Source = blob(v)
	case "params":
		h.Params = blob(v)
	case "options":
		h.Options = blob(v)
	case "started":
		h.Started = instant(integer(v))
	case "bide_version":
		h.BideVersion = text(v)
	default:
		if name, ok := strings.CutPrefix(key, otherKey); ok {
			value.Put(&h.Others, name, blob(v))
		}
	}
}

// The database types its values one by one; a damaged or foreign one may hold
// anything anywhere. These take what fits and give zero for the rest.

func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

func text(v driver.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

func blob(v driver.Value) []byte {
	switch v := v.(type) {
	case []byte:
		if len(v) > 0 {
			return v
		}
	case string:
		if v != "" {
			return []byte(v)
		}
	}
	return nil
}

// instant is a time from the table; like every time that comes out of a
// journal it is in UTC.
func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// ReadFile gives a text that was recorded with the run, the run's own file and
// those that it is composed of; nothing is read from the disk. The error for
// any other path is an fs.ErrNotExist.
func (h *Header) ReadFile(path string) ([]byte, error) {
	if path == h.Path {
		return h.Source, nil
	}
	if b, ok := h.Others[path]; ok {
		return b, nil
	}
	if abs, err := filepath.Abs(path); err == nil {
		if b, ok := h.Others[abs]; ok {
			return b, nil
		}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}
