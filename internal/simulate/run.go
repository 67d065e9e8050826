package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// Options say what is simulated.
type Options struct {
	File *workflow.File
	// Pipeline, if not nil, is what is simulated in place of File. Inputs that the
	// settings do not have are made up.
	Pipeline *dataflow.Pipeline
	// Settings are those that a run would get: parameters, max_parallel, and so on.
	Settings engine.Settings
	Model    *Model
	// Seeds is how many runs are simulated, First the seed of the first.
	Seeds int
	First uint64
	// Progress, if not nil, is told how many have ended. It is called by many
	// goroutines at once.
	Progress func(done int)
	// Facts, if not nil, is told each fact of each run, those of one run in order.
	// It is called by many goroutines at once.
	Facts func(seed int, e event.Event)
	// Items are the work items in place of those of the file.
	Items []event.Item
	// Input runs the command that gives the work items, once; nil: nobody does, and they
	// are made up.
	Input func(context.Context, *workflow.Shell, *action.Call) (action.Result, error)
	// Limits are the named limits of the machine; nil: none are kept to.
	Limits *limits.Config

	rand    func(p step.Address, path string) backoff.Rand
	assumed []string                                // what the answer rests on and nobody knows
	data    bool                                    // attempts are given their variables
	actions func(*world, step.Actions) step.Actions // replaces the model's
	clock   func(*virtual.Clock, luck) step.Clock   // replaces the one that is exact
}

// began is when every simulated run begins.
var began = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Run simulates runs of a file, as many at once as there are processors. Each
// is the executor itself on a clock of its own. When ctx ends, it gives those
// that have ended by then.
func Run(ctx context.Context, o Options) ([]*Sample, error) {
	n, err := prepare(&o)
	if err != nil {
		return nil, err
	}
	ctx, end := timeless(ctx)
	defer end()
	list := &itemList{model: o.Model, given: o.Items}
	samples := make([]*Sample, o.Seeds)
	errs := make([]error, o.Seeds)
	var next, done atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), o.Seeds) {
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= o.Seeds {
					return
				}
				samples[i], errs[i] = one(ctx, &o, n, list, i)
				if o.Progress != nil {
					o.Progress(int(done.Add(1)))
				}
			}
		})
	}
	all.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	cut := func(s *Sample) bool { return s == nil || s.Status == event.Interrupted }
	return slices.DeleteFunc(samples, cut), nil
}

// timeless is a context that ends with ctx and has no deadline: one of this
// machine's time means nothing in that of a simulation.
func timeless(ctx context.Context) (_ context.Context, end func()) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return out, func() { stop(); cancel(nil) }
}

// Named are the limits of the machine that the file, or the pipeline, names.
func (o *Options) Named() []workflow.LimitRef {
	if o.Pipeline != nil {
		return o.Pipeline.Named()
	}
	return dataflow.LoadSteps(o.File, o.Settings.Dir).Limits(o.File)
}

// prepare makes a file one that asks nobody for anything.
func prepare(o *Options) (*stepNames, error) {
	o.assumed = slices.Clone(o.Model.Assumed)
	if o.Limits != nil {
		for _, l := range o.Named() {
			o.assumed = append(o.assumed, fmt.Sprintf("no other run of this machine uses the limit %s meanwhile", l.Name))
		}
	}
	o.assumeWidth()
	if o.Pipeline == nil {
		hideSecrets(o.File)
		return namesOf(o.File), nil
	}
	for _, name := range MadeUp(o.Pipeline, o.Settings.Inputs) {
		o.assumed = append(o.assumed, fmt.Sprintf("the made-up input %s is as the real one", name))
	}
	o.Settings.Inputs = madeUp(o.Pipeline, o.Settings.Inputs, o.Model.Items)
	return callsOf(o.Pipeline)
}

// one simulates one run.
func one(ctx context.Context, o *Options, n *stepNames, list *itemList, i int) (_ *Sample, err error) {
	clock := virtual.NewClock(began)
	seen := newWatch()
	model := o.Model.drawn(o.First + uint64(i))
	seen.outageEnd, _ = model.End()
	if o.Facts != nil {
		seen.facts = func(e event.Event) { o.Facts(i, e) }
	}
	w := newWorld(model, n, luck(mix(o.First+uint64(i))), clock, seen)
	w.stretch = o.stretched(model)
	acts := w.actions()
	if o.actions != nil {
		acts = o.actions(w, acts)
	}
	ports := w.ports(acts, list)
	ports.Input = o.Input
	if o.clock != nil {
		ports.Clock = o.clock(clock, w.seed)
	}
	ports.Data, ports.Merge = o.data, &worktree.Run{}
	if o.Limits != nil {
		if ports.Machine, err = limits.NewAlone(o.Limits, clock); err != nil {
			return nil, err
		}
	}
	if o.rand != nil {
		ports.Rand = o.rand
	}
	var sum *engine.Summary
	clock.Run(func() {
		sum = engine.RunOn(ctx, engine.Options{Settings: o.Settings, File: o.File, Pipeline: o.Pipeline, Environ: []string{}}, ports)
	})
	if errors.Is(sum.Err, items.ErrUnread) || list.err != nil {
		return nil, fmt.Errorf("the work items: %w", sum.Err)
	}
	s := seen.Sample
	s.Assumed = slices.Concat(o.assumed, s.Assumed)
	if list.made && o.Model.Guessed {
		s.Assumed = append(s.Assumed, fmt.Sprintf("%s, which is not run without --run-input, gives %d items", o.File.Map.Input, len(list.list)))
	}
	s.assumeRetries(model, n)
	s.seed = o.First + uint64(i)
	s.draws = len(o.Model.draws)
	s.draw = int((o.First + uint64(i)) % uint64(max(s.draws, 1)))
	s.Status, s.Makespan = sum.Status, clock.Now().Sub(began)
	s.Cause = s.why(sum, n)
	if s.Makespan < seen.outageEnd { // it has ended before
		s.Recovered = s.Status == event.Succeeded
	}
	return &s, nil
}

