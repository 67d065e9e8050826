package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/proof"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
)

// shown is what show prints about a run.
type shown struct {
	runInfo
	Params    map[string]string  `json:"params,omitempty"` // with which the run was started
	Resumes   int                `json:"resumes"`
	Hold      string             `json:"hold,omitempty"`            // what holds the map
	QueueHold string             `json:"queue_hold,omitempty"`      // what holds the merge queue
	AtOnce    string             `json:"at_once,omitempty"`         // how many items run at once, and why, if the map finds that out
	Waits     []string           `json:"waits_for,omitempty"`       // limits of this machine
	Paused    time.Time          `json:"paused_since,omitzero"`     // by bide control
	Limited   time.Time          `json:"rate_limit_until,omitzero"` // agents are not asked before then
	Agents    string             `json:"agents_held,omitempty"`     // the same in words
	Class     string             `json:"class,omitempty"`
	Retried   int                `json:"items_retried"` // items that needed more than one attempt
	Letters   int                `json:"dead_letters"`
	Proof     *proof.Totals      `json:"proof,omitempty"` // of a run with evidence or a merge queue
	Phases    []phaseInfo        `json:"phases"`
	StepList  []stepInfo         `json:"step_list"`
	Errors    []journal.Cause    `json:"errors"`
	Usage     map[string]float64 `json:"usage,omitempty"`
	how       string             // how it was interrupted
	left      unmerged           // work of the run that is not merged
	Notes     []string           `json:"notes"`
	Trouble   string             `json:"trouble,omitempty"` // what holds up a run on other machines
	Commands  []string           `json:"commands"`
	State     string             `json:"state"` // the run's own directory
	Version   string             `json:"bide_version,omitempty"`
}

type phaseInfo struct {
	Phase      string    `json:"phase"`
	Status     string    `json:"status"`
	Started    time.Time `json:"started,omitzero"`
	DurationMS int64     `json:"duration_ms"`
}

type stepInfo struct {
	Step       string `json:"step"`
	Label      string `json:"label,omitempty"`
	Phase      string `json:"phase,omitempty"`
	Status     string `json:"status"`
	Attempts   int    `json:"attempts"`
	DurationMS int64  `json:"duration_ms"`
	WaitedMS   int64  `json:"waited_ms"` // between attempts and for limits; not part of the duration
	ExitCode   int    `json:"exit_code,omitempty"`
	Class      string `json:"class,omitempty"`
	Message    string `json:"message,omitempty"`
	AtOnce     string `json:"at_once,omitempty"` // how many run at once, if a foreach finds that out
	seq        int64
	filled     string // the label with its variables filled in; "" if it has none
}

// showOptions are the options of show.
type showOptions struct {
	*app
	id    string // of the run
	gantt bool
}

