package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"go.yaml.in/yaml/v3"
)

// githubJobKeys and githubStepKeys map the keys of a job of GitHub Actions, and of its steps,
// to our names. They have only keys that have a counterpart here.
var (
	githubJobKeys  = map[string]string{"name": "name", "env": "env", "timeout-minutes": "timeout"}
	githubStepKeys = map[string]string{"name": "name", "id": "id", "run": "shell", "env": "env", "working-directory": "working_dir", "continue-on-error": "continue_on_error", "timeout-minutes": "timeout"}
)

// githubInstead says what to write for keys that have no counterpart.
var githubInstead = map[string]string{
	"on":                "left out: start it with bide run",
	"if":                "left out: the job runs always",
	"needs":             "left out; run the workflow of that job before",
	"continue-on-error": "left out: the exit status of bide run tells of a failure",
}

// githubJob turns a job of a GitHub Actions workflow into a workflow; nil if the text is no
// such workflow. Without a name it takes the only job.
func githubJob(path string, text []byte, name string) (*migrated, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return nil, nil // the reader of workflows reports what is wrong
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
	m := &migrated{Path: path, Changed: true, github: true, text: text, Done: []workflow.Rewrite{}, Left: []workflow.Rewrite{}}
	job := member(jobs, name)
	if job.Kind != yaml.MappingNode || member(job, "steps") == nil {
		return nil, usagef("%s: the job %s has no steps", path, name)
	}
	var above []string // the comments for the next key or step
	scope := githubScope{env: map[string]string{}, windows: strings.HasPrefix(scalar(member(job, "runs-on")), "windows")}
	for i := 0; i+1 < len(top.Content); i += 2 {
		switch key := top.Content[i]; key.Value {
		case "name", "jobs", "env", "defaults":
		default:
			above = append(above, m.leave(key, written(key, top.Content[i+1]), cmp.Or(githubInstead[key.Value], "left out")))
		}
	}
	runRetried(member(job, "steps"), scope.windows)
	hidden := hiddenReferences{}
	matrix, why := matrixOf(job, hidden)
	if matrix != nil {
		matrix.hideIn(job)
	}
	if why != "" {
		above = append(above, m.leave(member(job, "strategy"), "strategy", why))
	}
	out := m.ofGitHub(job, githubJobKeys, map[string]bool{"steps": true, "defaults": true, "strategy": true})
	for _, n := range []*yaml.Node{top, job} {
		scope.defaults(n)
		scope.variables(member(n, "env"))
	}
	scope.said(member(job, "steps"))
	scope.hide(member(job, "steps").Content, hidden)
	if member(out, "name") == nil {
		out.Content = append([]*yaml.Node{yamlWord("name"), yamlWord(name)}, out.Content...)
	}
	if env := member(top, "env"); env != nil && hasExpression(env) {
		above = append(above, m.kept(env)...)
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
		retried := isRetryAction(s)
		apart := map[string]bool{"shell": true, "if": true, "uses": retried, "with": retried, "timeout-minutes": retried && isWhole(member(s, "timeout-minutes"))}
		step := m.ofGitHub(s, githubStepKeys, apart)
		m.condition(s, step, matrix)
		text, comments := scope.run(m, s, member(s, "run"))
		*member(step, "shell") = *text
		if retried {
			comments = append(comments, scope.retried(m, s, step)...)
		}
		if dir := scope.dir; dir != nil && !retried && member(s, "working-directory") == nil {
			comments = append(comments, m.kept(dir)...)
			step.Content = append(step.Content, yamlWord("working_dir"), literalTexts(dir))
		}
		if step.HeadComment != "" {
			above = append(above, step.HeadComment)
		}
		step.HeadComment = strings.Join(append(above, comments...), "\n")
		above = nil
		steps.Content = append(steps.Content, step)
	}
	if len(steps.Content) == 0 {
		return nil, usagef("%s: no step of the job %s has run:, so there is nothing to write", path, name)
	}
	hidden.show(steps)
	foot := strings.Join(above, "\n")
	if matrix != nil {
		out.FootComment = foot // the encoder breaks the file with one below a list in a map
		out.HeadComment = strings.Trim(strings.Join(append([]string{out.HeadComment}, matrix.write(m, out, steps)...), "\n"), "\n")
	} else {
		steps.FootComment = foot
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
	// A person has to say what GitHub's expressions become: they are reported as left.
	problems = slices.DeleteFunc(problems, func(p diag.Problem) bool { return p.Code == "foreign-expression" })
	if problems.HasErrors() {
		return nil, fmt.Errorf("%s: the job cannot be written as a workflow: %w", path, problems)
	}
	return m, nil
}

// condition writes when a step runs. It writes a condition that only GitHub can decide as
// never: a step that deploys must not run because its condition was not understood.
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

// withoutRun describes a step that has no command.
func withoutRun(s *yaml.Node) string {
	if uses := member(s, "uses"); uses != nil {
		return "uses: " + uses.Value
	}
	return "a step without run:"
}

// kept records the expressions of GitHub in a value, which stay as they are, and returns
// comments that say what to write for each.
func (m *migrated) kept(n *yaml.Node) (comments []string) {
	told := map[string]bool{}
	var visit func(*yaml.Node)
	visit = func(n *yaml.Node) {
		for _, text := range githubExpression().FindAllString(n.Value, -1) {
			if told[text] {
				continue
			}
			told[text] = true
			comments = append(comments, m.leave(n, text, "kept, and bide does not read it: "+workflow.WrittenHere(text)))
			last := &m.Left[len(m.Left)-1]
			last.Line, last.Column = placeOf(text, m.text, n.Line)
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	visit(n)
	return comments
}

// placeOf is the line and the column of a text in a file, at a line or behind it.
func placeOf(text string, file []byte, from int) (line, column int) {
	for at := range bytes.Lines(file) {
		if line++; line < from {
			continue
		}
		if before, _, ok := strings.Cut(string(at), text); ok {
			return line, utf8.RuneCountInString(before) + 1
		}
	}
	return from, 0
}

// ofGitHub writes the keys of a job or a step by our names. It leaves out and reports keys
// without a counterpart, and lists them in a comment above the result.
func (m *migrated) ofGitHub(n *yaml.Node, names map[string]string, apart map[string]bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	var comments []string
	defer func() { out.HeadComment = strings.Join(comments, "\n") }()
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		name := names[key.Value]
		switch {
		case apart[key.Value]:
			continue
		case name == "", key.Value == "continue-on-error" && val.Tag != "!!bool", key.Value == "timeout-minutes" && !isWhole(val):
			instead := githubInstead[key.Value]
			if name != "" {
				instead = "left out; write " + name + ": with a value that is known here"
			}
			comments = append(comments, m.leave(key, written(key, val), cmp.Or(instead, "left out")))
			continue
		case key.Value == "timeout-minutes":
			val = yamlWord(val.Value + "m")
		case hasExpression(val):
			comments = append(comments, m.kept(val)...)
		}
		if key.Value == "env" || key.Value == "working-directory" {
			val = literalTexts(val)
		}
		out.Content = append(out.Content, yamlWord(name), val)
	}
	return out
}

// isWhole reports whether a value is a whole number.
func isWhole(n *yaml.Node) bool { return n != nil && n.Tag == "!!int" }

// hasExpression reports whether a value, or one of its members, has an expression of GitHub.
func hasExpression(n *yaml.Node) bool {
	return strings.Contains(n.Value, "${{") || slices.ContainsFunc(n.Content, hasExpression)
}

// literalTexts escapes a value so that bide reads no reference in it, as GitHub reads none.
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

// unaliased replaces the aliases in a value by what they refer to.
func unaliased(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return unaliased(n.Alias)
	}
	out := *n
	out.Anchor, out.Content = "", value.Map(n.Content, unaliased)
	return &out
}

// inheritEnv adds the variables of a workflow to its job; the job's own win.
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

// githubComment is how a comment about something that GitHub has begins.
const githubComment = "# GitHub's "

// leave records what could not be written as it was, and returns a comment about it for the
// file.
func (m *migrated) leave(at *yaml.Node, from, to string) string {
	m.Left = append(m.Left, workflow.Rewrite{Line: at.Line, From: from, To: to})
	return githubComment + diag.Clip(oneLine(from), 120) + " is " + to
}

// written is a key with its value if that is one word or line.
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

// scalar is the value of a scalar node; "" for others.
func scalar(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

func yamlWord(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
