package simulate

import (
	"context"
	"fmt"
	"github.com/bide-dev/bide/internal/bound"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// world answers the attempts of one simulated run as a model says.
type world struct {
	model  *Model
	names  *stepNames
	seed   luck
	began  time.Time
	clock  *virtual.Clock
	live   map[string]*live // by the target's name in the model
	tables map[string]*live // by the step's static path, as found before
	seen   *watch
	// stretch is by what latencies that are known at another number at once are longer.
	stretch float64
	late    [2]Latency // how much later first attempts begin than they are due, and others, where a target has no lags

	failures map[string]*failure.Failure // by class
	results  map[*module.Definition]string
}

// live is a target with what has happened to it.
type live struct {
	*Target
	name   string
	hash   uint64
	slots  []time.Duration // when each server of the queue is free
	tokens float64
	filled time.Duration // when tokens was counted
	states []*twoState
}

// answer is what becomes of an attempt.
func (w *world) answer(c *step.Call) (got virtual.Answer) {
	path := w.names.static(c.Path)
	t := w.target(c, path)
	began := w.clock.Now().Sub(w.began)
	l := w.seed.with(hash(c.Path)).with(uint64(c.Index)<<32 | uint64(c.Attempt)).with(uint64(c.Number))
	own := l.with(^uint64(1)) // of what is fitted
	now := began
	if len(t.lags) > 0 {
		now += draw(t.lags, &own)
	} else if c.Number > 1 || c.Attempt > 1 {
		now += w.late[1].draw(&own)
	} else {
		now += w.late[0].draw(&own)
	}
	takes := t.takes(now, &l)
	common := w.common(c, &l)
	class, hint := t.fails(now, t.rates(w, c), common)
	if list := t.spans[class]; len(list) > 0 {
		takes = draw(list, &own)
	}
	if w.stretch != 1 && len(t.slots) == 0 {
		takes = time.Duration(float64(takes) * w.stretch)
	}
	switch c.Action.(type) {
	case *workflow.Shell, *workflow.Claude:
		takes += w.model.Process
	case nil:
		if c.Module.HTTP == nil {
			takes += w.model.Process
		}
	}
	if class == "timeout" {
		takes, class = t.late(w, c, takes)
	}
	got.Takes = takes + now - began
	if t.tries > 0 && c.Number > t.tries {
		w.seen.step(path).beyond++
	}
	if fallsBack(c) {
		w.seen.cost(t.USD, t.Tokens)
	} else {
		w.seen.attempt(path, c, began, t.USD, t.Tokens)
	}
	if _, agent := c.Action.(*workflow.Claude); agent && (t.USD > 0 || t.Tokens > 0) {
		got.Result.Usage = &action.Usage{InputTokens: t.Tokens, CostUSD: t.USD}
	}
	if t.Limit != nil && t.Limit.AtAnswer && !t.down(now) {
		got.Last = func() *failure.Failure {
			if hint, limited := t.limited(w.clock.Now().Sub(w.began)); limited {
				return w.failure("rate_limit", hint)
			}
			return nil
		}
	}
	if class != "" {
		got.Failure = w.failure(class, hint)
		got.Result.ExitCode, got.Result.Status = got.Failure.Exit, got.Failure.Status
		return got
	}
	got.Result.Output = w.output(c, path, t)
	if _, web := c.Action.(*workflow.HTTP); web {
		got.Result.Status = http.StatusOK
	}
	return got
}

// late is how long an attempt takes that a timeout ends, and the class with which it ends
// if it is given more time than those that are known.
func (t *live) late(w *world, c *step.Call, takes time.Duration) (time.Duration, string) {
	if t.limit > 0 && (c.Timeout == 0 || c.Timeout > t.limit+t.limit/20) {
		w.seen.assume(fmt.Sprintf("what was stopped after %s ends in its own time, or never, which a run with a longer timeout would tell", Span(int64(t.limit))))
		if t.hang > 0 {
			return time.Duration(t.hang * float64(t.limit)), ""
		}
	}
	if c.Timeout > 0 {
		takes = c.Timeout + 1
	}
	return takes, "timeout"
}

// rates are those at which an attempt fails: those of its item, where items differ.
func (t *live) rates(w *world, c *step.Call) []Failure {
	if t.unlucky == nil {
		return t.Failures
	}
	item := w.ofItem(c).with(1)
	if item.unit() < t.unlucky.share {
		return t.unlucky.failures
	}
	return t.Failures
}

// common is the luck of an attempt, or the one that all attempts of its item
// have in common.
func (w *world) common(c *step.Call, l *luck) float64 {
	own := l.unit()
	element := strings.LastIndexByte(c.Path, ']')
	if w.model.Correlation <= 0 || c.Index == 0 && (c.Module == nil || element < 0) {
		return own
	}
	if l.unit() < w.model.Correlation {
		item := w.ofItem(c)
		return item.unit()
	}
	return own
}

// ofItem is the luck of an item at a step.
func (w *world) ofItem(c *step.Call) luck {
	item := w.seed.with(hash(w.names.static(c.Path))).with(uint64(c.Index)).with(0)
	if element := strings.LastIndexByte(c.Path, ']'); c.Module != nil && element >= 0 { // the item is the element of a list
		item = item.with(hash(c.Path[:element]))
	}
	return item
}

// fallbackOf is behind the path, the id and the name of a step, for its fallback. That
// is no attempt at the step, and meets what the model says of it alone: a fallback is there for
// when the step cannot be done.
const fallbackOf = ".fallback"

func fallsBack(c *step.Call) bool { return c.Module == nil && strings.HasSuffix(c.Path, fallbackOf) }

// target finds what a call meets.
func (w *world) target(c *step.Call, path string) *live {
	suffix := ""
	if fallsBack(c) {
		suffix = fallbackOf
		path += suffix
	}
	if t, ok := w.tables[path]; ok {
		return t
	}
	var id, name string
	own := path
	if s := w.names.of(c, strings.TrimSuffix(path, suffix)); c.Module != nil {
		name, own = c.Module.Name, c.Module.Name
	} else if s != nil {
		name = s.Label() + suffix
		if s.ID != "" {
			id = s.ID + suffix
		}
	}
	key, target := w.model.target(path, id, name)
	if key == "*" || key == "" { // each step, and each module, has a target of its own
		key = own
	}
	t := w.live[key]
	if t == nil {
		t = &live{Target: target, name: key, hash: hash(key)}
		t.begin(w.seed)
		w.live[key] = t
	}
	w.tables[path] = t
	return t
}

func (t *live) begin(seed luck) {
	t.slots = make([]time.Duration, t.Latency.Capacity)
	if t.Limit != nil {
		t.tokens = float64(t.Limit.burst())
	}
	for i, o := range t.Outages {
		l := seed.with(t.hash).with(^uint64(i))
		s := &twoState{Outage: o, seed: l, luck: l}
		if o.MeanUp > 0 {
			s.from = s.luck.exponential(o.MeanUp)
			s.until = s.from + s.luck.exponential(o.MeanDown)
		} else {
			s.from = o.From - time.Duration(s.luck.unit()*float64(o.sooner))
			s.until = o.From + o.For + time.Duration(s.luck.unit()*float64(o.longer))
		}
		t.states = append(t.states, s)
	}
}

func (l *Limited) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return l.Count
}

