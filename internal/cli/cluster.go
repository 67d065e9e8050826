package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/spf13/cobra"
)

// This file is about runs on many machines: `bide run --on temporal`, `bide worker`, `bide
// cluster`. Another program, bide-temporal, speaks to Temporal, so that this one stays small.

// clusterFlags say on which machines a run runs.
type clusterFlags struct {
	on, store string
	detach    bool
	priority  int // 0: not set
}

func (f *clusterFlags) check() error {
	switch {
	case f.on == "" && f.detach:
		return usagef("--detach is for runs on many machines (--on temporal); for one on this machine %s", strings.ReplaceAll(inBackground, "CMD", "bide run"))
	case f.on == "" && (f.store != "" || f.priority != 0):
		return usagef("--store and --priority are for runs on many machines: add --on temporal")
	case f.priority > cluster.LastPriority:
		return usagef("--priority is %d; it must be from 1 (served first) to %d", f.priority, cluster.LastPriority)
	case f.on != "":
		return chosen("run", "on", f.on)
	}
	return nil
}

// sharedStore is the store of runs on many machines: --store, else BIDE_STORE, else a
// directory beside the runs of this machine.
func sharedStore(home *journal.Store, flag string) (cluster.Store, error) {
	flag = cmp.Or(flag, os.Getenv("BIDE_STORE"), "dir:"+filepath.Join(home.Dir, "store"))
	s, err := cluster.OpenStore(flag)
	if err != nil {
		return s, usageError{err}
	}
	return s, nil
}

// beside finds the program bide-temporal: beside this one, or on PATH.
func beside() (string, error) {
	const name = "bide-temporal"
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the program %s is needed for Temporal, and for stores s3: and postgres:, and is neither beside bide nor on PATH: the package bide-temporal of the release has it, and `make bide-temporal` in bide's sources builds it", name)
	}
	return path, nil
}

// temporal runs bide-temporal to its end, and returns what it printed. When ctx ends, it kills
// bide-temporal with all its children.
func temporal(ctx context.Context, in io.Reader, args ...string) (string, error) {
	program, err := beside()
	if err != nil {
		return "", err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the keyboard's interrupt is for bide
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		text := cmp.Or(strings.TrimSpace(errs.String()), err.Error())
		return "", errors.New(strings.TrimPrefix(text, "bide: "))
	}
	return strings.TrimSpace(out.String()), nil
}

// become replaces this process with bide-temporal.
func become(args ...string) error {
	program, err := beside()
	if err != nil {
		return err
	}
	return syscall.Exec(program, append([]string{program}, args...), os.Environ())
}

// registerStores makes bide-temporal open the stores that need the client of a server.
// bide-temporal has such clients, so this program needs none.
func registerStores() {
	for _, kind := range []string{"s3", "postgres"} {
		cluster.Register(kind, func(text string) (cluster.Objects, error) {
			return cluster.Through(func(context.Context) (net.Conn, error) { return dialStore(text) }), nil
		})
	}
}

