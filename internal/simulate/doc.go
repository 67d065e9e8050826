// Package simulate says what a run would do at most, without running it: which
// delays a retry policy makes when every attempt fails, and for a workflow file
// the effective plan of each step with its attempts, waits and worst case.
//
// Nothing here is computed in a second way: the delays are those of a
// retry.Machine that is driven in virtual time, so what is shown is what the
// engine would do. The package reads no clock, starts nothing and touches no
// file.
package simulate
