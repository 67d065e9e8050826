package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
	"github.com/spf13/cobra"
)

// execOptions are the options of exec.
type execOptions struct {
	*app
	pf     policyFlags
	dir    string
	quiet  bool
	skip   bool // permissions of an agent
	stall  time.Duration
	limits []string // of the machine
	args   []string
}

// execCommand runs one command under a retry policy and records nothing.
type execCommand struct {
	*execOptions
	policy  *workflow.Retry
	delays  int          // how many --delays lists; 0: no list
	home    *limits.Home // nil if the command names no limits
	number  int          // of the attempt
	last    error        // of the previous attempt
	world   *action.World
	input   *replay  // nil if the command reads our own stream
	console *console // nil if there is no terminal
	started time.Time
	output  *outputs
}

func execCmd(a *app) *cobra.Command {
	o := &execOptions{app: a}
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARG...]",
		Short: "Run one command under a retry policy",
		Long: `Runs one command until it ends with status 0 or the retry policy is exhausted.
Its output is passed through as it comes, and its exit status is bide's. The command
is started directly. A single argument that begins with "shell:" is a text for sh
-c; one that begins with "claude:", "codex:" or "gemini:" is a prompt for the CLI of
that agent. Flags may follow such an argument.

Nothing is recorded: "bide runs" does not list it, and it cannot be resumed. "bide
run" and "bide batch" record what they do.

Each attempt finds its number and how the previous attempt failed in BIDE_ATTEMPT,
BIDE_LAST_EXIT and BIDE_LAST_ERROR.

On a terminal, colours, questions, Ctrl-C and Ctrl-Z work as without bide. If a pipe
leads to standard input, every attempt gets all of it. A command that cannot be run (exit status 126) or is not found (127) is
not tried again.

Exit status: that of the last attempt; 124 if it timed out, 127 if the command
was not found, 128+n if signal n ended it, 2 if bide was used wrongly.`,
		Example: `  bide exec --attempts 5 --retry-on network,timeout -- curl -fsS https://example.org
  bide exec --backoff fibonacci --jitter full --budget 2m -- make deploy
  bide exec "claude: /refactor main.rs" --retry 3
  bide exec --timeout 30s --fallback 'cat cached.json' "shell: fetch | jq ."`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.args, err = trailing(cmd, args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	o.pf.register(&o.streams, fs, option.Exec)
	alsoNamed(fs, retryNames)
	o.pf.registerRetry(fs)
	fs.BoolVar(&o.skip, "skip-permissions", false, skipUsage)
	fs.Var(&spanFlag{&o.stall}, "stall-timeout", "how long an attempt may print nothing; one that is silent longer is stopped and has failed")
	fs.Var(&limitsFlag{&o.limits}, "limit", "limits of this machine; each attempt holds a slot of each; bide limits shows them")
	fs.StringVarP(&o.dir, "path", "p", "", "directory to run in")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "say nothing about failed attempts")
	fs.BoolVar(&o.json, "json", false, "report attempts and waits as JSON lines on standard error")
	return cmd
}

// skipUsage is the help of --skip-permissions, for commands that run agents.
const skipUsage = "agents run without asking for permissions; only the claude program can"

// trailing reads the flags after a command that is one text. No word there can belong to the
// command itself.
func trailing(cmd *cobra.Command, args []string) ([]string, error) {
	if !isText(args[0]) || len(args) == 1 || cmd.ArgsLenAtDash() >= 0 {
		return args, nil
	}
	fs := cmd.Flags()
	fs.SetInterspersed(true)
	if err := fs.Parse(args[1:]); err != nil {
		return nil, wrongFlag(cmd, err)
	}
	if rest := fs.Args(); len(rest) > 0 {
		return nil, usagef("%q is one argument too many: a command that begins with shell: or the name of an agent is one text, in quotes", rest[0])
	}
	return args[:1], nil
}

