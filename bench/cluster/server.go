package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// server is Temporal's development server on a port and a database of its own.
type server struct {
	program, address, db string
	cmd                  *exec.Cmd
}

// newServer finds the server's program on PATH or where go install puts it.
func newServer(dir string) (*server, error) {
	program, err := exec.LookPath("temporal")
	if err != nil {
		home, herr := os.UserHomeDir()
		program = filepath.Join(home, "go", "bin", "temporal")
		if _, serr := os.Stat(program); herr != nil || serr != nil {
			return nil, fmt.Errorf("the program temporal is not here: go install github.com/temporalio/cli/cmd/temporal@v1.5.1")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	return &server{program: program, address: address, db: filepath.Join(dir, "temporal.db")}, l.Close()
}

func (s *server) start() error {
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return err
	}
	s.cmd = exec.Command(s.program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port, "--db-filename", s.db, "--log-level", "error")
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for range 600 {
		if c, err := net.Dial("tcp", s.address); err == nil {
			return c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("no server at %s after 30 s", s.address)
}

// kill ends the server as kill -9 does.
func (s *server) kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // how it ended is known
	}
}