// takes is how long an attempt that begins now takes.
func (t *live) takes(now time.Duration, l *luck) time.Duration {
	d := t.Latency.draw(l)
	if len(t.slots) == 0 {
		return d
	}
	first := 0
	for i, free := range t.slots {
		if free < t.slots[first] {
			first = i
		}
	}
	t.slots[first] = max(now, t.slots[first]) + d
	return t.slots[first] - now
}

// down reports whether there is an outage.
func (t *live) down(now time.Duration) bool { return t.outage(now) != nil }

func (t *live) outage(now time.Duration) *twoState {
	for _, s := range t.states {
		if s.down(now) {
			return s
		}
	}
	return nil
}

// fails gives the class of the error with which an attempt ends, "" if it
// succeeds, and for how long it asks to be left alone. Where tokens are taken at the
// answer, that is still to be asked.
func (t *live) fails(now time.Duration, rates []Failure, u float64) (class string, hint time.Duration) {
	if s := t.outage(now); s != nil {
		return s.Class, 0
	}
	if t.Limit != nil && !t.Limit.AtAnswer {
		if hint, ok := t.limited(now); ok {
			return "rate_limit", hint
		}
	}
	for _, f := range rates {
		if u < f.P {
			return f.Class, 0
		}
		u -= f.P
	}
	return "", 0
}

