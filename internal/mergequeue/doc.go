// Package mergequeue decides what a merge queue does next: which items are merged on top of
// what, which merge is verified, which items land in the run's branch, and who breaks the
// merge where a verify fails. It knows neither git nor processes: it is told how each
// action went.
//
//	items that wait ── a batch ──▶ merges, one upon the other
//	      ▲                            │ verify the last one
//	      │ in conflict with           ├─ green ──▶ all of them land
//	      │ one of the batch           └─ red: is the base red too? ── yes ──▶ hold
//	      └────────────────────────────      no: half of it, and so on, to the one
//
// An item that is red alone is the culprit if what is left of its batch is green without
// it. If that is red too, and the base is green, the item is verified once more, and the
// rest is searched as a batch. So nobody is refused for what was red by chance in other
// company, or in an outage that began in the middle of a search. Before an item is refused,
// the queue looks for the landed item without which it would be good.
//
// The driver asks [Machine.Next] and tells how that went, until it is [Idle]:
//
//	Base    → OnBase
//	Join    → Merged, Conflicted or Nothing
//	Verify  → Verified
//	Hold    → Probe, when it is time
//	Land    → Landed
//	Refuse  → Refused
package mergequeue
