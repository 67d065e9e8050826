package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/stretchr/testify/mock"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	temporalsdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	temporal "go.temporal.io/sdk/workflow"
)

// lanesOnPaper is a run whose activities are figures only: what the coordinator
// decides is told apart from what steps do. Its workflow hands over to its next
// execution as often as it is told to.
type lanesOnPaper struct {
	t          *testing.T
	env        *testsuite.TestWorkflowEnvironment
	cfg        cluster.Config
	items      int
	executions int
	slow       func(cluster.Lease) bool // leases whose first item takes longer than they are to; nil: none

	recordTakes time.Duration // how long the store takes
	// after does the tasks after the map; nil: they succeed.
	after func(context.Context, cluster.HomeTask) (cluster.HomeDone, error)

	mu       sync.Mutex
	ended    map[int][]time.Duration  // by item: when, since the beginning
	accepted map[string]int           // by log: how often
	recorded map[string]time.Duration // by log: when
	begun    time.Time
}

const paperRun = "01PAPER"

// newLanesOnPaper gives one that hands over with each so many rounds of its loop.
func newLanesOnPaper(t *testing.T, cfg policy.Config, items, rounds int) *lanesOnPaper {
	t.Helper()
	withoutServer(t)
	p := &lanesOnPaper{t: t, cfg: cluster.Config{Config: cfg}, items: items, ended: map[int][]time.Duration{}, accepted: map[string]int{}, recorded: map[string]time.Duration{}}
	was, n := handOverDue, 0
	handOverDue = func(*temporal.Info) bool { n++; return n%rounds == 0 }
	t.Cleanup(func() { handOverDue = was })
	m, err := policy.New(cfg, items)
	if err != nil {
		t.Fatal(err)
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent())
	p.env = suite.NewTestWorkflowEnvironment()
	p.env.SetTestTimeout(time.Minute)
	p.env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&patient{}}})
	p.env.SetDataConverter(payloads())
	registerMain(p.env, &activities{})
	registerLanes(p.env, &activities{})
	p.env.RegisterWorkflowWithOptions(p.whole, temporal.RegisterOptions{Name: "whole"})
	p.env.OnActivity(beginActivity, mock.Anything, mock.Anything, mock.Anything).Return(cluster.Order{Life: 1, Seq: 1}, nil)
	p.env.OnActivity(recordActivity, mock.Anything, mock.Anything, mock.Anything, mock.Anything).AfterFn(func() time.Duration { return p.recordTakes }).Return(p.record)
	p.env.OnActivity(stopActivity, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil)
	p.env.OnRequestCancelExternalWorkflow(mock.Anything, mock.Anything, mock.Anything).Return(errors.New("it has ended"))
	p.env.OnActivity(adoptActivity, mock.Anything, mock.Anything).Return(func(_ context.Context, l cluster.Lease) (cluster.Settled, error) {
		return cluster.Settled{Prefix: cluster.Prefix{Log: l.Log}}, nil
	})
	p.env.OnActivity(homeActivity, mock.Anything, mock.Anything).Return(func(ctx context.Context, h cluster.HomeTask) (cluster.HomeDone, error) {
		if h.After && p.after != nil {
			return p.after(ctx, h)
		}
		done := cluster.HomeDone{Status: event.Succeeded, Prefix: cluster.Prefix{Log: h.Log}}
		if h.Halt == cluster.Interrupted {
			done.Status = event.Interrupted
		}
		if !h.After {
			done.Status, done.Queue, done.Config, done.State = event.Running, "first", &p.cfg, m.State()
		}
		return done, nil
	})
	return p
}

