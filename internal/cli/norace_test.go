//go:build !race

package cli_test

// raceEnabled: the race detector makes everything slower.
const raceEnabled = false
