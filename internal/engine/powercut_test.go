package engine_test

import (
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/crashtest"
)

// A power cut ends all processes at one effect. It leaves what was synced, and of the rest
// what a file system may have kept: see [crashtest.Disk].

// loss is one way in which a file system loses what was not synced.
type loss struct {
	name    string
	ordered bool // each sync makes all names safe, as with ext4
	of      func(rnd *rand.Rand, d *crashtest.Disk) crashtest.Loss
}

func keepNames(int, int) bool       { return true }
func now(_, now []byte) []byte      { return now }
func emptied(safe, _ []byte) []byte { return safe }
func zeroed(safe, now []byte) []byte {
	out := make([]byte, len(now))
	copy(out, safe[:min(len(safe), len(now))])
	return out
}

// torn keeps a prefix of each file, all of it, or nothing new.
func torn(rnd *rand.Rand) func(safe, now []byte) []byte {
	return func(safe, now []byte) []byte {
		switch rnd.IntN(4) {
		case 0:
			return safe
		case 1:
			return now
		case 2:
			return zeroed(safe, now)
		}
		out := zeroed(safe, now)
		copy(out, now[:rnd.IntN(len(now)+1)])
		return out
	}
}

var losses = []loss{
	{"nothing kept", false, func(*rand.Rand, *crashtest.Disk) crashtest.Loss { return crashtest.Loss{} }},
	{"names without data", true, func(*rand.Rand, *crashtest.Disk) crashtest.Loss {
		return crashtest.Loss{Name: keepNames, Data: emptied}
	}},
	{"names with zeros", true, func(*rand.Rand, *crashtest.Disk) crashtest.Loss {
		return crashtest.Loss{Name: keepNames, Data: zeroed}
	}},
	{"data without names", false, func(*rand.Rand, *crashtest.Disk) crashtest.Loss { return crashtest.Loss{Data: now} }},
	{"some names in order", true, func(rnd *rand.Rand, d *crashtest.Disk) crashtest.Loss {
		names, _ := d.Unsafe()
		kept := rnd.IntN(names + 1)
		return crashtest.Loss{Name: func(i, _ int) bool { return i < kept }, Data: torn(rnd)}
	}},
	{"any names", false, func(rnd *rand.Rand, _ *crashtest.Disk) crashtest.Loss {
		return crashtest.Loss{Name: func(int, int) bool { return rnd.IntN(2) == 0 }, Data: torn(rnd)}
	}},
}

var onlyLoss = os.Getenv("BIDE_ENUMERATE_LOSS")

// TestEveryPowerCut cuts the power at each effect of a run, and after its end. One run
// gives what is left after many cuts, and each of these is resumed by itself. The short
// form takes one of the scenarios with worktrees, a different one each time.
func TestEveryPowerCut(t *testing.T) {
	t.Parallel()
	drawn := false
	for name, s := range scenarios {
		if s.powered {
			continue
		}
		if s.repo && !long() {
			if drawn {
				continue
			}
			drawn = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newStage(t, s)
			n, tried, alike, failed := x.effects(), 0, 0, 0
			known := map[[sha256.Size]byte]bool{}
			for places := range slices.Chunk(append(enumerated(t, n, 2), n+1000), 100) { // the last is after the end
				for _, c := range x.cuts(places) {
					sum := c.left.Sum()
					if known[sum] {
						alike++
						continue
					}
					known[sum] = true
					if tried++; !x.after(c) {
						if failed++; failed >= 20 {
							t.Fatal("and so on")
						}
					}
				}
			}
			t.Logf("%d power cuts, and %d more that leave the same; %d wrong", tried, alike, failed)
		})
	}
}

// powerCut is a power cut at the n-th effect of a run.
type powerCut struct {
	loss  string
	place string
	left  *crashtest.Remains
}

// cuts makes one run. For a power cut at each of the places, it gives what is left of the
// run, for each legal loss.
func (x *stage) cuts(places []int) (out []powerCut) {
	x.t.Helper()
	x.again()
	disks := map[bool]*crashtest.Disk{}
	for _, ordered := range []bool{false, true} {
		disk, err := crashtest.NewDisk(x.root)
		if err != nil {
			x.t.Fatal(err)
		}
		disk.Ordered, disk.Safe = ordered, x.ev
		disks[ordered] = disk
	}
	cut := func(at int, place string) {
		for i, l := range losses {
			if onlyLoss != "" && onlyLoss != l.name || !long() && i != at%len(losses) {
				continue
			}
			rnd := rand.New(rand.NewPCG(uint64(at), 0))
			out = append(out, powerCut{l.name, place, disks[l.ordered].Cut(l.of(rnd, disks[l.ordered]))})
		}
	}
	n := 0
	_, _ = x.playAll(func(e crashtest.Effect) crashtest.Verdict {
		if x.counts(e) {
			if n++; slices.Contains(places, n) {
				cut(n, "effect "+strconv.Itoa(n)+" ("+e.String()+")")
			}
		}
		for _, disk := range disks {
			disk.Apply(e)
		}
		return crashtest.Verdict{}
	}, x.command()...)
	x.quiet()
	if slices.Max(places) > n {
		cut(n, "the end")
	}
	for _, disk := range disks {
		if diff := disk.Differences(); len(diff) > 0 {
			x.t.Logf("the model of the disk is not what the directory has: %s", strings.Join(diff, "\n"))
		}
	}
	return out
}

// after resumes what a power cut left, and says whether the result is as expected.
func (x *stage) after(c powerCut) bool {
	x.t.Helper()
	if err := c.left.Write(); err != nil {
		x.t.Fatal(err)
	}
	story, ended := x.finish(-1, "")
	wrong := x.wrong()
	if ended && len(wrong) == 0 {
		return true
	}
	if !ended {
		wrong = append(wrong, "it does not come to its end")
	}
	x.t.Errorf("a power cut with %s at %s:\n%s\n%s", c.loss, c.place, strings.Join(wrong, "\n"), shorten(story))
	return false
}
