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

	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
)

// cache keeps results of calls in memory, and on disk where a call wants it.
// Several calls with one key at a time make the attempts once.
type cache struct {
	dir   string // "": not on disk
	clock clock.Clock

	mu      sync.Mutex
	entries map[string]*list.Element
	recent  list.List // of *entry, the one used last in front
	flights map[string]*flight
}

// maxEntries bounds the cache in memory; what was not used for longest goes.
const maxEntries = 10_000

type entry struct {
	key string
	kept
}

// kept is a result with its age. Whoever wants it may want a younger one.
type kept struct {
	v       any
	made    time.Time
	expires time.Time // after which nobody gets it
}

// fresh reports whether the result is young enough for a call that keeps its own
// for ttl.
func (k *kept) fresh(now time.Time, ttl time.Duration) bool {
	return now.Before(k.expires) && now.Sub(k.made) < ttl
}

// flight is an operation whose result several calls wait for.
type flight struct {
	policy  string // the options of the one who makes the attempts
	done    chan struct{}
	v       any
	err     error
	stopped bool // its run was, so that err says nothing of the call
}

func newCache(o SharedOptions) *cache {
	c := &cache{dir: o.CacheDir, clock: o.Clock, entries: map[string]*list.Element{}, flights: map[string]*flight{}}
	if o.Volatile {
		c.dir = ""
	}
	return c
}

// get gives the result of a call from the cache or, if it is not there, from
// make, whose success is kept. Calls that come meanwhile with the same key wait
// for it. Its failure is theirs only if their options are the same; otherwise
// the next of them tries.
func (c *cache) get(op *operation, ctx context.Context, make func() (any, error)) (v any, cached bool, err error) {
	o := op.options()
	key := op.key()
	for {
		if v, ok := c.load(key, o, op.s.node); ok {
			return v, true, nil
		}
		f, mine := c.join(key, o)
		if mine {
			v, err := c.fly(f, op, key, make)
			return v, false, err
		}
		if f == nil { // it came between
			continue
		}
		if err := op.patience(ctx, f.done); err != nil {
			return nil, false, err
		}
		switch {
		case f.err == nil:
			return f.v, true, nil
		case f.policy == o.Text && !f.stopped:
			if re, ok := errors.AsType[*retry.Error](f.err); ok {
				op.made = re.Attempts
			}
			return nil, false, f.err
		}
	}
}

// join gives the flight of a key, and whether it is the caller's to fly. There
// is none if the result has come since the caller looked.
func (c *cache) join(key string, o *check.Options) (f *flight, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f = c.flights[key]; f != nil {
		return f, false
	}
	if e := c.entries[key]; e != nil && e.Value.(*entry).fresh(c.clock.Now(), o.Cache) {
		return nil, false
	}
	f = &flight{policy: o.Text, done: make(chan struct{})}
	c.flights[key] = f
	return f, true
}

// fly makes the attempts for all who wait. Its result is in the cache before the
// flight is over, so that nobody finds neither.
func (c *cache) fly(f *flight, op *operation, key string, make func() (any, error)) (any, error) {
	f.stopped = true // unless make returns
	defer func() {
		c.mu.Lock()
		delete(c.flights, key)
		c.mu.Unlock()
		close(f.done)
	}()
	f.v, f.err = make()
	if f.stopped = op.fr.x.interrupted(f.err); f.err != nil {
		return nil, f.err
	}
	op.unkept = c.store(key, op.options(), f.v)
	return f.v, nil
}

func (c *cache) load(key string, o *check.Options, n *plan.Node) (any, bool) {
	c.mu.Lock()
	e := c.entries[key]
	if e != nil && e.Value.(*entry).fresh(c.clock.Now(), o.Cache) {
		c.recent.MoveToFront(e)
		c.mu.Unlock()
		return e.Value.(*entry).v, true
	}
	if e != nil && !c.clock.Now().Before(e.Value.(*entry).expires) {
		c.remove(e)
	}
	c.mu.Unlock()
	if o.Backend != "disk" || c.dir == "" {
		return nil, false
	}
	k, ok := c.read(key, n)
	if !ok || !k.fresh(c.clock.Now(), o.Cache) {
		return nil, false
	}
	c.keep(key, k)
	return k.v, true
}

