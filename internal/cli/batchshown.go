package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/proc"
)

// shownFile is a file in the directory of a batch. It notes which outputs were printed, so
// that whoever continues the batch prints exactly the others. It is text: a line "life BOOT"
// begins the notes of a process; "INDEX SEQ." is an item and the number of its item_finished,
// written after the item's output; "end" follows when both are on the disk. If a process did
// not write its end and the machine was restarted since, nobody knows how much of its output
// reached the disk: its notes do not count.
const shownFile = "shown"

// ending is one end of an item: each attempt at an item has its own.
type ending struct {
	index int
	seq   int64
}

func endingOf(e event.Event) ending { return ending{e.Index, e.Seq} }

// shownNotes writes the notes of one process.
type shownNotes struct {
	f     *os.File
	lines []byte // not written yet
}

// readShown reads the notes of all processes; boot is the present start of the machine.
func readShown(r io.Reader, boot string) (map[ending]bool, error) {
	sure := map[ending]bool{}
	var life []ending
	counts := false
	take := func() {
		for _, at := range life {
			sure[at] = true
		}
		life = life[:0]
	}
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) { // a line without an end is half a note
			if counts {
				take()
			}
			return sure, nil
		}
		if err != nil {
			return nil, err
		}
		line = strings.TrimSuffix(line, "\n")
		if b, is := strings.CutPrefix(line, "life "); is {
			if counts {
				take()
			}
			life, counts = life[:0], b == boot
			continue
		}
		var at ending
		if line == "end" {
			take()
		} else if _, err := fmt.Sscanf(line, "%d %d.", &at.index, &at.seq); err == nil {
			life = append(life, at)
		}
	}
}

// openShown reads the existing notes, and begins those of this process.
func openShown(dir string) (*shownNotes, map[ending]bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, shownFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	boot := proc.BootID()
	sure, err := readShown(f, boot)
	if err == nil { // half a line of an earlier process stays one that no reader accepts
		_, err = f.WriteString("\nlife " + boot + "\n")
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return &shownNotes{f: f}, sure, nil
}

// add notes that the output of an item has been printed.
func (n *shownNotes) add(at ending) {
	n.lines = fmt.Appendf(n.lines, "%d %d.\n", at.index, at.seq)
}

// write writes what was added, in one go.
func (n *shownNotes) write() error {
	if n == nil || len(n.lines) == 0 {
		return nil
	}
	_, err := n.f.Write(n.lines)
	n.lines = n.lines[:0]
	return err
}

// close ends the notes; outputs are the files that the outputs were written to.
func (n *shownNotes) close(outputs ...io.Writer) error {
	if n == nil {
		return nil
	}
	err := n.write()
	safe := err == nil
	for _, w := range outputs {
		f, is := fileOf(w)
		if !is {
			continue
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && f.Sync() != nil {
			safe = false
		}
	}
	if safe {
		if _, err = n.f.Write([]byte("end\n")); err == nil {
			err = n.f.Sync()
		}
	}
	return errors.Join(err, n.f.Close())
}
