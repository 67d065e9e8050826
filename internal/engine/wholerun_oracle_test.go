package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// The oracle of whole runs: it finds out what a run must have done, from its plan, its
// record and the state of its world. It uses nothing of the engine, and only the words of
// package event.

// oracle checks one run.
type oracle struct {
	*wholeRun
	wrong []string
}

// judged gives what is wrong with a run, at most the first few findings.
func judged(r *wholeRun) []string {
	o := &oracle{wholeRun: r, wrong: slices.Clone(r.world.wrong)}
	for _, l := range r.lives {
		if l.stuck != "" || l.panicked != "" {
			o.say("life %d: %s%s", l.number, l.stuck, l.panicked)
			return o.wrong
		}
		o.life(l)
	}
	o.secrets()
	o.end()
	return o.wrong
}

func (o *oracle) say(format string, args ...any) {
	if len(o.wrong) < 10 {
		o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
	}
}

// step gives the step of the plan that an event belongs to, by its label, which is unique.
func (o *oracle) step(e event.Event) *planStep { return o.world.steps[e.Label] }

// place is a step of the run or of an item. The run itself is item 0.
type place struct {
	item int
	path string
}

// standing is what is known about the steps and the items of a run at one point of its
// journal.
type standing struct {
	steps    map[string]*planStep
	begun    map[place]bool
	names    map[place]string    // of the step
	over     map[place]bool      // it has ended and must not run again
	passed   map[place]bool      // it has failed, and the steps after it run
	attempt  map[place]int       // the attempt that began last
	failed   map[place]int       // the attempt that failed last
	failures map[place]int       // in this execution of the step
	due      map[place]retryWait // when its wait ends
	handled  map[place]int       // the round whose handler has begun
	inRound  map[place]int       // the attempts that have failed since a handler ended, or since the step began
	final    map[place]bool      // the policy allows no attempt after the last one, except after a handler
	spent    map[place]time.Duration
	prev     map[place]time.Duration

	items    map[int]string // how an item has ended
	running  map[int]bool
	left     map[int]bool // the process that ran it has ended
	tries    map[int]int  // attempts that failed since it began or was requeued
	itemDue  map[int]retryWait
	itemPrev map[int]time.Duration
	itemSum  map[int]time.Duration
	handler  map[int]bool // its handler is due
}

// retryWait is a wait that a retry has scheduled.
type retryWait struct {
	at    time.Time // when it was scheduled
	span  time.Duration
	life  int
	known bool
}

func newStanding(steps map[string]*planStep) *standing {
	return &standing{
		steps: steps,
		begun: map[place]bool{}, names: map[place]string{}, over: map[place]bool{}, passed: map[place]bool{}, attempt: map[place]int{}, failed: map[place]int{}, failures: map[place]int{},
		due: map[place]retryWait{}, handled: map[place]int{}, inRound: map[place]int{}, final: map[place]bool{}, spent: map[place]time.Duration{}, prev: map[place]time.Duration{},
		items: map[int]string{}, running: map[int]bool{}, left: map[int]bool{}, tries: map[int]int{}, itemDue: map[int]retryWait{}, itemPrev: map[int]time.Duration{}, itemSum: map[int]time.Duration{},
		handler: map[int]bool{},
	}
}

// forget forgets the steps of an item, or the steps of the run whose path begins with
// prefix.
func (s *standing) forget(item int, prefix string) {
	for _, m := range []map[place]bool{s.begun, s.over, s.passed} {
		for p := range m {
			if p.item == item && strings.HasPrefix(p.path, prefix) {
				delete(m, p)
			}
		}
	}
	for p := range s.attempt {
		if p.item == item && strings.HasPrefix(p.path, prefix) {
			s.anew(p)
			delete(s.attempt, p)
		}
	}
}

// anew forgets what is known about the attempts of a step.
func (s *standing) anew(p place) {
	delete(s.failed, p)
	delete(s.failures, p)
	delete(s.due, p)
	delete(s.handled, p)
	delete(s.inRound, p)
	delete(s.final, p)
	delete(s.spent, p)
	delete(s.prev, p)
}

