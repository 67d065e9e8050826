package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/spf13/cobra"
)

// What concerns runs on many machines: `bide run --on temporal`, `bide worker`,
// `bide cluster`. Temporal itself is spoken to by another program, bide-temporal, so
// that this one stays small.

// clusterFlags say where a run goes on.
type clusterFlags struct {
	on, store string
	detach    bool
}

func (f *clusterFlags) check() error {
	switch {
	case f.on == "" && (f.store != "" || f.detach):
		return usagef("--store and --detach are for runs on many machines: add --on temporal")
	case f.on != "":
		return chosen("on", f.on, "temporal")
	}
	return nil
}

// sharedStore is the store of runs on many machines: --store, else BIDE_STORE, else
// a directory beside the runs of this machine.
func sharedStore(home *journal.Store, flag string) (cluster.Store, error) {
	if flag == "" {
		flag = os.Getenv("BIDE_STORE")
	}
	if flag == "" {
		flag = "dir:" + filepath.Join(home.Dir, "store")
	}
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
		return "", fmt.Errorf("the program %s is needed for Temporal, and is neither beside bide nor on PATH: the package bide-temporal of the release has it, and `make bide-temporal` in bide's sources builds it", name)
	}
	return path, nil
}

// temporal runs bide-temporal to its end, and gives what it printed.
func (a *app) temporal(ctx context.Context, in io.Reader, args ...string) (string, error) {
	program, err := beside()
	if err != nil {
		return "", err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the keyboard's interrupt is for bide
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(errs.String())
		if text == "" {
			text = err.Error()
		}
		return "", errors.New(strings.TrimPrefix(text, "bide: "))
	}
	return strings.TrimSpace(out.String()), nil
}

// become replaces this process by bide-temporal.
func (a *app) become(args ...string) error {
	program, err := beside()
	if err != nil {
		return err
	}
	return syscall.Exec(program, append([]string{program}, args...), os.Environ())
}

// runOn starts a run on Temporal, and follows it.
func (a *app) runOn(ctx context.Context, f *runFlags, opt engine.Options) error {
	if opt.Pipeline == nil {
		list := cluster.Refused(opt.File, opt.Isolation)
		a.problems(list, sources(opt.File))
		if list.HasErrors() {
			fmt.Fprintf(a.err, "bide: %s cannot be run on Temporal; nothing was run\n", opt.File.Path)
			return exitError(2)
		}
	}
	if f.ui {
		return usagef("--ui is not there yet for a run on Temporal: start bide ui in another terminal, it shows such runs too")
	}
	opt.Isolation = "none"
	home, err := a.store()
	if err != nil {
		return err
	}
	shared, err := sharedStore(home, f.store)
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
	plan := cluster.Plan{Protocol: cluster.Protocol, Header: h}
	if _, err := shared.Create(plan); err != nil {
		return err
	}
	j, err := cluster.Make(home, shared, plan)
	if err != nil {
		return err
	}
	if err := j.Close(); err != nil {
		return err
	}
	if err := a.begin(ctx, shared, h.Run, 1, cluster.Order{}); err != nil {
		return errors.Join(err, home.Remove(h.Run), os.RemoveAll(shared.Run(h.Run).Dir))
	}
	if f.detach {
		_, err := fmt.Fprintf(a.out, "run %s goes on on Temporal; `bide show %s` tells how it stands\n", h.Run, shortRun(h.Run))
		return err
	}
	return a.follow(ctx, f, opt, h.Run, 0)
}

// begin has Temporal begin a life of a run.
func (a *app) begin(ctx context.Context, shared cluster.Store, run string, life int, o cluster.Order) error {
	order, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = a.temporal(ctx, bytes.NewReader(order), "start", shared.String(), run, strconv.Itoa(life))
	return err
}

// followEvery is how often it is looked what has happened.
const followEvery = 200 * time.Millisecond

// follow shows a run that others go on with, behind an event, until it has ended. An interrupt stops
// it, a second one at once.
func (a *app) follow(ctx context.Context, f *runFlags, opt engine.Options, run string, from int64) error {
	return a.execute(ctx, f, opt, func(hard context.Context, o engine.Options) (*engine.Summary, error) {
		return a.followed(hard, o, run, from)
	})
}

