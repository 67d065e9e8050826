package workflow

import (
	"path"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/template"
)

// NeedsIsolation reports whether a file has work that should not be done in the
// user's own tree: agents, commits, a merge block or queue, evidence of items, or the agents of a
// map that write with git.
func NeedsIsolation(f *File) bool {
	need := f.Merge != nil || f.Queue != nil || MapWritesWithGit(f) != nil || f.Map != nil && f.Map.Evidence != nil
	WalkAll(f, func(s *Step) {
		_, agent := s.Action.(*Claude)
		need = need || agent || s.CommitRequired || s.AutoCommit != nil
	})
	return need
}

// Isolates reports whether a run of the file has a worktree of its own, where there is a
// repository: mode is what the options say, or the file, or auto.
func Isolates(f *File, mode string) bool {
	return mode == "worktree" || mode == "auto" && NeedsIsolation(f)
}

// CommitsLeft reports whether what the steps of the file itself leave uncommitted in the
// run's worktree is committed when they have ended: unless the file or one of them says
// auto_commit: false.
func (f *File) CommitsLeft() bool {
	commits := !f.NoAutoCommit
	outer := *f
	outer.Map = nil
	WalkAll(&outer, func(s *Step) { commits = commits && !s.NoAutoCommit })
	return commits
}

// ItemsCommitLeft is CommitsLeft of the steps that each item of the map runs.
func (f *File) ItemsCommitLeft() bool {
	commits := !f.NoAutoCommit
	walkTemplate(f, func(s *Step) { commits = commits && !s.NoAutoCommit })
	return commits
}

// MapWritesWithGit gives the first step of a map's agents whose shell text
// changes a repository, or the files of its working tree, with git; nil where
// none does. Several at a time would meet on git's lock files, and on each
// other's files.
func MapWritesWithGit(f *File) (found *Step) {
	walkTemplate(f, func(s *Step) {
		sh, ok := s.Action.(*Shell)
		if found == nil && ok && slices.ContainsFunc(sh.Text.Script().Commands, writesWithGit) {
			found = s
		}
	})
	return found
}

// walkTemplate visits the steps that each item of a map runs.
func walkTemplate(f *File, visit func(*Step)) {
	if t := f.template(); t != nil {
		WalkAll(&File{Steps: t.Steps}, visit)
	}
}

// gitReads are the commands of git that leave everything as it is, and of those
// that do both the words after which they do.
var gitReads = map[string][]string{
	"stash": {"list", "show"}, "worktree": {"list"}, "notes": {"list", "show"}, "bisect": {"log", "view"},
	"submodule": {"status", "summary"}, "sparse-checkout": {"list"},
}

// gitWrites are those that change the repository or the working tree.
var gitWrites = []string{
	"add", "am", "apply", "bisect", "branch", "checkout", "checkout-index", "cherry-pick", "clean", "commit", "merge", "mv",
	"notes", "pull", "read-tree", "rebase", "reset", "restore", "revert", "rm", "sparse-checkout", "stash", "submodule", "switch", "tag",
	"update-index", "update-ref", "symbolic-ref", "worktree",
}

// writesWithGit reports whether a simple command is one of git that writes, also
// behind a command that runs another, as in `env A=b git commit`.
func writesWithGit(words []string) bool {
	i := slices.IndexFunc(words, func(w string) bool { return path.Base(w) == "git" })
	if i < 0 || i > 0 && !template.Runs(words[0]) {
		return false
	}
	if path.Base(words[0]) == "find" && !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, words[i-1]) {
		return false
	}
	words = words[i+1:]
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		n := 1
		if slices.Contains([]string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"}, words[0]) {
			n = min(2, len(words))
		}
		words = words[n:]
	}
	if len(words) == 0 || !slices.Contains(gitWrites, words[0]) {
		return false
	}
	verb, rest := words[0], words[1:]
	if reads, both := gitReads[verb]; both {
		return len(rest) == 0 || !slices.Contains(reads, rest[0])
	}
	switch verb {
	case "branch", "tag", "symbolic-ref":
		return namesOne(verb, rest)
	}
	return true
}

// namesOne reports whether branch, tag or symbolic-ref is given something to
// make, move or delete, and does not only list.
func namesOne(verb string, rest []string) bool {
	names := 0
	for _, w := range rest {
		switch {
		case slices.Contains([]string{"-l", "--list", "--contains", "--merged", "--no-merged", "--points-at", "-v", "-vv", "-a", "-r", "--show-current", "-n"}, w):
			return false
		case !strings.HasPrefix(w, "-"):
			names++
		}
	}
	return names > 0 && (verb != "symbolic-ref" || names > 1)
}

// sameFiles warns where every item of a map would write the same file: of what
// runs at the same time only one is left.
func (d *decoder) sameFiles() {
	f := d.file
	if f.Map == nil || f.Isolation == "worktree" || f.Map.Input == nil && len(f.Map.List) < 2 || f.Map.Parallel.Text == nil && f.Map.Parallel.N == 1 || NeedsIsolation(f) {
		return
	}
	walkTemplate(f, func(s *Step) {
		var names []string
		switch a := s.Action.(type) {
		case *Shell:
			if script := a.Text.Script(); !script.Moves {
				names = script.Writes
			}
		case *WriteFile:
			if a.Path.IsLiteral() {
				names = append(names, a.Path.String())
			}
		}
		if s.OutputFile != nil && s.OutputFile.IsLiteral() {
			names = append(names, s.OutputFile.String())
		}
		if s.WorkingDir != nil && !s.WorkingDir.IsLiteral() {
			return // relative to a directory of the item's own
		}
		for _, name := range slices.Compact(names) {
			if name == "" || strings.HasPrefix(name, "/dev/") || d.full() {
				continue
			}
			d.warnAt(s.Pos, "same-file", "every item writes the same file %s, so that only what the last of them wrote is left", name).
				Suggest("put something of the item into its name, as in %s, or use >> to append", suggestName(name))
		}
	})
}

func suggestName(name string) string {
	ext := path.Ext(name)
	return strings.TrimSuffix(name, ext) + "-${item_index}" + ext
}
