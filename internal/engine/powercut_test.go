package engine_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/crashtest"
)

// A power cut ends all processes at one effect, and leaves of the directory what was
// synced, and of the rest what a file system may have kept: see [crashtest.Disk].

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

// torn keeps a prefix of each file, or all of it, or nothing new.
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

// TestEveryPowerCut cuts the power at each effect of a run, and after its end.
func TestEveryPowerCut(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios {
		for _, l := range losses {
			if s.repo && !long() { // a power cut in a worktree may yet leave a run stuck: make enumerate shows where
				continue
			}
			if onlyLoss != "" && onlyLoss != l.name {
				continue
			}
			t.Run(name+"/"+l.name, func(t *testing.T) {
				t.Parallel()
				x := newStage(t, s)
				n := x.effects()
				places := enumerated(t, n, 2)
				failed := 0
				for _, at := range append(places, n+1000) { // the last is after the end
					if !x.cut(l, at) {
						if failed++; failed >= 20 {
							t.Fatal("and so on")
						}
					}
				}
			})
		}
	}
}

// cut is one run with a power cut at one effect.
func (x *stage) cut(l loss, at int) bool {
	x.t.Helper()
	x.again()
	disk, err := crashtest.NewDisk(x.root)
	if err != nil {
		x.t.Fatal(err)
	}
	disk.Ordered, disk.Safe = l.ordered, x.ev
	n := 0
	var where crashtest.Effect
	status, said := x.playAll(func(e crashtest.Effect) crashtest.Verdict {
		if x.counts(e) {
			if n++; n == at {
				where = e
				return crashtest.Verdict{End: crashtest.Everyone}
			}
		}
		disk.Apply(e)
		return crashtest.Verdict{}
	}, x.command()...)
	x.quiet()
	if diff := disk.Differences(); len(diff) > 0 {
		x.t.Logf("the model of the disk is not what the directory has: %s", strings.Join(diff, "\n"))
	}
	story := fmt.Sprintf("$ bide %s: %d\n%s", x.command()[0], status, said)
	if err := disk.Cut(l.of(rand.New(rand.NewPCG(uint64(at), 0)), disk)); err != nil {
		x.t.Fatal(err)
	}
	story, ended := x.finish(-1, story)
	wrong := x.wrong()
	if ended && len(wrong) == 0 {
		return true
	}
	if !ended {
		wrong = append(wrong, "it does not come to its end")
	}
	place := "effect " + strconv.Itoa(at) + " (" + where.String() + ")"
	if where.Kind == 0 {
		place = "the end"
	}
	x.t.Errorf("a power cut with %s at %s:\n%s\n%s", l.name, place, strings.Join(wrong, "\n"), shorten(story))
	return false
}
