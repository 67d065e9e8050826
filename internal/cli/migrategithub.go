package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
	"go.yaml.in/yaml/v3"
)

// githubKeys are the keys of a job of GitHub Actions, and of its steps, that have a
// twin here, by name.
var githubKeys = map[string]string{
	"name": "name", "id": "id", "run": "shell", "env": "env", "working-directory": "working_dir", "continue-on-error": "continue_on_error", "timeout-minutes": "timeout",
}

// githubInstead says what to write for keys that have no twin.
var githubInstead = map[string]string{
	"if":       "left out; write it as when:, always() as finally:",
	"needs":    "left out; run the workflow of that job before",
	"shell":    "left out; a step is read by sh: write bash -c for another",
	"strategy": "left out; write a map over its list",
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
	m := &migrated{Path: path, Changed: true, github: true, Done: []workflow.Rewrite{}, Left: []workflow.Rewrite{}}
	job := member(jobs, name)
	if job.Kind != yaml.MappingNode || member(job, "steps") == nil {
		return nil, usagef("%s: the job %s has no steps", path, name)
	}
	out := m.ofGitHub(job, map[string]bool{"steps": true})
	if member(out, "name") == nil {
		out.Content = append([]*yaml.Node{yamlWord("name"), yamlWord(name)}, out.Content...)
	}
	inheritEnv(out, member(doc.Content[0], "env"))
	steps := &yaml.Node{Kind: yaml.SequenceNode}
	for _, s := range member(job, "steps").Content {
		if member(s, "run") == nil {
			m.leave(s, "a step without run:", "left out; write what it does as shell:")
			continue
		}
		steps.Content = append(steps.Content, m.ofGitHub(s, nil))
	}
	if len(steps.Content) == 0 {
		return nil, usagef("%s: no step of the job %s has run:, so there is nothing to write", path, name)
	}
	out.Content = append(out.Content, yamlWord("commands"), steps)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(out); err != nil {
		return nil, err
	}
	m.text = b.Bytes()
	_, _, problems := parseToMigrate(path, m.text)
	// What GitHub's expressions become is for a person to say: they are reported as left.
	problems = slices.DeleteFunc(problems, func(p diag.Problem) bool { return p.Code == "foreign-expression" })
	if problems.HasErrors() {
		return nil, fmt.Errorf("%s: the job cannot be written as a workflow: %w", path, problems)
	}
	return m, nil
}

// ofGitHub writes the keys of a job or a step by their names here; what has no twin is
// left out and reported.
func (m *migrated) ofGitHub(n *yaml.Node, apart map[string]bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		name := githubKeys[key.Value]
		switch {
		case apart[key.Value]:
			continue
		case name == "", key.Value == "continue-on-error" && val.Tag != "!!bool", key.Value == "timeout-minutes" && val.Tag != "!!int":
			m.leave(key, key.Value, cmp.Or(githubInstead[key.Value], "left out"))
			continue
		case key.Value == "timeout-minutes":
			val = yamlWord(val.Value + "m")
		case strings.Contains(val.Value, "${{"):
			m.leave(key, key.Value, "kept with its expression ${{ … }}, which only GitHub knows: put a value, ${item} or ${PARAMETER} in its place")
		}
		if key.Value == "run" {
			val = githubRun(val)
		}
		out.Content = append(out.Content, yamlWord(name), val)
	}
	return out
}

// githubRun is a text of commands that means here what it does on GitHub: there it ends at
// the first that fails, and says values to later steps in another file.
func githubRun(val *yaml.Node) *yaml.Node {
	text := strings.ReplaceAll(val.Value, "GITHUB_OUTPUT", "BIDE_OUTPUT")
	switch trimmed := strings.TrimSpace(text); {
	case strings.HasPrefix(trimmed, "set -e"):
	case strings.Contains(trimmed, "\n"):
		text = "set -e\n" + text
	case strings.Contains(trimmed, ";"):
		text = "set -e; " + text
	}
	out := *val
	out.Value = text
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

// leave notes what is not written as it was.
func (m *migrated) leave(at *yaml.Node, from, to string) {
	m.Left = append(m.Left, workflow.Rewrite{Line: at.Line, From: from, To: to})
}

func member(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func yamlWord(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
