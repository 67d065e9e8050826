// Package simulate says what runs would do, without doing it.
//
// [Run] runs a workflow, a map or a pipeline on the executor itself, with a
// virtual clock, a recorder in memory and actions that a [Model] of failures
// makes up; [Record] reads what a run has met, [Recording.Replay] runs that again
// under another policy, and [Recording.Tune] proposes one.
//
// What package worst says beforehand is held to the executor here: an adversary looks
// for the longest run of each kind of step, handler, map and call, and under random
// policies, and finds none beyond the bound (bounds_test.go, randombounds_test.go).
//
// The package reads no clock and starts nothing.
package simulate
