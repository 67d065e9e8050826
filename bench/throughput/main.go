// Command throughput measures a map over many short commands beside bare
// process starts and GNU parallel, and prints one table.
//
//	go run ./throughput              some minutes: 10,000 items, 5 rounds
//	go run ./throughput -quick       some seconds: 1,000 items, 3 rounds
//	go run ./throughput -check       fails if a figure that we promise is not met
//	go run ./throughput -long        also 100,000 items, 1,000,000 lines, a long resume
//	go run ./throughput -against REV this program beside that of a commit, in pairs
//
// Every item is `/bin/true ID` with its output captured, two at a time. The
// floor is this program itself, which does the same with os/exec and nothing
// else. Each round runs all contenders one after the other, so that what else
// the machine does falls on all of them; the ratios are medians of the rounds'
// own ratios. On a busy machine the ratios count, not the rates.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bide-dev/bide/bench/rows"
)

// A promise is a figure that must be met.
type promise struct {
	what  string
	got   float64
	limit float64
	least bool // limit is the least; else the most
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "floor" {
		floorMain(os.Args[2:])
		return
	}
	if runtime.GOOS != "linux" {
		fatal(errors.New("it reads /proc, and so runs on Linux only"))
	}
	items := flag.Int("items", 10_000, "items a run")
	rounds := flag.Int("rounds", 5, "how often all contenders run")
	binary := flag.String("bide", "", "a bide that is built already (default: built from the directory above)")
	quick := flag.Bool("quick", false, "1,000 items, 3 rounds")
	long := flag.Bool("long", false, "also what takes minutes: 100,000 items, 1,000,000 lines, a resume of 200,000 items")
	file := flag.String("rows", "", "write the figures to this file as well")
	check := flag.Bool("check", false, "exit with 1 if a figure that we promise is not met")
	against := flag.String("against", "", "measure nothing but this program beside that of a commit, in pairs")
	flag.Parse()
	if *quick {
		*items, *rounds = 1000, 3
	}
	b, err := newBench(*binary)
	if err != nil {
		fatal(err)
	}
	var promises []promise
	if *against != "" {
		promises, err = b.pairs(*against, *items, *rounds)
	} else {
		promises, err = b.all(*items, *rounds, *long)
	}
	if cerr := os.RemoveAll(b.dir); err == nil {
		err = cerr
	}
	if err != nil {
		fatal(err)
	}
	var list []rows.Row
	for _, p := range promises {
		list = append(list, rows.Row{What: p.what, Got: p.got, Goal: p.limit, Least: p.least})
	}
	fmt.Println()
	kept, err := rows.Print(os.Stdout, list)
	if err = errors.Join(err, rows.Save(*file, "throughput", list)); err != nil {
		fatal(err)
	}
	if *check && !kept {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "throughput:", err)
	os.Exit(1)
}

// bench is a directory with what the contenders need.
type bench struct {
	dir  string
	bide string
	self string
}

func newBench(binary string) (*bench, error) {
	dir, err := os.MkdirTemp("", "bide-throughput-")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, bide: binary}
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if binary == "" {
		b.bide = filepath.Join(dir, "bide")
		root, err := root()
		if err != nil {
			return nil, err
		}
		if err := build(root, b.bide); err != nil {
			return nil, err
		}
	} else if b.bide, err = filepath.Abs(binary); err != nil {
		return nil, err
	}
	return b, nil
}

// root is the directory of the module of bide.
func root() (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bide-dev/bide").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module of bide: %w", err)
	}
	return strings.TrimSpace(string(dir)), nil
}

// build builds the program of a checkout.
func build(dir, binary string) error {
	build := exec.Command("go", "build", "-o", binary, "./cmd/bide")
	build.Dir = dir                                   // a module of its own, with its own dependencies
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", dir, err, out)
	}
	return nil
}

