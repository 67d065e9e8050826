package action

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/classify"
	"github.com/bide-dev/bide/internal/pattern"
)

// Usage is what an agent used.
type Usage struct {
	InputTokens   int64   `json:"input_tokens"`
	OutputTokens  int64   `json:"output_tokens"`
	CacheRead     int64   `json:"cache_read_tokens,omitempty"`
	CacheCreation int64   `json:"cache_creation_tokens,omitempty"`
	CostUSD       float64 `json:"cost_usd"`
	Turns         int     `json:"turns,omitempty"`
}

// Tokens is the sum of all tokens.
func (u Usage) Tokens() int64 {
	return u.InputTokens + u.OutputTokens + u.CacheRead + u.CacheCreation
}

// Plus is both together, without turns.
func (u Usage) Plus(v Usage) Usage {
	return Usage{InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens,
		CacheRead: u.CacheRead + v.CacheRead, CacheCreation: u.CacheCreation + v.CacheCreation, CostUSD: u.CostUSD + v.CostUSD}
}

// Minus is what u has more than v, without turns; 0 of what it has less of.
func (u Usage) Minus(v Usage) Usage {
	return Usage{InputTokens: max(u.InputTokens-v.InputTokens, 0), OutputTokens: max(u.OutputTokens-v.OutputTokens, 0),
		CacheRead: max(u.CacheRead-v.CacheRead, 0), CacheCreation: max(u.CacheCreation-v.CacheCreation, 0), CostUSD: max(u.CostUSD-v.CostUSD, 0)}
}

// Message is one thing that an agent said or did.
type Message struct {
	Text  string          // what it wrote
	Tool  string          // the tool it used; "" for text
	Input json.RawMessage // the tool's input
}

// stream reads the JSON lines of an agent CLI. Those of claude: a system line that
// names the session, assistant and user lines with the conversation, rate_limit_event
// lines, and one result line at the end. Those of codex and of gemini are read in
// streams.go; no type has two meanings. Lines of other types are passed over, and so are
// those that are cut short or are not what their type says: they are part of the
// conversation, and nothing that they say is why the CLI ended. Lines that are no JSON or
// have no type are the CLI's own words: warnings, and why it ended where there is no result.
type stream struct {
	on      func(Message) // called for each message; may be nil
	onUsage func(Usage)   // called when more is used; may be nil

	mu     sync.Mutex
	closed bool // what comes later is dropped, and the rest may be read without mu

	partial  []byte
	skipping bool // inside a line longer than maxLine
	session  string
	text     string // of the last assistant message
	before   string // of the one before it
	own      []byte // the CLI's own words, the last of them
	result   *resultLine
	usage    Usage
	said     Usage  // as onUsage was told last
	turn     string // the message that was told of last, of claude
	turnUsed tokens // and what it has used
	limited  bool
	resetsAt time.Time
	trouble  string          // the last error that the CLI told of, where no result follows
	unread   string          // why the last line that could not be read was not; "" for none
	part     strings.Builder // of a message that comes in parts
}

// maxLine bounds one line of the stream in memory.
const maxLine = 16 << 20

// maxOwn bounds the CLI's own words in memory.
const maxOwn = 1 << 20

type resultLine struct {
	Status  string   `json:"status"` // of gemini alone
	Subtype string   `json:"subtype"`
	IsError bool     `json:"is_error"`
	Result  string   `json:"result"`
	Session string   `json:"session_id"`
	Cost    float64  `json:"total_cost_usd"`
	CostOld float64  `json:"cost_usd"`
	Turns   int      `json:"num_turns"`
	Usage   *tokens  `json:"usage"`
	Errors  []string `json:"errors"`
	Reason  string   `json:"stop_reason"`
}

