package journal

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"modernc.org/sqlite"
)

const (
	// maxQueued and maxQueuedBytes bound what is handed over and not yet
	// committed; a faster caller waits.
	maxQueued      = 16 << 10
	maxQueuedBytes = 64 << 20
	// restEvery is the shortest time from a commit to one of the writer while nobody
	// waits: a commit costs as much as several events.
	restEvery = 4 * time.Millisecond
	// urgent is the number of queued events that are committed without a rest.
	urgent = 1024
	// syncEvery is how old an event gets before it is synced while nobody waits: so
	// it is on the disk within 5 ms, as far as the disk can follow.
	syncEvery = 4 * time.Millisecond
	// maxSyncs is how many syncs may be under way at once: who comes while one is
	// has not to wait for the end of that one and of another.
	maxSyncs = 2
)

// Journal is a run that this process has: everything of a Reader, and events
// can be added. It may be used by many goroutines at once.
type Journal struct {
	Reader

	lock *lock
	wal  *os.File // our own handle on the database's log, to sync it
	// base is one on the database, if that had to be synced.
	base *os.File
	sync func(*os.File) error
	// outputs are files that have to be on the disk before what is committed is; guarded
	// by mu.
	outputs []string
	// placed waits until the names of the run's directory and of its log are on the disk.
	placed func() error
	// dbInfo and walInfo tell whether the files are still in their places.
	dbInfo, walInfo fs.FileInfo
	walPath         string

	// conn is the only connection that writes; whoever uses it holds connMu.
	connMu sync.Mutex
	conn   driver.Conn
	insert *inserter
	// headless says that the log is empty still.
	headless bool

	// Whoever takes a batch from the queue holds batchMu until it is committed,
	// so that the batches are committed in their order.
	batchMu sync.Mutex
	spare   []event.Event // the batch before, to be filled again; guarded by batchMu

	mu        sync.Mutex // guards everything below
	room      sync.Cond  // the queue has room again, or there is an error
	queue     []event.Event
	queued    int   // bytes in the queue that belong to the events in it
	last      int64 // number given last
	committed int64 // last event that survives the end of this process
	durable   int64 // last event that is on the disk
	commits   int64 // transactions made
	synced    int64 // of which so many are on the disk
	syncing   int64 // and so many are there or on their way,
	// as is this event
	syncingSeq int64
	inFlight   int       // syncs that are under way
	commitAt   time.Time // when the last transaction ended
	queuedAt   time.Time // when the first event of the queue was appended
	dirtyAt    time.Time // and the first one that is committed and not on its way to the disk; zero: there is none
	waiters    []waiter
	err        error
	closing    bool
	idle       bool // the writer waits to be woken, as there is nothing to write
	clean      bool // and the syncer, as there is nothing to sync

	failed  chan struct{} // closed when err is set by a failure
	wake    chan struct{} // to the writer: there is something to write
	dirty   chan struct{} // to the syncer: there is something to sync
	urgency chan struct{} // to the syncer: somebody waits for it
	stop    chan struct{} // closed by Close
	done    sync.WaitGroup
}

// waiter waits until so many events and transactions are committed, or synced
// as well.
type waiter struct {
	seq, commits int64
	disk         bool
	ready        chan struct{}
}

// openJournal opens the journal of the run that lock is for. The lock is the
// journal's if there is no error.
func openJournal(lock *lock, run string) (*Journal, error) {
	ctx := context.Background()
	r, err := openReader(ctx, lock.dir, run)
	if err != nil {
		return nil, err
	}
	last, err := r.verify(ctx)
	if err == nil {
		err = r.giveLog(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.db.Close())
	}
	j, err := startJournal(lock, r, last, func() error { return nil })
	if err != nil {
		return nil, err
	}
	err = j.syncFormer()
	if err == nil && r.version < schemaVersion {
		// What is added is of this version: an earlier bide is not to read it.
		err = j.upgrade(r)
	}
	if err != nil {
		return nil, errors.Join(err, j.Settle()) // the lock stays the caller's
	}
	return j, nil
}