// spanFlag is a flag for a positive span of time.
type spanFlag struct{ d *time.Duration }

func (f *spanFlag) String() string { return "" }
func (f *spanFlag) Type() string   { return "duration" }

// Set reads a span of time in the format of workflow files.
func (f *spanFlag) Set(text string) error {
	d, err := duration.Parse(text)
	if err == nil && d <= 0 {
		err = errors.New("it must be more than 0")
	}
	*f.d = d
	return err
}

func (o *execOptions) run(ctx context.Context) error {
	return (&execCommand{execOptions: o}).run(ctx)
}

func (x *execCommand) run(ctx context.Context) (err error) {
	n, err := x.pf.one()
	if err != nil {
		return usageError{err}
	}
	pol := n.policy
	x.policy = n.retry
	do, err := x.action(x.args)
	if err != nil {
		return usageError{err}
	}
	if agent, _ := forAgent(x.args[0]); agent != "" && len(x.args) == 1 && x.policy.FallbackAction() == nil {
		if err := lacksAgent(agent); err != nil {
			x.tell("%v", err)
			return exitError(127)
		}
	}
	if c := x.policy.Breaker; c != nil {
		if pol.Breaker, err = circuit.New(*c); err != nil {
			return usageError{err}
		}
	}
	if list, ok := pol.Backoff.Strategy.(backoff.Custom); ok {
		x.delays = len(list.Delays)
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
	x.world = &action.World{Proc: sup, SkipPermissions: x.skip}
	if len(x.limits) > 0 {
		if err := x.openLimits(sup); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, x.home.Close()) }()
	}

	sig := watchSignals(ctx, func(os.Signal) {})
	sig.ready()
	defer sig.stop()
	sig.stops.begin(sup.Suspend, nil)
	soft, stop := context.WithCancelCause(sig.soft)
	defer stop(nil)
	x.output = newOutputs(x.out, x.err, sig, stop)
	if x.console = x.openConsole(); x.console != nil {
		defer x.console.close()
		x.console.press, x.console.stops = func(n int32) { x.pressed(n, sig) }, &sig.stops
	}
	if !isTerminal(x.in) {
		x.input = newReplay(x.in, dir)
		defer func() { err = errors.Join(err, x.input.close()) }()
	}
	x.started = time.Now()
	pol.Observer = x.observe
	retrier, err := retry.New(pol)
	if err != nil {
		return err
	}
	// The first signal asks the command to end; a second kills it.
	err = retry.Do(soft, retrier, func(ctx context.Context) error {
		return failure.Under(&pol, x.attempt(ctx, sig, do))
	})
	if werr := x.output.failed.Load(); werr != nil {
		return unwritten(*werr)
	}
	if x.input != nil {
		if rerr := x.input.failed(); rerr != nil {
			return fmt.Errorf("reading standard input: %w", rerr)
		}
	}
	if err == nil {
		return nil
	}
	if sig.soft.Err() != nil {
		return exitError(sig.status())
	}
	if fallback := x.policy.FallbackAction(); fallback != nil && !x.interrupted() {
		return x.fallBack(sig, fallback)
	}
	status := statusOf(err)
	if status == 127 && len(x.args) == 1 && strings.ContainsAny(x.args[0], " \t\n") && !isText(x.args[0]) {
		x.say("no program has this whole text as its name; for a text that a shell reads, put \"shell: \" before it: " + diag.ShellWord(diag.Clip("shell: "+x.args[0], shownName)))
	}
	if status == 127 && len(x.args) == 1 && (strings.HasPrefix(x.args[0], "http://") || strings.HasPrefix(x.args[0], "https://")) {
		x.say("this is an address, and no command; write: bide exec -- curl -fsS " + diag.ShellWord(x.args[0]))
	}
	return exitError(status)
}

// isText reports whether a command is a text for a shell or an agent.
func isText(arg string) bool {
	agent, _ := forAgent(arg)
	return agent != "" || strings.HasPrefix(arg, "shell:")
}

