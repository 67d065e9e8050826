// Package pgtest starts a PostgreSQL of a test's own, where one is installed.
package pgtest

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Server is a PostgreSQL whose sockets and data are in a directory of the test's own.
type Server struct {
	URL string // of its database, postgres://…

	t    *testing.T
	root string
	cmd  *exec.Cmd
}

// patience is how long the server may take to start.
const patience = time.Minute

// program finds a program of PostgreSQL: on PATH, or where distributions put it.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is right
	if len(all) == 0 {
		return "", err
	}
	return slices.Max(all), nil
}

// Start starts a server, which ends with the test. Where none is installed, the test is
// left out, and says so.
func Start(t *testing.T) *Server {
	t.Helper()
	initdb, err := program("initdb")
	if err != nil {
		t.Skipf("LEFT OUT: no PostgreSQL is installed here: %v", err)
	}
	root, err := os.MkdirTemp("", "bide-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	s := &Server{t: t, root: root, URL: "postgres://bide@/postgres?host=" + root}
	if err := errors.Join(os.Chmod(root, 0o711), s.give(root)); err != nil {
		t.Fatal(err)
	}
	cmd := s.command(initdb, "-D", filepath.Join(root, "data"), "-U", "bide", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("LEFT OUT: initdb cannot make a database here: %v\n%s", err, text)
	}
	s.Begin()
	t.Cleanup(s.End)
	return s
}

// give makes nobody the owner of a directory where this process is root's, whom
// PostgreSQL refuses.
func (s *Server) give(path string) error {
	if who := nobody(); who != nil {
		return os.Chown(path, int(who.Uid), int(who.Gid))
	}
	return nil
}

// nobody is the user nobody where this process is root's; nil where it is not.
func nobody() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	who, err := user.Lookup("nobody")
	if err != nil {
		return nil
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(who.Gid, 10, 32)
	if errors.Join(err, gerr) != nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: nobody()}
	return cmd
}

// Begin starts the server again.
func (s *Server) Begin() {
	s.t.Helper()
	postgres, err := program("postgres")
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = s.command(postgres, "-D", filepath.Join(s.root, "data"), "-k", s.root, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_wal_size=64MB")
	var out bytes.Buffer
	s.cmd.Stdout, s.cmd.Stderr = &out, &out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("unix", filepath.Join(s.root, ".s.PGSQL.5432")); err == nil {
			_ = c.Close() // it has answered
			return
		}
	}
	s.End()
	s.t.Fatalf("PostgreSQL does not answer: %s", out.String())
}

// End ends the server at once, as a crash does.
func (s *Server) End() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
	_ = s.cmd.Wait()                          // how it ended is known
}
