//go:build !unix

package worktree

// stamps are not taken here; git is asked instead.
type stamps []struct{}

func (run *Run) stamps(*slot) stamps { return nil }
