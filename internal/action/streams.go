package action

import (
	"cmp"
	"encoding/json"
)

// This file reads the lines of codex (`codex exec --json`) and of gemini
// (`--output-format stream-json`).

// otherLine is a line of either.
type otherLine struct {
	// of codex
	Thread string `json:"thread_id"`
	Item   struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Command string          `json:"command"`
		Server  string          `json:"server"`
		Tool    string          `json:"tool"`
		Changes json.RawMessage `json:"changes"`
	} `json:"item"`
	Usage struct {
		Input  int64 `json:"input_tokens"` // with those of the cache
		Cached int64 `json:"cached_input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`

	// of gemini
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	Delta      bool            `json:"delta"`
	ToolName   string          `json:"tool_name"`
	Parameters json.RawMessage `json:"parameters"`
	Severity   string          `json:"severity"`
	Status     string          `json:"status"`
	Stats      struct {
		Total  int64 `json:"total_tokens"`
		Input  int64 `json:"input_tokens"` // with those of the cache
		Cached int64 `json:"cached"`
		Output int64 `json:"output_tokens"`
	} `json:"stats"`

	// of both
	Message string `json:"message"`
}

// other takes a line that claude has not.
func (s *stream) other(kind string, b []byte) {
	var l otherLine
	if json.Unmarshal(b, &l) != nil {
		return
	}
	switch kind {
	case "thread.started":
		s.session = l.Thread
	case "item.completed":
		s.codexItem(&l)
	case "turn.completed":
		s.usage.InputTokens += max(0, l.Usage.Input-l.Usage.Cached)
		s.usage.CacheRead += l.Usage.Cached
		s.usage.OutputTokens += l.Usage.Output
		s.usage.Turns++
		s.result = &resultLine{Result: s.text}
	case "turn.failed":
		s.result = &resultLine{IsError: true, Result: cmp.Or(l.Error.Message, s.trouble, "the turn failed")}
	case "message":
		if l.Role == "assistant" {
			s.geminiMessage(&l)
		}
	case "tool_use":
		s.endPart()
		s.say(Message{Tool: l.ToolName, Input: l.Parameters})
	case "error":
		if l.Severity != "warning" {
			s.trouble = l.Message
		}
	}
}

// codexItem takes what codex has said or done.
func (s *stream) codexItem(l *otherLine) {
	switch it := &l.Item; it.Type {
	case "agent_message":
		s.text = it.Text
		s.say(Message{Text: it.Text})
	case "command_execution":
		input, _ := json.Marshal(map[string]string{"command": it.Command}) // of a text: it cannot fail
		s.say(Message{Tool: "command", Input: input})
	case "file_change":
		s.say(Message{Tool: it.Type, Input: it.Changes})
	case "mcp_tool_call":
		s.say(Message{Tool: it.Server + "." + it.Tool})
	}
}

// geminiMessage takes a message, or a part of one: parts follow each other until something
// else does.
func (s *stream) geminiMessage(l *otherLine) {
	if !l.Delta {
		s.endPart()
	}
	s.part.WriteString(l.Content)
	s.text = s.part.String()
	if !l.Delta {
		s.endPart()
	}
}

// endPart tells of a message that has come in parts.
func (s *stream) endPart() {
	if s.part.Len() > 0 {
		s.say(Message{Text: s.part.String()})
		s.part.Reset()
	}
}

// geminiResult takes the last line of gemini.
func (s *stream) geminiResult(b []byte) {
	var l otherLine
	if json.Unmarshal(b, &l) != nil {
		return
	}
	s.endPart()
	s.usage.InputTokens, s.usage.CacheRead = max(0, l.Stats.Input-l.Stats.Cached), l.Stats.Cached
	s.usage.OutputTokens = max(l.Stats.Output, l.Stats.Total-l.Stats.Input) // thoughts are in the total alone
	s.result = &resultLine{Result: s.text}
	if l.Status != "success" {
		s.result = &resultLine{IsError: true, Result: cmp.Or(l.Error.Message, s.trouble, l.Status)}
	}
}
