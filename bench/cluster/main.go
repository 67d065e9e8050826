// Command cluster tries what could refute the design of runs on Temporal: see
// README.md for what it measured. Each trial starts a server of its own.
//
//	go run . outage     the server is away for 30 s while items run
//	go run . kill       workers are killed with SIGKILL in mid-work
//	go run . continue   a chain of executions with signals that come all the time
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
)

const queue = "trial"

var trials = map[string]func(ctx context.Context, dir string) error{"outage": outage, "kill": kills, "continue": chain}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "worker" {
		fail(work(os.Args[2], os.Args[3]))
		return
	}
	if len(os.Args) != 2 || trials[os.Args[1]] == nil {
		fail(fmt.Errorf("say which trial: outage, kill or continue"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	dir, err := os.MkdirTemp("", "bide-trial-")
	fail(err)
	began := time.Now()
	err = trials[os.Args[1]](ctx, dir)
	stop()
	_ = os.RemoveAll(dir) // what it measured was printed
	fail(err)
	fmt.Printf("took %.0f s\n", time.Since(began).Seconds())
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// dial waits until the server answers.
func dial(address string) (c client.Client, err error) {
	quiet := log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	for range 60 {
		if c, err = client.Dial(client.Options{HostPort: address, Logger: quiet}); err == nil {
			return c, nil
		}
		time.Sleep(500 * time.Millisecond)
	}
	return nil, err
}

// work is the process of a worker.
func work(address, dir string) error {
	c, err := dial(address)
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, queue, worker.Options{MaxConcurrentActivityExecutionSize: 4, DisableEagerActivities: true})
	w.RegisterWorkflow(longWorkflow)
	w.RegisterWorkflow(leases)
	w.RegisterWorkflow(chained)
	w.RegisterActivity(&lane{client: c, dir: dir})
	return w.Run(worker.InterruptCh())
}

func startWorker(address, dir string) (*exec.Cmd, error) {
	cmd := exec.Command("/proc/self/exe", "worker", address, dir)
	cmd.Stderr = os.Stderr
	return cmd, cmd.Start()
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // how it ended is known
}

// setting is a server with workers and a client.
func setting(dir string, workers int, do func(s *server, c client.Client, workers []*exec.Cmd) error) error {
	s, err := newServer(dir)
	if err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	defer func() { s.kill() }()
	c, err := dial(s.address)
	if err != nil {
		return err
	}
	defer c.Close()
	var list []*exec.Cmd
	for range workers {
		w, err := startWorker(s.address, dir)
		if err != nil {
			return err
		}
		list = append(list, w)
	}
	defer func() {
		for _, w := range list {
			end(w)
		}
	}()
	return do(s, c, list)
}