// forAgent takes a prompt for an agent that is built in apart, as in "codex: fix it"; agent is
// "" for another text.
func forAgent(arg string) (agent, prompt string) {
	name, prompt, ok := strings.Cut(arg, ":")
	if !ok || workflow.BuiltIn(name) == nil {
		return "", ""
	}
	return name, strings.TrimSpace(prompt)
}

// lacksAgent says that the program of an agent that is built in is not there; nil if it is.
func lacksAgent(agent string) error {
	program := workflow.BuiltIn(agent).Command[0].String()
	if _, err := proc.LookPath(program, os.Environ()); err != nil {
		return fmt.Errorf("the agent %s needs the program %s, which is not in PATH: install it; nothing was run", agent, program)
	}
	return nil
}

// interrupted reports whether the user pressed the interrupt key.
func (x *execCommand) interrupted() bool { return x.console != nil && x.console.presses.Load() > 0 }

// pressed is called for each interrupt from the keyboard, after the terminal has sent it to
// the command. If the command does not end, pressed asks it again after a while, and kills it
// when the user presses the key again.
func (x *execCommand) pressed(n int32, sig *interrupts) {
	if n == 1 {
		time.AfterFunc(interruptGrace, func() { sig.raise(syscall.SIGINT) })
		return
	}
	sig.raise(syscall.SIGINT)
	sig.raise(syscall.SIGINT)
}

// attempt is the action of one attempt.
type attempt = func(context.Context, *action.Call) (action.Result, error)

// action returns what an attempt does.
func (x *execCommand) action(args []string) (attempt, error) {
	if len(args) == 1 {
		if text, ok := strings.CutPrefix(args[0], "shell:"); ok {
			t, err := template.Parse(strings.TrimSpace(text))
			return x.do(&workflow.Shell{Text: t}), err
		}
		if agent, prompt := forAgent(args[0]); agent != "" {
			t, err := template.Parse(prompt)
			return x.do(&workflow.Claude{Text: t, Provider: agent}), err
		}
	}
	return func(ctx context.Context, c *action.Call) (action.Result, error) {
		return x.world.Command(ctx, c, args, nil)
	}, nil
}

func (x *execCommand) do(act workflow.Action) attempt {
	return func(ctx context.Context, c *action.Call) (action.Result, error) {
		return x.world.Run(ctx, act, c)
	}
}

func (x *execCommand) call(timeout time.Duration) *action.Call {
	return &action.Call{Scope: vars.New(nil), Dir: x.dir, Env: x.environ(), Timeout: timeout, Stall: x.stall, Stdout: x.output.out, Stderr: x.output.err}
}

// environ is the environment that tells an attempt its number, and how the previous one
// failed.
func (x *execCommand) environ() []string {
	env := append(os.Environ(), "BIDE_ATTEMPT="+strconv.Itoa(x.number))
	if len(x.limits) > 0 {
		env = append(env, limits.AroundEnv+"="+limits.Around(os.Getenv(limits.AroundEnv), x.limits))
	}
	if x.last == nil {
		return env
	}
	tried := step.TriedEnv(nil, x.number, failure.From(x.last))
	for i := 0; i < len(tried); i += 2 {
		env = append(env, tried[i]+"="+tried[i+1])
	}
	return env
}

func (x *execCommand) attempt(ctx context.Context, sig *interrupts, do attempt) error {
	release, err := x.hold(ctx)
	if err != nil {
		return retry.Permanent(err)
	}
	defer func() { release(x.last) }()
	x.number++
	res, err := x.once(ctx, sig, do, x.policy.Timeout) // whoever ends the process keeps the timeout, too
	if err == nil {
		err = x.policy.Unmet(template.Resolver(vars.New(nil)), res.Values())
	}
	x.last = err
	if err != nil && x.interrupted() {
		return retry.Permanent(err) // the user has interrupted it
	}
	return err
}

