package action

import "github.com/bide-dev/bide/internal/value"

// Values is a result as a condition on an attempt sees it: output, stderr,
// exit_code, status of an HTTP answer, and result, which is the output as JSON
// where it is JSON, else as it is.
func (r Result) Values() map[string]any {
	m := map[string]any{"output": r.Output, "stderr": r.Stderr, "exit_code": int64(r.ExitCode), "result": r.Output}
	if r.Status != 0 {
		m["status"] = int64(r.Status)
	}
	if v, err := value.Parse([]byte(r.Output)); err == nil {
		m["result"] = v
	}
	return m
}
