package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestAgentAnswers: an agent's stream becomes the step's result.
func TestAgentAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(`
commands:
  - claude: "/say two words"
    id: a
  - shell: echo "${claude.output}|${a.output}|${a.tokens}|${a.cost_usd}|${a.session}|${last.output}" > @EV@/x
  - claude: /tool
`)
	r.status(event.Succeeded)
	r.want("x", "two words|two words|130|0.25|session-1|two words")
	u := r.sum.Usage
	if u == nil || u.InputTokens != 200 || u.OutputTokens != 40 || u.CacheTokens != 20 || u.CostUSD != 0.5 || u.Calls != 2 {
		t.Errorf("the summary's usage is %+v", u)
	}
	if got := r.of(event.AgentUsage); len(got) != 2 || !strings.Contains(string(got[0].Data), `"input_tokens":100`) {
		t.Errorf("the events of usage are %+v", got)
	}
	var said, tools int
	for _, e := range r.of(event.AgentMessage) {
		if e.Message == "two words" {
			said++
		}
		if strings.Contains(string(e.Data), `"tool":"Bash"`) && strings.Contains(string(e.Data), "ls") {
			tools++
		}
	}
	if said != 1 || tools != 1 {
		t.Errorf("%d messages and %d uses of a tool were told, want one each", said, tools)
	}
	logs := agentLogs(t, b.home)
	if len(logs) != 2 || !strings.Contains(logs[0]+logs[1], `"result":"two words"`) || !strings.Contains(logs[0]+logs[1], `"tool_use"`) {
		t.Errorf("the raw streams are not kept: %q", logs)
	}
}

// agentLogs gives the kept streams of agents.
func agentLogs(t *testing.T, home string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "agent") {
			return err
		}
		b, err := os.ReadFile(path)
		list = append(list, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestAgentFailures(t *testing.T) {
	for _, row := range []struct{ prompt, message string }{
		{"/fail it cannot be done", "it cannot be done"},
		{"/mute", "without a result"},
		{"/crash no credentials", "no credentials"},
	} {
		t.Run(row.prompt, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("commands:\n  - claude: " + row.prompt + "\n    retry: {attempts: 2, initial_delay: 1ms}\n")
			r.status(event.Failed)
			r.want("agent.log", row.prompt+"\n"+row.prompt)
			if got := r.of(event.AttemptFailed); len(got) != 2 || got[0].Class != "agent" || !strings.Contains(got[0].Message, row.message) {
				t.Errorf("the failed attempts are %+v", got)
			}
		})
	}
}

// TestAgentIsMissing: an agent that a step needs is looked for before anything starts. A
// file without agents needs none.
func TestAgentIsMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := os.Remove(filepath.Join(filepath.Dir(b.dir), "bin", "claude")); err != nil {
		t.Fatal(err)
	}
	b.opt.Environ = []string{"PATH=/usr/bin:/bin", "HOME=" + b.dir}
	if _, err := b.try(context.Background(), "commands: [{shell: touch @EV@/x}, {claude: /say a}]"); err == nil || !strings.Contains(err.Error(), "claude") {
		t.Errorf("the error is %v, want one that names claude", err)
	}
	r := b.run("commands: [{shell: echo a > @EV@/x}]")
	r.want("x", "a")
}

// TestRateLimitPausesAll: when one agent answers "later", all agents wait, and no attempt
// is used up.
func TestRateLimitPausesAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(`
map:
  input: [1, 2, 3]
  max_parallel: 3
  agent_template:
    - claude: /limit @EV@/limited 0
    - shell: echo "${claude.output}" > @EV@/${item}
on_item_failure: stop
`)
	r.status(event.Succeeded)
	for _, name := range []string{"1", "2", "3"} {
		r.want(name, "open again")
	}
	if got := r.of(event.RunPaused); len(got) != 1 || got[0].DelayMS <= 0 || got[0].DelayMS > 5000 { // 5 s are added because clocks differ
		t.Errorf("the pauses are %+v, want one", got)
	}
	if got := r.of(event.AttemptFailed); len(got) != 0 {
		t.Errorf("a rate limit used up an attempt: %+v", got)
	}
	if n := strings.Count(r.file("agent.log"), "\n") + 1; n != 4 {
		t.Errorf("the agent was started %d times, want 4", n)
	}
}

