// Command bide-temporal is the part of bide that talks to Temporal: `bide run --on
// temporal`, `bide worker` and `bide cluster` start it. It is a separate program and a
// separate module, because Temporal's SDK makes a program 20 MB larger, each start 10 ms
// slower, and takes a minute to compile. bide itself has none of it.
package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/bide-dev/bide/cmd/bide-temporal/bucket"
	"github.com/bide-dev/bide/cmd/bide-temporal/database"
	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/telemetry"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
)

const usage = `bide-temporal is started by bide: bide run --on temporal, bide worker, bide cluster dev.
  bide-temporal start STORE RUN        begins a life of a run; dead letters that it runs again come on standard input
  bide-temporal stop RUN [now]         asks it to stop
  bide-temporal status RUN...          tells of each whether Temporal has it, and what holds it up, as JSON
  bide-temporal cluster                tells how workers and runs stand, as JSON
  bide-temporal control RUN            has its map do what comes as JSON on standard input
  bide-temporal worker SLOTS STORE...  works for runs of these stores, and of any where none is named
  bide-temporal dev DATABASE SLOTS     a development server and two workers
  bide-temporal store STORE            serves the objects of a store s3: or postgres: on standard input, a connection
`

func main() {
	if proc.CompanionMain() {
		return
	}
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "bide: %s\n", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	registerStores()
	word := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch {
	case word(0) == "start" && len(args) == 3:
		return start(word(1), word(2))
	case word(0) == "stop" && len(args) >= 2:
		return stop(word(1), word(2) == "now")
	case word(0) == "status" && len(args) >= 2:
		return status(args[1:])
	case word(0) == "cluster" && len(args) == 1:
		return clusterState()
	case word(0) == "control" && len(args) == 2:
		return control(word(1))
	case word(0) == "worker" && len(args) >= 2:
		return work(word(1), args[2:])
	case word(0) == "store" && len(args) == 2:
		return serveStore(word(1))
	case word(0) == "dev" && len(args) == 3:
		return dev(word(1), word(2))
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
	return nil
}

// registerStores registers the stores that need a client of a server.
func registerStores() {
	cluster.Register("s3", bucket.Open)
	cluster.Register("postgres", database.Open)
}

// serveStore serves a store's objects for a program that has no client of the store's
// server. Its standard input is the connection.
func serveStore(text string) error {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return fmt.Errorf("the standard input is to be a connection: %w", err)
	}
	s, err := cluster.OpenStore(text)
	if err != nil {
		return err
	}
	return cluster.Serve(conn, s.Objects())
}

// patience is how long a command waits for the server.
const patience = 30 * time.Second

func start(store, run string) error {
	in := Input{Run: run, Store: store}
	if err := json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&in.Again); err != nil {
		return fmt.Errorf("the dead letters of run %s: %w", run, err)
	}
	s, err := cluster.OpenStore(store)
	if err != nil {
		return err
	}
	plan, err := s.Run(run).Plan()
	if err != nil {
		return err
	}
	return withClient(func(ctx context.Context, c client.Client) error {
		_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: WorkflowID(run), TaskQueue: mainQueue,
			// All that the run does inherits these: runs with the same priority get equal
			// shares.
			Priority:                                 temporal.Priority{PriorityKey: cmp.Or(plan.Priority, cluster.UsualPriority), FairnessKey: run},
			WorkflowExecutionErrorWhenAlreadyStarted: true, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			Memo: map[string]any{"bide.store": store}}, workflowType, in)
		if errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) {
			return fmt.Errorf("Temporal has run %s already, and it is running", run)
		}
		return err
	})
}

func stop(run string, now bool) error {
	return withClient(func(ctx context.Context, c client.Client) error {
		err := c.SignalWorkflow(ctx, WorkflowID(run), "", stopSignal, StopRequest{Now: now})
		if errors.As(err, new(*serviceerror.NotFound)) {
			return fmt.Errorf("Temporal has no running run %s", run)
		}
		return err
	})
}

func withClient(do func(ctx context.Context, c client.Client) error) error {
	c, err := connect(os.Stderr)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return withoutNamespace(do(ctx, c))
}

// grace is how long running items may take when a worker is asked to leave: the grace of
// their steps, and a little more to record their ends.
const grace = 15 * time.Second

