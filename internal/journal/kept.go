package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"

	"github.com/gofrs/flock"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
)

// What the events of a run come to is kept beside them while no process has it. Such a file is no
// record: it counts only while the journal is the one that it was made from, and the
// program the one that made it; it may be deleted at any time, and where it cannot be
// written the events are folded each time.

// The names of these files: the SHA-256 of the rest, the program, and a kept.
const (
	keptList    = "summary" // a Summary, for lists of runs, which open no journal for it
	keptTotal   = "summary-total"
	keptLetters = "summary-letters"
	keptOthers  = "summary-" // what [Kept] is asked for
)

// keptFrom is how many events a journal has from which on more than its line in a list is
// kept: what fewer of them come to is folded as fast as a file is read.
const keptFrom = 10_000

// kept is an answer, and of what it was made.
type kept[Of comparable, Answer any] struct {
	Of     Of
	Answer Answer
}

// end is where the events of a journal end. Two journals of a run with the same end have the same
// events: the last row has the time of the last event, in nanoseconds.
type end struct {
	Run  string
	Last int64
	Row  [sha256.Size]byte // of the last row
}

// stamp says which state of a file it is; the zero value that there is none.
type stamp struct {
	Size     int64
	Modified int64 // in nanoseconds since 1970
}

// program is the program that runs, by its file: another may count otherwise.
var program = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano())
})

// overIn gives the files of the journal of a run in dir that no process has; ok is false
// for another.
func overIn(dir string) (of [2]stamp, ok bool) {
	if held, err := locked(dir); err != nil || held || elsewhere(dir) {
		return of, false
	}
	for i, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(filepath.Join(dir, dbName+suffix))
		switch {
		case err == nil:
			of[i] = stamp{info.Size(), info.ModTime().UnixNano()}
		case i == 0 || !errors.Is(err, fs.ErrNotExist):
			return of, false
		}
	}
	return of, true
}

// keptIn gives the summary that is kept in the directory of a run, if it counts.
func keptIn(dir string) (sum Summary, ok bool) {
	k, ok := loadKept[[2]stamp, Summary](filepath.Join(dir, keptList))
	if !ok {
		return sum, false
	}
	of, over := overIn(dir)
	return k.Answer, over && of == k.Of
}

// keep keeps the summary of a run that no process has, if its events still end where they did
// before it was made. Nobody takes the run meanwhile, and whoever takes it removes what is kept: two
// states of a journal with the same size and time are never mistaken for each other.
func (r *Reader) keep(ctx context.Context, of end, sum Summary) error {
	if sum.Status == event.Running {
		return nil
	}
	l := flock.New(filepath.Join(r.dir, lockName), flock.SetFlag(os.O_RDONLY))
	if ok, err := l.TryRLock(); err != nil || !ok {
		return nil // somebody has the run by now
	}
	defer l.Unlock() // of a file that nothing was written to
	now, err := r.lastRow(ctx)
	if files, over := overIn(r.dir); err == nil && over && now == of {
		storeKept(filepath.Join(r.dir, keptList), files, sum)
	}
	return err
}

// forgetKept removes the summary of a run, which its caller has locked.
func forgetKept(dir string) error {
	if err := os.Remove(filepath.Join(dir, keptList)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Kept gives what answer makes of the events of a run, which is the same for the same
// events as long as no process has the run. Of a run that is over and has many events the answer is
// kept, under a name, with its exported fields.
func Kept[T any](ctx context.Context, r *Reader, name string, answer func() (T, error)) (T, error) {
	return keptAs(ctx, r, keptOthers+name, answer)
}

func keptAs[T any](ctx context.Context, r *Reader, name string, answer func() (T, error)) (T, error) {
	e, ok, err := r.end(ctx)
	if err != nil {
		return *new(T), err
	}
	path := filepath.Join(r.dir, name)
	if ok {
		if k, there := loadKept[end, T](path); there && k.Of == e {
			return k.Answer, nil
		}
	}
	a, err := answer()
	if err == nil && ok {
		err = keepAs(ctx, r, name, e, a)
	}
	return a, err
}

// keepAs keeps an answer that was made after the journal had that end, if it still has.
func keepAs[T any](ctx context.Context, r *Reader, name string, of end, answer T) error {
	now, over, err := r.end(ctx)
	if err == nil && over && now == of {
		storeKept(filepath.Join(r.dir, name), of, answer)
	}
	return err
}

// end says where the events end; ok is false where nothing is to be kept of them: a
// process has the run, or they are few.
func (r *Reader) end(ctx context.Context) (e end, ok bool, err error) {
	if _, over := overIn(r.dir); r.flush != nil || !over {
		return e, false, nil
	}
	e, err = r.lastRow(ctx)
	return e, err == nil && e.Last >= keptFrom, err
}

// lastRow is where the events that are committed end.
func (r *Reader) lastRow(ctx context.Context) (e end, err error) {
	err = r.query(ctx, func(row []driver.Value) error {
		e = end{r.run, integer(row[0]), sha256.Sum256([]byte(text(row[1])))}
		return nil
	}, "SELECT last, records FROM events ORDER BY first DESC LIMIT 1")
	return e, err
}

func loadKept[Of comparable, Answer any](path string) (k kept[Of, Answer], ok bool) {
	text, err := os.ReadFile(path)
	if err != nil || len(text) < sha256.Size {
		return k, false
	}
	if digest := sha256.Sum256(text[sha256.Size:]); !bytes.Equal(digest[:], text[:sha256.Size]) {
		return k, false
	}
	r := keptReader{b: text[sha256.Size:]}
	if by := string(r.bytes()); by == "" || by != program() {
		return k, false // another one may mean something else by the rest
	}
	r.value(reflect.ValueOf(&k).Elem())
	return k, !r.bad && len(r.b) == 0
}

// storeKept writes the file. A home that can only be read has none; one that a power cut
// cuts short does not count.
func storeKept[Of comparable, Answer any](path string, of Of, answer Answer) {
	b, err := appendKept(make([]byte, sha256.Size), reflect.ValueOf(program()))
	if program() == "" || err != nil {
		return
	}
	if b, err = appendKept(b, reflect.ValueOf(kept[Of, Answer]{of, answer})); err != nil {
		return
	}
	digest := sha256.Sum256(b[sha256.Size:])
	copy(b, digest[:])
	_ = files.Replace(path, 0o600, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
}
