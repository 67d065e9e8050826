package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
)

// setting is a store, two workers and a home, in which a run continues without any
// server: the driver does what the workflow of bide-temporal does.
type setting struct {
	t       *testing.T
	store   Store
	home    *journal.Store
	dir     string
	workers []*Worker
	random  *rand.Rand
	kill    int // one of so many lanes is killed; 0: none
	killed  int
	// killWithin is how long a lane that is killed works at most; 0: 30 ms.
	killWithin time.Duration
	owners     int
	lose       bool // what is decided is not recorded
	allowRed   bool // --allow-red-base
}

func newSetting(t *testing.T) *setting {
	t.Helper()
	root := t.TempDir()
	s := &setting{t: t, store: dirStore(filepath.Join(root, "store")), dir: filepath.Join(root, "work")}
	var err error
	if s.home, err = journal.OpenStore(filepath.Join(root, "home")); err != nil {
		t.Fatal(err)
	}
	s.home.Refresh = Refresh(s.home)
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s.random = rand.New(rand.NewPCG(seed, 1))
	for range 2 {
		w, err := NewWorker(root)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
		s.workers = append(s.workers, w)
	}
	return s
}

func (s *setting) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *setting) options(text string) engine.Options {
	s.t.Helper()
	f, problems := workflow.Load(s.write("flow.yml", text), workflow.Options{ToRun: true})
	if problems.HasErrors() {
		s.t.Fatal(problems)
	}
	opt := engine.Options{File: f, Store: s.home}
	opt.Dir, opt.Isolation = s.dir, "none"
	return opt
}

// submit makes a run, as bide run --on temporal does.
func (s *setting) submit(opt engine.Options) string {
	s.t.Helper()
	h, err := engine.Plan(opt)
	if err != nil {
		s.t.Fatal(err)
	}
	p := Plan{Protocol: Protocol, Header: h}
	if _, err := s.store.Create(p); err != nil {
		s.t.Fatal(err)
	}
	j, err := Make(s.home, s.store, p)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		s.t.Fatal(err)
	}
	return h.Run
}

func (s *setting) worker() *Worker { return s.workers[s.random.IntN(len(s.workers))] }

// drive takes a run to its end, and gives the status.
func (s *setting) drive(run string) string {
	s.t.Helper()
	return s.driveFrom(run, s.begin(run))
}

// driveFrom takes a life of a run to its end.
func (s *setting) driveFrom(run string, o Order) string {
	s.t.Helper()
	life := o.Life
	begun := s.homeTask(&o, HomeTask{Run: run, Store: s.store.String(), Life: life, Log: HomeLog(life, 1), Begin: true})
	if begun.Config == nil {
		return begun.Status
	}
	c, err := NewCoordinator(CoordinatorState{Run: run, Store: s.store.String(), Config: *begun.Config, Machine: begun.State, Order: o})
	if err != nil {
		s.t.Fatal(err)
	}
	c = s.lanes(run, c)
	done := s.homeTask(&c.Order, HomeTask{Run: run, Store: s.store.String(), Life: life, Log: HomeLog(life, 2), After: true, Halt: c.Stopped()})
	return done.Status
}

