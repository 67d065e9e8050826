package worktree

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/files"
)

// A kill or a power cut may leave a repository damaged: locks, private git directories of
// worktrees that are not complete, objects and an index that are only partly on the disk,
// and names of commits of which a part is missing. A resume repairs these before it reads
// anything else, and trusts nothing that is not whole.

// connected reports whether a commit is there with all that base lacks of it, files
// included.
func (r *Repo) connected(ctx context.Context, dir, commit, base string) (bool, error) {
	if commit == "" {
		return false, nil
	}
	_, err := r.git(ctx, dir, "rev-list", "--objects", "--quiet", commit, "--not", base)
	if status(err) > 0 {
		return false, nil
	}
	return err == nil, err
}

// mendBranch gives the tip of the run's branch. If the branch has no whole commit (a step's
// own git wrote it last, then the power failed), or somebody has deleted it, the branch is
// made anew at the commit that was marked last, or at the last merge. It gives "" if there
// is none.
func (r *Repo) mendBranch(ctx context.Context, run *Run) (string, error) {
	ref := "refs/heads/" + run.Branch
	at, err := r.refID(ctx, ref)
	if err != nil {
		return "", err
	}
	if whole, err := r.connected(ctx, r.dir, at, run.Base); err != nil {
		return "", err
	} else if whole {
		return run.branchTip(ctx)
	}
	marks, err := run.marks()
	if err != nil {
		return "", err
	}
	known, err := r.lastMark(ctx, marks, run.Base)
	if err != nil {
		return "", err
	}
	merged, err := r.refID(ctx, privateRef(run.ID, "tip"))
	if err != nil {
		return "", err
	}
	if whole, err := r.connected(ctx, r.dir, merged, run.Base); err != nil {
		return "", err
	} else if whole {
		in := false
		if known != "" {
			if in, err = r.isAncestor(ctx, merged, known); err != nil {
				return "", err
			}
		}
		if !in {
			known = merged
		}
	}
	if known == "" {
		return "", nil
	}
	if err := r.dropTornRef(ref); err != nil {
		return "", err
	}
	if at == "" {
		run.putBack = known
	}
	_, err = r.git(ctx, r.dir, "update-ref", ref, known)
	return known, err
}

// Merged reports whether the run's branch has work, and all of it is in the branch that it
// is merged into: a person may have merged it. It is false if anything is uncommitted in
// the worktree, or if a step has left the worktree at another commit.
func (run *Run) Merged(ctx context.Context) (bool, error) {
	tip, err := run.branchTip(ctx)
	if err != nil || tip == "" || tip == run.Base {
		return false, err
	}
	into, err := run.mergedInto(ctx)
	if err != nil {
		return false, err
	}
	if n, err := run.repo.countNew(ctx, tip, into...); err != nil || n > 0 {
		return false, err
	}
	st, err := run.repo.State(ctx, run.Dir)
	return err == nil && st.Commit == tip && len(st.dirty) == 0, err
}

// Behind gives the number of commits that the run's target has and its own branch has not.
func (run *Run) Behind(ctx context.Context) (int, error) {
	if run.Target == "" {
		return 0, nil
	}
	return run.repo.countNew(ctx, "refs/heads/"+run.Target, "refs/heads/"+run.Branch)
}

// lastMark gives the last commit in a file of marks that is whole; "" if there is none.
func (r *Repo) lastMark(ctx context.Context, path, base string) (string, error) {
	marks, err := os.ReadFile(path)
	if err != nil {
		return "", nil
	}
	lines := strings.Split(string(marks), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		id, _, _ := strings.Cut(lines[i], " ")
		if !isID(id) {
			continue
		}
		if whole, err := r.connected(ctx, r.dir, id, base); err != nil || whole {
			return id, err
		}
	}
	return "", nil
}

// mend repairs a worktree after a possible power cut. If the commit that HEAD names is not
// whole, HEAD goes back to the commit that was marked last, or to base, and the files stay.
// It is false if that cannot be done.
func (r *Repo) mend(ctx context.Context, t *Tree, base string) (bool, error) {
	dir := t.Dir
	head, err := r.headID(ctx, dir)
	if err != nil {
		return false, err
	}
	whole, err := r.connected(ctx, r.dir, head, base)
	if err != nil {
		return false, err
	}
	if !whole {
		marks, err := t.marks()
		if err != nil {
			return false, nil
		}
		to, err := r.lastMark(ctx, marks, base)
		if err != nil {
			return false, err
		}
		if to == "" {
			to = base
		}
		if _, err := r.git(ctx, dir, "update-ref", "HEAD", to); err != nil {
			return false, ignoreRefusal(err)
		}
	}
	if err := r.mendIndex(ctx, dir); err != nil {
		return false, ignoreRefusal(err)
	}
	if err := r.mendStaged(ctx, dir); err != nil {
		return false, ignoreRefusal(err)
	}
	return true, nil
}

