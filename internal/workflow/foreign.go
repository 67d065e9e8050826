package workflow

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
)

// This file finds expressions of GitHub Actions, ${{ … }}. In a shell they are a
// bad substitution, and everywhere else they would stand as they are.

// foreign is a text with such expressions, and where it is.
type foreign struct {
	n *node
	t *template.Text
}

// noteForeign remembers a text with expressions of GitHub Actions; what they
// come to depends on what the text is for.
func (d *decoder) noteForeign(n *node, t *template.Text) {
	if len(d.foreign) < maxProblems && t.HasForeign() {
		d.foreign = append(d.foreign, foreign{n, t})
	}
}

// noteBraced remembers a text with names in two pairs of braces; whether bide has the names
// is known when the file is read.
func (d *decoder) noteBraced(n *node, t *template.Text) {
	if len(d.braced) < maxProblems && len(t.Braced()) > 0 {
		d.braced = append(d.braced, foreign{n, t})
	}
}

// checkBraced warns of {{ item }} and its kin for names that the file has. What is made for
// another program is left alone: the content of a file, and commands of those that read such
// templates.
func (d *decoder) checkBraced() {
	if len(d.braced) == 0 {
		return
	}
	contents := map[*template.Text]bool{}
	Walk(d.file, func(s *Step) {
		if a, ok := s.Action.(*WriteFile); ok {
			contents[a.Content] = true
		}
	})
	told := map[diag.Pos]bool{}
	for _, f := range d.braced {
		if contents[f.t] || bracesOfOthers().MatchString(f.t.String()) {
			continue
		}
		for _, b := range f.t.Braced() {
			at := f.n.at(max(0, strings.Index(f.n.text, f.t.String())) + b.Offset)
			if d.full() || told[at] || !d.hasBraced(b.Name) {
				continue
			}
			told[at] = true
			d.warnAt(at, "literal-placeholder", "%s is left as it is: nothing replaces it", short(b.Text)).Suggest("write ${%s}", b.Name)
		}
	}
}

// checkNeeds refuses what a step needs and comes after it: the steps would run, in the wrong
// order.
func (d *decoder) checkNeeds() {
	if len(d.needs) == 0 {
		return
	}
	at := map[string]*Step{}
	Walk(d.file, func(s *Step) {
		for _, name := range []string{s.ID, s.Name} {
			if at[name] == nil {
				at[name] = s
			}
		}
	})
	for _, n := range d.needs {
		if s := at[n.text]; n.text != "" && s != nil && s.Pos.File == n.pos.File && s.Pos.Line > n.pos.Line && !d.full() {
			d.errorf(n, "contradiction", "this step needs %q, which comes after it, and steps run in their order", short(n.text)).Suggest("move %q before it", short(n.text))
		}
	}
}

// hasBraced reports whether bide has a variable for a name in two pairs of braces.
func (d *decoder) hasBraced(name string) bool {
	head, _, dotted := strings.Cut(name, ".")
	return slices.Contains([]string{"item", "item_id", "item_index", "item_total", "item_json"}, head) || dotted && (head == "map" || head == "foreach") ||
		slices.Contains(d.userNames, head)
}

// bracesOfOthers finds a program or a file that has {{ name }} of its own.
var bracesOfOthers = pattern.Lazy(`(?i)ansible|jinja|\.j2\b|mustache|handlebars|liquid|helm|gomplate|tera\b|nunjucks|cookiecutter|copier|dbt\b`)

// checkForeign reports those that were noted: in a shell where it would expand
// them, in prompts and contents as what may be meant, everywhere else as errors.
func (d *decoder) checkForeign() {
	if len(d.foreign) == 0 {
		return
	}
	roles := d.textRoles()
	read := map[*node]textRole{} // a text that is read twice is the model's once
	for _, f := range d.foreign {
		read[f.n] = max(read[f.n], roles[f.t])
	}
	for _, f := range d.foreign {
		role := read[f.n]
		list := f.t.Foreign()
		if role == roleShell {
			if roles[f.t] != roleShell {
				continue
			}
			list = f.t.ForeignInShell()
		}
		told := map[string]bool{}
		for _, e := range list {
			if d.full() || told[e.Text] {
				continue
			}
			told[e.Text] = true
			start := f.n.at(max(0, strings.Index(f.n.text, f.t.String())) + e.Offset)
			d.tellForeign(start, role, e)
		}
	}
}

