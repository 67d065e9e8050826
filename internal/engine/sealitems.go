package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/value"
)

// sealedItem says which secrets are masked in a work item. It is a line of the
// file items-secrets.jsonl of a run.
type sealedItem struct {
	Index   int           `json:"index"`
	Secrets environ.Seals `json:"secrets"`
}

// itemSeals are the secrets that are masked in the journal's items, beside which
// they are kept in a file. Without a journal they are none.
type itemSeals struct {
	env  *environ.Environment
	path string
	of   map[int]environ.Seals // by the item's index
}

// list gives the work items as they are stored: with their secrets
// masked, and what was masked in a file beside the journal. An id with a secret
// in it is masked for good: it names the item in all that is shown. end is to
// be called after the last item.
func (s *itemSeals) list(spec input.Spec) (items iter.Seq2[event.Item, error], end func() error) {
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
				if item.Data, marks, err = s.seal(item.Data); len(marks) > 0 && err == nil {
					s.of[item.Index] = marks
					if file == nil && s.path != "" {
						file, err = os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
					}
					if err == nil && file != nil {
						_, err = file.Write(append(data(sealedItem{item.Index, marks}), '\n'))
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

// seal masks an item. Data without a secret comes back as it is.
func (s *itemSeals) seal(item []byte) ([]byte, environ.Seals, error) {
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

// open puts the secrets of an item of the journal back.
func (s *itemSeals) open(it *event.Item) error {
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

// read reads what an earlier life of the run has masked in its items.
func (s *itemSeals) read() error {
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

// again are dead letters as the map takes them. Edited items are recorded with
// their secrets masked, as the list is: seal keeps what was masked, and is called
// before they are recorded.
func (x *mapRun) again(list []journal.DeadLetter, req *journal.RetryRequest) (out []mapper.Again, seal func() error) {
	for _, l := range list {
		out = append(out, mapper.Again{Index: l.Index, ID: l.ID, Attempts: l.Attempts, Class: l.Class, Item: req.Edited[l.Index]})
	}
	return out, func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		for i := range out {
			l := &out[i]
			if l.Item == nil {
				continue
			}
			sealed, marks, err := x.r.seals.seal(l.Item)
			if err != nil {
				return err
			}
			if err := x.r.seals.keep(l.Index, marks); err != nil {
				return err
			}
			l.Item = sealed
			value.Put(&x.edited, l.Index, sealed)
		}
		return nil
	}
}

// sealEdited masks the secrets in edited items of a run that does not run yet: they are
// computed for it, and what was masked is noted.
func sealEdited(ctx context.Context, j *journal.Journal, opt Options, edited map[int]json.RawMessage) (_ map[int]json.RawMessage, err error) {
	if len(edited) == 0 {
		return nil, nil
	}
	if opt, err = recordedOptions(j, opt); err != nil {
		return nil, err
	}
	if err := fill(&opt); err != nil {
		return nil, err
	}
	sup, err := proc.New(j.ProcDir(), proc.Options{NoCompanion: noCompanion})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sup.Close()) }()
	opt.Sinks = nil
	r := &run{opt: opt, file: opt.File, j: j, state: &journal.State{}, started: time.Now()}
	defer r.local(sup)()
	if err := r.loadEnv(ctx); err != nil {
		return nil, err
	}
	if err := r.seals.read(); err != nil {
		return nil, err
	}
	out := make(map[int]json.RawMessage, len(edited))
	for index, item := range edited {
		sealed, marks, err := r.seals.seal(item)
		if err == nil {
			err = r.seals.keep(index, marks)
		}
		if err != nil {
			return nil, err
		}
		out[index] = sealed
	}
	return out, nil
}

// keep notes what is masked in an edited item. The last line of an item
// counts.
func (s *itemSeals) keep(index int, marks environ.Seals) error {
	if len(marks) == 0 && len(s.of[index]) == 0 {
		return nil
	}
	value.Put(&s.of, index, marks)
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data(sealedItem{index, marks}), '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}
