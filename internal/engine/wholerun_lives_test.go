package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/agents"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/step"
	ports "github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

// oneLife is one process of a run, with its own clock. It is the step.Recorder of that
// process.
type oneLife struct {
	step.Details
	number   int
	began    time.Time
	clock    *ports.Clock
	journal  []event.Event // what earlier lives have left, and what this one records
	base     int           // how many of these facts are from earlier lives
	records  []int         // where the records of this life end
	synced   int           // how many of these facts a power cut would not lose
	kept     int           // how many of these facts the next life finds
	fault    *fault
	uneven   bool
	ticks    int
	dead     bool // it was killed: nothing that it does has an effect
	stuck    string
	stop     func() // an interrupt
	kill     func() // ends what is left of a life that was killed
	status   string
	exit     int
	sum      *engine.Summary
	panicked string
}

const (
	longestLife = 3 * 366 * 24 * time.Hour
	mostRecords = 20_000
)

// Record keeps facts as one record.
func (l *oneLife) Record(facts ...event.Event) error {
	if l.dead {
		return errKilled
	}
	for _, e := range facts {
		if !e.Type.Kept() {
			continue
		}
		if e.Time.IsZero() {
			e.Time = l.clock.Now()
		}
		e.Seq = int64(len(l.journal)) + 1
		e.Run = "virtual"
		l.journal = append(l.journal, e)
	}
	l.records = append(l.records, len(l.journal))
	if len(l.records) > mostRecords || l.clock.Now().Sub(l.began) > longestLife {
		l.stuck = fmt.Sprintf("the life goes on for %s, with %d records", l.clock.Now().Sub(l.began), len(l.records))
		l.die()
		return errKilled
	}
	l.tick()
	if l.dead {
		return errKilled
	}
	return nil
}

// Sync makes everything that was recorded survive a power cut.
func (l *oneLife) Sync(context.Context) error {
	if l.dead {
		return errKilled
	}
	l.synced = len(l.journal)
	return nil
}

// Show shows nothing.
func (l *oneLife) Show(event.Event) {}

// tick counts what the life does, and ends it at the tick of its fault.
func (l *oneLife) tick() {
	l.ticks++
	if l.fault == nil || l.dead || l.ticks != l.fault.Tick {
		return
	}
	if l.fault.Interrupt {
		if l.uneven {
			l.clock.After(123*time.Nanosecond, func() { l.stop() }) // so that no two things happen at the same moment
			return
		}
		l.stop()
		return
	}
	l.die()
}

func (l *oneLife) die() {
	l.dead = true
	l.kill()
}

// wholeRun is a run of a plan, from its first life to its last.
type wholeRun struct {
	plan   *plan
	file   *workflow.File
	world  *planWorld
	lives  []*oneLife
	began  time.Time
	failed int            // lives that ended as failed
	store  *journal.Store // if not nil, each life reads a real journal
}

// loadPlan reads the workflow file of a plan.
func loadPlan(p *plan) (*workflow.File, error) {
	texts := map[string][]byte{"whole.yml": p.file(), "sub.yml": p.subFile()}
	f, problems := workflow.Load("/plan/whole.yml", workflow.Options{WorkDir: "/plan", ReadFile: func(path string) ([]byte, error) {
		if b, ok := texts[filepath.Base(path)]; ok {
			return b, nil
		}
		return nil, fs.ErrNotExist
	}})
	return f, problems.Err()
}

// runPlan takes a run through its faults to its end. If the run has failed, it repairs the
// world. Then it continues the run once more, although there may be nothing to do.
func runPlan(p *plan, store *journal.Store) (*wholeRun, error) {
	f, err := loadPlan(p)
	if err != nil {
		return nil, err
	}
	r := &wholeRun{plan: p, file: f, world: newPlanWorld(p), began: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), store: store}
	now, faults := r.began, p.Faults
	var left []event.Event
	for range len(p.Faults) + 8 {
		var next *fault
		if len(faults) > 0 {
			next, faults = &faults[0], faults[1:]
		}
		l, err := r.live(now, left, next)
		if err != nil {
			return nil, err
		}
		r.lives = append(r.lives, l)
		if l.stuck != "" || l.panicked != "" {
			return r, nil
		}
		now, left = l.clock.Now(), l.leave()
		if next != nil {
			now = now.Add(time.Duration(next.JumpMS) * time.Millisecond)
		}
		if l.dead || l.status == event.Interrupted {
			continue
		}
		if left = r.goOn(l, left, now); left == nil {
			break
		}
		now = now.Add(time.Hour) // until somebody looks at the run
	}
	return r, nil
}

// goOn gives the journal for continuing a run that has ended; nil if there is nothing left
// to test.
func (r *wholeRun) goOn(l *oneLife, left []event.Event, now time.Time) []event.Event {
	if len(r.lives) > 1 {
		before := r.lives[len(r.lives)-2]
		if endedWell(before.status) && !before.dead && len(before.leave()) == l.base {
			return nil // this life had nothing to do
		}
	}
	if endedWell(l.status) && !r.world.mended {
		// The dead letters are run again, once.
		add := []event.Event{}
		for _, e := range deadEnds(left) {
			add = append(add, event.Event{Seq: int64(len(left)+len(add)) + 1, Type: event.ItemRequeued, Time: now, Run: "virtual", Item: e.Item, Index: e.Index, Phase: "map"})
		}
		if len(add) > 0 {
			r.world.mended = true
			return append(left, add...)
		}
	}
	if l.status != event.Failed {
		return left
	}
	if r.failed++; r.failed > 4 {
		return nil
	}
	r.world.mended = r.world.mended || r.failed > 1
	return left
}