// dialStore starts a bide-temporal that serves a store on a connection. The process ends with
// the connection.
func dialStore(text string) (net.Conn, error) {
	program, err := beside()
	if err != nil {
		return nil, err
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	here, there := os.NewFile(uintptr(fds[0]), "store"), os.NewFile(uintptr(fds[1]), "store")
	conn, err := net.FileConn(here)
	if err = errors.Join(err, here.Close()); err != nil {
		return nil, errors.Join(err, there.Close())
	}
	cmd := exec.Command(program, "store", text)
	cmd.Stdin, cmd.Stderr = there, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the keyboard's interrupt is for bide
	err = cmd.Start()
	if err = errors.Join(err, there.Close()); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go func() { _ = cmd.Wait() }() // it ends with the connection, and has reported what was wrong
	return conn, nil
}

// runOn starts a run on Temporal and follows it.
func (o *runOptions) runOn(ctx context.Context, opt engine.Options) error {
	home, err := o.openStore()
	if err != nil {
		return err
	}
	shared, err := sharedStore(home, o.store)
	if err != nil {
		return err
	}
	path := opt.File.Path
	var list diag.List
	if opt.Pipeline != nil {
		path = opt.Pipeline.Path
		list = cluster.RefusedLimits(opt.Pipeline.Named())
		o.problems(list, sourceTexts{of: opt.Pipeline.Sources})
	} else {
		list = append(cluster.Refused(opt.File, opt.Isolation, opt.Dir), shared.Apart(opt.File, opt.Isolation)...)
		o.problems(list, sources(opt.File))
	}
	if list.HasErrors() {
		o.tell("%s cannot be run on Temporal; nothing was run", path)
		return exitError(2)
	}
	if o.ui {
		return usagef("--ui is not there yet for a run on Temporal: start bide ui in another terminal, it shows such runs too")
	}
	if opt.Canary > 0 {
		return usagef("--canary is not there yet for a run on Temporal, where all items may start at once")
	}
	repo, err := isolateOn(ctx, &opt)
	if err != nil {
		return err
	}
	if _, err := beside(); err != nil {
		return err
	}
	h, err := engine.Plan(opt)
	if err != nil {
		return err
	}
	plan := cluster.Plan{Protocol: cluster.Protocol, Header: h, Priority: o.priority}
	at, err := shared.Create(plan)
	if err != nil {
		return err
	}
	if repo != nil {
		if err := at.PutGit(ctx, repo); err != nil {
			return errors.Join(err, at.Remove())
		}
	}
	j, err := cluster.Make(home, shared, plan)
	if err != nil {
		return err
	}
	if err := j.Close(); err != nil {
		return err
	}
	if err := beginOn(ctx, shared, h.Run, nil); err != nil {
		return errors.Join(err, home.Remove(h.Run), shared.Run(h.Run).Remove())
	}
	if o.detach {
		return o.printf("run %s is running on Temporal; `bide show %s` shows its state\n", h.Run, shortRun(h.Run))
	}
	return o.follow(ctx, opt, h.Run, 0, false)
}

// beginOn asks Temporal to start an execution of a run, which may run dead letters again.
func beginOn(ctx context.Context, shared cluster.Store, run string, again []cluster.Letter) error {
	text, err := json.Marshal(again)
	if err != nil {
		return err
	}
	_, err = temporal(ctx, bytes.NewReader(text), "start", shared.String(), run)
	return err
}

// onServer is the state of a run on Temporal, as bide-temporal reports it.
type onServer struct {
	Run, Word, Trouble string
}

// stateOn asks Temporal for the states of runs. It leaves out what Temporal does not answer in
// time.
func stateOn(ctx context.Context, run string, wait time.Duration, more ...string) map[string]onServer {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	text, err := temporal(ctx, nil, append([]string{"status", run}, more...)...)
	var list []onServer
	if err != nil || json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	by := map[string]onServer{}
	for _, s := range list {
		by[s.Run] = s
	}
	return by
}

// showWait is how long a command that shows runs waits for what Temporal knows.
const showWait = 3 * time.Second

// troublesOn returns what holds up those runs of a list that other machines execute.
func troublesOn(ctx context.Context, st *journal.Store, list []runInfo) map[string]onServer {
	var runs []string
	for _, i := range list {
		if _, err := cluster.Place(st.RunDir(i.Run)); err == nil && i.Status == event.Running {
			runs = append(runs, i.Run)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	return stateOn(ctx, runs[0], showWait, runs[1:]...)
}

// elsewhere reports whether other machines have a run, or had it.
func (a *app) elsewhere(run string) (id string, is bool, err error) {
	err = a.reading(run, func(r *journal.Reader) error {
		id, is = r.Run(), r.IsElsewhere()
		return nil
	})
	return id, is, err
}

// resumeOn continues a run on Temporal. If the run is in progress, it only follows. If not, it
// starts a new execution, which may run dead letters again.
func (f *runFlags) resumeOn(ctx context.Context, opt engine.Options, run string, again ...journal.DeadLetter) error {
	if opt.Force || opt.MaxParallel > 0 {
		return usagef("--force and --max-parallel are not there yet for a run on Temporal")
	}
	home, err := f.openStore()
	if err != nil {
		return err
	}
	place, err := cluster.Place(home.RunDir(run))
	if err != nil {
		return err
	}
	shared, err := cluster.OpenStore(place.Store)
	if err != nil {
		return err
	}
	word, err := f.had(ctx, run)
	if err != nil {
		return err
	}
	from := int64(0) // earlier events are not shown
	err = f.reading(run, func(r *journal.Reader) (err error) {
		from, err = r.Last(ctx)
		return err
	})
	if err != nil {
		return err
	}
	joins := word == "running"
	if !joins {
		if len(again) == 0 {
			if err := f.unchanged(run); err != nil {
				return err
			}
		}
		if over, err := overOn(ctx, home, run); err != nil || over != "" && len(again) == 0 {
			if err == nil {
				err = &engine.FinishedError{Run: run, Status: over}
			}
			return err
		}
		if err := beginOn(ctx, shared, run, lettersOf(again)); err != nil {
			// Somebody else may have started it in the meantime.
			if word, werr := wordOf(ctx, run); werr != nil || word != "running" {
				return err
			}
			joins = true
		}
	}
	if joins && len(again) > 0 {
		if len(again) > cluster.MaxLetters {
			return fmt.Errorf("run %s is running, and %d dead letters are more than it takes at once: choose at most %d with --filter or --item, or wait for its end", run, len(again), cluster.MaxLetters)
		}
		if err := tellOn(ctx, run, cluster.Control{Do: cluster.Requeue, Again: lettersOf(again)}); err != nil {
			return err
		}
	}
	return f.follow(ctx, opt, run, from, joins)
}

func lettersOf(list []journal.DeadLetter) (letters []cluster.Letter) {
	for _, l := range list {
		letters = append(letters, cluster.Letter{Index: l.Index, ID: l.ID})
	}
	return letters
}

// unchanged returns an error if a file of the run has changed: the run would continue with the
// old file, and nobody would notice.
func (a *app) unchanged(run string) error {
	err := a.reading(run, func(r *journal.Reader) error { return engine.Unchanged(r.Header()) })
	if changed := new(engine.ChangedError); errors.As(err, &changed) {
		return fmt.Errorf("%s has changed since the run began:\n%s\na run on Temporal continues its file as it was: put it back, or begin a new run", changed.Path, changed.Diff)
	}
	return err
}

// hadWait is how much later than its run a workflow may end.
const hadWait = 10 * time.Second

// had returns whether Temporal has a run: running, closed or none. It waits a moment for one
// that has just ended.
func (a *app) had(ctx context.Context, run string) (word string, err error) {
	for end := time.Now().Add(hadWait); ; time.Sleep(stopWait) {
		if word, err = wordOf(ctx, run); err != nil || word != "running" {
			return word, err
		}
		if inUse, err := a.inUse(run); err != nil || inUse {
			return word, err
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("run %s has ended, and Temporal still has it: try again in a moment", run)
		}
	}
}

// wordOf asks Temporal whether it has a run.
func wordOf(ctx context.Context, run string) (string, error) {
	text, err := temporal(ctx, nil, "status", run)
	if err != nil {
		return "", err
	}
	var list []onServer
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
		return "", errors.Join(fmt.Errorf("bide-temporal says %q: is it of the same version as bide?", text), err)
	}
	return list[0].Word, nil
}

// adopt copies the runs of BIDE_STORE that this machine has not seen.
func adopt(home *journal.Store) error {
	text := os.Getenv("BIDE_STORE")
	if text == "" {
		return nil
	}
	shared, err := cluster.OpenStore(text)
	if err != nil {
		return usageError{fmt.Errorf("BIDE_STORE: %w", err)}
	}
	return shared.Adopt(home)
}

// adoptRuns calls adopt once for a command. A run of the store that cannot be copied does not
// prevent work on the others.
func (a *app) adoptRuns(home *journal.Store) error {
	if a.adopted {
		return nil
	}
	a.adopted = true
	err := adopt(home)
	if errors.As(err, new(usageError)) {
		return err
	}
	if err != nil {
		a.tell("runs of the store: %v", err)
	}
	return nil
}

// keepUp updates the copies of runs that other machines execute, until end is called.
func (s *streams) keepUp(home *journal.Store) (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		reported := ""
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			err := errors.Join(adopt(home), cluster.RefreshAll(home))
			if err != nil && err.Error() != reported {
				reported = err.Error()
				s.tell("runs on other machines: %v", err)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// refusedOn adds the problems of a file with the place where it is to run, and with the run's
// store there, if one is named.
func refusedOn(c *checked, on string, store cluster.Store) {
	if on == "" || c.file == nil || c.Problems.HasErrors() {
		return
	}
	c.Problems = append(c.Problems, cluster.Refused(c.file, "", "")...)
	if store != (cluster.Store{}) {
		c.Problems = append(c.Problems, store.Apart(c.file, "")...)
	}
}

// workerOptions are the options of worker.
type workerOptions struct {
	slots  int
	stores []string
}

func workerCmd(*app) *cobra.Command {
	o := &workerOptions{slots: 4}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Work for runs on Temporal, on this machine",
		Long: `Runs items of runs that were started with "bide run --on temporal" on this machine,
as many at once as it has slots. The server is named by TEMPORAL_ADDRESS,
TEMPORAL_NAMESPACE and Temporal's other variables and profiles. The directory in
which a run was started, and its store, must be there under the same path.

A worker runs the commands of every run that reaches it. If others can reach the
server, give a key (BIDE_TEMPORAL_KEY_FILE) to all workers and to all who start
runs: a worker with a key refuses runs that were started without it. With --store it
refuses runs in other stores.

With TEMPORAL_DEPLOYMENT_NAME and TEMPORAL_WORKER_BUILD_ID set, the worker is a
version of a Temporal deployment: a run stays on the version on which it began.

With the OTEL_… variables of telemetry set, it sends metrics of its work.

After an interrupt or SIGTERM it takes no new work: running items have 10 s to end,
and other workers continue. A second one ends it immediately.`,
		Example: `  bide worker --slots 8
  bide worker --store dir:/mnt/shared/bide
  TEMPORAL_ADDRESS=temporal.example.org:7233 bide worker`,
		RunE: func(*cobra.Command, []string) error {
			return o.run()
		},
	}
	cmd.Flags().Var(&countFlag{&o.slots}, "slots", "items at once")
	cmd.Flags().StringArrayVar(&o.stores, "store", nil, "work only for runs in this store; may be given several times")
	return cmd
}

func (o *workerOptions) run() error {
	args := []string{"worker", strconv.Itoa(o.slots)}
	for _, text := range o.stores {
		s, err := cluster.OpenStore(text)
		if err != nil {
			return usagef("--store: %w", err)
		}
		args = append(args, s.String())
	}
	return become(args...)
}

// devOptions are the options of cluster dev.
type devOptions struct {
	*app
	slots int
}

func clusterCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the machines that work for runs, or try them on this machine",
		Long: `status shows the workers of the Temporal server, and what its runs wait for. dev
starts Temporal's development server and two workers on this machine, to try runs on
many machines. In production the server runs elsewhere, and "bide worker" runs on
each machine; see bide docs cluster.`,
		Example: `  bide cluster dev
  bide run --on temporal nightly.yml
  bide cluster status`,
	}
	o := &devOptions{app: a, slots: 4}
	dev := &cobra.Command{
		Use:   "dev",
		Short: "Start Temporal's development server and two workers",
		Long: `Starts Temporal's development server on 127.0.0.1:7233, with its database in bide's
directory of state, and two workers, until an interrupt. The server's program, temporal, is
found on PATH or where "go install" puts it.`,
		Example: `  bide cluster dev --slots 2`,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}
	dev.Flags().Var(&countFlag{&o.slots}, "slots", "items at once, of each of the two workers")
	cmd.AddCommand(dev, clusterStatusCmd(a))
	return cmd
}

// devDatabase is the name of the development server's database, in bide's state directory.
const devDatabase = "temporal.db"

func (o *devOptions) run() error {
	st, err := o.openStore()
	if err != nil {
		return err
	}
	return become("dev", filepath.Join(st.Dir, devDatabase), strconv.Itoa(o.slots))
}
