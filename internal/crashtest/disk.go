package crashtest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Disk is what a file system has of a directory: what programs see, and what of it a
// power cut leaves. It is told each effect before it is made, and is for one goroutine.
//
// A file's content is safe when the file was synced, a name when its directory was, and
// all of both after a syncfs: what POSIX promises, and no more. With Ordered each sync of
// anything makes all names safe that were changed before, as file systems with one
// journal do (ext4, XFS).
type Disk struct {
	Ordered bool
	// Safe, where it is not "", is a directory whose changes are never lost: what a test
	// itself writes down.
	Safe string

	root    string
	top     *node
	pending []change // changes of names that are not safe, in their order
	dirty   []*node  // files with content that is not safe
}

// node is a file, a link or a directory.
type node struct {
	dir       bool
	link      string // of a symbolic link, its text
	mode      fs.FileMode
	data      []byte // as programs see it
	safe      []byte // what a power cut leaves
	unsafe    bool   // it is in dirty
	names     map[string]*node
	safeNames map[string]*node
}

// change is one change of names, made whole or not at all. A nil node removes.
type change struct{ parts []part }

type part struct {
	dir  *node
	name string
	to   *node
}

// NewDisk reads the directory root; all that is there is safe.
func NewDisk(root string) (*Disk, error) {
	d := &Disk{root: root}
	var err error
	d.top, err = load(root)
	return d, err
}

func newDir(mode fs.FileMode) *node {
	return &node{dir: true, mode: mode, names: map[string]*node{}, safeNames: map[string]*node{}}
}

func load(path string) (*node, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		text, err := os.Readlink(path)
		return &node{link: text}, err
	case !info.IsDir():
		data, err := os.ReadFile(path)
		return &node{data: data, safe: bytes.Clone(data), mode: info.Mode().Perm()}, err
	}
	n := newDir(info.Mode().Perm())
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		child, err := load(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		n.names[e.Name()], n.safeNames[e.Name()] = child, child
	}
	return n, nil
}

// find gives the node of a path, its directory and its last name. The node is nil where
// there is none, and so is the directory.
func (d *Disk) find(path string) (dir *node, name string, n *node) {
	if path == d.root {
		return nil, "", d.top
	}
	rest, ok := strings.CutPrefix(path, d.root+"/")
	if !ok {
		return nil, "", nil
	}
	n = d.top
	for part := range strings.SplitSeq(rest, "/") {
		if n == nil || !n.dir {
			return nil, "", nil
		}
		dir, name = n, part
		n = n.names[part]
	}
	return dir, name, n
}

// Apply tells of an effect that is made now. One that must fail (its file is not there)
// changes nothing.
func (d *Disk) Apply(e Effect) {
	dir, name, n := d.find(e.Path)
	toDir, toName, to := d.find(e.To)
	switch e.Kind {
	case Write:
		d.write(n, e.Offset, e.Data)
	case Truncate:
		if n != nil {
			d.resize(n, e.Offset)
		}
	case Sync:
		d.sync(n)
	case SyncAll:
		for _, n := range slices.Clone(d.dirty) {
			d.syncData(n)
		}
		d.settle(func(change) bool { return true })
	case Create:
		d.open(dir, name, n, e)
	case Rename:
		if n != nil && toDir != nil && (to == nil || to.dir == n.dir) && (to == nil || e.Flags == 0) {
			d.rename(change{[]part{{dir, name, nil}, {toDir, toName, n}}})
		}
	case Link:
		if n != nil && toDir != nil && to == nil {
			d.rename(change{[]part{{toDir, toName, n}}})
		}
	case Symlink:
		if toDir != nil && to == nil {
			d.rename(change{[]part{{toDir, toName, &node{link: e.Path}}}})
		}
	case Mkdir:
		if dir != nil && n == nil {
			d.rename(change{[]part{{dir, name, newDir(fs.FileMode(e.Mode) &^ 0o022)}}})
		}
	case Remove:
		if n != nil && !n.dir {
			d.rename(change{[]part{{dir, name, nil}}})
		}
	case Rmdir:
		if n != nil && n.dir && len(n.names) == 0 {
			d.rename(change{[]part{{dir, name, nil}}})
		}
	case Chmod:
		if n != nil {
			n.mode = fs.FileMode(e.Mode).Perm()
		}
	}
	if d.Safe != "" && (below(e.Path, d.Safe) || below(e.To, d.Safe)) {
		_, _, n := d.find(e.Path)
		d.syncData(n)
		_, _, safe := d.find(d.Safe)
		d.settle(func(c change) bool {
			return slices.ContainsFunc(c.parts, func(p part) bool { return within(safe, p.dir) })
		})
	}
}