// TestRateLimitIsBounded: a pause beyond max_wait does not begin.
func TestRateLimitIsBounded(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"max_wait: 1s\n", "max_wait: ${most}\nparameters: {optional: [{name: most, default: 1s}]}\n"} {
		r := newBench(t).run(head + "commands:\n  - claude: /limit @EV@/limited 600\n")
		r.status(event.Failed)
		if got := r.of(event.AttemptFailed); len(got) != 1 || got[0].Class != "rate_limit" {
			t.Errorf("%s: the failed attempts are %+v", head, got)
		}
	}
}

// TestRateLimitIsRetriedByNobody: a limit that lasts longer than max_wait stops the run
// immediately, whatever a policy says about attempts. A resume before the end of the limit
// asks no agent.
func TestRateLimitIsRetriedByNobody(t *testing.T) {
	t.Parallel()
	const ask, retried = "claude: /limit @EV@/limited 20", "retry: {attempts: 3, initial_delay: 10ms, jitter: false}"
	flows := map[string]string{
		"retry":    "commands:\n  - " + ask + "\n    " + retried,
		"rules":    "commands:\n  - " + ask + "\n    retry: {rules: [{on: rate_limit, attempts: 5, initial_delay: 10ms}]}",
		"chain":    "agents:\n  one: {command: [sh, -c, 'echo asked >> $EV/agent.log; echo Weekly limit reached, try again in 20 seconds; exit 1']}\n  other: {command: [sh, -c, 'echo asked >> $EV/agent.log; echo Weekly limit reached, try again in 20 seconds; exit 1']}\n  coder: {first_of: [one, other]}\ncommands:\n  - coder: hello\n    " + retried,
		"handler":  "commands:\n  - " + ask + "\n    on_failure: {shell: echo x >> @EV@/handled, max_attempts: 3, fail_workflow: true}",
		"foreach":  "commands:\n  - foreach: [a]\n    do: [{" + ask + "}]\n    " + retried,
		"item":     "map:\n  input: [a]\n  agent_template:\n    - " + ask + "\n      " + retried + "\n  retry_config: {attempts: 3, initial_delay: 10ms}",
		"pipeline": "commands:\n  - pipeline: ask.cst",
	}
	for name, flow := range flows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if name == "pipeline" {
				b.modules(`- {name: Ask, result: String, agent: "/limit @EV@/limited 20"}`)
				b.write("ask.cst", "a = Ask() with retry: 2, delay: 10ms\nout a\n")
			}
			r := b.run("max_wait: 1s\n" + flow + "\n")
			asked := r.file("agent.log")
			for life := range 2 {
				r.status(event.Failed)
				if !strings.Contains(r.sum.Message, "longer than max_wait") {
					t.Errorf("life %d: %s", life, r.sum.Message)
				}
				if n := len(r.of(event.RetryScheduled)) + len(r.of(event.ItemRetry)); n > 0 {
					t.Errorf("life %d: %d waits before another attempt", life, n)
				}
				if n := len(r.of(event.AttemptStarted)); n > 2 { // the second is the attempt of a foreach
					t.Errorf("life %d: %d attempts", life, n)
				}
				if got := r.file("agent.log"); got != asked || got == "-" {
					t.Errorf("life %d: agents were asked:\n%s", life, got)
				}
				if got := r.file("handled"); got != "-" {
					t.Errorf("life %d: handled: %s", life, got)
				}
				r = b.resume(context.Background())
			}
		})
	}
}

// TestRateLimitIsNotWaitedForLater: beyond max_wait no later agent waits either. It fails
// immediately and says why, in a resume too. An agent that waits says for how long.
func TestRateLimitIsNotWaitedForLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run("max_wait: 1s\ncommands:\n  - claude: /limit @EV@/limited 600\n    continue_on_error: true\n  - claude: /say hello\n")
	r.status(event.Failed)
	got := r.of(event.StepFinished)
	if len(got) != 2 || got[1].Class != "rate_limit" || !strings.Contains(got[1].Message, "longer than max_wait (1s)") {
		t.Errorf("the steps are %+v", got)
	}
	r.want("agent.log", "/limit "+b.ev+"/limited 600")
	r = b.resume(context.Background())
	r.status(event.Failed)
	r.want("agent.log", "/limit "+b.ev+"/limited 600")
	if notes := r.of(event.Note); len(notes) == 0 || !strings.Contains(notes[0].Message, "longer than max_wait; if it is over already: bide control ") {
		t.Errorf("the notes are %+v", notes)
	}
	b.write("flow.yml", "max_wait: 1h\ncommands:\n  - claude: /limit @EV@/limited 600\n    continue_on_error: true\n  - claude: /say hello\n")
	b.opt.Force = true
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.opt.Sinks = append(b.opt.Sinks, event.SinkFunc(func(e event.Event) {
		if e.Type == event.Note {
			cancel()
		}
	}))
	r = b.resume(ctx)
	r.status(event.Interrupted)
	if notes := r.of(event.Note); len(notes) == 0 || !strings.Contains(notes[0].Message, "agents wait 10m") && !strings.Contains(notes[0].Message, "agents wait 9m") {
		t.Errorf("the notes are %+v", notes)
	}
	r.want("agent.log", "/limit "+b.ev+"/limited 600")
}