// limited takes a token, if there is one.
func (t *live) limited(now time.Duration) (hint time.Duration, limited bool) {
	l := t.Limit
	if l == nil {
		return 0, false
	}
	rate := l.rate()
	if now > t.filled {
		t.tokens = min(float64(l.burst()), t.tokens+rate*float64(now-t.filled))
		t.filled = now
	}
	const most = 1 - 1e-9 // of what is lost in adding
	if t.tokens >= most {
		t.tokens--
		return 0, false
	}
	switch hint = time.Duration(math.Ceil((1 - t.tokens) / rate)); {
	case l.RetryAfter < 0:
		return 0, true
	case l.RetryAfter > 0:
		return l.RetryAfter, true
	case l.whole:
		return (hint + time.Second - 1).Truncate(time.Second), true
	}
	return hint, true
}

// rate is tokens a nanosecond.
func (l *Limited) rate() float64 { return float64(l.Count) / float64(l.Per) }

// twoState is an outage as it goes.
type twoState struct {
	Outage
	seed        luck
	luck        luck
	era         int64 // of those that from and until are of
	from, until time.Duration
}

// eraCycles is how many outages there are in an era on the average. Each era
// begins again, so that what comes after a long time is known without all that was
// before it.
const eraCycles = 1000

func (s *twoState) down(now time.Duration) bool {
	if s.MeanUp > 0 {
		s.reach(now)
	}
	return now >= s.from && now < s.until
}

// reach continues to the outage that follows a moment, or is there.
func (s *twoState) reach(now time.Duration) {
	length := (s.MeanUp + s.MeanDown) * eraCycles
	if length/eraCycles != s.MeanUp+s.MeanDown { // which is longer than all of time
		length = math.MaxInt64
	}
	if era := int64(now / length); era != s.era {
		s.era, s.luck = era, s.seed.with(uint64(era))
		s.from = time.Duration(era) * length
		if s.luck.unit()*float64(s.MeanUp+s.MeanDown) < float64(s.MeanUp) {
			s.from = bound.Sum(s.from, s.luck.exponential(s.MeanUp))
		}
		s.until = bound.Sum(s.from, s.luck.exponential(s.MeanDown))
	}
	for now >= s.until && s.until < math.MaxInt64 {
		s.from = bound.Sum(s.until, s.luck.exponential(s.MeanUp))
		s.until = bound.Sum(s.from, s.luck.exponential(s.MeanDown))
	}
}

// failure gives the failure of a class, one for all that are the same.
func (w *world) failure(class string, hint time.Duration) *failure.Failure {
	if hint != 0 {
		return failed(class, hint)
	}
	f := w.failures[class]
	if f == nil {
		f = failed(class, 0).Prepare()
		w.failures[class] = f
	}
	return f
}

// failed is a failure of a class, as the real one would tell of itself.
func failed(class string, hint time.Duration) *failure.Failure {
	f := &failure.Failure{Class: class, Message: "simulated: " + class, RetryAfter: hint}
	switch class {
	case "rate_limit":
		f.RateLimited, f.Status, f.Message = true, http.StatusTooManyRequests, "simulated: 429 Too Many Requests"
	case "server_error":
		f.Status, f.Message = http.StatusServiceUnavailable, "simulated: 503 Service Unavailable"
	case "timeout":
		f.Timeout, f.Message = true, "simulated: timed out"
	case "network":
		f.Network, f.Message = true, "simulated: connection refused"
	case "exit":
		f.Exit, f.Message = 1, "simulated: exit status 1"
	}
	return f
}

// output is what an attempt that succeeds prints: what the model says, or else
// what the step can read.
func (w *world) output(c *step.Call, path string, t *live) string {
	if strings.HasSuffix(c.Path, ".items") {
		w.assumeLines(c)
		return w.lines()
	}
	if t.Output != nil {
		if t.value && c.Module != nil {
			return printed(c.Module, *t.Output)
		}
		return *t.Output
	}
	if c.Module != nil {
		return w.result(c.Module)
	}
	s := w.names.of(c, path)
	if s == nil {
		return ""
	}
	switch s.Capture.Format {
	case "json":
		return "{}"
	case "number":
		return "0"
	case "boolean":
		return "true"
	}
	if slices.ContainsFunc(s.Outputs, func(o workflow.Output) bool { return o.JSONPath != "" }) {
		return "{}"
	}
	if w.names.scores[s] {
		return `{"score": 100}`
	}
	return ""
}

