package journal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
)

// Reader reads one run. It may be used by many goroutines at once. A sequence
// that it gives holds no transaction while its consumer works, so a slow
// consumer holds nobody up.
type Reader struct {
	run    string
	dir    string
	path   string // of the database
	header Header
	db     *sql.DB
	// version is the format's, as load has met it.
	version int64

	// flush, in a Journal, commits what was appended, so that a read sees it.
	flush func(context.Context) error
	// dead is the last event that a process now dead has left; what was in
	// flight then is so no more. 0 in a Reader of its own, which cannot know.
	dead int64

	// left is a state that nobody has taken yet: that of an interrupted run, of which a list
	// wanted the summary.
	left *folded

	mu    sync.Mutex
	words map[int64]string
}

// openReader opens the journal in dir for reading.
func openReader(ctx context.Context, dir, run string) (*Reader, error) {
	path := filepath.Join(dir, dbName)
	if err := checkFile(path); err != nil {
		return nil, err
	}
	r, err := newReader(dir, run)
	if err != nil {
		return nil, err
	}
	if err := r.load(ctx); err != nil {
		return nil, errors.Join(err, r.db.Close())
	}
	return r, nil
}

// newReader is openReader that does not open anything before it is used.
func newReader(dir, run string) (*Reader, error) {
	path := filepath.Join(dir, dbName)
	c, err := connector(path, readOnly)
	if err != nil {
		return nil, err
	}
	r := &Reader{run: run, dir: dir, path: path, db: sql.OpenDB(c)}
	r.db.SetMaxIdleConns(2)
	return r, nil
}

func (r *Reader) load(ctx context.Context) (err error) {
	if r.version, err = checkVersion(ctx, r.db, r.path); err != nil {
		return err
	}
	if r.header, err = r.readHeader(ctx); err != nil {
		return err
	}
	return r.loadWords(ctx)
}

// Run is the run's id.
func (r *Reader) Run() string { return r.run }

// Dir is the run's directory.
func (r *Reader) Dir() string { return r.dir }

// Header is what was recorded before the first event. Its bytes and maps are
// shared and must not be changed.
func (r *Reader) Header() Header { return r.header }

// Close ends reading. Sequences still in use end with an error.
func (r *Reader) Close() error { return r.db.Close() }

// ready has everything that was appended in the database.
func (r *Reader) ready(ctx context.Context) error {
	if r.flush == nil {
		return nil
	}
	return r.flush(ctx)
}

// query runs q and hands each row to each, which must keep nothing of the
// slice. It goes past database/sql's conversions, which cost as much again as
// the reading. each must not use the Reader.
func (r *Reader) query(ctx context.Context, each func([]driver.Value) error, q string, args ...driver.Value) error {
	c, err := r.db.Conn(ctx)
	if err != nil {
		return readError(r.path, err)
	}
	defer c.Close() // gives it back to the pool; there is nothing to lose
	var mine error  // of each: not to be taken for the database's
	err = c.Raw(func(dc any) error {
		rows, err := dc.(driver.QueryerContext).QueryContext(ctx, q, named(args...))
		if err != nil {
			return err
		}
		dest := make([]driver.Value, len(rows.Columns()))
		for err == nil {
			if err = rows.Next(dest); err == nil {
				if mine = each(dest); mine != nil {
					break
				}
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return errors.Join(err, rows.Close())
	})
	if mine != nil {
		return mine
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return readError(r.path, err)
}

func (r *Reader) loadWords(ctx context.Context) error {
	known := map[int64]string{}
	err := r.query(ctx, func(row []driver.Value) error {
		known[integer(row[0])] = text(row[1])
		return nil
	}, "SELECT id, word FROM words")
	if err != nil {
		return err
	}
	for i, w := range vocabulary {
		if known[int64(i+1)] != w {
			return damaged(r.path, fmt.Sprintf("word %d of its dictionary is not %q", i+1, w), nil)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.words = known
	return nil
}

// dictionary is the words known by now. The map is never changed, only
// replaced.
func (r *Reader) dictionary() map[int64]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.words
}

// fresh runs read with the words that are there now: a running process adds
// some. A word that is added while read runs is met by reading again.
func (r *Reader) fresh(ctx context.Context, read func() error) error {
	var n int64
	err := r.query(ctx, func(row []driver.Value) error {
		n = integer(row[0])
		return nil
	}, "SELECT count(*) FROM words")
	if err != nil {
		return err
	}
	if n != int64(len(r.dictionary())) {
		if err := r.loadWords(ctx); err != nil {
			return err
		}
	}
	err = read()
	if !errors.Is(err, errWord) {
		return err
	}
	if err := r.loadWords(ctx); err != nil {
		return err
	}
	return read()
}

// errWord is a number of a word that the dictionary lacks.
var errWord = errors.New("it uses a word that its dictionary lacks")

// verify is the cheap check, made before a run continues: the rows of events have
// no gap between them, and the item list is whole. It looks at each row of both,
// but not into it.
func (r *Reader) verify(ctx context.Context) (last int64, err error) {
	err = r.query(ctx, func(row []driver.Value) error {
		first, end := integer(row[0]), integer(row[1])
		if first != last+1 || end < first {
			return damaged(r.path, fmt.Sprintf("events %d to %d follow event %d", first, end, last), nil)
		}
		last = end
		return nil
	}, "SELECT first, last FROM events ORDER BY first")
	if err != nil {
		return 0, err
	}
	want, _, loaded, err := r.ItemList(ctx)
	if err != nil || !loaded {
		return last, err
	}
	var n, highest int64
	err = r.query(ctx, func(row []driver.Value) error {
		n, highest = integer(row[0]), integer(row[1])
		return nil
	}, `SELECT (SELECT count(*) FROM items), (SELECT coalesce(max(idx), 0) FROM items)`)
	if err == nil && (n != int64(want) || highest != n) {
		err = damaged(r.path, fmt.Sprintf("%d of %d items are there", n, want), nil)
	}
	return last, err
}

// Check looks at everything: the database page by page, every event, and the
// digest of the item list. It takes about as long as reading the whole file
// twice. The answer is nil, a *DamagedError, or an error of reading.
func (r *Reader) Check(ctx context.Context) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	if _, err := r.verify(ctx); err != nil {
		return err
	}
	var found string
	err := r.query(ctx, func(row []driver.Value) error {
		found = text(row[0])
		return nil
	}, "PRAGMA quick_check(1)")
	if err != nil {
		return err
	}
	if found != "ok" {
		return damaged(r.path, found, nil)
	}
	for _, err := range r.Events(ctx, 1, EventFilter{}) {
		if err != nil {
			return err
		}
	}
	return r.checkItems(ctx)
}