// TestAgentsThatAnswerWithAText: when another CLI says that its quota is used up, that is a
// rate limit, until the time that it gives. The tokens that Codex prints count.
func TestAgentsThatAnswerWithAText(t *testing.T) {
	for text, seconds := range map[string]int64{
		"You've hit your session limit · resets 4:20am (Europe/Warsaw)":                           -1,
		"Weekly limit reached ∙ resets Oct 6 at 1pm":                                              -1,
		`{"error":{"type":"usage_limit_reached","message":"The limit","resets_in_seconds":1000}}`: 1005,
		"ERROR: You've hit your usage limit. Try again in 4 days 2 hours 3 minutes.":              4*86400 + 2*3600 + 185,
		"You have exhausted your capacity on this model. Your quota will reset after 18h7m.":      18*3600 + 7*60 + 5,
		"API Error: 429 RESOURCE_EXHAUSTED. Please retry in 100.5s":                               106,
	} {
		for _, stream := range []string{"1", "2"} {
			t.Run(text+" on "+stream, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.write("answer", text+"\n")
				r := b.run("max_wait: 1ms\nagents: {other: {command: [sh, -c, 'cat answer >&" + stream + "; exit 1', '${prompt}']}}\ncommands:\n  - other: hello\n")
				r.status(event.Failed)
				paused := r.of(event.RunPaused)
				if len(paused) != 1 || seconds >= 0 && (paused[0].DelayMS+999)/1000 != seconds || paused[0].DelayMS == 30_000 {
					t.Errorf("the pauses are %+v, want one of %d s", paused, seconds)
				}
				if end := r.of(event.StepFinished)[0]; end.Class != "rate_limit" || !strings.Contains(end.Message, text) {
					t.Errorf("%s: %s", end.Class, end.Message)
				}
			})
		}
	}
	t.Run("tokens", func(t *testing.T) {
		t.Parallel()
		r := newBench(t).run("max_tokens: 2000\nagents: {codex: {command: [sh, -c, 'echo done; printf \"tokens used\\n1,234\\n\" >&2', '${prompt}']}}\ncommands:\n" + strings.Repeat("  - codex: hello\n", 3))
		r.status(event.Failed)
		if n := len(r.of(event.AgentUsage)); n != 2 {
			t.Errorf("%d agents were asked, want 2%s", n, r.story())
		}
		if u := r.sum.Usage; u == nil || u.OtherTokens != 2468 {
			t.Errorf("used: %+v", u)
		}
	})
}

func TestAgentPermissions(t *testing.T) {
	const flag = "--dangerously-skip-permissions"
	for _, row := range []struct {
		head, step string
		want       bool
	}{
		{"", "", false},
		{"skip_permissions: true\n", "", true},
		{"", "    skip_permissions: true\n", true},
		{"skip_permissions: true\n", "    skip_permissions: false\n", false},
		{"agents: {claude: {command: [claude, --print, --output-format, stream-json], output: stream-json, skip_permissions: true}}\n", "", true},
		{"agents: {claude: {command: [claude, --print, --output-format, stream-json], output: stream-json}}\n", "", false},
	} {
		t.Run(row.head+row.step, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run(row.head + "commands:\n  - claude: /argv\n" + row.step + "  - shell: printf %s \"${claude.output}\" > @EV@/x\n")
			r.status(event.Succeeded)
			got := r.file("x")
			if strings.Contains(got, flag) != row.want {
				t.Errorf("the arguments are %s", got)
			}
			if row.head == "" && row.step == "" && got != `["--print","--output-format","stream-json","--verbose"]` {
				t.Errorf("the arguments are %s", got)
			}
		})
	}
}

