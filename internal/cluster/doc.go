// Package cluster is a run that many machines share: the store between them, and what each
// of them does. It does not know what hands out the work; in the program bide-temporal,
// Temporal does.
//
// # Parts
//
//   - The [Store] keeps runs where all machines reach them. A run in it has the plan, the
//     work items, the logs that lanes and home tasks write, and the order. If items
//     commit, it also has the chain.
//   - The [Coordinator] drives policy.Machine: it hands out leases, and the caller reports
//     to it how they ended. It is pure (no clock, no goroutine, no randomness, no file),
//     so it can run in a workflow of Temporal.
//   - A [Worker] runs the items of leases, and what is not the map, with the real
//     executor. Its journal is its own copy, and it also writes what it records to the
//     log.
//   - The mirror ([Refresh]) copies the store to an ordinary journal on the reader's
//     machine, so every command treats such a run like any other.
//
// # The invariant
//
// An item has ended if and only if its end is in a prefix of a log (name, length, digest)
// that the order has accepted. Open leases are disjoint. What a worker writes after its
// lease was given up comes after the prefix, and nobody reads it.
//
// # The order
//
// The order is a list of entries, numbered from 1 without a gap. An entry is one
// object of the store. It is written whole, it never changes, and it is created only
// if no entry has its number. Nothing is truncated and nothing is overwritten, so it
// does not matter when a writer that was frozen wakes up.
//
// A run has lives: the first one, and one for each resume. Each entry carries the life of
// the coordinator that wrote it. A life begins with an entry ([Shared.Begin]). This entry
// names the owner of the life. It also accepts what the logs of the life before have and
// the order has not accepted yet, because their coordinator may be lost. Three rules
// follow:
//
//   - The fence. A coordinator writes the number after the last one that it wrote. When
//     a later life has begun, that number is taken, by an entry of a higher life: the
//     coordinator gets a [SupersededError] and ends.
//   - A conflict is compared. If the number is taken by an entry of the same life, its
//     content must be the same: then an earlier attempt of the same write has
//     succeeded. Anything else is an error.
//   - A life is closed by the next one. A log of an earlier life that the beginning
//     of the next life did not accept is never accepted. So a lane that was frozen
//     for two lives brings no item back.
//
// An owner begins only one life. If an attempt to begin was frozen and continues later, it
// finds the life of its owner, or a later one, and takes nothing over.
//
// The store itself makes sure that a name is created once: a directory by a hard link, a
// bucket by a conditional write, a database by a key. In a bucket or a database a log is
// parts, each of which is created at the offset where the one before ends (parts.go).
//
// Lanes do not read the order. When a life has begun, a marker with its number is created.
// A lane looks for the marker of the next life before its first item and each [lookEvery].
// If it finds the marker, it ends.
//
// # The chain: agents that commit
//
// A run whose items commit needs a branch on which all machines agree. The branch is in the
// store, as a chain of objects that are numbered from 1. Each object says what is added to
// the work of the run, and has a git pack with the commits that the objects before it do
// not have. As in the order, an object is created only if its number is free, and never
// changes. The kinds of objects:
//
//   - origin, the first one: the repository as it was where the run was started;
//   - standing: the run's own worktree, with what is uncommitted there. A home task adds one
//     after each of its steps, with the name of the step, before the end of the step is
//     recorded, and before the map. Another machine takes back what a failed step committed;
//   - merged: the run's branch has the work of an item;
//   - kept: a branch with work of an item that is not merged;
//   - life, closed: a life of the run has begun, or a log is over. A writer of an earlier life,
//     or of that log, adds nothing more.
//
// Each session and each home task works in its own clone, which is made from the chain,
// with the same code as one machine (packages worktree and gitwork). The clone is removed
// afterwards. A lane merges the work of its item itself: it takes over what other machines
// have added, makes the merge on top of that, and adds an object. If the number is taken,
// another machine was first: the lane takes that over and makes the merge again. So merges
// are made one after another, in the order in which items end. The attempt that causes a
// conflict is the one that fails, and it is tried again on top of what is merged, as on one
// machine.
//
// An object is in the store before anything that refers to it is recorded. After a crash,
// the chain decides:
//
//   - An item is merged, and its end is not recorded: the lane that has the item next, or the
//     next life, finds the object, and records the end without running the item.
//   - An item is not merged: it runs again.
//   - A lane is given up: whoever adopts its lease closes its log in the chain first. A merge
//     is before that object, and counts, or it is never made. So a frozen lane that wakes up
//     merges nothing, and no item is merged twice.
//
// No worker has the user's branch. When the run has ended, [Shared.Bring] brings the run's
// branch to the user's repository, where it is merged like that of any run.
package cluster

// Protocol is the version of the messages between coordinators and workers, and of the
// store. Workers take only work of their own version.
const Protocol = 4
