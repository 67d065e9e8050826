package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

// replayedLife is a life that is run again. It is the recorder and the actions of it.
type replayedLife struct {
	step.Details
	*replay
	*virtual.Actions
	was     *pastLife
	number  int
	clock   *virtual.Clock
	world   *world
	kill    context.CancelCauseFunc
	dead    bool   // as the process was that had it
	stop    func() // interrupts it; nil: nothing has begun
	busy    map[attemptKey]busy
	over    chan struct{} // closed when what has not ended by then is ended
	passed  []bool        // the turns of the life that were taken
	through int           // all before this one were

	facts   []event.Event
	made    decisions
	draws   map[attemptKey]int // that were made at a place
	asked   map[attemptKey]int // how often an agent was, in an attempt
	started map[attemptKey]int // steps and attempts of this name
	loops   map[attemptKey]int // how often a foreach had its values
	tries   beginnings
}

var errEnded = errors.New("the process of this life has ended")

// composed has the life end when it did, and what other processes asked for happen.
func (l *replayedLife) composed(stop func(), ask func(*journal.ControlRequest)) {
	l.stop = stop
	at := func(t time.Time, f func()) { l.clock.After(max(t.Sub(l.clock.Now()), 0), f) }
	for _, a := range l.was.asked {
		l.clock.AtTurn(a.at, func() {
			l.pass(a.at)
			ask(&a.ControlRequest)
		})
	}
	if n := len(l.was.asked); n > 0 && l.was.asked[n-1].Do == journal.Pause { // which may have ended while it was held
		at(l.was.ended, func() { ask(&journal.ControlRequest{Do: journal.Continue}) })
	}
	switch l.was.status {
	case "":
		at(l.was.ended, func() {
			l.dead = true
			l.kill(errEnded)
			close(l.over)
		})
	case event.Interrupted:
		if !l.was.stopped.IsZero() {
			at(l.was.stopped, stop)
		} else if !l.exact {
			at(l.was.lastStart, stop)
		}
		at(l.was.ended, func() {
			stop()
			l.kill(step.ErrInterrupted)
			close(l.over)
		})
	default:
		at(l.was.ended, func() { close(l.over) })
	}
}

// Record takes facts. Under the policy of the record a step, or an attempt, waits until
// it is as late as it was.
func (l *replayedLife) Record(facts ...event.Event) error {
	for _, e := range facts {
		if l.dead {
			return errEnded
		}
		k := attemptKey{life: l.number, index: e.Index, round: l.rounds[e.Index], path: e.Step, n: e.Attempt}
		l.tries.take(k, e)
		switch k.again = l.tries.again(k); e.Type {
		case event.ItemStarted:
			k.round, k.n = e.Attempt, 0
			fallthrough
		case event.StepStarted, event.AttemptStarted:
			if err := l.late(k); err != nil {
				return err
			}
		case event.AttemptFinished, event.AttemptFailed:
			if a := l.attempts[k]; a != nil && !a.cut { // of a step that is made of steps
				l.pass(a.ended)
			}
		case event.ForeachStarted:
			if list := l.values[k]; l.loops[k] < len(list) {
				l.pass(list[l.loops[k]].at)
			}
			l.loops[k]++
		case event.RoundStarted:
			round, is := handlerRound(k)
			if round.again = l.tries.again(round); !is {
				break
			}
			if err := l.late(round); err != nil {
				return err
			}
		case event.StepFinished:
			k.n = atEnd
			if err := l.late(k); err != nil {
				return err
			}
		}
		if e.Time.IsZero() {
			e.Time = l.clock.Now()
		}
		e.Seq = int64(len(l.facts)) + 1
		if len(l.lives) > 1 {
			l.facts = append(l.facts, e)
		}
		l.made.take(e, l.rounds)
		l.seen.fact(&e, l.world.began)
	}
	return nil
}

// late waits for the time at which something began, or for the end of the life that had
// ended before it did.
func (l *replayedLife) late(k attemptKey) error {
	n := l.started[k]
	l.started[k]++
	times := l.was.starts[k]
	switch {
	case !l.exact:
	case n < len(times):
		at := attemptKey{index: k.index}
		if b, ok := l.busy[at]; ok {
			b.until = times[n]
			l.busy[at] = b
		}
		return l.turn(context.Background(), times[n])
	case k.n != atEnd && l.stop != nil && (l.was.status == "" || l.was.status == event.Interrupted):
		return l.clock.Wait(context.Background(), -1, l.over)
	}
	return nil
}

// busy is what is running or waiting inside a context up to a turn.
type busy struct {
	ctx   context.Context
	until virtual.Turn
}

