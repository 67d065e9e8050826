package flow

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
)

// cache keeps results of calls in memory, and on disk where a call wants it.
// Several calls with one key at a time make the attempts once.
type cache struct {
	dir string // "": not on disk

	mu      sync.Mutex
	entries map[string]*list.Element
	recent  list.List // of *entry, the one used last in front
	flights map[string]*flight
}

// maxEntries bounds the cache in memory; what was not used for longest goes.
const maxEntries = 10_000

type entry struct {
	key     string
	v       any
	expires time.Time
}

// flight is an operation whose result several calls wait for.
type flight struct {
	policy string // the options of the one who makes the attempts
	done   chan struct{}
	v      any
	err    error
}

func newCache(dir string) *cache {
	return &cache{dir: dir, entries: map[string]*list.Element{}, flights: map[string]*flight{}}
}

// get gives the result of a call from the cache or, if it is not there, from
// make, whose success is kept. Calls that come meanwhile with the same key wait
// for it. Its failure is theirs only if their options are the same; otherwise
// the next of them tries.
func (c *cache) get(op *operation, ctx context.Context, make func() (any, error)) (v any, cached bool, err error) {
	o := op.options()
	key := op.key()
	for {
		if v, ok := c.load(key, o.Backend, op.s.node); ok {
			return v, true, nil
		}
		c.mu.Lock()
		f := c.flights[key]
		if f == nil {
			f = &flight{policy: o.Text, done: newSignal()}
			c.flights[key] = f
			c.mu.Unlock()
			v, err := c.fly(f, key, make)
			if err == nil {
				err = c.store(key, o.Backend, v, o.Cache)
			}
			return v, false, err
		}
		c.mu.Unlock()
		if err := op.fr.x.patience(ctx)(f.done); err != nil {
			return nil, false, err
		}
		switch {
		case f.err == nil:
			return f.v, true, nil
		case f.policy == o.Text && !interrupted(f.err):
			var re *retry.Error
			if errors.As(f.err, &re) {
				op.made = re.Attempts
			}
			return nil, false, f.err
		}
	}
}

func newSignal() chan struct{} { return make(chan struct{}) }

// fly makes the attempts for all who wait.
func (c *cache) fly(f *flight, key string, make func() (any, error)) (any, error) {
	defer func() {
		c.mu.Lock()
		delete(c.flights, key)
		c.mu.Unlock()
		close(f.done)
	}()
	f.v, f.err = make()
	return f.v, f.err
}

func (c *cache) load(key, backend string, n *plan.Node) (any, bool) {
	c.mu.Lock()
	e := c.entries[key]
	if e != nil && !time.Now().Before(e.Value.(*entry).expires) {
		c.remove(e)
		e = nil
	}
	if e != nil {
		c.recent.MoveToFront(e)
		c.mu.Unlock()
		return e.Value.(*entry).v, true
	}
	c.mu.Unlock()
	if backend != "disk" {
		return nil, false
	}
	v, expires, ok := c.read(key, n)
	if ok {
		c.keep(key, v, expires)
	}
	return v, ok
}

func (c *cache) remove(e *list.Element) {
	c.recent.Remove(e)
	delete(c.entries, e.Value.(*entry).key)
}

func (c *cache) keep(key string, v any, expires time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		c.remove(e)
	}
	c.entries[key] = c.recent.PushFront(&entry{key, v, expires})
	if c.recent.Len() > maxEntries {
		c.remove(c.recent.Back())
	}
}

func (c *cache) store(key, backend string, v any, ttl time.Duration) error {
	expires := time.Now().Add(ttl)
	c.keep(key, v, expires)
	if backend != "disk" {
		return nil
	}
	return c.write(key, v, expires)
}

// onDisk is a file of the cache.
type onDisk struct {
	Expires time.Time       `json:"expires"`
	Value   json.RawMessage `json:"value"`
}

func (c *cache) file(key string) string { return filepath.Join(c.dir, key[:2], key+".json") }

// read gives a result from the disk. What cannot be read is not there.
func (c *cache) read(key string, n *plan.Node) (v any, expires time.Time, ok bool) {
	b, err := os.ReadFile(c.file(key))
	if err != nil {
		return nil, expires, false
	}
	var d onDisk
	if json.Unmarshal(b, &d) != nil || !time.Now().Before(d.Expires) {
		// Old or damaged: the call is made, and its result replaces this.
		return nil, expires, false
	}
	raw, err := value.Parse(d.Value)
	if err != nil {
		return nil, expires, false
	}
	v, err = types.Decode(raw, ownType(n))
	return v, d.Expires, err == nil
}

// ownType is the type of what is called, which is that of the call unless
// on_error wraps it.
func ownType(n *plan.Node) *types.Type {
	if n.Op == plan.Call {
		return n.Call.Module.Result()
	}
	return n.Type
}

// write puts a result on the disk, whole or not at all.
func (c *cache) write(key string, v any, expires time.Time) (err error) {
	b, err := json.Marshal(onDisk{expires, json.RawMessage(value.JSON(types.Encode(v)))})
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	path := c.file(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	_, werr := f.Write(b)
	if err := errors.Join(werr, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("cache: %w", err), os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(fmt.Errorf("cache: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// PruneCache removes the results under dir whose time is over, and what was
// left half written, and returns how many there were and their size in bytes. A
// directory that is not there has none.
func PruneCache(dir string, now time.Time, remove bool) (n int, size int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !expired(path, info, now) {
			return nil
		}
		n++
		size += info.Size()
		if remove {
			return os.Remove(path)
		}
		return nil
	})
	return n, size, err
}

func expired(path string, info fs.FileInfo, now time.Time) bool {
	if strings.HasPrefix(filepath.Base(path), "new-") {
		return now.Sub(info.ModTime()) > time.Hour
	}
	b, err := os.ReadFile(path)
	var d onDisk
	return err == nil && (json.Unmarshal(b, &d) != nil || !now.Before(d.Expires))
}

// key names a call by what it calls, in which version, with which inputs.
func (op *operation) key() string {
	h := sha256.New()
	h.Write([]byte(op.s.identity))
	args := op.args
	if n := op.s.node; n.Op == plan.Apply {
		// The function of an application has values from around it.
		for _, c := range op.fr.x.f.funcs[n.Call.Fn].Captures {
			if v, err := op.fr.need(c); err == nil {
				args = append(args[:len(args):len(args)], v)
			}
		}
	}
	for _, a := range args {
		h.Write([]byte{0})
		h.Write([]byte(value.JSON(types.Encode(a))))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// id names what a site calls: its name, its version, its result's type and,
// for a module from a manifest, what the manifest says that it does.
func (s *site) id() string {
	n := s.node
	if n.Op == plan.Apply {
		return n.Label + " " + fmt.Sprint(n.Call.Fn, n.Span.Start)
	}
	m := n.Call.Module
	id := m.Name() + "\x00" + m.Version() + "\x00" + m.Result().String()
	if d, ok := module.Describe(m); ok {
		if b, err := json.Marshal([]any{d.Shell, d.HTTP, d.Agent, d.Workflow, d.Dir}); err == nil {
			id += "\x00" + string(b)
		}
	}
	return id
}
