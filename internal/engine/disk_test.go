package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bide-dev/bide/internal/cli"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

func init() {
	parts["limited"] = limitedMain
	parts["few"] = fewMain
}

// limitedMain is the real program on a full disk: after the number of bytes in the first
// argument, the kernel refuses writes to a file as it does on a full disk.
func limitedMain() int {
	n, err := strconv.ParseUint(os.Args[1], 10, 64)
	if err != nil {
		return complain(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		return complain(err)
	}
	return cli.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr)
}

// fewMain runs bide with a limit on descriptors.
func fewMain() int {
	n, err := strconv.ParseUint(os.Args[1], 10, 64)
	if err != nil {
		return complain(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		return complain(err)
	}
	return cli.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr)
}

// TestFewDescriptors: if there are fewer descriptors than the parallel items need, fewer
// items run at once. No item fails because of that or runs twice.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	for _, descriptors := range []int{40, 64, 100} {
		t.Run(strconv.Itoa(descriptors), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("flow.yml", "mode: mapreduce\nmap:\n  input: seq 1 60\n  max_parallel: 60\n  agent_template: [{shell: 'echo ${item} >> $EV/log; sleep 0.2'}]\n")
			p := b.start("few", strconv.Itoa(descriptors), "run", "-q", "flow.yml")
			if status := p.wait(t); status != 0 {
				t.Fatalf("exit status %d: %s", status, p.text())
			}
			lines := b.lines()
			slices.Sort(lines)
			if n := len(slices.Compact(slices.Clone(lines))); n != 60 || len(lines) != 60 {
				t.Errorf("%d of 60 items ran, in %d attempts", n, len(lines))
				events, _ := b.recordedEvents()
				for _, e := range events {
					if e.Message != "" || e.Status == event.Failed || e.Status == event.Interrupted {
						t.Log(e.Type, e.Item, e.Attempt, e.Status, e.Class, e.Message, string(e.Data))
					}
				}
			}
		})
	}
}

const diskFlow = `
name: disk
mode: mapreduce
setup:
  - shell: echo setup-one >> $EV/log; echo one
    capture: word
map:
  input: seq 1 60
  max_parallel: 2
  agent_template:
    - shell: |
        echo "start ${item_id}" >> $EV/log
        head -c 1500 /dev/zero | tr '\0' ${item}
reduce:
  - shell: echo "reduce-two ${map.successful}/${map.total} ${word}" >> $EV/log
`

// TestFullDisk: if the journal can no longer be written, no new item starts, and the error
// says what to do. What is on record stays, and a resume with room on the disk completes
// the run.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{60 << 10, 110 << 10, 200 << 10} {
		t.Run(fmt.Sprint(limit>>10, "KiB"), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("flow.yml", diskFlow)
			p := b.start("limited", strconv.Itoa(limit), "run", "-q", "flow.yml")
			status := p.wait(t)
			b.quiet()
			if status != 1 {
				t.Fatalf("exit status %d, want 1: %s", status, p.text())
			}
			for _, want := range []string{"journal", "bide resume"} {
				if !strings.Contains(p.text(), want) {
					t.Errorf("%q is missing in: %s", want, p.text())
				}
			}
			before := len(b.lines())
			if before >= 62 {
				t.Fatalf("the disk was not full: %q", b.lines())
			}
			dir := b.runDir()
			if dir == "" {
				t.Fatal("there is no run to resume")
			}
			events, _ := b.recordedEvents()
			done := over(events)
			p = b.start("bide", "resume", "-q")
			if status := p.wait(t); status != 0 {
				t.Fatalf("resume: exit status %d: %s", status, p.text())
			}
			after, state := b.recordedEvents()
			if !slices.EqualFunc(events, after[:len(events)], sameEvent) {
				t.Error("what was recorded before the disk was full has changed")
			}
			for _, line := range b.lines()[before:] {
				if done[key(line)] {
					t.Errorf("%q ran again after its end was recorded", line)
				}
			}
			if c := state.Items.Counts(); c.Succeeded != 60 {
				t.Errorf("items: %+v", c)
			}
			if got := b.lines(); got[len(got)-1] != "reduce-two 60/60 one" {
				t.Errorf("the last line is %q", got[len(got)-1])
			}
		})
	}
}

