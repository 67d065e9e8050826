package action

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

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
	// Grace is the time between asking a process to end and killing it.
	Grace time.Duration
}

// Call is one attempt of one step: what it may read and where it runs.
type Call struct {
	Scope   template.Scope
	Dir     string
	Env     []string      // the complete environment
	Timeout time.Duration // of this attempt; 0: none
	Input   []byte        // standard input; nil: nothing

	// Stdout and Stderr get output as it comes; nil: nowhere.
	Stdout, Stderr io.Writer
	// Spill opens the file for an output that is too large to keep; nil: none.
	Spill func(stream string) (*os.File, error)
	// Log gets the raw stream of an agent; nil: nowhere.
	Log io.Writer
	// OnMessage gets what an agent says and does; nil: nobody.
	OnMessage func(Message)
}

// Result is what an attempt did.
type Result struct {
	// Output is what later steps read: standard output without its last line
	// end, an agent's answer, a response body, a written path.
	Output   string
	Stderr   string
	ExitCode int
	Duration time.Duration
	Start    time.Time
	// Status and Header are an HTTP answer's.
	Status int
	Header map[string]string
	// Usage is an agent's; nil for other actions.
	Usage   *Usage
	Session string
	// StdoutFile and StderrFile are where large outputs are kept whole.
	StdoutFile, StderrFile string
	StdoutSize             int64
	Digest                 string
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
