// Package companion is the first moment of the companion process, which ends
// what bide leaves running when it is killed (see internal/proc). The companion
// is bide itself, started a second time, and it does nothing for nearly all of
// its life but wait for bide's end. Here it waits before the other packages of
// the program are initialised, so that it costs a run about as much as the
// start of an empty program.
//
// For that this package imports hardly anything, and its path comes early:
// packages are initialised in the order of their paths as far as their imports
// allow. Where the order is another one, or the system is not Linux, the
// companion waits after the initialisation instead, which is as safe.
package companion

// Arg is the hidden argument by which the program is the companion.
const Arg = "__bide-companion"

// Socket is the companion's descriptor that is at its end, on both sides, when
// bide is dead. What bide has sent into it can still be read then.
const Socket = 3
