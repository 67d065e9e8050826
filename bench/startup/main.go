// Command startup measures what `bide run` adds to the shortest command, from
// the start of the process to its end.
//
//	go run ./startup           20 seconds, on a machine that is idle
//	go run ./startup -check    fails if it adds more than is promised
//
// The file has one step, `- shell: "true"`; beside it runs `sh -c true`. The two
// take turns, and what is added is the median of the rounds' own differences,
// so that what else the machine does falls on both. The CPU is that of the
// process and of all that it has waited for, user and system together.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/bide-dev/bide/bench/rows"
)

// promised is the most that a run may add.
const promised = 8 * time.Millisecond

type sample struct{ wall, cpu time.Duration }

func main() {
	rounds := flag.Int("rounds", 201, "how often both run")
	binary := flag.String("bide", "", "a bide that is built already (default: built from the directory above)")
	home := flag.String("home", "", "a directory for the state of the runs (default: a temporary one)")
	file := flag.String("rows", "", "write the figure to this file as well")
	check := flag.Bool("check", false, "exit with 1 if a run adds more than is promised")
	flag.Parse()
	added, err := measure(*binary, *home, max(*rounds, 1))
	if err != nil {
		fmt.Fprintln(os.Stderr, "startup:", err)
		os.Exit(2)
	}
	row := rows.Row{What: "bide run of one step beyond sh -c true, ms", Got: millis(added), Goal: millis(promised)}
	if err := rows.Save(*file, "startup", []rows.Row{row}); err != nil {
		fmt.Fprintln(os.Stderr, "startup:", err)
		os.Exit(2)
	}
	fmt.Printf("a run adds %v; promised are %v at most\n", added.Round(10*time.Microsecond), promised)
	if *check && added > promised {
		os.Exit(1)
	}
}

func measure(binary, home string, rounds int) (added time.Duration, err error) {
	dir, err := os.MkdirTemp("", "bide-startup-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if binary, err = program(binary, dir); err != nil {
		return 0, err
	}
	file := filepath.Join(dir, "one.yml")
	if err := os.WriteFile(file, []byte("- shell: \"true\"\n"), 0o600); err != nil {
		return 0, err
	}
	if home == "" {
		home = filepath.Join(dir, "home")
	}
	contenders := [2][]string{{"sh", "-c", "true"}, {binary, "run", file}}
	var samples [2][]sample
	for i := range rounds + 1 {
		for c, args := range contenders {
			s, err := once(args, home)
			if err != nil {
				return 0, err
			}
			if i > 0 { // the first is to warm up
				samples[c] = append(samples[c], s)
			}
		}
	}
	return report(samples)
}

// program is the bide to measure.
func program(binary, dir string) (string, error) {
	if binary != "" {
		return filepath.Abs(binary)
	}
	binary = filepath.Join(dir, "bide")
	cmd := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/bide")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as "make build" does
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building bide (run this in the directory bench, or give -bide): %w\n%s", err, out)
	}
	return binary, nil
}

func once(args []string, home string) (sample, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "BIDE_HOME="+home)
	begin := time.Now()
	err := cmd.Run()
	s := sample{wall: time.Since(begin)}
	if err != nil {
		return s, fmt.Errorf("%v: %w", args, err)
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return s, nil
}

func report(samples [2][]sample) (time.Duration, error) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\tleast ms\tmedian ms\tCPU ms")
	for i, name := range []string{"sh -c true", "bide run"} {
		wall := values(samples[i], func(s sample) time.Duration { return s.wall })
		cpu := values(samples[i], func(s sample) time.Duration { return s.cpu })
		fmt.Fprintf(out, "%s\t%.2f\t%.2f\t%.2f\n", name, millis(wall[0]), millis(median(wall)), millis(median(cpu)))
	}
	var added []time.Duration
	for i := range samples[0] {
		added = append(added, samples[1][i].wall-samples[0][i].wall)
	}
	slices.Sort(added)
	return median(added), out.Flush()
}

func values(list []sample, of func(sample) time.Duration) []time.Duration {
	out := make([]time.Duration, len(list))
	for i, s := range list {
		out[i] = of(s)
	}
	slices.Sort(out)
	return out
}

// median is that of a sorted list.
func median(list []time.Duration) time.Duration { return list[len(list)/2] }

func millis(d time.Duration) float64 { return float64(d) / 1e6 }
