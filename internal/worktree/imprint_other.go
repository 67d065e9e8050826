//go:build !unix

package worktree

// imprint is not taken here: git is asked.
type imprint []struct{}

func (run *Run) imprint(*slot) imprint { return nil }