// why says what a run did that did not succeed, as "end with dead letters"; "" of one that did.
func (s *Sample) why(sum *engine.Summary, names *stepNames) string {
	switch {
	case s.good():
		return ""
	case s.Status == event.CompletedWithFailures && s.Letters > 0:
		return withLetters
	case s.Status == event.CompletedWithFailures:
		return "end degraded"
	case sum.Class == "policy" && s.Letters > 0:
		return "are stopped by failed items"
	case s.failed != "":
		return fmt.Sprintf("fail at %s (%s)", names.label(s.failed), sum.Class)
	}
	return fmt.Sprintf("fail (%s)", sum.Class)
}

// withLetters is what runs do that come to their end with items that failed for good.
const withLetters = "end with dead letters"

// newWorld is a world in which nothing has happened, on a clock.
func newWorld(m *Model, n *stepNames, seed luck, clock *virtual.Clock, seen *watch) *world {
	seen.static = n.static
	return &world{model: m, names: n, seed: seed, began: clock.Now(), clock: clock, live: map[string]*live{}, tables: map[string]*live{}, seen: seen,
		stretch: 1, late: m.lateness(seed), failures: map[string]*failure.Failure{}, results: map[*module.Definition]string{}}
}

// actions are those that the model makes up.
func (w *world) actions() step.Actions {
	return &virtual.Actions{Clock: w.clock, MakeUp: w.file, Model: w.answer}
}

// ports are those of a run in the world.
func (w *world) ports(acts step.Actions, items *itemList) engine.Ports {
	return engine.Ports{
		Clock: w.clock, Actions: acts, Git: &step.Git{Repo: history{}}, Items: items.get,
		Compute:  func(context.Context, environ.Command) (string, error) { return "", nil }, // of what it would give nothing is known
		Recorder: &virtual.Recorder{Clock: w.clock, Forget: true, Kept: func(e *event.Event) { w.seen.fact(e, w.began) }},
		Rand:     w.jitter,
	}
}

// jitter draws that of a step, or of an item.
func (w *world) jitter(p step.Address, path string) backoff.Rand {
	l := w.seed.with(hash(path)).with(uint64(p.Index)<<32 | uint64(p.Attempt)).with(^uint64(0))
	if path == step.ItemJitter {
		l = w.seed.with(uint64(p.Index)).with(^uint64(p.Attempt))
	}
	return &l
}

// itemList is the work items of all runs, read once.
type itemList struct {
	model *Model
	given []event.Item
	once  sync.Once
	list  []event.Item
	made  bool // nobody knows them
	err   error
}

func (l *itemList) get(read func() ([]event.Item, error)) ([]event.Item, error) {
	l.once.Do(func() {
		if l.list = l.given; l.list != nil {
			return
		}
		if l.list, l.err = read(); errors.Is(l.err, items.ErrUnread) && l.model.Items > 0 {
			l.list, l.err, l.made = Items(l.model.Items), nil, true
		}
	})
	return l.list, l.err
}

// Items makes work items where nobody knows them.
func Items(n int) []event.Item {
	list := make([]event.Item, n)
	for i := range list {
		id := strconv.Itoa(i + 1)
		list[i] = event.Item{Index: i + 1, ID: id, Data: []byte(`"item ` + id + `"`)}
	}
	return list
}

// hideSecrets has a simulation ask nobody for a secret.
func hideSecrets(f *workflow.File) {
	for _, f := range workflow.Files(f) {
		for i := range f.Secrets {
			s := &f.Secrets[i]
			if text, err := template.Parse("simulated secret " + s.Name); err == nil { // a name has no ${
				s.Provider, s.Key = "value", text
			}
		}
	}
}

// unshown is the share of the attempts at a step that makes a difference where nothing
// like them was recorded.
const unshown = 0.02

// assumeRetries notes how much of the run rests on retries that nobody has seen.
func (s *Sample) assumeRetries(m *Model, names *stepNames) {
	for _, path := range slices.Sorted(maps.Keys(s.Steps)) {
		if n := s.Steps[path]; float64(n.beyond) > unshown*float64(n.Attempts) {
			t := m.Steps[path]
			path = names.label(path)
			s.Assumed = append(s.Assumed, fmt.Sprintf("attempts at %s after the %s fail as those before, which a run with more of them would tell", path, ordinal(t.tries)))
		}
	}
}

// ordinal is a number as a place.
func ordinal(n int) string {
	switch {
	case n == 1:
		return "first"
	case n == 2:
		return "second"
	case n == 3:
		return "third"
	}
	return fmt.Sprintf("%dth", n)
}
