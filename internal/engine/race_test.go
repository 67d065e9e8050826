//go:build race

package engine_test

// raceEnabled: the race detector makes everything slower. With it,
// whole runs are made from a tenth of the seeds; make bounds takes all.
const raceEnabled = true
