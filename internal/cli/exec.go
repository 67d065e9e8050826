package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
	"github.com/spf13/cobra"
)

// execCommand is one command under a retry policy, with nothing recorded.
type execCommand struct {
	*app
	pf       policyFlags
	retryOn  []string
	abortOn  []string
	timeout  string
	fallback string
	dir      string
	stdin    bool
	quiet    bool
	input    []byte
	world    *action.World
}

func (a *app) execCmd() *cobra.Command {
	x := &execCommand{app: a}
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARG...]",
		Short: "Run one command under a retry policy",
		Long: `Runs one command until it ends with status 0 or the retry policy is exhausted.
Its output is passed through as it comes, and its exit status is bide's. The
command is started directly; a single argument that begins with "shell:" is a
text for sh -c, one that begins with "claude:" a prompt for the agent CLI.

The command reads nothing on its standard input, unless --stdin says that bide
is to read all of its own first and give it to every attempt.

Exit status: that of the last attempt; 124 if it timed out, 127 if the command
was not found, 128+n if signal n ended it, 2 for a wrong use of bide.`,
		Example: `  bide exec --attempts 5 --retry-on network,timeout -- curl -fsS https://example.org
  bide exec --backoff fibonacci --jitter full --budget 2m -- make deploy
  bide exec --timeout 30s --fallback 'cat cached.json' "shell: fetch | jq ."`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return x.run(cmd.Context(), args) },
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	x.pf.register(fs, "backoff")
	fs.StringArrayVar(&x.retryOn, "retry-on", nil, "retry only these errors: "+strings.Join(retry.MatcherNames(), ", ")+", exit_code:N, pattern:RE (default: every error)")
	fs.StringArrayVar(&x.abortOn, "abort-on", nil, "never retry these errors; wins over --retry-on")
	fs.StringVar(&x.timeout, "timeout", "", "of each attempt; the whole process group is ended")
	fs.StringVar(&x.fallback, "fallback", "", "shell text that is run once when all attempts have failed")
	fs.StringVarP(&x.dir, "path", "p", "", "directory to run in")
	fs.BoolVar(&x.stdin, "stdin", false, "give all of standard input to every attempt")
	fs.BoolVarP(&x.quiet, "quiet", "q", false, "say nothing about failed attempts")
	fs.BoolVar(&a.json, "json", false, "tell attempts and waits as JSON lines on standard error")
	return cmd
}

// policy reads the flags.
func (x *execCommand) policy() (retry.Policy, error) {
	list, err := x.pf.policies()
	errs := []error{err}
	if len(list) > 1 {
		errs = append(errs, errors.New("--backoff: one command has one strategy"))
	}
	pol := list[0].policy
	if pol.RetryOn, err = parseMatchers("retry-on", x.retryOn); err != nil {
		errs = append(errs, err)
	}
	if pol.AbortOn, err = parseMatchers("abort-on", x.abortOn); err != nil {
		errs = append(errs, err)
	}
	if x.timeout != "" {
		d, err := duration.Parse(x.timeout)
		if err == nil && d == 0 {
			err = errors.New("it is 0; it must be more, or be left out")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--timeout: %w", err))
		}
		pol.Timeout = d
	}
	if err := errors.Join(errs...); err != nil {
		return pol, usageError{err}
	}
	return pol, nil
}

