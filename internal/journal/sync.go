package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Sync returns when everything that was appended before is on the disk, and
// would be there after a power cut. It returns sooner where ctx ends; with a
// context that cannot end it costs less.
func (j *Journal) Sync(ctx context.Context) error { return j.wait(ctx, true) }

// commit returns when everything that was appended before is committed, and
// would be there after the end of this process.
func (j *Journal) commit(ctx context.Context) error { return j.wait(ctx, false) }

// Written returns when the event of a number would outlive the end of this process. Of an
// event that was not recorded, as the journal had failed, it gives that failure.
func (j *Journal) Written(seq int64) error {
	j.mu.Lock()
	is := j.committed >= seq
	j.mu.Unlock()
	if is {
		return nil
	}
	return j.commit(context.Background())
}

func (j *Journal) wait(ctx context.Context, disk bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := waiter{seq: j.last, commits: j.commits, disk: disk, ready: make(chan struct{})}
	if disk {
		j.hurry(w, ctx.Done() == nil)
	}
	if j.err != nil || j.reached(w) {
		return j.err
	}
	j.waiters = append(j.waiters, w)
	if disk {
		j.pressSync()
	} else {
		nudge(j.wake)
	}
	j.mu.Unlock()
	var err error
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = ctx.Err() // the entry in waiters goes with the next commit or sync
	}
	j.mu.Lock()
	if err != nil || j.reached(w) {
		return err
	}
	return j.err
}

// hurry commits what w waits for in the goroutine of who waits, and syncs it there
// where that one is patient: to wake others for it would only take longer. It
// does not sync what is on its way to the disk, nor beside too many others. j.mu
// is held.
func (j *Journal) hurry(w waiter, patient bool) {
	if j.err == nil && j.committed < w.seq {
		j.mu.Unlock()
		j.commitQueue(patient)
		j.mu.Lock()
	}
	if patient && j.err == nil && !j.onItsWay(w) && j.inFlight < maxSyncs {
		j.mu.Unlock()
		if err := j.syncNow(); err != nil {
			j.fail(err)
		}
		j.mu.Lock()
	}
}

// onItsWay says whether what w waits for is on the disk when the syncs that are
// under way have ended. j.mu is held.
func (j *Journal) onItsWay(w waiter) bool { return j.syncingSeq >= w.seq && j.syncing >= w.commits }

// pressSync has the syncer come at once where somebody waits for what is
// committed and not on its way. j.mu is held.
func (j *Journal) pressSync() {
	for _, w := range j.waiters {
		if w.disk && w.seq <= j.committed && !j.onItsWay(w) && j.inFlight < maxSyncs {
			nudge(j.urgency)
			return
		}
	}
}

// reached says whether w has nothing to wait for. j.mu is held.
func (j *Journal) reached(w waiter) bool {
	if w.disk {
		return j.durable >= w.seq && j.synced >= w.commits
	}
	return j.committed >= w.seq
}

// release lets those continue that have nothing more to wait for: all, after an
// error. j.mu is held.
func (j *Journal) release() {
	kept := j.waiters[:0]
	for _, w := range j.waiters {
		if j.err != nil || j.reached(w) {
			close(w.ready)
		} else {
			kept = append(kept, w)
		}
	}
	clear(j.waiters[len(kept):])
	j.waiters = kept
}

// syncs is the syncer: it syncs what is committed, at once where somebody waits for it,
// else when the first event of it is syncEvery old. It runs beside the writer, which
// never waits for the disk.
func (j *Journal) syncs() {
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		asked := false
		if j.nothing(&j.clean, func() bool { return j.commits == j.syncing }) {
			select {
			case <-j.dirty:
			case <-j.urgency:
				asked = true
			case <-j.stop:
				return
			}
		}
		if left := j.syncDue(); !asked && left > 0 {
			due.Reset(left)
			select {
			case <-due.C:
				continue // somebody else may have synced in the meantime
			case <-j.urgency:
			case <-j.stop:
				return
			}
		}
		if err := j.syncNow(); err != nil {
			j.fail(err)
			return
		}
	}
}

