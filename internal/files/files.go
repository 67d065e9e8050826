// Package files reaches the files that a workflow names.
//
// A [Name] is a path with the directory that it belongs to. One that data has a
// word in stays below that directory: neither "..", nor an absolute path, nor a
// symbolic link leads out of it. What the author wrote himself may lead
// anywhere.
//
// Opening and reading end with a context, also those of a pipe that nobody
// writes: an interrupt must not wait for somebody else's process.
//
// [Replace] and [Create] write a file whole or not at all.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Name is a path as a workflow names it.
type Name struct {
	Dir    string // the working directory; "" is that of this process
	Path   string // absolute, or relative to Dir
	ByData bool   // data has a word in it: it stays below Dir
}

// At is a path that nothing confines.
func At(path string) Name { return Name{Path: path} }

// OutsideError is a path of data that leads out of its directory.
type OutsideError struct{ Path, Dir string }

func (e *OutsideError) Error() string {
	return fmt.Sprintf("the path %q, which data has named, leads out of the working directory %s; name only what is below it by data, or write |raw if it may lead anywhere", e.Path, e.Dir)
}

// Full is the path without its directory.
func (n Name) Full() string {
	if filepath.IsAbs(n.Path) {
		return n.Path
	}
	return filepath.Join(n.Dir, n.Path)
}

// local is the path below Dir.
func (n Name) local() (string, error) {
	path := n.Path
	if filepath.IsAbs(path) {
		var err error
		if path, err = filepath.Rel(n.Dir, path); err != nil {
			return "", &OutsideError{n.Path, n.Dir}
		}
	}
	if !filepath.IsLocal(path) {
		return "", &OutsideError{n.Path, n.Dir}
	}
	return path, nil
}

// within calls f with the directory, which it cannot leave, and the path in it.
func within[T any](n Name, f func(root *os.Root, path string) (T, error)) (v T, err error) {
	path, err := n.local()
	if err != nil {
		return v, err
	}
	dir := cmp.Or(n.Dir, ".")
	root, err := os.OpenRoot(dir)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return f(root, path)
}

// Stat tells about the file, behind links.
func (n Name) Stat() (os.FileInfo, error) {
	if !n.ByData {
		return os.Stat(n.Full())
	}
	return within(n, (*os.Root).Stat)
}

// openFile opens the file as os.OpenFile does.
func (n Name) openFile(flag int) (*os.File, error) {
	if !n.ByData {
		return os.OpenFile(n.Full(), flag, 0)
	}
	return within(n, func(root *os.Root, path string) (*os.File, error) { return root.OpenFile(path, flag, 0) })
}

// Create makes the file, empty, for writing, and the folders on the way to it. A pipe
// with a name is an error where nobody reads from it: what is written there would be
// gone with the end of the writing.
func (n Name) Create() (f *os.File, err error) {
	const flag = os.O_WRONLY | os.O_CREATE | os.O_TRUNC | syscall.O_NONBLOCK
	if n.ByData {
		f, err = within(n, func(root *os.Root, path string) (*os.File, error) {
			if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return nil, err
			}
			return root.OpenFile(path, flag, 0o666)
		})
	} else if err = os.MkdirAll(filepath.Dir(n.Full()), 0o755); err == nil {
		f, err = os.OpenFile(n.Full(), flag, 0o666)
	}
	if errors.Is(err, syscall.ENXIO) {
		err = fmt.Errorf("%w: nobody reads from this pipe", err)
	}
	return f, err
}

// MaxRead is how many bytes Read reads of a file at most.
const MaxRead = 64 << 20

// Read gives the content of the file.
func (n Name) Read(ctx context.Context) ([]byte, error) {
	f, err := n.Open(ctx)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxRead+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(text) > MaxRead {
		return nil, fmt.Errorf("%s has more than %d MiB, which is too much to be read as one text", n.Full(), MaxRead>>20)
	}
	return text, nil
}

// Absolute is the path of a file whatever the working directory; the path itself
// where that is not known.
func Absolute(path string) string {
	if a, err := filepath.Abs(path); err == nil {
		return a
	}
	return path
}

// Below is the path of a file as it is named from the working directory, where it is in or
// below that; the path itself elsewhere.
func Below(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsAbs(path) && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
