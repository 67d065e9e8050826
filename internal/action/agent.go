package action

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/classify"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
)

// DefaultAgent is the agent CLI of `claude:` steps for which the file
// configures no other.
const DefaultAgent = "claude"

// AgentName is the agent that a step asks.
func AgentName(a *workflow.Claude) string {
	if a.Provider == "" {
		return DefaultAgent
	}
	return a.Provider
}

// agent asks an agent CLI. Its answer is the result's Output.
func (w *World) agent(ctx context.Context, a *workflow.Claude, c *Call) (Result, error) {
	prompt, err := a.Text.Expand(c.Scope)
	if err != nil {
		return Result{Start: time.Now()}, &InputError{Err: err}
	}
	prompt = failure.Plain(handedOver(prompt, c.Summary)) // as an argument it cannot have a NUL byte
	name, argv, input, streams, err := w.agentCommand(a, c, prompt)
	if err != nil {
		return Result{Start: time.Now()}, &InputError{Err: err}
	}
	path, err := proc.LookPath(argv[0], c.Env)
	if err != nil {
		return Result{Start: time.Now(), ExitCode: 127}, &InputError{Kind: "not_found",
			Err: fmt.Errorf("the agent %s: %w; install it, or configure another under `agents:`", name, err)}
	}
	if err := keepPrompt(c, prompt); err != nil {
		return Result{Start: time.Now()}, fmt.Errorf("the prompt cannot be kept: %w", err)
	}
	st := &stream{on: c.OnMessage, onUsage: c.OnUsage}
	p := proc.Cmd{
		Path: path, Argv: argv, Dir: c.Dir, Env: c.Env, Input: input,
		Stderr: c.Stderr, Spill: c.Spill, Timeout: c.Timeout, Grace: w.Grace,
	}
	switch {
	case streams && c.Log != nil:
		p.Stdout = io.MultiWriter(st, c.Log)
		p.Spill = nil
	case streams:
		p.Stdout = st
	default:
		p.Stdout = c.Stdout
	}
	r, ctx, err := w.run(ctx, c, &p)
	if err != nil {
		return Result{Start: time.Now(), ExitCode: 126}, startFailed(name, err)
	}
	st.Close(r.Stdout.Err)
	res := fromProc(r)
	if streams {
		res.Output, res.Ending = st.answer(), ""
		res.Usage, res.Session = &st.usage, st.session
		res.Summary, res.Full = st.summary(), st.full()
	} else {
		res.Tokens = classify.Tokens(r.Stderr.TailString(matched), r.Stdout.TailString(matched))
	}
	if err := ending(ctx, r, name, c); err != nil {
		if _, exited := err.(*ExitError); !exited {
			return res, err
		}
		return res, agentFailure(name, st, r, streams, c)
	}
	if streams && st.failure() != "" {
		return res, agentFailure(name, st, r, streams, c)
	}
	return res, nil
}

// skipFlag is the claude program's word for skip_permissions.
const skipFlag = "--dangerously-skip-permissions"

// skipFlags are the words for it of the other agents that are built in, and behind which
// word of their command they stand.
var skipFlags = map[string]struct {
	behind int
	words  []string
}{
	"codex":  {2, []string{"--dangerously-bypass-approvals-and-sandbox"}},
	"gemini": {1, []string{"--approval-mode", "yolo"}},
}

// costFlag is the claude program's word for the dollars after which it ends.
const costFlag = "--max-budget-usd"

// resumeFlag is the claude program's word for the session to continue with.
const resumeFlag = "--resume"

