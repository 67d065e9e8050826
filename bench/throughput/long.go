package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// scale compares the rate at 100,000 items with that at 1,000.
func (b *bench) scale() ([]promise, error) {
	few := &contender{name: "1,000 items", run: func() (sample, error) { return b.run(1000, "") }}
	many := &contender{name: "100,000 items", run: func() (sample, error) { return b.run(100_000, "") }}
	// The few are measured before and after the many, for what the machine does
	// changes in the minutes between.
	for _, c := range []*contender{few, few, few, many, few, few, few} {
		s, err := c.run()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		c.all = append(c.all, s)
	}
	base := median(few.all, sample.rate)
	large := many.all[0]
	fmt.Printf("\n1,000 items: %.0f items/s; 100,000 items: %.0f items/s, peak %.0f MB\n", base, large.rate(), large.peakMB())
	return []promise{
		{"items/s at 100,000 items beside 1,000", large.rate() / base, 0.95, true},
		{"peak memory at 100,000 items, MB", large.peakMB(), 80, false},
	}, nil
}

// filter reads a file of 1,000,000 lines, about 100 MB, of which 1,000 are run.
func (b *bench) filter() ([]promise, error) {
	const lines, width = 1_000_000, 100
	path, err := b.workflow("filter", list{lines, width}, "", "  filter: \"item.group < 0\"\n", "/bin/true ${item.id}")
	if err != nil {
		return nil, err
	}
	read, err := b.timed("run", path)
	if err != nil {
		return nil, err
	}
	path, err = b.workflow("filter", list{lines, width}, "", "  filter: \"item.group == 7\"\n", "/bin/true ${item.id}")
	if err != nil {
		return nil, err
	}
	whole, err := b.timed("run", path)
	if err != nil {
		return nil, err
	}
	fmt.Printf("\n1,000,000 lines, 1,000 of them run: %.1f s, of which reading and filtering about %.1f s; peak %.0f MB\n",
		whole.wall.Seconds(), read.wall.Seconds(), whole.peakMB())
	return []promise{
		{"reading and filtering 1,000,000 lines, s", read.wall.Seconds(), 10, false},
		{"peak memory of that run, MB", whole.peakMB(), 200, false},
	}, nil
}

// timed measures a command of bide.
func (b *bench) timed(args ...string) (sample, error) {
	cmd, clean, err := b.command(args...)
	if err != nil {
		return sample{}, err
	}
	defer clean()
	return measure(cmd, 1)
}

// resume kills a run of which 200,000 items are finished, and takes the time
// from the start of `bide resume` to the start of the next item's process.
func (b *bench) resume() ([]promise, error) {
	const finished = 200_000
	sign := filepath.Join(b.dir, "started")
	// Items whose step is left out are finished without a process.
	path, err := b.workflow("resume", list{finished + 1, 0}, "", "", "echo >> "+sign+"; sleep 600\"\n      when: \"item.id >= "+strconv.Itoa(finished))
	if err != nil {
		return nil, err
	}
	first, clean, err := b.command("run", path)
	if err != nil {
		return nil, err
	}
	defer clean()
	if err := b.until(first, sign, 1); err != nil {
		return nil, err
	}
	second := exec.Command(b.bide, "resume")
	second.Env = first.Env
	start := time.Now()
	if err := b.until(second, sign, 2); err != nil {
		return nil, err
	}
	took := time.Since(start)
	fmt.Printf("\nresume of a run with %d finished items: the next item starts after %.2f s\n", finished, took.Seconds())
	return []promise{{"resume of 200,000 finished items, s", took.Seconds(), 2, false}}, nil
}

// until starts a command and kills it when the file has so many lines.
func (b *bench) until(cmd *exec.Cmd, sign string, lines int) error {
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("it ended before its time: %w\n%s", err, text.Bytes())
		case <-tick.C:
		}
		got, err := os.ReadFile(sign)
		if err == nil && bytes.Count(got, []byte("\n")) >= lines {
			if err := cmd.Process.Kill(); err != nil {
				return err
			}
			<-ended // killed by us: its error says nothing
			return nil
		}
	}
}
