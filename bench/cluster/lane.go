package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
)

// lane has the activities of the trials.
type lane struct {
	client client.Client
	dir    string
}

// Long runs one item for a time. By says who tells the server that it lives: the
// SDK, or we ourselves with the activity's token. It gives what became of its
// context.
func (l *lane) Long(ctx context.Context, by string, length time.Duration) (string, error) {
	token := activity.GetInfo(ctx).TaskToken
	over := time.After(length)
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	failed := 0
	for {
		select {
		case <-ctx.Done():
			return fmt.Sprintf("its context was ended: %v", context.Cause(ctx)), nil
		case <-over:
			return fmt.Sprintf("ran to its end, %d heartbeats failed", failed), nil
		case <-beat.C:
			if by == "sdk" {
				activity.RecordHeartbeat(ctx)
				continue
			}
			if err := l.beat(ctx, token); err != nil {
				failed++
				if errors.As(err, new(*serviceerror.NotFound)) {
					return "the server has given it up", nil
				}
			}
		}
	}
}

func (l *lane) beat(ctx context.Context, token []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return l.client.RecordActivityHeartbeat(ctx, token)
}

// Lease works off items From to To-1, each a line in the lane's log, and gives the
// number of those that ended.
func (l *lane) Lease(ctx context.Context, name string, from, to int) (int, error) {
	token := activity.GetInfo(ctx).TaskToken
	f, err := os.OpenFile(filepath.Join(l.dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	last := time.Now()
	for i := from; i < to; i++ {
		if time.Since(last) > 500*time.Millisecond {
			last = time.Now()
			if err := l.beat(ctx, token); errors.As(err, new(*serviceerror.NotFound)) {
				return 0, err
			}
		}
		if _, err := fmt.Fprintf(f, "start %d\n", i); err != nil {
			return 0, err
		}
		time.Sleep(2 * time.Millisecond)
		if _, err := fmt.Fprintf(f, "end %d\n", i); err != nil {
			return 0, err
		}
	}
	return to - from, nil
}

// Adopt reads how many items of a lease that is lost have ended.
func (l *lane) Adopt(_ context.Context, name string) (int, error) {
	b, err := os.ReadFile(filepath.Join(l.dir, name+".log"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return strings.Count(string(b), "end "), err
}