func (d *decoder) tellForeign(at diag.Pos, role textRole, e template.Foreign) {
	what := short(e.Text) + " is an expression of GitHub Actions, "
	switch {
	case role == roleProse:
		d.warnAt(at, "foreign-expression", "%sand is left as it is", what).
			Suggest("%s; or $%s where the text itself is meant", WrittenHere(e.Text), short(e.Text))
	case role == roleShell && e.Dollars && e.Certain:
		d.problems.Errorf(at, "foreign-expression", "%swhich a shell cannot read", what).
			Suggest("put it in single quotes, or write \\%s, where the text itself is meant", short(e.Text))
	case role == roleShell && !e.Certain:
		d.warnAt(at, "foreign-expression", "%swhich a shell cannot read", what).Suggest("%s", WrittenHere(e.Text))
	case role == roleShell:
		d.problems.Errorf(at, "foreign-expression", "%swhich a shell cannot read", what).
			Suggest("%s; or put it in single quotes where the text itself is meant", WrittenHere(e.Text))
	default:
		d.problems.Errorf(at, "foreign-expression", "%swhich there are none of here", what).Suggest("%s", WrittenHere(e.Text))
	}
}

// foreignIn reports an expression of GitHub Actions in a place that takes no
// text, and whether there is one.
func (d *decoder) foreignIn(n *node) bool {
	t, err := template.Parse(n.text)
	if err != nil {
		return false
	}
	list := t.Foreign()
	if len(list) > 0 && !d.full() {
		d.tellForeign(n.at(list[0].Offset), roleOther, list[0])
	}
	return len(list) > 0
}

// textRole is what a text is for.
type textRole uint8

const (
	roleOther textRole = iota
	roleProse          // for an agent, a person, a file, a server: it may speak of anything
	roleShell
)

// textRoles are the roles of the model's texts.
func (d *decoder) textRoles() map[*template.Text]textRole {
	roles := map[*template.Text]textRole{}
	env := func(vars []EnvVar) {
		for _, v := range vars {
			roles[v.Command] = roleShell
		}
	}
	f := d.file
	env(f.Env)
	for _, vars := range f.Profiles {
		env(vars)
	}
	for _, s := range f.Secrets {
		if s.Provider == "command" {
			roles[s.Key] = roleShell
		}
	}
	if f.Worktree != nil {
		roles[f.Worktree.Setup] = roleShell
	}
	if f.Map != nil {
		roles[f.Map.Input] = roleShell // or a file, whose name has no quotes
	}
	Walk(f, func(s *Step) {
		env(s.Env)
		for _, vars := range s.Envs {
			env(vars)
		}
		if s.AutoCommit != nil {
			roles[s.AutoCommit.Message] = roleProse
		}
		if a, ok := s.Retry.FallbackAction().(*Shell); ok {
			roles[a.Text] = roleShell
		}
		switch a := s.Action.(type) {
		case *Shell:
			roles[a.Text] = roleShell
		case *Foreach:
			roles[a.Text] = roleShell
		case *Claude:
			roles[a.Text] = roleProse
		case *GoalSeek:
			roles[a.Goal] = roleProse
		case *WriteFile:
			roles[a.Content] = roleProse
		case *HTTP:
			roles[a.Body] = roleProse
			eachText(a.JSON, func(t *template.Text) { roles[t] = roleProse })
		}
		if v := s.Validate; v != nil && v.OnIncomplete != nil {
			roles[v.OnIncomplete.Prompt] = roleProse
		}
	})
	return roles
}

// eachText visits the texts of a value that deep has read.
func eachText(v any, visit func(*template.Text)) {
	switch v := v.(type) {
	case *template.Text:
		visit(v)
	case []any:
		for _, e := range v {
			eachText(e, visit)
		}
	case map[string]any:
		for _, e := range v {
			eachText(e, visit)
		}
	}
}

