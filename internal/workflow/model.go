package workflow

import (
	"os"
	"regexp"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/template"
	"github.com/google/jsonschema-go/jsonschema"
)

// Kind is the shape of a workflow.
type Kind uint8

// The kinds of workflow.
const (
	Standard Kind = iota
	MapReduce
	Dataflow // a pipeline file, which has no steps
)

func (k Kind) String() string {
	switch k {
	case MapReduce:
		return "mapreduce"
	case Dataflow:
		return "pipeline"
	}
	return "workflow"
}

// File is a workflow file after parsing and composition: every default is
// filled in, every spelling is resolved, every step knows its place. It is
// not changed after Load and is safe for concurrent readers.
type File struct {
	Path   string            // as given
	Source []byte            // the text, for messages and for the journal
	Others map[string][]byte // the texts of imported files, by path
	Kind   Kind
	Pos    diag.Pos

	Name, Description string

	Steps  []*Step // of a standard workflow
	Setup  *Block  // nil where there is none, as for Map, Reduce and Merge
	Map    *Map
	Reduce *Block
	Merge  *Block
	// Finally follows the end of the run, whichever it is.
	Finally *Block

	Params    []Param
	Env       []EnvVar
	EnvFiles  []EnvFile
	Secrets   []Secret
	Profiles  map[string][]EnvVar
	Profile   string // `active_profile:`; --profile wins
	Agents    map[string]*Agent
	Handlers  map[string][]*Step // for on_item_failure: {custom: NAME}
	Workflows []*SubWorkflow     // run before Steps; in order of the file, but behind those they depend on
	Policy    ErrorPolicy

	Timeout       Duration // of the whole run; zero: none
	MaxIterations int      // `max_iterations:`; 0 and 1: once
	Isolation     string   // auto, worktree, none
	Worktree      *Worktree
	Durability    string // grouped, strict
	// NoAutoCommit: what steps leave uncommitted in a worktree of the run stays so.
	NoAutoCommit     bool
	Queue            *MergeQueue // nil: the work of items is merged as they end
	SkipPermissions  bool
	StartDelay       Duration // ramp-up between the starts of agents
	MaxCost          float64  // dollars; 0: no bound
	MaxTokens        int64
	MaxWait          Duration // longest pause for a rate limit; zero: 6 h
	AllowFailedItems bool

	subs      written // `workflows:`, until they are loaded
	templates written
	former    diag.List       // see Formerly
	names     []string        // see Variables
	reads     map[string]bool // the first words of the names that it reads; nil: too many to tell
}

// Duration is a span of time in a file. Where the file has a variable in its
// place, Text is that text and D is zero until the engine resolves it.
type Duration struct {
	D    time.Duration
	Text *template.Text
	Unit time.Duration // of a bare number that the variable yields
	Set  bool          // the key was written

	Bound bool // the variable must not yield zero
}

// Int is a whole number in a file, or a variable in its place.
type Int struct {
	N     int
	Text  *template.Text
	Set   bool
	Least int // what the variable is at least
}

// Worktree is how worktrees of a run and of its agents are prepared.
type Worktree struct {
	Pos   diag.Pos
	Copy  []string       // patterns of files that git ignores, from the directory of the run
	Setup *template.Text // a shell text that runs in each of them; nil for none
}

// Block is a list of steps with what is beside it.
type Block struct {
	Pos     diag.Pos
	Steps   []*Step
	Timeout Duration
	Outputs []CaptureOutput // setup's capture_outputs, in order of the file
}

// CaptureOutput takes a variable out of a setup step's output.
type CaptureOutput struct {
	Name      string
	Pos       diag.Pos
	Command   int    // index of the step
	Source    string // stdout, stderr, both, combined
	Pattern   *regexp.Regexp
	JSONPath  string
	MaxSize   int    // bytes
	Format    string // string, text, json, lines, number, boolean
	Default   any
	HasDef    bool
	Multiline string // preserve, join, first_line, last_line, array
}