// syncDue is when the first event has to be synced that is committed and not on its way.
func (j *Journal) syncDue() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return syncEvery - time.Since(j.dirtyAt)
}

// syncNow syncs what is committed at its start, unless that is done or under
// way.
func (j *Journal) syncNow() error {
	j.mu.Lock()
	seq, commits := j.committed, j.commits
	if commits == j.syncing {
		j.mu.Unlock()
		return nil
	}
	j.syncing, j.syncingSeq, j.dirtyAt = commits, seq, time.Time{}
	j.inFlight++
	outputs := j.outputs
	j.outputs = nil
	j.mu.Unlock()
	err := syncOutputs(outputs)
	if err == nil {
		err = j.sync(j.wal)
	}
	if err != nil {
		err = diskError(j.path, "sync", err)
	} else {
		err = j.inPlace()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inFlight--
	if err != nil {
		return err
	}
	j.durable, j.synced = max(j.durable, seq), max(j.synced, commits)
	j.release()
	j.pressSync()
	return nil
}

// KeepOutputs has files on the disk, with their names, before what is recorded from now
// on is: the outputs that a fact tells of. They are complete and closed.
func (j *Journal) KeepOutputs(paths ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outputs = append(j.outputs, paths...)
}

// SettleOutputs returns when the files of [Journal.KeepOutputs] are on the disk, with all
// that was appended before. Where there are none it returns at once.
func (j *Journal) SettleOutputs(ctx context.Context) error {
	j.mu.Lock()
	n := len(j.outputs)
	j.mu.Unlock()
	if n == 0 {
		return nil
	}
	return j.Sync(ctx)
}

// manyOutputs are so many that one sync of their file system takes less time than one
// of each.
const manyOutputs = 8

// syncOutputs has files on the disk, with their names. A file that is gone was replaced
// by that of a later attempt, which is not in the list yet, or will be.
func syncOutputs(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	if len(paths) > manyOutputs {
		if done, err := syncFileSystem(filepath.Dir(paths[0])); done {
			return err
		}
	}
	dirs := map[string]bool{}
	for _, path := range paths {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(syncFile(f), f.Close())
		}
		if err != nil {
			return diskError(path, "sync", err)
		}
		// The directory, and the one above it, which may be as new.
		dirs[filepath.Dir(path)], dirs[filepath.Dir(filepath.Dir(path))] = true, true
		dirs[filepath.Dir(filepath.Dir(filepath.Dir(path)))] = true
	}
	for dir := range dirs {
		if err := syncDir(dir); err != nil {
			return diskError(dir, "sync", err)
		}
	}
	return nil
}

// inPlace is the error of a journal whose files are no longer where they were, or are cut
// off: what is written into a removed file, or behind the end of a log that was emptied,
// is synced without an error, and gone.
func (j *Journal) inPlace() error {
	for _, f := range [...]struct {
		path  string
		was   fs.FileInfo
		least int64
	}{{j.path, j.dbInfo, j.dbInfo.Size()}, {j.walPath, j.walInfo, walHeader}} {
		there, err := stillThere(f.path, f.was, f.least)
		if there && f.path == j.walPath {
			there, err = j.begins()
		}
		if there {
			continue
		}
		if err == nil {
			err = errors.New("another file is in its place, or it was cut off")
		}
		e := diskError(f.path, "keep", err)
		e.Advice = "it was removed, replaced or cut off while the run went on, and what the run did since then is not recorded; keep the directory of runs out of the reach of clean-up jobs"
		return e
	}
	return nil
}

// walHeader is the size of the header of SQLite's log.
const walHeader = 32

// begins says whether the log, into which something is committed, has its header.
func (j *Journal) begins() (bool, error) {
	var magic [4]byte
	_, err := j.wal.ReadAt(magic[:], 0)
	return binary.BigEndian.Uint32(magic[:])&^1 == 0x377f0682, err
}
