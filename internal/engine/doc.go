// Package engine runs a plan: it takes a workflow to its end, or goes on with
// one that was interrupted.
//
// # The way through it
//
// [Run] creates a journal and a supervisor of processes and hands both to one
// run. A standard workflow is a sequence of steps (sequence.go); each step is
// executed by one piece of code, wherever it stands (step.go): its condition,
// its attempts under a retry policy, its handlers, its captures. A map
// (mapreduce.go) asks the pure machine of package policy which item comes next
// and runs the same sequences for it. Actions that are made of steps are in
// compound.go.
//
// # What is recorded
//
// Everything is told as events (package event): they go through the mask that
// hides secrets to the journal and then to whoever watches. State is never
// kept beside them.
//
// # Resume is a replay
//
// [Resume] runs the same code with the state that the journal folds to. Each
// executed step has an address that is the same in every life of the run: its
// path in the file and the rounds of the loops around it. A step whose end is
// recorded is not executed again: what it set is set again. A step that was
// in flight is executed again with the retries it had left. An item that was
// in flight starts again from its first step.
package engine
