// Command bide takes flaky work to its end. See package internal/cli.
package main

import (
	"os"
	"runtime"

	"github.com/bide-dev/bide/internal/cli"
	"github.com/bide-dev/bide/internal/proc"
)

// ballast is the size of a piece of memory that is never read or written, and so
// takes none: the heap grows by as much before the collector runs. A map over
// many short commands leaves some kilobytes for each; without ballast, its small
// heap would be collected every few hundred of them.
const ballast = 8 << 20

func main() {
	if proc.CompanionMain() {
		return
	}
	held := make([]byte, ballast)
	status := cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	runtime.KeepAlive(held)
	os.Exit(status)
}