// agentCommand gives the argument vector of the agent and what it reads.
func (w *World) agentCommand(a *workflow.Claude, c *Call, prompt string) (name string, argv []string, input []byte, streams bool, err error) {
	name = AgentName(a)
	skip := w.SkipPermissions
	if a.SkipPermissions != nil {
		skip = *a.SkipPermissions
	}
	cfg := w.Agents[name]
	if cfg == nil && name != DefaultAgent {
		cfg = workflow.BuiltIn(name)
	}
	if cfg == nil {
		if name != DefaultAgent {
			return name, nil, nil, false, fmt.Errorf("no agent is named %q; configure it under `agents:`", name)
		}
		argv = []string{"claude", "--print", "--output-format", "stream-json", "--verbose"}
		if skip {
			argv = append(argv, skipFlag)
		}
		if c.Session != "" {
			argv = append(argv, resumeFlag, c.Session)
		}
		if c.MaxCost > 0 {
			argv = append(argv, costFlag, strconv.FormatFloat(c.MaxCost, 'f', 4, 64))
		}
		argv = append(argv, a.Args...)
		return name, append(argv, argument(prompt)), nil, true, nil
	}
	sc := promptScope{c.Scope, prompt}
	named := false
	for _, t := range cfg.Command {
		word, err := agentWord(t, sc, slices.Contains(argv, "--"))
		if err != nil {
			return name, nil, nil, false, err
		}
		for _, r := range t.Refs() {
			named = named || r.Path.String() == "prompt"
		}
		argv = append(argv, word)
	}
	if (skip || cfg.SkipPermissions && a.SkipPermissions == nil) && filepath.Base(argv[0]) == "claude" {
		argv = slices.Insert(argv, 1, skipFlag)
	}
	if f := skipFlags[name]; (skip || cfg.SkipPermissions && a.SkipPermissions == nil) && cfg.BuiltIn && f.words != nil {
		argv = slices.Insert(argv, f.behind, f.words...)
	}
	if c.Session != "" && filepath.Base(argv[0]) == "claude" {
		argv = slices.Insert(argv, 1, resumeFlag, c.Session)
	}
	argv = append(argv, a.Args...)
	switch {
	case cfg.Stdin:
		input = []byte(prompt)
	case !named:
		argv = append(argv, argument(prompt))
	}
	return name, argv, input, cfg.Output == "stream-json", nil
}

// agentWord is one word of a configured command. No word that data begins is an
// option, unless it is behind a --; a prompt gets a blank before it.
func agentWord(t *template.Text, sc promptScope, dashes bool) (string, error) {
	word, origin, err := t.ExpandOrigin(sc)
	if err != nil || dashes || origin != template.Data || !strings.HasPrefix(word, "-") || !strings.HasPrefix(t.String(), "$") {
		return word, err
	}
	if refs := t.Refs(); len(refs) > 0 && refs[0].Name == "prompt" {
		return argument(word), nil
	}
	if strings.Contains(t.String(), "|option}") {
		return word, nil
	}
	return "", fmt.Errorf(`the value of %s would be an option of the agent; write "--" before it, or |option if it is meant to be one`, t)
}

// longestPrompt bounds a prompt with a summary: Linux takes arguments of 128 KiB.
const longestPrompt = 120 << 10

// handedOver is the prompt of an agent that begins again where another, or an earlier
// attempt, has said something, which is "" otherwise.
func handedOver(prompt, summary string) string {
	whole := prompt + "\n\nAn earlier attempt at this did not come to its end. Look at what it has left before you begin. What it said last:\n\n" + summary
	if summary == "" || len(whole) > longestPrompt {
		return prompt
	}
	return whole
}

// keepPrompt keeps what an agent is asked, as it is sent, beside its outputs.
func keepPrompt(c *Call, prompt string) error {
	if c.Spill == nil {
		return nil
	}
	f, err := c.Spill("prompt")
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, prompt)
	return errors.Join(err, f.Close())
}

// argument keeps a prompt that begins with a dash from being read as an option.
func argument(prompt string) string {
	if strings.HasPrefix(prompt, "-") {
		return " " + prompt
	}
	return prompt
}

// promptScope adds ${prompt}.
type promptScope struct {
	template.Scope
	prompt string
}

func (s promptScope) Lookup(name string) (template.Value, bool) {
	if name == "prompt" {
		return template.Value{V: s.prompt, Origin: template.Data}, true
	}
	return s.Scope.Lookup(name)
}

// clockSkew is added to the time at which a limit ends: clocks differ.
const clockSkew = 5 * time.Second

func agentFailure(name string, st *stream, r proc.Result, streams bool, c *Call) error {
	e := &AgentError{Agent: name, Code: r.ShellStatus(), Stderr: tailOf(r.Stderr, c.Mask)}
	if streams {
		e.Message = st.failure()
		if st.result == nil {
			e.Stdout = c.Mask.Last(string(st.own), matched, len(st.own) >= maxOwn)
		}
	} else {
		e.Stdout = tailOf(r.Stdout, c.Mask)
	}
	if e.Message == "" || st.result == nil {
		e.Message = fmt.Sprintf("exit status %d", e.Code)
		if streams && (r.Success() || st.trouble != "") {
			e.Message = st.failure()
		}
	}
	// The words of the answer count, and without one what the CLI printed.
	said := e.Message
	if st.result == nil {
		said += "\n" + e.Stderr + "\n" + e.Stdout
	}
	e.Kind = classify.Text(said)
	e.Limited = st.limited || e.Kind.RateLimited
	switch d, told := classify.Reset(said, time.Now()); {
	case !e.Limited:
	case told:
		e.Until, e.HasTime = d+clockSkew, true
	case !st.resetsAt.IsZero():
		e.Until, e.HasTime = max(0, time.Until(st.resetsAt))+clockSkew, true
	}
	return e
}
