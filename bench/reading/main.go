// Command reading measures what the program reads of runs that are there, and what these
// have on the disk. The figures are those of whole commands: from the start of the process to its end.
//
//	go run ./reading           two minutes: runs of 1,000,000 and of 200,000 items
//	go run ./reading -quick    a tenth of the items
//	go run ./reading -check    fails if a goal is not met
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bide-dev/bide/bench/rows"
)

func main() {
	quick := flag.Bool("quick", false, "a tenth of the items")
	check := flag.Bool("check", false, "exit with 1 if a goal is not met")
	binary := flag.String("bide", "", "a bide that is built already (default: built from the directory above)")
	file := flag.String("rows", "", "write the figures to this file as well")
	flag.Parse()
	list, err := all(*binary, *quick)
	met := false
	if err == nil {
		met, err = rows.Print(os.Stdout, list)
	}
	if err = errors.Join(err, rows.Save(*file, "reading", list)); err != nil {
		fmt.Fprintln(os.Stderr, "reading:", err)
		os.Exit(2)
	}
	if *check && !met {
		os.Exit(1)
	}
}

// bench is a directory with a program and the homes of its runs.
type bench struct {
	dir, bide string
	rows      []rows.Row
}

func all(binary string, quick bool) (list []rows.Row, err error) {
	dir, err := os.MkdirTemp("", "bide-reading-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{dir: dir, bide: filepath.Join(dir, "bide")}
	if binary != "" {
		if b.bide, err = filepath.Abs(binary); err != nil {
			return nil, err
		}
	} else if err := build(b.bide); err != nil {
		return nil, err
	}
	million, many := 1_000_000, 200_000
	if quick {
		million, many = million/10, many/10
	}
	for _, part := range []func() error{
		func() error { return b.finished(million) },
		func() error { return b.runs(many) },
		func() error { return b.resume(many) },
		b.disk,
		func() error { return b.simulate(million / 4) },
		b.program,
	} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	return b.rows, nil
}

func build(binary string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/bide")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

func (b *bench) add(got, goal float64, what string, args ...any) {
	b.rows = append(b.rows, rows.Row{What: fmt.Sprintf(what, args...), Got: got, Goal: goal})
}

// command is the program with a home of its own.
func (b *bench) command(home string, args ...string) *exec.Cmd {
	cmd := exec.Command(b.bide, args...)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "BIDE_HOME="+filepath.Join(b.dir, home))
	return cmd
}

// run runs the program until it ends. Exit status 3, some items failed, is no error.
func (b *bench) run(home string, args ...string) error {
	out, err := b.command(home, args...).CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 3 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bide %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// rounds is how often a command is measured; the first time is the first after the run.
const rounds = 11

// timed is how long a command takes the first time, and the median of the others, in
// milliseconds.
func (b *bench) timed(home string, args ...string) (first, then float64, err error) {
	var list []float64
	for range rounds {
		began := time.Now()
		if err := b.run(home, args...); err != nil {
			return 0, 0, err
		}
		list = append(list, float64(time.Since(began))/1e6)
	}
	first, list = list[0], list[1:]
	slices.Sort(list)
	return first, list[len(list)/2], nil
}

// workflow writes a map over so many items.
func (b *bench) workflow(name string, items int, more, steps string) (string, error) {
	var input bytes.Buffer
	for i := range items {
		fmt.Fprintf(&input, "{\"id\":%d,\"group\":%d,\"name\":\"item-%d\"}\n", i, i%1000, i)
	}
	path := filepath.Join(b.dir, name)
	text := "name: " + name + "\nmode: mapreduce\nmap:\n  input: " + path + ".jsonl\n  json_path: \"$\"\n  max_parallel: 2\n" + more + "  agent_template:\n" + steps
	return path + ".yml", errors.Join(os.WriteFile(path+".jsonl", input.Bytes(), 0o600), os.WriteFile(path+".yml", []byte(text), 0o600))
}

// finished reads a run of so many items that has ended, 100 of them as dead letters. Items
// whose step is left out end without a process.
func (b *bench) finished(items int) error {
	path, err := b.workflow("finished", items, "", "    - shell: \"exit 7\"\n      when: \"item.id < 100\"\n")
	if err != nil {
		return err
	}
	if err := b.run("finished", "run", "-q", path); err != nil {
		return err
	}
	for _, args := range [][]string{{"show"}, {"dlq", "list"}} {
		first, then, err := b.timed("finished", args...)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s of a finished run of %d items", strings.Join(args, " "), items)
		b.add(first, 50, "%s, the first time, ms", what)
		b.add(then, 50, "%s, then, ms", what)
	}
	return os.RemoveAll(filepath.Join(b.dir, "finished"))
}

// runs lists 200 runs, one of them of so many items, the first of which failed.
func (b *bench) runs(items int) error {
	path, err := b.workflow("large", items, "", "    - shell: \"exit 7\"\n      when: \"item.id < 100\"\n")
	if err != nil {
		return err
	}
	if err := b.run("runs", "run", "-q", path); err != nil {
		return err
	}
	one := filepath.Join(b.dir, "one.yml")
	if err := os.WriteFile(one, []byte("- shell: \"true\"\n"), 0o600); err != nil {
		return err
	}
	for range 199 {
		if err := b.run("runs", "run", "-q", one); err != nil {
			return err
		}
	}
	for _, command := range []string{"runs", "status"} {
		first, then, err := b.timed("runs", command)
		if err != nil {
			return err
		}
		fmt.Printf("%s with 200 runs: %.1f ms the first time\n", command, first)
		b.add(then, 50, "%s with 200 runs, one of %d items, ms", command, items)
	}
	return os.RemoveAll(filepath.Join(b.dir, "runs"))
}

// resume kills a run of which so many items have ended, and takes the time from the start
// of bide resume to that of the next item's process.
func (b *bench) resume(items int) error {
	sign := filepath.Join(b.dir, "started")
	// One item is running whenever the run goes down.
	path, err := b.workflow("resume", items+1, "", fmt.Sprintf("    - shell: \"echo >> %s; sleep 600\"\n      when: \"item.id >= %d\"\nerror_policy: {max_recoveries: 100}\n", sign, items))
	if err != nil {
		return err
	}
	var list []float64
	for n := range 6 {
		args := []string{"resume", "-q"}
		if n == 0 {
			args = []string{"run", "-q", path}
		}
		took, err := b.until(n+1, sign, args...)
		if err != nil {
			return err
		}
		if n > 0 {
			list = append(list, took.Seconds())
		}
	}
	slices.Sort(list)
	b.add(list[len(list)/2], 0.3, "resume of %d items that have ended, to the next one's process, s", items)
	return os.RemoveAll(filepath.Join(b.dir, "resume"))
}

// until starts the program and kills it when the file has so many lines.
func (b *bench) until(lines int, sign string, args ...string) (time.Duration, error) {
	cmd := b.command("resume", args...)
	var text bytes.Buffer
	cmd.Stderr = &text
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return 0, fmt.Errorf("bide %s ended before its time: %w\n%s", strings.Join(args, " "), err, text.Bytes())
		case <-time.After(time.Millisecond):
		}
		if got, err := os.ReadFile(sign); err == nil && bytes.Count(got, []byte("\n")) >= lines {
			took := time.Since(began)
			err := cmd.Process.Kill()
			<-ended // killed by us: its error says nothing
			return took, err
		}
	}
}

