package action_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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