func within(top, n *node) bool {
	if top == nil || top == n {
		return top == n
	}
	for _, child := range top.names {
		if child.dir && within(child, n) {
			return true
		}
	}
	return false
}

// open's flags as Linux has them on amd64.
const (
	oCreat = 0o100
	oExcl  = 0o200
	oTrunc = 0o1000
)

func (d *Disk) open(dir *node, name string, n *node, e Effect) {
	switch {
	case n == nil && dir != nil && e.Flags&oCreat != 0:
		d.rename(change{[]part{{dir, name, &node{mode: fs.FileMode(e.Mode).Perm() &^ 0o022}}}})
	case n != nil && !n.dir && e.Flags&oTrunc != 0 && e.Flags&(oCreat|oExcl) != oCreat|oExcl:
		d.resize(n, 0)
	}
}

func (d *Disk) touch(n *node) {
	if !n.unsafe {
		n.unsafe = true
		d.dirty = append(d.dirty, n)
	}
}

func (d *Disk) write(n *node, at int64, data []byte) {
	if n == nil || n.dir {
		return
	}
	d.touch(n)
	if end := at + int64(len(data)); end > int64(len(n.data)) {
		n.data = append(n.data, make([]byte, end-int64(len(n.data)))...)
	}
	copy(n.data[at:], data)
}

func (d *Disk) resize(n *node, size int64) {
	if int64(len(n.data)) == size {
		return
	}
	d.touch(n)
	if size <= int64(len(n.data)) {
		n.data = n.data[:size:size]
		return
	}
	n.data = append(n.data, make([]byte, size-int64(len(n.data)))...)
}

func (d *Disk) sync(n *node) {
	switch {
	case n == nil:
	case n.dir:
		d.settle(func(c change) bool { return slices.ContainsFunc(c.parts, func(p part) bool { return p.dir == n }) })
	default:
		d.syncData(n)
	}
	if d.Ordered {
		d.settle(func(change) bool { return true })
	}
}

func (d *Disk) syncData(n *node) {
	if n == nil || !n.unsafe {
		return
	}
	n.safe, n.unsafe = bytes.Clone(n.data), false
	d.dirty = slices.DeleteFunc(d.dirty, func(m *node) bool { return m == n })
}

func (d *Disk) rename(c change) {
	for _, p := range c.parts {
		set(p.dir.names, p)
	}
	d.pending = append(d.pending, c)
}

func set(names map[string]*node, p part) {
	if p.to == nil {
		delete(names, p.name)
		return
	}
	names[p.name] = p.to
}

// settle makes those changes of names safe that are meant.
func (d *Disk) settle(meant func(change) bool) {
	kept := d.pending[:0]
	for _, c := range d.pending {
		if !meant(c) {
			kept = append(kept, c)
			continue
		}
		for _, p := range c.parts {
			set(p.dir.safeNames, p)
		}
	}
	clear(d.pending[len(kept):])
	d.pending = kept
}

// Unsafe counts the changes of names, and the files, that a power cut may lose now.
func (d *Disk) Unsafe() (names, files int) { return len(d.pending), len(d.dirty) }

// Loss chooses what of the changes that are not safe a power cut leaves.
type Loss struct {
	// Name says whether the i-th of n changes of names is kept; nil keeps none.
	Name func(i, n int) bool
	// Data gives what is left of a file that had the content safe when it was synced
	// last, and now; nil keeps safe.
	Data func(safe, now []byte) []byte
}