// followed shows a run until its end is recorded. It leaves one that was asked to stop
// earlier where its end cannot be recorded, and at a second interrupt in any case.
//
// What it shows is read from the copy of the run, which whoever looks at it keeps up.
func (a *app) followed(hard context.Context, o engine.Options, run string, from int64) (*engine.Summary, error) {
	ctx, end := context.WithCancel(context.WithoutCancel(hard))
	defer end() // with what is still asked
	over := false
	show := func(e event.Event) {
		switch e.Type {
		case event.RunFinished:
			over = true
		case event.RunResumed:
			over = false
		}
		for _, s := range o.Sinks {
			s.Emit(e)
		}
	}
	tick, ask := time.NewTicker(followEvery), time.NewTicker(askEvery)
	defer tick.Stop()
	defer ask.Stop()
	f := follower{soft: o.Soft.Done(), now: hard.Done(), stopped: make(chan error, 2), asked: make(chan onServer, 1), say: func(text string) {
		show(event.Event{Type: event.Note, Time: time.Now(), Run: run, Message: text})
	}}
	for told := ""; !over; {
		var wrong error
		select {
		case <-tick.C:
		case <-ask.C:
			if !f.asking {
				f.asking = true
				go func() { f.asked <- a.stands(ctx, run, askWait)[run] }()
			}
		case s := <-f.asked:
			wrong = f.takes(s, run)
		case <-f.soft:
			f.soft, f.since = nil, time.Now()
			go func() { f.stopped <- a.askStop(ctx, run, false) }()
		case <-f.now:
			f.now, f.leave = nil, time.After(leaveWait)
			go func() { f.stopped <- a.askStop(ctx, run, true) }()
		case wrong = <-f.stopped:
		case <-f.leave:
			f.left = true
		}
		// What has happened meanwhile comes first.
		switch err := newEvents(ctx, o.Store, run, &from, show); {
		case err == nil:
			told = ""
		case !errors.As(err, new(*fs.PathError)) && !errors.As(err, new(*journal.DiskError)):
			return nil, err
		case err.Error() != told:
			told = err.Error()
			f.say("it cannot be seen now how the run stands: " + told)
		}
		switch {
		case over:
		case wrong != nil:
			return nil, wrong
		case f.left:
			f.say(fmt.Sprintf("run %s was asked to stop, and its end is not recorded yet%s; bide show %s tells how it stands, bide resume %[3]s goes on with it", run, f.because(), shortRun(run)))
			return nil, exitError(signalStatus(o.Soft))
		}
	}
	r, err := o.Store.Read(run)
	if err != nil {
		return nil, err
	}
	sum, err := engine.SummaryOf(ctx, o, r)
	return sum, errors.Join(err, r.Close())
}

