// Command bide takes flaky work to its end. See package internal/cli.
package main

import (
	"os"
	"runtime"
	"sync/atomic"

	"github.com/bide-dev/bide/internal/cli"
	"github.com/bide-dev/bide/internal/proc"
)

// ballast is a piece of memory that is never read or written, and so takes
// none: the heap grows by as much before the collector runs. A map over many
// short commands leaves some kilobytes for each; without ballast, its small heap
// would be collected every few hundred of them.
//
// To take it on board brings about a collection, so it comes with the first one
// that there is anyway: a short run is over before that, however slow the machine.
var ballast atomic.Pointer[[16 << 20]byte]

// leastProcs is the least number of goroutines that may be running. One that starts a
// process is held up until the process has begun, and one that waits for the disk
// is in a system call and counts as running until the runtime's monitor takes its
// place away, which costs more than the place does.
const leastProcs = 4

func main() {
	if proc.CompanionMain() {
		return
	}
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < leastProcs {
		runtime.GOMAXPROCS(leastProcs)
	}
	runtime.AddCleanup(new([64]byte), func(struct{}) { ballast.Store(new([16 << 20]byte)) }, struct{}{})
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