// tellCommand warns of what may be meant as a command for a shell in a place where a prompt
// stands: a text alone in a list that is not plainly the name of an agent's command, and
// under command:, which is one for a shell in Dagu and others, what looks like one. o is the
// step, nil where that is a text.
func (d *decoder) tellCommand(n *node, what string, o *object) {
	text := strings.TrimSpace(n.text)
	if strings.HasPrefix(text, "claude:") || isSlashCommand(text) {
		return
	}
	alone := o == nil && !agentCommandName(text)
	if !alone && !commandLike(text) && !o.ofDagu() {
		return
	}
	p := d.warnf(n, "command-as-prompt", "%s is a prompt here: it asks an agent %q", what, short(slashed(text)))
	if o.ofDagu() { // where nobody means a prompt
		p.Severity = diag.Error
	}
	p.Suggest("write shell: %s to run it in a shell, or claude: %s where the prompt is meant", short(text), short(slashed(text)))
}

// agentCommandName reports whether a text begins with a name as commands of agents have
// it, which are several words with hyphens between them.
func agentCommandName(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	return strings.Contains(word, "-") && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// commandLike reports whether a text begins with a program that people run by its
// name, with a path, or with a variable that is set.
func commandLike(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	if slices.Contains(programs(), word) || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") || strings.HasPrefix(word, "~/") {
		return true
	}
	name, _, set := strings.Cut(word, "=")
	return set && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" ||
		strings.HasSuffix(word, ".sh") || strings.HasSuffix(word, ".py") || strings.HasPrefix(word, "/") && strings.Contains(word[1:], "/")
}

// programs are what a command for a shell often begins with.
var programs = sync.OnceValue(func() []string {
	return strings.Fields(`echo printf cat ls cp mv rm mkdir cd pwd touch sleep true false exit export source bash sh zsh env sudo
		python python3 pip pip3 uv poetry pytest node npm npx yarn pnpm deno bun go cargo rustc make cmake mvn gradle java ruby perl php R Rscript
		git gh curl wget docker docker-compose podman kubectl helm terraform ansible-playbook aws gcloud az ssh scp rsync tar gzip unzip
		sed awk grep find sort xargs jq dbt psql mysql sqlite3 spark-submit`)
})

// ofDagu reports whether a step has keys that Dagu has and nobody else.
func (o *object) ofDagu() bool {
	if o == nil {
		return false
	}
	for _, p := range o.n.pairs {
		switch p.key.text {
		case "depends", "executor", "retryPolicy", "retry_policy", "continueOn", "continue_on", "precondition", "preconditions":
			return true
		}
	}
	return false
}

// placeholders warns of {} in shell texts for items that nothing names: parallel,
// xargs -I and bide batch would put the item there.
func (d *decoder) placeholders() {
	f := d.file
	named := sync.OnceValue(func() bool {
		texts := append(slices.Collect(maps.Values(f.Others)), f.Source)
		return slices.ContainsFunc(texts, itemNamed().Match)
	})
	told := map[*Step]bool{}
	inBraces := func(t *template.Text, list []template.Braced) {
		for _, b := range list {
			if !d.full() {
				d.warnAt(t.Place(b.Offset), "literal-placeholder", "%s is left as it is: nothing replaces it", short(b.Text)).Suggest("write ${%s}", b.Name)
			}
		}
	}
	look := func(s *Step) {
		if told[s] || d.full() {
			return
		}
		told[s] = true
		switch a := s.Action.(type) {
		case *Claude:
			inBraces(a.Text, a.Text.ItemInProse())
		case *WriteFile:
			inBraces(a.Path, a.Path.ItemInProse())
		}
		a, ok := s.Action.(*Shell)
		if !ok {
			return
		}
		inBraces(a.Text, a.Text.ItemInBraces())
		if found := a.Text.Placeholders(); len(found) > 0 && !named() {
			d.warnAt(s.Pos, "literal-placeholder", "%s is left as it is: nothing replaces it in a step of a workflow", found[0]).
				Suggest("write ${item} for the item")
		}
	}
	walkTemplate(f, look)
	Walk(f, func(s *Step) {
		if each, ok := s.Action.(*Foreach); ok {
			WalkAll(&File{Steps: each.Do}, look)
		}
	})
}

