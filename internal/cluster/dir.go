package cluster

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/files"
)

// dir is a store that is a directory, which all machines reach under the same path. Its
// file system must have hard links: a link to a file that was written elsewhere is what
// creates an object whole and only if its name is free, on NFS as well.
type dir string

func (d dir) Path(name string) string { return filepath.Join(string(d), filepath.FromSlash(name)) }

func (d dir) Found(place string, folders []string, name string, text []byte) (err error) {
	path := d.Path(place)
	draft := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(draft))
		}
	}()
	for _, f := range append([]string{"."}, folders...) {
		if err := os.MkdirAll(filepath.Join(draft, f), 0o700); err != nil {
			return err
		}
	}
	if err := create(filepath.Join(draft, name), writes(text)); err != nil {
		return err
	}
	return os.Rename(draft, path)
}

func (d dir) Create(name string, write func(io.Writer) error) error {
	return create(d.Path(name), write)
}

// create makes a file that is there whole, synced, or not at all.
func create(path string, write func(io.Writer) error) (err error) {
	folder := filepath.Dir(path)
	err = files.Create(path, 0o600, func(f *os.File) error { return errors.Join(write(f), f.Sync()) })
	if err != nil {
		return err
	}
	parent, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

func (d dir) Read(name string, from int64) (io.ReadCloser, error) {
	f, err := os.Open(d.Path(name))
	if err != nil || from == 0 {
		return f, err
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d dir) List(folder string) (names []string, err error) {
	files, err := os.ReadDir(d.Path(folder))
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), ".") {
			names = append(names, f.Name())
		}
	}
	return names, err
}

func (d dir) Begin(name string) (Log, error) {
	return os.OpenFile(d.Path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
}

func (d dir) Remove(place string) error {
	path := d.Path(place)
	gone := filepath.Join(filepath.Dir(path), ".gone-"+filepath.Base(path))
	if err := os.Rename(path, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(gone)
}
