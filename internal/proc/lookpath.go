package proc

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// lookValid is how long the place of an executable is remembered: long enough
// for a map over many items, short enough that a newly installed one is found.
const lookValid = time.Second

// lookups remembers where executables are.
var lookups = struct {
	sync.Mutex
	m map[lookKey]place
}{m: make(map[lookKey]place)}

type lookKey struct{ name, path string }

type place struct {
	file string
	at   time.Time
}

// LookPath finds the executable that a command of this name runs in the
// environment env ("NAME=value"): it honours the PATH that the command will
// have, not ours. The last PATH in env counts; without one there is nothing to
// find. A name with a slash is returned as it is, to be taken from the
// command's directory; elements of PATH that are not absolute are passed over,
// so that no file of a work item stands in for a program.
//
// What is found is remembered for a second. The error is a *StartError of kind
// StartNotFound, or StartPermission where there are only files that may not be
// executed. It is safe for use by many goroutines.
func LookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	key := lookKey{name, Getenv(env, "PATH")}
	t := time.Now()
	lookups.Lock()
	found, ok := lookups.m[key]
	lookups.Unlock()
	if ok && t.Sub(found.at) < lookValid {
		return found.file, nil
	}
	file, err := search(name, key.path)
	if err != nil {
		e := startError(&Cmd{Path: name}, err)
		if e.Kind == StartPermission {
			e.Advice = "the files of this name in PATH may not be executed (chmod +x)"
		}
		return "", e
	}
	lookups.Lock()
	defer lookups.Unlock()
	if len(lookups.m) >= 1024 {
		clear(lookups.m) // many names: a generated workflow, or hostile data
	}
	lookups.m[key] = place{file, t}
	return file, nil
}

// Getenv gives a variable of an environment ("NAME=value"), "" where it is not set.
func Getenv(env []string, name string) (value string) {
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, name); ok && strings.HasPrefix(rest, "=") {
			value = rest[1:]
		}
	}
	return value
}

// search looks through the directories of path.
func search(name, path string) (string, error) {
	err := error(fs.ErrNotExist)
	if name == "" {
		return "", err
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		info, statErr := os.Stat(file)
		if statErr != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return file, nil
		}
		err = fs.ErrPermission
	}
	return "", err
}