// died records that the process has ended.
func (s *standing) died() {
	for i := range s.running {
		s.left[i] = true
	}
}

// apply records an event. It does not check whether the event is allowed.
func (s *standing) apply(e event.Event, life int) {
	p := place{e.Index, e.Step}
	switch e.Type {
	case event.StepStarted:
		s.begun[p], s.names[p] = true, e.Label
		if s.over[p] || s.attempt[p] == 0 {
			s.anew(p)
		}
		delete(s.over, p)
		if parent, round, ok := handlerOf(e.Step); ok {
			s.handled[place{e.Index, parent}] = round
		}
	case event.AttemptStarted:
		if e.Attempt > s.attempt[p] && s.attempt[p] > 0 { // the steps inside it run again
			for q := range s.begun { // one that was cut short as well
				if q.item == p.item && q != p && strings.Contains(q.path, p.path) && !strings.Contains(q.path, "#") {
					delete(s.over, q)
					s.anew(q)
					delete(s.attempt, q)
				}
			}
		}
		s.attempt[p] = e.Attempt
		delete(s.due, p)
	case event.AttemptFailed:
		s.failed[p] = e.Attempt
		s.failures[p]++
		s.inRound[p]++
		if st := s.steps[s.names[p]]; st != nil {
			s.final[p] = s.inRound[p] >= st.tries() || st.Retry.Only != "" && st.Retry.Only != e.Class
		}
	case event.RoundFinished:
		if loop, mark, _, ok := event.RoundOf(e.Step); ok && mark == '#' {
			q := place{e.Index, loop}
			delete(s.inRound, q)
			delete(s.final, q)
		}
	case event.RetryScheduled:
		d := delayOf(e)
		s.due[p] = retryWait{e.Time, d, life, true}
		s.spent[p] += d
		s.prev[p] = d
	case event.StepFinished:
		s.names[p] = e.Label
		if e.Status == event.Interrupted {
			return // it continues
		}
		s.over[p] = e.Status != event.Failed || tolerated(e)
		s.passed[p] = e.Status == event.Failed && tolerated(e)
		s.anew(p)
		delete(s.attempt, p)
	case event.ItemStarted:
		if !s.left[e.Index] {
			s.forget(e.Index, "")
		}
		delete(s.left, e.Index)
		delete(s.itemDue, e.Index)
		s.running[e.Index] = true
	case event.ItemRetry:
		s.forget(e.Index, "")
		delete(s.running, e.Index)
		delete(s.left, e.Index)
		d := delayOf(e)
		s.tries[e.Index]++
		s.itemDue[e.Index] = retryWait{e.Time, d, life, true}
		s.itemPrev[e.Index] = d
		s.itemSum[e.Index] += d
	case event.ItemHandlerDue:
		s.handler[e.Index] = true
		delete(s.running, e.Index)
	case event.ItemFinished:
		if e.Status == event.Interrupted {
			return // its steps are kept until it begins again
		}
		s.items[e.Index] = e.Status
		delete(s.running, e.Index)
		delete(s.handler, e.Index)
	case event.ItemRequeued:
		delete(s.items, e.Index)
		delete(s.tries, e.Index)
		delete(s.itemPrev, e.Index)
		delete(s.itemSum, e.Index)
		delete(s.left, e.Index)
		s.forget(e.Index, "")
		s.forget(0, "reduce")
	}
}

// handlerOf gives the step whose handler a step belongs to, and the round.
func handlerOf(path string) (parent string, round int, ok bool) {
	at := strings.LastIndex(path, "#")
	inside := strings.LastIndex(path, ".on_failure")
	if at < 0 || inside < 0 {
		return "", 0, false
	}
	if _, err := fmt.Sscanf(path[at:], "#%d", &round); err != nil {
		return "", 0, false
	}
	return path[:inside] + path[inside+len(path[inside:at]):at], round, true
}

// delayOf gives the delay in an event, to the nanosecond.
func delayOf(e event.Event) time.Duration {
	d, _ := wholeDelay(e)
	return d
}

