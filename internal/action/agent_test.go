package action_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// The quota stops of the agents that are known are rate limits, with the time
// until their end, wherever the agent says them.
func TestQuotaStopsOfAgents(t *testing.T) {
	w := world(t)
	for name, c := range map[string]struct {
		output, script string
		limited        bool
		after          time.Duration // 0: it is not told; 1 ns: by the hour of the day
		class          string
	}{
		"codex on stderr":       {"text", `echo "ERROR: You've hit your usage limit. Try again in 3 hours 12 minutes." >&2; exit 1`, true, 192 * time.Minute, "rate_limit"},
		"gemini on stdout":      {"text", `echo "You have exhausted your capacity on this model. Your quota will reset after 18h7m."; exit 1`, true, 18*time.Hour + 7*time.Minute, "rate_limit"},
		"claude without a time": {"text", `echo "Weekly limit reached"; exit 1`, true, 0, "rate_limit"},
		"claude in its result":  {"stream-json", `echo '{"type":"result","subtype":"success","is_error":true,"result":"Claude AI usage limit reached, try again in 5 minutes"}'; exit 1`, true, 5 * time.Minute, "rate_limit"},
		"claude by its event":   {"stream-json", `echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected"}}'; echo '{"type":"result","is_error":true,"result":"stopped"}'; exit 1`, true, 0, "rate_limit"},
		"claude in plain words": {"stream-json", `echo "You've hit your session limit · resets 4:20am (Europe/Warsaw)"; exit 1`, true, time.Nanosecond, "rate_limit"},
		"a stream's error line": {"stream-json", `echo '{"type":"system","session_id":"s"}'; echo '{"error":{"type":"usage_limit_reached","resets_in_seconds":1000}}'; exit 1`, true, 1000 * time.Second, "rate_limit"},
		"said in a stream":      {"stream-json", `echo '{"type":"assistant","message":{"content":[{"type":"text","text":"Weekly limit reached"}]}}'; exit 1`, false, 0, "agent"},
		"no connection":         {"text", `echo "API Error: Connection error." >&2; exit 1`, false, 0, "network"},
		"another failure":       {"text", `echo "I wrote the limiter and 429 tests" ; exit 1`, false, 0, "agent"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := filepath.Join(dir, "agent")
			if err := os.WriteFile(script, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			command, err := template.Parse(script)
			if err != nil {
				t.Fatal(err)
			}
			prompt, err := template.Parse("do it")
			if err != nil {
				t.Fatal(err)
			}
			w := *w
			w.Agents = map[string]*workflow.Agent{"a": {Command: []*template.Text{command}, Output: c.output}}
			_, err = w.Run(t.Context(), &workflow.Claude{Text: prompt, Provider: "a"}, &action.Call{Scope: vars.New(nil), Env: os.Environ()})
			var e *action.AgentError
			if !errors.As(err, &e) {
				t.Fatalf("%v", err)
			}
			after, told := e.RetryAfter()
			if e.RateLimited() != c.limited || e.Class() != c.class || told != (c.after > 0) || told && (after < c.after || c.after > time.Nanosecond && after > c.after+10*time.Second) {
				t.Errorf("limited %v, class %s, after %v %v: %v", e.RateLimited(), e.Class(), after, told, err)
			}
		})
	}
}

// What data gives to an agent's command is no option of it.
func TestNoWordOfAnAgentIsAnOption(t *testing.T) {
	w := world(t)
	scope := vars.New(nil)
	scope.Set("x", "--run=evil")
	for name, c := range map[string]struct {
		words []string
		want  string // "": refused
	}{
		"bare":            {[]string{"echo", "${x}"}, ""},
		"behind dashes":   {[]string{"echo", "--", "${x}"}, "-- --run=evil  -p"},
		"with |option":    {[]string{"echo", "${x|option}"}, "--run=evil  -p"},
		"behind the name": {[]string{"echo", "--model=${x}"}, "--model=--run=evil  -p"},
		"the prompt":      {[]string{"echo", "${prompt}", "x"}, " -p x"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := &workflow.Agent{Output: "text"}
			for _, word := range c.words {
				text, err := template.Parse(word)
				if err != nil {
					t.Fatal(err)
				}
				agent.Command = append(agent.Command, text)
			}
			prompt, err := template.Parse("-p")
			if err != nil {
				t.Fatal(err)
			}
			w := *w
			w.Agents = map[string]*workflow.Agent{"a": agent}
			res, err := w.Run(t.Context(), &workflow.Claude{Text: prompt, Provider: "a"}, &action.Call{Scope: scope, Env: os.Environ()})
			if c.want == "" && err == nil || c.want != "" && (err != nil || res.Output != c.want) {
				t.Errorf("%q, %v; want %q", res.Output, err, c.want)
			}
		})
	}
}
