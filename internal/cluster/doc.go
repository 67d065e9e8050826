// Package cluster is a run that many machines share: what stands between them,
// and what each of them does. It knows nothing of who hands the work out; program
// bide-temporal has that of Temporal.
//
// # Parts
//
//   - The [Store] is a directory that all machines reach. Each run has one in it:
//     the plan, the work items, the logs that lanes and home activities write, and
//     the order in which the coordinator has accepted them.
//   - The [Coordinator] drives policy.Machine: it hands out leases and is told how
//     they ended. It is pure, so that a workflow can be made of it: no clock, no
//     goroutine, no randomness, no file.
//   - A [Worker] runs the items of leases, and what is not the map, with the real
//     executor: its journal is a copy of its own, and what it records goes into the
//     log as well.
//   - The mirror ([Refresh]) folds the store into an ordinary journal of whoever
//     reads, so that each command sees such a run as any other.
//
// # The invariant
//
// An item has ended if and only if its end stands in a prefix of a log (name,
// length, digest) that the coordinator has accepted; open leases are disjoint. What
// a worker that was given up writes later is behind the prefix, and is not looked
// at.
package cluster

// Protocol is the number of what is said between coordinators and workers, and
// of the store. Workers take work of their own number only.
const Protocol = 1