func sameEvent(a, b event.Event) bool {
	return a.Seq == b.Seq && a.Type == b.Type && a.Item == b.Item && a.Step == b.Step && a.Status == b.Status && bytes.Equal(a.Data, b.Data)
}

// runDir gives the directory of the only run; "" if there is none.
func (b *bench) runDir() string {
	b.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(b.home, "runs", "[0-9A-Z]*"))
	if err != nil || len(dirs) > 1 {
		b.t.Fatal(dirs, err)
	}
	if len(dirs) == 0 {
		return ""
	}
	return dirs[0]
}

// TestNoDiskAtAll: if the disk is full from the beginning, nothing starts.
func TestNoDiskAtAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("flow.yml", "commands:\n  - shell: echo ran >> $EV/log\n")
	p := b.start("limited", "4096", "run", "-q", "flow.yml")
	if status := p.wait(t); status != 1 || len(b.lines()) != 0 {
		t.Errorf("exit status %d, log %q: %s", status, b.lines(), p.text())
	}
	if !strings.Contains(p.text(), "journal") {
		t.Errorf("it does not say what: %s", p.text())
	}
}

// snapshot is the content of a journal's files.
func snapshot(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, name := range []string{"journal.db", "journal.db-wal"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out[name] = text
	}
	return out
}

// cutRun gives a run that was killed in the middle, with its journal's files.
func cutRun(t *testing.T, at int) (*bench, string, map[string][]byte) {
	b := newBench(t)
	b.write("flow.yml", smallFlow)
	p := b.start("die-at", strconv.Itoa(at), "committed")
	if status := p.wait(t); status != -1 {
		t.Fatalf("exit status %d: %s", status, p.text())
	}
	b.quiet()
	dir := b.runDir()
	return b, dir, snapshot(t, dir)
}

// TestTruncatedJournal cuts the files of a journal at every 512th byte and resumes. Either
// the resume continues from what is left, or there is an error that says what to do, and
// nothing is overwritten. The normal run takes one cut of eight.
func TestTruncatedJournal(t *testing.T) {
	t.Parallel()
	step := 512 * 8
	if chaos() > 0 {
		step = 512
	}
	b, dir, files := cutRun(t, 45)
	store, err := journal.OpenStore(b.home)
	if err != nil {
		t.Fatal(err)
	}
	resumed, refused := 0, 0
	for _, name := range []string{"journal.db-wal", "journal.db"} {
		for cut := 0; cut < len(files[name]); cut += step {
			if err := os.RemoveAll(filepath.Join(b.ev, "log")); err != nil {
				t.Fatal(err)
			}
			now := maps.Clone(files)
			now[name] = files[name][:cut]
			for _, n := range []string{"journal.db-shm", "journal.db-wal", "results.jsonl"} {
				if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
					t.Fatal(err)
				}
			}
			for n, text := range now {
				if err := os.WriteFile(filepath.Join(dir, n), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			opt := b.opt
			opt.Store = store
			sum, err := engine.Resume(context.Background(), filepath.Base(dir), opt)
			where := fmt.Sprintf("%s cut at %d", name, cut)
			if err == nil {
				resumed++
				if sum.Status != event.Succeeded {
					t.Errorf("%s: %s %s", where, sum.Status, sum.Message)
				}
				if got := b.lines(); len(got) == 0 || got[len(got)-1] != "reduce-two 3 ok-a ok-b ok-c one" {
					t.Errorf("%s: %q", where, got)
				}
				continue
			}
			refused++
			var damaged *journal.DamagedError
			var foreign *journal.ForeignError
			if !errors.As(err, &damaged) && !errors.As(err, &foreign) {
				t.Errorf("%s: the error is %T: %v", where, err, err)
			}
			if damaged != nil && damaged.Advice == "" {
				t.Errorf("%s: no advice: %v", where, err)
			}
			if len(b.lines()) > 0 {
				t.Errorf("%s: steps ran on a damaged journal: %q", where, b.lines())
			}
			for n, text := range snapshot(t, dir) {
				if !bytes.Equal(text, now[n]) {
					t.Errorf("%s: %s was changed", where, n)
				}
			}
		}
	}
	t.Logf("%d were continued, %d refused", resumed, refused)
	if resumed == 0 || refused == 0 {
		t.Errorf("%d were continued, %d refused: both must occur", resumed, refused)
	}
}