func (x *execCommand) run(ctx context.Context, args []string) (err error) {
	pol, err := x.policy()
	if err != nil {
		return err
	}
	do, err := x.action(args)
	if err != nil {
		return usageError{err}
	}
	if x.stdin {
		if x.input, err = io.ReadAll(x.in); err != nil {
			return fmt.Errorf("reading standard input: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", "bide-exec-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sup, err := proc.New(dir, proc.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sup.Close()) }()
	x.world = &action.World{Proc: sup}

	sig := watchSignals(ctx, func(os.Signal) {})
	defer sig.stop()
	timeout := pol.Timeout
	pol.Timeout = 0 // kept by the one who ends the process
	pol.Observer = x.observe
	// The first signal asks the command to end; a second kills it.
	_, err = retry.Do(sig.soft, pol, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, x.attempt(ctx, sig, do, timeout)
	})
	if err == nil {
		return nil
	}
	if sig.soft.Err() != nil {
		return exitError(sig.status())
	}
	if x.fallback != "" {
		return x.fallBack(sig, err)
	}
	return exitError(statusOf(err))
}

// action is what an attempt does.
func (x *execCommand) action(args []string) (func(context.Context, *action.Call) (action.Result, error), error) {
	if len(args) == 1 {
		if text, ok := strings.CutPrefix(args[0], "shell:"); ok {
			return x.leaf(strings.TrimSpace(text), func(t *template.Text) workflow.Action { return &workflow.Shell{Text: t} })
		}
		if text, ok := strings.CutPrefix(args[0], "claude:"); ok {
			return x.leaf(strings.TrimSpace(text), func(t *template.Text) workflow.Action { return &workflow.Claude{Text: t} })
		}
	}
	return func(ctx context.Context, c *action.Call) (action.Result, error) {
		return x.world.Command(ctx, c, args, x.input)
	}, nil
}

func (x *execCommand) leaf(text string, make func(*template.Text) workflow.Action) (func(context.Context, *action.Call) (action.Result, error), error) {
	t, err := template.Parse(text)
	if err != nil {
		return nil, err
	}
	act := make(t)
	return func(ctx context.Context, c *action.Call) (action.Result, error) {
		c.Input = x.input
		return x.world.Run(ctx, act, c)
	}, nil
}

func (x *execCommand) call(timeout time.Duration) *action.Call {
	return &action.Call{Scope: vars.New(nil), Dir: x.dir, Env: os.Environ(), Timeout: timeout, Stdout: x.out, Stderr: x.err}
}

func (x *execCommand) attempt(ctx context.Context, sig *interrupts, do func(context.Context, *action.Call) (action.Result, error), timeout time.Duration) error {
	stop := context.AfterFunc(sig.hard, func() { x.world.Proc.KillAll(killSignal) })
	defer stop()
	res, err := do(ctx, x.call(timeout))
	if res.Usage != nil {
		fmt.Fprintln(x.out, res.Output) // an agent's stream is not passed through, its answer is
	}
	return err
}

func (x *execCommand) fallBack(sig *interrupts, failed error) error {
	do, err := x.leaf(x.fallback, func(t *template.Text) workflow.Action { return &workflow.Shell{Text: t} })
	if err != nil {
		return usagef("--fallback: %w", err)
	}
	x.say("all attempts have failed; the fallback runs")
	if _, err := do(sig.soft, x.call(0)); err != nil {
		return exitError(statusOf(err))
	}
	return nil
}

// statusOf is the exit status for an error, in the convention of the shell.
func statusOf(err error) int {
	var code interface{ ExitCode() int }
	var timeout interface{ Timeout() bool }
	var e *retry.Error
	if errors.As(err, &e) && e.Last != nil {
		err = e.Last
	}
	switch {
	case errors.As(err, &code) && code.ExitCode() > 0:
		return code.ExitCode()
	case errors.As(err, &timeout) && timeout.Timeout():
		return 124
	}
	return 1
}

// observe tells what happens to the command.
func (x *execCommand) observe(e retry.Event) {
	if x.json {
		x.observeJSON(e)
		return
	}
	switch e.Type {
	case retry.AttemptFailed:
		x.say(fmt.Sprintf("attempt %d of %d failed after %s: %v", e.Attempt, x.pf.attempts, duration.Format(e.Duration.Round(time.Millisecond)), e.Err))
	case retry.WaitScheduled:
		x.say(fmt.Sprintf("attempt %d follows in %s", e.Attempt+1, duration.Format(e.Delay.Round(time.Millisecond))))
	case retry.Finished:
		if e.Reason != retry.ReasonNone && e.Reason != retry.ReasonCancelled {
			x.say(fmt.Sprintf("gave up after %d attempts (%s)", e.Attempt, e.Reason))
		}
	}
}

func (x *execCommand) say(msg string) {
	if !x.quiet && !x.json {
		fmt.Fprintf(x.err, "bide: %s\n", msg)
	}
}

func (x *execCommand) observeJSON(e retry.Event) {
	m := map[string]any{"time": time.Now().UTC().Format(time.RFC3339Nano), "attempt": e.Attempt}
	switch e.Type {
	case retry.AttemptStarted:
		m["event"] = "attempt_started"
	case retry.AttemptFailed:
		m["event"], m["class"], m["message"], m["duration_ms"] = "attempt_failed", retry.Class(e.Err), e.Err.Error(), e.Duration.Milliseconds()
	case retry.WaitScheduled:
		m["event"], m["delay_ms"] = "retry_scheduled", e.Delay.Milliseconds()
	case retry.Finished:
		m["event"], m["status"], m["attempts"] = "step_finished", "succeeded", e.Attempt
		if e.Reason != retry.ReasonNone {
			m["status"], m["reason"] = "failed", e.Reason.String()
		}
		delete(m, "attempt")
	default:
		return
	}
	b, err := json.Marshal(m)
	if err == nil {
		_, err = x.err.Write(append(b, '\n'))
	}
	if err != nil {
		x.json = false
	}
}
