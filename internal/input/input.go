package input

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/value"
)

// Spec says which items there are. Exactly one of File and List is used; an
// empty File means List.
type Spec struct {
	File string
	// Within is the directory that data, which has named File, must not leave;
	// "": the author has named it.
	Within string
	// Called is what File is called in errors; "" means its path.
	Called string
	Kind   string // of the file; see Auto
	List   []any

	JSONPath string
	Filter   *expr.Expr
	SortBy   *expr.Sort
	Distinct expr.Path // of two items with the same value there the first stays; nil: all stay
	Offset   int       // items left out at the beginning
	Max      int       // at most that many; 0: all

	// Context ends what waits or takes long: opening, reading, the evaluation of
	// a path; nil: nothing does.
	Context context.Context

	// Seen is told of every item before anything is left out of them; nil: nobody
	// asks.
	Seen *Seen

	// TempDir is where a list waits while it is sorted; "" means the system's.
	TempDir string
}

func (s Spec) name() files.Name {
	return files.Name{Dir: s.Within, Path: s.File, ByData: s.Within != ""}
}

func (s Spec) context() context.Context {
	if s.Context == nil {
		return context.Background()
	}
	return s.Context
}

// Items reads, filters, sorts and cuts the list. The first error ends it. The id of an
// item is its own where it has one and no item before it has the same, else its number.
func (s Spec) Items() iter.Seq2[event.Item, error] {
	return func(yield func(event.Item, error) bool) {
		ids := newIDs()
		n, skipped := 0, 0
		seen := map[[16]byte]struct{}{}
		for r, err := range s.sorted() {
			if err != nil {
				yield(event.Item{}, err)
				return
			}
			if s.Distinct != nil && !s.isNew(seen, r.v) {
				continue
			}
			if skipped < s.Offset {
				skipped++
				continue
			}
			if s.Max > 0 && n == s.Max {
				return
			}
			n++
			if !yield(event.Item{Index: n, ID: ids.of(r.v, event.Number(n)), Data: r.json()}, nil) {
				return
			}
		}
	}
}

func (s Spec) isNew(seen map[[16]byte]struct{}, v any) bool {
	key, _ := expr.Item(v).Lookup(s.Distinct)
	sum := sha256.Sum256([]byte(value.JSON(key)))
	k := [16]byte(sum[:16])
	if _, old := seen[k]; old {
		return false
	}
	seen[k] = struct{}{}
	return true
}

// json is the item's text, compact and otherwise as it was written.
func (r raw) json() []byte {
	if r.text == nil {
		return []byte(value.JSON(r.v))
	}
	if !bytes.ContainsAny(r.text, " \t\r\n") {
		return r.text
	}
	var b bytes.Buffer
	b.Grow(len(r.text))
	if err := json.Compact(&b, r.text); err != nil {
		return []byte(value.JSON(r.v))
	}
	return b.Bytes()
}

// filtered gives the items that the filter lets through.
func (s Spec) filtered() iter.Seq2[raw, error] {
	if s.Filter == nil && s.Seen == nil {
		return s.read()
	}
	return func(yield func(raw, error) bool) {
		for r, err := range s.read() {
			if err == nil && s.Seen != nil {
				s.Seen.item(r.v)
			}
			if err == nil && s.Filter != nil {
				var ok bool
				ok, err = s.Filter.EvalBool(expr.Item(r.v))
				if err == nil && !ok {
					continue
				}
				if err != nil {
					err = fmt.Errorf("filter: %w", err)
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// place is where an item waits in the temporary file.
type waiting struct {
	keys []any
	at   int64
	size int
}

// sorted gives the items in the order of sort_by. Only their keys are held.
func (s Spec) sorted() iter.Seq2[raw, error] {
	if s.SortBy == nil {
		return s.filtered()
	}
	return func(yield func(raw, error) bool) {
		f, err := os.CreateTemp(s.TempDir, "items-*.jsonl")
		if err != nil {
			yield(raw{}, err)
			return
		}
		defer f.Close()
		if err := os.Remove(f.Name()); err != nil {
			yield(raw{}, err)
			return
		}
		list, err := s.spool(f)
		if err != nil {
			yield(raw{}, err)
			return
		}
		slices.SortStableFunc(list, func(a, b waiting) int { return s.SortBy.Compare(a.keys, b.keys) })
		for _, w := range list {
			text := make([]byte, w.size)
			_, err := f.ReadAt(text, w.at)
			var v any
			if err == nil {
				v, err = value.Parse(text)
			}
			if !yield(raw{v: v, text: text}, err) || err != nil {
				return
			}
		}
	}
}

func (s Spec) spool(f io.Writer) ([]waiting, error) {
	var list []waiting
	w := bufio.NewWriterSize(f, 256<<10)
	var at int64
	for r, err := range s.filtered() {
		if err != nil {
			return nil, err
		}
		text := r.json()
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
		list = append(list, waiting{keys: s.SortBy.Keys(expr.Item(r.v)), at: at, size: len(text)})
		at += int64(len(text))
	}
	return list, w.Flush()
}

// maxID is the longest id that is taken from an item, in bytes.
const maxID = 200

// ids makes ids that are unique in the list. It holds 8 bytes for each.
type ids struct {
	seed maphash.Seed
	used map[uint64]struct{}
}

func newIDs() *ids { return &ids{maphash.MakeSeed(), map[uint64]struct{}{}} }

func (i *ids) take(id string) bool {
	h := maphash.String(i.seed, id)
	if _, old := i.used[h]; old {
		return false
	}
	i.used[h] = struct{}{}
	return true
}

// of gives the id of the nth item, n from 0.
func (i *ids) of(v any, n int) string {
	if m, ok := v.(map[string]any); ok {
		if own, ok := m["id"]; ok && own != nil && value.IsScalar(own) {
			if id := value.Text(own); id != "" && len(id) <= maxID && i.take(id) {
				return id
			}
		}
	}
	id := strconv.Itoa(n)
	for k := 2; !i.take(id); k++ {
		id = fmt.Sprintf("%d~%d", n, k)
	}
	return id
}