// ignoreRefusal gives nil for the error of a git that ran and refused.
func ignoreRefusal(err error) error {
	if status(err) > 0 {
		return nil
	}
	return err
}

// intact says whether a worktree and its private git directory belong together.
func (r *Repo) intact(dir string) bool {
	admin, err := adminDir(dir)
	if err != nil {
		return false
	}
	of, complete := worktreeOf(admin)
	return complete && of == dir
}

// worktreeOf gives the worktree that a private git directory belongs to. complete is false
// if the end of its name is missing.
func worktreeOf(admin string) (dir string, complete bool) {
	text, _ := os.ReadFile(filepath.Join(admin, "gitdir"))
	dir, complete = strings.CutSuffix(strings.TrimSpace(string(text)), string(filepath.Separator)+".git")
	if dir != "" && !filepath.IsAbs(dir) {
		dir = filepath.Join(admin, dir)
	}
	return dir, complete && !strings.ContainsRune(dir, 0)
}

// mendIndex makes the index of a worktree anew from HEAD if git cannot read it, which may
// happen after a power cut.
func (r *Repo) mendIndex(ctx context.Context, dir string) error {
	admin, err := r.gitDir(ctx, dir)
	if err != nil {
		return err
	}
	why := tornIndex(filepath.Join(admin, "index"))
	if why == nil {
		_, why = r.git(ctx, dir, "ls-files", "--error-unmatch", "--", ".")
	}
	if why == nil || status(why) == 1 {
		return nil
	}
	if err := os.Remove(filepath.Join(admin, "index")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(why, err)
	}
	_, err = r.git(ctx, dir, "read-tree", "HEAD")
	return err
}

// tornIndex is the error of an index that does not match its own checksum. Git accepts some
// that are cut short.
func tornIndex(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, h := range []hash.Hash{sha1.New(), sha256.New()} {
		end := len(text) - h.Size()
		if end < 12 || string(text[:4]) != "DIRC" {
			break
		}
		h.Write(text[:end])
		if sum := text[end:]; bytes.Equal(sum, h.Sum(nil)) || len(bytes.Trim(sum, "\x00")) == 0 { // zeros: index.skipHash writes no checksum
			return nil
		}
	}
	return fmt.Errorf("%s is not whole", path)
}

