package cluster

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// Store is a directory that all machines of a run reach under the same path.
type Store struct{ Dir string }

// OpenStore takes the text of --store: dir:PATH, or a path.
func OpenStore(text string) (Store, error) {
	kind, path, ok := strings.Cut(text, ":")
	switch {
	case ok && kind == "s3":
		return Store{}, errors.New("a store s3: is not there yet: use dir:PATH, a directory that all workers see")
	case !ok:
		path = text
	case kind != "dir":
		return Store{}, fmt.Errorf("the store %q: write dir:PATH, a directory that all workers see", text)
	}
	if !filepath.IsAbs(path) {
		return Store{}, fmt.Errorf("the store %q: its path must be absolute, as it has to be the same one on all machines", text)
	}
	return Store{filepath.Clean(path)}, nil
}

// String is the text that OpenStore takes.
func (s Store) String() string { return "dir:" + s.Dir }

// Shared is a run in a store.
type Shared struct{ Dir string }

// Run gives a run of the store.
func (s Store) Run(id string) Shared { return Shared{filepath.Join(s.Dir, "runs", id)} }

// Plan is what a run is made of.
type Plan struct {
	Protocol int            `json:"protocol"`
	Header   journal.Header `json:"header"`
}

// Create makes a run in the store: it is there whole, or not at all.
func (s Store) Create(p Plan) (Shared, error) {
	r := s.Run(p.Header.Run)
	draft := filepath.Join(s.Dir, "runs", ".new-"+p.Header.Run)
	if err := os.MkdirAll(filepath.Join(draft, "lanes"), 0o700); err != nil {
		return r, fmt.Errorf("cannot make the run in the store: %w", err)
	}
	text, err := json.Marshal(p)
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(draft, "logs"), 0o700), writeFile(filepath.Join(draft, "plan.json"), text))
	}
	if err == nil {
		err = os.Rename(draft, r.Dir)
	}
	if err != nil {
		return r, errors.Join(fmt.Errorf("cannot make the run in the store: %w", err), os.RemoveAll(draft))
	}
	return r, nil
}

// Has reports whether a run is in the store.
func (s Store) Has(run string) bool {
	_, err := os.Stat(s.Run(run).Dir)
	return err == nil
}

// Remove removes what the store has of a run. Nobody sees a part of it meanwhile.
func (r Shared) Remove() error {
	gone := filepath.Join(filepath.Dir(r.Dir), ".gone-"+filepath.Base(r.Dir))
	if err := os.Rename(r.Dir, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the run from the store: %w", err)
	}
	return os.RemoveAll(gone)
}

// Plan reads the run's plan.
func (r Shared) Plan() (Plan, error) {
	var p Plan
	text, err := os.ReadFile(filepath.Join(r.Dir, "plan.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("the store has no run %s: %w; do all workers see the same directory there?", filepath.Base(r.Dir), err)
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && p.Protocol != Protocol {
		err = fmt.Errorf("the run %s speaks protocol %d, and this bide %d", filepath.Base(r.Dir), p.Protocol, Protocol)
	}
	return p, err
}

// writeFile writes a file that is there whole, synced, or not at all.
func writeFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (r Shared) log(name string) string { return filepath.Join(r.Dir, "lanes", name+".log") }
func (r Shared) order() string          { return filepath.Join(r.Dir, "order.log") }
func (r Shared) items() string          { return filepath.Join(r.Dir, "items.jsonl.gz") }
func (r Shared) seals() string          { return filepath.Join(r.Dir, "items-secrets.jsonl") }
func (r Shared) halt() string           { return filepath.Join(r.Dir, "stop.json") }

// Stop is a wish that the run stops, for lanes that are asked to end.
type Stop struct {
	Life int  `json:"life"`
	Now  bool `json:"now"` // at once, without grace
}

// PutStop tells all lanes of a life of the run that it stops.
func (r Shared) PutStop(s Stop) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeFile(r.halt(), text)
}

// Stopped gives the wish that the run stops; the zero Stop where there is none.
func (r Shared) Stopped() (s Stop) {
	if text, err := os.ReadFile(r.halt()); err == nil && json.Unmarshal(text, &s) != nil {
		return Stop{}
	}
	return s
}

// putItems keeps the work items, unless they are there.
func (r Shared) putItems(items iter.Seq2[journal.Item, error]) (err error) {
	if _, err := os.Stat(r.items()); err == nil {
		return nil
	}
	f, err := os.CreateTemp(r.Dir, ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	enc := json.NewEncoder(z)
	for it, err := range items {
		if err == nil {
			err = enc.Encode(it)
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(z.Close(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), r.items())
}

// getItems reads the work items in their order.
func (r Shared) getItems() iter.Seq2[journal.Item, error] {
	return func(yield func(journal.Item, error) bool) {
		f, err := os.Open(r.items())
		if err != nil {
			yield(journal.Item{}, err)
			return
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			yield(journal.Item{}, err)
			return
		}
		for dec := json.NewDecoder(bufio.NewReader(z)); ; {
			var it journal.Item
			if err := dec.Decode(&it); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				yield(it, fmt.Errorf("%s: %w", r.items(), err))
				return
			}
			if !yield(it, nil) {
				return
			}
		}
	}
}

// Entry is what the coordinator has decided or accepted, in its order.
type Entry struct {
	Seq  int       `json:"seq"` // from 1
	Time time.Time `json:"time"`
	// Open is a log that is written while nothing else happens: what stands in it
	// may be shown before it is accepted.
	Open string `json:"open,omitempty"`
	// Accepted is the part of a log that counts, and Events what follows it.
	Accepted *Prefix       `json:"accepted,omitempty"`
	Events   []event.Event `json:"events,omitempty"`
}

// Record appends entries to the order. Those that are there already are passed
// over, so that it may be done again.
func (r Shared) Record(entries []Entry) error {
	have, end, err := r.lastEntry()
	if err != nil {
		return err
	}
	var b []byte
	for _, e := range entries {
		if e.Seq <= have {
			continue
		}
		if e.Seq != have+1 {
			return fmt.Errorf("the order has %d entries, and the next one is %d", have, e.Seq)
		}
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		b, have = appendFrame(b, text), e.Seq
	}
	if len(b) == 0 {
		return nil
	}
	f, err := os.OpenFile(r.order(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = f.Truncate(end) // what a write that was cut short has left
	if err == nil {
		_, err = f.WriteAt(b, end)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// lastEntry gives the number of entries, and where they end.
func (r Shared) lastEntry() (n int, end int64, err error) {
	_, err = r.entries(0, 0, func(e Entry, at int64) error {
		n, end = e.Seq, at
		return nil
	})
	return n, end, err
}

// entries reads the order behind an entry that ends at an offset.
func (r Shared) entries(after int, from int64, each func(e Entry, end int64) error) (end int64, err error) {
	return readLog(r.order(), from, -1, func(text []byte, end int64) error {
		var e Entry
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("%s: %w", r.order(), err)
		}
		if e.Seq != after+1 {
			return fmt.Errorf("%s: entry %d follows entry %d", r.order(), e.Seq, after)
		}
		after = e.Seq
		return each(e, end)
	})
}

// copyFile copies a file, where it is there.
func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return writeFile(to, text)
}