// all measures everything and prints a table for each part.
func (b *bench) all(items, rounds int, long bool) ([]promise, error) {
	fmt.Printf("%s; %d items of /bin/true, 2 at a time, %d rounds\n\n", machine(), items, rounds)
	parts := []func() ([]promise, error){
		func() ([]promise, error) { return b.compare(items, rounds) },
		func() ([]promise, error) { return b.compareEdges(items, rounds) },
		func() ([]promise, error) { return b.worktrees(rounds) },
	}
	if long {
		parts = append(parts, b.scale, b.filter, b.resume)
	}
	var promises []promise
	for _, part := range parts {
		more, err := part()
		if err != nil {
			return nil, err
		}
		promises = append(promises, more...)
	}
	return promises, nil
}

// machine says in a line where this was measured, and how busy it was.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimSpace(strings.TrimLeft(name, " \t:"))
				break
			}
		}
	}
	load := "load unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = "load " + strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return fmt.Sprintf("%s, %s", model, load)
}

// contender is one way to run the items.
type contender struct {
	name string
	run  func() (sample, error)
	all  []sample
}

// compare runs all contenders in turn.
func (b *bench) compare(items, rounds int) ([]promise, error) {
	floor := &contender{name: "bare os/exec (the floor)", run: func() (sample, error) { return b.floor(items) }}
	plain := &contender{name: "bide run", run: func() (sample, error) { return b.run(items, "") }}
	strict := &contender{name: "bide run, durability: strict", run: func() (sample, error) { return b.run(items, "durability: strict\n") }}
	list := []*contender{floor, plain, strict}
	var parallel *contender
	few := min(items, 1000) // it is slow, and its rate does not depend on the number
	if path, err := exec.LookPath("parallel"); err != nil {
		fmt.Println("GNU parallel is left out: it is not installed (apt-get install parallel)")
	} else {
		parallel = &contender{name: "GNU parallel -j2 --joblog", run: func() (sample, error) { return b.parallel(path, few) }}
		list = append(list, parallel)
	}
	if err := rotate(rounds, list...); err != nil {
		return nil, err
	}
	table(list, floor)
	promises := []promise{
		{"items/s of bide beside the floor", ratio(plain, floor), 0.95, true},
		{"the same with durability: strict", ratio(strict, floor), 0.8, true},
		{"own CPU of bide beyond the floor's, µs an item", added(plain, floor), 150, false},
	}
	if parallel != nil {
		promises = append(promises, promise{"items/s of bide beside GNU parallel", ratio(plain, parallel), 10, true})
	}
	return promises, nil
}

// rotate runs contenders in turn.
func rotate(rounds int, list ...*contender) error {
	for range rounds {
		for _, c := range list {
			s, err := c.run()
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			c.all = append(c.all, s)
		}
	}
	return nil
}

// added is the median of what a round's own CPU has beyond that of the floor
// in the same round: to start a process and to read its output costs the
// parent CPU whoever does it, and how much is the machine's affair.
func added(a, floor *contender) float64 {
	var list []float64
	for i := range a.all {
		list = append(list, a.all[i].ownMicros()-floor.all[i].ownMicros())
	}
	return middle(list)
}

// ratio is the median of the rounds' ratios of the rates.
func ratio(a, b *contender) float64 {
	var list []float64
	for i := range a.all {
		list = append(list, a.all[i].rate()/b.all[i].rate())
	}
	return middle(list)
}

func median(list []sample, of func(sample) float64) float64 {
	var out []float64
	for _, s := range list {
		out = append(out, of(s))
	}
	return middle(out)
}

func middle(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

func table(list []*contender, floor *contender) {
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "what\titems/s\tmin..max\tbeside the floor\town CPU µs/item\tpeak MB")
	for _, c := range list {
		rates := make([]float64, 0, len(c.all))
		for _, s := range c.all {
			rates = append(rates, s.rate())
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f..%.0f\t%.2f\t%.0f\t%.0f\n", c.name, middle(rates), slices.Min(rates), slices.Max(rates),
			ratio(c, floor), median(c.all, sample.ownMicros), median(c.all, sample.peakMB))
	}
	_ = t.Flush() // standard output: nobody is left to be told
}
