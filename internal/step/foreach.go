package step

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry/driver"
)

// foreach runs its steps for each of a list of values, one after another or
// several at a time. Its output is the outputs of the rounds, in order.
func (x *Executor) foreach(ctx context.Context, p Place, a *workflow.Foreach, label, path string) (res action.Result, err error) {
	rec := p.recorded(path)
	if rec == nil {
		rec = &journal.StepRecord{}
	}
	list, err := x.foreachValues(ctx, &p, a, path, rec)
	if err != nil {
		return res, err
	}
	parallel, err := x.Number(ctx, &p, a.Parallel)
	if err != nil {
		return res, inputError("parallel: %w", err)
	}
	t, err := x.Span(ctx, &p, a.Timeout)
	if err != nil {
		return res, inputError("timeout: %w", err)
	}
	p.Alone = p.Alone && parallel < 2
	err = x.within(ctx, t, "foreach", func(ctx context.Context) error {
		f := &loop{x: x, p: p, a: a, path: path, list: list, outs: make([]any, len(list)), errs: make([]error, len(list)), over: make([]bool, len(list))}
		for i := range f.errs {
			f.errs[i] = errNotBegun
		}
		if err := f.takeOver(rec); err != nil {
			return err
		}
		if a.Adaptive != nil {
			if f.wide, err = f.widening(a.Adaptive.On(x.AtFirst()), label, rec.Width); err != nil {
				return err
			}
		}
		x.Clock.Together(min(max(1, parallel), len(list)), func(int) { f.work(ctx) })
		res, err = f.result(ctx)
		return err
	})
	return res, err
}

// errNotBegun is the end of a round that never began.
var errNotBegun = errors.New("it was not begun")

// loop is the rounds of one foreach. Each worker takes the next round; what a
// round gave is written by its worker alone.
type loop struct {
	x    *Executor
	p    Place
	a    *workflow.Foreach
	path string
	list []any
	outs []any // texts, or where they are
	errs []error
	over []bool    // an earlier life of the run has ended the round
	wide *widening // nil: as many run at once as there are workers

	next   atomic.Int64
	failed atomic.Bool // and no further round begins
}

func (f *loop) work(ctx context.Context) {
	defer f.wide.close()
	for !f.failed.Load() && f.x.Life.Stopping(ctx) == nil {
		r := f.wide.turn(ctx, f.begin)
		if r == nil {
			return
		}
		if f.errs[r.i] = f.round(ctx, r); f.errs[r.i] != nil && !f.a.ContinueOnError {
			f.failed.Store(true)
		}
		f.wide.ended(ctx, f.errs[r.i], r.start)
	}
}

// round is one that has begun.
type round struct {
	i      int
	place  Place
	path   string
	start  time.Time
	digest string // of its value
}

// begin takes the next round that is to run, and records that it begins; nil: there is none.
func (f *loop) begin() *round {
	i := f.take()
	if i < 0 {
		return nil
	}
	r := &round{i: i, place: f.p.Round(i), path: f.path + "@" + strconv.Itoa(i), start: f.x.Clock.Now()}
	v, n, q := f.list[i], int64(len(f.list)), &r.place
	q.For = f.x.brief(v)
	q.Scope.Set("item", v)
	q.Scope.Set("index", int64(i))
	q.Scope.Set("total", n)
	q.Scope.Set("foreach", map[string]any{"item": v, "index": int64(i), "total": n})
	e := f.p.Event(event.RoundStarted, r.path)
	e.Time = r.start
	if f.x.Recorder.Detailed() {
		r.digest = f.x.identity(v)
		e.Data = Data(roundData{For: q.For, Value: r.digest})
	}
	f.x.record(e)
	return r
}

// take gives the next round that is to run; -1 for none.
func (f *loop) take() int {
	for {
		i := int(f.next.Add(1)) - 1
		if i >= len(f.list) {
			return -1
		}
		if !f.over[i] {
			return i
		}
	}
}

// round runs the steps of a round, and records its end. One that is cut short has no end:
// a later life of the run continues with it.
func (f *loop) round(ctx context.Context, r *round) error {
	err := f.x.Sequence(ctx, &r.place, f.a.Do)
	f.outs[r.i] = r.place.roundOutput()
	if err != nil && f.x.Life.Interrupted(ctx, err) {
		return err
	}
	e := f.p.Event(event.RoundFinished, r.path)
	e.Time, e.Status = f.x.Clock.Now(), event.Succeeded
	e.DurationMS = e.Time.Sub(r.start).Milliseconds()
	if err != nil {
		e.Status, e.Class, e.Message = event.Failed, driver.Class(err), Cause(err).Error()
	}
	if f.x.Recorder.Detailed() {
		e.Data = Data(roundData{Value: r.digest}) // what it gave is in the records of its steps
	}
	f.x.record(e)
	return err
}

