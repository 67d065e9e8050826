//go:build unix

package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// The slots file says which process groups a run has. It is mapped into
// memory: noting a command there is three stores, and what is noted outlives
// kill -9 of us, because the page belongs to the kernel. It promises nothing
// after a power cut, and need not: then nothing runs any more.
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
// Numbers are in the byte order of the machine.
const (
	slotsFile    = "processes"
	slotsMagic   = "bideproc"
	slotsVersion = 1
	slotsHeader  = 128
	slotSize     = 24
	slotsChunk   = 1024 // slots a mapping
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

// slots is the open, mapped file.
type slots struct {
	file   *os.File
	path   string // "": the file has no name any more
	chunks [][]byte
}

// newSlots writes the file in dir, or a nameless one for dir "".
func newSlots(dir string, h header) (*slots, error) {
	s := &slots{}
	var err error
	if dir == "" {
		s.file, err = os.CreateTemp("", "bide-processes-*")
		if err == nil {
			err = os.Remove(s.file.Name())
		}
	} else {
		s.path = filepath.Join(dir, slotsFile)
		s.file, err = os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	if err == nil {
		_, err = s.file.WriteAt(h.encode(), 0)
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
// hole, so that a full disk is an error here and not a fault at a later store.
func (s *slots) grow() error {
	const size = slotsChunk * slotSize
	page := os.Getpagesize()
	at := slotsHeader + len(s.chunks)*size
	if _, err := s.file.WriteAt(make([]byte, size), int64(at)); err != nil {
		return err
	}
	begin := at / page * page // a mapping begins at a page
	m, err := syscall.Mmap(int(s.file.Fd()), int64(begin), at-begin+size,
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	s.chunks = append(s.chunks, m)
	return nil
}

func (s *slots) count() int { return len(s.chunks) * slotsChunk }

// word gives the place of a number of slot i.
func (s *slots) word(i, word int) *uint64 {
	m := s.chunks[i/slotsChunk]
	at := len(m) - slotsChunk*slotSize + i%slotsChunk*slotSize + 8*word
	return (*uint64)(unsafe.Pointer(&m[at]))
}

// set notes a command. The group is stored last, so that a reader never takes
// the times of another.
func (s *slots) set(i int, v slot) {
	atomic.StoreUint64(s.word(i, 1), v.from)
	atomic.StoreUint64(s.word(i, 2), v.to)
	atomic.StoreUint64(s.word(i, 0), uint64(v.pid))
}

func (s *slots) clear(i int) { atomic.StoreUint64(s.word(i, 0), 0) }

// remove deletes the file: nothing of the run is left to look for.
func (s *slots) remove() error {
	if s.path == "" {
		return nil
	}
	return os.Remove(s.path)
}

func (s *slots) close() error {
	var errs []error
	for _, m := range s.chunks {
		errs = append(errs, syscall.Munmap(m))
	}
	s.chunks = nil
	return errors.Join(append(errs, s.file.Close())...)
}

// errSlots says that a file is no slots file, or cut off before its end.
var errSlots = errors.New("it is no list of processes written by this version of bide")

// readSlots reads a slots file, ours or that of a supervisor that died.
func readSlots(r io.ReaderAt) (header, []slot, error) {
	b, err := io.ReadAll(io.NewSectionReader(r, 0, 64<<20))
	if err != nil {
		return header{}, nil, err
	}
	if len(b) < slotsHeader || string(b[:8]) != slotsMagic || binary.NativeEndian.Uint64(b[8:]) != slotsVersion {
		return header{}, nil, errSlots
	}
	h := header{
		pid:   int(binary.NativeEndian.Uint64(b[16:])),
		start: binary.NativeEndian.Uint64(b[24:]),
		id:    cstring(b[32 : 32+idLength]),
		boot:  cstring(b[64 : 64+bootLength]),
	}
	if len(h.id) != idLength {
		return header{}, nil, errSlots
	}
	var list []slot
	for b = b[slotsHeader:]; len(b) >= slotSize; b = b[slotSize:] {
		pid := binary.NativeEndian.Uint64(b)
		// Ids 0 and 1 are never a command's; to signal group 1 or 0 would be
		// to signal strangers, or ourselves.
		if pid > 1 && pid <= 1<<31-1 {
			list = append(list, slot{int(pid), binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:])})
		}
	}
	return h, list, nil
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