// openLimits opens the limits of the machine, and checks that it has those that are named.
func (x *execCommand) openLimits(sup *proc.Supervisor) error {
	home, err := journal.Home()
	if err != nil {
		return err
	}
	c, err := limits.Read(home)
	if err != nil {
		return err
	}
	for _, name := range x.limits {
		if err := knownLimit(c, name); err != nil {
			return usagef("--limit: %w", err)
		}
	}
	if err := limits.HeldAround(home, os.Getenv(limits.AroundEnv), x.limits); err != nil {
		return usagef("--limit: %w", err)
	}
	x.home = limits.Open(home, sup.Keep)
	return nil
}

// hold waits for the limits of the machine. release gives them back after an attempt. If the
// attempt learned when to come back, release makes all users of the limits wait until then.
func (x *execCommand) hold(ctx context.Context) (release func(error), err error) {
	if x.home == nil {
		return func(error) {}, nil
	}
	who := limits.Who{Name: "bide exec"}
	held, err := x.home.Take(ctx, limits.Request{Names: x.limits, Clock: clock.Machine{}, Who: who, Waits: func(b *limits.Block) { x.say("waits for " + b.String()) }})
	if err != nil {
		return nil, err
	}
	return func(err error) {
		if f := failure.From(err); f != nil && f.RateLimited && f.RetryAfter > 0 {
			if perr := x.home.Pause(x.limits, time.Now().Add(f.RetryAfter), "", f.Message); perr != nil {
				x.say(perr.Error())
			}
		}
		held.Release()
	}, nil
}

// once runs the command with our terminal, input and outputs.
func (x *execCommand) once(ctx context.Context, sig *interrupts, do attempt, timeout time.Duration) (action.Result, error) {
	stop := context.AfterFunc(sig.hard, func() { x.world.Proc.KillAll(killSignal) })
	defer stop()
	c := x.call(timeout)
	detach, err := x.connect(c)
	if err != nil {
		return action.Result{}, retry.Permanent(err)
	}
	res, err := do(ctx, c)
	derr := detach()
	if res.Usage != nil {
		fmt.Fprintln(x.output.out, res.Output) // an agent's stream is not passed through, only its answer
	}
	if err == nil {
		err = derr
	}
	return res, err
}

// connect gives a command our terminal and our standard input.
func (x *execCommand) connect(c *action.Call) (detach func() error, err error) {
	detach = func() error { return nil }
	if x.input != nil {
		if c.Stdin, detach, err = x.input.attempt(); err != nil {
			return nil, err
		}
	}
	if x.console == nil {
		return detach, nil
	}
	t, release, err := x.console.attach()
	if err != nil {
		return nil, errors.Join(err, detach())
	}
	c.Terminal = t
	feed := detach
	return func() error { release(); return feed() }, nil
}

// unwritten is the error for a command whose output could not be written.
func unwritten(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return exitError(128 + int(syscall.SIGPIPE))
	}
	return fmt.Errorf("the command's output could not be written: %w", err)
}

func (x *execCommand) fallBack(sig *interrupts, fallback workflow.Action) error {
	x.say("all attempts have failed; the fallback runs")
	_, err := x.once(sig.soft, sig, x.do(fallback), 0)
	if werr := x.output.failed.Load(); werr != nil {
		return unwritten(*werr)
	}
	if err != nil {
		return exitError(statusOf(err))
	}
	return nil
}

// shownName is how many characters of an invalid name a message shows.
const shownName = 60