// lane has leases that are meant last so long; of their items, so many end. Where a lease
// lasts for longer than it is to, the others are given back, as lanes do.
func (p *lanesOnPaper) lane(meant func(cluster.Lease) bool, lasts time.Duration, most int) {
	p.env.OnActivity(laneActivity, mock.Anything, mock.MatchedBy(meant)).After(lasts).Return(func(_ context.Context, l cluster.Lease) (cluster.Settled, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		s := cluster.Settled{Prefix: cluster.Prefix{Log: l.Log}, Took: lasts}
		for _, span := range l.Spans {
			for i := range max(span.N, 1) {
				if s.Done < most {
					s.Done++
					p.ended[span.Item+i] = append(p.ended[span.Item+i], p.env.Now().Sub(p.begun))
				}
			}
		}
		return s, nil
	})
}

func (p *lanesOnPaper) record(_ context.Context, _, _ string, e cluster.Entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range e.Decisions {
		if d.Accepted != nil {
			p.accepted[d.Accepted.Log]++
			p.recorded[d.Accepted.Log] = p.env.Now().Sub(p.begun)
		}
	}
	return nil
}

// whole is the run as the child of a workflow: in this environment, only children
// continue as new ones. It gives the run the signals that it gets.
func (p *lanesOnPaper) whole(ctx temporal.Context, in Input) (status string, err error) {
	temporal.Go(ctx, func(ctx temporal.Context) { relay[StopRequest](ctx, in.Run, stopSignal) })
	temporal.Go(ctx, func(ctx temporal.Context) { relay[laneEnd](ctx, in.Run, laneSignal) })
	ctx = temporal.WithChildOptions(ctx, temporal.ChildWorkflowOptions{WorkflowID: WorkflowID(in.Run), TaskQueue: mainQueue, WaitForCancellation: true})
	err = temporal.ExecuteChildWorkflow(ctx, workflowType, in).Get(ctx, &status)
	return status, err
}

func relay[T any](ctx temporal.Context, run, name string) {
	for {
		var v T
		temporal.GetSignalChannel(ctx, name).Receive(ctx, &v)
		if err := temporal.SignalExternalWorkflow(ctx, WorkflowID(run), "", name, v).Get(ctx, nil); err != nil {
			panic(err)
		}
	}
}

// patient has signals wait for the next execution: this environment, other than a
// server, panics between two of them.
type patient struct {
	interceptor.WorkerInterceptorBase
}

func (*patient) InterceptWorkflow(_ temporal.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &patientIn{}
	in.Next = next
	return in
}

type patientIn struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (in *patientIn) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &patientOut{}
	out.Next = next
	return in.Next.Init(out)
}

type patientOut struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (o *patientOut) SignalExternalWorkflow(ctx temporal.Context, id, execution, name string, arg any) (sent temporal.Future) {
	for {
		func() {
			defer func() { _ = recover() }() // then nothing was sent
			sent = o.Next.SignalExternalWorkflow(ctx, id, execution, name, arg)
		}()
		if sent != nil || temporal.Sleep(ctx, time.Millisecond) != nil {
			return sent
		}
	}
}

func (p *lanesOnPaper) do() (status string) {
	p.t.Helper()
	p.env.SetOnChildWorkflowStartedListener(func(i *temporal.Info, _ temporal.Context, _ converter.EncodedValues) {
		if i.WorkflowType.Name == workflowType {
			p.executions++
		}
	})
	p.env.SetOnActivityStartedListener(func(i *activity.Info, _ context.Context, args converter.EncodedValues) {
		var l cluster.Lease
		if i.ActivityType.Name != laneActivity {
			return
		}
		if err := args.Get(&l); err != nil {
			p.t.Error(err)
		}
		if p.slow != nil && p.slow(l) {
			p.env.RegisterDelayedCallback(func() {
				p.env.SignalWorkflow(laneSignal, laneEnd{Life: l.Life, Lease: l.ID, How: laneSlow, Keep: 1})
			}, l.Slice)
		}
	})
	p.begun = p.env.Now()
	p.env.ExecuteWorkflow("whole", Input{Run: paperRun, Store: "dir:/nowhere"})
	if err := p.env.GetWorkflowError(); err != nil {
		p.t.Fatal(err, p.executions, len(p.ended), len(p.accepted), p.env.Now().Sub(p.begun))
	}
	if err := p.env.GetWorkflowResult(&status); err != nil {
		p.t.Fatal(err)
	}
	return status
}