// newEvents shows what has come to a run behind an event.
func newEvents(ctx context.Context, st *journal.Store, run string, from *int64, show func(event.Event)) (err error) {
	r, err := st.Read(run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	last, err := r.Last(ctx)
	if err != nil {
		return err
	}
	*from = min(*from, last) // of a copy that was made anew
	for e, err := range r.Events(ctx, *from+1, journal.EventFilter{}) {
		if err != nil {
			return err
		}
		*from = e.Seq
		show(e)
	}
	return nil
}

const (
	// askEvery is how often it is asked whether something holds a run up that its
	// record does not tell, and askWait how long an answer may take.
	askEvery = 3 * time.Second
	askWait  = 10 * time.Second
	// drainWait is how long a run may take to end that was asked to stop, and whose
	// end cannot be recorded: what runs has its grace. leaveWait is the same of one
	// that was asked to stop at once, whatever holds it up.
	drainWait = engine.DefaultGrace + 5*time.Second
	leaveWait = 10 * time.Second
)

// follower is who follows a run, beside what is recorded of it.
type follower struct {
	say       func(string)
	soft, now <-chan struct{}
	leave     <-chan time.Time
	left      bool
	since     time.Time // of the first interrupt
	stopped   chan error
	asked     chan onServer
	asking    bool
	trouble   string
	gone      int // how often Temporal did not have it
}

// takes takes how the run stands.
func (f *follower) takes(s onServer, run string) error {
	f.asking = false
	switch s.Word {
	case "": // nobody knows
		return nil
	case "running":
		f.gone = 0
	default:
		f.gone++
	}
	if f.gone > 3 {
		return fmt.Errorf("run %s was ended by Temporal before its end: `bide resume %s` goes on with what is recorded", run, shortRun(run))
	}
	if s.Trouble != f.trouble {
		if s.Trouble == "" {
			f.say("the run goes on again")
		} else {
			f.say("the run is held up: " + s.Trouble)
		}
		f.trouble = s.Trouble
	}
	f.left = f.left || f.trouble != "" && !f.since.IsZero() && time.Since(f.since) > drainWait
	return nil
}

func (f *follower) because() string {
	if f.trouble == "" {
		return ""
	}
	return ": " + f.trouble
}

// askStop has Temporal stop a run.
func (a *app) askStop(ctx context.Context, run string, now bool) error {
	args := []string{"stop", run}
	if now {
		args = append(args, "now")
	}
	_, err := a.temporal(ctx, nil, args...)
	if err != nil {
		err = fmt.Errorf("run %s could not be stopped, and goes on: %w", run, err)
	}
	return err
}

// onServer is how a run stands at Temporal, as bide-temporal tells it.
type onServer struct {
	Run, Word, Trouble string
}

// stands asks how runs stand at Temporal; what cannot be told within a time is left
// out.
func (a *app) stands(ctx context.Context, run string, wait time.Duration, more ...string) map[string]onServer {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	text, err := a.temporal(ctx, nil, append([]string{"status", run}, more...)...)
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

// troubles tells what holds up those of some runs that other machines go on with.
func (a *app) troubles(ctx context.Context, st *journal.Store, list []runInfo) map[string]onServer {
	var runs []string
	for _, i := range list {
		if _, err := cluster.Place(st.RunDir(i.Run)); err == nil && i.Status == event.Running {
			runs = append(runs, i.Run)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	return a.stands(ctx, runs[0], showWait, runs[1:]...)
}

// elsewhere reports whether a run goes on, or went on, on other machines.
func (a *app) elsewhere(run string) (id string, is bool, err error) {
	err = a.reading(run, func(r *journal.Reader) error {
		id, is = r.Run(), r.IsElsewhere()
		return nil
	})
	return id, is, err
}

// resumeOn goes on with a run on Temporal: it follows one that goes on, and begins
// a new life of one that does not, in which dead letters may be run again.
func (a *app) resumeOn(ctx context.Context, f *runFlags, opt engine.Options, run string, again ...journal.DeadLetter) error {
	if opt.Force || opt.MaxParallel > 0 {
		return usagef("--force and --max-parallel are not there yet for a run on Temporal")
	}
	home, err := a.store()
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
	word, err := a.had(ctx, run)
	if err != nil {
		return err
	}
	from := int64(0) // what was before is not shown
	err = a.reading(run, func(r *journal.Reader) (err error) {
		from, err = r.Last(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if word == "running" && len(again) > 0 {
		if len(again) > cluster.MaxLetters {
			return fmt.Errorf("run %s goes on, and %d dead letters are more than it is told at once: choose at most %d with --filter or --item, or wait for its end", run, len(again), cluster.MaxLetters)
		}
		q := cluster.Control{Do: cluster.Requeue}
		for _, l := range again {
			q.Again = append(q.Again, cluster.Letter{Index: l.Index, ID: l.ID})
		}
		if err := a.tellOn(ctx, run, q); err != nil {
			return err
		}
	}
	if word == "running" && !f.quiet {
		fmt.Fprintf(a.err, "bide: run %s goes on; what happens from now on is shown\n", shortRun(run))
	}
	if word != "running" {
		if len(again) == 0 {
			if err := a.unchanged(run); err != nil {
				return err
			}
		}
		life, order, err := cluster.NextLife(shared, run, time.Now())
		if err != nil {
			return err
		}
		order.Requeue(again, time.Now())
		if over, err := a.over(ctx, home, run); err != nil || over != "" && len(again) == 0 {
			if err == nil {
				err = &engine.FinishedError{Run: run, Status: over}
			}
			return err
		}
		if err := a.begin(ctx, shared, run, life, order); err != nil {
			return err
		}
	}
	return a.follow(ctx, f, opt, run, from)
}

// unchanged is an error where a file of the run is no longer what it was: as nobody
// would notice that the run goes on with the old one.
func (a *app) unchanged(run string) error {
	err := a.reading(run, func(r *journal.Reader) error { return engine.Unchanged(r.Header()) })
	if changed := new(engine.ChangedError); errors.As(err, &changed) {
		return fmt.Errorf("%s has changed since the run began:\n%s\na run on Temporal goes on with its file as it was: put it back, or begin a new run", changed.Path, changed.Diff)
	}
	return err
}

// hadWait is how long the end of a workflow may come after that of its run.
const hadWait = 10 * time.Second

// had tells whether Temporal has a run: running, closed or none. One that has just
// ended is given a moment.
func (a *app) had(ctx context.Context, run string) (word string, err error) {
	for end := time.Now().Add(hadWait); ; time.Sleep(stopWait) {
		if word, err = a.word(ctx, run); err != nil || word != "running" {
			return word, err
		}
		goesOn := false
		err := a.reading(run, func(r *journal.Reader) (err error) {
			goesOn, err = r.InUse()
			return err
		})
		if err != nil || goesOn {
			return word, err
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("run %s has ended, and Temporal still has it: try again in a moment", run)
		}
	}
}

// word asks Temporal whether it has a run.
func (a *app) word(ctx context.Context, run string) (string, error) {
	text, err := a.temporal(ctx, nil, "status", run)
	if err != nil {
		return "", err
	}
	var list []onServer
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
		return "", errors.Join(fmt.Errorf("bide-temporal says %q: is it of the same version as bide?", text), err)
	}
	return list[0].Word, nil
}

// tellOn has the map of a run that goes on do something.
func (a *app) tellOn(ctx context.Context, run string, q cluster.Control) error {
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	_, err = a.temporal(ctx, bytes.NewReader(text), "control", run)
	return err
}

// controlOn is bide control of a run on Temporal.
func (a *app) controlOn(ctx context.Context, run string, q journal.ControlRequest) error {
	if err := a.tellOn(ctx, run, cluster.Control{Do: q.Do, Parallel: q.Parallel}); err != nil {
		return err
	}
	return a.controlled(run, q)
}

// requeueOn has Temporal run dead letters again: in the map that goes on, or in a new
// life of the run.
func (a *app) requeueOn(ctx context.Context, f *runFlags, opt engine.Options, run string, filter letterFilter, plain bool) error {
	if !plain || opt.MaxParallel > 0 {
		return usagef("a run on Temporal keeps to the file and the items as they were when it began: write --as-recorded, without --data and --max-parallel")
	}
	var list []journal.DeadLetter
	err := a.reading(run, func(r *journal.Reader) error {
		return letters(ctx, r, filter, func(_ *letterInfo, l journal.DeadLetter) error {
			list = append(list, l)
			return nil
		})
	})
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return fmt.Errorf("no dead letter in run %s fits: nothing was run; see `bide dlq list %s`", run, run)
	}
	return a.resumeOn(ctx, f, opt, run, list...)
}

// over is the status of a run in which nothing is left to do; "" of any other.
func (a *app) over(ctx context.Context, home *journal.Store, run string) (string, error) {
	r, err := home.Read(run)
	if err != nil {
		return "", err
	}
	sum, err := r.Summary(ctx)
	if err = errors.Join(err, r.Close()); err != nil {
		return "", err
	}
	if sum.Status == event.Succeeded || sum.Status == event.CompletedWithFailures {
		return sum.Status, nil
	}
	return "", nil
}

// stopOn asks Temporal to stop a run, and waits until it has; an interrupt ends the wait.
func (a *app) stopOn(ctx context.Context, run string, now bool) error {
	if err := a.askStop(ctx, run, now); err != nil {
		return err
	}
	begin, asked := time.Now(), time.Now()
	for goesOn := true; goesOn; {
		err := a.reading(run, func(r *journal.Reader) (err error) {
			goesOn, err = r.InUse()
			return err
		})
		if err != nil {
			return err
		}
		if goesOn && time.Since(asked) > askEvery && time.Since(begin) > drainWait {
			asked = time.Now()
			if why := a.stands(ctx, run, askWait)[run].Trouble; why != "" {
				return fmt.Errorf("run %s was asked to stop, and its end is not recorded yet: %s", run, why)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(stopWait):
		}
	}
	_, err := fmt.Fprintf(a.out, "stopped run %s; `bide resume %s` goes on with it\n", run, run)
	return err
}

// adopt makes copies of the runs of BIDE_STORE that this machine has not seen.
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

// adopted is adopt for one command: a run of the store that cannot be taken over keeps
// nobody from another.
func (a *app) adopted(home *journal.Store) error {
	if a.toldStore {
		return nil
	}
	a.toldStore = true
	err := adopt(home)
	if errors.As(err, new(usageError)) {
		return err
	}
	if err != nil {
		fmt.Fprintf(a.err, "bide: runs of the store: %v\n", err)
	}
	return nil
}

// keepUp brings the copies of runs that other machines go on with up to date while
// they are watched, until end is called.
func (a *app) keepUp(home *journal.Store) (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		told := ""
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			err := errors.Join(adopt(home), cluster.RefreshAll(home))
			if err != nil && err.Error() != told {
				told = err.Error()
				fmt.Fprintf(a.err, "bide: runs on other machines: %v\n", err)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// refusedOn are the problems of a file for a place to run it.
func refusedOn(c *checked, on string) {
	if on == "" || c.file == nil || c.Problems.HasErrors() {
		return
	}
	c.Problems = append(c.Problems, cluster.Refused(c.file, "")...)
}

func (a *app) workerCmd() *cobra.Command {
	slots := 0
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Work for runs on Temporal, on this machine",
		Long: `Takes items of runs that were started with "bide run --on temporal", and runs them
here, as many at once as it has slots. The server is named by TEMPORAL_ADDRESS,
TEMPORAL_NAMESPACE and Temporal's other variables and profiles. The directory in
which a run was started, and its store, must be there under the same path.

An interrupt, or SIGTERM, has it take nothing more: what runs may end within 10 s, and
other workers go on. A second one ends it at once.`,
		Example: `  bide worker --slots 8
  TEMPORAL_ADDRESS=temporal.example.org:7233 bide worker`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if slots < 1 {
				return usagef("--slots is %d: it must be at least 1", slots)
			}
			return a.become("worker", strconv.Itoa(slots))
		},
	}
	cmd.Flags().IntVar(&slots, "slots", 4, "items at once")
	return cmd
}

func (a *app) clusterCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Try runs on many machines, on this one",
		Long: `Starts on this machine what runs on many machines need: Temporal's development server,
and workers. In earnest the server is somewhere else, and "bide worker" runs on each
machine; bide docs cluster tells how.`,
		Example: `  bide cluster dev
  bide run --on temporal nightly.yml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	slots := 0
	dev := &cobra.Command{
		Use:   "dev",
		Short: "Start Temporal's development server and two workers",
		Long: `Starts Temporal's development server on 127.0.0.1:7233, with its database in bide's
directory of state, and two workers, until an interrupt. The server's program, temporal, is
found on PATH or where "go install" puts it.`,
		Example: `  bide cluster dev --slots 2`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if slots < 1 {
				return usagef("--slots is %d: it must be at least 1", slots)
			}
			st, err := a.store()
			if err != nil {
				return err
			}
			return a.become("dev", filepath.Join(st.Dir, "temporal.db"), strconv.Itoa(slots))
		},
	}
	dev.Flags().IntVar(&slots, "slots", 4, "items at once, of each of the two workers")
	cmd.AddCommand(dev)
	return cmd
}
