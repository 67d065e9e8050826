package engine_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// standIn is a stand-in for the claude CLI: it speaks the same stream of JSON
// lines. What it does is said by the first word of its prompt, the last
// argument:
//
//	/say TEXT      answers TEXT
//	/sh TEXT       runs a shell text and answers its output, or fails as it did
//	/fail TEXT     an error result
//	/crash TEXT    exit status 3 and TEXT on standard error, no result
//	/mute          ends well without a result
//	/limit FILE S  the first time: a usage limit that ends in S seconds; then "open again"
//	/env NAME      answers a variable of its environment, "unset" without
//	/argv          answers its arguments as JSON
//	/stdin         answers what it read from standard input
//	/tool          uses a tool, then answers "used"
//
// Each start is a line in the file agent.log of $EV.
func standIn() int {
	prompt := os.Args[len(os.Args)-1]
	logStart(prompt)
	word, rest, _ := strings.Cut(strings.TrimSpace(prompt), " ")
	say("system", map[string]any{"subtype": "init", "session_id": "session-1"})
	switch word {
	case "/say":
		return answer(rest)
	case "/sh":
		out, err := exec.Command("sh", "-c", rest).CombinedOutput()
		if err != nil {
			return failure(fmt.Sprintf("%v: %s", err, out))
		}
		return answer(strings.TrimRight(string(out), "\n"))
	case "/fail":
		return failure(rest)
	case "/crash":
		fmt.Fprintln(os.Stderr, rest)
		return 3
	case "/mute":
		return 0
	case "/limit":
		return limit(rest)
	case "/env":
		if v, ok := os.LookupEnv(rest); ok {
			return answer(v)
		}
		return answer("unset")
	case "/argv":
		b, err := json.Marshal(os.Args[1 : len(os.Args)-1])
		if err != nil {
			return failure(err.Error())
		}
		return answer(string(b))
	case "/stdin":
		b, err := io.ReadAll(os.Stdin)
		if err != nil {
			return failure(err.Error())
		}
		return answer(fmt.Sprintf("%q", b))
	case "/tool":
		say("assistant", map[string]any{"message": map[string]any{"content": []any{
			map[string]any{"type": "tool_use", "name": "Bash", "input": map[string]any{"command": "ls"}}}}})
		return answer("used")
	}
	return answer("I was asked: " + prompt)
}

func say(typ string, fields map[string]any) {
	fields["type"] = typ
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", b)
}

func result(fields map[string]any) {
	fields["session_id"], fields["num_turns"], fields["total_cost_usd"] = "session-1", 2, 0.25
	fields["usage"] = map[string]any{"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}
	say("result", fields)
}

func answer(text string) int {
	fmt.Println("a warning that is no JSON")
	say("assistant", map[string]any{"message": map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}})
	result(map[string]any{"subtype": "success", "is_error": false, "result": text})
	return 0
}

func failure(text string) int {
	result(map[string]any{"subtype": "error_during_execution", "is_error": true, "result": text})
	return 1
}

func limit(rest string) int {
	file, seconds, _ := strings.Cut(rest, " ")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return answer("open again")
	}
	f.Close()
	var n int
	if _, err := fmt.Sscan(seconds, &n); err != nil {
		return failure(err.Error())
	}
	say("rate_limit_event", map[string]any{"rate_limit_info": map[string]any{"status": "rejected", "resetsAt": time.Now().Unix() + int64(n)}})
	return failure("You've hit your limit")
}

func logStart(prompt string) {
	dir := os.Getenv("EV")
	if dir == "" {
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(f, "%s\n", strings.ReplaceAll(prompt, "\n", "\\n"))
	if err := f.Close(); err != nil {
		panic(err)
	}
}
