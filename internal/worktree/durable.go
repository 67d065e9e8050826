package worktree

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// What git writes (objects, names in directories, the index, the files of a worktree) is at
// first only in the memory of the operating system. A fact about it is recorded only after
// [Repo.Sync]. Otherwise a power cut could keep the fact and lose the work.

// syncer syncs the file systems of some directories. Callers that arrive while a sync is in
// progress share the next one.
type syncer struct {
	sync func(dir string) error

	mu   sync.Mutex
	dirs []string
	now  *syncing // under way
	next *syncing // begins when that ends
}

type syncing struct {
	done chan struct{}
	err  error
}

// add adds the file system of a directory.
func (s *syncer) add(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.dirs {
		if sameDevice(d, dir) {
			return
		}
	}
	s.dirs = append(s.dirs, dir)
}

// wait returns when all that was written before the call is on the disk.
func (s *syncer) wait(ctx context.Context) error {
	s.mu.Lock()
	mine := s.next
	if mine == nil {
		mine = &syncing{done: make(chan struct{})}
		if s.now == nil {
			s.now = mine
			go s.run(mine)
		} else {
			s.next = mine
		}
	}
	s.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run makes one sync, and then starts the next.
func (s *syncer) run(mine *syncing) {
	for mine != nil {
		s.mu.Lock()
		dirs := s.dirs
		s.mu.Unlock()
		var errs []error
		for _, dir := range dirs {
			if err := s.sync(dir); err != nil {
				errs = append(errs, fmt.Errorf("sync the file system of %s: %w", dir, err))
			}
		}
		mine.err = errors.Join(errs...)
		close(mine.done)
		s.mu.Lock()
		mine = s.next
		s.now, s.next = mine, nil
		s.mu.Unlock()
	}
}

// Sync returns when all that anyone wrote before the call into the repository and into the
// worktrees of its runs is on the disk. Calls at the same time share a sync.
func (r *Repo) Sync(ctx context.Context) error { return r.disks.wait(ctx) }