// unclosed warns of shell texts that no shell runs, because something in them is not closed.
func (d *decoder) unclosed() {
	Walk(d.file, func(s *Step) {
		a, ok := s.Action.(*Shell)
		if !ok || d.full() {
			return
		}
		if what, offset, ok := a.Text.Unclosed(); ok {
			d.warnAt(a.Text.Place(offset), "unclosed-shell", "the shell will refuse this command: %s", what).Suggest("close it, or put a backslash before it where it is meant as it is")
		}
	})
}

// bashisms warns of what bash has in shell texts, where sh is dash, as it is on Debian
// and Ubuntu: much of it is no error there, but does something else.
func (d *decoder) bashisms() {
	sh := d.sh
	Walk(d.file, func(s *Step) {
		a, ok := s.Action.(*Shell)
		if !ok || d.full() {
			return
		}
		b, ok := a.Text.Bashism()
		if !ok {
			return
		}
		if sh == "" {
			sh = systemSh()
		}
		if sh != "dash" {
			return
		}
		p := d.warnAt(s.Pos, "bash-in-sh", "%s is bash's; steps run with sh, which is dash on this machine and %s", b.What, b.Dash)
		if b.Instead == "" {
			p.Suggest("write bash -c '…' around it")
		} else {
			p.Suggest("write %s, or bash -c '…' around it", b.Instead)
		}
	})
}

// systemSh is the name of the program that sh is: dash, bash, busybox, …; "sh" where that
// does not tell.
func systemSh() string {
	path, err := exec.LookPath("sh")
	if err != nil {
		return "sh"
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "sh"
	}
	return filepath.Base(path)
}

// itemNamed is what a text has in it that names an item, or what it is given of one.
var itemNamed = pattern.Lazy(`\$\{?(item|ARG|foreach|index|map\.|BIDE_|PRODIGY_)`)

// WrittenHere says what is written here for an expression of GitHub Actions.
func WrittenHere(text string) string {
	inner := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(text, "${{"), "}}"))
	path := strings.Split(inner, ".")
	name := path[len(path)-1]
	if strings.Trim(inner, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" || len(path) < 2 {
		switch strings.TrimSpace(strings.Split(inner, "(")[0]) {
		case "failure", "!success":
			return "write what follows a failure into on_failure:"
		case "always", "!cancelled":
			return "write what follows any end into finally:"
		case "success":
			return "leave it out: a step runs where those before it have succeeded"
		}
		return "write ${name} for a variable, ${env:NAME} for one of the environment, and conditions as in when: ${name} == 'x'"
	}
	switch path[0] {
	case "secrets":
		return "write ${" + name + "}, and secrets: {" + name + ": '${env:" + name + "}'} at the top of the file, which takes it from the environment and masks it"
	case "env":
		return "write ${" + name + "}"
	case "vars":
		return "write ${env:" + name + "} for a variable of the environment, or set it in env:"
	case "matrix":
		return "write ${item." + name + "} in a map over the values, or ${item} in a foreach"
	case "inputs":
		return "write ${" + name + "}, and declare it under parameters:"
	case "steps", "needs", "jobs":
		return stepOutput(path)
	case "github", "runner":
		if len(path) == 2 && name != "token" && name != "event" {
			return "write ${env:" + strings.ToUpper(path[0]+"_"+name) + "}, which Actions sets in a job of its own"
		}
	}
	return "write ${name} for a variable, or ${env:NAME} for one of the environment"
}

// stepOutput is what is here for steps.ID.outputs.NAME and its kin.
func stepOutput(path []string) string {
	name := path[len(path)-1]
	switch {
	case len(path) > 3 && path[2] == "outputs":
		return "write ${" + name + "}, which a step sets with a line " + name + "=… in the file $BIDE_OUTPUT or with capture: " + name
	case name == "outcome" || name == "conclusion" || name == "result":
		return "write ${" + path[1] + ".success}, of the step with that id"
	}
	return "write ${" + path[1] + ".output}, of the step with that id"
}