func showCmd(a *app) *cobra.Command {
	o := &showOptions{app: a}
	cmd := &cobra.Command{
		Use:   "show [RUN]",
		Short: "Show a run: phases, steps, items, errors, cost",
		Long: `Shows how far a run is or how it ended, and which commands to use next.
Without RUN, it is the newest run of this directory; bide docs "which run" has all
ways to name one.`,
		Example: `  bide show
  bide show 01KAJ3 --gantt
  bide show 01KAJ3 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.gantt, "gantt", false, "draw the steps over time: attempts, waits by their source, resumes")
	return o.withJSON(cmd, "print one JSON object")
}

// first is the first argument, or "".
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// reading opens a run for reading and closes it after f.
func (a *app) reading(run string, f func(*journal.Reader) error) error {
	st, err := a.openStore()
	if err != nil {
		return err
	}
	return readRun(st, run, f)
}

// readRun opens a run of a state directory for reading and closes it after f.
func readRun(st *journal.Store, run string, f func(*journal.Reader) error) (err error) {
	r, err := st.Read(run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return f(r)
}

// inUse reports whether a process has a run.
func (a *app) inUse(run string) (held bool, err error) {
	err = a.reading(run, func(r *journal.Reader) (err error) {
		held, err = r.InUse()
		return err
	})
	return held, err
}

func (o *showOptions) run(ctx context.Context) error {
	if o.gantt && o.json {
		return usagef("--gantt and --json cannot be used together")
	}
	if o.gantt {
		return o.reading(o.id, func(r *journal.Reader) error { return o.chart(ctx, r) })
	}
	st, err := o.openStore()
	if err != nil {
		return err
	}
	return o.orItem(ctx, o.id, runArg{}, readRun(st, o.id, func(r *journal.Reader) error {
		s, err := showNow(ctx, st, r)
		if err != nil {
			return err
		}
		return answer(&o.streams, s, o.printShown)
	}))
}

// showNow returns what show prints about a run. For a running one it adds what the journal
// does not say: which limits of this machine hold it up, and what other machines lack that run
// it.
func showNow(ctx context.Context, st *journal.Store, r *journal.Reader) (*shown, error) {
	s, err := showOf(ctx, r)
	if err != nil || s.Status != event.Running {
		return s, err
	}
	if r.IsElsewhere() {
		s.Trouble = stateOn(ctx, r.Run(), showWait)[r.Run()].Trouble
	}
	s.Waits, err = limits.Waits(st.Dir, r.Run(), time.Now())
	return s, err
}

// keptShow is what show prints about a run that no process has, as it is stored.
type keptShow struct {
	Run    runInfo
	Shown  shown // without the run
	How    string
	Left   journal.Left
	Pause  event.Pause
	Chains map[string]event.ChainPause
}

// showOf returns what show prints about a run.
func showOf(ctx context.Context, r *journal.Reader) (*shown, error) {
	k, err := journal.Kept(ctx, r, "show", func() (keptShow, error) {
		s, h, err := foldShow(ctx, r)
		if err != nil {
			return keptShow{}, err
		}
		return keptShow{s.runInfo, *s, s.how, s.left.Left, h.Pause, h.Chains}, nil
	})
	if err != nil {
		return nil, err
	}
	s := &k.Shown
	s.runInfo, s.how, s.State = k.Run, k.How, r.Dir()
	s.left = unmergedOf(s.Status, nowLeft(ctx, r, k.Left))
	agents, now := timeline.Holdups{Pause: k.Pause, Chains: k.Chains}, time.Now()
	_, s.Limited, _ = agents.Agents(now)
	s.Agents = agents.AgentsText(shortRun(s.Run), now)
	// These are lists even if empty: a stored empty list is read as nil.
	s.Phases, s.StepList, s.Errors = append([]phaseInfo{}, s.Phases...), append([]stepInfo{}, s.StepList...), append([]journal.Cause{}, s.Errors...)
	s.Notes, s.Commands = append([]string{}, s.Notes...), s.commands()
	return s, nil
}

// keepShow stores what show, dlq list and runs print about a run with many items, when the run
// ends. That takes one pass over its events: 5 % of the time of items that start no process.
func (a *app) keepShow(ctx context.Context, sum *engine.Summary) {
	if sum.Items.Total < 5_000 || sum.Status == event.Interrupted {
		return
	}
	// If this fails, each command reads the events itself and reports the error.
	_ = a.reading(sum.Run, func(r *journal.Reader) error {
		_, err := showOf(ctx, r)
		return err
	})
}

// shownTypes are the run's own events that show needs, beside the state.
var shownTypes = []event.Type{event.RunResumed, event.StepStarted, event.StepFinished, event.PhaseStarted, event.PhaseFinished, event.Note, event.RunControlled, event.ItemsCompared, event.WidthChanged}

// foldShow computes it from the events, and returns what holds up a run that can continue.
func foldShow(ctx context.Context, r *journal.Reader) (s *shown, h timeline.Holdups, err error) {
	s = &shown{}
	own := ownEvents{shown: s, steps: map[string]*stepInfo{}, unmerged: -1, took: map[string]int64{}}
	o, err := r.Outcome(ctx, func(f *journal.Fact) error {
		defer func() { own.last = f.Nanos() }()
		if f.Index() != 0 || !slices.Contains(shownTypes, f.Type()) {
			return nil
		}
		e, err := f.Event()
		if err == nil {
			own.apply(e)
		}
		return err
	})
	if err != nil {
		return nil, h, err
	}
	sum, st, header := o.Summary, o.State, r.Header()
	s.runInfo, s.Resumes, s.Class, s.Usage = infoOf(sum, nil), st.Resumes, st.Class, st.Usage
	s.Letters, s.Version, s.Errors = sum.Items.DeadLettered, header.BideVersion, st.Items.Causes().List()
	s.Message, s.Paused, s.how, s.left.Left = st.Message, st.Held, stoppedHow(r, sum), st.Left
	for _, v := range header.Given() {
		value.Put(&s.Params, v.Name, v.Value)
	}
	running := s.Status == event.Running
	if running || s.Resumable {
		h = timeline.HoldupsOf(st)
		name, now := shortRun(s.Run), time.Now()
		s.Hold, s.QueueHold = h.MapText(name, now, running), h.QueueText(name, now, running)
	}
	until := time.Now()
	if !running {
		until = cmp.Or(st.Finished, o.Last)
	}
	for _, f := range own.widths {
		if f.Step == "" {
			s.AtOnce = f.Text(until)
		} else if i := own.steps[f.Step]; i != nil {
			i.AtOnce = f.Text(until)
		}
	}
	if st.Width != nil {
		if st.Parallel > 0 {
			s.AtOnce = fmt.Sprintf("%s at once, as somebody asked for", diag.Count(st.Parallel, "item"))
		}
	}
	for index, it := range st.Items.All() {
		if it.Attempts+o.Again[index] > 1 {
			s.Retried++
		}
	}
	if s.Proof, err = totalsOf(ctx, r, st); err != nil {
		return nil, h, err
	}
	if !running {
		own.endPhase()
	}
	s.phases(st, own.took)
	return s, h, s.listSteps(ctx, r, st, own.steps)
}

// totalsOf counts the results of the items' checks and merges; nil if the workflow has
// neither.
func totalsOf(ctx context.Context, r *journal.Reader, st *journal.State) (*proof.Totals, error) {
	if src := r.Header().Source; !bytes.Contains(src, []byte("merge_queue")) && !bytes.Contains(src, []byte("evidence")) {
		return nil, nil
	}
	p, err := proof.Read(ctx, r)
	if err != nil {
		return nil, err
	}
	t := p.Totals()
	for _, it := range st.Items.All() {
		if it.Merging != "" && !it.Status.Done() {
			t.Waiting++
		}
	}
	if t == (proof.Totals{}) {
		return nil, nil
	}
	return &t, nil
}

// proven describes the results of the items' checks and merges.
func (s *shown) proven() (evidence, merges string) {
	t := s.Proof
	if t == nil {
		return "", ""
	}
	var shown, merged parts
	shown.add(t.Passed > 0, "%d passed", t.Passed)
	shown.add(t.Failed > 0, "%d failed", t.Failed)
	merged.add(t.Merged > 0, "%d merged", t.Merged)
	merged.add(t.Waiting > 0, "%d to be merged", t.Waiting)
	merged.add(t.Refused > 0, "%d refused", t.Refused)
	merges = strings.Join(merged, ", ")
	if t.Verifies > 0 {
		merges += fmt.Sprintf("; %s in %s, %d red", diag.Count(t.Verifies, "verify", "verifies"), took(t.TookMS), t.Red)
	}
	return strings.Join(shown, ", "), strings.TrimPrefix(merges, "; ")
}

// ofQueue matches the steps of a merge queue: they are counted, not listed.
var ofQueue = pattern.Lazy(`^(map\.evidence|merge_queue)\..*@[0-9a-f]{12}\.[0-9]+`)

func (s *shown) phases(st *journal.State, spent map[string]int64) {
	for name, p := range st.Phases {
		i := phaseInfo{Phase: name, Status: s.now(p.Status), Started: p.Started}
		if !p.Started.IsZero() && !p.Finished.IsZero() {
			i.DurationMS = max(spent[name], p.Finished.Sub(p.Started).Milliseconds(), 0)
		} else if i.Status == event.Interrupted {
			i.DurationMS = spent[name]
		}
		if name == "map" && i.Status == event.Succeeded && s.Items.Failed > 0 {
			i.Status = event.CompletedWithFailures // its phase is done, but not all of its items
		}
		s.Phases = append(s.Phases, i)
	}
	slices.SortFunc(s.Phases, func(x, y phaseInfo) int { return x.Started.Compare(y.Started) })
}

// now is the present status of a part of a run: nothing is running in a run that no process
// has.
func (s *shown) now(status string) string {
	if status == event.Running && s.Status != event.Running {
		return event.Interrupted
	}
	return status
}

// ownEvents collects what the run's own events say.
type ownEvents struct {
	*shown
	steps    map[string]*stepInfo // by path
	unmerged int                  // position of the note of what the last process left unmerged; -1 for none
	widths   timeline.Widths
	took     map[string]int64 // by phase, its milliseconds in all processes of the run
	open     string           // the phase that has begun and not ended in the present process of the run
	since    time.Time        // when it began
	last     int64            // the time of the last event, in nanoseconds since 1970
}

// endPhase ends a phase with the last event of a process that was killed or interrupted in it.
func (o *ownEvents) endPhase() {
	if o.open != "" {
		o.took[o.open] += max(0, time.Unix(0, o.last).Sub(o.since).Milliseconds())
	}
	o.open = ""
}

func (o *ownEvents) apply(e event.Event) {
	if e.Type == event.RunResumed || e.Class == event.Unmerged || e.Class == event.Merged {
		if o.unmerged >= 0 {
			o.Notes = slices.Delete(o.Notes, o.unmerged, o.unmerged+1)
			o.unmerged = -1
		}
	}
	o.widths.Apply(e)
	switch e.Type {
	case event.RunResumed:
		o.endPhase()
	case event.PhaseStarted:
		o.open, o.since = e.Phase, e.Time
	case event.PhaseFinished:
		o.took[e.Phase] += e.DurationMS
		o.open = ""
	case event.Note, event.RunControlled, event.ItemsCompared:
		if e.Class == event.Passing {
			break
		}
		if e.Class == event.Unmerged {
			o.unmerged = len(o.Notes)
		}
		o.Notes = append(o.Notes, e.Message)
	case event.StepStarted, event.StepFinished:
		i := o.steps[e.Step]
		if i == nil {
			i = &stepInfo{Step: e.Step, seq: e.Seq}
			o.steps[e.Step] = i
		}
		if e.Type == event.StepStarted {
			i.filled = cmp.Or(e.Message, i.filled)
		} else {
			i.DurationMS, i.ExitCode, i.WaitedMS = e.DurationMS, e.ExitCode, stepEndOf(e).WaitedMS
		}
		i.Label = cmp.Or(i.filled, e.Label, i.Label)
	}
}

// listSteps lists the steps in the order in which they began. It leaves out those of a reduce
// that will be done again.
func (s *shown) listSteps(ctx context.Context, r *journal.Reader, st *journal.State, found map[string]*stepInfo) error {
	for path, i := range found {
		rec, ok := st.Steps[path]
		if !ok {
			delete(found, path)
			continue
		}
		i.Phase, i.Status, i.Attempts, i.Class, i.Message = rec.Phase, s.now(rec.Kind()), rec.Attempts, rec.Class, rec.Message
	}
	if err := s.unended(ctx, r, found); err != nil {
		return err
	}
	s.conditions(r.Header(), found)
	for _, i := range slices.SortedFunc(maps.Values(found), func(x, y *stepInfo) int { return cmp.Compare(x.seq, y.seq) }) {
		s.StepList = append(s.StepList, *i)
	}
	return nil
}

// unended sets the durations of steps that have not ended: until now, or until the end of the
// process that had the run.
func (s *shown) unended(ctx context.Context, r *journal.Reader, steps map[string]*stepInfo) error {
	open := slices.DeleteFunc(slices.Collect(maps.Values(steps)), func(i *stepInfo) bool {
		return i.Status != event.Running && i.Status != event.Interrupted || i.DurationMS > 0
	})
	if len(open) == 0 {
		return nil
	}
	line := timeline.New(r.Header())
	for e, err := range r.Events(ctx, 1, journal.EventFilter{Own: true}) {
		if err != nil {
			return err
		}
		line.Apply(e)
	}
	if s.Status != event.Running {
		line.Gone()
	}
	for _, i := range open {
		if row := line.Row(i.Step); row != nil {
			ran, waited := row.Spent(time.Now())
			i.Attempts, i.DurationMS, i.WaitedMS = max(i.Attempts, row.Tries), ran.Milliseconds(), waited.Milliseconds()
		}
	}
	return nil
}

// conditions adds the condition of each skipped step to its message.
func (s *shown) conditions(h journal.Header, steps map[string]*stepInfo) {
	var file *workflow.File
	for path, i := range steps {
		if i.Status != event.Skipped || i.Message != "" || s.Kind == workflow.Dataflow.String() {
			continue
		}
		if file == nil {
			if file = timeline.File(h); file == nil {
				return
			}
		}
		if step := timeline.StepAt(file, path); step != nil && step.When != nil {
			i.Message = "when: " + timeline.Secrets(file).String(step.When.String())
		}
	}
}
