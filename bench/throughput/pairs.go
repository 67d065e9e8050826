package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// slower is by how much the program may have less throughput than the commit that it is
// measured against.
const slower = 0.03

// pairs measures the program against that of another commit: in each round both run
// each load, and the one that begins changes from round to round.
func (b *bench) pairs(commit string, items, rounds int) ([]promise, error) {
	earlier, err := b.at(commit)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%s; %d items of /bin/true, 2 at a time, %d pairs with %s\n\n", machine(), items, rounds, commit)
	loads := []struct {
		what, head, command string
	}{
		{"plain", "", "/bin/true ${item.id}"},
		{"durability: strict", "durability: strict\n", "/bin/true ${item.id}"},
		{"10 KB of output an item", "", "head -c 10000 /dev/zero # ${item.id}"},
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "load\titems/s, median\titems/s of the commit\tratio, median of pairs (least, most)\t")
	var promises []promise
	for _, l := range loads {
		var now, then, ratio []float64
		for round := range rounds {
			rate := map[*bench]float64{}
			order := []*bench{b, earlier}
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, one := range order {
				s, err := one.runMap("pair", items, l.head, "", l.command)
				if err != nil {
					return nil, err
				}
				rate[one] = s.rate()
			}
			now, then, ratio = append(now, rate[b]), append(then, rate[earlier]), append(ratio, rate[b]/rate[earlier])
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.3f (%.3f to %.3f)\t\n", l.what, middle(now), middle(then), middle(ratio), slices.Min(ratio), slices.Max(ratio))
		promises = append(promises, promise{"throughput beside " + commit + ", " + l.what, middle(ratio), 1 - slower, true})
	}
	return promises, t.Flush()
}

// at builds the program of another commit, in a checkout that is removed at once.
func (b *bench) at(commit string) (*bench, error) {
	root, err := root()
	if err != nil {
		return nil, err
	}
	tree := filepath.Join(b.dir, "commit")
	git := func(args ...string) error {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
		return nil
	}
	if err := git("worktree", "add", "--detach", tree, commit); err != nil {
		return nil, err
	}
	earlier := &bench{dir: b.dir, self: b.self, bide: filepath.Join(b.dir, "bide-"+strings.ReplaceAll(commit, "/", "-"))}
	return earlier, errors.Join(build(tree, earlier.bide), git("worktree", "remove", "--force", tree))
}
