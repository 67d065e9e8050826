// Package virtual has the ports of package step that are not of this world: a
// clock that jumps to the next moment at which something is due, a recorder in
// memory, and actions whose answers come from a table or a model.
//
// An executor on them says the same facts as one on the ports of this machine,
// in no time, and the same facts each time: one goroutine runs at once, and who
// is next is decided by when it became ready. Simulations, replays and tests
// are made of them.
package virtual
