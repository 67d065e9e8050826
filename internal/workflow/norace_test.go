//go:build !race

package workflow_test

// raceEnabled: the race detector makes everything slower.
const raceEnabled = false
