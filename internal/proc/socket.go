//go:build unix

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketPair gives the two ends of the connection between the supervisor and
// its companion. When one end is closed, by whatever way, the other one sees it.
func socketPair() (ours int, theirs *os.File, err error) {
	// Between the two calls no process may be started, or it would hold our end
	// and hide our death from the companion.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range pair {
		unix.CloseOnExec(fd)
	}
	return pair[0], os.NewFile(uintptr(pair[1]), "socket"), nil
}

// send passes an open file, and some bytes, to the process at the other end of a
// socket.
func send(sock int, file *os.File, text []byte) error {
	err := unix.Sendmsg(sock, text, unix.UnixRights(int(file.Fd())), nil, 0)
	return os.NewSyscallError("sendmsg", err)
}

// sendMore is send that does not wait where the socket takes no more.
func sendMore(sock int, file *os.File) error {
	var raw syscall.RawConn
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = raw.Control(func(fd uintptr) {
		serr = unix.Sendmsg(sock, []byte{0}, unix.UnixRights(int(fd)), nil, unix.MSG_DONTWAIT)
	})
	return errors.Join(err, os.NewSyscallError("sendmsg", serr))
}

// receive takes the files that were passed through a socket, the first of them with
// bytes, and waits until the other end is closed. There may be none.
func receive(sock int) (files []*os.File, text []byte, err error) {
	var buf [slotsHeader]byte
	room := make([]byte, unix.CmsgSpace(4))
	for {
		n, m, _, _, err := unix.Recvmsg(sock, buf[:], room, 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return files, text, os.NewSyscallError("recvmsg", err)
		case n == 0:
			return files, text, nil
		}
		text = append(text, buf[:n]...)
		if m == 0 {
			continue // the rest of the bytes
		}
		file, err := passed(room[:m])
		if err != nil {
			return nil, nil, err
		}
		files = append(files, file)
	}
}

// passed gives the file in a control message.
func passed(control []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, fmt.Errorf("the list of running processes: %w", err)
		}
		if len(fds) == 1 {
			return os.NewFile(uintptr(fds[0]), slotsFile), nil
		}
	}
	return nil, errors.Join(io.ErrUnexpectedEOF, errSlots)
}
