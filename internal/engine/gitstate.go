package engine

import (
	"context"
	"fmt"
	"github.com/bide-dev/bide/internal/pattern"
)

// readsState finds the variables git.* in a file's text: where they are not
// read, git is not asked.
var readsState = pattern.Lazy(`\bgit\.(branch|commit|(staged|unstaged|untracked|modified|deleted|changed)_files)\b`)

// gitState sets git.*, the state of the working tree in which a step begins.
// A variable of the file that is called git stays what it is.
func (r *run) gitState(ctx context.Context, p place) {
	if !r.tellState || r.repo == nil {
		return
	}
	if old, ok := p.scope.Lookup("git"); ok {
		if m, _ := old.V.(map[string]any); m["unstaged_files"] == nil {
			return
		}
	}
	s, err := r.repo.State(ctx, p.dir)
	if err != nil {
		r.noteOnce("git state "+p.dir, fmt.Sprintf("the state of %s: %v", p.dir, err))
		return
	}
	changed := append(anys(s.Modified), anys(s.Deleted)...)
	p.scope.Set("git", map[string]any{
		"branch": s.Branch, "commit": s.Commit,
		"staged_files": anys(s.Staged), "unstaged_files": anys(s.Unstaged), "untracked_files": anys(s.Untracked),
		"modified_files": anys(s.Modified), "deleted_files": anys(s.Deleted), "changed_files": append(changed, anys(s.Untracked)...),
	})
}
