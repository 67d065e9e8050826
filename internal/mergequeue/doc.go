// Package mergequeue decides what a merge queue does next: which items are merged on top of
// what, which merge is verified, which items land in the run's branch, and which item is to
// blame when a verify fails. It knows neither git nor processes: the driver tells it how
// each action went.
//
//	items that wait ── a batch ──▶ merges, each on top of the last
//	      ▲                            │ verify the last one
//	      │ in conflict with           ├─ green ──▶ all of them land
//	      │ one of the batch           └─ red: is the base red too? ── yes ──▶ hold
//	      └────────────────────────────      no: half of it, and so on, to the one
//
// An item that is red alone is the culprit if the rest of its batch is green without it. If
// the rest is red too, and the base is green, the item is verified once more, and the rest
// is searched as a batch. So no item is refused because of chance, because of other items,
// or because of an outage that began during a search. Before an item is refused, the queue
// looks for the landed item without which it would be good.
//
// The driver asks [Machine.Next] and reports how the action went, until it is [Idle]:
//
//	Base    → OnBase
//	Join    → Merged, Conflicted or Nothing
//	Verify  → Verified
//	Hold    → Probe, when it is time
//	Land    → Landed
//	Refuse  → Refused
package mergequeue