// wholeDelay is delayOf, and says whether the other side asked for at least that delay.
func wholeDelay(e event.Event) (time.Duration, bool) {
	var d struct {
		Delay  time.Duration `json:"delay_ns"`
		Source string
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return -1, false
	}
	return d.Delay, d.Source == event.FromRetryAfter
}

func tolerated(e event.Event) bool {
	var d struct{ Tolerated bool }
	return json.Unmarshal(e.Data, &d) == nil && d.Tolerated
}

// life goes through a life in order. It checks each event and each execution against what
// was known before.
func (o *oracle) life(l *oneLife) {
	s := newStanding(o.world.steps)
	for _, e := range l.journal[:l.base] {
		if e.Type == event.RunResumed || e.Type == event.RunFinished {
			s.died()
		}
		s.apply(e, -1)
	}
	s.died()
	var did []*execution
	for _, x := range o.world.did {
		if x.life == l.number {
			did = append(did, x)
		}
	}
	answers := map[place][]*execution{}
	ran := did
	for i := l.base; i <= len(l.journal); i++ {
		for ; len(did) > 0 && did[0].seq == i; did = did[1:] {
			o.executes(l, s, did[0])
			p := place{did[0].item, did[0].path}
			answers[p] = append(answers[p], did[0])
		}
		if i < len(l.journal) {
			o.happens(l, s, l.journal[i], answers)
			s.apply(l.journal[i], l.number)
		}
	}
	o.durable(l, ran)
	o.reports(l, s)
}

// executes checks that nothing runs whose end is on record, and that nothing runs without a
// record of its start or before its turn.
func (o *oracle) executes(l *oneLife, s *standing, x *execution) {
	p := place{x.item, x.path}
	who := fmt.Sprintf("life %d: %s (%s) of item %d", l.number, x.name, x.path, x.item)
	if s.over[p] {
		o.say("%s runs again: its end is on record", who)
	}
	if x.item > 0 && s.items[x.item] != "" {
		o.say("%s runs: the item has ended (%s)", who, s.items[x.item])
	}
	if s.attempt[p] != x.number {
		o.say("%s runs as attempt %d: the record has %d", who, x.number, s.attempt[p])
	}
	if st := o.world.steps[x.name]; s.failures[p] > 0 && st.rounds() == 1 && !strings.HasPrefix(x.last, x.name+" failed") && !st.vague() {
		o.say("%s is told that the attempt before ended with %q", who, ends(x.last))
	}
	if s.failed[p] >= x.number {
		o.say("%s runs as attempt %d, which is recorded as failed", who, x.number)
	}
	o.told(s, who, x)
	own, rounds := x.path, ""
	if at := strings.IndexAny(x.path, "@/#"); at >= 0 {
		own, rounds = x.path[:at], x.path[at:]
	}
	open := strings.LastIndex(own, "[")
	n := 0
	if _, err := fmt.Sscanf(own[open+1:], "%d]", &n); err != nil {
		o.say("%s has a path without a number", who)
		return
	}
	for i := range n { // the steps before it have ended
		if q := (place{x.item, fmt.Sprintf("%s[%d]%s", own[:open], i, rounds)}); !s.over[q] {
			o.say("%s runs before %s has ended", who, q.path)
		}
	}
}

// told checks that a handler is told how its step failed, in whichever life it failed.
func (o *oracle) told(s *standing, who string, x *execution) {
	path, _, ok := handlerOf(x.path)
	st := o.world.steps[s.names[place{x.item, path}]]
	args := o.world.steps[x.name].Args
	first := len(args) - len(toldParts)
	if !ok || st == nil || first < 0 || args[first] != (planArg{Kind: "told", Of: toldParts[0]}) {
		return
	}
	got := x.args[first:]
	exit := "0"
	switch got[0] {
	case "exit":
		exit = "3"
	case "network", "rate_limit":
	case "timeout": // of the step, unless that of the item or of the run
		if o.plan.AgentMS > 0 || o.plan.TimeoutMS > 0 {
			return
		}
	default:
		return
	}
	output, message := st.printed()
	for i, want := range []string{got[0], message, exit, output, message} {
		if got[i] != want {
			o.say("%s is told that error.%s is %s, want %s", who, toldParts[i], ends(got[i]), ends(want))
		}
	}
}

