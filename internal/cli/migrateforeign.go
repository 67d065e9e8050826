package cli

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/pattern"
)

// daguKeys are the keys that Dagu has and our workflows do not: of a file, and of a step.
var daguKeys = map[string][]string{
	"file": {"schedule", "handlerOn", "handler_on", "maxActiveSteps", "max_active_steps", "maxActiveRuns", "histRetentionDays", "hist_retention_days", "restartWaitSec", "mailOn", "delaySec"},
	"step": {"depends", "executor", "retryPolicy", "retry_policy", "repeatPolicy", "repeat_policy", "continueOn", "continue_on", "precondition", "preconditions", "signalOnStop"},
}

// ofAnotherTool says which other tool a file belongs to, so that migrate cannot read it; "" if
// it may belong to bide, Prodigy or GitHub.
func ofAnotherTool(path string, text []byte) string {
	base := filepath.Base(path)
	name := strings.ToLower(strings.TrimSuffix(base, filepath.Ext(base)))
	switch {
	case name == "makefile" || name == "gnumakefile" || filepath.Ext(base) == ".mk":
		return "a makefile"
	case name == "justfile" || name == ".justfile" || filepath.Ext(base) == ".just":
		return "a justfile"
	case name == "taskfile" || name == "taskfile.dist":
		return "a Taskfile"
	case name == "crontab" || isCrontab(text):
		return "a crontab"
	case filepath.Ext(base) == ".sh" || bytes.HasPrefix(text, []byte("#!")):
		return "a script"
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return ""
	}
	top := doc.Content[0]
	switch steps := member(top, "steps"); {
	case member(top, "commands") != nil || member(top, "map") != nil:
		return ""
	case member(top, "tasks") != nil && member(top, "version") != nil:
		return "a Taskfile"
	case steps == nil || steps.Kind != yaml.SequenceNode:
		return ""
	case hasKey(top, daguKeys["file"]) || slices.ContainsFunc(steps.Content, func(n *yaml.Node) bool { return hasKey(n, daguKeys["step"]) }):
		return "a file of Dagu"
	}
	return ""
}

// isCrontab reports whether a text is a crontab. It looks at the first line that is no comment
// and sets no variable: does it begin with five fields of times, or with a word such as
// @daily?
func isCrontab(text []byte) bool {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || cronVariable().MatchString(line) {
			continue
		}
		return cronLine().MatchString(line)
	}
	return false
}

var (
	cronVariable = pattern.Lazy(`^[A-Za-z_]+ *=`)
	cronLine     = pattern.Lazy(`^(@(reboot|yearly|annually|monthly|weekly|daily|hourly)|([0-9*][-0-9*/,]*[ \t]+){3}[0-9a-zA-Z*][-0-9a-zA-Z*/,]*[ \t]+[0-9a-zA-Z*][-0-9a-zA-Z*/,]*)[ \t]+\S`)
)

// hasKey reports whether a mapping has one of some keys.
func hasKey(n *yaml.Node, keys []string) bool {
	return n.Kind == yaml.MappingNode && slices.ContainsFunc(keys, func(key string) bool { return member(n, key) != nil })
}
