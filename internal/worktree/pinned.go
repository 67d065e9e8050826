package worktree

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Worktrees share the configuration of their repository, and a step may change it for all
// of them and for the user's checkout. For example, after `git config core.fileMode false`
// in one item, git does not see that the next item changes the mode of a file. For the
// settings that decide what is committed, or where, our own calls of git use the values
// from when the repository was opened. A change of shared configuration is reported.

// deciding gives those settings, with their defaults.
func deciding() map[string]string {
	return map[string]string{
		"core.excludesfile": inGitHome("ignore"), "core.attributesfile": inGitHome("attributes"),
		"core.filemode": "true", "core.symlinks": "true", "core.ignorecase": "false", "core.autocrlf": "false", "core.eol": "native",
		"core.trustctime": "true", "core.checkstat": "default", "core.fsmonitor": "false",
	}
}

// inGitHome gives the path where git looks for a file of the user if no setting says where
// it is.
func inGitHome(name string) string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := os.Getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "git", name)
}

// pinned makes a call of git, in the user's working tree or in a worktree of ours, use
// those settings and this working tree: core.worktree and core.bare could lead elsewhere.
func (r *Repo) pinned(c call) call {
	top, admin := r.top(c.dir), ""
	switch {
	case top != "":
		var err error
		if admin, err = adminDir(top); err != nil || filepath.Dir(admin) != filepath.Join(r.common, "worktrees") {
			return c
		}
	case c.dir == r.dir && r.admin != "":
		top, admin = r.dir, r.admin
	default:
		return c
	}
	c.env = append(slices.Clip(c.env), "GIT_DIR="+admin, "GIT_WORK_TREE="+top)
	c.settings = r.settings
	return c
}

// shared has the text of files that all worktrees share, by their names in the common git
// directory.
type shared map[string]string

// readShared reads those files that decide how git works. A file that cannot be read is
// empty.
func readShared(common string) shared {
	s := shared{}
	for _, name := range []string{"config", "info/exclude", "info/attributes"} {
		text, _ := os.ReadFile(filepath.Join(common, filepath.FromSlash(name)))
		s[name] = string(text)
	}
	return s
}

// SharedChanges gives, once, what has changed since the repository was opened in the
// configuration that all worktrees share: the keys of settings, sorted, and the other
// files. What git notes about branches and submodules does not count.
func (r *Repo) SharedChanges(ctx context.Context) (changed []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, now := r.shared, readShared(r.common)
	r.shared = now
	if before["config"] != now["config"] {
		if changed, err = r.differ(ctx, before["config"], now["config"]); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"info/exclude", "info/attributes"} {
		if before[name] != now[name] {
			changed = append(changed, filepath.Join(r.common, filepath.FromSlash(name)))
		}
	}
	return changed, nil
}

// differ gives the keys whose values differ between two texts of configuration.
func (r *Repo) differ(ctx context.Context, a, b string) (keys []string, err error) {
	var all [2]map[string]string
	for i, text := range []string{a, b} {
		all[i] = map[string]string{}
		if text == "" {
			continue
		}
		// r.run would set the very values that this call reads.
		out, err := run(ctx, r.env, call{dir: filepath.Dir(r.common), stdin: text, args: []string{"config", "--file", "-", "--null", "--list"}})
		if err != nil {
			return nil, err
		}
		for _, entry := range splitNUL(out) {
			key, _, _ := strings.Cut(entry, "\n")
			all[i][key] += entry + "\x00"
		}
	}
	for key, was := range all[0] {
		if all[1][key] != was {
			keys = append(keys, key)
		}
	}
	for key := range all[1] {
		if _, known := all[0][key]; !known {
			keys = append(keys, key)
		}
	}
	keys = slices.DeleteFunc(keys, func(key string) bool {
		return strings.HasPrefix(key, "branch.") || strings.HasPrefix(key, "submodule.")
	})
	slices.Sort(keys)
	return keys, nil
}
