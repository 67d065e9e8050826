package journal

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// lookedAt bounds how many runs of a home are asked what they are runs of.
const lookedAt = 1000

// Earlier gives the runs that fit, but for one, at most so many, the one that was
// written to last first: a run may have continued after a younger one has ended. It
// looks at the last 1,000 runs of the home. unreadable is told of those that have
// no header.
func (s *Store) Earlier(but string, most int, fits func(Header) bool, unreadable func(run string, err error)) ([]string, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	type run struct {
		id   string
		last time.Time
	}
	var runs []run
	for _, id := range ids {
		if id != but {
			runs = append(runs, run{id, lastWritten(s.dir(id))})
		}
	}
	slices.SortStableFunc(runs, func(a, b run) int { return b.last.Compare(a.last) })
	var found []string
	for _, r := range runs[:min(len(runs), lookedAt)] {
		h, err := s.header(r.id)
		switch {
		case err != nil:
			unreadable(r.id, err)
		case fits(h):
			found = append(found, r.id)
		}
		if len(found) == most {
			break
		}
	}
	return found, nil
}

// lastWritten is when the journal in a directory was written to last.
func lastWritten(dir string) (last time.Time) {
	for _, suffix := range []string{"", walSuffix} {
		if info, err := os.Stat(filepath.Join(dir, dbName+suffix)); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// Lasts gives each the last event of every item that has begun, in the order of
// the events: its number, what it leaves the item in, and of an end its data, which
// each keeps nothing of. It needs eight bytes for each item. each must not use the
// Reader.
func (r *Reader) Lasts(ctx context.Context, each func(index int, seq int64, status ItemStatus, data string) error) error {
	limit, err := r.maxIndex(ctx)
	if err != nil {
		return err
	}
	var last []int64
	_, err = r.Scan(ctx, 1, func(f *Fact) error {
		index := f.Index()
		if index == 0 || !isItem(event.Type(f.rec.kind.vocabulary())) {
			return nil
		}
		if index < 1 || index > limit {
			return damaged(r.path, "an event is of an item that is not in the list", nil)
		}
		if more := index - len(last); more > 0 {
			last = slices.Grow(last, more)[:index]
		}
		last[index-1] = f.seq
		return nil
	})
	if err != nil {
		return err
	}
	_, err = r.Scan(ctx, 1, func(f *Fact) error {
		index := f.Index()
		if index < 1 || index > len(last) || last[index-1] != f.seq {
			return nil
		}
		status, data := ItemPending, ""
		switch event.Type(f.rec.kind.vocabulary()) {
		case event.ItemFinished:
			status, data = finished(f.Status()), f.Data()
		case event.ItemRemoved:
			status = ItemFailed
		}
		return each(index, f.seq, status, data)
	})
	return err
}
