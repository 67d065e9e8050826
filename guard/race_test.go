//go:build race

package guard_test

// raced: the race detector has a sync.Pool lose some of what is put into it.
const raced = true
