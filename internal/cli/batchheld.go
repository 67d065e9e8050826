package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/bide-dev/bide/internal/event"
)

// shelf keeps what items have printed until it is their turn: up to heldInMemory bytes in
// memory, more in a temporary file, which has no name and disappears with the process.
type shelf struct {
	near map[int][]event.Event
	size int
	far  map[int][]heldAt
	file *os.File
	end  int64
}

// heldAt is the place of a record in the file.
type heldAt struct {
	at  int64
	len int
}

// heldInMemory is how many bytes of outputs are held in memory.
const heldInMemory = 8 << 20

// eventSize is about what an event takes in memory, without its data.
const eventSize = 512

func newShelf() *shelf { return &shelf{near: map[int][]event.Event{}, far: map[int][]heldAt{}} }

// put keeps a record of an item. If it cannot be written to the file, it stays in memory, and
// put returns the error.
func (s *shelf) put(e event.Event) error {
	size := eventSize + len(e.Data)
	var err error
	if s.size+size > heldInMemory {
		if err = s.write(e); err == nil {
			return nil
		}
		err = fmt.Errorf("outputs that wait for their turn stay in memory: %w", err)
	}
	s.near[e.Index] = append(s.near[e.Index], e)
	s.size += size
	return err
}

func (s *shelf) write(e event.Event) error {
	if s.file == nil {
		f, err := os.CreateTemp("", "bide-outputs-*")
		if err != nil {
			return err
		}
		if err := os.Remove(f.Name()); err != nil {
			return errors.Join(err, f.Close())
		}
		s.file = f
	}
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := s.file.WriteAt(b, s.end); err != nil {
		return err
	}
	s.far[e.Index] = append(s.far[e.Index], heldAt{s.end, len(b)})
	s.end += int64(len(b))
	return nil
}

// take removes the records of an item and returns them, in the order of the run.
func (s *shelf) take(index int) ([]event.Event, error) {
	list := s.near[index]
	delete(s.near, index)
	for _, e := range list {
		s.size -= eventSize + len(e.Data)
	}
	spans := s.far[index]
	delete(s.far, index)
	for _, at := range spans {
		b := make([]byte, at.len)
		if _, err := s.file.ReadAt(b, at.at); err != nil {
			return list, fmt.Errorf("an output that waited for its turn is lost: %w", err)
		}
		var e event.Event
		if err := json.Unmarshal(b, &e); err != nil {
			return list, err
		}
		list = append(list, e)
	}
	slices.SortStableFunc(list, func(x, y event.Event) int { return int(x.Seq - y.Seq) })
	return list, nil
}

// items are the items that have records here, in order.
func (s *shelf) items() []int {
	all := maps.Clone(s.far)
	for index := range s.near {
		all[index] = nil
	}
	return slices.Sorted(maps.Keys(all))
}

func (s *shelf) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
