// Package cluster is a run that many machines share: the store between them, and what
// each of them does. It does not know who hands the work out; program bide-temporal
// has Temporal do that.
//
// # Parts
//
//   - The [Store] keeps runs where all machines reach them. Each run has in it the
//     plan, the work items, the logs that lanes and home tasks write, and the order.
//   - The [Coordinator] drives policy.Machine: it hands out leases and is told how
//     they ended. It is pure, so that a workflow can be made of it: no clock, no
//     goroutine, no randomness, no file.
//   - A [Worker] runs the items of leases, and what is not the map, with the real
//     executor: its journal is a copy of its own, and what it records is written to
//     the log as well.
//   - The mirror ([Refresh]) folds the store into an ordinary journal of whoever
//     reads, so that each command sees such a run as any other.
//
// # The invariant
//
// An item has ended if and only if its end is in a prefix of a log (name, length,
// digest) that the order has accepted; open leases are disjoint. What a worker writes
// after it was given up is behind the prefix, and nobody reads it.
//
// # The order
//
// The order is a list of entries, numbered from 1 without a gap. An entry is one
// object of the store. It is written whole, it never changes, and it is created only
// if no entry has its number. Nothing is truncated and nothing is overwritten, so it
// does not matter when a writer that was frozen wakes up.
//
// A run has lives: the first one, and one for each resume. Each entry carries the life
// of the coordinator that wrote it. A life begins with an entry ([Shared.Begin]). This
// entry names the owner of the life and accepts what the logs of the life before hold
// that was not accepted yet, as their coordinator may be lost. Three rules follow:
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
// An owner begins one life only. An attempt to begin that was frozen and wakes up
// later finds the life of its owner, or a later one, and takes nothing over.
//
// Lanes do not read the order. When a life has begun, a marker with its number is
// created; a lane looks for the marker of the next life before its first item and each
// [lookEvery], and ends.
package cluster

// Protocol is the number of what is said between coordinators and workers, and
// of the store. Workers take work of their own number only.
const Protocol = 3
