// Package journal keeps what happens in a run: events in, durable; state out.
//
// A run is a directory, $BIDE_HOME/runs/<run>, with a journal (journal.db, a
// SQLite database with a write-ahead log), a lock, and directories for log
// files (logs), for work items (items) and for running processes (proc).
// FORMAT.md beside this file tells the tables and the guarantees.
//
//	store, err := journal.OpenStore(home)
//	j, err := store.Create(journal.Header{Name: "nightly", Source: text})
//	n, digest, err := j.PutItems(ctx, items)
//	err = j.Append(event.Event{Type: event.RunStarted}) // returns at once
//	err = j.Sync(ctx)                                   // it is on the disk now
//
// After the process has ended, however it did:
//
//	j, err := store.Open(run)      // takes the run's lock
//	state, err := j.State(ctx)     // what the events amount to
//
// # What is promised
//
// An event has a number, and the journal always holds the events from 1 to
// some n, without a gap and each whole. How large n is after a crash:
//
//   - [Journal.Append] returned: the event is in the queue of this process. The
//     writer commits the whole queue as soon as it is free, which it is again
//     4 ms after the last commit, or at once when somebody waits or 1,024 events
//     are queued. A process that is killed loses what was in its queue and
//     nothing that was committed.
//   - Committed: it survives the end of the process. It is on the disk at most
//     5 ms after it was appended, as far as the disk can follow: a power cut
//     loses no more than that.
//   - [Journal.Sync] returned: everything appended before is on the disk.
//   - [Journal.Close] returned: the same, and the log is folded into the database,
//     which is one file from then on.
//
// When the journal cannot be written, nothing is recorded after the failure:
// every Append returns it, and [Journal.Failed] is closed, so that no new work
// starts. What was recorded before stays readable.
//
// A damaged file gives a [DamagedError] or, where only the end of the log is
// missing, the events before it. It is never repaired, overwritten or removed
// by opening it.
//
// # Index
//
// Items are numbered from 1 everywhere here, as event.Index; 0 is no item.
package journal
