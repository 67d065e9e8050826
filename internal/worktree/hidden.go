package worktree

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A step may hide from git what it changes in its worktree, or what the next owner of the
// worktree changes: with the bits skip-worktree and assume-unchanged of the index, and with
// settings (pinned.go). bide looks for uncommitted files in its worktrees without these.
// The bits that the setup has set stay: with them, setup says that these files are nobody's
// work.

// top gives the top of the worktree of ours in which git finds a directory; "" if there is
// none.
func (r *Repo) top(dir string) string {
	r.mu.Lock()
	roots := r.roots
	r.mu.Unlock()
	for _, root := range roots {
		for at := dir; strings.HasPrefix(at, root+string(filepath.Separator)); at = filepath.Dir(at) {
			if _, err := os.Lstat(filepath.Join(at, ".git")); err != nil {
				continue
			}
			if up := filepath.Dir(at); up == root || up == filepath.Join(root, poolDir) {
				return at
			}
			return "" // a repository in a worktree
		}
	}
	return ""
}

// hiddenFile is in the private git directory of a worktree. It lists the files whose bits
// the setup has set, each ended by NUL.
const hiddenFile = "bide-hidden"

// noteHidden writes hiddenFile.
func (r *Repo) noteHidden(ctx context.Context, top string) error {
	admin, hidden, err := r.hidden(ctx, top)
	if err != nil || len(hidden) == 0 {
		return err
	}
	return replace(filepath.Join(admin, hiddenFile), []byte(strings.Join(hidden, "\x00")+"\x00"))
}

// hiddenBefore gives the files in hiddenFile.
func hiddenBefore(admin string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(admin, hiddenFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return splitNUL(string(text)), err
}

// unhide clears the bits in the index of a worktree of ours that make git take a file for
// unchanged. It keeps the bits of files that the setup has hidden, and the bits with which
// a sparse checkout leaves files out.
func (r *Repo) unhide(ctx context.Context, dir string) error {
	top := r.top(dir)
	admin, hidden, err := r.hidden(ctx, top)
	if err != nil || len(hidden) == 0 {
		return err
	}
	before, err := hiddenBefore(admin)
	if err != nil {
		return err
	}
	hidden = slices.DeleteFunc(hidden, func(path string) bool { return slices.Contains(before, path) })
	return r.clearBits(ctx, call{dir: top}, hidden)
}

// clearBits clears the bits of files in an index.
func (r *Repo) clearBits(ctx context.Context, c call, files []string) error {
	if len(files) == 0 {
		return nil
	}
	c.stdin = strings.Join(files, "\x00") + "\x00"
	for _, bit := range []string{"--no-skip-worktree", "--no-assume-unchanged"} {
		c.args = []string{"update-index", "-z", bit, "--stdin"}
		if _, err := r.run(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// hidden gives the private git directory of a worktree of ours, and the files whose bits
// make git take them for unchanged. It gives nothing if top is "".
func (r *Repo) hidden(ctx context.Context, top string) (admin string, files []string, err error) {
	if top == "" {
		return "", nil, nil
	}
	if admin, err = adminDir(top); err != nil {
		return "", nil, err
	}
	index, err := os.ReadFile(filepath.Join(admin, "index"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !mayHide(index) {
		return admin, nil, nil
	}
	tagged, err := r.list(ctx, top, "ls-files", "-v", "-z")
	if err != nil {
		return admin, nil, err
	}
	sparse := "" // not known yet
	for _, row := range tagged {
		tag, path, _ := strings.Cut(row, " ")
		if tag == strings.ToUpper(tag) && tag != "S" {
			continue
		}
		if _, err := os.Lstat(filepath.Join(top, filepath.FromSlash(path))); err != nil && strings.ToUpper(tag) == "S" {
			if sparse == "" {
				if sparse, err = r.line(ctx, top, "config", "--type=bool", "--default=false", "--get", "core.sparseCheckout"); err != nil {
					return admin, nil, err
				}
			}
			if sparse == "true" {
				continue
			}
		}
		files = append(files, path)
	}
	return admin, files, nil
}

// mayHide reports whether an index may have such bits. It is false only if all of the index
// was understood. Asking git would take a process for each item.
func mayHide(index []byte) bool {
	for _, size := range []int{20, 32} {
		if hides, ok := readBits(index, size); ok {
			return hides
		}
	}
	return true
}

// readBits reads the bits of the entries of an index. size is the size of an object id. ok
// is false if the index was not understood.
func readBits(index []byte, size int) (hides, ok bool) {
	end := len(index) - size
	if end < 12 || string(index[:4]) != "DIRC" {
		return false, false
	}
	version, count := binary.BigEndian.Uint32(index[4:]), binary.BigEndian.Uint32(index[8:])
	at := 12
	for range count {
		start := at
		if at += 40 + size; at+4 > end {
			return false, false
		}
		flags := binary.BigEndian.Uint16(index[at:])
		at += 2
		hides = hides || flags&0x8000 != 0 // assume-unchanged
		if flags&0x4000 != 0 {
			hides = hides || binary.BigEndian.Uint16(index[at:])&0x4000 != 0 // skip-worktree
			at += 2
		}
		if version == 4 { // the name shares a prefix with the one before
			for at < end && index[at]&0x80 != 0 {
				at++
			}
			at++
		}
		if at > end {
			return false, false
		}
		name := bytes.IndexByte(index[at:end], 0)
		if name < 0 {
			return false, false
		}
		if at += name + 1; version < 4 {
			at = start + (at-1-start+8)&^7
		}
	}
	for at+8 <= end {
		hides = hides || string(index[at:at+4]) == "link" // more is in another file
		at += 8 + int(binary.BigEndian.Uint32(index[at+4:]))
	}
	return hides, at == end
}
