package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"go.yaml.in/yaml/v3"
)

// githubJobKeys and githubStepKeys are the keys of a job of GitHub Actions, and of its
// steps, that have a twin here, by name.
var (
	githubJobKeys  = map[string]string{"name": "name", "env": "env", "timeout-minutes": "timeout"}
	githubStepKeys = map[string]string{"name": "name", "id": "id", "run": "shell", "env": "env", "working-directory": "working_dir", "continue-on-error": "continue_on_error", "timeout-minutes": "timeout"}
)

// githubInstead says what to write for keys that have no twin.
var githubInstead = map[string]string{
	"on":                "left out: start it with bide run",
	"if":                "left out: the job runs always",
	"needs":             "left out; run the workflow of that job before",
	"continue-on-error": "left out: the exit status of bide run tells of a failure",
}

// githubJob gives a job of a workflow of GitHub Actions as a workflow; nil where the text
// is none. Without a name it is the only job.
func githubJob(path string, text []byte, name string) (*migrated, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return nil, nil // what is wrong with it is told by the reader of workflows
	}
	jobs := member(doc.Content[0], "jobs")
	if jobs == nil || jobs.Kind != yaml.MappingNode || member(doc.Content[0], "commands") != nil {
		return nil, nil
	}
	var names []string
	for i := 0; i < len(jobs.Content); i += 2 {
		names = append(names, jobs.Content[i].Value)
	}
	switch {
	case len(names) == 1 && name == "":
		name = names[0]
	case name == "":
		return nil, usagef("%s has %d jobs, and a workflow here is one job; choose one: --job %s", path, len(names), strings.Join(names, ", --job "))
	case !slices.Contains(names, name):
		return nil, usagef("%s has no job %s; it has %s", path, name, strings.Join(names, ", "))
	}
	top := unaliased(doc.Content[0])
	jobs = member(top, "jobs")
	m := &migrated{Path: path, Changed: true, github: true, Done: []workflow.Rewrite{}, Left: []workflow.Rewrite{}}
	job := member(jobs, name)
	if job.Kind != yaml.MappingNode || member(job, "steps") == nil {
		return nil, usagef("%s: the job %s has no steps", path, name)
	}
	var above []string // what is to be told above the next key or step
	around := githubAround{env: map[string]string{}, windows: strings.HasPrefix(scalar(member(job, "runs-on")), "windows")}
	for i := 0; i+1 < len(top.Content); i += 2 {
		switch key := top.Content[i]; key.Value {
		case "name", "jobs", "env", "defaults":
		default:
			above = append(above, m.leave(key, written(key, top.Content[i+1]), cmp.Or(githubInstead[key.Value], "left out")))
		}
	}
	matrix, why := matrixOf(job)
	if matrix != nil {
		matrix.hideIn(job)
	}
	if why != "" {
		above = append(above, m.leave(member(job, "strategy"), "strategy", why))
	}
	out := m.ofGitHub(job, githubJobKeys, map[string]bool{"steps": true, "defaults": true, "strategy": true})
	for _, n := range []*yaml.Node{top, job} {
		around.defaults(n)
		around.variables(member(n, "env"))
	}
	around.said(member(job, "steps"))
	if member(out, "name") == nil {
		out.Content = append([]*yaml.Node{yamlWord("name"), yamlWord(name)}, out.Content...)
	}
	if env := member(top, "env"); env != nil && hasExpression(env) {
		above = append(above, m.leave(env, "env", keptExpression))
	}
	inheritEnv(out, literalTexts(member(top, "env")))
	out.HeadComment = strings.Trim(strings.Join(append(above, out.HeadComment), "\n"), "\n")
	above = nil
	steps := &yaml.Node{Kind: yaml.SequenceNode}
	for _, s := range member(job, "steps").Content {
		if member(s, "run") == nil {
			above = append(above, m.leave(s, withoutRun(s), "left out; write what it does as shell:"))
			continue
		}
		step := m.ofGitHub(s, githubStepKeys, map[string]bool{"shell": true, "if": true})
		m.condition(s, step, matrix)
		text, told := around.run(m, s, member(s, "run"))
		*member(step, "shell") = *text
		if dir := around.dir; dir != nil && member(s, "working-directory") == nil {
			if hasExpression(dir) {
				told = append(told, m.leave(dir, "working-directory", keptExpression))
			}
			step.Content = append(step.Content, yamlWord("working_dir"), literalTexts(dir))
		}
		step.HeadComment = strings.Join(slices.Concat(above, []string{step.HeadComment}, told), "\n")
		step.HeadComment = strings.Trim(step.HeadComment, "\n")
		above = nil
		steps.Content = append(steps.Content, step)
	}
	if len(steps.Content) == 0 {
		return nil, usagef("%s: no step of the job %s has run:, so there is nothing to write", path, name)
	}
	steps.FootComment = strings.Join(above, "\n")
	if matrix != nil {
		out.HeadComment = strings.Trim(strings.Join(append([]string{out.HeadComment}, matrix.write(m, out, steps)...), "\n"), "\n")
	} else {
		out.Content = append(out.Content, yamlWord("commands"), steps)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(out); err != nil {
		return nil, err
	}
	m.text = b.Bytes()
	slices.SortStableFunc(m.Left, func(a, b workflow.Rewrite) int { return a.Line - b.Line })
	_, _, problems := parseToMigrate(path, m.text)
	// What GitHub's expressions become is for a person to say: they are reported as left.
	problems = slices.DeleteFunc(problems, func(p diag.Problem) bool { return p.Code == "foreign-expression" })
	if problems.HasErrors() {
		return nil, fmt.Errorf("%s: the job cannot be written as a workflow: %w", path, problems)
	}
	return m, nil
}