// happens checks that what is recorded has happened, and is what the policy says.
func (o *oracle) happens(l *oneLife, s *standing, e event.Event, answers map[place][]*execution) {
	p := place{e.Index, e.Step}
	who := fmt.Sprintf("life %d, fact %d: %s %s of item %d", l.number, e.Seq, e.Type, e.Step, e.Index)
	st := o.world.steps[s.names[p]]
	last := func() *execution {
		if list := answers[p]; len(list) > 0 {
			return list[len(list)-1]
		}
		return nil
	}
	switch e.Type {
	case event.AttemptStarted:
		if w := s.due[p]; w.known {
			o.waited(l, who, w, e.Time)
		}
		o.handledFirst(s, who, st, p, e.Attempt)
		if s.final[p] && e.Attempt > s.attempt[p] {
			o.say("%s %d: the policy allows no attempt after %d that failed, and no handler has ended since", who, e.Attempt, s.inRound[p])
		}
	case event.AttemptFinished, event.AttemptFailed:
		if st == nil || st.Kind == "foreach" || st.Kind == "call" {
			return
		}
		x := last()
		switch {
		case e.Class == "circuit_open" || e.Class == "input":
		case x == nil || x.number != e.Attempt:
			o.say("%s %d: nothing has run", who, e.Attempt)
		case e.Type == event.AttemptFinished && x.ended != "ok":
			o.say("%s %d: it ended with %s", who, e.Attempt, x.ended)
		case e.Type == event.AttemptFailed && x.ended != e.Class && x.ended != "cut":
			o.say("%s %d with %s: it ended with %s", who, e.Attempt, e.Class, x.ended)
		}
		if e.Type == event.AttemptFailed && s.failed[p] >= e.Attempt {
			o.say("%s %d: attempt %d had failed before", who, e.Attempt, s.failed[p])
		}
	case event.RetryScheduled:
		o.scheduled(s, who, st, p, e)
	case event.StepFinished:
		o.stepEnds(l, s, who, e)
	case event.ItemStarted:
		if w := s.itemDue[e.Index]; w.known {
			o.waited(l, who, w, e.Time)
		}
		if s.items[e.Index] != "" {
			o.say("%s: it has ended", who)
		}
	case event.ItemRetry:
		o.itemScheduled(s, who, e)
	case event.ItemFinished, event.ItemHandlerDue:
		o.itemEnds(l, s, who, e)
	}
}

// waited checks that an attempt begins after the wait that was scheduled for it. In the
// life that scheduled it, this is exact. A clock that was set back must not make a wait
// longer.
func (o *oracle) waited(l *oneLife, who string, w retryWait, at time.Time) {
	due := w.at.Add(w.span)
	if w.life != l.number {
		if again := l.began.Add(w.span); again.Before(due) {
			due = again
		}
	}
	if at.Before(due) {
		o.say("%s begins %s before its wait of %s is over", who, due.Sub(at), w.span)
	}
}

// handledFirst checks that a round of a step begins after the handler of the round before
// has run.
func (o *oracle) handledFirst(s *standing, who string, st *planStep, p place, attempt int) {
	if st == nil || len(st.OnFail) == 0 || st.Rounds < 2 || attempt == s.attempt[p] || st.vague() {
		return
	}
	if round := (attempt - 1) / st.tries(); round > s.handled[p] {
		o.say("%s %d: the handler of round %d has not run", who, attempt, round)
	}
}

// tries gives how many attempts a round of a step has at most.
func (s *planStep) tries() int {
	if s.Retry == nil {
		return 1
	}
	return s.Retry.Attempts
}

func (s *planStep) rounds() int {
	if len(s.OnFail) == 0 {
		return 1
	}
	return max(1, s.Rounds)
}

