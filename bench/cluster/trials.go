package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

func once(ctx workflow.Context, heartbeat time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Hour, HeartbeatTimeout: heartbeat, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
}

// longWorkflow runs an item of 60 s in four ways.
func longWorkflow(ctx workflow.Context) ([]string, error) {
	var out []string
	var names []string
	var futures []workflow.Future
	for _, by := range []string{"sdk", "token"} {
		for _, heartbeat := range []time.Duration{10 * time.Second, 60 * time.Second} {
			names = append(names, fmt.Sprintf("heartbeats by %s, timeout %v", by, heartbeat))
			futures = append(futures, workflow.ExecuteActivity(once(ctx, heartbeat), "Long", by, time.Minute))
		}
	}
	for i, f := range futures {
		var what string
		if err := f.Get(ctx, &what); err != nil {
			what = "NOT ACCEPTED: " + err.Error()
		}
		out = append(out, names[i]+": "+what)
	}
	return out, nil
}

// outage has the server away for 30 s while items of a minute run.
func outage(ctx context.Context, dir string) error {
	return setting(dir, 1, func(s *server, c client.Client, _ []*exec.Cmd) error {
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "outage", TaskQueue: queue}, longWorkflow)
		if err != nil {
			return err
		}
		time.Sleep(8 * time.Second)
		s.kill()
		time.Sleep(30 * time.Second)
		if err := s.start(); err != nil {
			return err
		}
		var out []string
		for range 20 { // the connection may have to be made anew
			if err = run.Get(ctx, &out); err == nil {
				break
			}
			time.Sleep(time.Second)
		}
		fmt.Println(strings.Join(out, "\n"))
		return err
	})
}

// leases hands 10,000 items to eight lanes, 100 at a time.
func leases(ctx workflow.Context, total int) (lost int, err error) {
	next := 0
	var again [][2]int
	wg := workflow.NewWaitGroup(ctx)
	for range 8 {
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer wg.Done()
			for {
				var r [2]int
				switch {
				case len(again) > 0:
					r, again = again[0], again[1:]
				case next < total:
					r = [2]int{next, min(next+100, total)}
					next = r[1]
				default:
					return
				}
				name := fmt.Sprintf("%06d-%06d", r[0], r[1])
				var done int
				if e := workflow.ExecuteActivity(once(ctx, 5*time.Second), "Lease", name, r[0], r[1]).Get(ctx, &done); e != nil {
					lost++
					if e := workflow.ExecuteActivity(once(ctx, 5*time.Second), "Adopt", name).Get(ctx, &done); e != nil {
						err = e
						return
					}
					if r[0]+done < r[1] {
						again = append(again, [2]int{r[0] + done, r[1]})
					}
				}
			}
		})
	}
	wg.Wait(ctx)
	return lost, err
}

// kills ends both workers with SIGKILL, one after the other, and counts how often
// items ran.
func kills(ctx context.Context, dir string) error {
	const total = 10_000
	return setting(dir, 2, func(s *server, c client.Client, workers []*exec.Cmd) error {
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "kill", TaskQueue: queue}, leases, total)
		if err != nil {
			return err
		}
		for _, w := range workers {
			time.Sleep(3 * time.Second)
			end(w)
			fresh, err := startWorker(s.address, dir)
			if err != nil {
				return err
			}
			defer end(fresh)
		}
		var lost int
		if err := run.Get(ctx, &lost); err != nil {
			return err
		}
		logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil {
			return err
		}
		started, ended := map[string]int{}, map[string]int{}
		for _, name := range logs {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(b)) {
				if what, item, _ := strings.Cut(strings.TrimSpace(line), " "); what == "start" {
					started[item]++
				} else {
					ended[item]++
				}
			}
		}
		twice, endedTwice := 0, 0
		for item, n := range started {
			twice += n - 1
			endedTwice += max(0, ended[item]-1)
		}
		fmt.Printf("%d items, %d ended, %d leases lost, %d items ran twice, %d ended twice\n", total, len(ended), lost, twice, endedTwice)
		if len(ended) != total || endedTwice > 0 || twice > lost {
			return fmt.Errorf("that refutes the design")
		}
		return nil
	})
}

// chained takes signals while its lanes work, and continues as a new execution after
// each 20 leases, when all have ended.
func chained(ctx workflow.Context, leases, signals, executions int) ([3]int, error) {
	inbox := workflow.GetSignalChannel(ctx, "tick")
	take := func() {
		for inbox.ReceiveAsync(nil) {
			signals++
		}
	}
	busy, begun := 0, 0
	for leases < 200 && begun < 20 || busy > 0 {
		for busy < 8 && begun < 20 && leases < 200 {
			n := leases
			leases, begun, busy = leases+1, begun+1, busy+1
			workflow.Go(ctx, func(ctx workflow.Context) {
				_ = workflow.ExecuteActivity(once(ctx, 5*time.Second), "Lease", fmt.Sprintf("chain-%d", n), 0, 50).Get(ctx, nil)
				busy--
			})
		}
		before := busy
		if err := workflow.Await(ctx, func() bool { return busy < before || inbox.Len() > 0 }); err != nil {
			return [3]int{}, err
		}
		take()
	}
	take()
	if leases < 200 {
		return [3]int{}, workflow.NewContinueAsNewError(ctx, chained, leases, signals, executions+1)
	}
	return [3]int{leases, signals, executions}, nil
}

// chain sends 20 signals a second to a chain of executions.
func chain(ctx context.Context, dir string) error {
	return setting(dir, 2, func(_ *server, c client.Client, _ []*exec.Cmd) error {
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "chain", TaskQueue: queue}, chained, 0, 0, 1)
		if err != nil {
			return err
		}
		sent := 0
		over := make(chan error, 1)
		var out [3]int
		go func() { over <- run.Get(ctx, &out) }()
		for {
			select {
			case err := <-over:
				fmt.Printf("%d leases, %d of %d signals that were accepted have arrived, %d executions\n", out[0], out[1], sent, out[2])
				if err == nil && out[1] < sent-1 {
					err = fmt.Errorf("that refutes the design")
				}
				return err
			case <-time.After(50 * time.Millisecond):
				if c.SignalWorkflow(ctx, "chain", "", "tick", nil) == nil {
					sent++
				}
			}
		}
	})
}
