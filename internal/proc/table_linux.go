package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// now is the clock by which the system notes the start of processes: ticks of
// 10 ms since the machine was started, sleep included.
func now() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // not on a kernel that bide runs on; a slot from 0 matches nothing
	}
	return uint64(t.Sec)*100 + uint64(t.Nsec)/1e7
}

// BootID tells one start of the machine from another.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // equal to that of the other time: start times decide alone
	}
	return strings.TrimSpace(string(b))
}

// count tells how many processes and threads were ever started, and how many
// ids there are for them. Ids are given in order, and from the beginning again
// after the last one. It is 0, 0 where the system does not tell.
func count() (started uint64, ids int) {
	var room [16 << 10]byte
	stat, ok := readProc("/proc/stat", room[:])
	if !ok {
		return 0, 0
	}
	_, rest, ok := bytes.Cut(stat, []byte("\nprocesses "))
	if !ok {
		return 0, 0
	}
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	started, err := strconv.ParseUint(string(line), 10, 64)
	if err != nil {
		return 0, 0
	}
	limit, ok := readProc("/proc/sys/kernel/pid_max", room[:])
	if !ok {
		return 0, 0
	}
	if ids, err = strconv.Atoi(string(bytes.TrimSpace(limit))); err != nil {
		return 0, 0
	}
	return started, ids
}

// mostNew is how many ids are asked for one by one: to list the processes of a machine
// that does nothing else takes as long as fifty of them.
const mostNew = 48

// newest is processes where few ids were given since the given one; false: there were too
// many, or it is not known.
func newest(above int) (list []process, ok bool) {
	last := lastID()
	for pid := above + 1; above > 0 && last >= above && last-above <= mostNew; pid++ {
		if pid > last {
			if last = lastID(); pid > last {
				return list, true
			} // else one was started while we looked
		}
		switch fd, err := unix.PidfdOpen(pid, 0); err {
		case nil:
			if p, found := lookup(pid); found {
				list = append(list, p)
			}
			_ = unix.Close(fd) // it was only looked for
		case unix.ESRCH, unix.EINVAL, unix.ENOENT: // nobody has it, or a thread that is no process
		default:
			return nil, false // a sandbox, or an old kernel
		}
	}
	return nil, false
}

// lastID is the id that was given last, to a process or a thread; 0 where the system does
// not tell.
func lastID() int {
	var room [32]byte
	text, ok := readProc("/proc/sys/kernel/ns_last_pid", room[:])
	if !ok {
		return 0
	}
	id, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return 0
	}
	return id
}

// processes lists the processes of the machine that this user can see and that
// have an id above the given one.
func processes(above int) ([]process, error) {
	if list, ok := newest(above); ok {
		return list, nil
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := make([]process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= above {
			continue // /proc/meminfo and the like
		}
		if p, ok := lookup(pid); ok {
			list = append(list, p)
		}
	}
	return list, nil
}

// lookup reads one line of the table; false: there is no such process.
func lookup(pid int) (process, bool) {
	var room [1024]byte
	b, ok := readProc("/proc/"+strconv.Itoa(pid)+"/stat", room[:])
	if !ok {
		return process{}, false
	}
	return parseStat(pid, b)
}

// parseStat reads /proc/PID/stat: "PID (name) state ppid pgrp …", where the
// name may hold blanks and parentheses; field 22 is the start in ticks.
func parseStat(pid int, b []byte) (process, bool) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return process{}, false
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 20 {
		return process{}, false
	}
	p := process{pid: pid, zombie: f[0][0] == 'Z' || f[0][0] == 'X'}
	var errs [3]error
	p.ppid, errs[0] = strconv.Atoi(string(f[1]))
	p.pgrp, errs[1] = strconv.Atoi(string(f[2]))
	p.start, errs[2] = strconv.ParseUint(string(f[19]), 10, 64)
	return p, errs == [3]error{}
}

// marker reads the value of MarkerVar in the environment with which a process
// was started; "" where it has none or we may not look.
func marker(pid int) string {
	room := bufs.Get().(*[bufSize]byte)
	defer bufs.Put(room)
	b, ok := readProc("/proc/"+strconv.Itoa(pid)+"/environ", room[:])
	if !ok {
		return ""
	}
	return markerIn(b)
}

// markerIn finds the variable in a block of NAME=value\0.
func markerIn(env []byte) string {
	const prefix = MarkerVar + "="
	for len(env) > 0 {
		v, rest, _ := bytes.Cut(env, []byte{0})
		if len(v) > len(prefix) && string(v[:len(prefix)]) == prefix {
			return string(v[len(prefix):])
		}
		env = rest
	}
	return ""
}

// readProc reads a file of /proc into room, or into a larger place if it does
// not fit.
func readProc(path string, room []byte) ([]byte, bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false // it is gone, or not ours to read
	}
	defer unix.Close(fd)
	n := 0
	for {
		if n == len(room) {
			room = append(room, make([]byte, len(room))...)
		}
		m, err := unix.Read(fd, room[n:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, false
		case m == 0:
			return room[:n], true
		default:
			n += m
		}
	}
}

// signalProcess signals p and nobody else: not a process that was given its id
// since it was looked up. A p that is gone is no error.
func signalProcess(p process, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == unix.ENOSYS || err == unix.EPERM { // Linux before 5.3, or a sandbox
		if q, ok := lookup(p.pid); !ok || q.start != p.start {
			return nil
		}
		return gone(unix.Kill(p.pid, sig))
	}
	if err != nil {
		return gone(err)
	}
	defer unix.Close(fd)
	if q, ok := lookup(p.pid); !ok || q.start != p.start {
		return nil
	}
	return gone(unix.PidfdSendSignal(fd, sig, nil, 0))
}
