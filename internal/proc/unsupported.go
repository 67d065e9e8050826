//go:build !unix

package proc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// Options of [New].
type Options struct{ NoCompanion bool }

// Supervisor is not there on this system.
type Supervisor struct{}

var errClosed = errors.New("there is no supervisor")

var errUnsupported = fmt.Errorf("bide cannot run commands on %s yet: %w", runtime.GOOS, errors.ErrUnsupported)

// New fails: process groups and signals are those of Unix.
func New(dir string, opts Options) (*Supervisor, error) { return nil, errUnsupported }

// Run fails.
func (s *Supervisor) Run(ctx context.Context, c *Cmd) (Result, error) {
	return Result{ExitCode: -1}, startError(c, errUnsupported)
}

// KillAll has nothing to kill.
func (s *Supervisor) KillAll(sig syscall.Signal) {}

// Suspend calls stop.
func (s *Supervisor) Suspend(stop func()) { stop() }

// Suspended is 0.
func (s *Supervisor) Suspended() time.Duration { return 0 }

// Close has nothing to end.
func (s *Supervisor) Close() error { return nil }

// ReapOrphans fails.
func ReapOrphans(dir string) (n int, err error) { return 0, errUnsupported }

// CompanionMain returns false.
func CompanionMain() bool { return false }

// StartCompanion does nothing.
func StartCompanion() (cancel func() error) { return func() error { return nil } }