func (c *cache) remove(e *list.Element) {
	c.recent.Remove(e)
	delete(c.entries, e.Value.(*entry).key)
}

func (c *cache) keep(key string, k kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		c.remove(e)
	}
	c.entries[key] = c.recent.PushFront(&entry{key, k})
	if c.recent.Len() > maxEntries {
		c.remove(c.recent.Back())
	}
}

// store keeps a result. The error says why it is not on the disk.
func (c *cache) store(key string, o *check.Options, v any) error {
	now := c.clock.Now()
	k := kept{v: v, made: now, expires: now.Add(o.Cache)}
	c.keep(key, k)
	if o.Backend != "disk" || c.dir == "" {
		return nil
	}
	return c.write(key, k)
}

// onDisk is a file of the cache.
type onDisk struct {
	Made    time.Time       `json:"made"`
	Expires time.Time       `json:"expires"`
	Value   json.RawMessage `json:"value"`
}

func (c *cache) file(key string) string { return filepath.Join(c.dir, key[:2], key+".json") }

// read gives a result from the disk. What cannot be read is not there: the call
// is made, and its result replaces this.
func (c *cache) read(key string, n *plan.Node) (k kept, ok bool) {
	b, err := os.ReadFile(c.file(key))
	if err != nil {
		return k, false
	}
	var d onDisk
	if json.Unmarshal(b, &d) != nil {
		return k, false
	}
	raw, err := value.Parse(d.Value)
	if err != nil {
		return k, false
	}
	v, err := types.Decode(raw, ownType(n))
	return kept{v, d.Made, d.Expires}, err == nil
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
func (c *cache) write(key string, k kept) error {
	b, err := json.Marshal(onDisk{k.made, k.expires, json.RawMessage(value.JSON(types.Encode(k.v)))})
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	path := c.file(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	err = files.Replace(path, 0o600, func(f *os.File) error { _, err := f.Write(b); return err })
	if err != nil {
		return fmt.Errorf("cache: %w", err)
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
	if strings.HasPrefix(filepath.Base(path), ".") { // half written
		return now.Sub(info.ModTime()) > time.Hour
	}
	b, err := os.ReadFile(path)
	var d onDisk
	return err == nil && (json.Unmarshal(b, &d) != nil || !now.Before(d.Expires))
}

// key names a call by what it calls, in which version, with which inputs.
func (op *operation) key() string {
	h := sha256.New()
	h.Write([]byte(op.s.identity()))
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

// identity is what identify says, which is worked out once.
func (s *site) identity() string {
	s.once.Do(func() { s.id = s.identify() })
	return s.id
}

// identify names what a site calls, so that calls of one name are of one thing:
// a module with its definition, or a function with those of all modules in it.
func (s *site) identify() string {
	n, p := s.node, s.plan
	if n.Op == plan.Call {
		return moduleIdentity(n.Call.Module)
	}
	id := fmt.Sprint(n.Label, " ", n.Call.Fn, " ", p.Hash())
	seen := map[module.Module]bool{}
	var visit func(fn int)
	visit = func(fn int) {
		for i := range p.Funcs[fn].Nodes {
			c := p.Funcs[fn].Nodes[i].Call
			switch {
			case c == nil:
			case c.Module == nil:
				visit(c.Fn)
			case !seen[c.Module]:
				seen[c.Module] = true
				id += "\x00" + moduleIdentity(c.Module)
			}
		}
	}
	visit(n.Call.Fn)
	return id
}

// moduleIdentity is the name of a module, its version, its result's type and,
// for one from a manifest, what the manifest and the files that it names say.
func moduleIdentity(m module.Module) string {
	id := m.Name() + "\x00" + m.Version() + "\x00" + m.Result().String()
	if d, ok := module.Describe(m); ok {
		if b, err := json.Marshal([]any{d.Shell, d.HTTP, d.Agent, d.Workflow, d.Dir, d.Sum}); err == nil {
			id += "\x00" + string(b)
		}
	}
	return id
}