// vague reports whether a round may end before its attempts are used up. Then the number of
// an attempt does not determine its round.
func (s *planStep) vague() bool {
	return s.Retry != nil && (s.Retry.BudgetMS > 0 || s.Retry.Only != "" || s.Retry.BreakerAt > 0)
}

// scheduled checks that the policy allows a retry, after the delay that the policy says.
func (o *oracle) scheduled(s *standing, who string, st *planStep, p place, e event.Event) {
	if st == nil || st.Retry == nil {
		o.say("%s: the step has no retries", who)
		return
	}
	r := st.Retry
	if st.rounds() > 1 && st.vague() {
		return
	}
	n := s.inRound[p] // a deadline may have ended the round before with fewer attempts than the policy allows
	if n >= r.Attempts {
		o.say("%s: attempt %d of %d was the last one", who, n, r.Attempts)
	}
	d, asked := wholeDelay(e)
	low, high := r.delay(n, s.prev[p])
	if st.rounds() == 1 && (d < low || d > high && !asked) {
		o.say("%s: the delay after attempt %d is %s, want %s to %s", who, n, d, low, high)
	}
	if spent := s.spent[p] + d; st.rounds() == 1 && r.BudgetMS > 0 && spent > time.Duration(r.BudgetMS)*time.Millisecond {
		o.say("%s: the delays are %s, more than the budget of %dms", who, spent, r.BudgetMS)
	}
	if r.Only != "" && e.Class != r.Only {
		o.say("%s: %s is not retried", who, e.Class)
	}
}

// delay gives the limits of the delay after failed attempt n; prev is the delay before.
func (r *planRetry) delay(n int, prev time.Duration) (low, high time.Duration) {
	first := float64(r.InitialMS) * 1e6
	d := first
	switch r.Backoff {
	case "linear":
		d = first * float64(n)
	case "exponential":
		d = first * math.Pow(2, float64(n-1))
	case "fibonacci":
		a, b := first, first
		for range n - 1 {
			a, b = b, a+b
		}
		d = a
	}
	limit := 30e9
	if r.MaxMS > 0 {
		limit = float64(r.MaxMS) * 1e6
	}
	d = min(d, limit)
	l, h := d, d
	switch r.Jitter {
	case "factor":
		l, h = 0.7*d, min(1.3*d, limit)
	case "full":
		l = 0
	case "equal":
		l = d / 2
	case "decorrelated":
		if prev == 0 {
			prev = time.Duration(first)
		}
		l = min(first, limit)
		h = max(l, min(limit, 3*float64(prev)))
	}
	return time.Duration(l) - 1, time.Duration(h) + 1
}

// stepEnds checks that a step is given up when its policy says so, and not before.
func (o *oracle) stepEnds(l *oneLife, s *standing, who string, e event.Event) {
	p := place{e.Index, e.Step}
	st := o.step(e)
	if st == nil {
		return // the captures of setup
	}
	if s.over[p] {
		o.say("%s (%s): its end is on record already", who, e.Status)
	}
	most := st.tries() * st.rounds()
	if n := s.failures[p]; n > most {
		o.say("%s: %d attempts have failed, of %d", who, n, most)
	}
	if e.Attempts > most && e.Class != "circuit_open" {
		o.say("%s: %d attempts, of %d", who, e.Attempts, most)
	}
	plainly := !st.vague() && o.plan.TimeoutMS == 0 && o.plan.AgentMS == 0 && o.plan.MaxCost == 0 && len(st.OnFail) == 0 && st.Kind == ""
	if e.Status == event.Failed && plainly && s.failures[p] < most {
		o.say("%s (%s: %s): %d of %d attempts have failed", who, e.Class, e.Message, s.failures[p], most)
	}
	if e.Status == event.Skipped && !st.WhenOdd {
		o.say("%s: it is skipped", who)
	}
}

// itemRetry gives the policy of items; nil if there is none.
func (o *oracle) itemRetry() *planRetry {
	if o.plan.ItemRetry != nil {
		return o.plan.ItemRetry
	}
	if o.plan.OnItem == "retry" {
		return &planRetry{Attempts: 3, Backoff: "exponential", InitialMS: 1000}
	}
	return nil
}