// upgrade makes the journal that r reads one of this version. What it moves stays where it was, for
// readers that are at work.
func (j *Journal) upgrade(r *Reader) error {
	move := ""
	if r.version < othersInMeta {
		move = "INSERT INTO meta SELECT '" + otherKey + "' || name, content FROM texts; "
	}
	if err := j.execute(fmt.Sprintf("%sPRAGMA user_version = %d", move, schemaVersion)); err != nil {
		return err
	}
	r.version = schemaVersion
	return nil
}

// giveLog has the database of a run that ended, which fold made one file, in the mode with a
// log again. SQLite's own journal is in memory meanwhile: what changes are a few bytes of one
// sector, and a journal that a kill left beside the database would keep readers out.
func (r *Reader) giveLog(ctx context.Context) error {
	var mode string
	var pages, size int64
	err := r.query(ctx, func(row []driver.Value) error {
		mode, pages, size = text(row[0]), integer(row[1]), integer(row[2])
		return nil
	}, "SELECT * FROM pragma_journal_mode, pragma_page_count, pragma_page_size")
	if err != nil || mode == "wal" {
		return err
	}
	info, err := os.Stat(r.path)
	if err != nil {
		return err
	}
	if info.Size() < pages*size {
		return damaged(r.path, fmt.Sprintf("it has %d bytes of %d", info.Size(), pages*size), nil)
	}
	c, err := connect(r.path, readWrite)
	if err != nil {
		return readError(r.path, err)
	}
	err = execSQL(c, "PRAGMA journal_mode = MEMORY; PRAGMA journal_mode = WAL")
	if err != nil {
		err = readError(r.path, err)
	}
	return errors.Join(err, c.Close())
}

// syncFormer syncs what a process before this one wrote and did not sync.
func (j *Journal) syncFormer() error {
	if err := errors.Join(j.sync(j.wal), j.syncBase()); err != nil {
		return diskError(j.path, "sync", err)
	}
	return syncDir(filepath.Dir(j.path))
}

// syncBase syncs the database itself. The handle stays open as long as the journal: to close
// it would take SQLite's locks away.
func (j *Journal) syncBase() (err error) {
	if j.base == nil {
		if j.base, err = os.Open(j.path); err != nil {
			return err
		}
	}
	return syncDatabase(j.base)
}

// syncDatabase is syncFile, which tests watch.
var syncDatabase = syncFile

// startJournal gives the journal whose reader is r and whose last event is last. The
// lock is the journal's if there is no error; r is closed if there is one. place, which
// is done beside what comes next, has the names of new files on the disk.
func startJournal(lock *lock, r *Reader, last int64, place func() error) (_ *Journal, err error) {
	j := &Journal{
		placed: func() error { return nil },
		sync:   syncFile, failed: make(chan struct{}), stop: make(chan struct{}),
		wake: make(chan struct{}, 1), dirty: make(chan struct{}, 1), urgency: make(chan struct{}, 1),
		last: last, committed: last, durable: last, syncingSeq: last,
	}
	j.Reader.run, j.Reader.dir, j.path, j.header, j.db, j.words, j.dead = r.run, r.dir, r.path, r.header, r.db, r.words, last
	j.room.L = &j.mu
	defer func() {
		if err != nil {
			err = errors.Join(err, j.shut())
		}
	}()
	if err := j.openWriter(); err != nil {
		return nil, err
	}
	j.placed = begin(place)
	j.sync = func(wal *os.File) error { return errors.Join(j.placed(), syncFile(wal)) }
	j.flush = j.commit
	j.lock = lock
	j.done.Go(j.write)
	j.done.Go(j.syncs)
	return j, nil
}

