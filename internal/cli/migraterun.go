package cli

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
)

// This file writes the texts of GitHub's steps so that a shell reads the same here as there:
// with the same shell, and with what looks like a reference of ours left to the shell.

// githubScope is what a job and its workflow set for each of the job's steps.
type githubScope struct {
	env        map[string]string // by name; "" for a name that a step sets for later ones
	dir, shell *yaml.Node        // of defaults:, nil if not set
	windows    bool
}

// defaults reads what defaults: sets for steps; an inner one wins.
func (g *githubScope) defaults(n *yaml.Node) {
	if n = member(n, "defaults"); n == nil {
		return
	}
	if run := member(n, "run"); run != nil {
		if dir := member(run, "working-directory"); dir != nil {
			g.dir = dir
		}
		if shell := member(run, "shell"); shell != nil {
			g.shell = shell
		}
	}
}

// variables adds the names of env:.
func (g *githubScope) variables(env *yaml.Node) {
	for i := 0; env != nil && env.Kind == yaml.MappingNode && i+1 < len(env.Content); i += 2 {
		g.env[env.Content[i].Value] = env.Content[i+1].Value
	}
}

// said adds the names that steps set for later ones.
func (g *githubScope) said(steps *yaml.Node) {
	for _, s := range steps.Content {
		maps.Copy(g.env, saidBy(s))
	}
}

// saidBy are the names that a step may set for later ones.
func saidBy(s *yaml.Node) map[string]string {
	names := map[string]string{}
	if run := member(s, "run"); run != nil && githubFiles().MatchString(run.Value) {
		for _, found := range saidName().FindAllStringSubmatch(run.Value, -1) {
			names[found[1]] = ""
		}
	}
	return names
}

var (
	githubFiles  = pattern.Lazy(`GITHUB_(OUTPUT|ENV)\b`)
	saidName     = pattern.Lazy(`\b([A-Za-z_]\w*)(?:=|<<)`)
	githubOwn    = pattern.Lazy(`\$\{?((?:GITHUB|RUNNER|ACTIONS)_\w+|CI\b)`)
	printedTo    = pattern.Lazy(`::(set-output|set-env|add-path|save-state|add-mask)\b`)
	severalLines = pattern.Lazy(`['"\s]([A-Za-z_]\w*<<\S*?)['"]?\s`)
	ownFlags     = pattern.Lazy(`^((?:bash|sh)(?: [-+][\w-]+| pipefail)*) \{0\}$`)
	plainValue   = pattern.Lazy(`^[\w./:@%+,-]+$`)
)

// githubOwnInstead says what to write for variables that GitHub sets.
var githubOwnInstead = map[string]string{
	"GITHUB_ENV":          "written as $BIDE_OUTPUT: the steps after it have ${NAME}; a program that reads its environment has it by env: {NAME: '${NAME}'} at its step",
	"GITHUB_PATH":         "kept, and there is no such file here: write PATH into env:, or the path before the program",
	"GITHUB_STEP_SUMMARY": "kept, and there is no such file here: what a step prints is in bide logs",
	"GITHUB_STATE":        "kept, and there is no such file here",
	"GITHUB_WORKSPACE":    "kept, and is here what the environment has: write ${WORKTREE}, the directory that steps work in",
}

// run returns the text of a step in our form, and comments about what differs.
func (g *githubScope) run(m *migrated, s, val *yaml.Node) (out *yaml.Node, comments []string) {
	text := val.Value
	copied := *val
	out = &copied
	env := map[string]string{}
	for name, value := range g.env {
		env[name] = value
	}
	(&githubScope{env: env}).variables(member(s, "env"))
	var names []string
	for _, found := range githubOwn().FindAllStringSubmatch(text, -1) {
		if name := found[1]; name != "GITHUB_OUTPUT" && !hasName(env, name) && !slices.Contains(names, name) {
			names = append(names, name)
			instead, ok := githubOwnInstead[name]
			if !ok {
				instead = "kept, and is here what the environment has: GitHub sets it"
			}
			comments = append(comments, m.leave(val, "$"+name, instead))
		}
	}
	if found := severalLines().FindStringSubmatch(text); found != nil && githubFiles().MatchString(text) {
		comments = append(comments, m.leave(val, found[1], "kept, and is refused here: a value in $BIDE_OUTPUT has one line; print one of several, and take it with capture:"))
	}
	if found := printedTo().FindStringSubmatch(text); found != nil {
		comments = append(comments, m.leave(val, found[0], "kept, and is here a line that is printed: what is for later steps goes into $BIDE_OUTPUT"))
	}
	text = strings.NewReplacer("GITHUB_OUTPUT", "BIDE_OUTPUT", "GITHUB_ENV", "BIDE_OUTPUT").Replace(text)

	shell, at := "", g.shell
	if own := member(s, "shell"); own != nil {
		at = own
	}
	if at != nil {
		shell = at.Value
	} else if g.windows {
		shell, at = "pwsh", val
	}
	switch shell {
	case "", "bash":
		flags := "-e"
		if shell == "bash" {
			flags = "-eo pipefail"
		}
		t, err := template.Parse(text)
		same := err == nil && t.Portable() && (shell == "" || !action.Piped(text))
		text = forShell(text, env)
		if same {
			text = endsAtFailure(text)
		} else {
			text = inQuotes("bash "+flags+" -c ", text)
		}
	case "sh":
		text = endsAtFailure(forShell(text, env))
	case "python":
		text = inQuotes("python -c ", forProgram(text, env))
	default:
		if own := ownFlags().FindStringSubmatch(shell); own != nil {
			t, err := template.Parse(text)
			text = forShell(text, env)
			if own[1] != "sh" && (own[1] != "bash" || err != nil || !t.Portable()) {
				text = inQuotes(own[1]+" -c ", text)
			}
			break
		}
		comments = append(comments, m.leave(at, "shell: "+shell, "left out: a step is read by sh; write the program that reads the text before it"))
		text = forShell(text, env)
	}
	if out.Value = text; strings.Contains(text, "\n") {
		out.Style = yaml.LiteralStyle
	}
	return out, comments
}

