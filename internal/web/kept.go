package web

import (
	"context"
	"sync"
	"time"
)

// kept is what takes a while to read: one reads it for all who look, and nobody waits for
// that longer than a moment.
type kept[T any] struct {
	mu      sync.Mutex
	known   T
	err     error
	made    time.Time // when it was read; zero: never
	took    time.Duration
	reading chan struct{}  // closed when what is read is there; nil: nobody reads
	work    sync.WaitGroup // reading
}

// look gives what is known, and whether it is being read. Where old, which is asked under mu,
// says that it is old, it is read again, and look waits for that for up to a time. When it is
// there, then is called, unless it is nil.
func (k *kept[T]) look(ctx context.Context, wait time.Duration, old func() bool, read func() (T, error), then func(took time.Duration)) (known T, err error, reads bool) {
	k.mu.Lock()
	if k.reading == nil && old() {
		k.reading = make(chan struct{})
		k.work.Go(func() { k.read(read, then) })
	}
	reading := k.reading
	k.mu.Unlock()
	if reading != nil && wait > 0 {
		select {
		case <-reading:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known, k.err, k.reading != nil
}

func (k *kept[T]) read(read func() (T, error), then func(took time.Duration)) {
	began := time.Now()
	known, err := read()
	k.mu.Lock()
	k.known, k.err, k.made, k.took = known, err, time.Now(), time.Since(began)
	close(k.reading)
	k.reading = nil
	took := k.took
	k.mu.Unlock()
	if then != nil {
		then(took)
	}
}