// Remains are what a power cut leaves. They stay as they are while the disk goes on.
type Remains struct {
	root  string
	top   *node
	names map[*node]map[string]*node
	data  map[*node][]byte
}

// Cut gives what a power cut leaves now.
func (d *Disk) Cut(l Loss) *Remains {
	r := &Remains{root: d.root, top: d.top, names: map[*node]map[string]*node{}, data: map[*node][]byte{}}
	names := func(n *node) map[string]*node {
		if r.names[n] == nil {
			r.names[n] = maps.Clone(n.safeNames)
		}
		return r.names[n]
	}
	for i, c := range d.pending {
		if l.Name == nil || !l.Name(i, len(d.pending)) {
			continue
		}
		for _, p := range c.parts {
			set(names(p.dir), p)
		}
	}
	var hold func(n *node)
	hold = func(n *node) {
		if !n.dir {
			r.data[n] = n.safe // which is never written to, but put another in its place
			if n.unsafe && l.Data != nil {
				r.data[n] = bytes.Clone(l.Data(n.safe, n.data))
			}
			return
		}
		for _, child := range names(n) {
			hold(child)
		}
	}
	hold(d.top)
	return r
}

// Sum is the same for remains that are alike.
func (r *Remains) Sum() (sum [sha256.Size]byte) {
	h := sha256.New()
	var add func(name string, n *node)
	add = func(name string, n *node) {
		fmt.Fprintf(h, "%q %v %q %v %d\n", name, n.dir, n.link, n.mode, len(r.data[n]))
		h.Write(r.data[n])
		for _, name := range slices.Sorted(maps.Keys(r.names[n])) {
			add(name, r.names[n][name])
		}
		h.Write([]byte{0})
	}
	add("", r.top)
	return [sha256.Size]byte(h.Sum(nil))
}

// Write writes what is left into the root, in place of all that is there.
func (r *Remains) Write() error {
	return store(r.root, r.top, func(n *node) map[string]*node { return r.names[n] }, func(n *node) []byte { return r.data[n] })
}

// Restore writes what programs saw into the root, in place of all that is there.
func (d *Disk) Restore() error {
	return store(d.root, d.top, func(n *node) map[string]*node { return n.names }, func(n *node) []byte { return n.data })
}

// store makes a directory hold what is given; what is there already and alike stays.
func store(path string, n *node, names func(*node) map[string]*node, data func(*node) []byte) error {
	if n.link != "" {
		return os.Symlink(n.link, path)
	}
	if !n.dir {
		return os.WriteFile(path, data(n), n.mode|0o200)
	}
	if err := os.Mkdir(path, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	there, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	want := names(n)
	for _, e := range there {
		if child := want[e.Name()]; child == nil || !child.dir || !e.IsDir() {
			if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	for name, child := range want {
		if err := store(filepath.Join(path, name), child, names, data); err != nil {
			return err
		}
	}
	return nil
}

// Differences lists where the root is not what programs should see: a test of the model.
func (d *Disk) Differences() []string {
	real, err := load(d.root)
	if err != nil {
		return []string{err.Error()}
	}
	return differences("", d.top, real)
}

func differences(path string, ours, theirs *node) (out []string) {
	if ours.dir != theirs.dir || ours.link != theirs.link {
		return []string{path + " is of another kind"}
	}
	if !ours.dir {
		if !bytes.Equal(ours.data, theirs.data) && !strings.HasSuffix(path, "-shm") { // it is memory that is shared
			out = append(out, fmt.Sprintf("%s has %d bytes here, %d there", path, len(ours.data), len(theirs.data)))
		}
		return out
	}
	for name, child := range ours.names {
		other := theirs.names[name]
		if other == nil {
			out = append(out, path+"/"+name+" is here alone")
			continue
		}
		out = append(out, differences(path+"/"+name, child, other)...)
	}
	for name := range theirs.names {
		if ours.names[name] == nil {
			out = append(out, path+"/"+name+" is there alone")
		}
	}
	return out
}