// later puts off the end of a timeout: what is on record as having ended by itself was
// in time, whatever a moment more or less of this machine makes of it.
func (l *replayedLife) later(timed context.Context) (turn virtual.Turn, longer bool) {
	now := l.clock.Now()
	for _, b := range l.busy {
		t := b.until
		if t.At.Before(now) || l.passed[t.Number] || longer && (t.At.Before(turn.At) || t.At.Equal(turn.At) && t.Number < turn.Number) || !virtual.Within(b.ctx, timed) {
			continue
		}
		turn, longer = t, true
	}
	return turn, longer
}

// Sync has nothing to do.
func (l *replayedLife) Sync(context.Context) error { return nil }

// Show shows nobody.
func (l *replayedLife) Show(event.Event) {}

// never is how long an attempt takes that something else ended.
const never = 100 * 365 * 24 * time.Hour

// Run makes an attempt: as it was recorded.
func (l *replayedLife) Run(ctx context.Context, c *step.Call) (action.Result, error) {
	start := l.clock.Now()
	if l.dead {
		return action.Result{Start: start}, errEnded
	}
	k := l.at(c.Address, c.Path)
	k.again, k.n = l.tries.again(k), c.Number
	a := l.attempts[k]
	got, known := l.answer(c, k)
	var end *virtual.Turn // nil: when it has taken as long as it takes
	if list, of := strings.CutSuffix(c.Path, ".items"); of && !known {
		got, known, end = l.listed(l.at(c.Address, list))
	}
	switch {
	case a != nil && a.unknown() && l.exact, a == nil && !known && l.exact && l.was.status == "":
		got = virtual.Answer{Takes: never} // until it is ended, as it was
	case a != nil && a.unknown():
		model := l.Actions.Model(c)
		got, known = model, false
		got.Takes = max(model.Takes, 2*a.took)
		l.out.Beyond++
	case !known && strings.HasSuffix(c.Path, ".items"):
		got.Result.Output = l.lines(c)
	case !known:
		l.out.Beyond++
		got = l.Actions.Model(c)
	case a != nil && l.exact:
		end = &a.ended
	}
	first := l.asked[k] == 0
	call := l.call(k, a)
	if call != nil && call.after > 0 && !(call.last && a != nil && !a.cut) { // which ends as its attempt did
		known, got = true, virtual.Answer{Takes: call.took, Failure: failed(cmp.Or(call.class, "rate_limit"), call.after)}
		if l.exact {
			end = &call.at
		}
	}
	if _, of := strings.CutSuffix(c.Path, ".items"); !of && !fallsBack(c) && first && (known || a != nil && l.exact) {
		l.seen.attempt(l.names.static(c.Path), c, start.Sub(l.world.began), 0, 0)
	}
	late := c.Timeout > 0 && got.Takes > c.Timeout && !(known && l.exact)
	if late {
		got.Takes = c.Timeout
	}
	if a == nil && !known && l.exact && !strings.HasSuffix(c.Path, ".items") { // it was not begun: what is around it had ended by then
		if _, ends := ctx.Deadline(); ends {
			got.Takes = never
		}
	}
	if l.exact && a != nil && !a.unknown() && (a.failure == nil || !a.failure.Timeout) {
		l.busy[attemptKey{index: k.index}] = busy{ctx, a.ended}
		l.busy[k] = busy{ctx, a.ended}
		defer delete(l.busy, k)
	}
	if call != nil {
		l.pass(call.at)
	}
	var err error
	if end != nil {
		err = l.turn(ctx, *end)
	} else {
		err = l.clock.Wait(ctx, got.Takes, nil)
	}
	var fail *failure.Failure
	if err == nil && !late {
		fail = got.End()
	}
	res := got.Result
	if call != nil {
		res.Usage = &call.usage
	}
	res.Start, res.Duration = start, l.clock.Now().Sub(start)
	switch {
	case err != nil:
		return res, err
	case late:
		return res, &failure.Failure{Class: "timeout", Timeout: true, Message: fmt.Sprintf("timed out after %s and was stopped", duration.Format(c.Timeout))}
	case fail != nil:
		return res, fail
	}
	return res, nil
}

// call is the next answer of the agent that is asked in an attempt; nil where none is
// recorded.
func (l *replayedLife) call(k attemptKey, a *recorded) *agentCall {
	if a == nil { // a fallback
		k.n = 0
	}
	list, n := l.calls[k], l.asked[k]
	if l.asked[k]++; n >= len(list) {
		return nil
	}
	c := list[n]
	if c.last = n == len(list)-1; c.after == 0 && !c.last {
		c.after = 1 // what it had caused was over at once
	}
	return &c
}

