package cli

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
	"go.yaml.in/yaml/v3"
)

// retryAction matches the action of GitHub that retries a command, by its present name and the
// one before.
var retryAction = pattern.Lazy(`^nick-(fields|invision)/retry@`)

// isRetryAction reports whether a step retries a command with an action.
func isRetryAction(s *yaml.Node) bool {
	return retryAction().MatchString(scalar(member(s, "uses"))) && member(member(s, "with"), "command") != nil
}

// runRetried gives each step of a job that retries a command with an action the keys of a step
// that runs it.
func runRetried(steps *yaml.Node, windows bool) {
	for _, s := range steps.Content {
		if !isRetryAction(s) {
			continue
		}
		with := member(s, "with")
		shell := &yaml.Node{Kind: yaml.ScalarNode, Value: "bash {0}", Line: with.Line} // it ends at no failure
		switch named := member(with, "shell"); {
		case named == nil && windows:
			shell.Value = "powershell"
		case named != nil && (named.Value == "bash" || named.Value == "sh"):
			shell.Value = named.Value + " {0}"
		case named != nil:
			shell = named
		}
		s.Content = append(s.Content, yamlWord("run"), member(with, "command"), yamlWord("shell"), shell)
	}
}

// retryInputs are the inputs of the action that take a whole number, by the key of a policy.
// Those of "" are read elsewhere.
var retryInputs = map[string]string{"command": "", "shell": "", "on_retry_command": "", "continue_on_error": "",
	"max_attempts": "attempts", "retry_wait_seconds": "initial_delay", "timeout_minutes": "timeout", "timeout_seconds": "timeout",
	"retry_on": "retry_on", "retry_on_exit_code": "retry_on"}

// retryInputInstead says what to write for inputs that have no counterpart.
var retryInputInstead = map[string]string{
	"warning_on_retry":         "left out: bide reports each attempt that failed",
	"polling_interval_seconds": "left out: bide waits for the end of the command without asking for it",
	"new_command_on_retry":     "left out: a command can read the number of the attempt, $BIDE_ATTEMPT",
}

// retried adds to a step what the inputs of the action say: its policy, its timeout, and what
// runs before each further attempt. It returns comments about the rest.
func (g *githubScope) retried(m *migrated, s, step *yaml.Node) (comments []string) {
	with := member(s, "with")
	policy := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	set := func(n *yaml.Node, key string, val *yaml.Node) {
		n.Content = append(n.Content, yamlWord(key), val)
	}
	wait, on := 10, scalar(member(with, "retry_on"))
	for i := 0; i+1 < len(with.Content); i += 2 {
		key, val := with.Content[i], with.Content[i+1]
		name, known := retryInputs[key.Value]
		n, err := strconv.Atoi(val.Value)
		switch {
		case !known:
			comments = append(comments, m.leave(key, written(key, val), cmp.Or(retryInputInstead[key.Value], "left out")))
		case key.Value == "retry_on" && on == "timeout":
			set(policy, "retry_on", yamlWord("timeout"))
		case key.Value == "retry_on" && on == "error":
			set(policy, "abort_on", yamlWord("timeout"))
		case name == "" || key.Value == "retry_on" && on == "any":
		case err != nil || n < 0:
			comments = append(comments, m.leave(key, written(key, val), "left out; write "+name+": with a value that is known here"))
		case key.Value == "retry_wait_seconds":
			wait = n
		case key.Value == "max_attempts":
			set(policy, "attempts", yamlWord(val.Value))
		case key.Value == "retry_on_exit_code":
			set(policy, "retry_on", &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{yamlWord("exit_code"), yamlWord(val.Value)}})
		case key.Value == "timeout_minutes":
			set(step, name, yamlWord(val.Value+"m"))
		default:
			set(step, name, yamlWord(val.Value+"s"))
		}
	}
	set(policy, "backoff", yamlWord("fixed"))
	delay := strconv.Itoa(wait) + "s"
	set(policy, "initial_delay", yamlWord(delay))
	if wait > 30 { // the default bound of a delay
		set(policy, "max_delay", yamlWord(delay))
	}
	if all := member(s, "timeout-minutes"); isWhole(all) {
		set(policy, "deadline", yamlWord(all.Value+"m"))
	}
	set(step, "retry", policy)
	if scalar(member(with, "continue_on_error")) == "true" && member(step, "continue_on_error") == nil {
		set(step, "continue_on_error", yamlWord("true"))
	}
	if first := member(with, "on_retry_command"); first != nil {
		before := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{yamlWord("shell"), yamlWord("sh {0}")}}
		if env := member(s, "env"); env != nil {
			set(before, "env", env)
		}
		text, more := g.run(m, before, first)
		comments = append(comments, more...)
		shell := member(step, "shell")
		shell.Value = "if test \"$BIDE_ATTEMPT\" -gt 1; then (\n" + strings.TrimRight(text.Value, "\n") + "\n) || true; fi\n" + shell.Value
		shell.Style = yaml.LiteralStyle
	}
	return comments
}
