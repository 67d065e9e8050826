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

	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/value"
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
	// Edited is the data that items have from now on, by index.
	Edited map[int]json.RawMessage `json:"edited,omitempty"`
}

// LetterRef is one dead letter: that of an item, at one time. An item that has
// become a dead letter again meanwhile is another one.
type LetterRef struct {
	Index int   `json:"index"`
	Seq   int64 `json:"seq"` // of the item_finished that made it
}

// StopRequest asks the process that has a run to stop it, as an interrupt from
// the keyboard does. Unlike a request to retry it means that process alone: the
// next one that opens the run forgets it.
type StopRequest struct {
	PID  int       `json:"pid"` // the process that asks
	Time time.Time `json:"time"`
	// Now ends what runs at once; otherwise it has its grace.
	Now bool `json:"now,omitempty"`
}

// ControlRequest asks the process that has a run to continue in another way. Like a
// request to stop it means that process alone.
type ControlRequest struct {
	PID  int       `json:"pid"` // the process that asks
	Time time.Time `json:"time"`
	Do   string    `json:"do"` // one of Controls
	// Parallel is how many items run at once from now on, where Do is "parallel".
	Parallel int `json:"parallel,omitempty"`
}

// What a ControlRequest can ask for.
const (
	Pause    = "pause"     // start nothing new; what runs continues
	Continue = "continue"  // start again
	Probe    = "probe"     // try one item of a map that is held
	Parallel = "parallel"  // items at once
	RetryNow = "retry-now" // retries that wait begin at once
)

// ErrRequested says that a request is there already which nobody took yet.
var ErrRequested = errors.New("a retry of dead letters is asked for already and has not begun yet")

const (
	retryLockName = "retry.lock"
	requestName   = "retry-request.json"
	takenName     = "retry-taken.json"
	stopName      = "stop-request.json"
	controlName   = "control-request.json"
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
func (r *Reader) RequestRetry(q RetryRequest) error {
	// A link is made whole or not at all, and never over another request.
	err := r.leave(requestName, q, files.Create)
	if errors.Is(err, fs.ErrExist) {
		return ErrRequested
	}
	return err
}

// RequestStop leaves a request for the process that has the run, in the place of
// an earlier one. The error is ErrNotInUse if no process has it.
func (r *Reader) RequestStop(q StopRequest) error {
	if err := r.held(); err != nil {
		return err
	}
	return r.leave(stopName, q, files.Replace)
}

// RequestControl leaves a request for the process that has the run. The error is
// ErrRequested if one is there that it has not taken yet, and ErrNotInUse if no
// process has the run.
func (r *Reader) RequestControl(q ControlRequest) error {
	if err := r.held(); err != nil {
		return err
	}
	err := r.leave(controlName, q, files.Create)
	if errors.Is(err, fs.ErrExist) {
		return ErrRequested
	}
	return err
}

// ControlRequested says whether a request is there that nobody took.
func (r *Reader) ControlRequested() bool {
	_, err := os.Stat(filepath.Join(r.dir, controlName))
	return err == nil
}

// held is nil where a process has the run.
func (r *Reader) held() error {
	if elsewhere(r.dir) {
		return ErrElsewhere
	}
	held, err := r.InUse()
	if err == nil && !held {
		err = ErrNotInUse
	}
	return err
}

// ErrNotInUse says that there is no process that could carry out a request.
var ErrNotInUse = errors.New("no process has the run: nothing runs in it")

// leave puts a request into the run's directory.
func (r *Reader) leave(name string, q any, put func(string, fs.FileMode, func(*os.File) error) error) error {
	b, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if err := put(filepath.Join(r.dir, name), 0o600, files.Synced(b)); err != nil {
		return fmt.Errorf("cannot leave a request for the run: %w", err)
	}
	return nil
}

// TakeStop takes the request to stop; nil if there is none. One that names no
// process or cannot be read is taken as one to stop with grace: somebody
// wanted the run to end.
func (j *Journal) TakeStop() (*StopRequest, error) { return take[StopRequest](j.dir, stopName) }

// PeekControl reads the request to continue in another way without taking it; nil if
// there is none. ControlTaken ends it.
func (j *Journal) PeekControl() (*ControlRequest, error) {
	return readRequest[ControlRequest](filepath.Join(j.dir, controlName))
}

// ControlTaken ends the request to continue in another way, which is the answer to who
// asked: it is carried out, and recorded.
func (j *Journal) ControlTaken() error { return remove(j.dir, controlName) }

// remove removes a file of the run's directory that may not be there.
func remove(dir, name string) error {
	err := os.Remove(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// take takes a request out of the run's directory; nil if there is none, and an
// empty one where it cannot be read.
func take[Q any](dir, name string) (*Q, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	q, err := readRequest[Q](path)
	if q == nil {
		q = new(Q)
	}
	return q, errors.Join(err, remove(dir, name))
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
func (j *Journal) PeekRetry() (*RetryRequest, error) {
	return readRequest[RetryRequest](filepath.Join(j.dir, requestName))
}

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
func (j *Journal) RetryTaken() error { return remove(j.dir, takenName) }

// LeftRetries gives what is asked for by a request that a former life of the run
// took and did not carry out, and by one that came too late for it. EndRetries
// ends both.
func (j *Journal) LeftRetries() (RetryRequest, error) {
	var out RetryRequest
	var errs []error
	for _, name := range []string{takenName, requestName} {
		q, err := readRequest[RetryRequest](filepath.Join(j.dir, name))
		if q != nil {
			out.Of = append(out.Of, q.Of...)
			for index, item := range q.Edited {
				value.Put(&out.Edited, index, item)
			}
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

// readRequest reads a request; nil if there is none.
func readRequest[Q any](path string) (*Q, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var q Q
	if err := json.Unmarshal(b, &q); err != nil {
		return nil, fmt.Errorf("%s is not the request that its name says: %w; remove it", path, err)
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

// InUse says whether a process has the run at present, or other machines continue
// with it.
func (r *Reader) InUse() (bool, error) {
	if elsewhere(r.dir) { // whoever has its lock keeps it up
		return there(filepath.Join(r.dir, GoesOn)), nil
	}
	return locked(r.dir)
}