// condition writes when a step runs. What only GitHub can decide is written as never: a step
// that deploys must not run because its condition was not understood.
func (m *migrated) condition(s, step *yaml.Node, matrix *githubMatrix) {
	cond := member(s, "if")
	if cond == nil {
		return
	}
	text := strings.TrimSpace(cond.Value)
	if inner, ok := strings.CutPrefix(text, "${{"); ok {
		text = strings.TrimSpace(strings.TrimSuffix(inner, "}}"))
	}
	if when := matrix.condition(text); when != "" {
		step.Content = append(step.Content, yamlWord("when"), yamlWord(when))
		return
	}
	to := "written as when: false, so the step does not run: write its condition there"
	switch text {
	case "success()", "true":
		return
	case "false":
		to = ""
	case "always()", "!cancelled()", "success() || failure()":
		to = "left out: the step runs where those before it have succeeded; write it under finally: where it is to run after a failure too"
	case "failure()":
		to = "written as when: false, so the step does not run: write it as on_failure: of the step that may fail"
	}
	if to == "" || strings.HasPrefix(to, "written") {
		step.Content = append(step.Content, yamlWord("when"), yamlWord("false"))
	}
	if to != "" {
		step.HeadComment = strings.Trim(step.HeadComment+"\n"+m.leave(cond, "if: "+cond.Value, to), "\n")
	}
}

// withoutRun names a step that has no command.
func withoutRun(s *yaml.Node) string {
	if uses := member(s, "uses"); uses != nil {
		return "uses: " + uses.Value
	}
	return "a step without run:"
}

const keptExpression = "kept with its expression ${{ … }}, which only GitHub knows: put a value, ${item} or ${PARAMETER} in its place"

// ofGitHub writes the keys of a job or a step by their names here; what has no twin is
// left out, reported, and told in a comment above what is written.
func (m *migrated) ofGitHub(n *yaml.Node, names map[string]string, apart map[string]bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	var told []string
	defer func() { out.HeadComment = strings.Join(told, "\n") }()
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		name := names[key.Value]
		switch {
		case apart[key.Value]:
			continue
		case name == "", key.Value == "continue-on-error" && val.Tag != "!!bool", key.Value == "timeout-minutes" && val.Tag != "!!int":
			instead := githubInstead[key.Value]
			if name != "" {
				instead = "left out; write " + name + ": with a value that is known here"
			}
			told = append(told, m.leave(key, written(key, val), cmp.Or(instead, "left out")))
			continue
		case key.Value == "timeout-minutes":
			val = yamlWord(val.Value + "m")
		case hasExpression(val):
			told = append(told, m.leave(key, key.Value, keptExpression))
		}
		if key.Value == "env" || key.Value == "working-directory" {
			val = literalTexts(val)
		}
		out.Content = append(out.Content, yamlWord(name), val)
	}
	return out
}

// hasExpression says whether there is an expression of GitHub in a value, or in one of its
// members.
func hasExpression(n *yaml.Node) bool {
	return strings.Contains(n.Value, "${{") || slices.ContainsFunc(n.Content, hasExpression)
}

// literalTexts is a value of which bide reads no reference, as GitHub reads none.
func literalTexts(n *yaml.Node) *yaml.Node {
	if n == nil {
		return nil
	}
	out := *n
	if out.Value = asItIs(n.Value); n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode {
		out.Content = value.Map(n.Content, literalTexts)
	}
	return &out
}

// unaliased is a value in which what is written elsewhere stands where it is used.
func unaliased(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return unaliased(n.Alias)
	}
	out := *n
	out.Anchor, out.Content = "", value.Map(n.Content, unaliased)
	return &out
}

// inheritEnv gives a job the variables of its workflow; its own win.
func inheritEnv(job, env *yaml.Node) {
	if env == nil || env.Kind != yaml.MappingNode {
		return
	}
	own := member(job, "env")
	if own == nil {
		job.Content = append(job.Content, yamlWord("env"), env)
		return
	}
	for i := 0; i+1 < len(env.Content); i += 2 {
		if member(own, env.Content[i].Value) == nil {
			own.Content = append(own.Content, env.Content[i], env.Content[i+1])
		}
	}
}

// leave notes what is not written as it was, and gives the comment that tells so in the
// file.
func (m *migrated) leave(at *yaml.Node, from, to string) string {
	m.Left = append(m.Left, workflow.Rewrite{Line: at.Line, From: from, To: to})
	return "# GitHub's " + diag.Clip(oneLine(from), 120) + " is " + to
}

// written is a key with its value, where that is a word or a line.
func written(key, val *yaml.Node) string {
	if val.Kind != yaml.ScalarNode {
		return key.Value
	}
	return key.Value + ": " + val.Value
}

func member(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// scalar is a value that is a word or a line; "" for others.
func scalar(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

func yamlWord(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