func hasName(env map[string]string, name string) bool {
	_, ok := env[name]
	return ok
}

// inQuotes appends a text, of one line or of several, to a command as its last word.
func inQuotes(command, text string) string {
	quoted := strings.ReplaceAll(strings.TrimRight(text, "\n"), "'", `'\''`)
	if strings.Contains(quoted, "\n") {
		return command + "'\n" + quoted + "\n'\n"
	}
	return command + "'" + quoted + "'"
}

// endsAtFailure makes a text of commands end at the first that fails, as on GitHub.
func endsAtFailure(text string) string {
	switch trimmed := strings.TrimSpace(text); {
	case strings.HasPrefix(trimmed, "set -e"):
	case strings.Contains(trimmed, "\n"):
		return "set -e\n" + text
	case strings.Contains(trimmed, ";"):
		return "set -e; " + text
	}
	return text
}

// forShell leaves to the shell what the shell reads on GitHub: it escapes references that bide
// would read in another way.
func forShell(text string, env map[string]string) string {
	t, err := template.Parse(text)
	if err != nil {
		return text
	}
	refs := t.Asked()
	slices.SortFunc(refs, func(a, b template.Ref) int { return b.Offset - a.Offset }) // from the end, so that earlier offsets stay valid
	offsets := make([]int, len(refs))
	for i, r := range refs {
		offsets[i] = r.Offset
	}
	quotings, ok := template.Quotings(plainRefs(text), offsets)
	verbatim := !ok || quotedHeredoc().MatchString(text)
	for i, r := range refs {
		at, quoting := r.Offset, template.Single
		if ok {
			quoting = quotings[i]
		}
		value, set := env[r.Name]
		switch {
		case set && !verbatim && quoting != template.Single && (value == "" || quoting != template.Bare || plainValue().MatchString(value)) && isName().MatchString(text[at:]):
			// Both read it alike.
		case r.Bare && set && value != "":
			text = text[:at] + "$" + text[at:]
		case r.Bare && !set && !slices.Contains(ours, r.Name):
			// bide does not read it.
		case r.Bare && quoting == template.Single && ok:
			text = text[:at] + "$''" + text[at+1:]
		case r.Bare && !verbatim:
			text = text[:at] + "$${" + r.Name + "}" + text[at+1+len(r.Name):]
		case r.Bare, !set && isName().MatchString(text[at:]) && strings.ToUpper(r.Name) == r.Name && !slices.Contains(ours, r.Name):
		default:
			text = text[:at] + "$" + text[at:]
		}
	}
	return text
}

var (
	quotedHeredoc = pattern.Lazy(`<<-?\s*['"\\]`)
	isName        = pattern.Lazy(`^\$(\w+|\{\w+(\}|:-))`)
)

// ours are names that have a meaning for bide even if nothing sets them.
var ours = strings.Fields(`ARG INDEX TOTAL FILE FILE_PATH FILE_NAME FILE_STEM ITERATION CAPTURED_OUTPUT TEST_ATTEMPT PROJECT_ROOT WORKTREE
	last shell claude http write_file pipeline git error test item index total attempt uuid`)

// plainRefs replaces each expression of GitHub in a text by as many underscores, which a shell
// parser can read.
func plainRefs(text string) string {
	return githubExpression().ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("_", len(s)) })
}

var githubExpression = pattern.Lazy(`\$\{\{.*?\}\}`)

// asItIs escapes a text so that bide reads no reference in it.
func asItIs(text string) string {
	t, err := template.Parse(text)
	if err != nil || len(t.Refs()) == 0 {
		return text
	}
	refs := t.Refs()
	slices.SortFunc(refs, func(a, b template.Ref) int { return b.Offset - a.Offset })
	for _, r := range refs {
		text = text[:r.Offset] + "$" + text[r.Offset:]
	}
	return text
}

// forProgram escapes a text for a program that is no shell, so that bide reads no reference in
// it.
func forProgram(text string, env map[string]string) string {
	t, err := template.Parse(text)
	if err != nil {
		return text
	}
	refs := t.Refs()
	slices.SortFunc(refs, func(a, b template.Ref) int { return b.Offset - a.Offset })
	for _, r := range refs {
		if !r.Bare || hasName(env, r.Name) {
			text = text[:r.Offset] + "$" + text[r.Offset:]
		}
	}
	return text
}
