package engine_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The power is cut on a real file system: ext4 in a file is shut down in the middle of a
// run with nothing flushed (with the call that its developers test with), and mounted
// again. Then the run is resumed. This needs root, mkfs.ext4 and loop devices.

// ext4Shutdown is EXT4_IOC_SHUTDOWN. Its flag noFlush loses even the part of the file
// system's log that is only in memory.
const (
	ext4Shutdown = 0x8004587d
	noFlush      = 2
)

// loopDisk is an ext4 file system in a file.
type loopDisk struct {
	t          *testing.T
	base       string // the file system as a run finds it
	image, dir string
	mounted    bool
}

func newLoopDisk(t *testing.T) *loopDisk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("left out: only root mounts file systems")
	}
	dir, err := os.MkdirTemp("", "bide-disk-*")
	if err != nil {
		t.Fatal(err)
	}
	d := &loopDisk{t: t, base: filepath.Join(dir, "base"), image: filepath.Join(dir, "image"), dir: filepath.Join(dir, "mounted")}
	t.Cleanup(func() {
		d.unmount()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := sh(dir, "truncate -s 48M image && mkfs.ext4 -q image && mkdir mounted"); err != nil {
		t.Skipf("left out: no file system can be made here: %v", err)
	}
	if err := sh(dir, "mount -o loop image mounted"); err != nil {
		t.Skipf("left out: no file system can be mounted here: %v", err)
	}
	d.mounted = true
	return d
}

func (d *loopDisk) mount() {
	d.t.Helper()
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput(); err != nil {
		d.t.Fatalf("mount: %v: %s", err, out)
	}
	d.mounted = true
}

func (d *loopDisk) unmount() {
	d.t.Helper()
	if !d.mounted {
		return
	}
	d.mounted = false
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := unix.Unmount(d.dir, 0)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("unmount %s: %v", d.dir, err)
		}
	}
}

// cutPower loses everything that is not on the disk.
func (d *loopDisk) cutPower() {
	d.t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), ext4Shutdown, noFlush); err != nil {
		d.t.Fatalf("shut the file system down: %v", err)
	}
}

// TestPowerCutsOnDisk cuts the power at random moments: BIDE_POWER_CUTS of them for each
// scenario (make powercuts).
func TestPowerCutsOnDisk(t *testing.T) {
	cuts, err := strconv.Atoi(os.Getenv("BIDE_POWER_CUTS"))
	if err != nil {
		t.Skip("left out: make powercuts runs it")
	}
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			newBench(t).git() // the repository that all tests copy must not be made on the disk that is lost
			d := newLoopDisk(t)
			evidence, err := os.MkdirTemp("", "bide-ev-*")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(evidence) })
			t.Setenv("TMPDIR", d.dir)
			x := newStage(t, s)
			x.ev = evidence // what the test itself records is not lost
			x.setenv("EV", evidence)
			started := time.Now()
			if status, said := x.plainly(x.command()...); status != x.status {
				t.Fatalf("without trouble: exit status %d: %s", status, shorten(said))
			}
			took := time.Since(started)
			x.again()
			d.unmount()
			if err := os.Rename(d.image, d.base); err != nil {
				t.Fatal(err)
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 0))
			failed := 0
			for i := range cuts {
				after := time.Duration(rnd.Int64N(int64(took) * 5 / 4))
				if !d.trial(x, after) {
					t.Logf("that was cut %d", i)
					if failed++; failed >= 20 {
						t.Fatal("and so on")
					}
				}
			}
			d.mount() // for what removes the stage's files
		})
	}
}

// trial is one run, with a power cut after a time, and its result.
func (d *loopDisk) trial(x *stage, after time.Duration) bool {
	t := d.t
	t.Helper()
	if err := sh(filepath.Dir(d.base), "cp --sparse=always base image"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(x.ev); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(x.ev, 0o755); err != nil {
		t.Fatal(err)
	}
	d.mount()
	p := x.start("bide", x.command()...)
	ended := make(chan struct{})
	timer := time.AfterFunc(after, func() { defer close(ended); d.cutPower(); _ = p.Process.Kill() })
	status := p.wait(t)
	if timer.Stop() {
		d.cutPower()
	} else {
		<-ended
	}
	x.quiet()
	d.unmount()
	d.mount()
	story := fmt.Sprintf("$ bide %s: %d\n%s", x.command()[0], status, p.text())
	story, good := x.finish(-1, story)
	wrong := x.wrong()
	d.unmount()
	if good && len(wrong) == 0 {
		return true
	}
	if !good {
		wrong = append(wrong, "it does not come to its end")
	}
	t.Errorf("a power cut after %v:\n%s\n%s", after, strings.Join(wrong, "\n"), shorten(story))
	return false
}
