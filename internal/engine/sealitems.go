package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/value"
)

// sealedItem says which secrets are masked in a work item. It is a line of the
// file items-secrets.jsonl of a run.
type sealedItem struct {
	Index   int   `json:"index"`
	Secrets seals `json:"secrets"`
}

func (r *run) sealedPath() string { return filepath.Join(r.j.Dir(), "items-secrets.jsonl") }

// journalItems are the work items as they are stored: with their secrets
// masked, and what was masked in a file beside the journal. An id with a secret
// in it is masked for good: it names the item in all that is shown. end is to
// be called after the last item.
func (r *run) journalItems(spec input.Spec) (items iter.Seq2[journal.Item, error], end func() error) {
	var file *os.File
	index, masked := 0, map[string]bool{}
	r.itemSecrets = map[int]seals{}
	items = func(yield func(journal.Item, error) bool) {
		for it, err := range spec.Items() {
			item := journal.Item{ID: it.ID, Data: it.Data}
			if index++; err == nil && r.mask.Active() {
				if id := r.mask.String(it.ID); id != it.ID {
					if item.ID = id; masked[id] {
						item.ID = fmt.Sprintf("%s-%d", id, index)
					}
					masked[id] = true
				}
				var marks seals
				if item.Data, marks, err = r.sealItem(it.Data); len(marks) > 0 && err == nil {
					r.itemSecrets[index] = marks
					if file == nil {
						file, err = os.OpenFile(r.sealedPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
					}
					if err == nil {
						_, err = file.Write(append(data(sealedItem{index, marks}), '\n'))
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

// sealItem masks an item. Data without a secret comes back as it is.
func (r *run) sealItem(item []byte) ([]byte, seals, error) {
	if string(r.mask.Bytes(item)) == string(item) {
		return item, nil, nil
	}
	v, err := value.Parse(item)
	if err != nil {
		return nil, nil, err
	}
	marks := seals{}
	sealed := r.seal(v, "", marks)
	return r.mask.Bytes([]byte(value.JSON(sealed))), marks, nil // the keys as well
}

// openItem is an item of the journal with its secrets.
func (r *run) openItem(it *journal.Item) error {
	marks := r.itemSecrets[it.Index]
	if len(marks) == 0 {
		return nil
	}
	v, err := value.Parse(it.Data)
	if err != nil {
		return fmt.Errorf("item %s: %w", it.ID, err)
	}
	it.Data = []byte(value.JSON(r.unseal(v, marks)))
	return nil
}

// readSealed reads what an earlier life of the run has masked in its items.
func (r *run) readSealed() error {
	f, err := os.Open(r.sealedPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r.itemSecrets = map[int]seals{}
	for dec := json.NewDecoder(bufio.NewReader(f)); dec.More(); {
		var s sealedItem
		if err := dec.Decode(&s); err != nil {
			return fmt.Errorf("%s: %w", r.sealedPath(), err)
		}
		r.itemSecrets[s.Index] = s.Secrets
	}
	return nil
}