// size is what the files of a run have.
type size struct {
	all     int64 // blocks on the disk, directories included
	bytes   int64 // in files
	journal int64 // of them
}

// sizeOf makes a run, shows it, and gives its size.
func (b *bench) sizeOf(args ...string) (s size, err error) {
	home := filepath.Join(b.dir, "sized")
	for _, command := range [][]string{append([]string{"run", "-q"}, args...), {"show"}} {
		if err := b.run("sized", command...); err != nil {
			return s, err
		}
	}
	runs, err := filepath.Glob(filepath.Join(home, "runs", "*"))
	if err != nil || len(runs) != 1 {
		return s, fmt.Errorf("%d runs: %w", len(runs), err)
	}
	err = filepath.WalkDir(runs[0], func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			s.all += st.Blocks * 512
		}
		if !d.IsDir() {
			s.bytes += info.Size()
		}
		if name := d.Name(); name == "journal.db" || name == "journal.db-wal" {
			s.journal += info.Size()
		}
		return nil
	})
	return s, errors.Join(err, os.RemoveAll(home))
}

// mapSize is what each of so many items adds to a run.
func (b *bench) mapSize(name, command string) (s size, err error) {
	const items = 1000
	var of [2]size
	for i, n := range []int{1, 1 + items} {
		path, err := b.workflow(name, n, "", fmt.Sprintf("    - shell: %q\n", command))
		if err != nil {
			return s, err
		}
		if of[i], err = b.sizeOf(path); err != nil {
			return s, err
		}
	}
	return size{bytes: (of[1].bytes - of[0].bytes) / items, journal: (of[1].journal - of[0].journal) / items}, nil
}

