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
	"time"
)

// RetryRequest asks the process that has a run to run dead letters again. It
// is a file in the run's directory, complete or not there, so that it outlives
// both processes: a request that nobody took is found by the next one that
// opens the run.
type RetryRequest struct {
	// PID is the process that asks.
	PID  int         `json:"pid"`
	Time time.Time   `json:"time"`
	Of   []LetterRef `json:"letters"`
}

// LetterRef is one dead letter: that of an item, at one time. An item that has
// become a dead letter again meanwhile is another one.
type LetterRef struct {
	Index int   `json:"index"`
	Seq   int64 `json:"seq"`
}

// ErrRequested says that a request is there already which nobody took yet.
var ErrRequested = errors.New("a retry of dead letters is asked for already and has not begun yet")

const (
	retryLockName = "retry.lock"
	requestName   = "retry-request.json"
	takenName     = "retry-taken.json"
)

// ClaimRetry takes the right to run the dead letters of a run again, which one
// process has at a time: also while another one has the run itself. run is as
// for Open. The error is a *LockedError with Retry set where somebody has it.
func (s *Store) ClaimRetry(run string) (id string, release func() error, err error) {
	if id, err = s.resolve(run); err != nil {
		return "", nil, err
	}
	l, err := takeLockFile(s.dir(id), retryLockName, id)
	var locked *LockedError
	if errors.As(err, &locked) {
		locked.Retry = true
	}
	if err != nil {
		return id, nil, err
	}
	return id, l.release, nil
}

// RequestRetry leaves a request for the process that has the run. The error is
// ErrRequested if one is there.
func (r *Reader) RequestRetry(q RetryRequest) (err error) {
	b, err := json.Marshal(q)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(r.dir, requestName+".*")
	if err != nil {
		return fmt.Errorf("cannot leave a request in the run's directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link is made whole or not at all, and never over another request.
	err = os.Link(f.Name(), filepath.Join(r.dir, requestName))
	if errors.Is(err, fs.ErrExist) {
		return ErrRequested
	}
	return err
}

// RetryRequested says whether a request is there that nobody took.
func (r *Reader) RetryRequested() bool {
	_, err := os.Stat(filepath.Join(r.dir, requestName))
	return err == nil
}

// WithdrawRetry takes a request back, and says whether it was still there.
func (r *Reader) WithdrawRetry() (bool, error) {
	err := os.Remove(filepath.Join(r.dir, requestName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// PeekRetry reads the request without taking it; nil if there is none.
func (j *Journal) PeekRetry() (*RetryRequest, error) { return j.readRequest(requestName) }

// TakeRetry takes the request, if it was not withdrawn: it is this process's
// to carry out. RetryTaken ends it; until then it outlives the process.
func (j *Journal) TakeRetry() (bool, error) {
	err := os.Rename(filepath.Join(j.dir, requestName), filepath.Join(j.dir, takenName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// RetryTaken ends the request that was taken: what it asks for is recorded.
func (j *Journal) RetryTaken() error {
	err := os.Remove(filepath.Join(j.dir, takenName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// LeftRetries gives the letters of a request that a former life of the run took
// and did not carry out, and of one that came too late for it. EndRetries ends
// both.
func (j *Journal) LeftRetries() ([]LetterRef, error) {
	var out []LetterRef
	var errs []error
	for _, name := range []string{takenName, requestName} {
		q, err := j.readRequest(name)
		if q != nil {
			out = append(out, q.Of...)
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// EndRetries removes what LeftRetries gave.
func (j *Journal) EndRetries() error {
	_, err := j.WithdrawRetry()
	return errors.Join(j.RetryTaken(), err)
}

func (r *Reader) readRequest(name string) (*RetryRequest, error) {
	path := filepath.Join(r.dir, name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var q RetryRequest
	if err := json.Unmarshal(b, &q); err != nil {
		return nil, fmt.Errorf("%s is no request to run dead letters again: %w; remove it", path, err)
	}
	return &q, nil
}

// Last is the number of the last event; 0 for none.
func (r *Reader) Last(ctx context.Context) (last int64, err error) {
	if err := r.ready(ctx); err != nil {
		return 0, err
	}
	return r.lastSeq(ctx)
}

// lastSeq is the number of the last event that is committed; 0 for none.
func (r *Reader) lastSeq(ctx context.Context) (last int64, err error) {
	err = r.query(ctx, func(row []driver.Value) error {
		last = integer(row[0])
		return nil
	}, "SELECT last FROM events ORDER BY first DESC LIMIT 1")
	return last, err
}

// InUse says whether a process has the run at present.
func (r *Reader) InUse() (bool, error) { return locked(r.dir) }