// Step is one step, the same type in every place where steps are.
type Step struct {
	Pos diag.Pos
	// Path is the step's stable address in the file: "commands[2]",
	// "map.agent_template[0].on_failure[0]", "commands[1].do[0]".
	Path                  string
	ID, Name, Description string
	label                 string // see Hide; "" where the label has no secret
	Action                Action

	When    *expr.Expr
	Timeout Duration // of one attempt
	// Timeouts are those of the attempts, from the first; the last holds for
	// all others. Stall is how long a command may print nothing; 0: any time.
	Timeouts []time.Duration
	Stall    Duration
	Retry    *Retry // nil: one attempt
	// Limits are the limits of the machine that each attempt holds. Priority is how much
	// sooner than others it gets them: from -50 to 50, 0 as usual.
	Limits   []LimitRef
	Priority int

	OnFailure  *Handler
	OnSuccess  []*Step
	OnExitCode map[int][]*Step

	Capture    Capture
	OutputFile *template.Text
	Outputs    []Output
	Validate   *Validate     // `validate:` beside an action
	Check      *StepValidate // `step_validate:`

	Env []EnvVar
	// Envs are added to Env in the attempts, from the first; the last in all others.
	Envs       [][]EnvVar
	WorkingDir *template.Text
	ClearEnv   bool

	CommitRequired bool
	AutoCommit     *Commit
	NoAutoCommit   bool // auto_commit: false
	// MayFail: a failure is recorded and the next step runs
	// (continue_on_error, allow_failure, ignore_errors, fail_workflow: false).
	MayFail bool
}

// Action is what a step does: one of *Shell, *Claude, *HTTP, *WriteFile,
// *Foreach, *Validate, *GoalSeek, *Pipeline, *Call, *Analyze.
type Action interface {
	// Kind is the action's key in the file.
	Kind() string
}

// Shell runs a text with sh -c, or directly where it is plain words.
type Shell struct {
	Text *template.Text
	Test bool // written as `test:`; sets test.* beside shell.*
}

// Claude asks an agent. Provider "" is the claude CLI.
type Claude struct {
	Text            *template.Text
	Provider        string
	SkipPermissions *bool // nil: as the file says
	Args            []string
	// ContinueSession: an attempt continues with the session of the one before it.
	ContinueSession bool
}

// HTTP makes one request.
type HTTP struct {
	Method  string
	URL     *template.Text
	Headers []Header
	Body    *template.Text
	JSON    any           // a body written as a YAML map or list, its strings templates; nil: Body
	Expect  []StatusRange // empty: 200 to 299
	MaxBody int           // bytes; 0: 1 MiB, or any with output_file
}

// Header is one request header.
type Header struct {
	Name  string
	Value *template.Text
}

// StatusRange is a range of HTTP status codes, both ends included.
type StatusRange struct{ From, To int }

// WriteFile writes a file inside the working directory, atomically.
type WriteFile struct {
	Path, Content *template.Text
	Format        string // text, json, yaml
	Mode          os.FileMode
	CreateDirs    bool
}

// Foreach runs steps for each of a list of values.
type Foreach struct {
	List            []any          // a list in the file: strings are *template.Text
	Text            *template.Text // a command whose output lines are the items, or a reference to a list
	Input           *template.Text // `input:`: a JSON, JSONL or text file
	JSONPath        string
	Do              []*Step
	Parallel        Int              // at most this many at once; 1: one after another
	Adaptive        *policy.Adaptive // nil: as many as Parallel; else it is found out, as by a map
	ContinueOnError bool
	MaxItems        Int
	MinItems        Int // fewer are an error; Set: none may be right, whatever the command writes
	Timeout         Duration
}

// Validate runs a check that yields a score and, while the score is below
// the threshold, the on_incomplete steps.
type Validate struct {
	Pos          diag.Pos
	Steps        []*Step
	Threshold    float64 // percent
	ResultFile   *template.Text
	Timeout      Duration
	Schema       *jsonschema.Resolved // expected_schema, which the result must fit; nil: none
	SchemaFile   *template.Text       // the file of the schema
	OnIncomplete *OnIncomplete
}

// OnIncomplete is what a validation does below its threshold.
type OnIncomplete struct {
	Pos            diag.Pos
	Steps          []*Step
	Prompt         *template.Text // asked on a terminal
	MaxAttempts    int
	FailWorkflow   bool
	CommitRequired bool
	RetryDelay     Duration
}

// StepValidate checks a step after it ran.
type StepValidate struct {
	Pos           diag.Pos
	Commands      []CheckCommand
	Criteria      string // all, any, at_least
	AtLeast       int
	MaxAttempts   int
	RetryDelay    Duration
	Timeout       Duration
	IgnoreFailure bool
}

// CheckCommand is one command of a StepValidate.
type CheckCommand struct {
	Step           *Step
	ExpectOutput   *regexp.Regexp
	ExpectExitCode int
}