// statusOf is the exit status for an error, in the convention of the shell.
func statusOf(err error) int {
	var code interface{ ExitCode() int }
	var timeout interface{ Timeout() bool }
	if e, ok := errors.AsType[*retry.Error](err); ok && e.Last != nil {
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

// observe reports what happens to the command.
func (x *execCommand) observe(e retry.Event) {
	if x.json {
		x.observeJSON(e)
		return
	}
	switch e.Type {
	case retry.AttemptFailed:
		if x.output.failed.Load() != nil {
			return // its output could not be written, which is reported at the end
		}
		x.say(fmt.Sprintf("attempt %s failed after %s: %v", x.attemptOf(e.Attempt), duration.Format(e.Duration.Round(time.Millisecond)), unprinted(e.Err)))
	case retry.Refused:
		x.say(fmt.Sprintf("attempt %s is not made: %v", x.attemptOf(e.Attempt), e.Err))
	case retry.WaitScheduled:
		x.say(fmt.Sprintf("attempt %d follows in %s", e.Attempt+1, duration.Format(e.Delay.Round(time.Millisecond))) + x.pastDelays(e.Attempt))
	case retry.Finished:
		if e.Reason == driver.ReasonNone && e.Attempt > 1 {
			x.say(fmt.Sprintf("succeeded at attempt %s, after %s", x.attemptOf(e.Attempt), duration.Format(time.Since(x.started).Round(time.Millisecond))))
		}
		if e.Reason != driver.ReasonNone && e.Reason != driver.ReasonCancelled && !x.interrupted() {
			x.say("gave up after " + diag.Count(e.Attempt, "attempt") + gaveUp(e.Reason))
		}
	}
}

// attemptOf is the number of an attempt, with the maximum if there is one.
func (x *execCommand) attemptOf(n int) string {
	if x.policy.Attempts == retry.Unlimited {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d of %d", n, x.policy.Attempts)
}

// pastDelays explains the first delay that is not from the list.
func (x *execCommand) pastDelays(attempt int) string {
	if x.delays == 0 || attempt != x.delays+1 {
		return ""
	}
	return fmt.Sprintf(": the %d delays of --delays are used up, and what follows waits for --max-delay", x.delays)
}

func (x *execCommand) say(msg string) {
	if !x.quiet && !x.json {
		fmt.Fprintln(x.output.err, message("bide: "+msg, x.columns(x.err)))
	}
}

func (x *execCommand) observeJSON(e retry.Event) {
	m := map[string]any{"time": time.Now().UTC().Format(time.RFC3339Nano), "attempt": e.Attempt}
	switch e.Type {
	case retry.AttemptStarted:
		m["event"] = "attempt_started"
	case retry.AttemptFailed:
		m["event"], m["class"], m["message"], m["duration_ms"] = "attempt_failed", driver.Class(e.Err), e.Err.Error(), e.Duration.Milliseconds()
	case retry.Refused:
		m["event"], m["class"], m["message"] = "attempt_refused", driver.Class(e.Err), e.Err.Error()
	case retry.WaitScheduled:
		m["event"], m["delay_ms"] = "retry_scheduled", e.Delay.Milliseconds()
	case retry.Finished:
		m["event"], m["status"], m["attempts"] = "step_finished", "succeeded", e.Attempt
		if e.Reason != driver.ReasonNone {
			m["status"], m["reason"] = "failed", e.Reason.String()
		}
		delete(m, "attempt")
	default:
		return
	}
	b, err := json.Marshal(m)
	if err == nil {
		_, err = x.output.err.Write(append(b, '\n'))
	}
	if err != nil {
		x.json = false
	}
}

// unprinted is the text of an error without the line that the command itself has printed: it
// is already on the screen.
func unprinted(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*action.ExitError](err); ok && !e.NotStarted {
		return strings.Replace(text, e.Error(), e.Ending(), 1)
	}
	return text
}

// gaveUp says why no further attempt follows; "" if the number of attempts says it.
func gaveUp(r driver.Reason) string {
	why := event.GaveUp(r, func(name string) string { return "--" + strings.ReplaceAll(name, "_", "-") })
	if why == "" {
		return ""
	}
	return ": " + why
}