// TestSlowItem: one item of eight hours holds up none of 2,000 that take a tenth of a second each,
// however often the run continues as a new execution meanwhile.
func TestSlowItem(t *testing.T) {
	const items, lanes = 2001, 8
	p := newLanesOnPaper(t, policy.Config{MaxParallel: lanes}, items, 1)
	slow := func(l cluster.Lease) bool { return l.Spans[0].Item == 1 }
	p.slow = slow
	p.lane(slow, 8*time.Hour, 1)
	p.lane(func(l cluster.Lease) bool { return !slow(l) }, 5*time.Second, 50)
	if status := p.do(); status != event.Succeeded {
		t.Error(status)
	}
	if p.executions < 5 {
		t.Errorf("%d executions", p.executions)
	}
	var last time.Duration
	for i := 1; i <= items; i++ {
		if len(p.ended[i]) != 1 {
			t.Fatalf("item %d ended at %v", i, p.ended[i])
		}
		if at := p.ended[i][0]; i > 1 {
			last = max(last, at)
		}
	}
	if last > 5*time.Minute {
		t.Errorf("the last of the short items ended after %v", last)
	}
	if at := p.ended[1][0]; at < 8*time.Hour || at > 8*time.Hour+time.Minute {
		t.Errorf("the long item ended after %v", at)
	}
	late := 0
	for _, at := range p.recorded {
		if at > 5*time.Minute {
			late++
		}
	}
	if late != 2 { // the long item, and what follows the map
		t.Errorf("%d logs are accepted later", late)
	}
	for _, log := range slices.Sorted(maps.Keys(p.accepted)) {
		if p.accepted[log] != 1 {
			t.Errorf("%s is accepted %d times", log, p.accepted[log])
		}
	}
}

// TestDecidedWhileRecording: what is decided while the decisions before it are on their way to
// the store is there soon afterwards, also where nothing else happens for hours.
func TestDecidedWhileRecording(t *testing.T) {
	p := newLanesOnPaper(t, policy.Config{MaxParallel: 3}, 3, 1<<30)
	p.recordTakes = 2 * time.Second
	p.lane(func(l cluster.Lease) bool { return l.ID == 1 }, 8*time.Hour, 1)
	p.lane(func(l cluster.Lease) bool { return l.ID == 2 }, 5*time.Second, 1)
	p.lane(func(l cluster.Lease) bool { return l.ID == 3 }, 6500*time.Millisecond, 1)
	if status := p.do(); status != event.Succeeded {
		t.Error(status)
	}
	for _, log := range []string{cluster.LaneLog(1, 2), cluster.LaneLog(1, 3)} {
		if at, ok := p.recorded[log]; !ok || at > 30*time.Second {
			t.Errorf("%s is recorded after %v", log, at)
		}
	}
}

// TestHandOverStops: a wish to stop, whenever it comes, stops the run, also in the execution
// after the one that took it; and lanes that the one before began end with it.
func TestHandOverStops(t *testing.T) {
	for _, ms := range []int{1000, 1300, 1900, 2100} {
		p := newLanesOnPaper(t, policy.Config{MaxParallel: 4}, 400, 2)
		p.lane(func(cluster.Lease) bool { return true }, 700*time.Millisecond, 1)
		p.env.RegisterDelayedCallback(func() {
			p.env.SignalWorkflow(stopSignal, StopRequest{})
		}, time.Duration(ms)*time.Millisecond)
		if status := p.do(); status != event.Interrupted {
			t.Fatalf("stopped after %d ms: %s", ms, status)
		}
		p.mu.Lock() // a lane that was begun last may still tell of its items
		ended := maps.Clone(p.ended)
		p.mu.Unlock()
		for item, at := range ended {
			if len(at) != 1 {
				t.Errorf("item %d ended at %v", item, at)
			}
		}
		if n := len(ended); n > 4*(ms/700+2) {
			t.Errorf("stopped after %d ms, and %d items ended", ms, n)
		}
	}
}