// GoalSeek repeats an attempt until a validation's score reaches the
// threshold.
type GoalSeek struct {
	Goal             *template.Text
	Do               []*Step // the attempt: its claude or shell
	Validate         []*Step
	Threshold        float64
	MaxAttempts      int
	Timeout          Duration
	FailOnIncomplete bool
}

// Pipeline runs a pipeline file; its outputs are the step's capture.
type Pipeline struct {
	File *template.Text
	With []Arg
}

// Call runs an imported workflow.
type Call struct {
	Workflow string
	With     []Arg
	Target   *SubWorkflow // resolved by the loader
}

// Arg is a named argument. Its value's strings are *template.Text.
type Arg struct {
	Name  string
	Pos   diag.Pos
	Value any
}

// Analyze is accepted and does nothing; the loader warns about it.
type Analyze struct{}

func (*Shell) Kind() string     { return "shell" }
func (*Claude) Kind() string    { return "claude" }
func (*HTTP) Kind() string      { return "http" }
func (*WriteFile) Kind() string { return "write_file" }
func (*Foreach) Kind() string   { return "foreach" }
func (*Validate) Kind() string  { return "validate" }
func (*GoalSeek) Kind() string  { return "goal_seek" }
func (*Pipeline) Kind() string  { return "pipeline" }
func (*Call) Kind() string      { return "workflow" }
func (*Analyze) Kind() string   { return "analyze" }

// Handler is `on_failure:` in any of its forms.
type Handler struct {
	Pos   diag.Pos
	Steps []*Step
	// Ignore: `on_failure: true`; the failure is recorded and the next step runs.
	Ignore bool
	// MaxAttempts is how often the step runs in all, with the handler between
	// two runs. 1: the handler runs once and the step is not run again.
	MaxAttempts int
	// FailWorkflow: a step that failed to the end ends the workflow, even
	// where the handler ended well.
	FailWorkflow bool
	// Rerun: the handler is the step's repair, and only a run of the step
	// that ends well makes it succeed.
	Rerun    bool
	Strategy string // recovery, fallback, cleanup, custom
	// Fatal: a failing handler fails the step at once.
	Fatal          bool
	Timeout        Duration
	CommitRequired bool
	Captures       map[string]string
	// LetsPass: a step that this repair did not mend lets the next one run, and the
	// file does not say so: it is a default.
	LetsPass bool
}

// Capture says which variables a step sets from its output.
type Capture struct {
	Name    string         // "": none beside the usual (shell.output, last.output, …)
	Text    *template.Text // the name where the run makes it; Name is "" then
	Format  string         // string, text, json, lines, number, boolean
	Streams Streams
	Off     bool // capture_output: false
	Set     bool
}

// Streams are the parts of a result that a capture keeps. The variable is the
// standard output, or the standard error where only that is kept; Joined, the
// text "both", makes it one after the other.
type Streams struct{ Stdout, Stderr, ExitCode, Success, Duration, Joined bool }

// Output is one entry of `outputs:`: the files that a step made, by pattern,
// or a value taken out of its output.
type Output struct {
	Name        string
	Pos         diag.Pos
	FilePattern string
	JSONPath    string
	Value       *template.Text
}

// Commit is what a step's auto_commit does.
type Commit struct {
	Message *template.Text
	Pattern *regexp.Regexp // the message must match
	Sign    bool
	Author  string
	Include []string
	Exclude []string
	Squash  bool
}

// EnvVar is one variable of an env block. Exactly one of Text, Command and
// Condition is set.
type EnvVar struct {
	Name      string
	Pos       diag.Pos
	Text      *template.Text
	Command   *template.Text // its output is the value
	Cache     bool           // run once, not at each use
	Condition *expr.Expr
	WhenTrue  *template.Text
	WhenFalse *template.Text
}

// EnvFile is a file of NAME=value lines.
type EnvFile struct {
	Path     *template.Text // relative to the workflow file
	Required bool           // it is an error if it is missing; others are left out then
	Pos      diag.Pos
}

// Secret is one secret.
type Secret struct {
	Name     string
	Pos      diag.Pos
	Provider string // value, env, file, command
	Key      *template.Text
	InFile   bool // its value is written in the file
}

// Param is a declared parameter and, after Load, its value.
type Param struct {
	Name, Type, Description string
	Pos                     diag.Pos
	Required                bool
	Value                   any
	HasValue                bool
}

