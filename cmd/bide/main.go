// Command bide takes flaky work to its end. See package internal/cli.
package main

import (
	"os"

	"github.com/bide-dev/bide/internal/cli"
	"github.com/bide-dev/bide/internal/proc"
)

func main() {
	if proc.CompanionMain() {
		return
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