// work takes work until an interrupt, or a request to end. Then running items may end
// within their grace, and another worker continues. A second interrupt ends them
// immediately. work also ends, with an error, if the server gives it no more work, for
// example because its namespace is gone.
func work(text string, stores []string) error {
	slots, err := strconv.Atoi(text)
	if err != nil || slots < 1 {
		return fmt.Errorf("the number of slots is %q: it must be at least 1", text)
	}
	version, err := versionOf(environment)
	if err != nil {
		return err
	}
	var allowed []cluster.Store
	for _, text := range stores {
		s, err := cluster.OpenStore(text)
		if err != nil {
			return err
		}
		allowed = append(allowed, s)
	}
	var c client.Client
	if err := patiently(slow, func() (err error) { c, err = connect(os.Stderr); return err }); err != nil {
		return err
	}
	defer c.Close()
	mine, err := cluster.NewWorker("", allowed...)
	if err != nil {
		return err
	}
	mine.Queue = mainQueue + ".home." + rand.Text()
	measured, err := measure(mine, slots)
	if err != nil {
		return errors.Join(err, mine.Close())
	}
	fatal := make(chan error, 3) // at most once from each of the three workers below
	onFatal := func(err error) { fatal <- err }
	a := &activities{worker: mine, heartbeat: heartbeats(c), wish: wishes(c), signal: signals(c)}
	// Commands of lanes may keep the processor busy, so a workflow may wait longer than the
	// usual second.
	short, err := started(func() worker.Worker {
		w := worker.New(c, mainQueue, worker.Options{Identity: identity(slots), DisableEagerActivities: true, DeadlockDetectionTimeout: 5 * time.Second,
			DeploymentOptions: version, OnFatalError: onFatal})
		registerMain(w, a)
		return w
	})
	if err != nil {
		return err
	}
	lanes, err := started(func() worker.Worker {
		w := worker.New(c, laneQueue, worker.Options{Identity: identity(slots), MaxConcurrentActivityExecutionSize: slots, DisableWorkflowWorker: true,
			DisableEagerActivities: true, WorkerStopTimeout: grace, DeploymentOptions: version, OnFatalError: onFatal})
		registerLanes(w, a)
		return w
	})
	if err != nil {
		return err
	}
	// The worker's own queue belongs to no version. Each start of a worker has a new queue,
	// and a version can become current only if it has workers for all queues of the one
	// before.
	own, err := started(func() worker.Worker {
		w := worker.New(c, mine.Queue, worker.Options{Identity: identity(slots), MaxConcurrentActivityExecutionSize: 1, MaxConcurrentActivityTaskPollers: 1,
			DisableWorkflowWorker: true, DisableEagerActivities: true, WorkerStopTimeout: grace, OnFatalError: onFatal})
		w.RegisterActivityWithOptions(a.home, activity.RegisterOptions{Name: homeActivity})
		return w
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "worker of %d %s, ready\n", slots, map[bool]string{true: "slot", false: "slots"}[slots == 1])
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	var gone error
	select {
	case <-ch:
		fmt.Fprintln(os.Stderr, "leaving: what runs may end within 10s, a second interrupt ends it at once")
	case err := <-fatal: // the SDK has tried for two minutes, and asks for no more work
		gone = fmt.Errorf("the Temporal server gives this worker no more work: %w", withoutNamespace(err))
	}
	mine.Leave()
	done := make(chan struct{})
	go func() {
		var all sync.WaitGroup
		all.Go(lanes.Stop)
		all.Go(own.Stop)
		all.Wait()
		short.Stop()
		close(done)
	}()
	hurry, cancel := context.WithCancel(context.Background())
	defer cancel()
	select {
	case <-done:
		go func() {
			select {
			case <-ch:
				cancel()
			case <-hurry.Done():
			}
		}()
	case <-ch:
		cancel()
	}
	err = mine.Close()
	measured(hurry)
	return errors.Join(gone, err)
}

// started starts a worker. One that could not start cannot be started again, so each attempt
// makes another one.
func started(newWorker func() worker.Worker) (w worker.Worker, err error) {
	err = patiently(away, func() error {
		w = newWorker()
		return w.Start()
	})
	return w, withoutNamespace(err)
}

// measure begins to send measurements of what a worker does, if the settings of telemetry
// say so. end sends the last of them, within a time limit, or not at all if its context has
// ended. The state of the collector does not affect the work.
func measure(w *cluster.Worker, slots int) (end func(context.Context), err error) {
	note := func(text string) { fmt.Fprintf(os.Stderr, "bide: %s\n", text) }
	cfg, err := telemetry.FromEnv(os.Environ(), telemetry.Version())
	if err != nil {
		return nil, err
	}
	work, sink, err := telemetry.StartWork(cfg, telemetry.Options{Out: os.Stderr, Note: note}, slots)
	if err != nil || sink == nil {
		return func(context.Context) {}, err
	}
	w.Work = work
	return func(ctx context.Context) {
		if err := sink.Close(ctx); err != nil {
			note(err.Error())
		}
	}, nil
}
