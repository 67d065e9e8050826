package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// An edge is a map that is not the plainest, beside the bare starts of the same
// processes.
type edge struct {
	name  string
	goal  float64 // least of bide's items a second beside the floor's
	floor func(items int) (sample, error)
	bide  func(items int) (sample, error)
}

// edges gives them all.
func (b *bench) edges() ([]edge, error) {
	var out []edge
	for _, o := range []struct {
		name  string
		bytes int
		line  string
		fewer int // than items, for what takes long
		goal  float64
	}{
		{"10 KB of text an item", 10 << 10, "what an item prints is kept whole, and none of it is lost......\n", 1, 0.95},
		{"10 KB of NUL bytes an item", 10 << 10, strings.Repeat("\x00", 64), 1, 0.9},
		{"1 MB of text an item", 1 << 20, "what an item prints is kept whole, and none of it is lost......\n", 20, 0.9},
		{"1 MB of NUL bytes an item", 1 << 20, strings.Repeat("\x00", 64), 20, 0.8},
	} {
		path := filepath.Join(b.dir, fmt.Sprint("printed-", len(out)))
		if err := os.WriteFile(path, bytes.Repeat([]byte(o.line), o.bytes/64), 0o600); err != nil {
			return nil, err
		}
		out = append(out, edge{o.name, o.goal,
			func(n int) (sample, error) { return b.floor(max(n/o.fewer, 10), "-output", path) },
			func(n int) (sample, error) { return b.runMap("output", max(n/o.fewer, 10), "", "", "/bin/cat "+path) }})
	}
	flakyFloor := func(n int) (sample, error) { return b.floor(n, "-failing") }
	again := strings.Join(flaky("${item.tenth}", "${attempt:-1}"), " ")
	below := strings.Join(flaky("${item.tenth}", "1"), " ")
	return append(out, []edge{
		{"3 of 10 fail, item retry after 1 ms", 0.93, flakyFloor,
			func(n int) (sample, error) {
				return b.runMap("items", n, "", "  retry_config: {attempts: 2, backoff: fixed, initial_delay: 1ms}\n", again)
			}},
		{"3 of 10 fail, step retry without delay", 0.93, flakyFloor,
			func(n int) (sample, error) {
				return b.runMap("steps", n, "", "", below+"\"\n      retry: {attempts: 2, backoff: fixed, initial_delay: 0s, on_failure: continue}\n      name: \"flaky")
			}},
		{"sleep 50 ms, 64 at once, beside the ideal", 0.93,
			func(n int) (sample, error) {
				return sample{items: n, wall: time.Duration(n) * 50 * time.Millisecond / asleep}, nil
			},
			func(n int) (sample, error) {
				path, err := b.workflowOf("sleep", list{n, 0}, asleep, "", "", "/bin/sleep 0.05")
				if err != nil {
					return sample{}, err
				}
				cmd, clean, err := b.command("run", path)
				if err != nil {
					return sample{}, err
				}
				defer clean()
				return measure(cmd, n)
			}},
	}...), nil
}

// asleep is how many items sleep at once.
const asleep = 64

// compareEdges runs each edge and its floor in turn.
func (b *bench) compareEdges(items, rounds int) ([]promise, error) {
	all, err := b.edges()
	if err != nil {
		return nil, err
	}
	var promises []promise
	for _, e := range all {
		floor := &contender{name: e.name + ": the floor", run: func() (sample, error) { return e.floor(items) }}
		ours := &contender{name: e.name + ": bide run", run: func() (sample, error) { return e.bide(items) }}
		if err := rotate(rounds, floor, ours); err != nil {
			return nil, err
		}
		fmt.Println()
		table([]*contender{floor, ours}, floor)
		promises = append(promises, promise{e.name + ", items/s beside the floor", ratio(ours, floor), e.goal, true})
	}
	return promises, nil
}
