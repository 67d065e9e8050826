package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
)

// NoCommitError says that a step that has to commit made no commit.
type NoCommitError struct {
	Dir string
	// Uncommitted are files that the step may have meant to commit.
	Uncommitted []string
}

func (e *NoCommitError) Error() string {
	s := "the step must make a commit (commit_required), and made none in " + e.Dir
	if n := len(e.Uncommitted); n > 0 {
		s += fmt.Sprintf("; %s uncommitted (%s): commit them in the step, or set auto_commit", diag.Count(n, "file")+" "+diag.Plural(n, "is", "are"), sample(e.Uncommitted))
	}
	return s
}

func sample(files []string) string {
	if len(files) > 3 {
		return strings.Join(files[:3], ", ") + ", …"
	}
	return strings.Join(files, ", ")
}

// HasNewCommits reports whether the HEAD of a directory's working tree has a commit that
// the commit since does not have. An empty since means that there was no commit.
func (r *Repo) HasNewCommits(ctx context.Context, dir, since string) (bool, error) {
	head, err := r.commit(ctx, dir, "HEAD")
	if err != nil || head == "" || head == since {
		return false, err
	}
	if since == "" {
		return true, nil
	}
	n, err := r.countNew(ctx, head, since)
	return n > 0, err
}

// RequireCommit gives a *[NoCommitError] if no commit was made since the
// commit since.
func (r *Repo) RequireCommit(ctx context.Context, dir, since string) error {
	made, err := r.HasNewCommits(ctx, dir, since)
	if err != nil || made {
		return err
	}
	files, err := r.dirty(ctx, dir)
	if err != nil {
		return err
	}
	return &NoCommitError{Dir: dir, Uncommitted: files}
}

// CommitOptions are the options of AutoCommit.
type CommitOptions struct {
	// Message is the commit's message; it must not be empty.
	Message string
	// Include and Exclude choose among what is uncommitted: git's path
	// patterns, relative to the directory, in which "*" also matches "/". No
	// Include means everything.
	Include, Exclude []string
	// Author is "Name <mail>"; "" means the configured one.
	Author string
	// Sign signs the commit with the configured key.
	Sign bool
	// SquashSince, if not empty, makes one commit of this one and all since
	// that commit.
	SquashSince string
}

// maxMessage is how many bytes of a message are used: a program's argument may not be
// longer than 128 KiB.
const maxMessage = 64 << 10

// message makes a text that git accepts as a message: without NUL, and not too long.
func message(text string) string {
	return diag.ClipBytes(strings.ReplaceAll(text, "\x00", ""), maxMessage)
}

// AutoCommit commits what is uncommitted in a directory's working tree, without
// running hooks, and gives the commit's id; "" if there was nothing to do.
func (r *Repo) AutoCommit(ctx context.Context, dir string, o CommitOptions) (string, error) {
	if strings.TrimSpace(o.Message) == "" {
		return "", errors.New("commit: the message is empty")
	}
	if name, mail, ok := strings.Cut(strings.TrimSuffix(o.Author, ">"), " <"); o.Author != "" && (!ok || name == "" || mail == "" || !strings.HasSuffix(o.Author, ">")) {
		return "", fmt.Errorf("commit: author %q: must be of the form Name <mail>", o.Author)
	}
	unstaged, files, err := r.choose(ctx, dir, o)
	if err != nil {
		return "", err
	}
	before, err := r.commit(ctx, dir, "HEAD")
	if err != nil {
		return "", err
	}
	squash := o.SquashSince != "" && o.SquashSince != before
	if len(files) == 0 && !squash {
		return "", nil
	}
	if err := r.autoCommit(ctx, dir, o, unstaged, files, squash); err != nil {
		return "", fmt.Errorf("commit in %s: %w", dir, err)
	}
	return r.commit(ctx, dir, "HEAD")
}

func (r *Repo) autoCommit(ctx context.Context, dir string, o CommitOptions, unstaged, files []string, squash bool) error {
	top, err := r.line(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	args := []string{"commit", "--quiet", "--no-verify", "-m", message(o.Message)}
	if o.Author != "" {
		args = append(args, "--author", o.Author)
	}
	if o.Sign {
		args = append(args, "--gpg-sign")
	}
	if len(files) > 0 {
		if len(unstaged) > 0 {
			if _, err := r.pathspec(ctx, top, unstaged, "add", "-A", "--sparse"); err != nil {
				return err
			}
		}
		if len(o.Include)+len(o.Exclude) == 0 {
			_, err = r.git(ctx, top, args...)
		} else {
			_, err = r.pathspec(ctx, top, files, append(slices.Clone(args), "--only")...)
		}
		if err != nil {
			return err
		}
	}
	if !squash {
		return nil
	}
	return r.squash(ctx, top, o.SquashSince, args)
}

// squash makes one commit of all since a commit. It uses an index of its own, because the
// real one may have more staged. On failure HEAD is put back.
func (r *Repo) squash(ctx context.Context, top, since string, commitArgs []string) (err error) {
	tip, err := r.line(ctx, top, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	in, err := r.isAncestor(ctx, since, tip)
	if err != nil {
		return err
	}
	if !in {
		return fmt.Errorf("squash: %s is not in the history of HEAD any more", since)
	}
	dir, err := os.MkdirTemp("", "bide-index-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	if _, err := r.run(ctx, call{dir: top, env: env, args: []string{"read-tree", tip}}); err != nil {
		return err
	}
	if _, err := r.git(ctx, top, "update-ref", "-m", "bide: squash", "HEAD", since, tip); err != nil {
		return err
	}
	if _, err = r.run(ctx, call{dir: top, env: env, args: append(slices.Clone(commitArgs), "--allow-empty")}); err != nil {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		_, back := r.git(ctx, top, "update-ref", "-m", "bide: squash failed", "HEAD", tip, since)
		return errors.Join(err, back)
	}
	return nil
}

// choose gives the uncommitted paths, relative to the top, that are to be committed, and
// which of them are still to be staged: git no longer finds a file whose deletion is staged.
func (r *Repo) choose(ctx context.Context, dir string, o CommitOptions) (unstaged, all []string, err error) {
	var patterns []string
	for _, p := range o.Include {
		patterns = append(patterns, ":()"+p)
	}
	if len(patterns) == 0 {
		patterns = append(patterns, ":(top)")
	}
	for _, p := range o.Exclude {
		patterns = append(patterns, ":(exclude)"+p)
	}
	if err := r.unhide(ctx, dir); err != nil {
		return nil, nil, err
	}
	unstaged, err = r.list(ctx, dir, append([]string{"ls-files", "--full-name", "-z", "--modified", "--deleted", "--others", "--exclude-standard", "--"}, patterns...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("choose what to commit: %w", err)
	}
	staged, err := r.list(ctx, dir, append([]string{"diff", "--cached", "--name-only", "-z", "--no-renames", "--"}, patterns...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("choose what to commit: %w", err)
	}
	unmoved, err := r.unmoved(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	unstaged = slices.DeleteFunc(unstaged, func(path string) bool { return unmoved[path] })
	slices.Sort(unstaged)
	unstaged = slices.Compact(unstaged)
	all = slices.Concat(unstaged, staged)
	slices.Sort(all)
	return unstaged, slices.Compact(all), nil
}
