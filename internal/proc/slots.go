//go:build unix

package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The slots file says which process groups a run has. Noting a command there is
// one write of 24 bytes, and what is noted outlives kill -9 of us, because the
// page belongs to the kernel. (A mapping of the file would save half a
// microsecond, and somebody who truncates the file would kill us.) It promises
// nothing after a power cut, and need not: then nothing runs any more.
//
//	offset  size
//	0       8     "bideproc"
//	8       8     version, 1
//	16      8     process id of the supervisor
//	24      8     its start, in ticks
//	32      32    id of the supervisor, the one in MarkerVar
//	64      40    boot id
//	128     24·n  slots: process group (0: free), earliest start, latest start
//
// Numbers are in the byte order of the machine. The first 128 bytes are in a
// file of their own as well: who truncates the list takes the groups from it, but
// by the supervisor's id its processes are found all the same.
const (
	slotsFile    = "processes"
	headerFile   = "supervisor"
	slotsMagic   = "bideproc"
	slotsVersion = 1
	slotsHeader  = 128
	slotSize     = 24
	slotsChunk   = 64 // slots that are added at once
	idLength     = 32
	bootLength   = 40
)

// header is the fixed part of the slots file.
type header struct {
	pid   int
	start uint64
	id    string
	boot  string
}

// slot is one command that runs or ran: the leader's id, which is the group's,
// and the span of ticks in which it was started.
type slot struct {
	pid      int
	from, to uint64
}

// slots is the open file.
type slots struct {
	head []byte // as it was written
	file *os.File
	path string // "": the file has no name any more
	n    int    // slots in it
}

// newSlots writes the file in dir, or a nameless one for dir "".
func newSlots(dir string, h header) (*slots, error) {
	s := &slots{head: h.encode()}
	var err error
	if dir == "" {
		s.file, err = os.CreateTemp("", "bide-processes-*")
		if err == nil {
			err = os.Remove(s.file.Name())
		}
	} else {
		s.path = filepath.Join(dir, slotsFile)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("the list of running processes: %w", err)
		}
		s.file, err = os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, headerFile), s.head, 0o600)
		}
	}
	if err == nil {
		_, err = s.file.WriteAt(s.head, 0)
	}
	if err == nil {
		err = s.grow()
	}
	if err != nil {
		if s.file != nil {
			err = errors.Join(err, s.close())
		}
		return nil, fmt.Errorf("the list of running processes: %w", err)
	}
	return s, nil
}

func (h header) encode() []byte {
	b := make([]byte, slotsHeader)
	copy(b, slotsMagic)
	binary.NativeEndian.PutUint64(b[8:], slotsVersion)
	binary.NativeEndian.PutUint64(b[16:], uint64(h.pid))
	binary.NativeEndian.PutUint64(b[24:], h.start)
	copy(b[32:32+idLength], h.id)
	copy(b[64:64+bootLength], h.boot)
	return b
}

// grow adds a chunk of free slots. The zeros are written rather than left as a
// hole, so that a full disk is an error here and not at a later write.
func (s *slots) grow() error {
	if _, err := s.file.WriteAt(make([]byte, slotsChunk*slotSize), slotAt(s.n)); err != nil {
		return err
	}
	s.n += slotsChunk
	return nil
}

func (s *slots) count() int { return s.n }

// slotAt is the offset of slot i.
func slotAt(i int) int64 { return slotsHeader + int64(i)*slotSize }

// set notes a command.
func (s *slots) set(i int, v slot) error {
	var b [slotSize]byte
	binary.NativeEndian.PutUint64(b[:], uint64(v.pid))
	binary.NativeEndian.PutUint64(b[8:], v.from)
	binary.NativeEndian.PutUint64(b[16:], v.to)
	_, err := s.file.WriteAt(b[:], slotAt(i))
	return err
}

func (s *slots) clear(i int) error {
	_, err := s.file.WriteAt(make([]byte, 8), slotAt(i))
	return err
}

// remove deletes the file: nothing of the run is left to look for. Its directory goes with
// it, unless something else is in there.
func (s *slots) remove() error {
	if s.path == "" {
		return nil
	}
	dir := filepath.Dir(s.path)
	if err := removeSlots(dir); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) { // ENOTEMPTY is fs.ErrExist
		return err
	}
	return nil
}

// removeSlots deletes both files in dir.
func removeSlots(dir string) error {
	var errs []error
	for _, name := range []string{slotsFile, headerFile} {
		if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *slots) close() error { return s.file.Close() }

// errSlots says that a file is no slots file, or cut off before its end.
var errSlots = errors.New("it is no list of processes written by this version of bide")

// readSlots reads a slots file, ours or that of a supervisor that died. again is
// its header as it was written elsewhere, for a file that was truncated; nil:
// there is none.
func readSlots(r io.ReaderAt, again []byte) (header, []slot, error) {
	b, err := io.ReadAll(io.NewSectionReader(r, 0, 64<<20))
	if err != nil {
		return header{}, nil, err
	}
	h, err := decodeHeader(b)
	if err != nil {
		if h, err = decodeHeader(again); err != nil {
			return h, nil, err
		}
	}
	b = b[min(slotsHeader, len(b)):]
	var list []slot
	for ; len(b) >= slotSize; b = b[slotSize:] {
		pid := binary.NativeEndian.Uint64(b)
		// Ids 0 and 1 are never a command's; to signal group 1 or 0 would be
		// to signal strangers, or ourselves.
		if pid > 1 && pid <= 1<<31-1 {
			list = append(list, slot{int(pid), binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:])})
		}
	}
	return h, list, nil
}

func decodeHeader(b []byte) (header, error) {
	if len(b) < slotsHeader || string(b[:8]) != slotsMagic || binary.NativeEndian.Uint64(b[8:]) != slotsVersion {
		return header{}, errSlots
	}
	h := header{
		pid:   int(binary.NativeEndian.Uint64(b[16:])),
		start: binary.NativeEndian.Uint64(b[24:]),
		id:    cstring(b[32 : 32+idLength]),
		boot:  cstring(b[64 : 64+bootLength]),
	}
	if len(h.id) != idLength {
		return header{}, errSlots
	}
	return h, nil
}

// cstring is b up to its first zero.
func cstring(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
