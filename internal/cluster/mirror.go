package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/value"
)

// Elsewhere says which store has the record of a mirrored run. It is the file
// journal.Elsewhere in the run's directory.
type Elsewhere struct {
	Store string `json:"store"` // as OpenStore takes it
	On    string `json:"on"`    // temporal
}

// Place reads which store has the record of the run in a directory; fs.ErrNotExist if no
// store has it.
func Place(dir string) (e Elsewhere, err error) {
	text, err := os.ReadFile(filepath.Join(dir, journal.Elsewhere))
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	return e, err
}

// position is how much of a store a journal has taken over. It has the events up to Seq:
// those of all entries up to Entry, and of the open log up to At.
type position struct {
	Seq   int64  `json:"seq"`
	Entry int    `json:"entry"`
	Open  string `json:"open,omitempty"`
	At    int64  `json:"at,omitempty"`
	Over  bool   `json:"over,omitempty"` // the run has ended
}

// positionFile is beside the journal that it describes.
const positionFile = "mirror.json"

// still reports whether nothing has been added since a position was saved.
func (r Shared) still(path string) bool {
	var at position
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &at) != nil {
		return false
	}
	return !r.has("order", entryName(at.Entry+1)) && (at.Open == "" || !r.beyond(at.Open, at.At))
}

// beyond reports whether a log has something after an offset.
func (r Shared) beyond(log string, at int64) bool {
	f, err := r.tail(log, at)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	n, err := io.ReadFull(f, make([]byte, 1))
	return n > 0 || !errors.Is(err, io.EOF)
}

// errAhead says that a copy has more than what counts: from a home task that was given up,
// or from a log that was damaged and repaired. The copy is made anew.
var errAhead = errors.New("the copy of the run has what was not accepted")

