package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

const (
	devAddress = "127.0.0.1:7233"
	devWorkers = 2
	// devWait is how long the server may take to start.
	devWait = 30 * time.Second
)

// serverProgram finds the program of Temporal's development server: on PATH, or where go
// install puts it.
func serverProgram() (string, error) {
	path, err := exec.LookPath("temporal")
	if err == nil {
		return path, nil
	}
	bin := os.Getenv("GOBIN")
	if bin == "" {
		root := os.Getenv("GOPATH")
		if root == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", err
			}
			root = filepath.Join(home, "go")
		}
		bin = filepath.Join(root, "bin")
	}
	path = filepath.Join(bin, "temporal")
	if _, err := os.Stat(path); err != nil {
		return "", errors.New("the program temporal is needed, and is neither on PATH nor in " + bin + ": go install github.com/temporalio/cli/cmd/temporal@v1.5.1 builds it, and https://docs.temporal.io/cli says how else to get it")
	}
	return path, nil
}

// devServer is a development server that was started.
type devServer struct {
	*os.Process
	ended <-chan struct{} // closed once it has ended
}

// serve starts a development server and waits until it answers.
func serve(address, database string) (*devServer, error) {
	program, err := serverProgram()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "server", "start-dev", "--headless", "--ip", host, "--port", port, "--db-filename", database, "--log-level", "error",
		"--dynamic-config-value", "matching.useNewMatcher=true", "--dynamic-config-value", "matching.enableFairness=true",
		// One partition for each queue: with several, each would have its own order.
		"--dynamic-config-value", "matching.numTaskqueueReadPartitions=1", "--dynamic-config-value", "matching.numTaskqueueWritePartitions=1")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard goes to this process only, which ends the server last
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the server's own output says how it ended
		close(ended)
	}()
	for end := time.Now().Add(devWait); time.Now().Before(end); {
		select {
		case <-ended:
			return nil, fmt.Errorf("Temporal's development server ended before it answered on %s: %v", address, cmd.ProcessState)
		case <-time.After(50 * time.Millisecond):
		}
		if c, err := client.Dial(client.Options{HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}); err == nil { // it listens for some time before it answers
			c.Close()
			return &devServer{Process: cmd.Process, ended: ended}, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("Temporal's development server does not answer on %s after %v", address, devWait), cmd.Process.Kill())
}

// dev runs a development server and workers until an interrupt.
func dev(database, slots string) (err error) {
	if c, err := net.Dial("tcp", devAddress); err == nil {
		return errors.Join(fmt.Errorf("a server answers on %s already: workers for it are started with bide worker", devAddress), c.Close())
	}
	server, err := serve(devAddress, database)
	if err != nil {
		return err
	}
	defer func() {
		_ = server.Signal(syscall.SIGTERM) // it may have ended already
		<-server.ended
	}()
	fmt.Fprintf(os.Stderr, "Temporal's development server is on %s, its database is %s\n", devAddress, database)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	var workers []*exec.Cmd
	for range devWorkers {
		w := exec.Command(self, "worker", slots)
		w.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+devAddress)
		w.Stderr = os.Stderr
		w.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := w.Start(); err != nil {
			return err
		}
		workers = append(workers, w)
	}
	select {
	case <-ch:
	case <-server.ended:
		err = fmt.Errorf("Temporal's development server on %s has ended", devAddress)
	}
	for _, w := range workers {
		_ = w.Process.Signal(syscall.SIGTERM) // it may have ended already
	}
	done := make(chan struct{})
	go func() {
		for _, w := range workers {
			_ = w.Wait() // it has reported its own errors
		}
		close(done)
	}()
	select {
	case <-done:
	case <-ch:
		for _, w := range workers {
			_ = w.Process.Kill()
		}
	}
	return err
}
