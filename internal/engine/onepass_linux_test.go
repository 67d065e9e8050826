package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A resume reads the journal once, however long it is. SQLite reads its log, which is short,
// several times after a kill. The race detector takes long for so many items: make bounds
// runs this.
func TestResumeReadsTheJournalOnce(t *testing.T) {
	if raceEnabled {
		t.Skip("left out under the race detector")
	}
	t.Parallel()
	b := newBench(t)
	b.write("flow.yml", `
name: long
mode: mapreduce
isolation: none
map:
  input: seq 1 40000
  max_parallel: 1
  agent_template:
    - shell: touch $EV/begun-$LIFE; sleep 600
      when: "item >= 40000"
`)
	b.setenv("LIFE", "1")
	p := b.start("bide", "run", "-q", "flow.yml")
	b.appears("begun-1")
	b.setenv("LIFE", "2")
	p.crash(t, 0)
	size := func(name string) int64 {
		file, err := os.Stat(filepath.Join(b.runDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		return file.Size()
	}
	journal, log := size("journal.db"), size("journal.db-wal")
	p = b.start("bide", "resume", "-q")
	b.appears("begun-2")
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.Process.Pid))
	if err != nil {
		t.Skip("left out: what a process reads is not told here:", err)
	}
	p.crash(t, 0)
	var read int64
	if _, err := fmt.Sscanf(strings.TrimSpace(string(text)), "rchar: %d", &read); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	if read < journal || read > journal+journal/2+5*log {
		t.Errorf("the resume has read %d bytes, of a journal of %d with a log of %d", read, journal, log)
	}
}
