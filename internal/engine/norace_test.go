//go:build !race

package engine_test

// raceEnabled: the race detector makes everything slower.
const raceEnabled = false
