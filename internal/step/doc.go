// Package step runs steps: one executor of one step, wherever it stands.
//
// # Ports
//
// Whatever a step does to the world goes through four interfaces (ports.go):
// [Clock], [Recorder], [Actions] and [Values]. A run on this machine gives the
// real ones; a simulation, a replay or a test gives virtual ones, and the same
// executor says the same facts under both. Nothing in this package reads the
// time, starts a goroutine, opens a file or a process by itself.
//
// # Where a step stands
//
// An [Address] is data: the phase, the rounds of the loops around, the work item
// and its attempt. It can be written down, sent elsewhere and compared. A [Place]
// is an address with what steps have around them there: variables, a directory, an
// environment.
package step
