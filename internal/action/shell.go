package action

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/classify"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/workflow"
)

// matched is how much of each stream's end the matchers of a retry policy see.
const matched = 64 << 10

func (w *World) shell(ctx context.Context, a *workflow.Shell, c *Call) (Result, error) {
	cmd, err := a.Text.Shell(c.Scope)
	if err != nil {
		return Result{Start: time.Now()}, &InputError{Err: err}
	}
	env := c.Env
	if len(cmd.Env) > 0 {
		env = slices.Concat(env, cmd.Env)
	}
	if argv := cmd.Argv; argv != nil {
		// What is not found is left to the shell, which may know it as a builtin
		// and has its own words for what it does not know.
		if _, err := proc.LookPath(argv[0], env); err == nil {
			return w.command(ctx, c, argv[0], argv, env, c.Input, strings.Join(argv, " "))
		}
	}
	res, err := w.command(ctx, c, "sh", []string{"sh", "-c", tellingPipe(c.Pipe) + cmd.Line()}, env, c.Input, cmd.Line())
	if c.Pipe != "" {
		unsure, failed := failedInPipe(c.Pipe, cmd.Line(), res.Stderr)
		if err == nil {
			res.Unsure, err = unsure, failed
		}
	}
	return res, err
}

// Command runs an argument vector as a step would, with input on its standard
// input where that is not nil.
func (w *World) Command(ctx context.Context, c *Call, argv []string, input []byte) (Result, error) {
	return w.command(ctx, c, argv[0], argv, c.Env, input, strings.Join(argv, " "))
}

func (w *World) command(ctx context.Context, c *Call, name string, argv, env []string, input []byte, text string) (Result, error) {
	path, err := proc.LookPath(name, env)
	if err != nil {
		return Result{Start: time.Now(), ExitCode: 127}, notFound(name, err)
	}
	p := proc.Cmd{
		Path: path, Argv: argv, Dir: c.Dir, Env: env, Input: input, Stdin: c.Stdin, Terminal: c.Terminal,
		Stdout: c.Stdout, Stderr: c.Stderr, Spill: c.Spill,
		Timeout: c.Timeout, Grace: w.Grace,
	}
	r, ctx, err := w.run(ctx, c, &p)
	if start := new(proc.StartError); errors.As(err, &start) && start.Kind == proc.StartCancelled && ctx.Err() != nil {
		return Result{Start: time.Now(), ExitCode: 126}, context.Cause(ctx) // that it did not begin is nobody's fault
	}
	if errors.Is(err, fs.ErrNotExist) && missing(c.Dir, path) {
		return Result{Start: time.Now(), ExitCode: 127}, notFound(name, err)
	}
	if err != nil {
		return Result{Start: time.Now(), ExitCode: 126}, startFailed(c.Mask.String(text), err)
	}
	res := fromProc(r)
	if name != "sh" {
		res.Program = name
	}
	return res, ending(ctx, r, text, c)
}

// missing reports whether a program is not there, as against what it needs to run.
func missing(dir, path string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// notFound is what a shell answers for a command that does not exist.
func notFound(name string, err error) error {
	code := 127
	if errors.Is(err, fs.ErrPermission) {
		code = 126
	}
	return &ExitError{Code: code, Stderr: err.Error(), NotStarted: true}
}

func startFailed(text string, err error) error {
	var start *proc.StartError
	return &ExitError{Code: 126, Stderr: err.Error(), NotStarted: true, NoRoom: errors.As(err, &start) && start.Kind == proc.StartResources}
}

func fromProc(r proc.Result) Result {
	output, ending := cutEnding(r.Stdout.String())
	return Result{
		Output:     output,
		Ending:     ending,
		Stderr:     strings.TrimRight(r.Stderr.String(), "\n"),
		ExitCode:   r.ShellStatus(),
		Duration:   r.Duration,
		Start:      r.Start,
		StdoutFile: r.Stdout.File,
		StderrFile: r.Stderr.File,
		StdoutSize: r.Stdout.Size,
		Digest:     r.Stdout.SHA256,
		StderrSize: r.Stderr.Size, StderrDigest: r.Stderr.SHA256,
		OutputErr: errors.Join(r.Stdout.Err, r.Stderr.Err),
		FileErr:   errors.Join(r.Stdout.FileErr, r.Stderr.FileErr),
	}
}

// cutEnding parts the line ends at the end of a text from it.
func cutEnding(text string) (rest, ending string) {
	rest = strings.TrimRight(text, "\n")
	return rest, text[len(rest):]
}

// tailOf is the end of an output, masked before it is cut.
func tailOf(o proc.Output, m *mask.Masker) string {
	if !m.Active() {
		return o.TailString(matched)
	}
	return m.Last(o.TailString(math.MaxInt), matched, o.Truncated)
}

// ending turns the way a process ended into an error; nil for exit status 0.
func ending(ctx context.Context, r proc.Result, text string, c *Call) error {
	if r.Success() {
		return nil
	}
	stderr, stdout := tailOf(r.Stderr, c.Mask), tailOf(r.Stdout, c.Mask)
	switch {
	case r.Cancelled && context.Cause(ctx) == error(errStalled):
		return &TimeoutError{After: c.Stall, Stderr: stderr, Stdout: stdout, Silent: true}
	case r.TimedOut && ctx.Err() == nil:
		return &TimeoutError{After: c.Timeout, Stderr: stderr, Stdout: stdout}
	case r.Cancelled || ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &ExitError{Code: r.ShellStatus(), Signal: r.Signal, Stderr: stderr, Stdout: stdout,
		Kind: classify.Command(text, r.ShellStatus(), stdout, stderr)}
}