// begin begins a life of a run.
func (s *setting) begin(run string) Order {
	s.t.Helper()
	s.owners++
	o, err := s.store.Run(run).Begin(fmt.Sprint("owner ", s.owners), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

func (s *setting) homeTask(o *Order, t HomeTask) HomeDone {
	s.t.Helper()
	o.Opened(t.Log, time.Now())
	s.record(t.Run, o)
	done, err := s.worker().Home(context.Background(), t)
	if err != nil {
		s.t.Fatal(err)
	}
	o.Accept(done.Prefix, time.Now())
	s.record(t.Run, o)
	return done
}

func (s *setting) record(run string, o *Order) {
	s.t.Helper()
	if s.lose {
		return
	}
	e, ok := o.Next()
	if !ok {
		return
	}
	if err := s.store.Run(run).Record(e); err != nil {
		s.t.Fatal(err)
	}
	o.Recorded()
}

func (s *setting) lanes(run string, c *Coordinator) *Coordinator {
	type told struct {
		l    *Lease
		s    Settled
		lost bool
		err  error
	}
	ends := make(chan told)
	for {
		var until time.Time
		for c.Open() < c.Lanes() {
			l, at, over := c.Lease(time.Now())
			if over {
				return c
			}
			if until = at; l == nil {
				break
			}
			s.passOn(&c)
			w, kill := s.worker(), s.kill > 0 && s.random.IntN(s.kill) == 0
			// On a busy machine an item takes longer than any lane is let live, and five times is too often.
			kill = kill && !slices.ContainsFunc(l.Spans, func(of Span) bool { return of.Recoveries >= 3 })
			after := time.Duration(s.random.Int64N(int64(cmp.Or(s.killWithin, 30*time.Millisecond))))
			if kill {
				s.killed++
			}
			go func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if kill {
					ctx, cancel = context.WithTimeout(ctx, after)
					defer cancel()
				}
				out, err := w.Lane(ctx, *l, nil, nil)
				if ctx.Err() != nil { // what it said never arrived
					out, err = w.Adopt(*l)
					ends <- told{l, out, true, err}
					return
				}
				ends <- told{l, out, false, err}
			}()
		}
		var timer <-chan time.Time
		if !until.IsZero() {
			timer = time.After(time.Until(until))
		}
		select {
		case <-timer:
		case e := <-ends:
			settle := c.Settle
			if e.lost {
				settle = c.Lost
			}
			if err := errors.Join(e.err, settle(e.l.ID, e.s, time.Now())); err != nil {
				s.t.Fatal(err)
			}
			s.record(run, &c.Order)
		}
	}
}

// passOn has the coordinator continue from its own state, as after continue-as-new.
func (s *setting) passOn(c **Coordinator) {
	if s.random.IntN(4) > 0 {
		return
	}
	text, err := json.Marshal((*c).State())
	if err != nil {
		s.t.Fatal(err)
	}
	var st CoordinatorState
	if err := json.Unmarshal(text, &st); err != nil {
		s.t.Fatal(err)
	}
	if *c, err = NewCoordinator(st); err != nil {
		s.t.Fatal(err)
	}
}

func (s *setting) events(run string) (list []event.Event) {
	s.t.Helper()
	r, err := s.home.Read(run)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Events(context.Background(), 1, journal.EventFilter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func itemsText(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"id\": \"i%d\", \"n\": %d}\n", i, i)
	}
	return b.String()
}

const flaky = `
name: spread
mode: mapreduce
setup:
  - shell: echo prepared
    capture_output: word
map:
  input: items.jsonl
  max_parallel: 3
  agent_template:
    - shell: |
        echo "$BIDE_ITEM $BIDE_ATTEMPT" >> ran
        case "${item.n}-$BIDE_ATTEMPT" in *3-1) echo "first time: ${word}" >&2; exit 7;; 13-*) exit 9;; esac
        echo "${word} ${item.n} $BIDE_LAST_EXIT"
  retry_config: {attempts: 2, backoff: fixed, initial_delay: 50ms}
reduce:
  - shell: echo "${map.successful} of ${map.total}, ${word}" > result
`

// TestARunOnManyWorkers: a run that two workers share, of which lanes are killed at
// random, comes to the same end as one on this machine: every item exactly once,
// what is retried retried with what it knows of the attempt before, the setup's
// variables everywhere, and only what was in flight twice.
func TestARunOnManyWorkers(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	s.kill = 4
	const n = 40
	s.write("items.jsonl", itemsText(n))
	opt := s.options(flaky)
	run := s.submit(opt)
	if status := s.drive(run); status != event.CompletedWithFailures {
		t.Fatalf("%s: %+v", status, s.events(run))
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "result")); err != nil || string(text) != "39 of 40, prepared\n" {
		t.Errorf("%q, %v", text, err)
	}
	ran, err := os.ReadFile(filepath.Join(s.dir, "ran"))
	if err != nil {
		t.Fatal(err)
	}
	retried := 0
	for i := range n {
		if i%10 == 3 {
			retried++
		}
	}
	if lines := strings.Count(string(ran), "\n"); lines < n+retried || lines > n+retried+s.killed {
		t.Errorf("%d attempts, of %d items, %d retried, with %d lanes killed", lines, n, retried, s.killed)
	}
	r, err := s.home.Read(run)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sum, err := r.Summary(context.Background())
	if err != nil || sum.Items.Succeeded != n-1 || sum.Items.DeadLettered != 1 || sum.Status != event.CompletedWithFailures {
		t.Errorf("%+v, %v", sum, err)
	}
	last := map[int]event.Event{}
	for _, e := range s.events(run) {
		if e.Type == event.ItemFinished && e.Status != event.Interrupted {
			if _, twice := last[e.Index]; twice {
				t.Errorf("item %d ends twice", e.Index)
			}
			last[e.Index] = e
		}
	}
	var result struct{ Output string }
	if err := json.Unmarshal(last[4].Data, &result); err != nil || result.Output != "prepared 3 7" {
		t.Errorf("%q, %v", result.Output, err)
	}
	if l := last[14]; l.Status != event.DeadLettered || l.ExitCode != 9 || l.Item != "i13" {
		t.Errorf("%+v", l)
	}
}

