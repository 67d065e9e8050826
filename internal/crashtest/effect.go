package crashtest

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Kind is what an effect does.
type Kind int

// The kinds of effects.
const (
	Write    Kind = iota + 1 // Data at Offset of Path
	Truncate                 // Path has Offset bytes
	Sync                     // the content of Path; of a directory, its names
	SyncAll                  // all of the file system
	Create                   // Path is opened, and made or emptied where Flags say so
	Rename                   // Path becomes To
	Link                     // To becomes another name of Path
	Symlink                  // To becomes a link to the text Path
	Remove                   // the file Path
	Mkdir                    // the directory Path
	Rmdir                    // the directory Path
	Chmod                    // Path has Mode
	Exec                     // the program Path is started
)

var kindNames = [...]string{"", "write", "truncate", "sync", "syncfs", "create", "rename", "link", "symlink", "remove", "mkdir", "rmdir", "chmod", "exec"}

func (k Kind) String() string { return kindNames[k] }

// Effect is one effect that a process is about to have.
type Effect struct {
	PID     int    // of the process; of one of its threads where it has several
	Program string // the name of the process, as the kernel has it: 15 bytes at most
	Kind    Kind
	Path    string // absolute
	To      string // absolute
	Offset  int64  // in bytes
	Data    []byte
	Flags   int // of open
	Mode    uint32
}

func (e Effect) String() string {
	s := fmt.Sprintf("%s (%d): %v %s", e.Program, e.PID, e.Kind, e.Path)
	if e.To != "" {
		s += " to " + e.To
	}
	if e.Kind == Write {
		s += fmt.Sprintf(" [%d at %d]", len(e.Data), e.Offset)
	}
	return s
}

// Below says whether the effect changes something below a directory.
func (e Effect) Below(dir string) bool {
	return e.Kind == SyncAll || below(e.Path, dir) && e.Kind != Symlink || e.To != "" && below(e.To, dir)
}

func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}

// Verdict is what becomes of an effect. The zero value makes it.
type Verdict struct {
	// Errno, where it is not 0, is the error with which the effect fails.
	Errno int
	// End is which processes are killed before the effect is made.
	End End
}

// End is which processes a verdict ends.
type End int

// What a verdict ends.
const (
	Nobody   End = iota
	Everyone     // the program and all its children, at this instant
	Main         // the program alone; its children continue
	This         // the process whose effect it is
)
