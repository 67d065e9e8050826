package flow

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/breaker"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/plan"
)

// Shared is what calls of one module have in common, in all flows that are
// made with it: throttles, slots, breakers, the cache. It is safe for
// concurrent use.
type Shared struct {
	opt SharedOptions
	all *gate

	mu       sync.Mutex
	gates    map[string]*gate
	buckets  map[string]*bucket
	breakers map[string]*breaker.Breaker
	cache    *cache
}

// SharedOptions says what is shared. The zero value has no bound on attempts,
// and no disk cache.
type SharedOptions struct {
	// MaxParallel is how many attempts are made at once, over all modules; 0:
	// any number. Waits do not count.
	MaxParallel int
	// CacheDir is where `cache_backend: "disk"` keeps results; "": a pipeline
	// that wants it is refused.
	CacheDir string
	// Breakers is where the states of breakers are kept.
	Breakers breaker.Record
}

// NewShared returns what the flows of a run, or of a program, share.
func NewShared(o SharedOptions) *Shared {
	s := &Shared{opt: o, gates: map[string]*gate{}, buckets: map[string]*bucket{}, breakers: map[string]*breaker.Breaker{}, cache: newCache(o.CacheDir)}
	if o.MaxParallel > 0 {
		s.all = newGate(o.MaxParallel)
	}
	return s
}

// options takes over what a with clause says.
func (s *site) options(p *plan.Plan, function int, shared *Shared) error {
	o := s.node.Call.Options
	s.policy = o.Retry
	s.policy.Attempts = max(s.policy.Attempts, 1)
	name := s.node.Label
	if s.node.Op == plan.Apply {
		// The calls inside an application may be applications of the same
		// function: a slot of its own for each keeps them from waiting for
		// each other.
		name = elementPath(name, function, int(s.node.Span.Start))
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if o.Throttle.Count > 0 {
		s.throttle = lookup(shared.buckets, name+" "+o.Throttle.String(), func() *bucket { return newBucket(o.Throttle) })
	}
	if o.Limit > 0 {
		s.slots = lookup(shared.gates, name, func() *gate { return newGate(o.Limit) })
	}
	if o.Breaker.Count > 0 {
		var err error
		if s.breaker, err = shared.breakerOf(name, o.Breaker); err != nil {
			return err
		}
	}
	if o.Cache > 0 {
		s.cache = shared.cache
		if o.Backend == "disk" && shared.opt.CacheDir == "" {
			return &NodeError{Label: name, Pos: p.Pos(s.node), Source: "cache_backend: \"disk\"", Err: errors.New("there is no directory for a cache on disk here; use \"memory\"")}
		}
		s.identity = s.id()
		if s.node.Op == plan.Apply {
			s.identity += " " + p.Hash
		}
	}
	return nil
}

func lookup[V any](m map[string]*V, key string, make func() *V) *V {
	v := m[key]
	if v == nil {
		v = make()
		m[key] = v
	}
	return v
}

// queue are those who wait for a turn. The first is the one with the highest
// priority; waiting counts too, two points a second, so that nobody waits for
// ever, and among equals it is the one that came first.
type queue []*waiter

type waiter struct {
	key   float64 // smaller is sooner
	seq   uint64
	ready chan struct{}
	at    int // in the queue; -1: out of it
}

var epoch = time.Now()

func newWaiter(priority int, seq uint64) *waiter {
	return &waiter{key: 2*time.Since(epoch).Seconds() - float64(priority), seq: seq, ready: make(chan struct{})}
}

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].key != q[j].key {
		return q[i].key < q[j].key
	}
	return q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push is for package heap.
func (q *queue) Push(x any) {
	w := x.(*waiter)
	w.at = len(*q)
	*q = append(*q, w)
}

// Pop is for package heap.
func (q *queue) Pop() any {
	old := *q
	w := old[len(old)-1]
	w.at = -1
	*q = old[:len(old)-1]
	return w
}

// next takes the first out of the queue and lets it go.
func (q *queue) next() { close(heap.Pop(q).(*waiter).ready) }

