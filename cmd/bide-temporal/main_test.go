package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/bide-dev/bide/internal/cli"
	"github.com/bide-dev/bide/internal/proc"
)

func TestMain(m *testing.M) {
	if proc.CompanionMain() {
		return
	}
	switch filepath.Base(os.Args[0]) { // a test starts it under the name of a program
	case "bide":
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	case "bide-temporal":
		if n := os.Getenv("BIDE_TEST_PROTOCOL"); n != "" { // as one of another version
			workflowType, laneType, mainQueue, laneQueue = "bide.run.v"+n, "bide.lane.v"+n, "bide.p"+n, "bide.p"+n+".lanes"
		}
		if n, err := strconv.Atoi(os.Getenv("BIDE_TEST_EVENTS")); err == nil { // hands over early
			manyEvents = n
		}
		if err := command(os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "bide: %s\n", err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if buckets.Server != nil {
		buckets.Close()
	}
	os.Exit(code)
}