func (o *oracle) itemScheduled(s *standing, who string, e event.Event) {
	r := o.itemRetry()
	if r == nil {
		o.say("%s: items are not retried", who)
		return
	}
	n := s.tries[e.Index] + 1
	if n >= r.Attempts {
		o.say("%s: attempt %d of %d was the last one", who, n, r.Attempts)
	}
	low, high := r.delay(n, s.itemPrev[e.Index])
	d, asked := wholeDelay(e)
	if d < low || d > high && !asked {
		o.say("%s: the delay after attempt %d is %s, want %s to %s", who, n, d, low, high)
	}
	if spent := s.itemSum[e.Index] + d; r.BudgetMS > 0 && spent > time.Duration(r.BudgetMS)*time.Millisecond {
		o.say("%s: the delays are %s, more than the budget of %dms", who, spent, r.BudgetMS)
	}
}

// itemEnds checks that an item ends well when all its steps have, and fails for good when
// nothing allows another attempt.
func (o *oracle) itemEnds(l *oneLife, s *standing, who string, e event.Event) {
	if s.items[e.Index] != "" {
		o.say("%s (%s): it has ended (%s)", who, e.Status, s.items[e.Index])
	}
	switch {
	case e.Status == event.Interrupted:
		return
	case e.Status == event.Succeeded:
		for i, st := range o.plan.Steps {
			if !s.over[place{e.Index, fmt.Sprintf("map.agent_template[%d]", i)}] {
				o.say("%s: it succeeds, and %s has not", who, st.Name)
			}
		}
		return
	}
	want := map[string]string{"": event.DeadLettered, "dlq": event.DeadLettered, "retry": event.DeadLettered, "skip": event.Skipped, "stop": event.Failed, "custom": event.Failed}[o.plan.OnItem]
	if e.Type == event.ItemFinished && e.Status != want {
		o.say("%s: it is %s, and on_item_failure is %q", who, e.Status, o.plan.OnItem)
	}
	if e.Type == event.ItemFinished && o.plan.OnItem == "custom" && !s.handler[e.Index] {
		o.say("%s: no handler was due", who)
	}
	if r := o.itemRetry(); r != nil && r.BudgetMS == 0 && r.Only == "" && !s.handler[e.Index] && s.tries[e.Index]+1 < r.Attempts && e.Class != "input" && o.plan.AgentMS == 0 {
		o.say("%s (%s: %s): attempt %d of %d was not the last one", who, e.Class, e.Message, s.tries[e.Index]+1, r.Attempts)
	}
}

// unmended reports whether a step of the run, or of an item that succeeded, has failed and
// was tolerated although its plan does not allow that.
func (o *oracle) unmended(s *standing) bool {
	for p, passed := range s.passed {
		if passed && !event.Aside(p.path) && !o.world.steps[s.names[p]].MayFail && (p.item == 0 || s.items[p.item] == event.Succeeded) {
			return true
		}
	}
	return false
}

// durable checks that with durability strict, the start of an item whose command ran is on
// record in the next life, whatever was lost.
func (o *oracle) durable(l *oneLife, did []*execution) {
	if !o.plan.Strict || !l.dead {
		return
	}
	for _, x := range did {
		if x.item == 0 {
			continue
		}
		if !slices.ContainsFunc(l.leave(), func(e event.Event) bool {
			return e.Type == event.ItemStarted && e.Index == x.item && e.Attempt >= x.attempt
		}) {
			o.say("life %d: %s of item %d has run, and its start is lost (strict)", l.number, x.name, x.item)
		}
	}
}

