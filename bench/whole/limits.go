package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// shared is a file of which two runs at once share a limit.
const shared = `name: shared
isolation: none
map:
  input: seq 1 %d
  max_parallel: 8
  limits: [api]
  agent_template:
    - %s
error_policy: {max_recoveries: 100000}
`

// limited writes the limits of the machine, and the file of two runs.
func (st *stage) limited(limit string, items int, step string) error {
	if err := os.WriteFile(filepath.Join(st.dir, "home", "limits.yml"), []byte("limits:\n  api: "+limit+"\n"), 0o644); err != nil {
		return err
	}
	return st.write("shared.yml", fmt.Sprintf(shared, items, step))
}

// both runs the file twice at the same time, and gives the exit statuses.
func (st *stage) both() (statuses [2]int, err error) {
	var errs [2]error
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() { statuses[i], _, errs[i] = st.run("run", "--quiet", "shared.yml") })
	}
	all.Wait()
	for _, e := range errs {
		if e != nil {
			return statuses, e
		}
	}
	return statuses, nil
}

// twoRunsRate: two runs of 8 at once, and a provider that lets 50 in within ten seconds, 6 of
// them at once.
func twoRunsRate(st *stage) ([]row, error) {
	if err := st.limited("{slots: 6, rate: 50/10s}", 50, "http: @URL@/${item}"); err != nil {
		return nil, err
	}
	st.server.set(20*time.Millisecond, nil)
	if _, err := st.both(); err != nil {
		return nil, err
	}
	most, all, took := st.server.window(10 * time.Second)
	return []row{
		exactly("requests", all, 100),
		atMost("at once", st.server.most, 6),
		atMost("within any ten seconds", most, 50),
		share("of what the rate allows", float64(all-1)/took.Seconds()/5, 0.95),
	}, nil
}

// twoRunsSlots: two runs of 8 at once, 6 slots, and no rate.
func twoRunsSlots(st *stage) ([]row, error) {
	const takes = 500 * time.Millisecond
	if err := st.limited("{slots: 6}", 60, "http: @URL@/${item}"); err != nil {
		return nil, err
	}
	st.server.set(takes, nil)
	if _, err := st.both(); err != nil {
		return nil, err
	}
	_, all, took := st.server.window(time.Second)
	return []row{
		exactly("requests", all, 120),
		atMost("at once", st.server.most, 6),
		share("of what the slots allow", float64(all)*takes.Seconds()/6/(took+takes).Seconds(), 0.95),
	}, nil
}

// killedWithSlots: either of two runs is killed, again and again. Their commands are
// processes, which the kill of a run does not reach.
func killedWithSlots(st *stage) ([]row, error) {
	if err := st.limited("{slots: 6}", 40*st.kills, "shell: \"@SELF@ work @ADDR@\""); err != nil {
		return nil, err
	}
	st.server.set(0, nil)
	start := func(args ...string) (*exec.Cmd, error) {
		c := st.command(args...)
		return c, c.Start()
	}
	var runs [2]*exec.Cmd
	names := [2]string{}
	for i := range runs {
		r, err := start("run", "--quiet", "shared.yml")
		if err != nil {
			return nil, err
		}
		runs[i] = r
		if names[i], err = st.newRun(names[:i]); err != nil {
			return nil, err
		}
	}
	for range st.kills {
		time.Sleep(time.Duration(50+rand.N(200)) * time.Millisecond)
		i := rand.N(2)
		if err := runs[i].Process.Signal(syscall.SIGKILL); err != nil {
			return nil, fmt.Errorf("run %d has ended by itself: %w", i, err)
		}
		_ = runs[i].Wait() // of a killed process
		r, err := start("resume", "--quiet", names[i])
		if err != nil {
			return nil, err
		}
		runs[i] = r
	}
	failed := 0
	for _, r := range runs {
		if r.Wait() != nil {
			failed++
		}
	}
	done := 0
	for _, name := range names {
		_, text, err := st.run("show", name, "--json")
		if err != nil {
			return nil, err
		}
		if strings.Contains(text, fmt.Sprintf(`"succeeded": %d`, 40*st.kills)) {
			done++
		}
	}
	_, text, err := st.run("limits")
	free := 0
	if strings.Contains(text, "0 of 6 slots held") {
		free = 1
	}
	return []row{
		atMost("commands at once", st.server.most, 6),
		exactly("runs with all of their items done", done, 2),
		exactly("runs that fail", failed, 0),
		exactly("all slots are free at the end", free, 1),
	}, err
}

// newRun waits for a run that is none of those known, and gives its name.
func (st *stage) newRun(known []string) (string, error) {
	dir := filepath.Join(st.dir, "home", "runs")
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		list, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		for _, e := range list {
			if slices.Contains(known, e.Name()) {
				continue
			}
			if status, _, err := st.run("show", e.Name()); err == nil && status == 0 {
				return e.Name(), nil
			}
		}
	}
	return "", errors.New("the run does not begin")
}
