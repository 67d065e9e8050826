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
	"path"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// Store keeps runs where all machines reach them. Two stores that were opened with the same
// text are equal.
type Store struct {
	text string
	o    Objects
}

// StoreOf makes a store of objects. text is what OpenStore would take.
func StoreOf(text string, o Objects) Store { return Store{text, o} }

// String gives the text that OpenStore takes. It has no secrets in it.
func (s Store) String() string { return s.text }

// Objects gives the objects in which the store keeps its runs.
func (s Store) Objects() Objects { return s.o }

// Shared is a run in a store.
type Shared struct {
	store Store
	o     Objects
	run   string
}

// Run gives a run of the store.
func (s Store) Run(id string) Shared { return Shared{s, s.o, id} }

// name gives the name of an object of the run.
func (r Shared) name(parts ...string) string {
	return path.Join(append([]string{"runs", r.run}, parts...)...)
}

// Path gives the path of the run on each machine; "" if the store is not a directory.
func (r Shared) Path() string {
	if d, ok := r.o.(Directory); ok {
		return d.Path(r.name())
	}
	return ""
}

// every gives how often to do something that is cheap in a directory and costs a call to a
// server.
func (r Shared) every(directory, server time.Duration) time.Duration {
	if _, ok := r.o.(Directory); ok {
		return directory
	}
	return server
}

// Plan is what a run is made of.
type Plan struct {
	Protocol int            `json:"protocol"`
	Header   journal.Header `json:"header"`
	// Priority is 1 for runs that are served first, up to LastPriority; 0 means
	// UsualPriority.
	Priority int `json:"priority,omitempty"`
}

// The priorities of runs that wait for the same workers.
const (
	UsualPriority = 3
	LastPriority  = 5
)

// Create makes a run in the store, all of it or nothing.
func (s Store) Create(p Plan) (Shared, error) {
	r := s.Run(p.Header.Run)
	text, err := json.Marshal(p)
	if err == nil {
		if d, ok := s.o.(Directory); ok {
			err = d.Found(r.name(), []string{"lanes", "logs", "order", "items", "lives", "stops", "git"}, "plan.json", text)
		} else {
			err = r.put(text, "plan.json")
		}
	}
	if err != nil {
		err = fmt.Errorf("cannot make the run in the store: %w", err)
	}
	return r, err
}

// Has reports whether a run is in the store.
func (s Store) Has(run string) bool {
	r := s.Run(run)
	return r.has("plan.json")
}

// Runs gives the runs of the store, in the order of their ids.
func (s Store) Runs() ([]string, error) {
	runs, err := s.o.List("runs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(runs)
	return runs, err
}

// Remove removes a run from the store. Nobody sees a part of it in the meantime.
func (r Shared) Remove() error {
	if err := r.o.Remove(r.name()); err != nil {
		return fmt.Errorf("cannot remove the run from the store: %w", err)
	}
	return nil
}

// Plan reads the run's plan.
func (r Shared) Plan() (Plan, error) {
	var p Plan
	text, err := r.get("plan.json")
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("the store %s has no run %s: %w; do all machines see the same one there?", r.store, r.run, err)
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && p.Protocol != Protocol {
		err = fmt.Errorf("the run %s speaks protocol %d, and this bide %d", r.run, p.Protocol, Protocol)
	}
	return p, err
}

// get reads an object of the run.
func (r Shared) get(parts ...string) ([]byte, error) {
	f, err := r.o.Read(r.name(parts...), 0)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// has reports whether the run has an object, as far as can be seen.
func (r Shared) has(parts ...string) bool {
	return has(r.o, r.name(parts...))
}

// put creates an object of the run.
func (r Shared) put(text []byte, parts ...string) error {
	return r.o.Create(r.name(parts...), writes(text))
}

// mark creates an object whose existence says something.
func (r Shared) mark(parts ...string) error {
	if err := r.put(nil, parts...); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (r Shared) log(name string) string { return r.name("lanes", name+".log") }

// tail reads a log from an offset on.
func (r Shared) tail(log string, from int64) (io.ReadCloser, error) {
	return ReadLog(r.o, r.log(log), from)
}

// Stop says that a life of the run is to stop. It is for lanes that are asked to end.
type Stop struct {
	Life int  `json:"life"`
	Now  bool `json:"now"` // immediately, without grace
}

// PutStop tells all lanes of a life of the run that it stops.
func (r Shared) PutStop(s Stop) error {
	name := fmt.Sprint(s.Life)
	if s.Now {
		name += "-now"
	}
	return r.mark("stops", name)
}

// Stopped gives the Stop of a life of the run; the zero Stop if it is not to stop.
func (r Shared) Stopped(life int) Stop {
	name := fmt.Sprint(life)
	s := Stop{Life: life, Now: r.has("stops", name+"-now")}
	if !s.Now && !r.has("stops", name) {
		return Stop{}
	}
	return s
}

const itemsEnd = ".jsonl.gz"

// putItems stores the work items that a home task has listed, and what seals the secrets in
// them. They belong to the task's log, and count once the log is accepted.
func (r Shared) putItems(log string, items iter.Seq2[event.Item, error], seals []byte) error {
	if len(seals) > 0 {
		if err := r.put(seals, "items", log+"-secrets.jsonl"); err != nil {
			return err
		}
	}
	return r.o.Create(r.name("items", log+itemsEnd), func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			return err
		}
		enc := json.NewEncoder(z)
		for it, err := range items {
			if err == nil {
				err = enc.Encode(it)
			}
			if err != nil {
				return err
			}
		}
		return z.Close()
	})
}

// getSeals reads what seals the secrets in the work items; nothing if there are none.
func (r Shared) getSeals(log string) ([]byte, error) {
	text, err := r.get("items", log+"-secrets.jsonl")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// getItems reads the work items in their order.
func (r Shared) getItems(log string) iter.Seq2[event.Item, error] {
	return func(yield func(event.Item, error) bool) {
		name := r.name("items", log+itemsEnd)
		f, err := r.o.Read(name, 0)
		if err != nil {
			yield(event.Item{}, err)
			return
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			yield(event.Item{}, &DamagedError{name, err})
			return
		}
		for dec := json.NewDecoder(bufio.NewReader(z)); ; {
			var it event.Item
			if err := dec.Decode(&it); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				yield(it, &DamagedError{name, err})
				return
			}
			if !yield(it, nil) {
				return
			}
		}
	}
}
