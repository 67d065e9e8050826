package proc

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const darwinZombie = 5 // SZOMB of sys/proc.h

// now is the clock by which the system notes the start of processes, in ticks
// of 10 ms.
func now() uint64 { return uint64(time.Now().UnixMilli() / 10) }

// BootID tells one start of the machine from another.
func BootID() string {
	t, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return "" // equal to that of the other time: start times decide alone
	}
	return time.Unix(t.Unix()).UTC().Format(time.RFC3339)
}

// count tells nothing here: ids are not given in order.
func count() (started uint64, ids int) { return 0, 0 }

// processes lists the processes of the machine with an id above the given one.
func processes(above int) ([]process, error) {
	table, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	list := make([]process, 0, len(table))
	for i := range table {
		if p := fromKinfo(&table[i]); p.pid > above {
			list = append(list, p)
		}
	}
	return list, nil
}

func fromKinfo(k *unix.KinfoProc) process {
	t := k.Proc.P_starttime
	return process{
		pid:    int(k.Proc.P_pid),
		ppid:   int(k.Eproc.Ppid),
		pgrp:   int(k.Eproc.Pgid),
		start:  uint64(t.Sec)*100 + uint64(t.Usec)/1e4,
		zombie: k.Proc.P_stat == darwinZombie,
	}
}

// lookup reads one line of the table; false: there is no such process.
func lookup(pid int) (process, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return process{}, false
	}
	return fromKinfo(k), true
}

// marker is not to be had here: processes are found by group and start time.
func marker(pid int) string { return "" }

// signalProcess signals p if it is still the process that was looked up. A p
// that is gone is no error.
func signalProcess(p process, sig syscall.Signal) error {
	if q, ok := lookup(p.pid); !ok || q.start != p.start {
		return nil
	}
	return gone(syscall.Kill(p.pid, sig))
}
