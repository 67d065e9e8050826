// Package engine runs a plan: it takes a workflow to its end, or goes on with
// one that was interrupted.
//
// # The way through it
//
// [Run] creates a journal and a supervisor of processes and hands both to one
// run. A standard workflow is a sequence of steps (sequence.go); each step is
// executed by one piece of code, wherever it stands: its condition (step.go), its
// handlers (handler.go), its attempts under a retry policy (operation.go), one of
// them (attempt.go), its captures (capture.go). A map
// (mapreduce.go) asks the pure machine of package policy which item comes next
// and runs the same sequences for it. Actions that are made of steps have a file each:
// foreach.go, validate.go, goalseek.go, subworkflow.go. A pipeline (dataflow.go)
// is run by package flow, with modules.go for what its calls do.
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
