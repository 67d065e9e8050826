package main

import (
	"bytes"
	"errors"
	"flag"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
)

// floorMain starts the commands as plainly as os/exec can, with their output
// captured, from two goroutines.
func floorMain(args []string) {
	fs := flag.NewFlagSet("floor", flag.ExitOnError)
	items := fs.Int("items", 1000, "how many")
	workers := fs.Int("workers", 2, "at a time")
	output := fs.String("output", "", "each prints this file")
	failing := fs.Bool("failing", false, "3 of 10 fail the first time")
	if err := fs.Parse(args); err != nil {
		fatal(err)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= *items {
					return
				}
				for attempt := 1; ; attempt++ {
					argv := []string{"/bin/true", strconv.Itoa(i)}
					switch {
					case *output != "":
						argv = []string{"/bin/cat", *output}
					case *failing:
						argv = flaky(strconv.Itoa(i%10), strconv.Itoa(attempt))
					}
					var stdout, stderr bytes.Buffer
					cmd := exec.Command(argv[0], argv[1:]...)
					cmd.Stdout, cmd.Stderr = &stdout, &stderr
					err := cmd.Run()
					if err == nil {
						break
					}
					if !*failing || attempt > 1 || !errors.As(err, new(*exec.ExitError)) {
						fatal(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// flaky is a command that fails at the first attempt where tenth, the last
// digit of the item's number, is below 3.
func flaky(tenth, attempt string) []string {
	return []string{"/usr/bin/test", tenth, "-ge", "3", "-o", attempt, "-ge", "2"}
}