// disk is what runs have on the disk.
func (b *bench) disk() error {
	text := filepath.Join(b.dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("what an item prints is kept whole, and none of it is lost......\n"), 625), 0o600); err != nil {
		return err
	}
	large, err := b.mapSize("large", "cat "+text)
	if err != nil {
		return err
	}
	letter, err := b.mapSize("letters", "exit 7")
	if err != nil {
		return err
	}
	one := filepath.Join(b.dir, "one.yml")
	if err := os.WriteFile(one, []byte("- shell: \"true\"\n"), 0o600); err != nil {
		return err
	}
	step, err := b.sizeOf(one)
	if err != nil {
		return err
	}
	b.add(float64(large.bytes)/1000, 44, "an item with 40 KB of output, its log included, KB")
	b.add(float64(letter.journal)/1000, 0.8, "a dead letter in the journal, its item included, KB")
	b.add(float64(step.all)/1000, 30, "a run of one step on the disk, KB")
	return nil
}

// simulate is the processor time of one more attempt, of which three in ten fail, in simulations
// of so many items in all: so many microseconds are 300,000 attempts a second and core.
func (b *bench) simulate(items int) error {
	const each = 1e6 / 300_000.0
	retry := "retry: {attempts: 5, initial_delay: 10ms, jitter: full}"
	for _, of := range []struct{ what, text string }{
		{"step", "    - {shell: x, " + retry + "}\n"},
		{"item", "    - {shell: x}\n  " + retry + "\n"},
	} {
		path := filepath.Join(b.dir, of.what+".yml")
		if err := os.WriteFile(path, []byte("name: simulated\nmap:\n  input: made-up.json\n  max_parallel: 50\n  agent_template:\n"+of.text), 0o600); err != nil {
			return err
		}
		for _, n := range []int{1000, 10_000} {
			model := filepath.Join(b.dir, "model.yml")
			if err := os.WriteFile(model, fmt.Appendf(nil, "steps: {'*': {failures: {error: 0.3}, latency: 5ms}}\nitems: %d\n", n), 0o600); err != nil {
				return err
			}
			runs := max(items/n, 50) // an advice takes no more of them
			fewer, _, err := b.simulated(path, model, runs)
			if err != nil {
				return err
			}
			more, attempts, err := b.simulated(path, model, 2*runs)
			if err != nil {
				return err
			}
			attempts /= 2 // what the rest of them took is not of attempts: the start, and an advice
			b.add((more-fewer).Seconds()*1e6/attempts, each, "simulate: an attempt with %s retries, runs of %d items, µs", of.what, n)
		}
	}
	return nil
}

// simulated is the processor time of bide simulate for so many runs, and their attempts.
func (b *bench) simulated(path, model string, runs int) (took time.Duration, attempts float64, err error) {
	cmd := b.command("none", "simulate", path, "--model", model, "--seeds", fmt.Sprint(runs), "--json")
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("bide simulate: %w", err)
	}
	var told struct{ Attempts struct{ Mean float64 } }
	if err := json.Unmarshal(out, &told); err != nil {
		return 0, 0, fmt.Errorf("bide simulate: %w", err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), told.Attempts.Mean * float64(runs), nil
}

// program is what the program is by itself.
func (b *bench) program() error {
	info, err := os.Stat(b.bide)
	if err != nil {
		return err
	}
	_, took, err := b.timed("none", "--version")
	b.add(float64(info.Size())/1e6, 30, "the program without symbols, MB")
	b.add(took, 4, "bide --version, ms")
	return err
}