// mendStaged stages those files again whose staged content is not on the disk.
func (r *Repo) mendStaged(ctx context.Context, dir string) error {
	rows, err := r.list(ctx, dir, "ls-files", "--stage", "-z")
	if err != nil {
		return err
	}
	var ids strings.Builder
	for _, row := range rows { // MODE ID STAGE TAB PATH
		if f := strings.Fields(row); len(f) > 1 && f[0] != gitlink {
			ids.WriteString(f[1] + "\n")
		} else {
			ids.WriteString("\n")
		}
	}
	if len(rows) == 0 {
		return nil
	}
	out, err := r.run(ctx, call{dir: dir, args: []string{"cat-file", "--batch-check=%(objecttype)"}, stdin: ids.String()})
	if err != nil {
		return err
	}
	var lost []string
	for i, said := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if i < len(rows) && strings.HasSuffix(said, " missing") && !strings.HasPrefix(rows[i], gitlink) {
			_, path, _ := strings.Cut(rows[i], "\t")
			lost = append(lost, path)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	paths := strings.Join(lost, "\x00") + "\x00"
	if _, err := r.run(ctx, call{dir: dir, stdin: paths, args: []string{"update-index", "-z", "--force-remove", "--stdin"}}); err != nil {
		return err
	}
	_, err = r.run(ctx, call{dir: dir, stdin: paths, args: []string{"update-index", "-z", "--add", "--remove", "--stdin"}})
	return err
}

// gitlink is the mode of a submodule. Its commit is in another repository.
const gitlink = "160000"

// dropTornRef removes the file of a ref that has no valid content, which may happen after a
// power cut. Git cannot update such a ref.
func (r *Repo) dropTornRef(ref string) error {
	err := os.Remove(filepath.Join(r.common, filepath.FromSlash(ref)))
	if errors.Is(err, os.ErrNotExist) || notDir(err) {
		return nil
	}
	return err
}

// subdirs gives the paths of the directories in a directory; none if that is missing.
func subdirs(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.IsDir() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// dropHalf removes private git directories of our worktrees that are not complete: git was
// killed while it made them, or the power failed soon after. With one of them, git may list
// no worktree at all. The caller holds the repository's lock.
func (r *Repo) dropHalf(run *Run) error {
	dirs, err := subdirs(filepath.Join(r.common, "worktrees"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		text := func(name string) string {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			return strings.TrimSpace(string(b))
		}
		to, complete := worktreeOf(dir)
		if complete && isHead(text("HEAD")) && text("commondir") != "" && filepath.Join(dir, text("commondir")) == r.common {
			continue
		}
		if ours := strings.HasPrefix(to, filepath.Dir(run.root)+string(filepath.Separator)); complete && !ours || !complete && !ourName(filepath.Base(dir)) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// isHead reports whether a text can be the content of HEAD.
func isHead(text string) bool {
	return isID(text) && strings.Trim(text, "0") != "" || strings.HasPrefix(text, "ref: refs/") && !strings.Contains(text, "\x00")
}

// ourName reports whether git may have given this name to the private directory of a
// worktree of ours: the name of its directory, with a number if that was taken.
func ourName(name string) bool {
	for _, of := range []string{"run", scratchDir, ""} {
		if rest, ok := strings.CutPrefix(name, of); ok && strings.Trim(rest, "0123456789") == "" {
			return true
		}
	}
	return false
}

// dropTorn removes loose objects whose content does not match their names, which may happen
// after a power cut. Git takes a file with the name for the object and would never write it
// again. Only objects that were written since a time are read.
func (r *Repo) dropTorn(since time.Time) error {
	dirs, err := subdirs(filepath.Join(r.common, "objects"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if len(filepath.Base(dir)) != 2 {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			id := filepath.Base(dir) + e.Name()
			info, err := e.Info()
			if err != nil || !isID(id) || info.ModTime().Before(since) {
				continue
			}
			path := filepath.Join(dir, e.Name())
			if whole, err := isObject(path, id); err != nil || whole {
				continue
			}
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropLost takes the commits that the power cut has lost out of the logs of the run's names:
// git fsck would report them for as long as the logs are there. In a partial clone nothing is
// taken out: what is missing there may be with the remote, and the logs name work.
func (r *Repo) dropLost(ctx context.Context, run *Run) error {
	packs, err := os.ReadDir(filepath.Join(r.common, "objects", "pack"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if slices.ContainsFunc(packs, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".promisor") }) {
		return nil
	}
	logs := map[string][]byte{}
	ids := map[string]bool{}
	for _, ref := range []string{"refs/heads/" + run.Branch, "refs/heads/" + itemBranches + run.ID, privateRef(run.ID, "")} {
		err := filepath.WalkDir(filepath.Join(r.common, "logs", filepath.FromSlash(ref)), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
				return nil
			}
			if err == nil {
				logs[path], err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, text := range logs {
		for line := range strings.Lines(string(text)) {
			for _, id := range strings.SplitN(line, " ", 3)[:min(2, strings.Count(line, " "))] {
				ids[id] = isID(id) && strings.Trim(id, "0") != ""
			}
		}
	}
	maps.DeleteFunc(ids, func(_ string, is bool) bool { return !is })
	list := strings.Join(slices.Sorted(maps.Keys(ids)), "\n")
	_, err = r.run(ctx, call{dir: r.dir, args: []string{"rev-list", "--objects", "--quiet", "--stdin"}, stdin: list + "\n^" + run.Base + "\n"})
	if err == nil || status(err) <= 0 {
		return err
	}
	lost := map[string]bool{}
	for id := range ids {
		whole, err := r.connected(ctx, r.dir, id, run.Base)
		if err != nil {
			return err
		}
		lost[id] = !whole
	}
	for path, text := range logs {
		var kept strings.Builder
		for line := range strings.Lines(string(text)) {
			was, rest, _ := strings.Cut(line, " ")
			now, _, _ := strings.Cut(rest, " ")
			switch {
			case lost[now]:
			case lost[was]:
				kept.WriteString(strings.Repeat("0", len(was)) + " " + rest)
			default:
				kept.WriteString(line)
			}
		}
		if kept.String() == string(text) {
			continue
		}
		if err := files.Replace(path, 0o644, files.Synced([]byte(kept.String()))); err != nil {
			return err
		}
	}
	return nil
}

// isObject says whether a file is the loose object with an id.
func isObject(path, id string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	z, err := zlib.NewReader(f)
	if err != nil {
		return false, nil
	}
	h := sha1.New()
	if len(id) == 64 {
		h = sha256.New()
	}
	if _, err := io.Copy(h, z); err != nil {
		return false, nil
	}
	return hex.EncodeToString(h.Sum(nil)) == id, nil
}
