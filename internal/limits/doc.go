// Package limits has the limits of a machine: how many attempts of one kind run at
// once, and how many begin in a time, over all runs, batches and commands of bide
// that work with one home directory.
//
// The file limits.yml of the home names them (config.go). What may begin now is
// decided by [State], which is pure (state.go). [Home] is its driver on a machine
// (home.go): a slot is a lock of the kernel on an open file, so that it is free
// exactly when nobody has the file open any more. bide has it open, and so does the
// companion that ends the commands of a killed bide; a command never has.
// [Alone] is its driver for a simulation, in which there is no other run.
//
// # On the disk
//
//	limits.yml               what a person wrote
//	limits/NAME/lock         whoever reads or changes what follows has a lock on it
//	limits/NAME/state        a State, as JSON
//	limits/NAME/slots/N      slot N: whoever has a lock on it has the slot, and its text says who that is
//	limits/NAME/waiting/T-R  who has waited since T, moved by its priority; it waits as long as somebody has a lock on it
//
// Nothing here is synced: after a power cut nobody holds or waits, and a state that
// cannot be read is a new one.
package limits
