//go:build !linux

package worktree

// openElsewhere says whether a process has a file open; known says whether that can be
// seen, which it cannot here.
func openElsewhere(string) (held, known bool) { return false, false }
