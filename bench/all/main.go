// Command all runs all benchmarks, one after the other, and ends with one table of every
// figure that has a goal. Run it in the directory bench, on a machine with nothing else to do.
//
//	go run ./all           half an hour
//	go run ./all -quick    some minutes: fewer rounds and items
//	go run ./all -check    fails if a goal is not met
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bide-dev/bide/bench/rows"
)

func main() {
	quick := flag.Bool("quick", false, "fewer rounds and items")
	check := flag.Bool("check", false, "exit with 1 if a goal is not met")
	flag.Parse()
	list, err := measure(*quick)
	met := false
	if err == nil {
		fmt.Println()
		met, err = rows.Print(os.Stdout, list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "all:", err)
		os.Exit(2)
	}
	if *check && !met {
		os.Exit(1)
	}
}

func measure(quick bool) (list []rows.Row, err error) {
	dir, err := os.MkdirTemp("", "bide-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "rows")
	for _, p := range []struct {
		path        string
		whole, fast []string
	}{
		{".", nil, []string{"-rounds", "11"}},
		{"./startup", nil, []string{"-rounds", "31"}},
		{"./pipeline", nil, nil},
		{"./reading", nil, []string{"-quick"}},
		{"./throughput", []string{"-long"}, []string{"-quick"}},
		{"./whole", nil, []string{"-kills", "5"}},
	} {
		args := p.whole
		if quick {
			args = p.fast
		}
		fmt.Println("\ngo run", p.path, args)
		cmd := exec.Command("go", append([]string{"run", p.path, "-rows", file}, args...)...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("go run %s: %w", p.path, err)
		}
		some, err := rows.Load(file)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}