// gate lets so many through at once.
type gate struct {
	mu      sync.Mutex
	free    int
	seq     uint64
	waiting queue
}

func newGate(n int) *gate { return &gate{free: n} }

// enter waits for a slot. wait is what waits: it returns an error if the wait
// is given up.
func (g *gate) enter(priority int, wait func(<-chan struct{}) error) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	g.seq++
	w := newWaiter(priority, g.seq)
	heap.Push(&g.waiting, w)
	g.mu.Unlock()
	err := wait(w.ready)
	if err == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.at < 0 { // a slot came at the same time
		g.free++
		g.pass()
		return err
	}
	heap.Remove(&g.waiting, w.at)
	return err
}

// leave gives the slot back.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free++
	g.pass()
}

func (g *gate) pass() {
	for g.free > 0 && len(g.waiting) > 0 {
		g.free--
		g.waiting.next()
	}
}

// bucket is a token bucket: full at first, refilled evenly. What it keeps is
// when it would be full again if no more were taken (the generic cell rate
// algorithm, ITU-T I.371), so that there is nothing to refill.
type bucket struct {
	interval time.Duration // between two tokens
	depth    time.Duration // interval × the number of tokens that it holds

	mu      sync.Mutex
	full    time.Time
	seq     uint64
	waiting queue
	timer   *time.Timer // armed while somebody waits
}

func newBucket(r check.Rate) *bucket {
	interval := (r.Per + time.Duration(r.Count) - 1) / time.Duration(r.Count)
	return &bucket{interval: interval, depth: interval * time.Duration(r.Count)}
}

// rest is how long it takes until there is a token; 0: it is taken.
func (b *bucket) rest(now time.Time) time.Duration {
	full := b.full
	if full.Before(now) {
		full = now
	}
	full = full.Add(b.interval)
	if d := full.Sub(now) - b.depth; d > 0 {
		return d
	}
	b.full = full
	return 0
}

// take waits for a token.
func (b *bucket) take(priority int, wait func(<-chan struct{}) error) error {
	b.mu.Lock()
	rest := time.Duration(1)
	if len(b.waiting) == 0 {
		if rest = b.rest(time.Now()); rest == 0 {
			b.mu.Unlock()
			return nil
		}
	}
	b.seq++
	w := newWaiter(priority, b.seq)
	heap.Push(&b.waiting, w)
	if len(b.waiting) == 1 {
		b.timer = time.AfterFunc(rest, b.serve)
	}
	b.mu.Unlock()
	err := wait(w.ready)
	if err == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.at >= 0 {
		heap.Remove(&b.waiting, w.at)
		if len(b.waiting) == 0 {
			b.timer.Stop()
		}
	}
	return err
}

// serve gives the tokens that are there to those who wait.
func (b *bucket) serve() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.waiting) > 0 {
		if rest := b.rest(time.Now()); rest > 0 {
			b.timer.Reset(rest)
			return
		}
		b.waiting.next()
	}
}

// breakerOf gives the breaker of a module for a rate: it opens after so many
// failures in a row, for so long, and then lets one attempt through.
func (s *Shared) breakerOf(module string, r check.Rate) (*breaker.Breaker, error) {
	name := module + " " + r.String()
	if b := s.breakers[name]; b != nil {
		return b, nil
	}
	b, err := breaker.New(name, circuit.Config{Name: module, FailureThreshold: r.Count, SuccessThreshold: 1, Timeout: r.Per, HalfOpenRequests: 1}, s.opt.Breakers)
	if err != nil {
		return nil, err
	}
	s.breakers[name] = b
	return b, nil
}

// patience is a wait that ends early with the context, or with the soft one.
func (x *exec) patience(ctx context.Context) func(<-chan struct{}) error {
	return func(ready <-chan struct{}) error {
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
		case <-x.opt.Soft.Done():
		}
		return x.stopping(ctx)
	}
}

// sleep waits for a time.
func (x *exec) sleep(ctx context.Context, d time.Duration) error {
	if err := x.stopping(ctx); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	case <-x.opt.Soft.Done():
	}
	return x.stopping(ctx)
}
