package journal

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// write is the writer: it commits whatever is queued, all in one transaction, and
// not before a moment has passed since the last commit, whoever made it, unless somebody
// waits or much is queued.
func (j *Journal) write() {
	j.connMu.Lock()
	err := j.prepare()
	j.connMu.Unlock()
	if err != nil {
		j.fail(readError(j.path, err))
		return
	}
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		if j.nothing(&j.idle, func() bool { return len(j.queue) == 0 }) {
			select {
			case <-j.wake:
			case <-j.stop:
				return
			}
		}
		if left := j.restLeft(); left > 0 {
			rest.Reset(left)
			select {
			case <-rest.C:
				continue // somebody else may have committed in the meantime
			case <-j.wake:
			case <-j.stop:
				return
			}
		}
		if !j.commitQueue(false) {
			return
		}
	}
}

// restLeft is for how long the writer has to rest.
func (j *Journal) restLeft() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue) >= urgent {
		return 0
	}
	return restEvery - time.Since(j.commitAt)
}

// nothing says whether there is nothing to do, and notes it for whoever will have
// something.
func (j *Journal) nothing(noted *bool, is func() bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	*noted = is()
	return *noted
}

// call wakes whoever has noted that there is nothing to do. j.mu is held.
func call(noted *bool, wake chan<- struct{}) {
	if *noted {
		*noted = false
		nudge(wake)
	}
}

// commitQueue commits what is queued. The writer does so, and whoever waits
// for the disk, for whom waking the writer would only take longer; synced says that
// the caller sees to the sync as well. It is false after a failure, which is the
// journal's end.
func (j *Journal) commitQueue(synced bool) bool {
	j.batchMu.Lock()
	defer j.batchMu.Unlock()
	batch, since := j.take()
	if len(batch) > 0 {
		if err := j.store(batch, since, synced); err != nil {
			j.fail(err)
			return false
		}
	}
	clear(batch)
	j.spare = batch[:0]
	if cap(j.spare) > urgent && len(batch) < cap(j.spare)/8 {
		j.spare = nil // after a burst its memory goes back
	}
	return true
}

// take takes what is queued, since when the first of it is, and leaves spare as the new
// queue.
func (j *Journal) take() ([]event.Event, time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	batch := j.queue
	j.queue, j.queued = j.spare, 0
	j.spare = nil
	j.room.Broadcast()
	return batch, j.queuedAt
}

// store commits a batch of events, the first of which was appended at since.
func (j *Journal) store(batch []event.Event, since time.Time, synced bool) error {
	return j.commitWith(batch[len(batch)-1].Seq, since, synced, func(driver.Conn) error { return j.insert.events(batch) })
}

// transaction runs f in a transaction of its own. An error of the database
// ends the journal.
func (j *Journal) transaction(f func(driver.Conn) error) error {
	if err := j.Err(); err != nil {
		return err
	}
	err := j.commitWith(0, time.Now(), false, f)
	if err != nil {
		j.fail(err)
	}
	return err
}

func (j *Journal) execute(query string) error {
	return j.transaction(func(c driver.Conn) error { return execSQL(c, query) })
}

// commitWith runs f in a transaction and tells who waits. seq is the last
// event that is in it, 0 for none, since is when the first one was appended, and synced
// that of commitQueue.
func (j *Journal) commitWith(seq int64, since time.Time, synced bool, f func(driver.Conn) error) error {
	if err := j.transact(f); err != nil {
		return writeError(j.path, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.committed = max(j.committed, seq)
	j.commits++
	j.commitAt = time.Now()
	if j.dirtyAt.IsZero() {
		j.dirtyAt = since
	}
	j.release()
	if !synced {
		call(&j.clean, j.dirty)
	}
	j.pressSync()
	return nil
}

func (j *Journal) transact(f func(driver.Conn) error) error {
	j.connMu.Lock()
	defer j.connMu.Unlock()
	if err := j.prepare(); err != nil {
		return err
	}
	if err := j.insert.run(j.insert.begin); err != nil {
		return err
	}
	err := f(j.conn)
	if err == nil {
		err = j.insert.run(j.insert.commit)
	}
	if err == nil {
		return j.afterCommit()
	}
	// Some errors have rolled back already; then this one says so, and the
	// first one is what matters.
	if rerr := execSQL(j.conn, "ROLLBACK"); rerr != nil && code(err) == 0 {
		return errors.Join(err, rerr)
	}
	return err
}

// rowBytes is about how large the text of a row gets: a reader holds one row
// at a time.
const rowBytes = 64 << 10

// inserter has the statements that write events, and their arguments, used
// again and again.
type inserter struct {
	begin, commit driver.Stmt
	add           driver.Stmt
	args          []driver.NamedValue
	text          []byte
}

func newInserter(c driver.Conn) (*inserter, error) {
	in := &inserter{args: named(nil, nil, nil)}
	for _, s := range []struct {
		stmt  *driver.Stmt
		query string
	}{
		{&in.begin, "BEGIN IMMEDIATE"},
		{&in.commit, "COMMIT"},
		{&in.add, "INSERT INTO events VALUES (?, ?, CAST(? AS TEXT))"}, // of the bytes, which need not become a string first
	} {
		stmt, err := c.Prepare(s.query)
		if err != nil {
			return nil, errors.Join(err, in.close())
		}
		*s.stmt = stmt
	}
	return in, nil
}

func (in *inserter) close() error {
	var errs []error
	for _, s := range []driver.Stmt{in.begin, in.commit, in.add} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

func (in *inserter) run(s driver.Stmt, args ...driver.NamedValue) error {
	_, err := s.(driver.StmtExecContext).ExecContext(context.Background(), args)
	return err
}

// events inserts the events of a batch: as many as fit into a row, and so on.
// The transaction is the caller's.
func (in *inserter) events(batch []event.Event) error {
	for len(batch) > 0 {
		in.text = append(in.text[:0], '[')
		n := 0
		for n < len(batch) && len(in.text) < rowBytes {
			if n > 0 {
				in.text = append(in.text, ',')
			}
			in.text = appendRecord(in.text, &batch[n])
			n++
		}
		in.text = append(in.text, ']')
		in.args[0].Value, in.args[1].Value, in.args[2].Value = batch[0].Seq, batch[n-1].Seq, in.text
		if err := in.run(in.add, in.args...); err != nil {
			return err
		}
		if cap(in.text) > 4*rowBytes {
			in.text = nil // one large event does not keep its memory
		}
		batch = batch[n:]
	}
	return nil
}
