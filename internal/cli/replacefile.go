package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bide-dev/bide/internal/files"
)

// replaceFile writes a file so that it appears whole or not at all. It follows a link. If the
// name is no regular file, such as a pipe or a terminal, it writes into that and does not
// replace it.
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
		path = name // it does not exist yet
	}
	return files.Replace(path, mode, func(f *os.File) error {
		err := write(f)
		if info != nil {
			owned(f, info)
			err = errors.Join(err, f.Chmod(mode))
		}
		return errors.Join(err, f.Sync())
	})
}

// owned gives a file the owner of the file before it. Only some users may do that.
func owned(f *os.File, before fs.FileInfo) {
	if s, ok := before.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(s.Uid), int(s.Gid)) // else it stays ours
	}
}

// writeOver replaces a file and keeps its mode. If its directory allows no other file, or no
// replacement, writeOver writes into the file itself.
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