// listed is how the command ended that gave the values of a foreach, which are on record.
func (l *replayedLife) listed(k attemptKey) (got virtual.Answer, known bool, end *virtual.Turn) {
	k.again = l.tries.again(k)
	list, n := l.values[k], l.loops[k]
	if len(list) == 0 {
		return got, false, nil
	}
	if n < len(list) && l.exact {
		end = &list[n].at
	}
	got.Result.Output = list[min(n, len(list)-1)].text
	return got, true, end
}

// answer is how an attempt ended that was recorded.
func (r *Recording) answer(c *step.Call, k attemptKey) (virtual.Answer, bool) {
	a, ok := r.attempts[k]
	if !ok || a.unknown() {
		return r.fallback(c, k)
	}
	got := virtual.Answer{Takes: a.took}
	if a.failure != nil {
		f := *a.failure
		got.Failure = &f
		got.Result = action.Result{ExitCode: f.Exit, Status: f.Status, Output: f.Stdout, Stderr: f.Stderr}
		return got, true
	}
	k.n = 0
	out := r.outputs[k]
	if got.Result.Output = out.text; c.Module != nil {
		got.Result.Output = printed(c.Module, out.text)
	}
	if got.Result.Set = out.set; c.Module != nil {
		got.Result.Set = nil
	}
	if _, web := c.Action.(*workflow.HTTP); web {
		got.Result.Status = 200
	}
	return got, true
}

// fallback is how the fallback of a step ended: it has no record of its own, but
// the end of its step says whether it helped.
func (r *Recording) fallback(c *step.Call, k attemptKey) (virtual.Answer, bool) {
	path, is := strings.CutSuffix(c.Path, fallbackOf)
	k.path, k.n = path, 0
	helped, known := r.fellBack[k]
	if !is || !known {
		return virtual.Answer{}, false
	}
	if helped {
		return virtual.Answer{Result: action.Result{Output: r.outputs[k].text}}, true
	}
	return virtual.Answer{Failure: &failure.Failure{Class: "exit", Exit: 1, Message: "exit status 1"}, Result: action.Result{ExitCode: 1}}, true
}

// lines are as many items of a loop as it had rounds.
func (r *Recording) lines(c *step.Call) string {
	prefix, most := strings.TrimSuffix(c.Path, ".items"), -1
	for k := range r.attempts {
		if rest, ok := strings.CutPrefix(k.path, prefix); ok && k.index == c.Index {
			var n int
			if i := strings.IndexByte(rest, '@'); i >= 0 {
				if _, err := fmt.Sscanf(rest[i:], "@%d", &n); err == nil {
					most = max(most, n)
				}
			}
		}
	}
	var b strings.Builder
	for i := range most + 1 {
		fmt.Fprintf(&b, "item %d\n", i+1)
	}
	return b.String()
}

// jitter draws what was drawn at a place, in the same order, and then other numbers.
func (l *replayedLife) jitter(p step.Address, path string) backoff.Rand {
	return &recordedDraws{life: l, at: l.at(p, path), rest: l.world.jitter(p, path)}
}

// at names the step of a path at a place.
func (l *replayedLife) at(p step.Address, path string) attemptKey {
	k := attemptKey{life: l.number, index: p.Index, round: p.Attempt, path: path}
	if p.Index == 0 {
		k.round = 0
	}
	return k
}

// recordedDraws is a source of jitter that draws what is recorded.
type recordedDraws struct {
	life *replayedLife
	at   attemptKey
	rest backoff.Rand
}

// Uint64 gives the number that was drawn.
func (d *recordedDraws) Uint64() uint64 {
	at := d.life.tries.draws(d.at)
	waits := d.life.was.waits[at]
	for n := d.life.draws[at]; n < len(waits); n++ {
		if number, ok := drawnFor(waits[n]); ok {
			d.life.draws[at] = n + 1
			return number
		}
	}
	d.life.draws[at] = len(waits)
	if d.life.exact {
		return math.MaxUint64 // a wait that is not recorded was too long for a budget or a deadline
	}
	return d.rest.Uint64()
}

// drawnFor is the number of which jitter made a delay; false where none was drawn.
// Records without it, which older versions have made, tell the bounds of the delay.
func drawnFor(w event.Wait) (uint64, bool) {
	if w.Drawn != "" {
		n, err := strconv.ParseUint(w.Drawn, 16, 64)
		return n, err == nil
	}
	if w.Greatest <= w.Least {
		return 0, false
	}
	part := (float64(w.Delay-w.Least) + 0.5) / float64(w.Greatest-w.Least)
	switch {
	case part <= 0:
		return 0, true
	case part >= 1:
		return math.MaxUint64, true
	}
	return uint64(part * math.MaxUint64), true
}
