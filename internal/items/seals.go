package items

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
)

// sealedItem says which secrets are masked in a work item. It is a line of the
// file items-secrets.jsonl of a run.
type sealedItem struct {
	Index   int           `json:"index"`
	Secrets environ.Seals `json:"secrets"`
}

// Seals say which secrets are masked in each work item, so that an agent gets the item as
// it was read. The journal has the items masked; the seals are kept in a file of their own
// in the run's directory.
type Seals struct {
	env  *environ.Environment
	path string
	of   map[int]environ.Seals // by the item's index
}

// NewSeals gives the seals of a run with this directory. Where it is "", none are kept.
func NewSeals(env *environ.Environment, dir string) *Seals {
	s := &Seals{env: env}
	if dir != "" {
		s.path = filepath.Join(dir, "items-secrets.jsonl")
	}
	return s
}

// Sealed reports whether something is masked in an item.
func (s *Seals) Sealed(index int) bool { return len(s.of[index]) > 0 }

// list gives the work items as they are stored, with their secrets masked, and writes the
// seals to the file. An id with a secret in it stays masked: it names the item wherever it
// is shown. end is to be called after the last item.
func (s *Seals) list(spec input.Spec) (items iter.Seq2[event.Item, error], end func() error) {
	var file *os.File
	masked := map[string]bool{}
	s.of = map[int]environ.Seals{}
	items = func(yield func(event.Item, error) bool) {
		for item, err := range spec.Items() {
			if err == nil && strings.ContainsRune(item.ID, 0) {
				err = fmt.Errorf("item %d: its id %q has a NUL character in it, which no variable of the environment, file name or commit message can hold: change the id, or leave it out", item.Index, item.ID)
			}
			if err == nil && s.env.Mask().Active() {
				if id := s.env.Mask().String(item.ID); id != item.ID {
					if item.ID = id; masked[id] {
						item.ID = fmt.Sprintf("%s-%d", id, item.Index)
					}
					masked[id] = true
				}
				var marks environ.Seals
				if item.Data, marks, err = s.Seal(item.Data); len(marks) > 0 && err == nil {
					s.of[item.Index] = marks
					if file == nil && s.path != "" {
						file, err = os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
					}
					if err == nil && file != nil {
						_, err = file.Write(append(step.Data(sealedItem{item.Index, marks}), '\n'))
					}
				}
			}
			if !yield(item, err) {
				return
			}
		}
	}
	end = func() error {
		if file == nil {
			return nil
		}
		return errors.Join(file.Sync(), file.Close())
	}
	return items, end
}

// Seal masks an item. Data without a secret comes back as it is.
func (s *Seals) Seal(item []byte) ([]byte, environ.Seals, error) {
	if string(s.env.Mask().Bytes(item)) == string(item) {
		return item, nil, nil
	}
	v, err := value.Parse(item)
	if err != nil {
		return nil, nil, err
	}
	sealed, marks := s.env.Seal(v)
	return s.env.Mask().Bytes([]byte(value.JSON(sealed))), marks, nil // the keys as well
}

// Open puts the secrets of an item of the journal back.
func (s *Seals) Open(it *event.Item) error {
	marks := s.of[it.Index]
	if len(marks) == 0 {
		return nil
	}
	v, err := value.Parse(it.Data)
	if err != nil {
		return fmt.Errorf("item %s: %w", it.ID, err)
	}
	it.Data = []byte(value.JSON(s.env.Unseal(v, marks)))
	return nil
}

// Read reads what an earlier life of the run has masked in its items.
func (s *Seals) Read() error {
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	s.of = map[int]environ.Seals{}
	for dec := json.NewDecoder(bufio.NewReader(f)); dec.More(); {
		var line sealedItem
		if err := dec.Decode(&line); err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		s.of[line.Index] = line.Secrets
	}
	return nil
}

// Keep notes what is masked in an edited item. The last line of an item
// counts.
func (s *Seals) Keep(index int, marks environ.Seals) error {
	if len(marks) == 0 && len(s.of[index]) == 0 {
		return nil
	}
	value.Put(&s.of, index, marks)
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(step.Data(sealedItem{index, marks}), '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}
