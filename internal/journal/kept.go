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
func overIn(dir string) (files [2]stamp, ok bool) {
	if held, err := locked(dir); err != nil || held || elsewhere(dir) {
		return files, false
	}
	for i, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(filepath.Join(dir, dbName+suffix))
		switch {
		case err == nil:
			files[i] = stamp{info.Size(), info.ModTime().UnixNano()}
		case i == 0 || !errors.Is(err, fs.ErrNotExist):
			return files, false
		}
	}
	return files, true
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
	files, over := overIn(dir)
	return k.Summary, over && files == k.Of
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
	f, err := os.CreateTemp(dir, "."+keptName+"-*")
	if err != nil {
		return // a home that can only be read
	}
	_, err = f.Write(b.Bytes())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, keptName))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}
