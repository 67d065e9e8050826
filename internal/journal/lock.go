package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// holder is what the lock file says of the process that has the run. The file
// is no lock by its existence: the lock is the kernel's, on the open file, and
// ends with the process.
type holder struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// lockPatience is how long a lock may be held by somebody who is just looking
// whether it is held, or has just taken it and not yet written who he is.
const lockPatience = 300 * time.Millisecond

// lock is the lock of a run, held.
type lock struct {
	file *flock.Flock
	dir  string // of the run: where it is by now
	name string // of the file
}

// takeLock takes the lock of the run in dir, or says who has it.
func takeLock(dir, run string) (*lock, error) { return takeLockFile(dir, lockName, run) }

func takeLockFile(dir, name, run string) (*lock, error) {
	path := filepath.Join(dir, name)
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(5 * time.Millisecond) {
		ok, err := l.TryLock()
		if err != nil {
			return nil, fmt.Errorf("cannot lock run %s: %w", run, err)
		}
		if ok {
			break
		}
		h := readHolder(path)
		if known := h.PID > 0 && alive(h.PID); known || time.Now().After(deadline) {
			if !known {
				h = holder{}
			}
			return nil, &LockedError{Run: run, PID: h.PID, Since: h.Since}
		}
	}
	err := writeHolder(path, holder{PID: os.Getpid(), Since: time.Now().UTC()})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock run %s: %w", run, err), l.Unlock())
	}
	return &lock{file: l, dir: dir, name: name}, nil
}

// release forgets who had the lock, then gives it back. An empty file takes no block of the
// disk.
func (l *lock) release() error { return errors.Join(l.forget(), l.file.Unlock()) }

func (l *lock) forget() error {
	err := os.Truncate(filepath.Join(l.dir, l.name), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody removed it, and with it what said who has the run
	}
	return err
}

// locked says whether somebody has the run in dir.
func locked(dir string) (bool, error) {
	l := flock.New(filepath.Join(dir, lockName), flock.SetFlag(os.O_RDONLY))
	ok, err := l.TryRLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil || !ok:
		return err == nil, err
	}
	return false, l.Unlock()
}

func readHolder(path string) (h holder) {
	f, err := os.Open(path)
	if err != nil {
		return holder{}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return holder{}
	}
	return h
}

func writeHolder(path string, h holder) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	return errors.Join(err, f.Close())
}

// alive says whether there is a process of that number.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
