package worktree

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/flock"
)

// lock is a mutual exclusion within the process and, by flock on a file, between processes.
// When the process that holds it ends, the lock ends. The file stays and means nothing by
// itself.
type lock struct {
	sem  chan struct{}
	file string
}

func newLock(file string) *lock { return &lock{sem: make(chan struct{}, 1), file: file} }

// while runs f with the lock held.
func (l *lock) while(ctx context.Context, f func() error) error {
	select {
	case l.sem <- struct{}{}:
		defer func() { <-l.sem }()
	case <-ctx.Done():
		return ctx.Err()
	}
	file := flock.New(l.file)
	ok, err := file.TryLockContext(ctx, 20*time.Millisecond)
	if err != nil || !ok {
		return fmt.Errorf("lock %s: %w", l.file, err)
	}
	return errors.Join(f(), file.Unlock())
}

// ifFree runs f with the lock held, unless another holds it.
func (l *lock) ifFree(f func() error) error {
	select {
	case l.sem <- struct{}{}:
		defer func() { <-l.sem }()
	default:
		return nil
	}
	file := flock.New(l.file)
	ok, err := file.TryLock()
	if err != nil {
		return fmt.Errorf("lock %s: %w", l.file, err)
	}
	if !ok {
		return nil
	}
	return errors.Join(f(), file.Unlock())
}
