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

// depth is how much of a stack the first of the goroutines needs for what it calls:
// commands, the file's decoder, the database.
const depth = 60 << 10

func main() {
	if proc.CompanionMain() {
		return
	}
	deepen(len(os.Args) == 0)
	runtime.AddCleanup(new([64]byte), func(struct{}) { ballast.Store(new([16 << 20]byte)) }, struct{}{})
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// deepen makes the goroutine's stack as large as depth while there is hardly anything
// on it. It would grow step by step otherwise, and all of it be moved with each: a
// sixth of a millisecond. The array is never made, so no memory is used before it is needed.
//
//go:noinline
func deepen(use bool) byte {
	if !use {
		return 0
	}
	var room [depth]byte
	for i := range room {
		room[i] = byte(i)
	}
	return room[len(os.Args)]
}
