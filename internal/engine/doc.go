// Package engine runs a plan: it takes a workflow to its end, or continues with
// one that was interrupted.
//
// # The way through it
//
// [Run] creates a journal and a supervisor of processes and hands both to one
// run, which takes the ports of package local and composes on them what does the
// work: package environ for the environment and its secrets, package step for
// steps, wherever they stand. A standard workflow
// is a sequence of steps (sequence.go). The phases of a map-reduce workflow are in
// mapreduce.go; package agents is its map, package results what reduce reads of it.
// Pipelines are run by package dataflow.
//
// The type run is what a run consists of (run.go); compose.go makes it on this machine,
// virtual.go on the ports of a simulation, and life.go takes it from its first event to
// its last. start.go begins a run, resume.go opens one that another process has left.
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
// in flight continues in its worktree, and without one begins with its first step.
//
// # Who has what
//
// A run is composed of things with owners: the journal behind the recorder, the
// executor with its lifecycle, limits, agents and counts of steps, guard (reasons
// to stop, requests of other processes), gitwork.Work (repository and worktrees),
// items.Seals (what is masked in the items), dataflow.Flows (pipelines), agents.Tally (how
// items have ended).
package engine
