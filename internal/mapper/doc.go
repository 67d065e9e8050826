// Package mapper runs a map: an agent for each work item, some at a time.
//
// What is decided (which item starts, which is tried again and when, when the
// map stops) is the business of [policy.Machine], which is pure. This package
// drives it. One goroutine at a time has the machine and everything that
// belongs to it: it is its turn. Workers run agents; they share nothing with each
// other. A worker tells how its agent ended and that it is free, in one message,
// and waits for its next job. A turn takes the messages in their order, records
// what the machine decides, and gives jobs to the workers that are free. So facts
// are in the order of the decisions, and no lock is held over anything that takes
// time. Who tells something takes the turn, if it is nobody's, and then finds its
// next job there: to wake another goroutine for it, and to be woken by that one,
// costs more than the decision. The loop takes it for what is due without a message,
// and for what was told during a worker's turn.
//
//	worker ── ended, free ──▶ inbox ──▶ turn ── Finished, Next, Started ──▶ machine
//	   ▲                                 │
//	   └──────────── job ────────────────┴── facts ──▶ recorder
//
// Everything that has an effect is handed in: the clock, the recorder, where
// items are read, and the [Template] that runs on an item. Under a virtual clock
// with a template that makes up its outcomes, the same map is a simulation.
//
// # Facts
//
// What becomes of an item is one record each time: its end with its result or its
// dead letter, a retry with the state of the retries, a handler that is due with
// all that the handler reads. [Map.Restore] reads them; nothing of them is
// computed again.
//
// In a strict map an item's start is on the disk before its agent starts, and its
// end before its worker continues. A worker that has ended an item is given its next
// one first, so that one sync is for both; it makes one for the end alone where it
// has nothing to do, or leaves.
package mapper
