package mask

import (
	"errors"
	"io"
	"os"
	"strings"
)

// File keeps a text of any length masked on the disk, and remembers in memory
// what was masked, so that its owner can read the text back as it was. The
// memory it takes is in proportion to how often a secret is in the text.
// It is not safe for concurrent use.
type File struct {
	f      *os.File
	w      *Writer
	size   int64
	hidden []hiddenText
}

type hiddenText struct {
	at   int64 // of Hidden in the file
	text string
}

// NewFile makes a File that writes to f, an empty file.
func (m *Masker) NewFile(f *os.File) *File {
	file := &File{f: f}
	file.w = m.NewWriter(f)
	file.w.each = file.note
	return file
}

// note takes what the writer passes on: a stretch of the text and, where it is
// masked, what stood there.
func (f *File) note(passed int, hidden string) {
	f.size += int64(passed)
	if hidden != "" {
		f.hidden = append(f.hidden, hiddenText{f.size, strings.Clone(hidden)})
		f.size += int64(len(Hidden))
	}
}

// Write takes all of p, or returns the error of the file.
func (f *File) Write(p []byte) (int, error) { return f.w.Write(p) }

// Close writes what is held back and closes the file.
func (f *File) Close() error { return errors.Join(f.w.Flush(), f.f.Close()) }

// Name is that of the file.
func (f *File) Name() string { return f.f.Name() }

// Open reads the text as it was before it was masked. The file must be closed
// and unchanged.
func (f *File) Open() (io.ReadCloser, error) {
	file, err := os.Open(f.Name())
	if err != nil {
		return nil, err
	}
	var parts []io.Reader
	at := int64(0)
	for _, h := range f.hidden {
		parts = append(parts, io.NewSectionReader(file, at, h.at-at), strings.NewReader(h.text))
		at = h.at + int64(len(Hidden))
	}
	parts = append(parts, io.NewSectionReader(file, at, f.size-at))
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(parts...), file}, nil
}
