package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	const printed = 10 << 10
	text := filepath.Join(b.dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("what an item prints is kept whole, and none of it is lost......\n"), printed/64), 0o600); err != nil {
		return nil, err
	}
	flakyFloor := func(n int) (sample, error) { return b.floor(n, "-failing") }
	again := strings.Join(flaky("${item.tenth}", "${attempt:-1}"), " ")
	below := strings.Join(flaky("${item.tenth}", "1"), " ")
	return []edge{
		{"10 KB of output an item", 0.9,
			func(n int) (sample, error) { return b.floor(n, "-output", text) },
			func(n int) (sample, error) { return b.runMap("output", n, "", "", "/bin/cat "+text) }},
		{"3 of 10 fail, item retry after 1 ms", 0.93, flakyFloor,
			func(n int) (sample, error) {
				return b.runMap("items", n, "", "  retry_config: {attempts: 2, backoff: fixed, initial_delay: 1ms}\n", again)
			}},
		{"3 of 10 fail, step retry without delay", 0.9, flakyFloor,
			func(n int) (sample, error) {
				return b.runMap("steps", n, "", "", below+"\"\n      retry: {attempts: 2, backoff: fixed, initial_delay: 0s, on_failure: continue}\n      name: \"flaky")
			}},
	}, nil
}

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