// openWriter opens the connection that writes and the handle that syncs.
func (j *Journal) openWriter() (err error) {
	if j.conn, err = connect(j.path, readWrite); err != nil {
		return readError(j.path, err)
	}
	// The first transaction opens the log, and its end tells of a disk or a
	// directory that cannot be written before any work is done.
	if err := execSQL(j.conn, "BEGIN IMMEDIATE; COMMIT"); err != nil {
		return readError(j.path, err)
	}
	j.walPath = j.path + walSuffix
	if j.wal, err = os.OpenFile(j.walPath, os.O_RDWR, 0); err != nil {
		return fmt.Errorf("cannot open the journal's log: %w", err)
	}
	if j.walInfo, err = j.wal.Stat(); err != nil {
		return err
	}
	j.dbInfo, err = os.Stat(j.path)
	return err
}

// prepare has the writer's statements ready, for which SQLite reads the schema: so this is
// not done while the run waits for its journal. Whoever calls it holds connMu.
func (j *Journal) prepare() (err error) {
	if j.insert != nil {
		return nil
	}
	if j.headless = j.walInfo.Size() == 0; j.headless {
		err = execSQL(j.conn, "PRAGMA synchronous = OFF")
	} else {
		err = execSQL(j.conn, normal)
	}
	if err == nil {
		j.insert, err = newInserter(j.conn)
	}
	return err
}

// normal is how durable a commit is to SQLite: it does not wait for the disk, a checkpoint
// does, and who writes a new header into the log. In a log that is empty there is nothing
// that the header has to be kept apart from.
const normal = "PRAGMA synchronous = NORMAL"

// afterCommit ends what is special about the first commit: from then on SQLite does not
// wait for the disk. Its caller holds connMu.
func (j *Journal) afterCommit() error {
	if !j.headless {
		return nil
	}
	j.headless = false
	return execSQL(j.conn, normal)
}

// Append records an event: it gives it the next number, and the time and the
// run where it has none, and hands it over to be written. It blocks only when
// the writer is 16 Ki events or 64 MiB behind. e.Data must not be changed
// afterwards. An event of type output is not recorded.
//
// After a failure to write, every Append gives that error; see Failed. An
// event that cannot be recorded (no type, Data that is no JSON, a negative
// Index) is refused without consequences for others.
func (j *Journal) Append(e event.Event) error {
	_, err := j.Record(e)
	return err
}

// Record is Append that gives the event as it is recorded, with its number.
func (j *Journal) Record(e event.Event) (event.Event, error) {
	one := [1]event.Event{e}
	err := j.RecordAll(one[:])
	return one[0], err
}

// Appended is the number of the last event that was appended.
func (j *Journal) Appended() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// RecordAll is Record for several events, which become one record: after a
// crash there are all of them, or none. It fills in their numbers.
func (j *Journal) RecordAll(events []event.Event) error {
	size, kept := 0, 0
	for i := range events {
		e := &events[i]
		if !e.Type.Kept() {
			continue
		}
		if err := check(e); err != nil {
			return err
		}
		e.Run = j.run
		size += len(e.Data) + len(e.Message)
		kept++
	}
	if kept == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.err == nil && !j.closing && (len(j.queue) >= maxQueued || j.queued > 0 && j.queued+size > maxQueuedBytes) {
		j.room.Wait()
	}
	if j.err != nil {
		return j.err
	}
	if j.closing {
		return ErrClosed
	}
	before := len(j.queue)
	if before == 0 {
		j.queuedAt = time.Now()
	}
	for i := range events {
		e := &events[i]
		if !e.Type.Kept() {
			continue
		}
		if e.Time.IsZero() {
			e.Time = time.Now()
		}
		j.last++
		e.Seq = j.last
		j.queue = append(j.queue, *e)
	}
	j.queued += size
	call(&j.idle, j.wake)
	if before < urgent && len(j.queue) >= urgent {
		nudge(j.wake)
	}
	return nil
}

