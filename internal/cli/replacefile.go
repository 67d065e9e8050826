package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replaceFile writes a file, which appears whole or not at all. A link is followed,
// and what is no file, such as a pipe or a terminal, is written to and stays.
func replaceFile(name string, mode fs.FileMode, write func(io.Writer) error) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory: name a file", name)
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	path, err := filepath.EvalSymlinks(name)
	if err != nil {
		path = name // it is not there yet
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return ofFile(name, "", err)
	}
	err = write(f)
	if info != nil {
		owned(f, info)
	}
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(ofFile(name, f.Name(), err), os.Remove(f.Name()))
	}
	return nil
}

// owned gives a file to whom the one before belonged. Only some may.
func owned(f *os.File, before fs.FileInfo) {
	if s, ok := before.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(s.Uid), int(s.Gid)) // else it belongs to us
	}
}

// ofFile is an error that names the file which was to be written where err names the
// one beside it.
func ofFile(name, beside string, err error) error {
	if path := new(fs.PathError); errors.As(err, &path) && (path.Path == beside || beside == "") {
		return fmt.Errorf("writing %s: %w", name, path.Err)
	}
	if link := new(os.LinkError); errors.As(err, &link) {
		return fmt.Errorf("writing %s: %w", name, link.Err)
	}
	return err
}

// writeOver writes a file in the place of one, with its mode. Where there can be no
// other file in its directory, or no other in its place, it is written itself.
func writeOver(name string, text []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	err = replaceFile(name, mode, func(w io.Writer) error { _, err := w.Write(text); return err })
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EBUSY) {
		return os.WriteFile(name, text, mode)
	}
	return err
}
