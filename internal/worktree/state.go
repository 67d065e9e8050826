package worktree

import (
	"context"
	"slices"
	"strings"
)

// State is what a working tree is at now, for the variables git.*. Paths are
// relative to the top, sorted, with "/" between their parts.
type State struct {
	Commit    string   // full id; "" before the first commit
	Branch    string   // short name; "" if HEAD is detached
	Staged    []string // differ between the last commit and the index
	Unstaged  []string // differ between the index and the working tree
	Untracked []string // are in the working tree only, and not ignored
	Modified  []string // have changed since the last commit and are still there, staged or not
	Deleted   []string // were in the last commit and are gone

	dirty    []string // all that differ in any way, in git's order
	unmerged []string // in conflict
	// unmoved are submodules at a commit that the index does not name, although no step has
	// moved them: that is no change.
	unmoved []string
}

// State reads the state of the working tree of a directory. In a worktree of ours, it also
// sees what a step has hidden from git.
func (r *Repo) State(ctx context.Context, dir string) (State, error) {
	if err := r.unhide(ctx, dir); err != nil {
		return State{}, err
	}
	rows, err := r.list(ctx, dir, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames")
	if err != nil {
		return State{}, err
	}
	var s State
	var unmoved map[string]bool
	if slices.ContainsFunc(rows, isModule) {
		if unmoved, err = r.unmoved(ctx, dir); err != nil {
			return s, err
		}
	}
	for _, row := range rows {
		s.add(row, unmoved)
	}
	for _, list := range [][]string{s.Staged, s.Unstaged, s.Untracked, s.Modified, s.Deleted} {
		slices.Sort(list)
	}
	return s, nil
}

// isModule reports whether an entry of git status describes a submodule.
func isModule(row string) bool { return strings.HasPrefix(row, "1 ") && row[min(5, len(row)-1)] == 'S' }

// add adds one entry of git status. An ordinary entry is "1 XY sub mH mI mW hH hI path"; an
// unmerged one has two more fields. For a submodule, sub is "SCMU": at another commit, with
// modified files, with untracked files.
func (s *State) add(row string, unmoved map[string]bool) {
	kind, rest, _ := strings.Cut(row, " ")
	switch kind {
	case "#":
		name, v, _ := strings.Cut(rest, " ")
		switch {
		case name == "branch.oid" && v != "(initial)":
			s.Commit = v
		case name == "branch.head" && v != "(detached)":
			s.Branch = v
		}
	case "?":
		s.Untracked = append(s.Untracked, rest)
		s.dirty = append(s.dirty, rest)
	case "1", "u":
		fields := map[string]int{"1": 8, "u": 10}[kind]
		f := strings.SplitN(rest, " ", fields)
		if len(f) < fields || len(f[0]) != 2 {
			return
		}
		path, inIndex, inTree := f[fields-1], f[0][0], f[0][1]
		if still, known := unmoved[path]; known && inTree == 'M' { // changes inside the submodule are counted separately
			if still {
				s.unmoved = append(s.unmoved, path)
			}
			if still || f[1][1] != 'C' {
				inTree = '.'
			}
			if inIndex == '.' && inTree == '.' {
				return
			}
		}
		s.dirty = append(s.dirty, path)
		if kind == "u" {
			s.unmerged = append(s.unmerged, path)
		}
		if inIndex != '.' {
			s.Staged = append(s.Staged, path)
		}
		if inTree != '.' {
			s.Unstaged = append(s.Unstaged, path)
		}
		if inTree == 'D' || inIndex == 'D' && inTree == '.' {
			s.Deleted = append(s.Deleted, path)
		} else {
			s.Modified = append(s.Modified, path)
		}
	}
}