func endedWell(status string) bool {
	return status == event.Succeeded || status == event.CompletedWithFailures
}

// deadEnds gives the ends of the items that are dead letters.
func deadEnds(facts []event.Event) (list []event.Event) {
	last := map[int]event.Event{}
	for _, e := range facts {
		if e.Type == event.ItemFinished {
			last[e.Index] = e
		}
	}
	for _, e := range facts {
		if l := last[e.Index]; l.Seq == e.Seq && l.Status == event.DeadLettered && e.Type == event.ItemFinished {
			list = append(list, l)
		}
	}
	return list
}

// leave gives what a life leaves in the journal. If it was killed, the unsynced records
// that its fault takes away are lost.
func (l *oneLife) leave() []event.Event {
	if l.kept == 0 {
		l.kept = len(l.journal)
		if l.dead && l.fault != nil {
			for i, lost := len(l.records)-1, l.fault.Lose; i >= 0 && lost > 0 && l.records[i] > l.synced; i, lost = i-1, lost-1 {
				l.kept = l.base
				if i > 0 {
					l.kept = l.records[i-1]
				}
			}
			l.kept = max(l.kept, l.synced)
		}
	}
	return l.journal[:l.kept:l.kept]
}

// live runs one life of the run.
func (r *wholeRun) live(now time.Time, left []event.Event, f *fault) (l *oneLife, err error) {
	l = &oneLife{number: len(r.lives), began: now, clock: ports.NewClock(now), journal: left, base: len(left), synced: len(left), fault: f, uneven: r.plan.Uneven}
	r.world.life = l
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	l.kill = func() { cancel(errKilled) }
	opt := engine.Options{File: r.file, Environ: []string{}}
	opt.Dir, opt.Isolation = "/plan", "none"
	halt := false
	l.stop = func() { halt = true }
	opt.Composed = func(x *step.Executor) {
		l.stop = func() { x.Life.Halt(step.ErrInterrupted) }
		if halt {
			l.stop()
		}
	}
	p := engine.Ports{Clock: l.clock, Recorder: l, Actions: r.world, Data: true, Rand: r.luck, Items: r.items(left)}
	if r.plan.Limited {
		if p.Machine, err = limits.NewAlone(&limits.Config{Limits: map[string]limits.Limit{"a-item": {Name: "a-item", Slots: 2}, "b-step": {Name: "b-step", Slots: 1, Rate: 2, Per: time.Second}, "c-agent": {Name: "c-agent", Slots: 1, Shared: true}}}, l.clock); err != nil {
			return nil, err
		}
	}
	if len(r.plan.Asks) > 0 {
		p.Composed = func(_ func(), ask func(*journal.ControlRequest)) {
			for _, a := range r.plan.Asks {
				l.clock.After(time.Duration(a.AfterMS)*time.Millisecond, func() { ask(&journal.ControlRequest{Do: a.Do, Parallel: a.Parallel}) })
			}
		}
	}
	if len(left) > 0 {
		done := func() error { return nil }
		if p.Earlier, done, err = r.earlier(left); err != nil {
			return nil, err
		}
		defer func() {
			if derr := done(); err == nil {
				err = derr
			}
		}()
	}
	defer func() {
		if x := recover(); x != nil {
			l.panicked = fmt.Sprintf("%v\n%s", x, debug.Stack())
		}
	}()
	l.clock.Run(func() { l.sum = engine.RunOn(ctx, opt, p) })
	l.status, l.exit = l.sum.Status, l.sum.ExitStatus()
	return l, nil
}

// luck gives the same random values at the same place each time.
func (r *wholeRun) luck(p step.Address, path string) backoff.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, path, p.Rounds, p.Index, len(r.lives))
	return rand.New(rand.NewPCG(h.Sum64(), uint64(p.Attempt)))
}

// items reads the work items, unless they are on record.
func (r *wholeRun) items(left []event.Event) func(func() ([]event.Item, error)) ([]event.Item, error) {
	return func(read func() ([]event.Item, error)) ([]event.Item, error) { return read() }
}

// listed gives how many work items are on record.
func listed(facts []event.Event) int {
	for _, e := range facts {
		if e.Type == event.ItemsReady {
			return e.Total
		}
	}
	return 0
}

// earlier gives what a life finds: the facts, or a real journal that has them.
func (r *wholeRun) earlier(left []event.Event) (agents.Earlier, func() error, error) {
	if r.store == nil {
		return journal.Facts{Events: left, Items: listed(left)}, func() error { return nil }, nil
	}
	j, err := r.store.Create(journal.Header{Name: "whole", Started: r.began})
	if err != nil {
		return nil, nil, err
	}
	if n := listed(left); n > 0 {
		items := func(yield func(event.Item, error) bool) {
			for i := range n {
				if !yield(event.Item{ID: fmt.Sprintf("i%d", i+1), Data: []byte("{}")}, nil) {
					return
				}
			}
		}
		if _, _, err := j.PutItems(context.Background(), items); err != nil {
			return nil, nil, err
		}
	}
	if err := j.RecordAll(append([]event.Event(nil), left...)); err != nil {
		return nil, nil, err
	}
	run := j.Run()
	if err := j.Close(); err != nil {
		return nil, nil, err
	}
	j, err = r.store.Open(run)
	if err != nil {
		return nil, nil, err
	}
	return j, func() error {
		if err := j.Close(); err != nil {
			return err
		}
		return r.store.Remove(run)
	}, nil
}

// text gives the plan in the form in which it is kept.
func (p *plan) text() string {
	b, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		panic(err)
	}
	return string(b)
}
