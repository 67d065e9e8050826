//go:build !race

package simulate

// raceEnabled: the race detector makes everything slower.
const raceEnabled = false
