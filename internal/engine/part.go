package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
)

// Part is what one process does of a run that several share. The journal is its
// own copy of what the others have recorded, and [Resume] goes on from there; the
// workflow file is the recorded one, whatever stands in its place.
type Part struct {
	// Begin: a life of the run begins here, and is told as such.
	Begin bool
	// Kept is given each record, secrets masked, once the journal has it. Its
	// error is one of the journal: nothing more is begun.
	Kept func(facts []event.Event) error
	// Sync has what Kept was given on the disk, where the run's durability asks
	// for that before it goes on.
	Sync func() error
	// Map, if not nil, takes the place of the map: the items are worked off
	// elsewhere, or by lanes that it makes. The run then goes no further here,
	// and its summary has the status running.
	Map func(ctx context.Context, m *PartMap) error
	// Halt is why the map stops, where those who decided about it have found a
	// reason that cannot be seen in what is recorded.
	Halt policy.StopReason
	// Spent is how much of the workflow's timeout has passed in this life of the
	// run before this part of it began.
	Spent time.Duration
	// Lanes: this part works off items, and somebody else decides about the run: its
	// timeout is kept there, and what is to follow its end is done there.
	Lanes bool
}

// OutOfTime is the reason of a map that the workflow's timeout stops.
const OutOfTime policy.StopReason = "timeout"

// PartMap is the map of a run, for a [Part] that has it worked off.
type PartMap struct {
	Total  int
	Policy policy.Config
	State  policy.State // where each item stands
	// Timeout is the workflow's, of this life of the run; 0: it has none.
	Timeout time.Duration
	// Budget is what all agents may use, as the file says, and Used what they have.
	Budget, Used Usage
	// Paused: the run was paused, and nobody has told it to continue.
	Paused bool
	m      *mapper.Map
}

// Usage is what agents use of a budget; 0 of a budget is no bound.
type Usage struct {
	CostUSD float64 `json:"cost_usd,omitempty"`
	Tokens  int64   `json:"tokens,omitempty"`
}

// Lane gives a lane for some of the items.
func (p *PartMap) Lane() *mapper.Lane { return p.m.Lane() }

// errPart ends a run where another process goes on with it.
var errPart = errors.New("another process continues the run")

// told is what another part of this life of the run has recorded of a phase.
func (r *run) told(phase string) journal.PhaseRecord {
	if r.opt.Part == nil || r.opt.Part.Begin {
		return journal.PhaseRecord{}
	}
	return r.state.Phases[phase]
}

// elsewhere has the map worked off by the run's part.
func (r *run) elsewhere(ctx context.Context, p step.Site) error {
	x, err := r.newMap(ctx, p, r.tally.items.Total)
	if err != nil {
		return err
	}
	x.p.Pauses = noPauses{}
	if err := x.restore(ctx); err != nil {
		return err
	}
	timeout, err := r.x.Span(ctx, p, r.file.Timeout)
	if err != nil {
		return fmt.Errorf("timeout: %w", err)
	}
	m := &PartMap{Total: r.tally.items.Total, Policy: x.m.Policy, State: x.m.State(), Timeout: timeout,
		Budget: Usage{r.file.MaxCost, r.file.MaxTokens}, Paused: !r.state.Held.IsZero(), m: x.m}
	if u := r.x.Agents.Used(); u != nil {
		m.Used = Usage{u.CostUSD, u.InputTokens + u.OutputTokens + u.CacheTokens + u.OtherTokens}
	}
	if err := r.opt.Part.Map(ctx, m); err != nil {
		return err
	}
	return errPart
}

// within runs the parts of the file within the workflow's timeout. Of the time of a
// run that several processes share, a part of it may have passed.
func (r *run) within(ctx context.Context, t time.Duration) error {
	const what = "the workflow"
	part := r.opt.Part
	switch {
	case t <= 0 || part == nil:
		return r.x.Within(ctx, t, what, r.parts)
	case part.Lanes:
		return r.parts(ctx)
	}
	over := &step.TimeoutError{What: what, After: t}
	if part.Halt == OutOfTime { // what has run is told, and nothing runs
		if err := r.parts(ctx); err != nil && !errors.As(err, new(*PolicyError)) {
			return err
		}
		return over
	}
	ctx, cancel := r.x.Clock.WithTimeout(ctx, max(t-part.Spent, 1), over)
	defer cancel()
	return r.parts(ctx)
}

// noPauses has an agent that a rate limit turned away give its item back: all
// lanes wait, which is not for one of them to decide.
type noPauses struct{}

func (noPauses) Ask(context.Context, time.Time) (round int, until time.Time) { return 0, time.Time{} }

func (noPauses) Limited(context.Context, int, time.Duration, string, time.Time) bool { return false }

func (noPauses) Answered(int) {}

// Plan is what a run that others go through has to know before its first event.
func Plan(opt Options) (h journal.Header, err error) {
	if opt.Pipeline != nil {
		opt.File = opt.Pipeline.AsFile()
	}
	if err := fill(&opt); err != nil {
		return h, err
	}
	if held := opt.recorded().Withheld; len(held) > 0 {
		return h, fmt.Errorf("the parameter %s is a secret, whose value is not recorded for the machines that share the run: let the file read it out of their environment (${env:NAME})", held[0])
	}
	if h, err = opt.header(); err != nil {
		return h, err
	}
	h.Run, err = journal.NewID()
	return h, err
}

// Unchanged is a *ChangedError where a file of a run is no longer what it was when
// the run began.
func Unchanged(h journal.Header) error {
	var opt Options
	if err := json.Unmarshal(h.Options, &opt.Settings); err != nil {
		return fmt.Errorf("the recorded options of run %s: %w", h.Run, err)
	}
	_, err := sources(h, opt)
	return err
}

// SummaryOf is how a run ended, as it is recorded; nil where it has not ended.
func SummaryOf(ctx context.Context, opt Options, r *journal.Reader) (*Summary, error) {
	st, err := r.State(ctx)
	if err != nil || st.Finished.IsZero() {
		return nil, err
	}
	return lastSummary(ctx, opt, r)
}
