package journal

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrClosed is what a closed journal answers.
var ErrClosed = errors.New("the journal is closed")

// LockedError says that another process (or another part of this one) has the
// run.
type LockedError struct {
	Run   string    // id
	PID   int       // of the holder; 0 if it is not known
	Since time.Time // when the holder took the run; zero if it is not known
	Retry bool      // what is held is the right to run dead letters again
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	since := ""
	if !e.Since.IsZero() {
		since = " since " + e.Since.Local().Format(time.DateTime)
	}
	if e.Retry {
		return fmt.Sprintf("the dead letters of run %s are being run again by %s%s: wait until that ends", e.Run, who, since)
	}
	return fmt.Sprintf("run %s is in use by %s%s: wait until it ends, or stop it", e.Run, who, since)
}

// NotFoundError says that no run, or more than one, has the id or the
// beginning of an id that was given.
type NotFoundError struct {
	Run       string   // as given; "" if the last run was asked for and there is none
	Dir       string   // where it was looked for
	Near      []string // ids that may have been meant, newest first, at most five
	Ambiguous bool     // Near all begin or end with Run
	Runs      int      // how many runs there are, where Run counts back further
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Run == "", strings.EqualFold(e.Run, "last"):
		return fmt.Sprintf("there is no run in %s yet", e.Dir)
	case e.Runs > 0:
		return fmt.Sprintf("there is no run %s: %s has %d of them", e.Run, e.Dir, e.Runs)
	case e.Ambiguous:
		return fmt.Sprintf("more than one run begins or ends with %s: %s; give more of the id", e.Run, strings.Join(e.Near, ", "))
	case len(e.Near) > 0:
		return fmt.Sprintf("there is no run %s in %s; did you mean %s?", e.Run, e.Dir, strings.Join(e.Near, " or "))
	}
	return fmt.Sprintf("there is no run %s in %s: `bide runs` lists them", e.Run, e.Dir)
}

// DamagedError says that a journal cannot be read any further. What is on the
// disk was not changed.
type DamagedError struct {
	Path   string
	Detail string // what was seen
	Advice string // what to do
	Err    error  // the database's error, if it was one
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the journal %s is damaged: %s; %s", e.Path, e.Detail, e.Advice)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// ForeignError says that a file is not a journal that this version can use:
// something else, or a journal of a newer version. It was not changed.
type ForeignError struct {
	Path   string
	Detail string
}

func (e *ForeignError) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Detail) }

// DiskError says that the journal could not be written. Nothing is recorded
// after it; what was recorded before stays readable.
type DiskError struct {
	Path   string
	Op     string // "write" or "sync"
	Full   bool   // the disk is full, or a limit on size was reached
	Err    error
	Advice string
}

func (e *DiskError) Error() string {
	return fmt.Sprintf("cannot %s the journal %s: %v; %s", e.Op, e.Path, e.Err, e.Advice)
}

func (e *DiskError) Unwrap() error { return e.Err }
