package engine

import (
	"context"
	"errors"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/policy"
)

// Part is what one process does of a run that several share. The journal is its
// own copy of what the others have recorded, and [Resume] continues from there; the
// workflow file is the recorded one, whatever is in its place.
type Part struct {
	// Begin: a life of the run begins here, and is told as such.
	Begin bool
	// Kept is given each record, secrets masked, once the journal has it. Its
	// error is one of the journal: nothing more is begun.
	Kept func(facts []event.Event) error
	// Sync has what Kept was given on the disk, where the run's durability asks
	// for that before it continues.
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
	// Dir, if not "", is where this part works, in place of where the run was started: in a
	// clone of the repository there. Git is what the others know of it.
	Dir string
	Git gitwork.Shared
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

// errPart ends a run where another process continues with it.
var errPart = errors.New("another process continues the run")
