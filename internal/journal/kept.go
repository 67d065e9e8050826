package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/files"
)

// What the events of a run come to that is over is kept beside them, as it is asked for
// with every list of runs. The file is no record: it counts only while the files of the
// journal are those that it was made from, and the program the one that made it; it may be
// deleted at any time, and where it cannot be written the events are folded each time.

// keptName is the name of that file: the SHA-256 of the rest, and a gob of a keptSummary.
const keptName = "summary"

type keptSummary struct {
	Program string
	Of      [2]stamp // the database and its log
	Summary Summary
}

// stamp says which state of a file it is; the zero value that there is none.
type stamp struct {
	Size     int64
	Modified int64 // in nanoseconds since 1970
}

// settled is how long the journal has to be unchanged before what it comes to is kept:
// two changes within the resolution of a file system's clock look like one.
const settled = 2 * time.Second

// program is the program that runs, by its file: another may count otherwise.
var program = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano())
})

// overIn gives the files of the journal of a run in dir that no process has; ok is false
// for another.
func overIn(dir string) (of [2]stamp, ok bool) {
	if held, err := locked(dir); err != nil || held || elsewhere(dir) {
		return of, false
	}
	for i, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(filepath.Join(dir, dbName+suffix))
		switch {
		case err == nil:
			of[i] = stamp{info.Size(), info.ModTime().UnixNano()}
		case i == 0 || !errors.Is(err, fs.ErrNotExist):
			return of, false
		}
	}
	return of, true
}

// keptIn gives the summary that is kept in the directory of a run, if it counts.
func keptIn(dir string) (sum Summary, ok bool) {
	text, err := os.ReadFile(filepath.Join(dir, keptName))
	if err != nil || len(text) < sha256.Size {
		return sum, false
	}
	if digest := sha256.Sum256(text[sha256.Size:]); !bytes.Equal(digest[:], text[:sha256.Size]) {
		return sum, false
	}
	var k keptSummary
	if gob.NewDecoder(bytes.NewReader(text[sha256.Size:])).Decode(&k) != nil || k.Program != program() {
		return sum, false
	}
	of, over := overIn(dir)
	return k.Summary, over && of == k.Of
}

// keep keeps the summary of a run that is over, which was made of these files.
func keep(dir string, of [2]stamp, sum Summary) {
	now, over := overIn(dir)
	changed := time.Unix(0, max(of[0].Modified, of[1].Modified))
	if !over || now != of || sum.Finished.IsZero() || program() == "" || time.Since(changed) < settled {
		return
	}
	var b bytes.Buffer
	b.Write(make([]byte, sha256.Size))
	if gob.NewEncoder(&b).Encode(keptSummary{program(), of, sum}) != nil {
		return
	}
	digest := sha256.Sum256(b.Bytes()[sha256.Size:])
	copy(b.Bytes(), digest[:])
	// A home that can only be read has none; one that a power cut cuts short does not count.
	_ = files.Replace(filepath.Join(dir, keptName), 0o600, func(f *os.File) error {
		_, err := f.Write(b.Bytes())
		return err
	})
}
