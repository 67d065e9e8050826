package worktree

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// held reports whether a living process may hold a lock file: one that has the file open,
// or a git that runs in or below one of the directories and began before the file was made.
// known says whether that can be found out.
func held(name string, made time.Time, dirs []string) (held, known bool) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false, true
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(processes) == 0 {
		return false, false
	}
	uptime, err := uptime()
	if err != nil {
		return false, false
	}
	old := time.Since(made)
	for _, p := range processes {
		fds, _ := os.ReadDir(p + "/fd") // of one that has ended, or another user's
		for _, fd := range fds {
			if to, err := os.Readlink(p + "/fd/" + fd.Name()); err == nil && to == real {
				return true, true
			}
		}
		if comm, err := os.ReadFile(p + "/comm"); err != nil || !bytes.HasPrefix(comm, []byte("git")) {
			continue
		}
		dir, err := os.Readlink(p + "/cwd")
		if errors.Is(err, fs.ErrNotExist) { // it has ended
			continue
		}
		if (err != nil || isBelow(dir, dirs)) && uptime-started(p) >= old-tick {
			return true, true
		}
	}
	return false, true
}

func isBelow(dir string, dirs []string) bool {
	for _, d := range dirs {
		if real, err := filepath.EvalSymlinks(d); err == nil && (dir == real || strings.HasPrefix(dir, strings.TrimSuffix(real, "/")+"/")) {
			return true
		}
	}
	return false
}

// tick is how far the age of a process may be off. The age is the difference of two times,
// and both are cut to hundredths of a second.
const tick = 20 * time.Millisecond

// uptime is how long the system is up.
func uptime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	return time.Duration(seconds * float64(time.Second)), err
}

// started is how long the system had been up when a process began; 0 if that cannot be
// read. It is field 22 of the process's stat, in hundredths of a second. The name in the
// second field may have blanks.
func started(process string) time.Duration {
	text, err := os.ReadFile(process + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	ticks, err := strconv.ParseUint(string(fields[19]), 10, 63)
	if err != nil {
		return 0
	}
	return time.Duration(ticks) * (time.Second / 100)
}