// Make makes the journal of a run as an empty copy.
func Make(home *journal.Store, s Store, p Plan) (*journal.Journal, error) {
	j, err := home.Create(p.Header)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(Elsewhere{Store: s.String(), On: "temporal"})
	if err == nil {
		if path := s.Run(p.Header.Run).Path(); path != "" {
			err = os.Symlink(filepath.Join(path, "logs"), filepath.Join(j.Dir(), "logs"))
		}
	}
	if err == nil {
		err = errors.Join(writeFile(filepath.Join(j.Dir(), journal.GoesOn), nil), writeFile(filepath.Join(j.Dir(), journal.Elsewhere), text))
	}
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// Adopt makes copies of the runs of a store that a home does not have. Runs that cannot be
// read are skipped; the error reports them.
func (s Store) Adopt(home *journal.Store) error {
	runs, err := s.Runs()
	if err != nil {
		return err
	}
	var errs []error
	for _, run := range runs {
		if _, err := os.Stat(home.RunDir(run)); err == nil {
			continue
		}
		p, err := s.Run(run).Plan()
		if err == nil {
			var j *journal.Journal
			if j, err = Make(home, s, p); err == nil {
				err = j.Close()
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Refresh brings the copy of a run in home up to what its store has. If another process is
// doing so, it does nothing. It implements journal.Store.Refresh.
func Refresh(home *journal.Store) func(dir string) error { return RefreshTelling(home, nil) }

// RefreshTelling is Refresh that reports how many items of a run it has read if this takes
// long, as the first time on a machine.
func RefreshTelling(home *journal.Store, tell func(run string, items int)) func(dir string) error {
	return func(dir string) error {
		run := filepath.Base(dir)
		var progress func(int) error
		if tell != nil {
			progress = func(items int) error { tell(run, items); return nil }
		}
		return refreshTelling(context.Background(), home, run, progress)
	}
}

// RefreshAll brings the copies of all runs in progress up to date.
func RefreshAll(home *journal.Store) error {
	marks, err := filepath.Glob(filepath.Join(home.RunDir("*"), journal.GoesOn))
	errs := []error{err}
	for _, mark := range marks {
		errs = append(errs, Refresh(home)(filepath.Dir(mark)))
	}
	return errors.Join(errs...)
}

func refresh(ctx context.Context, home *journal.Store, run string) error {
	return refreshTelling(ctx, home, run, nil)
}

func refreshTelling(ctx context.Context, home *journal.Store, run string, tell func(items int) error) error {
	place, err := Place(home.RunDir(run))
	if err != nil {
		return err
	}
	s, err := OpenStore(place.Store)
	if err != nil {
		return err
	}
	path := filepath.Join(home.RunDir(run), positionFile)
	if s.Run(run).still(path) {
		return nil
	}
	j, err := home.OpenCopy(run)
	if errors.As(err, new(*journal.LockedError)) {
		return nil
	}
	if err != nil {
		return err
	}
	f := fold{shared: s.Run(run), j: j, path: path, tell: tell}
	err = errors.Join(f.all(ctx), j.Close())
	if !errors.Is(err, errAhead) {
		return err
	}
	p, err := s.Run(run).Plan()
	if err != nil {
		return err
	}
	if err := home.Remove(run); err != nil {
		return err
	}
	if j, err = Make(home, s, p); err != nil {
		return err
	}
	f = fold{shared: s.Run(run), j: j, path: path, tell: tell}
	return errors.Join(f.all(ctx), j.Close())
}

// fold copies the contents of a store to a journal.
type fold struct {
	shared Shared
	j      *journal.Journal
	path   string // of the position; "": it is not saved
	// lanes says that the copy is for lanes: it has no events of items, except for the work
	// items that were changed.
	lanes bool

	// tell, if not nil, is called each tellEvery with the number of ended items so far.
	tell  func(items int) error
	ended int
	heard time.Time

	at     position
	skip   int64               // events that the journal has after the position
	failed map[int]event.Event // items failed for good, by index
	read   bool                // failed has the journal's failed items too
	// repaired are the logs of which less counts than was accepted.
	repaired map[string]Prefix
}

func (f *fold) all(ctx context.Context) error {
	if text, err := os.ReadFile(f.path); err == nil {
		if err := json.Unmarshal(text, &f.at); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	} else if f.path != "" && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.skip = f.j.Appended() - f.at.Seq
	before := f.at
	if f.at.Entry == 0 && f.repaired == nil {
		var err error
		if f.repaired, err = f.shared.repaired(); err != nil {
			return err
		}
	}
	err := f.shared.entries(f.at.Entry, func(e Entry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.entry(ctx, e); err != nil {
			return fmt.Errorf("entry %d of the order: %w", e.Seq, err)
		}
		f.at.Entry = e.Seq
		return f.progress()
	})
	if err == nil && f.at.Open != "" {
		f.at.At, err = f.log(ctx, f.at.Open, f.at.At, -1)
	}
	if err != nil || f.path == "" || f.at == before {
		return err
	}
	if err := f.j.Sync(ctx); err != nil {
		return err
	}
	f.at.Seq = f.j.Appended() - f.skip
	if f.at.Over != before.Over {
		if err := f.goesOn(); err != nil {
			return err
		}
	}
	text, err := json.Marshal(f.at)
	if err != nil {
		return err
	}
	return writeFile(f.path, text)
}

// tellEvery is how often a fold that takes long reports its progress, and tellFirst is after
// how long it does so first.
var (
	tellEvery = 3 * time.Second
	tellFirst = time.Second
)

// progress reports how far the fold has come.
func (f *fold) progress() error {
	switch {
	case f.tell == nil:
	case f.heard.IsZero():
		f.heard = time.Now().Add(min(tellFirst, tellEvery) - tellEvery)
	case time.Since(f.heard) >= tellEvery:
		f.heard = time.Now()
		return f.tell(f.ended)
	}
	return nil
}

// goesOn updates the file beside the journal that says whether the run is in progress.
func (f *fold) goesOn() error {
	path := filepath.Join(f.j.Dir(), journal.GoesOn)
	if !f.at.Over {
		return writeFile(path, nil)
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f *fold) entry(ctx context.Context, e Entry) error {
	for _, d := range e.Decisions {
		if d.Open != "" {
			f.at.Open, f.at.At = d.Open, 0
		}
		if d.Repaired != nil && f.repaired[d.Repaired.Log] == (Prefix{}) {
			return errAhead
		}
		if d.Accepted != nil {
			if err := f.accept(ctx, *d.Accepted); err != nil {
				return err
			}
		}
		if err := f.take(ctx, "", d.Events); err != nil {
			return err
		}
	}
	if e.Begins == "" || f.at.Open == "" {
		return nil
	}
	if f.at.At > 0 { // the log of an earlier life, of which nothing was accepted
		return errAhead
	}
	f.at.Open = ""
	return nil
}

// accept copies the part of a log that counts.
func (f *fold) accept(ctx context.Context, p Prefix) error {
	if l, _ := logNameOf(p.Log); f.lanes && l.kind == laneLog {
		return nil
	}
	if now, ok := f.repaired[p.Log]; ok {
		p = now
	}
	from := int64(0)
	if p.Log == f.at.Open {
		from = f.at.At
		if from > p.Length {
			return errAhead
		}
		f.at.Open, f.at.At = "", 0
	}
	if err := f.shared.same(p); err != nil {
		return repairable(err)
	}
	end, err := f.log(ctx, p.Log, from, p.Length)
	if err == nil && end != p.Length {
		err = fmt.Errorf("the log %s ends at %d, and %d was accepted of it", p.Log, end, p.Length)
	}
	return err
}

// repairable adds to an error about damage what to do about it.
func repairable(err error) error {
	return fmt.Errorf("%w; bide store verify tells what is damaged, and bide store repair has it run again", err)
}

func (f *fold) log(ctx context.Context, name string, from, length int64) (int64, error) {
	return f.shared.readLog(name, from, length, func(text []byte, _ int64) error {
		facts, err := eventsOf(text)
		if err != nil {
			return fmt.Errorf("the log %s: %w", name, err)
		}
		return f.take(ctx, name, facts)
	})
}

// take records events of a log, or of the order, except for those that are there already.
func (f *fold) take(ctx context.Context, log string, facts []event.Event) error {
	kept := facts[:0:0]
	for _, e := range facts {
		if f.lanes && e.Index > 0 && !(e.Type == event.ItemRequeued && len(e.Data) > 0) {
			continue
		}
		switch e.Type {
		case event.RunStarted, event.RunResumed:
			f.at.Over = false
		case event.RunFinished:
			f.at.Over = true
		}
		if e.Type == event.ItemFinished && e.Index > 0 {
			f.ended++
		}
		f.fails(&e)
		if f.skip > 0 {
			f.skip--
			continue
		}
		if err := f.shared.uncarry(&e, filepath.Join(f.j.Dir(), "logs")); err != nil {
			return err
		}
		switch {
		case e.Type == event.Note && e.Index > 0 && e.Message == "":
			if err := f.complete(ctx, &e); err != nil {
				return err
			}
		case e.Type == event.ItemsReady:
			if err := f.items(ctx, log); err != nil {
				return err
			}
		case e.Type == event.ItemFinished && e.Item == "" && e.Index > 0:
			it, err := f.j.Item(ctx, e.Index)
			if err != nil {
				return err
			}
			e.Item = it.ID
		}
		kept = append(kept, e)
	}
	if len(kept) == 0 {
		return nil
	}
	return f.j.RecordAll(kept)
}

// fails remembers how an item failed for good.
func (f *fold) fails(e *event.Event) {
	if (e.Type == event.ItemFinished || e.Type == event.ItemHandlerDue) && e.Class != "" {
		value.Put(&f.failed, e.Index, event.Event{Item: e.Item, Label: e.Label, Message: e.Message})
	}
}

// complete adds to a fact of the coordinator how its item failed.
func (f *fold) complete(ctx context.Context, e *event.Event) error {
	if _, ok := f.failed[e.Index]; !ok && !f.read {
		f.read = true
		if err := f.j.Sync(ctx); err != nil {
			return err
		}
		for old, err := range f.j.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.ItemFinished, event.ItemHandlerDue}}) {
			if err != nil {
				return err
			}
			f.fails(&old)
		}
	}
	was := f.failed[e.Index]
	e.Item, e.Label = was.Item, was.Label
	e.Message = mapper.FailedText(cmp.Or(was.Label, was.Item), e.Attempts, was.Message)
	return nil
}

// items copies the work items that a home task has listed, unless they are there.
func (f *fold) items(ctx context.Context, log string) error {
	_, _, loaded, err := f.j.ItemList(ctx)
	if err != nil || loaded {
		return err
	}
	if _, _, err := f.j.PutItems(ctx, f.shared.getItems(log)); err != nil {
		return err
	}
	seals, err := f.shared.getSeals(log)
	if err != nil || len(seals) == 0 {
		return err
	}
	return writeFile(filepath.Join(f.j.Dir(), sealsFile), seals)
}

// sealsFile is beside the journal of a run whose items have secrets.
const sealsFile = "items-secrets.jsonl"

// writeFile writes a file of this machine, synced: all of it or nothing.
func writeFile(path string, text []byte) error {
	return files.Replace(path, 0o600, files.Synced(text))
}
