package main

import (
	"bytes"
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
				var stdout, stderr bytes.Buffer
				cmd := exec.Command("/bin/true", strconv.Itoa(i))
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				if err := cmd.Run(); err != nil {
					fatal(err)
				}
			}
		})
	}
	wg.Wait()
}
