package action

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

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
	return w.command(ctx, c, "sh", []string{"sh", "-c", cmd.Line()}, env, c.Input, cmd.Line())
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
		Path: path, Argv: argv, Dir: c.Dir, Env: env, Input: input,
		Stdout: c.Stdout, Stderr: c.Stderr, Spill: c.Spill,
		Timeout: c.Timeout, Grace: w.Grace,
	}
	r, err := w.Proc.Run(ctx, &p)
	if err != nil {
		return Result{Start: time.Now(), ExitCode: 126}, startFailed(text, err)
	}
	res := fromProc(r)
	return res, ending(ctx, r, text, c.Timeout)
}

// notFound is what a shell answers for a command that does not exist.
func notFound(name string, err error) error {
	code := 127
	if errors.Is(err, fs.ErrPermission) {
		code = 126
	}
	return &ExitError{Command: short(name), Code: code, Stderr: err.Error()}
}

func startFailed(text string, err error) error {
	return &ExitError{Command: short(text), Code: 126, Stderr: err.Error()}
}

func fromProc(r proc.Result) Result {
	return Result{
		Output:     strings.TrimRight(r.Stdout.String(), "\n"),
		Stderr:     strings.TrimRight(r.Stderr.String(), "\n"),
		ExitCode:   r.ShellStatus(),
		Duration:   r.Duration,
		Start:      r.Start,
		StdoutFile: r.Stdout.File,
		StderrFile: r.Stderr.File,
		StdoutSize: r.Stdout.Size,
		Digest:     r.Stdout.SHA256,
	}
}

// ending turns the way a process ended into an error; nil for exit status 0.
func ending(ctx context.Context, r proc.Result, text string, timeout time.Duration) error {
	if r.Success() {
		return nil
	}
	stderr, stdout := r.Stderr.TailString(matched), r.Stdout.TailString(matched)
	switch {
	case r.TimedOut && ctx.Err() == nil:
		return &TimeoutError{Command: short(text), After: timeout, Stderr: stderr, Stdout: stdout}
	case r.Cancelled || ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &ExitError{Command: short(text), Code: r.ShellStatus(), Signal: r.Signal, Stderr: stderr, Stdout: stdout}
}