type tokens struct {
	Input         int64 `json:"input_tokens"`
	Output        int64 `json:"output_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
}

type streamLine struct {
	Type    string          `json:"type"`
	Session string          `json:"session_id"`
	Message json.RawMessage `json:"message"` // of claude a map, of the others a text
	Limit   *struct {
		Status   string          `json:"status"`
		ResetsAt json.RawMessage `json:"resetsAt"`
	} `json:"rate_limit_info"`
}

// Write takes a piece of the stream. It never fails.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	for len(p) > 0 && !s.closed {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if !s.skipping {
				s.partial = append(s.partial, p...)
			}
			if len(s.partial) > maxLine {
				s.partial, s.skipping = nil, true
				s.unread = fmt.Sprintf("a line of its output is longer than %d MiB", maxLine>>20)
			}
			break
		}
		if !s.skipping {
			s.line(append(s.partial, p[:i]...))
		}
		s.partial, s.skipping = s.partial[:0], false
		p = p[i+1:]
	}
	return n, nil
}

// Close takes a last line without a line end. lost is why not all of the stream came; nil
// where it did. A writer that was given up, as it took too long, may still be at it.
func (s *stream) Close(lost error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.partial) > 0 && !s.skipping {
		s.line(s.partial)
	}
	s.partial, s.closed = nil, true
	if lost != nil {
		s.unread = lost.Error()
	}
}

// ofStream matches the beginning of a line of the stream.
var ofStream = pattern.Lazy(`^\{\s*"type"\s*:`)

func (s *stream) line(b []byte) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return
	}
	var l streamLine
	err := json.Unmarshal(b, &l)
	if err != nil && ofStream().Match(b) {
		s.unread = "a line of its output cannot be read: " + err.Error()
		return
	}
	if b[0] != '{' || err != nil || l.Type == "" {
		if s.own = append(append(s.own, b...), '\n'); len(s.own) > 2*maxOwn {
			s.own = append(s.own[:0], s.own[len(s.own)-maxOwn:]...)
		}
		return
	}
	if l.Session != "" {
		s.session = l.Session
	}
	switch l.Type {
	case "assistant":
		s.assistant(&l)
	case "result":
		s.takeResult(b)
	case "rate_limit_event":
		if l.Limit != nil { // one that is allowed again has not failed of it
			s.limited = l.Limit.Status == "rejected" || l.Limit.Status == "blocked"
			s.resetsAt = classify.Epoch(l.Limit.ResetsAt)
		}
	default:
		s.other(l.Type, b)
	}
	if s.onUsage != nil && s.usage != s.said {
		s.said = s.usage
		s.onUsage(s.usage)
	}
}

func (s *stream) assistant(l *streamLine) {
	var m struct {
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
		Usage   *tokens         `json:"usage"`
	}
	if err := json.Unmarshal(l.Message, &m); err != nil {
		s.unread = "a line of its output cannot be read: " + err.Error()
		return
	}
	if u := m.Usage; u != nil && s.result == nil {
		// A message comes in a line for each of its parts, and each tells what all has used.
		if id := m.ID; id == "" || id != s.turn {
			s.turn, s.turnUsed = id, tokens{}
		}
		s.usage.InputTokens += u.Input - s.turnUsed.Input
		s.usage.OutputTokens += u.Output - s.turnUsed.Output
		s.usage.CacheRead += u.CacheRead - s.turnUsed.CacheRead
		s.usage.CacheCreation += u.CacheCreation - s.turnUsed.CacheCreation
		s.turnUsed = *u
	}
	var parts []struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			s.before, s.text = s.text, p.Text
			s.say(Message{Text: p.Text})
		case "tool_use":
			s.say(Message{Tool: p.Name, Input: p.Input})
		}
	}
}

func (s *stream) say(m Message) {
	if s.on != nil {
		s.on(m)
	}
}

func (s *stream) takeResult(b []byte) {
	var r resultLine
	if err := json.Unmarshal(b, &r); err != nil {
		s.unread = "a line of its output cannot be read: " + err.Error()
		return
	}
	if r.Status != "" {
		s.geminiResult(b)
		return
	}
	s.result = &r
	if u := r.Usage; u != nil {
		s.usage.InputTokens, s.usage.OutputTokens = u.Input, u.Output
		s.usage.CacheRead, s.usage.CacheCreation = u.CacheRead, u.CacheCreation
	}
	s.usage.CostUSD = max(r.Cost, r.CostOld)
	s.usage.Turns = r.Turns
}

// answer is the agent's last word.
func (s *stream) answer() string {
	if s.result != nil && s.result.Result != "" {
		return s.result.Result
	}
	return s.text
}

// failure says why the agent failed, or "" where it did not.
func (s *stream) failure() string {
	switch {
	case s.result == nil:
		if s.trouble == "" && s.unread != "" {
			return "it ended without a result; " + s.unread
		}
		return cmp.Or(s.trouble, `it ended without a result: no line {"type":"result"} came; write output: text under agents: for a program that prints text`)
	case s.result.IsError || strings.HasPrefix(s.result.Subtype, "error"):
		return cmp.Or(s.result.Result, strings.Join(s.result.Errors, "; "), strings.ReplaceAll(s.result.Subtype, "_", " "))
	case s.result.Reason == "refusal":
		return cmp.Or(s.result.Result, "the model refused to answer")
	case s.result.Reason == exceeded:
		return "the conversation is longer than the context window of the model"
	case s.result.Reason == "max_tokens":
		return "its answer was cut off at the most tokens that the model gives in one (max_tokens)"
	}
	return ""
}

// exceeded is why an agent stopped whose conversation the model cannot read any more.
const exceeded = "model_context_window_exceeded"

// full reports whether the conversation cannot be continued, as it is too long.
func (s *stream) full() bool {
	return s.result != nil && (s.result.Reason == exceeded ||
		s.result.IsError && strings.HasPrefix(strings.ToLower(s.result.Result), "prompt is too long"))
}

// summary is what the agent said last, apart from why it failed.
func (s *stream) summary() string {
	if s.result != nil && s.result.IsError && s.text == s.result.Result {
		return s.before
	}
	return s.text
}