// TestAgentSurroundings: what an agent inherits and what it does not.
func TestAgentSurroundings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("CLAUDECODE", "1")
	r := b.run(`
env: {LEVEL: 3}
commands:
  - foreach: [CLAUDECODE, BIDE_AUTOMATION, PRODIGY_AUTOMATION, LEVEL, OWN]
    do:
      - claude: /env ${item}
        env: {OWN: own}
      - shell: echo "${item}=${claude.output}" >> @EV@/x
  - claude: /stdin
  - shell: echo ${claude.output} > @EV@/stdin
  - claude: /argv
    args: [--model, small]
  - shell: printf %s "${claude.output}" > @EV@/args
  - claude: |
      /say one
      and two
  - shell: printf %s "${claude.output}" > @EV@/lines
  - claude: --help
  - shell: printf %s "${claude.output}" > @EV@/dash
  - shell: case ${CLAUDECODE-unset} in unset) echo unset > @EV@/shell;; esac
`)
	r.status(event.Succeeded)
	r.want("x", "CLAUDECODE=unset\nBIDE_AUTOMATION=true\nPRODIGY_AUTOMATION=true\nLEVEL=3\nOWN=own")
	r.want("stdin", `""`)
	r.want("args", `["--print","--output-format","stream-json","--verbose","--model","small"]`)
	r.want("lines", "one\nand two")
	r.want("dash", "I was asked:  --help")
	r.want("shell", "unset")
}

// TestOtherAgents: any command line may be an agent.
func TestOtherAgents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("parrot", "#!/bin/sh\necho \"$MOOD: $*\"\nif [ \"$1\" = read ]; then cat; fi\nif [ \"$1\" = die ]; then echo sick >&2; exit 5; fi\n")
	if err := os.Chmod(filepath.Join(b.dir, "parrot"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := b.run(`
agents:
  parrot: {command: ['@DIR@/parrot', --say, '${prompt}', --end], env: {MOOD: well}}
  last: '@DIR@/parrot --quiet'
  reader: {command: ['@DIR@/parrot', read], stdin: true}
  dying: {command: ['@DIR@/parrot', die]}
  clone: {command: [claude, '${prompt}'], output: stream-json}
commands:
  - parrot: hello you
    env: {MOOD: great}
  - shell: printf %s "${last.output}" > @EV@/parrot
  - parrot: hello
  - shell: printf %s "${parrot.output}${claude.output}" > @EV@/mood
  - last: "hi $(touch pwned)"
  - shell: printf %s "${last.output}" > @EV@/last
  - reader: from stdin
  - shell: printf %s "${last.output}" > @EV@/reader
  - clone: /say cloned
  - shell: printf %s "${last.output}" > @EV@/clone
  - dying: swan
`)
	r.status(event.Failed)
	r.want("parrot", "great: --say hello you --end")
	r.want("last", ": --quiet hi $(touch pwned)")
	r.want("reader", ": read\nfrom stdin")
	r.want("clone", "cloned")
	if !strings.Contains(r.sum.Message, "sick") {
		t.Errorf("the message is %q, want the agent's last word", r.sum.Message)
	}
	if !strings.HasPrefix(r.file("mood"), "well: --say hello --end") {
		t.Errorf("mood is %q", r.file("mood"))
	}
}

// TestAgentBudgets: when agents have cost too much, no new work starts.
func TestAgentBudgets(t *testing.T) {
	for _, head := range []string{"max_cost: 0.5", "max_tokens: 250"} {
		t.Run(head, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run(head + `
map:
  input: [1, 2, 3, 4, 5]
  max_parallel: 1
  agent_template: [{claude: /say a}]
`)
			r.status(event.Failed)
			r.want("agent.log", "/say a\n/say a")
			if r.sum.Class != "budget" || r.sum.Items.Pending != 3 {
				t.Errorf("class %s, items %+v; want the budget and three pending", r.sum.Class, r.sum.Items)
			}
		})
	}
}

// The prompt of each attempt is kept as it was sent, with all values in it and without
// secrets.
func TestPromptsAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(`
env:
  TOKEN: {secret: true, value: "hush-hush-hush"}
commands:
  - shell: echo two words
    id: a
  - claude: "/say ${a.output} and ${TOKEN}"
`)
	r.status(event.Succeeded)
	var kept []string
	err := filepath.WalkDir(b.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(filepath.Base(path), "prompt") {
			return err
		}
		text, err := os.ReadFile(path)
		kept = append(kept, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != 1 || kept[0] != "/say two words and ***" {
		t.Errorf("the prompts that are kept are %q", kept)
	}
}