// TestReadsFirst: where the worker that keeps a copy of the run is gone, another one reads
// what there is, in a task of its own that may be silent for a few seconds only, and is the
// first to get the steps after the map.
func TestReadsFirst(t *testing.T) {
	p := newLanesOnPaper(t, policy.Config{MaxParallel: 2}, 4, 1<<30)
	p.lane(func(cluster.Lease) bool { return true }, time.Second, 10)
	gone, silent := temporalsdk.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil), temporalsdk.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil)
	type asked struct {
		queue string
		read  bool
	}
	answers := []struct {
		asked
		done cluster.HomeDone
		err  error
	}{
		{asked: asked{"first", false}, err: gone},
		{asked: asked{laneQueue, true}, err: silent}, // it was killed while it read
		{asked: asked{laneQueue, true}, done: cluster.HomeDone{Queue: "second"}},
		{asked: asked{"second", false}, err: gone}, // it was killed when it had
		{asked: asked{laneQueue, true}, done: cluster.HomeDone{Queue: "third"}},
		{asked: asked{"third", false}, err: silent}, // and the third amid the steps
		{asked: asked{laneQueue, true}, done: cluster.HomeDone{Queue: "fourth"}},
		{asked: asked{"fourth", false}, done: cluster.HomeDone{Status: event.Succeeded}},
	}
	n := 0
	p.after = func(ctx context.Context, h cluster.HomeTask) (cluster.HomeDone, error) {
		if n == len(answers) {
			return cluster.HomeDone{}, errors.New("asked once more")
		}
		a := answers[n]
		if got := (asked{activity.GetInfo(ctx).TaskQueue, h.Read}); got != a.asked {
			t.Errorf("task %d: %+v, want %+v", n, got, a.asked)
		}
		n++
		a.done.Prefix = cluster.Prefix{Log: h.Log}
		return a.done, a.err
	}
	p.env.OnActivity(adoptHome, mock.Anything, mock.Anything).Return(func(_ context.Context, h cluster.HomeTask) (cluster.HomeLeft, error) {
		return cluster.HomeLeft{Prefix: cluster.Prefix{Log: h.Log}}, nil
	})
	if beatOf(cluster.HomeTask{After: true, Read: true}) >= homeBeat {
		t.Error("who reads may be silent for as long as who runs steps")
	}
	if status := p.do(); status != event.Succeeded || n != len(answers) {
		t.Errorf("%s after %d tasks", status, n)
	}
}

// TestSlowIsReported: a lane whose present item takes longer than its lease is reported after
// a second, unless it has ended by then. A call goes on where the lane ends meanwhile.
func TestSlowIsReported(t *testing.T) {
	withoutServer(t)
	for name, c := range map[string]struct {
		lasts time.Duration // the lane, from then on
		fails int           // so many calls
		want  int           // calls
	}{
		"it ends at once":          {100 * time.Millisecond, 0, 0},
		"its item takes long":      {time.Hour, 0, 1},
		"the server is away twice": {time.Hour, 2, 3},
		"it ends amid the call":    {1100 * time.Millisecond, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				a := &activities{signal: func(ctx context.Context, _ string, e laneEnd) error {
					calls++
					time.Sleep(time.Second)
					if ctx.Err() != nil || e.Keep != 3 || e.How != laneSlow {
						t.Errorf("%+v, %v", e, ctx.Err())
					}
					if calls <= c.fails {
						return errors.New("away")
					}
					return nil
				}}
				ctx, cancel := context.WithTimeout(t.Context(), c.lasts)
				defer cancel()
				a.slow(ctx, cluster.Lease{Run: "r"}, 3)
				if calls != c.want {
					t.Errorf("%d calls", calls)
				}
			})
		})
	}
}
