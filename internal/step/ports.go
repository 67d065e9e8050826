package step

import (
	"context"
	"strconv"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// Clock is time, and all that waits for it or for others.
type Clock = clock.Clock

// Recorder keeps facts. It is safe for concurrent use; the order of the facts
// is that of the calls.
type Recorder interface {
	// Record keeps facts as one record: after a crash there are all of them, or
	// none. A fact without a time has happened now. The error says that they
	// are not kept; the run can then not continue, and what was to follow them must
	// not happen. It does not keep the slice.
	Record(facts ...event.Event) error
	// Detailed reports whether facts have the data that a later life of the run reads;
	// where none follows, nobody makes it.
	Detailed() bool
	// Sync returns when everything that was recorded would outlive a power cut.
	// It is called before an effect that must not happen unrecorded.
	Sync(ctx context.Context) error
	// Show tells whoever watches something that is not kept: event.Output.
	Show(e event.Event)
}

// Actions carries out what steps do. It is safe for concurrent use.
type Actions interface {
	// Run makes one attempt of a leaf action: a shell command, an agent, an HTTP
	// request, a file, or of a module of a pipeline. It ends soon after ctx does. The error is nil or says why
	// the attempt failed; failure.From makes a value of it that can be recorded.
	// Where it is not nil, the result still says as much as is known.
	Run(ctx context.Context, c *Call) (action.Result, error)
	// Keep has the output of a step that is made of others, or of an answer, in a log of
	// its own, and says so in the result, where this machine has such logs.
	Keep(c *Call, res action.Result) (action.Result, error)
	// Text reads an output that is in a log.
	Text(log action.Log) (string, error)
	// Output gives the whole output of an attempt, whatever its size.
	Output(ctx context.Context, res action.Result) ([]byte, error)
	// Read gives the content of a file that a step names.
	Read(ctx context.Context, file files.Name) ([]byte, error)
	// Items reads the values of a foreach out of a file.
	Items(ctx context.Context, file files.Name, jsonPath string) ([]any, error)
	// Save writes the whole output of an attempt to a file (output_file).
	Save(ctx context.Context, file files.Name, res action.Result) error
	// Find gives the files that match a pattern, by their full paths.
	Find(ctx context.Context, pattern files.Name) ([]string, error)
	// IsDir gives an error unless a path is that of a directory.
	IsDir(ctx context.Context, dir files.Name) error
}

// Call is one attempt of one leaf action.
type Call struct {
	Address
	Step   *workflow.Step // of a workflow; nil: it is of none
	Path   string         // of the step, where it runs
	Number int            // of the attempt, from 1
	// Priority is more than 0 where a question to an agent waits for a limit of the machine
	// before others.
	Priority int
	Action   workflow.Action // nil: the command or the request of Module
	// Module is what a pipeline calls, with Args; nil: it is a step's attempt.
	Module  *module.Definition
	Args    []any
	Timeout time.Duration // of this attempt; 0: none
	Stall   time.Duration // how long it may print nothing; 0: any time
	Session string        // an agent's, to go on with; "": a new one
	Summary string        // what an earlier attempt said last, for an agent that begins again
	Scope   *vars.Scope   // for reading
	Dir     string
	Environ environ.Local
	// MaxCost is what an agent may cost, in dollars; 0: anything. Used is told what it has
	// used, each time that it tells more; nil: nobody asks.
	MaxCost float64
	Used    func(action.Usage)
	Quiet   bool // output is not passed on live
	Unread  bool // nothing but a person reads the output
	Alone   bool // nothing else runs at the same time
	// Listing says that what it prints is a list, so that each command of its last pipe must
	// succeed.
	Listing bool
	// Read reports whether something other than a person reads the output, where
	// the call is alone.
	Read func() bool
}

// Env is the complete environment of the attempt.
func (c *Call) Env() []string { return c.Environ.List() }

// Values says what a name is that is no variable of a scope (the environment,
// date:, uuid, file:, cmd:), and what variables a step adds to it. All it gives
// can be written down. *environ.Environment is the one implementation; where
// commands compute values, it is given what runs them.
type Values interface {
	// View is a scope for reading. What is run to compute a value ends with ctx.
	View(ctx context.Context, env environ.Local, sc *vars.Scope) *vars.Scope
	// AddStep, AddDynamic and AddCalled give the environment of a step, of a
	// command in it, and of a called workflow.
	AddStep(ctx context.Context, env environ.Local, sc *vars.Scope, own, more []workflow.EnvVar) (environ.Local, error)
	AddDynamic(ctx context.Context, env environ.Local, sc *vars.Scope) (environ.Local, error)
	AddCalled(ctx context.Context, env environ.Local, sc *vars.Scope, f *workflow.File) (environ.Local, error)
	// Get gives a variable of the run's environment that is not computed.
	Get(name string) (string, bool)
	// Seal masks the secrets in a value and says where; Unseal puts them back.
	Seal(v any) (any, environ.Seals)
	Unseal(v any, marks environ.Seals) any
	Mask() *mask.Masker
}

// Address says where in a run steps stand. It is data: the same address has the
// same JSON text in every life of the run. The zero Address is that of the steps
// of a standard workflow.
type Address struct {
	Phase string `json:"phase,omitempty"` // setup, map, reduce, merge
	// Rounds are those of the loops around, as they are appended to the paths
	// of steps: "@3" in a foreach, "@3#1" in a handler inside of it.
	Rounds string `json:"rounds,omitempty"`
	// Item is the id of the work item, Index its place in the list from 1, and
	// Attempt the number of the attempt at it, from 1.
	Item    string `json:"item,omitempty"`
	Index   int    `json:"index,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
}

// Path is that of a step of the file as it is executed here.
func (p Address) Path(step string) string { return step + p.Rounds }

// Round is the address of round n of a loop, from 0.
func (p Address) Round(n int) Address {
	p.Rounds += "@" + strconv.Itoa(n)
	return p
}

// Event is an event of a step that is here.
func (p Address) Event(t event.Type, path string) event.Event {
	return event.Event{Type: t, Phase: p.Phase, Step: path, Item: p.Item, Index: p.Index}
}