// reports checks that the status and the counts that a life reports agree with its facts.
func (o *oracle) reports(l *oneLife, s *standing) {
	if l.dead {
		return
	}
	last := l.journal[len(l.journal)-1]
	if last.Type != event.RunFinished || last.Status != l.status {
		o.say("life %d: it ended %s, and its last fact is %s %s", l.number, l.status, last.Type, last.Status)
		return
	}
	want := 1
	switch l.status {
	case event.Succeeded:
		want = 0
	case event.CompletedWithFailures:
		want = 3
	case event.Interrupted:
		want = 130
	}
	if l.exit != want {
		o.say("life %d: exit status %d of a run that %s", l.number, l.exit, l.status)
	}
	if o.plan.Items == 0 || listed(l.journal) == 0 {
		o.well(l, s)
		return
	}
	var counts struct {
		Items struct{ Total, Succeeded, Failed, Skipped, Pending int }
	}
	if err := json.Unmarshal(last.Data, &counts); err != nil {
		o.say("life %d: the summary: %v", l.number, err)
		return
	}
	n := map[string]int{}
	for i := 1; i <= o.plan.Items; i++ {
		switch s.items[i] {
		case event.Failed, event.DeadLettered:
			n["failed"]++
		case "":
			if s.handler[i] { // it has failed for good
				n["failed"]++
			} else {
				n["pending"]++
			}
		default:
			n[s.items[i]]++
		}
	}
	c := counts.Items
	phase := slices.ContainsFunc(l.journal[l.base:], func(e event.Event) bool { return e.Type == event.PhaseStarted && e.Phase == "map" })
	if phase && (c.Total != o.plan.Items || c.Succeeded != n[event.Succeeded] || c.Failed != n["failed"] || c.Skipped != n[event.Skipped] || c.Pending != n["pending"]) {
		o.say("life %d: the summary has %+v, the facts %v", l.number, c, n)
	}
	if endedWell(l.status) {
		if n["pending"] > 0 {
			o.say("life %d: it ended %s with %d items pending", l.number, l.status, n["pending"])
		}
		if failed := n["failed"] + n[event.Skipped]; (failed > 0 || o.unmended(s)) != (l.status == event.CompletedWithFailures) {
			o.say("life %d: it ended %s with %d items failed", l.number, l.status, failed)
		}
		o.well(l, s)
	}
	o.bounds(l, n)
}

// bounds checks that a map stops where its policy says, unless somebody asked it to
// continue.
func (o *oracle) bounds(l *oneLife, n map[string]int) {
	if l.base > 0 || !endedWell(l.status) {
		return
	}
	failed := n["failed"] + n[event.Skipped]
	if most := o.plan.MaxFailures; most > 0 && failed >= most && o.plan.OnItem != "skip" {
		o.say("life %d: it ended %s, and %d items have failed of %d", l.number, l.status, failed, most)
	}
	if o.plan.StopAtFirst && n["failed"] > 0 {
		o.say("life %d: it ended %s, and an item has failed", l.number, l.status)
	}
}

// well checks that in a run that ended well, everything has ended well.
func (o *oracle) well(l *oneLife, s *standing) {
	if !endedWell(l.status) {
		return
	}
	for _, part := range []struct {
		name  string
		steps []*planStep
		of    bool
	}{{"setup", o.plan.Setup, true}, {"commands", o.plan.Steps, o.plan.Items == 0}, {"reduce", o.plan.Reduce, true}} {
		if !part.of {
			continue
		}
		for i, st := range part.steps {
			if !s.over[place{0, fmt.Sprintf("%s[%d]", part.name, i)}] {
				o.say("life %d: it ended %s, and %s (%s[%d]) has not", l.number, l.status, st.Name, part.name, i)
			}
		}
	}
}

// secrets checks that no record has a piece of a secret.
func (o *oracle) secrets() {
	if !o.plan.Secret {
		return
	}
	for _, l := range o.lives {
		for _, e := range l.journal[l.base:] {
			text := []byte(e.Message + "\n" + e.Label + "\n" + e.Item + "\n")
			text = append(text, e.Data...)
			for i := 0; i+6 <= len(planSecret); i++ {
				if at := bytes.Index(text, []byte(planSecret[i:i+6])); at >= 0 {
					o.say("life %d, fact %d: %s %s has a piece of the secret: …%s…", l.number, e.Seq, e.Type, e.Step, text[max(0, at-30):min(len(text), at+30)])
					break
				}
			}
		}
	}
}