// Agent is a configured agent CLI.
type Agent struct {
	Name            string
	Pos             diag.Pos
	Command         []*template.Text // ${prompt} is the prompt; without it the prompt is the last argument
	Output          string           // text, stream-json
	Env             []EnvVar
	SkipPermissions bool
	Stdin           bool       // the prompt goes to stdin
	BuiltIn         bool       // its command is that of a program that bide knows
	FirstOf         []AgentRef // a chain: the first of these that may be asked is; it has no command
	Limits          []LimitRef // of the machine, that each question holds
}

// LimitRef is the name of a limit of the machine, where a file has it.
type LimitRef struct {
	Name string
	Pos  diag.Pos
}

// SubWorkflow is an entry of `workflows:` or an import.
type SubWorkflow struct {
	Name string
	// Run: an entry of `workflows:` that runs before the steps: one that no
	// `workflow:` step calls, or that another such entry depends on. An import
	// is only called by steps.
	Run             bool
	Pos             diag.Pos
	File            *File
	With            []Arg
	Inputs          map[string]string // parameter: variable of the caller
	Outputs         []string
	DependsOn       []string
	Parallel        bool
	ContinueOnError bool
	Timeout         Duration
	WorkingDir      *template.Text
}

// Map is the map phase.
type Map struct {
	Pos       diag.Pos
	Input     *template.Text // a file or a command, decided when it is read
	List      []any          // a list in place
	InputKind string         // "", file, command, json, jsonl, csv, lines: as written
	JSONPath  string
	Filter    *expr.Expr
	SortBy    *expr.Sort
	Distinct  *template.Text // a field path, as written

	FilterPos, SortPos, DistinctPos diag.Pos

	Offset     Int
	MaxItems   Int
	MinItems   Int              // fewer are an error
	Parallel   Int              // at most this many at once; default 10
	Adaptive   *policy.Adaptive // nil: as many as Parallel; else the map finds out how many, and begins with as many as there are processors where Min is 0
	Label      *template.Text
	Template   *Block
	Unchanged  *Unchanged     // nil: every item runs
	Canary     *policy.Canary // nil: all items may start at once
	Budget     *ItemBudget    // nil: an item may use anything
	Evidence   *Evidence      // nil: what an item did is merged unchecked
	ItemLimits []LimitRef     // of the machine, that each item holds

	AgentTimeout    Duration
	CommandTimeouts map[string]Duration
	TimeoutPolicy   string   // per_agent, per_command, hybrid
	TimeoutGrace    Duration // default 10 s
	// TimeoutAction is what becomes of an item whose agent took too long: dlq
	// (the default: no further attempt), retry, skip, fail, graceful_terminate.
	TimeoutAction string
}

// Unchanged is what counts for an item to be left out because an earlier run has
// ended it well and nothing has changed since, beside its data, the files that
// this names, and the steps.
type Unchanged struct {
	Pos   diag.Pos
	Files []*template.Text // patterns of files
}

// ItemBudget is what an item may use in all its attempts together; 0 of each: anything.
type ItemBudget struct {
	Pos    diag.Pos
	Cost   float64 // dollars
	Tokens int64
	Time   time.Duration // in which its attempts run
	// OnExceeded is what becomes of an item that has used more: dlq (no further attempt),
	// skip, or stop, which stops the map as well.
	OnExceeded string
}

// Evidence is what an item must show before its work is merged.
type Evidence struct {
	Pos    diag.Pos
	Checks []*Step // run on what the item has committed, in its worktree
	// Paths are patterns of all that an item may change, none: of anything. Protect are
	// those of what it must not, whatever Paths says.
	Paths, Protect []*template.Text
}

// MergeQueue says how the work of items is verified as it is merged.
type MergeQueue struct {
	Pos diag.Pos
	// Verify are the steps that a merge must pass; empty: the checks of the evidence.
	Verify []*Step
	Batch  int    // how many items are verified together at most; default 8
	Order  string // ended or index
	Flaky  int    // how often a verify that fails is run again before it is believed; default 1
	// Resolve are the steps that resolve a conflict; empty: as without a queue.
	Resolve []*Step
}

// ErrorPolicy says what becomes of failed items.
type ErrorPolicy struct {
	Pos               diag.Pos
	OnItemFailure     string // dlq, retry, skip, stop, custom
	Handler           string
	ContinueOnFailure bool
	MaxFailures       int     // 0: none
	FailureThreshold  float64 // negative: none
	Collection        string  // aggregate, immediate, batched
	BatchSize         int
	Breaker           *circuit.Config
	Retry             *Retry
	MaxRecoveries     int
	SameError         *policy.SameError // nil: the map is never held
	OnHold            []*Step           // run once when it is
}
