//go:build unix

package proc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one line of the table of processes.
type process struct {
	pid, ppid, pgrp int
	start           uint64 // ticks, as now counts them
	zombie          bool   // it has ended, and waits for its parent to notice
}

// leftovers says which processes are to be ended.
type leftovers struct {
	// id is that of a supervisor; step picks among its steps, nil: all.
	id   string
	step func(seq uint64) bool
	// since: no process that is older belongs to it. In ticks.
	since uint64
	// after: no process of it has this id or a lower one. 0: not known.
	after int
	// groups are commands that were noted as running.
	groups []slot
	// self and its ancestors are left alone: who resumes a run from a terminal
	// that the run itself had opened wants to keep the terminal.
	self int
}

// find picks the processes of q out of the table: those that carry its marker,
// those in a group whose leader is the very process that was noted, and all
// their children. A process that only has the id of one of ours, given to it
// after ours ended, is not among them.
func (q *leftovers) find(table []process, marker func(pid int) string) []process {
	leaders := make(map[int]bool)
	for _, g := range q.groups {
		for _, p := range table {
			if p.pid == g.pid && p.start >= g.from && p.start <= g.to {
				leaders[p.pid] = true
			}
		}
	}
	except := ancestors(table, q.self)
	taken := make(map[int]bool)
	for _, p := range table {
		if p.zombie || p.start < q.since || except[p.pid] {
			continue
		}
		if leaders[p.pid] || leaders[p.pgrp] || q.marked(marker(p.pid)) {
			taken[p.pid] = true
		}
	}
	for grown := len(taken) > 0; grown; {
		grown = false
		for _, p := range table {
			if taken[p.ppid] && !taken[p.pid] && !p.zombie && !except[p.pid] {
				taken[p.pid], grown = true, true
			}
		}
	}
	var found []process
	for _, p := range table {
		if taken[p.pid] {
			found = append(found, p)
		}
	}
	return found
}

// ancestors are a process and those it descends from.
func ancestors(table []process, pid int) map[int]bool {
	parent := make(map[int]int, len(table))
	for _, p := range table {
		parent[p.pid] = p.ppid
	}
	line := make(map[int]bool)
	for pid > 0 && !line[pid] {
		line[pid] = true
		pid = parent[pid]
	}
	return line
}

// marked reports whether a value of MarkerVar names one of q's steps.
func (q *leftovers) marked(value string) bool {
	for value != "" {
		var link string
		link, value, _ = strings.Cut(value, ",")
		id, text, ok := strings.Cut(link, ".")
		if !ok || id != q.id {
			continue
		}
		seq, err := strconv.ParseUint(text, 16, 64)
		if err == nil && (q.step == nil || q.step(seq)) {
			return true
		}
	}
	return false
}

func (q *leftovers) look() ([]process, error) {
	table, err := processes(q.after)
	if err != nil {
		return nil, err
	}
	return q.find(table, marker), nil
}

// endAll ends all processes of q: SIGTERM, grace, SIGKILL, again and again until
// none is found in calm looks that are 20 ms apart, since a process may be born
// while we look. It returns how many there were. What cannot be ended within
// killWait after the grace (another user's, or stuck in the kernel) is an error.
func (q *leftovers) endAll(grace time.Duration, calm int) (n int, err error) {
	seen := make(map[process]syscall.Signal)
	begin := time.Now()
	for wait, empty := time.Millisecond, 0; ; {
		found, err := q.look()
		if short(err) && time.Since(begin) <= grace+killWait { // what runs will end
			time.Sleep(wait)
			wait = min(2*wait, 20*time.Millisecond)
			continue
		}
		if err != nil {
			return n, fmt.Errorf("the table of processes: %w", err)
		}
		found = append(found, stillThere(found, seen)...)
		if len(found) == 0 {
			if empty++; empty >= calm {
				return n, nil
			}
			time.Sleep(20 * time.Millisecond)
			continue
		}
		empty = 0
		sig := syscall.SIGTERM
		if time.Since(begin) >= grace {
			sig = syscall.SIGKILL
		}
		var errs []error
		for _, p := range found {
			key := process{pid: p.pid, start: p.start}
			last, known := seen[key]
			if !known {
				n++
			}
			if last != sig {
				seen[key] = sig
				errs = append(errs, endProcess(p, sig))
			}
		}
		if time.Since(begin) > grace+killWait {
			return n, fmt.Errorf("%d processes cannot be ended, the first is %d: %w",
				len(found), found[0].pid, errors.Join(append(errs, errStuck)...))
		}
		time.Sleep(wait)
		wait = min(2*wait, 20*time.Millisecond)
	}
}

// short reports whether there were too few descriptors.
func short(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }

// stillThere is what was seen and is not found any more, and is not gone: who is about
// to be has no environment left by which to be found, and holds what it had open; and
// a process may have given itself another environment.
func stillThere(found []process, seen map[process]syscall.Signal) (list []process) {
	for key := range seen {
		p, ok := lookup(key.pid)
		if !ok || p.zombie || p.start != key.start || slices.ContainsFunc(found, func(f process) bool { return f.pid == p.pid }) {
			continue
		}
		list = append(list, p)
	}
	return list
}

var errStuck = errors.New("still there after SIGKILL")

// endProcess signals p; one that is stopped is woken to take it.
func endProcess(p process, sig syscall.Signal) error {
	if err := signalProcess(p, sig); err != nil || sig == syscall.SIGKILL {
		return err
	}
	return signalProcess(p, syscall.SIGCONT)
}

// endGroup signals a whole group; one that is stopped is woken to take it.
func endGroup(pgid int, sig syscall.Signal) error {
	if err := syscall.Kill(-pgid, sig); err != nil || sig == syscall.SIGKILL {
		return gone(err)
	}
	return gone(syscall.Kill(-pgid, syscall.SIGCONT))
}

// gone takes "no such process" for success: what is to be ended has ended.
// Darwin says EPERM of a group that has only zombies.
func gone(err error) error {
	if err == syscall.ESRCH {
		return nil
	}
	return err
}

// inGroup counts the processes of a group that are more than zombies.
func inGroup(pgid int) int {
	if syscall.Kill(-pgid, 0) == syscall.ESRCH {
		return 0
	}
	table, err := processes(0)
	if err != nil {
		return 1 // the system says there is one; it does not say more
	}
	n := 0
	for _, p := range table {
		if p.pgrp == pgid && !p.zombie {
			n++
		}
	}
	return n
}

// leftInGroup counts what is in a group whose leader has ended. Those that end
// at the same moment (the last to write has closed its outputs, and is about
// to be gone) have a few milliseconds to do so.
func leftInGroup(pgid int) (n int) {
	for range 3 {
		if n = inGroup(pgid); n == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return n
}
