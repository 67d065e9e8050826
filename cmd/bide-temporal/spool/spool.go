// Package spool takes an object whose size and digest must be known before it is sent,
// and which may have to be sent again.
package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
)

// inMemory is how much of an object is in memory; a larger one is a temporary file.
const inMemory = 4 << 20

// Spool is an object. It is closed when it is not needed any more.
type Spool struct {
	Size int64

	buf    bytes.Buffer
	f      *os.File
	digest hash.Hash
}

// Take takes what write writes.
func Take(write func(io.Writer) error) (*Spool, error) {
	s := &Spool{digest: sha256.New()}
	if err := write((*writer)(s)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

type writer Spool

func (s *writer) Write(b []byte) (n int, err error) {
	if s.f == nil && s.buf.Len()+len(b) > inMemory {
		if s.f, err = os.CreateTemp("", "bide-object-"); err != nil {
			return 0, err
		}
		if err := os.Remove(s.f.Name()); err != nil { // it is there as long as it is open
			return 0, err
		}
		if _, err := s.f.Write(s.buf.Bytes()); err != nil {
			return 0, err
		}
		s.buf = bytes.Buffer{}
	}
	if s.f != nil {
		n, err = s.f.Write(b)
	} else {
		n, err = s.buf.Write(b)
	}
	s.Size += int64(n)
	_, _ = s.digest.Write(b[:n]) // it never fails
	return n, err
}

// Reader reads it from its beginning.
func (s *Spool) Reader() io.Reader {
	if s.f == nil {
		return bytes.NewReader(s.buf.Bytes())
	}
	return io.NewSectionReader(s.f, 0, s.Size)
}

// SHA256 is its digest, in hexadecimal.
func (s *Spool) SHA256() string { return hex.EncodeToString(s.digest.Sum(nil)) }

// Close gives its memory or its file back.
func (s *Spool) Close() error {
	if s.f == nil {
		return nil
	}
	return s.f.Close()
}