// TestBounds: a map that stops for its policy does so with no more failures than
// items are in flight beyond the bound, and ends as it would on one machine.
func TestBounds(t *testing.T) {
	t.Parallel()
	const lanes = 4
	for name, c := range map[string]struct {
		policy string
		failed int // at most
		status string
		says   string
	}{
		"max_failures":      {"max_failures: 5", 5 + lanes - 1, event.Failed, "max_failures: 5"},
		"failure_threshold": {"failure_threshold: 0.4", 4 + lanes, event.Failed, "failure_threshold"},
		"first failure":     {"continue_on_failure: false", lanes, event.Failed, "continue_on_failure"},
		"stop":              {"on_item_failure: stop", lanes, event.Failed, "on_item_failure: stop"},
		"skip":              {"on_item_failure: skip", 60, event.CompletedWithFailures, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetting(t)
			s.write("items.jsonl", itemsText(60))
			run := s.submit(s.options(fmt.Sprintf(`
name: bounds
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: %d
  agent_template:
    - shell: "exit $((${item.n} %% 2))"
error_policy: {%s}
`, lanes, c.policy)))
			if got := s.drive(run); got != c.status {
				t.Fatal(got)
			}
			failed, last, note := 0, event.Event{}, ""
			for _, e := range s.events(run) {
				if text, is := strings.CutPrefix(e.Message, "the map stops: "); is {
					note = text
				}
				if last = e; e.Type == event.ItemFinished && e.Class != "" {
					failed++
				}
			}
			if failed == 0 || failed > c.failed || !strings.Contains(last.Message, c.says) {
				t.Errorf("%d items failed, of %d at most: %+v", failed, c.failed, last)
			}
			if !strings.Contains(note, c.says) || !strings.Contains(last.Message, note) {
				t.Errorf("the note says %q, and the end %q", note, last.Message)
			}
		})
	}
}

// TestZombie: a lane that was given up keeps writing, and nothing of it counts; the
// copy of a run that has taken over more of a home task's log than was accepted is
// made anew.
func TestZombie(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submit(s.options("commands:\n  - shell: echo one\n  - shell: echo two\n"))
	task := HomeTask{Run: run, Store: s.store.String(), Life: 1, Log: "home-1-1", Begin: true}
	o := s.begin(run)
	o.Opened(task.Log, time.Now())
	s.record(run, &o)
	if _, err := s.worker().Home(context.Background(), task); err != nil {
		t.Fatal(err)
	}
	whole := len(s.events(run)) // of a log that is open
	shared := s.store.Run(run)
	frames := []int64{0}
	if _, err := shared.readLog(task.Log, 0, -1, func(_ []byte, end int64) error { frames = append(frames, end); return nil }); err != nil {
		t.Fatal(err)
	}
	length := frames[len(frames)/2]
	digest, err := shared.digestOf(task.Log, length)
	if err != nil {
		t.Fatal(err)
	}
	o.Accept(Prefix{task.Log, length, digest}, time.Now())
	s.record(run, &o)
	if part := len(s.events(run)); part == 0 || part >= whole {
		t.Errorf("%d of %d events", part, whole)
	}
	task.Log, task.Begin = "home-1-2", false
	if done := s.homeTask(&o, task); done.Status != event.Succeeded {
		t.Errorf("%+v", done)
	}
	seen := map[string]int{}
	for _, e := range s.events(run) {
		if e.Type == event.StepFinished {
			seen[e.Step]++
		}
	}
	if len(seen) != 2 || seen["commands[0]"] != 1 || seen["commands[1]"] != 1 {
		t.Errorf("%v", seen)
	}
}