func check(e *event.Event) error {
	switch {
	case e.Type == "":
		return errors.New("journal: an event has no type")
	case e.Index < 0:
		return fmt.Errorf("journal: the event %s has the index %d", e.Type, e.Index)
	case len(e.Data) > 0 && !valid(e.Data):
		return fmt.Errorf("journal: the data of the event %s is not JSON", e.Type)
	}
	return nil
}

// nudge wakes whoever receives from c; one signal that is not taken yet is
// enough.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Err is the failure after which nothing more is recorded, a *DiskError or a
// *DamagedError; ErrClosed after Close; nil while all is well.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Failed is closed when the journal fails. No new work must be started then.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// fail makes err the journal's end, unless it has one.
func (j *Journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
		close(j.failed)
	}
	j.queue, j.queued = nil, 0
	j.release()
	j.room.Broadcast()
}

// Close writes and syncs what was appended, folds the database's log into the
// database, and gives the run's lock back. It returns the journal's failure if
// it had one. Further calls do nothing.
func (j *Journal) Close() error { return errors.Join(j.Settle(), j.unlock()) }

// Settle is Close but for the lock: nobody else has the run before Close, and nothing can
// be read or appended any more. Further calls do nothing.
func (j *Journal) Settle() error {
	j.mu.Lock()
	if j.closing {
		j.mu.Unlock()
		return nil
	}
	j.closing = true
	j.room.Broadcast()
	j.mu.Unlock()
	err := j.Sync(context.Background())
	j.mu.Lock()
	if j.err == nil {
		j.err = ErrClosed
	}
	j.release()
	j.mu.Unlock()
	close(j.stop)
	j.done.Wait()
	return errors.Join(err, j.shut())
}

// unlock gives the run's lock back, once.
func (j *Journal) unlock() error {
	lock := j.lock
	if j.lock = nil; lock == nil {
		return nil
	}
	return lock.release()
}

// shut closes whatever is open.
func (j *Journal) shut() error {
	errs := []error{j.placed()}
	if j.insert != nil {
		errs = append(errs, j.insert.close())
	}
	errs = append(errs, j.db.Close())
	if j.conn != nil {
		j.fold()
		errs = append(errs, j.conn.Close())
	}
	for _, f := range []*os.File{j.wal, j.base} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// fold leaves one file of a run that has ended: the database, without a log and its index,
// in the mode in which whoever reads it makes none. The order is what a power cut asks for:
// the log is on the disk, the database gets all of it and is synced, and then the log goes.
// SQLite would sync the log and the directory again. The mode is a few bytes of the first
// sector, and either is right for a database whose log is gone.
// Where somebody reads at this moment, or the disk is full or broken, the log stays, and with
// it all that the run has recorded: that is no failure of the run.
func (j *Journal) fold() {
	keepLog := func(mode int) { _, _ = j.conn.(sqlite.FileControl).FileControlPersistWAL("main", mode) } // fails for no file that is open
	keepLog(1)
	if j.wal == nil || !errors.Is(j.Err(), ErrClosed) {
		return // after a failure all stays as it is
	}
	if execSQL(j.conn, "PRAGMA synchronous = OFF") != nil {
		return
	}
	if whole, err := j.checkpoint(); err != nil || !whole {
		return
	}
	if j.syncBase() != nil {
		return
	}
	keepLog(0)
	_ = execSQL(j.conn, "PRAGMA journal_mode = MEMORY") // somebody reads
}

// checkpoint copies the log into the database; whole is false where a reader does not let it
// copy all.
func (j *Journal) checkpoint() (whole bool, err error) {
	rows, err := j.conn.(driver.QueryerContext).QueryContext(context.Background(), "PRAGMA wal_checkpoint", nil)
	if err != nil {
		return false, err
	}
	row := make([]driver.Value, 3) // whether somebody was in the way; frames in the log, and of them in the database
	err = rows.Next(row)
	return integer(row[0]) == 0 && row[1] == row[2], errors.Join(err, rows.Close())
}
