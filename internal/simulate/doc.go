// Package simulate says what runs would do, without doing it.
//
// [Run] runs a workflow, a map or a pipeline on the executor itself, with a
// virtual clock, a recorder in memory and actions that a [Model] of failures
// makes up; [Record] reads what a run has met, [Recording.Replay] runs that again
// under another policy, and [Recording.Tune] proposes one. [Explain] gives the
// plan of a file with the worst case of each step.
//
// Not one rule is written a second time: delays, too, are those of a
// retry.Machine in virtual time. The package reads no clock and starts nothing.
package simulate
