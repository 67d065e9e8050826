package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/bide-dev/bide/internal/worktree"
)

// gitEntry is one entry of the chain of a run: see the comment of the package. After its
// frame, the object has a pack with the commits that the entries before it do not have.
type gitEntry struct {
	Seq  int    `json:"seq"`  // from 1
	Life int    `json:"life"` // the life of its writer; 0 for the first entry
	Kind string `json:"kind"`
	// Log is the log of its writer, or the log that is over.
	Log string `json:"log,omitempty"`
	// Origin is where the run starts from, in the first entry.
	Origin *worktree.Origin `json:"origin,omitempty"`
	// Tip is the new tip of the run's branch; "" leaves the branch. Snapshot is a commit on
	// top of it, with what is uncommitted in the run's worktree.
	Tip      string `json:"tip,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	// Step is the step of the run that has ended in its worktree; "" for none.
	Step string `json:"step,omitempty"`
	// Item and Attempt say whose work is merged. Gone are the uncommitted files of the
	// run's worktree that the merge deletes.
	Item    int    `json:"item,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Gone    string `json:"gone,omitempty"`
	// Branch is a branch of an item, which holds Commit.
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Size and Digest, SHA-256, are those of the pack.
	Size   int64  `json:"size,omitempty"`
	Digest string `json:"digest,omitempty"`
}

// The kinds of entries of a chain.
const (
	gitOrigin   = "origin"   // the run begins
	gitLife     = "life"     // a life of the run has begun: writers of an earlier one add nothing more
	gitClosed   = "closed"   // a log is over: its writer adds nothing more
	gitStanding = "standing" // the state of the run's own worktree
	gitMerged   = "merged"   // the work of an item is in the run's branch
	gitKept     = "kept"     // a branch of an item
)

func gitName(seq int) string { return fmt.Sprintf("%08d", seq) }

// HasGit reports whether the run's work is in a chain.
func (r Shared) HasGit() bool { return r.has("git", gitName(1)) }

// putGit creates an entry of the chain; fs.ErrExist where its number is taken.
func (r Shared) putGit(e gitEntry, pack io.Reader) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return r.o.Create(r.name("git", gitName(e.Seq)), func(w io.Writer) error {
		_, err := w.Write(appendFrame(nil, text))
		if err == nil && pack != nil {
			_, err = io.Copy(w, pack)
		}
		return err
	})
}

// gitEntries reads the entries of the chain that follow an entry, each with its pack.
func (r Shared) gitEntries(after int, each func(e gitEntry, pack io.Reader) error) error {
	for seq := after + 1; ; seq++ {
		err := r.gitEntry(seq, each)
		if errors.Is(err, errNoEntry) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// errNoEntry says that the chain has no entry with a number. It is no fs.ErrNotExist,
// because a caller that takes an entry over may miss a file of its own.
var errNoEntry = errors.New("the chain of the run has no such entry")

func (r Shared) gitEntry(seq int, each func(e gitEntry, pack io.Reader) error) (err error) {
	name := r.name("git", gitName(seq))
	f, err := r.o.Read(name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w %d", errNoEntry, seq)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	e, err := readGit(f)
	if err == nil && e.Seq != seq {
		err = fmt.Errorf("it says that it is entry %d", e.Seq)
	}
	if err != nil {
		return &DamagedError{Name: name, Why: err}
	}
	pack := newDigested(f)
	if err := each(e, pack); err != nil {
		return err
	}
	if pack.read > 0 && (pack.read != e.Size || pack.sum() != e.Digest) {
		return &DamagedError{Name: name, Why: errors.New("its pack is not what was written")}
	}
	return nil
}

// readGit reads the frame of an entry.
func readGit(f io.Reader) (e gitEntry, err error) {
	head := make([]byte, frameHead)
	if _, err := io.ReadFull(f, head); err != nil {
		return e, fmt.Errorf("it is not what was written: %w", err)
	}
	n := binary.LittleEndian.Uint32(head)
	if n > maxFrame {
		return e, errors.New("it is not what was written")
	}
	text := make([]byte, frameHead+int(n))
	copy(text, head)
	if _, err := io.ReadFull(f, text[frameHead:]); err != nil {
		return e, fmt.Errorf("it is not what was written: %w", err)
	}
	frame, size := frameOf(text)
	if size == 0 {
		return e, errors.New("it is not what was written")
	}
	err = json.Unmarshal(frame, &e)
	return e, err
}

// endGit makes an entry that ends a life or a log in the chain, unless there is one
// already. It may be repeated.
func (r Shared) endGit(e gitEntry) error {
	for last := 0; ; {
		done := false
		err := r.gitEntries(last, func(have gitEntry, _ io.Reader) error {
			last = have.Seq
			done = done || have.Life > e.Life || have.Kind == e.Kind && have.Life == e.Life && have.Log == e.Log
			return nil
		})
		if err != nil || done || last == 0 {
			return err
		}
		e.Seq = last + 1
		if err := r.putGit(e, nil); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// verifyGit reads the whole chain, and checks that no entry is missing.
func (r Shared) verifyGit() error {
	last := 0
	err := r.gitEntries(0, func(e gitEntry, pack io.Reader) error {
		last = e.Seq
		n, err := io.Copy(io.Discard, pack)
		if err == nil && n != e.Size {
			err = &DamagedError{Name: r.name("git", gitName(e.Seq)), Why: fmt.Errorf("its pack has %d bytes of %d", n, e.Size)}
		}
		return err
	})
	if err != nil {
		return err
	}
	names, err := r.o.List(r.name("git"))
	if errors.Is(err, fs.ErrNotExist) && last == 0 {
		return nil // the run commits nothing, and its store has no folder for it
	}
	for _, name := range names {
		if name = path.Base(name); err == nil && name > gitName(last) {
			err = &DamagedError{Name: r.name("git", gitName(last+1)), Why: fmt.Errorf("it is missing, and %s is there", name)}
		}
	}
	return err
}

// packed is a pack in a temporary file.
type packed struct {
	*os.File
	size   int64
	digest string
}

// newPacked writes a pack.
func newPacked(write func(w io.Writer) error) (p packed, err error) {
	if p.File, err = os.CreateTemp("", "bide-pack-"); err != nil {
		return p, err
	}
	d := newDigested(nil)
	if err = write(io.MultiWriter(p.File, d)); err == nil {
		_, err = p.Seek(0, io.SeekStart)
	}
	if err != nil {
		return p, errors.Join(err, p.drop())
	}
	p.size, p.digest = d.read, d.sum()
	return p, nil
}

func (p packed) drop() error { return errors.Join(p.Close(), os.Remove(p.Name())) }