// printed is the text of which a module makes a value that is given as JSON.
func printed(d *module.Definition, text string) string {
	if d.Format() == module.Text {
		if v, err := value.Parse([]byte(text)); err == nil {
			if plain, is := v.(string); is {
				return plain
			}
		}
	}
	return text
}

// result is a text of which a module makes a value of its type.
func (w *world) result(d *module.Definition) string {
	text, ok := w.results[d]
	if !ok {
		text = printed(d, value.JSON(types.Encode(types.Sample(d.Result, max(w.model.Items, 0)))))
		w.results[d] = text
	}
	return text
}

// file is what is in a file that a step would have made.
func (w *world) file(list bool) []byte {
	if list {
		return []byte(w.lines())
	}
	return []byte(`{"score": 100}`)
}

// assumeLines notes that nobody knows how many values a loop has.
func (w *world) assumeLines(c *step.Call) {
	if s, is := c.Action.(*workflow.Shell); is && w.model.Guessed {
		w.seen.assume(fmt.Sprintf("%s, which is not run, gives %d values", s.Text, max(w.model.Items, 0)))
	}
}

// lines are the items of a loop over what a command prints.
func (w *world) lines() string {
	var b strings.Builder
	for i := range max(w.model.Items, 0) {
		fmt.Fprintf(&b, "item %d\n", i+1)
	}
	return b.String()
}

// names finds the step that an action belongs to.
type stepNames struct {
	pipeline bool // there are no steps: the paths are those of calls
	actions  map[workflow.Action]*workflow.Step
	paths    map[string]*workflow.Step
	scores   map[*workflow.Step]bool // whose output is a score
}

func namesOf(f *workflow.File) *stepNames {
	n := &stepNames{actions: map[workflow.Action]*workflow.Step{}, paths: map[string]*workflow.Step{}, scores: map[*workflow.Step]bool{}}
	scored := func(steps []*workflow.Step) {
		for _, s := range steps {
			n.scores[s] = true
		}
	}
	workflow.WalkAll(f, func(s *workflow.Step) {
		n.actions[s.Action] = s
		if _, known := n.paths[s.Path]; !known {
			n.paths[s.Path] = s
		}
		switch a := s.Action.(type) {
		case *workflow.Validate:
			scored(a.Steps)
		case *workflow.GoalSeek:
			scored(a.Validate)
		}
		if s.Validate != nil {
			scored(s.Validate.Steps)
		}
	})
	return n
}

func (n *stepNames) of(c *step.Call, path string) *workflow.Step {
	if s := n.actions[c.Action]; s != nil {
		return s
	}
	return n.paths[path]
}

// label is what a person calls the step of a path.
func (n *stepNames) label(path string) string {
	if s := n.paths[path]; s != nil {
		return s.Label()
	}
	return path
}

// Known are the names under which a model may speak of the steps of a file.
func Known(f *workflow.File) []string {
	var list []string
	workflow.WalkAll(f, func(s *workflow.Step) {
		names := []string{s.Path, s.Label()}
		if s.ID != "" {
			names = append(names, s.ID)
		}
		list = append(list, names...)
		if s.Retry.FallbackAction() != nil {
			for _, name := range names {
				list = append(list, name+fallbackOf)
			}
		}
	})
	return list
}

// history is a repository in which every step commits what it has to.
type history struct{}

func (history) Mark(context.Context, string) (worktree.Point, error) {
	return worktree.Point{}, nil
}

func (history) Context(context.Context, string, worktree.Point) (worktree.GitContext, error) {
	return worktree.GitContext{}, nil
}

func (history) State(context.Context, string) (worktree.State, error) {
	return worktree.State{}, nil
}

func (history) AutoCommit(context.Context, string, worktree.CommitOptions) (string, error) {
	return "0000000000000000000000000000000000000000", nil
}

func (history) RequireCommit(context.Context, string, string) error { return nil }
