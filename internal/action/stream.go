package action

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/classify"
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
// streams.go; no type has two meanings. Lines of other types are passed over. Lines that
// are no JSON or have no type are the CLI's own words: warnings, and why it ended where
// there is no result.
type stream struct {
	on      func(Message) // called for each message; may be nil
	onUsage func(Usage)   // called when more is used; may be nil

	partial  []byte
	skipping bool // inside a line longer than maxLine
	session  string
	text     string // of the last assistant message
	own      []byte // the CLI's own words, the last of them
	result   *resultLine
	usage    Usage
	said     Usage  // as onUsage was told last
	turn     string // the message that was told of last, of claude
	turnUsed tokens // and what it has used
	limited  bool
	resetsAt time.Time
	trouble  string          // the last error that the CLI told of, where no result follows
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
}

type tokens struct {
	Input         int64 `json:"input_tokens"`
	Output        int64 `json:"output_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
}

type streamLine struct {
	Type    string `json:"type"`
	Session string `json:"session_id"`
	Message struct {
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
		Usage   *tokens         `json:"usage"`
	} `json:"message"`
	Limit *struct {
		Status   string          `json:"status"`
		ResetsAt json.RawMessage `json:"resetsAt"`
	} `json:"rate_limit_info"`
}

// Write takes a piece of the stream. It never fails.
func (s *stream) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if !s.skipping {
				s.partial = append(s.partial, p...)
			}
			if len(s.partial) > maxLine {
				s.partial, s.skipping = nil, true
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

// Close takes a last line without a line end.
func (s *stream) Close() {
	if len(s.partial) > 0 && !s.skipping {
		s.line(s.partial)
	}
	s.partial = nil
}

func (s *stream) line(b []byte) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return
	}
	var l streamLine
	if b[0] != '{' || json.Unmarshal(b, &l) != nil || l.Type == "" {
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
		if l.Limit != nil && (l.Limit.Status == "rejected" || l.Limit.Status == "blocked") {
			s.limited = true
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
	if u := l.Message.Usage; u != nil && s.result == nil {
		// A message comes in a line for each of its parts, and each tells what all has used.
		if id := l.Message.ID; id == "" || id != s.turn {
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
	if json.Unmarshal(l.Message.Content, &parts) != nil {
		return
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			s.text = p.Text
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
	if json.Unmarshal(b, &r) != nil {
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
		return cmp.Or(s.trouble, "it ended without a result")
	case s.result.IsError || strings.HasPrefix(s.result.Subtype, "error"):
		return cmp.Or(s.result.Result, strings.Join(s.result.Errors, "; "), strings.ReplaceAll(s.result.Subtype, "_", " "))
	}
	return ""
}
