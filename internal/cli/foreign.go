package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/workflow"
)

// daguKeys are the keys that Dagu has and our workflows do not: of a file, and of a step.
var daguKeys = map[string][]string{
	"file": {"schedule", "handlerOn", "handler_on", "maxActiveSteps", "max_active_steps", "maxActiveRuns", "histRetentionDays", "hist_retention_days", "restartWaitSec", "mailOn", "delaySec"},
	"step": {"depends", "executor", "retryPolicy", "retry_policy", "repeatPolicy", "repeat_policy", "continueOn", "continue_on", "precondition", "preconditions", "signalOnStop"},
}

// foreign is what a file is that belongs to another tool, and what to do with it here.
type foreign struct{ what, instead string }

const (
	inComingFrom = "bide docs coming-from has what each part of it becomes in bide"
	asSteps      = "write its commands as steps, shell: COMMAND: bide init makes a first workflow"
	asCommand    = "bide exec --attempts 3 -- ./FILE runs it, if it has execute permission, or -- PROGRAM FILE with the program that reads it, such as python3; a step of a workflow runs it as shell: ./FILE"
	asModel      = "name it with --model: bide simulate FILE --model MODEL"
)

// foreignNames are files of other tools by their names, in lower case.
var foreignNames = map[string]foreign{
	"makefile": {"a makefile", inComingFrom}, "gnumakefile": {"a makefile", inComingFrom},
	"justfile": {"a justfile", inComingFrom}, ".justfile": {"a justfile", inComingFrom},
	"taskfile.yml": {"a Taskfile", inComingFrom}, "taskfile.yaml": {"a Taskfile", inComingFrom}, "taskfile.dist.yml": {"a Taskfile", inComingFrom},
	"crontab": {"a crontab", "keep it: its lines start bide run FILE, or bide exec -- COMMAND for one command"}, ".gitlab-ci.yml": {"a file of GitLab CI", inComingFrom},
	"jenkinsfile": {"a Jenkinsfile", inComingFrom}, "procfile": {"a Procfile", asSteps}, "snakefile": {"a Snakefile", inComingFrom},
	"azure-pipelines.yml": {"a file of Azure Pipelines", asSteps}, "dockerfile": {"a Dockerfile", asSteps},
}

// foreignExtensions are the extensions of files of other tools.
var foreignExtensions = map[string]foreign{
	".mk": {"a makefile", inComingFrom}, ".just": {"a justfile", inComingFrom}, ".groovy": {"a Jenkinsfile", inComingFrom},
}

// aScript is what a script of another program is.
var aScript = foreign{"a script", asCommand}

// ofAnotherTool says which other tool a file belongs to, so that no workflow can be read from it;
// the zero value if it may belong to bide, Prodigy or GitHub.
func ofAnotherTool(path string, text []byte) foreign {
	base := filepath.Base(path)
	if f, ok := foreignNames[strings.ToLower(base)]; ok {
		return f
	}
	switch f, ok := foreignExtensions[filepath.Ext(base)]; {
	case ok:
		return f
	case slices.Contains(dataflow.ScriptExtensions, filepath.Ext(base)):
		return aScript
	case isCrontab(text):
		return foreignNames["crontab"]
	case bytes.HasPrefix(text, []byte("#!")):
		return aScript
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return foreign{}
	}
	top := doc.Content[0]
	if top.Kind == yaml.SequenceNode && len(top.Content) > 0 && hasAll(top.Content[0], "hosts") {
		return foreign{"a playbook of Ansible", asSteps}
	}
	if top.Kind != yaml.MappingNode || member(top, "commands") != nil || member(top, "map") != nil {
		return foreign{}
	}
	steps := member(top, "steps")
	switch {
	case hasAll(top, "StartAt", "States"):
		return foreign{"a state machine of Step Functions", inComingFrom}
	case hasAll(top, "apiVersion", "kind"):
		return foreign{"a manifest of Kubernetes", asSteps}
	case hasAll(top, "deployments") && steps == nil && anyValue(top, func(n *yaml.Node) bool {
		return n.Kind == yaml.SequenceNode && slices.ContainsFunc(n.Content, func(d *yaml.Node) bool { return hasKey(d, []string{"entrypoint", "flow_name", "work_pool"}) })
	}):
		return foreign{"a file of deployments of Prefect", inComingFrom}
	case hasAll(top, "version", "tasks"):
		return foreignNames["taskfile.yml"]
	case hasAll(top, "version", "jobs") && member(top, "on") == nil:
		return foreign{"a file of CircleCI", inComingFrom}
	case hasAll(top, "services") && member(top, "jobs") == nil && steps == nil:
		return foreign{"a file of Docker Compose", asSteps}
	case hasAll(top, "scripts") && base == "package.json":
		return foreign{"a package.json", asSteps}
	case steps == nil && anyValue(top, func(n *yaml.Node) bool { return hasAll(n, "script") }):
		return foreignNames[".gitlab-ci.yml"]
	case steps == nil:
		return foreign{}
	case steps.Kind == yaml.MappingNode && anyValue(steps, func(n *yaml.Node) bool { return hasKey(n, []string{"failures", "latency"}) }):
		return foreign{"a model of bide simulate", asModel}
	case steps.Kind != yaml.SequenceNode:
		return foreign{}
	case hasKey(top, daguKeys["file"]) || slices.ContainsFunc(steps.Content, func(n *yaml.Node) bool { return hasKey(n, daguKeys["step"]) }):
		return foreign{"a file of Dagu", inComingFrom}
	}
	return foreign{}
}

// loadWorkflow reads a workflow. Of a file that has errors because it belongs to another tool,
// that is the only problem.
func loadWorkflow(path string, opt workflow.Options) (*workflow.File, diag.List) {
	file, problems := workflow.Load(path, opt)
	read := opt.ReadFile
	if read == nil {
		read = os.ReadFile
	}
	if !problems.HasErrors() {
		return file, problems
	}
	text, err := read(path)
	if err != nil {
		return file, problems
	}
	if f := ofAnotherTool(path, text); f.what != "" {
		problems = nil
		problems.Errorf(diag.Pos{File: path, Line: 1, Column: 1}, "other-tool", "this is %s, and no workflow of bide", f.what).Suggest("%s", f.instead)
		return nil, problems
	}
	return file, problems
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

// hasAll reports whether a node is a mapping with all of some keys.
func hasAll(n *yaml.Node, keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return member(n, key) == nil })
}

// anyValue reports whether a value of a mapping is as asked.
func anyValue(n *yaml.Node, is func(*yaml.Node) bool) bool {
	for i := 1; i < len(n.Content); i += 2 {
		if is(n.Content[i]) {
			return true
		}
	}
	return false
}

// hasKey reports whether a mapping has one of some keys.
func hasKey(n *yaml.Node, keys []string) bool {
	return n.Kind == yaml.MappingNode && slices.ContainsFunc(keys, func(key string) bool { return member(n, key) != nil })
}
