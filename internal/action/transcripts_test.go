package action_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// TestTranscripts: what the agents that are built in print, in the formats that their
// documentation and sources give, is read as they mean it: the answer, what was used, the
// session, what was said and done, and whether and until when a limit turned them away.
// The stand-ins check the command line that they are called with.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	type want struct {
		answer, session string
		usage           action.Usage
		said            []string
		fails           string // its class; "": it succeeds
		after           time.Duration
	}
	for name, c := range map[string]struct {
		agent, lines string
		exit         string
		want         want
	}{
		"claude answers": {"claude", `{"type":"system","subtype":"init","session_id":"s1","model":"m"}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I look."}],"usage":{"input_tokens":5,"output_tokens":2}},"session_id":"s1"}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"a.md"}}]},"session_id":"s1"}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"text"}]},"session_id":"s1"}
{"type":"result","subtype":"success","is_error":false,"duration_ms":9,"num_turns":2,"result":"Done.","session_id":"s1","total_cost_usd":0.25,"usage":{"input_tokens":7,"cache_creation_input_tokens":1,"cache_read_input_tokens":3,"output_tokens":4}}`, "0",
			want{"Done.", "s1", action.Usage{InputTokens: 7, OutputTokens: 4, CacheRead: 3, CacheCreation: 1, CostUSD: 0.25, Turns: 2}, []string{"I look.", "Read"}, "", 0}},
		"claude at its limit": {"claude", `{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"You've hit your session limit · resets in 2h","session_id":"s1","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}`, "1",
			want{"You've hit your session limit · resets in 2h", "s1", action.Usage{Turns: 1}, nil, "rate_limit", 2 * time.Hour}},
		"codex answers": {"codex", `{"type":"thread.started","thread_id":"0199a213"}
{"type":"turn.started"}
{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"bash -lc ls","aggregated_output":"","exit_code":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"bash -lc ls","aggregated_output":"docs\n","exit_code":0,"status":"completed"}}
{"type":"item.completed","item":{"id":"item_2","type":"reasoning","text":"thinking"}}
{"type":"item.completed","item":{"id":"item_3","type":"file_change","changes":[{"path":"a.go","kind":"update"}],"status":"completed"}}
{"type":"item.completed","item":{"id":"item_4","type":"agent_message","text":"It has docs."}}
{"type":"turn.completed","usage":{"input_tokens":24763,"cached_input_tokens":24448,"output_tokens":122}}`, "0",
			want{"It has docs.", "0199a213", action.Usage{InputTokens: 315, CacheRead: 24448, OutputTokens: 122, Turns: 1}, []string{"command", "file_change", "It has docs."}, "", 0}},
		"codex at its limit": {"codex", `{"type":"thread.started","thread_id":"0199a213"}
{"type":"turn.started"}
{"type":"error","message":"You've hit your usage limit. Upgrade to Pro or try again in 3 hours 12 minutes."}
{"type":"turn.failed","error":{"message":"You've hit your usage limit. Upgrade to Pro or try again in 3 hours 12 minutes."}}`, "1",
			want{"You've hit your usage limit. Upgrade to Pro or try again in 3 hours 12 minutes.", "0199a213", action.Usage{}, nil, "rate_limit", 192 * time.Minute}},
		"codex without a connection": {"codex", `{"type":"thread.started","thread_id":"0199a213"}
{"type":"error","message":"stream error: Connection error."}`, "1",
			want{"", "0199a213", action.Usage{}, nil, "network", 0}},
		"gemini answers": {"gemini", `{"type":"init","timestamp":"2025-10-10T12:00:00.000Z","session_id":"g1","model":"m"}
{"type":"message","timestamp":"2025-10-10T12:00:00.000Z","role":"user","content":"do it"}
{"type":"message","timestamp":"2025-10-10T12:00:01.000Z","role":"assistant","content":"I ","delta":true}
{"type":"message","timestamp":"2025-10-10T12:00:01.000Z","role":"assistant","content":"look.","delta":true}
{"type":"tool_use","timestamp":"2025-10-10T12:00:02.000Z","tool_name":"read_file","tool_id":"r1","parameters":{"path":"a.md"}}
{"type":"tool_result","timestamp":"2025-10-10T12:00:02.000Z","tool_id":"r1","status":"success","output":"text"}
{"type":"error","timestamp":"2025-10-10T12:00:02.000Z","severity":"warning","message":"Loop detected, stopping execution"}
{"type":"message","timestamp":"2025-10-10T12:00:03.000Z","role":"assistant","content":"Do","delta":true}
{"type":"message","timestamp":"2025-10-10T12:00:03.000Z","role":"assistant","content":"ne.","delta":true}
{"type":"result","timestamp":"2025-10-10T12:00:04.000Z","status":"success","stats":{"total_tokens":120,"input_tokens":50,"output_tokens":40,"cached":30,"input":20,"duration_ms":1200,"tool_calls":1}}`, "0",
			want{"Done.", "g1", action.Usage{InputTokens: 20, CacheRead: 30, OutputTokens: 70}, []string{"I look.", "read_file", "Done."}, "", 0}},
		"gemini at its limit": {"gemini", `{"type":"init","timestamp":"2025-10-10T12:00:00.000Z","session_id":"g1","model":"m"}
{"type":"result","timestamp":"2025-10-10T12:00:04.000Z","status":"error","error":{"type":"TerminalQuotaError","message":"You have exhausted your capacity on this model. Your quota will reset after 1h49m8s."},"stats":{"total_tokens":0,"input_tokens":0,"output_tokens":0,"cached":0,"input":0,"duration_ms":3,"tool_calls":0}}`, "1",
			want{"You have exhausted your capacity on this model. Your quota will reset after 1h49m8s.", "g1", action.Usage{}, nil, "rate_limit", time.Hour + 49*time.Minute + 8*time.Second}},
		"gemini out of turns": {"gemini", `{"type":"result","timestamp":"2025-10-10T12:00:04.000Z","status":"error","error":{"type":"MaxSessionTurnsError","message":"Maximum session turns exceeded"},"stats":{"total_tokens":100,"input_tokens":50,"output_tokens":50,"cached":0,"input":50,"duration_ms":1200,"tool_calls":0}}`, "53",
			want{"Maximum session turns exceeded", "", action.Usage{InputTokens: 50, OutputTokens: 50}, nil, "agent", 0}},
		"claude refuses": {"claude", `{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I cannot help with that."}],"stop_reason":"refusal"},"session_id":"s1"}
{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"I cannot help with that.","stop_reason":"refusal","session_id":"s1","total_cost_usd":0.01,"usage":{"input_tokens":7,"output_tokens":4}}`, "0",
			want{"I cannot help with that.", "s1", action.Usage{InputTokens: 7, OutputTokens: 4, CostUSD: 0.01, Turns: 1}, []string{"I cannot help with that."}, "agent", 0}},
		"claude whose answer is cut off": {"claude", `{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"The first half"}],"stop_reason":"max_tokens"},"session_id":"s1"}
{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"The first half","stop_reason":"max_tokens","session_id":"s1","total_cost_usd":0.01,"usage":{"input_tokens":7,"output_tokens":4}}`, "0",
			want{"The first half", "s1", action.Usage{InputTokens: 7, OutputTokens: 4, CostUSD: 0.01, Turns: 1}, []string{"The first half"}, "agent", 0}},
		"claude beyond its context window": {"claude", `{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"Prompt is too long","session_id":"s1","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}`, "1",
			want{"Prompt is too long", "s1", action.Usage{Turns: 1}, nil, "agent", 0}},
		"claude whose limit was lifted before it failed": {"claude", `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":4000000000},"session_id":"s1"}
{"type":"rate_limit_event","rate_limit_info":{"status":"allowed"},"session_id":"s1"}
{"type":"result","subtype":"error_max_turns","is_error":true,"num_turns":9,"session_id":"s1","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}`, "1",
			want{"", "s1", action.Usage{Turns: 9}, nil, "agent", 0}},
		"codex beyond its context window": {"codex", `{"type":"thread.started","thread_id":"0199a213"}
{"type":"turn.failed","error":{"message":"Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."}}`, "1",
			want{"Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.", "0199a213", action.Usage{}, nil, "agent", 0}},
		"codex connects again": {"codex", `{"type":"thread.started","thread_id":"0199a213"}
{"type":"error","message":"Reconnecting... 1/5 (stream disconnected before completion: Connection error.)"}
{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"Done."}}
{"type":"turn.completed","usage":{"input_tokens":3,"cached_input_tokens":1,"output_tokens":4}}`, "0",
			want{"Done.", "0199a213", action.Usage{InputTokens: 2, CacheRead: 1, OutputTokens: 4, Turns: 1}, []string{"Done."}, "", 0}},
		"gemini beyond its context window": {"gemini", `{"type":"init","session_id":"g1","model":"m"}
{"type":"result","status":"error","error":{"type":"Error","message":"[API Error: {\"error\":{\"code\":400,\"message\":\"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).\",\"status\":\"INVALID_ARGUMENT\"}}]"},"stats":{"total_tokens":0,"input_tokens":0,"output_tokens":0,"cached":0}}`, "1",
			want{`[API Error: {"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, "g1", action.Usage{}, nil, "agent", 0}},
		"gemini gets a 429": {"gemini", `{"type":"init","session_id":"g1","model":"m"}
{"type":"result","status":"error","error":{"type":"Error","message":"[API Error: {\"error\":{\"code\":429,\"message\":\"You exceeded your current quota. Please retry in 34.5s.\",\"status\":\"RESOURCE_EXHAUSTED\"}}]"},"stats":{"total_tokens":0,"input_tokens":0,"output_tokens":0,"cached":0}}`, "1",
			want{`[API Error: {"error":{"code":429,"message":"You exceeded your current quota. Please retry in 34.5s.","status":"RESOURCE_EXHAUSTED"}}]`, "g1", action.Usage{}, nil, "rate_limit", 34500 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			calls := map[string]string{
				"claude": "--print --output-format stream-json --verbose --dangerously-skip-permissions -m x do it",
				"codex":  "exec --dangerously-bypass-approvals-and-sandbox --json -m x do it",
				"gemini": "--approval-mode yolo --output-format stream-json --prompt do it -m x",
			}
			script := "#!/bin/sh\ntest \"$*\" = '" + calls[c.agent] + "' || { echo \"called with $*\"; exit 64; }\ncat <<'END'\n" + c.lines + "\nEND\nexit " + c.exit + "\n"
			if err := os.WriteFile(filepath.Join(dir, c.agent), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			prompt, err := template.Parse("do it")
			if err != nil {
				t.Fatal(err)
			}
			w := world(t)
			w.SkipPermissions = true
			var said []string
			res, err := w.Run(t.Context(), &workflow.Claude{Text: prompt, Provider: c.agent, Args: []string{"-m", "x"}}, &action.Call{
				Scope: vars.New(nil), Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")},
				OnMessage: func(m action.Message) { said = append(said, m.Text+m.Tool) },
			})
			var e *action.AgentError
			class := ""
			if errors.As(err, &e) {
				class = e.Class()
				if after, _ := e.RetryAfter(); c.want.after > 0 && (after < c.want.after || after > c.want.after+10*time.Second) {
					t.Errorf("to come back after %v, want %v", after, c.want.after)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if class != c.want.fails || res.Output != c.want.answer || res.Session != c.want.session || *res.Usage != c.want.usage || !slices.Equal(said, c.want.said) {
				t.Errorf("got class %q, answer %q, session %q, usage %+v, said %q (%v)\nwant %+v", class, res.Output, res.Session, *res.Usage, said, err, c.want)
			}
		})
	}
}

// TestBadTranscripts: what is cut short, is no text, is very long or has no end is read as far as
// it can be. What the conversation says is never why the agent ended.
func TestBadTranscripts(t *testing.T) {
	t.Parallel()
	init := `{"type":"system","subtype":"init","session_id":"s1"}` + "\n"
	ends := func(answer string) string {
		return `{"type":"result","subtype":"success","is_error":false,"result":"` + answer + `","session_id":"s1","usage":{"input_tokens":1,"output_tokens":1}}` + "\n"
	}
	for name, c := range map[string]struct {
		text, exit string
		size       int    // of the answer
		class      string // "": it succeeds
		says       string
	}{
		"cut short in the conversation":  {init + `{"type":"assistant","message":{"content":[{"type":"text","text":"API Error: Rate limit reached, try again in 5 hours`, "1", 0, "agent", "exit status 1"},
		"cut short, and it ended well":   {init + `{"type":"assistant","message":{"content":[{"type":"text","text":"Weekly limit reached`, "0", 0, "agent", "it ended without a result; a line of its output cannot be read: unexpected end of JSON input"},
		"the result is cut short":        {init + `{"type":"result","subtype":"success","result":"connection refused`, "1", 0, "agent", "exit status 1"},
		"a line that is cut in between":  {init + `{"type":"assistant","message":{"content":[{"type":"te` + "\n" + ends("fine"), "0", 4, "", ""},
		"not what its type says":         {init + `{"type":"assistant","message":"Weekly limit reached"}` + "\n", "1", 0, "agent", "exit status 1"},
		"no result":                      {init, "0", 0, "agent", `it ended without a result: no line {"type":"result"} came; write output: text under agents: for a program that prints text`},
		"nothing at all":                 {"", "0", 0, "agent", `it ended without a result: no line {"type":"result"} came; write output: text under agents: for a program that prints text`},
		"no text":                        {init + "\x00\x01\xff\xfe{\x00\n\xf0\x28\n" + ends("fine"), "0", 4, "", ""},
		"no text, and then no result":    {init + strings.Repeat("\x00\xff\xfe\n", 1<<16), "1", 0, "agent", "exit status 1"},
		"an answer of 10 MB in one line": {init + ends(strings.Repeat("x", 10<<20)), "0", 10 << 20, "", ""},
		"a line that is longer than all": {init + `{"type":"user","message":{"content":"` + strings.Repeat("y", 17<<20) + `"}}` + "\n" + ends("fine"), "0", 4, "", ""},
		"a result longer than all":       {init + ends(strings.Repeat("x", 17<<20)), "0", 0, "agent", "it ended without a result; a line of its output is longer than 16 MiB"},
		"its own words after a cut line": {init + `{"type":"assistant","message":{"content":[{"type":"te` + "\n" + "Weekly limit reached\n", "1", 0, "rate_limit", "Weekly limit reached"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "transcript"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "claude"), []byte("#!/bin/sh\ncat '"+dir+"/transcript'\nexit "+c.exit+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			prompt, err := template.Parse("do it")
			if err != nil {
				t.Fatal(err)
			}
			w := world(t)
			w.Grace = time.Minute // that the race detector takes
			res, err := w.Run(t.Context(), &workflow.Claude{Text: prompt}, &action.Call{Scope: vars.New(nil), Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}})
			var e *action.AgentError
			switch errors.As(err, &e); {
			case c.class == "" && err != nil:
				t.Fatal(err)
			case c.class != "" && (e == nil || e.Class() != c.class || !strings.Contains(e.Error(), c.says)):
				t.Errorf("class %v, %q; want %s, %q", e.Class(), e.Error(), c.class, c.says)
			case c.class == "" && len(res.Output) != c.size:
				t.Errorf("the answer has %d bytes, want %d", len(res.Output), c.size)
			}
			if c.text != "" && res.Session != "s1" {
				t.Errorf("the session is %q", res.Session)
			}
		})
	}
}
