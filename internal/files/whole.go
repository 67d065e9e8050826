package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace writes a file that has all that write wrote, or stays as it was, or does not
// exist. It survives a power cut where write ends with f.Sync, as [Synced] does.
func Replace(path string, mode fs.FileMode, write func(f *os.File) error) error {
	return whole(path, mode, write, os.Rename)
}

// Create is Replace for a file that does not exist: the error is fs.ErrExist where it
// does. Of several that create it at once one succeeds.
func Create(path string, mode fs.FileMode, write func(f *os.File) error) error {
	return whole(path, mode, write, os.Link)
}

// Synced writes a text that survives a power cut.
func Synced(text []byte) func(f *os.File) error {
	return func(f *os.File) error {
		_, err := f.Write(text)
		return errors.Join(err, f.Sync())
	}
}

// whole writes a draft in the same directory, .NAME.NUMBER, and publishes it. A process
// that is killed leaves the draft.
func whole(path string, mode fs.FileMode, write func(*os.File) error, publish func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: reason(err)}
	}
	if err = f.Chmod(mode); err == nil {
		err = write(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = publish(f.Name(), path)
	}
	if p, l := (*fs.PathError)(nil), (*os.LinkError)(nil); errors.As(err, &p) && p.Path == f.Name() || errors.As(err, &l) && l.Old == f.Name() {
		err = &fs.PathError{Op: "write", Path: path, Err: reason(err)} // it names the file, not the draft
	}
	if rerr := os.Remove(f.Name()); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// reason is an error of the file system without the name of the file.
func reason(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	if l := (*os.LinkError)(nil); errors.As(err, &l) {
		return l.Err
	}
	return err
}
