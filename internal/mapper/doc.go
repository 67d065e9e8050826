// Package mapper runs a map: an agent for each work item, some at a time.
//
// What is decided (which item starts, which is tried again and when, when the
// map stops) is the business of [policy.Machine], which is pure. This package
// drives it. One goroutine, the loop, owns the machine and everything that
// belongs to it. Workers run agents; they know nothing of the machine and share
// nothing with each other. A worker tells the loop how its agent ended and that
// it is free, in one message, and waits for its next job; the loop takes the
// messages in their order, records what the machine decides, and gives jobs to
// the workers that are free. So facts stand in the order of the decisions, and
// no lock is held over anything that takes time.
//
//	worker ── ended, free ──▶ inbox ──▶ loop ── Finished, Next, Started ──▶ machine
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
package mapper
