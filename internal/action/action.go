package action

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
)

// World is what all actions of a run share. It is safe for concurrent use.
type World struct {
	Proc   *proc.Supervisor
	HTTP   *http.Client
	Agents map[string]*workflow.Agent
	// SkipPermissions starts agents without asking for permissions.
	SkipPermissions bool
	// Grace is the time between asking a process to end and killing it; 0: 10 s, less: none.
	Grace time.Duration
}

// Call is one attempt of one step: what it may read and where it runs.
type Call struct {
	Scope   template.Scope
	Dir     string
	Env     []string      // the complete environment
	Timeout time.Duration // of this attempt; 0: none
	// Stall ends a command or an agent that prints nothing for so long; 0: never.
	Stall time.Duration
	// MaxCost is what an agent may cost, in dollars; 0: anything. An agent that can be told
	// so is.
	MaxCost float64
	// Session is that of an agent to continue with; "": a new one.
	Session string
	// Summary is what an earlier attempt of an agent said last, for one that begins again; "":
	// nothing.
	Summary string
	Input   []byte // standard input; nil: nothing
	// Pipe is a file to which a shell that knows it (bash) writes how each command of the
	// last pipe of a shell text ended, which fails if one of them did; "": nobody asks.
	Pipe string
	// Stdin is the standard input of a command in place of Input, Terminal its
	// terminal; nil: none.
	Stdin    *os.File
	Terminal *proc.Terminal

	// Stdout and Stderr get output as it comes; nil: nowhere.
	Stdout, Stderr io.Writer
	// Spill opens the file for an output that is too large to keep, and for the
	// prompt of an agent; nil: none.
	Spill func(stream string) (proc.File, error)
	// Mask hides secrets in what of an output is cut; nil: there are none.
	Mask *mask.Masker
	// Whole has an answer of a server whose file sets no max_body kept whole, whatever its
	// size, as Spill has it; Unread has one that is too long cut, as nothing reads it.
	Whole, Unread bool
	// Log gets the raw stream of an agent; nil: nowhere.
	Log io.Writer
	// OnMessage gets what an agent says and does; nil: nobody.
	OnMessage func(Message)
	// OnUsage is told what an agent has used, each time that it tells more; nil: nobody asks.
	OnUsage func(Usage)
}

// Result is what an attempt did.
type Result struct {
	// Output is what later steps read: standard output without its last line
	// end, an agent's answer, a response body, a written path.
	Output string
	// Ending are the line ends at the end of what was printed, which Output does not have.
	Ending   string
	Stderr   string
	ExitCode int
	Duration time.Duration
	Start    time.Time
	// Program is what a command ran, where that is not sh.
	Program string
	// Status and Header are an HTTP answer's.
	Status int
	Header map[string]string
	// Usage is that of an agent with a stream; nil for other actions.
	Usage *Usage
	// Tokens is what an agent with a text said at its end to have used; 0: nothing.
	Tokens  int64
	Session string
	// Summary is what an agent with a stream said last, apart from why it failed, and Full
	// says that its session cannot be continued, as it is too long.
	Summary string
	Full    bool
	// Instead says which agent of a chain answered in place of which, where it was not the
	// first; "" where it was.
	Instead string
	// StdoutFile and StderrFile are where large outputs are kept whole.
	StdoutFile, StderrFile string
	StdoutSize             int64
	Digest                 string
	// StderrSize and StderrDigest are those of what was written to StderrFile, before it
	// was masked.
	StderrSize   int64
	StderrDigest string
	// OutputLog and StderrLog are where Output and Stderr stand word for word, for every
	// life of the run; nil where they do not.
	OutputLog, StderrLog *Log
	// StoredSize and StoredDigest are those of StdoutFile where that has not the
	// StdoutSize bytes of Digest: a masked output, the stream of an agent.
	StoredSize   int64
	StoredDigest string
	// FileErr says why StdoutFile or StderrFile has not all of an output.
	FileErr error
	// OutputErr says why output did not get to Stdout or Stderr, or to its file.
	OutputErr error
	// Open reads the output of a command as it was where StdoutFile has it
	// masked; nil: StdoutFile has it as it was.
	Open func() (io.ReadCloser, error)
	// Cut says that Output is the beginning of an answer that was too long, and that nothing
	// reads.
	Cut bool
	// Unsure says that a command in a pipe may have failed, as the shell does not say how
	// each of them ended (see Call.Pipe).
	Unsure bool
	// Incomplete says that a score was missed, or that rounds of a foreach failed, and that the
	// file lets that pass.
	Incomplete bool
	// Set are the variables that the command set, names and values.
	Set [][2]string
}

// OpenOutput reads the whole output, whatever its size, byte for byte as it came.
func (r *Result) OpenOutput() (io.ReadCloser, error) {
	switch {
	case r.Open != nil:
		return r.Open()
	case r.StdoutFile != "" && r.Usage == nil:
		return os.Open(r.StdoutFile)
	}
	return io.NopCloser(strings.NewReader(r.Output + r.Ending)), nil
}

// Run carries out one attempt of a leaf action. Where err is not nil, the
// result still says as much as is known.
func (w *World) Run(ctx context.Context, a workflow.Action, c *Call) (Result, error) {
	switch a := a.(type) {
	case *workflow.Shell:
		return w.shell(ctx, a, c)
	case *workflow.Claude:
		return w.agent(ctx, a, c)
	case *workflow.HTTP:
		return w.http(ctx, a, c)
	case *workflow.WriteFile:
		return writeFile(a, c)
	case *workflow.Analyze:
		return Result{Start: time.Now()}, nil
	}
	return Result{}, fmt.Errorf("a step of kind %T is no leaf action", a)
}