// roundOutput is what a round gave, whose place is p: a text, or where it is.
func (p Place) roundOutput() any {
	last, ok := p.Scope.Lookup("last.output")
	if !ok {
		whole, _ := p.Scope.Lookup("last")
		m, _ := whole.V.(map[string]any)
		last.V = m["output"]
	}
	if k, is := last.V.(value.Kept); is {
		return k
	}
	return value.Text(last.V)
}

// roundData is the data of the facts of a round.
type roundData struct {
	For   string `json:"for,omitempty"`
	Value string `json:"value"` // the digest of the value
}

// identity is the digest of a value, its secrets masked.
func (x *Executor) identity(v any) string {
	masked, _ := x.Values.Seal(v)
	sum := sha256.Sum256([]byte(value.JSON(masked)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// takeOver takes the rounds that an earlier life of the run has ended, with what they
// gave. One that failed is over where the foreach continues after failures, unless the
// whole of it has failed and is tried again.
func (f *loop) takeOver(rec *journal.StepRecord) error {
	for i, r := range rec.Rounds {
		if r.Status != event.Succeeded && (r.Status != event.Failed || !f.a.ContinueOnError || !unfinished(rec)) {
			continue
		}
		var d roundData
		if err := json.Unmarshal(r.Data, &d); err != nil || i >= len(f.list) || d.Value != f.x.identity(f.list[i]) {
			return fmt.Errorf("the record of round %d of %s is of another value than that of its list", i, f.path)
		}
		var err error
		if f.outs[i], err = f.gave(i); err != nil {
			return err
		}
		f.over[i], f.errs[i] = true, nil
		if r.Status == event.Failed {
			f.errs[i] = &failure.Failure{Class: r.Class, Message: r.Error}
		}
	}
	return nil
}

// gave is what a round gave that is over, by the records of its steps, which are counted.
func (f *loop) gave(i int) (any, error) {
	q := f.p.Round(i)
	for _, s := range f.a.Do {
		path := q.Path(s.Path)
		rec := q.recorded(path)
		if rec == nil {
			continue
		}
		d, out, done, err := ended(rec)
		if err != nil {
			return nil, fmt.Errorf("the record of step %s: %w", path, err)
		}
		f.x.setAgain(q, &d)
		if done {
			f.x.countStep(&q, path, out)
		}
	}
	return q.roundOutput(), nil
}

// lastOutput is the output of the step that ran last.
func (p Place) lastOutput() string {
	m, _ := p.Scope.Get("last").(map[string]any)
	return value.Text(m["output"])
}

// result joins what the rounds gave.
func (f *loop) result(ctx context.Context) (action.Result, error) {
	var first error
	done, failed := 0, 0
	results := make([]any, len(f.list))
	for i := range f.outs {
		if f.outs[i] == nil {
			f.outs[i] = "" // of a round that never began
		}
	}
	for i, err := range f.errs {
		results[i] = map[string]any{"item": f.list[i], "output": f.outs[i], "success": err == nil}
		switch {
		case err == nil:
			done++
		case err != errNotBegun:
			if failed++; first == nil {
				first = fmt.Errorf("foreach: item %d of %d (%s): %w", i+1, len(f.list), f.x.brief(f.list[i]), err)
			}
		}
	}
	f.p.Scope.SetKept("foreach.results", results)
	f.p.Scope.Set("foreach.succeeded", int64(done))
	f.p.Scope.Set("foreach.failed", int64(failed))
	f.p.Scope.Set("foreach.skipped", int64(len(f.list)-done-failed))
	f.p.Scope.Set("foreach.total", int64(len(f.list)))
	var res action.Result
	var err error
	if res.Output, err = f.x.joined(f.outs); err != nil {
		return res, err
	}
	if err := f.x.Life.Stopping(ctx); err != nil {
		return res, err
	}
	if first != nil {
		res.ExitCode = 1
		if !f.a.ContinueOnError {
			return res, first
		}
		res.Incomplete = true
		f.x.Note("foreach went on after %d of %d items failed; the first: %v", failed, len(f.list), first)
	}
	return res, nil
}

// brief is a value as people know it.
func (x *Executor) brief(v any) string { return x.text(value.Text(v)).Head(60) }

// foreachValues gives the values of a foreach: those that an earlier life of the run has
// recorded, else those that its list has now, which are recorded.
func (x *Executor) foreachValues(ctx context.Context, p *Place, a *workflow.Foreach, path string, rec *journal.StepRecord) ([]any, error) {
	if rec.List != nil {
		return x.recordedValues(rec.List, path)
	}
	list, err := x.foreachItems(ctx, *p, a, path)
	if err != nil {
		return nil, err
	}
	if p.begunUnrecorded(a) && a.List == nil {
		x.noteAt(*p, "%s was begun by a version of bide that did not record the values of a foreach: its list is made again, and all of it runs", path)
		p.Past = nil
	}
	if list == nil {
		list = []any{}
	}
	e := p.Event(event.ForeachStarted, path)
	e.Total = len(list)
	if x.Recorder.Detailed() {
		e.Data = Data(x.Seal(map[string]any{"values": list}))
	}
	x.record(e)
	if a.List != nil {
		return list, nil
	}
	return list, x.synced(ctx) // the rounds may change what the list was made of
}

// recordedValues reads the values out of a fact, numbers as they were written.
func (x *Executor) recordedValues(fact json.RawMessage, path string) ([]any, error) {
	var d struct {
		Vars    struct{ Values json.RawMessage }
		Secrets environ.Seals
		Raw     value.Raw
	}
	if err := json.Unmarshal(fact, &d); err != nil {
		return nil, fmt.Errorf("the recorded values of %s: %w", path, err)
	}
	v, err := value.Parse(d.Vars.Values)
	list, ok := v.([]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("the recorded values of %s are no list: %v", path, err)
	}
	values := map[string]any{"values": list}
	d.Raw.Put("/vars", values)
	x.Values.Unseal(values, d.Secrets)
	return list, nil
}

// begunUnrecorded reports whether steps of a foreach are on record.
func (p Place) begunUnrecorded(a *workflow.Foreach) bool {
	for _, s := range a.Do {
		for path, rec := range p.Past {
			if strings.HasPrefix(path, s.Path+p.Rounds+"@") && rec.Last > p.Since {
				return true
			}
		}
	}
	return false
}

// foreachItems gives the values that the list of a foreach has now.
func (x *Executor) foreachItems(ctx context.Context, p Place, a *workflow.Foreach, path string) (list []any, err error) {
	var got Listed
	switch {
	case a.Input != nil:
		list, err = x.foreachFile(ctx, p, a)
	case a.Text != nil:
		list, got, err = x.foreachText(ctx, p, a, path)
	default:
		for _, e := range a.List {
			v, eerr := action.Expand(e, x.View(ctx, &p))
			if eerr != nil {
				return nil, &action.InputError{Err: eerr}
			}
			list = append(list, v)
		}
	}
	if err != nil {
		return nil, err
	}
	limit, err := x.Number(ctx, &p, a.MaxItems)
	if err != nil {
		return nil, inputError("max_items: %w", err)
	}
	least, err := x.Number(ctx, &p, a.MinItems)
	if err != nil {
		return nil, inputError("min_items: %w", err)
	}
	got.Items, got.Read = len(list), len(list)
	if limit > 0 && len(list) > limit {
		list = list[:limit]
		got.Items = limit
	}
	if err := got.Enough(least, a.MinItems.Set, "beside do"); err != nil {
		return nil, err
	}
	if got.Doubt() != "" {
		x.noteAt(p, "the command of %s %s", path, got.Doubt())
	}
	return list, nil
}

func (x *Executor) foreachFile(ctx context.Context, p Place, a *workflow.Foreach) ([]any, error) {
	name, err := a.Input.Expand(x.View(ctx, &p))
	if err != nil {
		return nil, &action.InputError{Err: err}
	}
	until, stop := x.Life.Until(ctx)
	defer stop()
	list, err := x.Actions.Items(until, p.File(a.Input, name), a.JSONPath)
	if halt := x.Life.Stopping(ctx); err != nil && halt != nil {
		return nil, halt
	}
	if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(name, " |;&") {
		return nil, inputError("%w; a command is written as input: {command: %s}", err, a.Input)
	}
	if err != nil {
		return nil, inputError("%w", err)
	}
	return list, nil
}

// foreachText gives the values of a text: those of the list that it names, or
// the lines of the command that it is, of which got says what is known of them.
func (x *Executor) foreachText(ctx context.Context, p Place, a *workflow.Foreach, path string) (list []any, got Listed, err error) {
	if v, ok := a.Text.Value(x.View(ctx, &p)); ok {
		switch v := v.V.(type) {
		case []any:
			list = v
		case string:
			list = lines(v)
		case nil:
		default:
			list = []any{v}
		}
		for _, e := range list {
			if s, ok := e.(string); ok && mask.IsLeftOut(s) {
				return nil, got, inputError("values are missing in %s, where it says %q: a variable keeps the two ends of a large output; have the foreach run the command itself, or read a file with input:", a.Text, s)
			}
		}
		return list, got, nil
	}
	step := &workflow.Step{Path: path + ".items", Action: &workflow.Shell{Text: a.Text}}
	q := p
	q.Quiet, q.Listing, q.Alone = true, true, false
	var res action.Result
	err = x.leafWithin(ctx, &q, step, step.Action, p.Path(step.Path), 1, 0, &res)
	if err != nil {
		return nil, got, fmt.Errorf("the command of its items: %w", err)
	}
	text, err := x.Actions.Output(ctx, res)
	if err != nil {
		return nil, got, err
	}
	got.Said, got.Unsure = x.Tail(res.Stderr), res.Unsure
	if v, err := value.Parse(text); err == nil {
		if list, ok := v.([]any); ok {
			return list, got, nil
		}
	}
	return lines(string(text)), got, nil
}

// lines gives the lines of a text that are not blank.
func lines(text string) []any {
	var list []any
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, len(text)+1)
	for sc.Scan() {
		if l := strings.TrimSpace(sc.Text()); l != "" {
			list = append(list, l)
		}
	}
	return list
}
