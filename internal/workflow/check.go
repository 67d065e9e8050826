package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// use is a variable that a text or a condition reads, with where it is.
type use struct {
	n       *node
	path    expr.Path
	offset  int // in the node's text; -1 where it is not known
	phase   byte
	loop    bool // inside a foreach
	handler bool // inside something that follows a failure
	hold    bool // inside on_hold
	goal    bool // inside a goal_seek
	code    bool // a shell may have a variable of this name of its own
	maybe   bool // it has a default, so it may be missing
}

const maxUses = 100_000

// outputFile finds a text that sets variables through the file of BIDE_OUTPUT.
var outputFile = pattern.Lazy(`(BIDE|PRODIGY)_OUTPUT`)

// outputName finds a name that such a text may set.
var outputName = pattern.Lazy(`(?:^|[^\w.-])([A-Za-z_][\w-]*)(?:=|<<)`)

func (d *decoder) note(u use) {
	if len(d.uses) >= maxUses || len(u.path) == 0 || d.judging > 0 && slices.Contains(resultNames, u.path[0].Name) {
		return
	}
	u.phase, u.loop, u.handler, u.hold, u.goal = d.phase, d.loops > 0, d.handlersOpen > 0, d.holds, d.goals > 0
	d.uses = append(d.uses, u)
}

// named records names that steps define.
func (d *decoder) named(names ...string) {
	for _, name := range names {
		if name != "" {
			value.Put(&d.names, name, d.names[name]+1)
		}
	}
}

// builtin are the first words of variables that are always there or belong to
// a place of their own.
var builtin = []string{
	"item", "item_json", "item_id", "item_index", "item_total", "map", "merge", "shell", "claude", "last", "step", "workflow", "git",
	"validation", "test", "error", "evidence", "hold", "foreach", "env", "http", "pipeline", "write_file", "goal", "goal_seek",
	"index", "total", "uuid", "ITERATION", "PROJECT_ROOT", "WORKTREE",
	"INDEX", "TOTAL", "FILE", "FILE_PATH", "FILE_NAME", "FILE_STEM", // with --args and --map, as ARG
	"TEST_ATTEMPT", "BIDE_ATTEMPT", "BIDE_LAST_EXIT", "BIDE_LAST_ERROR",
}

// Given are the variables that a command finds in its environment, beside those of the file.
var Given = []string{"BIDE_RUN", "BIDE_AUTOMATION", "PRODIGY_AUTOMATION", "BIDE_OUTPUT", "PRODIGY_OUTPUT", "BIDE_ITEM", "BIDE_ATTEMPT", "BIDE_LAST_EXIT",
	"BIDE_LAST_ERROR", "BIDE_PROBE", "BIDE_RECOVERED", "BIDE_STATUS", "BIDE_MESSAGE", "BIDE_RESULTS_FILE", "BIDE_GOAL_ATTEMPT", "PRODIGY_VALIDATION",
	"BIDE_LIMITS", "BIDE_SUPERVISOR", "BIDE_V1"}

// lone are those of them that have no members.
var lone = []string{"item", "item_json", "item_id", "item_index", "item_total", "index", "total", "uuid"}

// resultMembers are those of a variable that has the result of a step.
var resultMembers = []string{"output", "stderr", "exit_code", "success", "duration", "output_file", "status", "body", "headers", "cost_usd", "tokens", "session"}

// gitMembers are those of a variable that has what changed in the repository.
var gitMembers = []string{"files_added", "files_modified", "files_deleted", "files_changed", "commits", "commit_count", "insertions", "deletions"}

// members are the members of the variables that have no others.
var members = map[string][]string{
	"last": resultMembers, "shell": resultMembers, "claude": resultMembers, "http": resultMembers, "write_file": resultMembers,
	"test":     slices.Concat(resultMembers, []string{"attempt"}),
	"error":    {"message", "class", "exit_code", "step", "attempts", "output", "stderr", "timestamp"},
	"goal":     {"text", "attempt", "score"},
	"hold":     {"text", "signature", "message", "items"},
	"evidence": {"output", "check", "message"},
	"step":     gitMembers,
	"workflow": slices.Concat([]string{"name", "id", "iteration", "status", "message", "class"}, gitMembers),
	"git":      {"branch", "commit", "staged_files", "unstaged_files", "untracked_files", "modified_files", "deleted_files", "changed_files"},
	"foreach":  {"item", "index", "total", "results", "succeeded", "failed", "skipped"},
	"map": {"results", "results_array", "results_json", "results_file", "outputs", "total", "successful", "succeeded", "tolerated", "success_count", "failed",
		"failure_count", "unchanged", "skipped", "success_rate", "failure_rate", "total_duration_secs", "average_duration_secs"},
	"merge": {"worktree", "source_branch", "target_branch", "session_id", "commits", "commit_ids", "commit_count", "modified_files", "file_list",
		"file_count", "commit", "conflicts"},
}

// placed says where a variable exists, for those that exist only in some places.
var placed = map[string]struct {
	ok    func(u use) bool
	where string
	hint  string
}{
	"item":       {func(u use) bool { return u.phase == 'm' || u.loop }, "inside map.agent_template and foreach", "in reduce, ${map.results} has every item's result"},
	"item_json":  {func(u use) bool { return u.phase == 'm' || u.loop }, "inside map.agent_template", "in reduce, ${map.results} has every item's result"},
	"item_id":    {func(u use) bool { return u.phase == 'm' }, "inside map.agent_template", "in a foreach, ${index} counts the values"},
	"item_index": {func(u use) bool { return u.phase == 'm' }, "inside map.agent_template", "in a foreach, ${index} counts the values"},
	"item_total": {func(u use) bool { return u.phase == 'm' }, "inside map.agent_template", "in a foreach, ${total} is the number of values"},
	"map":        {func(u use) bool { return u.phase == 'r' || u.phase == 'g' }, "in reduce and merge", "move the step to reduce:"},
	"merge":      {func(u use) bool { return u.phase == 'g' }, "in merge", "move the step to merge:"},
	"foreach":    {func(u use) bool { return u.loop }, "inside foreach", "put the step into the do: of a foreach"},
	"goal":       {func(u use) bool { return u.goal }, "inside goal_seek", "after it, ${goal_seek.score} and ${goal_seek.attempts} are there"},
	"hold":       {func(u use) bool { return u.hold }, "in on_hold", "move the step to error_policy.on_hold:"},
	"evidence":   {func(u use) bool { return u.phase == 'm' }, "inside map.agent_template", "move the step to map.agent_template:"},
	"error":      {func(u use) bool { return u.handler }, "in on_failure and what else follows a failure", "put the step into on_failure:"},
}

// check looks at the finished model.
func (d *decoder) check() {
	d.duplicateIDs()
	Walk(d.file, func(s *Step) {
		if s.Retry != nil && s.OnFailure != nil && s.Retry.OnFailure == "continue" && !d.full() {
			d.warnAt(s.OnFailure.Pos, "handler-unreachable", "this on_failure never runs: the retry policy's on_failure is continue, which comes first").
				Suggest("remove the one or the other")
		}
	})
	d.skipsNothing()
	d.openSecrets()
	if d.file.Isolation == "none" || d.file.Isolation == "auto" && !NeedsIsolation(d.file) {
		inPlace := func(pos diag.Pos, what string) {
			d.warnAt(pos, "no-effect", "%s has no effect: this file works in place (isolation: %s)", what, d.file.Isolation).
				Suggest("write isolation: worktree to have it work in worktrees")
		}
		if w := d.file.Worktree; w != nil {
			inPlace(w.Pos, "worktree")
		}
		if d.file.NoAutoCommit {
			inPlace(d.noAutoCommit, "auto_commit")
		}
	}
	d.uncounted()
	d.uncountedOfItems()
	d.askedAtTheEnd()
	d.sameFiles()
	d.checkForeign()
	d.placeholders()
	d.unclosed()
	d.bashisms()
	d.knownNames()
	d.checkBraced()
	d.checkNeeds()
	d.dataAsCode()
	for _, u := range d.uses {
		d.checkUse(u)
	}
}

// skipsNothing warns about a skip_permissions for agents none of which has
// permissions that could be skipped.
func (d *decoder) skipsNothing() {
	if !d.file.SkipPermissions || len(d.file.Agents) == 0 {
		return
	}
	agents, asks := 0, false
	d.eachAgent(func(c *Claude) {
		agents++
		cfg := d.file.Agents[cmp.Or(c.Provider, "claude")]
		asks = asks || cfg == nil || cfg.asksPermissions()
	})
	if agents > 0 && !asks {
		d.warnf(d.skipAll, "no-effect", "skip_permissions has no effect: none of the agents here is the claude program").
			Suggest("write the options that the programs have for this into their command, under agents:")
	}
}

// uncounted warns about a bound on what agents use where an agent that is asked
// does not tell it.
func (d *decoder) uncounted() {
	if d.bounds == nil {
		return
	}
	said := map[string]bool{}
	d.eachAgent(func(c *Claude) {
		cfg := d.file.Agents[c.Provider]
		if cfg == nil || cfg.Output == "stream-json" || len(cfg.FirstOf) > 0 || said[c.Provider] {
			return
		}
		said[c.Provider] = true
		d.warnf(d.bounds, "no-effect", "what the agent %s uses is not counted: its output is text, so that max_cost does not see it, and max_tokens only what it prints as \"tokens used\"", c.Provider).
			Suggest("give it output: stream-json where it can, or bound its calls by max_items and timeouts")
	})
}

// askedAtTheEnd warns about agents of merge that are to resolve conflicts and are asked
// at the end of the run as well, where there is none. One with a condition, or that is
// told of the branches to merge, is meant for the end.
func (d *decoder) askedAtTheEnd() {
	if d.file.Merge == nil || d.file.Map == nil {
		return
	}
	ofMerge := func(t *template.Text, members ...string) bool {
		return t != nil && slices.ContainsFunc(t.Refs(), func(r template.Ref) bool {
			return len(r.Path) > 1 && r.Path[0].Name == "merge" && (len(members) == 0 || slices.Contains(members, r.Path[1].Name))
		})
	}
	var look func(steps []*Step)
	look = func(steps []*Step) {
		for _, s := range steps {
			if s.When != nil || d.full() {
				continue
			}
			switch a := s.Action.(type) {
			case *Foreach:
				if !ofMerge(a.Text) {
					look(a.Do)
				}
			case *Claude:
				if !ofMerge(a.Text, "source_branch", "target_branch") {
					d.warnAt(s.Pos, "asked-without-conflict", "this agent is asked when an item meets a conflict, and once more at the end of the run, where nothing conflicts").
						Suggest("to ask it in conflicts alone, write beside it: when: ${merge.conflicts}")
				}
			}
		}
	}
	look(d.file.Merge.Steps)
}

// eachAgent visits the steps of the file that ask an agent.
func (d *decoder) eachAgent(visit func(*Claude)) {
	Walk(d.file, func(s *Step) {
		if c, ok := s.Action.(*Claude); ok {
			visit(c)
		}
	})
}

// duplicateIDs warns about two steps of one id: the later one's variables hide
// the earlier one's.
func (d *decoder) duplicateIDs() {
	first := map[string]*Step{}
	Walk(d.file, func(s *Step) {
		if s.ID == "" || d.full() {
			return
		}
		if f, ok := first[s.ID]; ok && f.Pos != s.Pos {
			d.warnAt(s.Pos, "duplicate-id", "the id %q is there already, on line %d; ${%s.output} is then the later step's", s.ID, f.Pos.Line, s.ID).
				Suggest("give one of the two steps another id")
			return
		}
		first[s.ID] = s
	})
}

func (d *decoder) knownNames() {
	f := d.file
	d.named(builtin...)
	for _, name := range d.outputNames {
		if d.names[name] == 0 { // a step's name may be before =
			d.named(name)
		}
	}
	d.namesOf(f)
	for _, vars := range f.Profiles {
		d.namedBy(vars)
	}
	for _, w := range f.Workflows {
		d.named(w.Name)
		d.named(w.Outputs...)
	}
	Walk(f, func(s *Step) {
		d.namedBy(s.Env)
		for _, vars := range s.Envs {
			d.namedBy(vars)
		}
		if c, ok := s.Action.(*Call); ok && c.Target != nil {
			d.named(c.Target.Outputs...)
		}
		d.madeNames = d.madeNames || s.Capture.Text != nil
	})
	for _, c := range d.calls {
		d.named(c.call.Workflow)
	}
	for name := range f.Agents {
		d.named(name)
	}
	if len(f.Agents) > 0 {
		d.named("prompt") // of their command lines
	}
	d.plainIDs = map[string]bool{}
	Walk(f, func(s *Step) {
		switch s.Action.(type) {
		case *Shell, *Claude, *HTTP, *WriteFile:
			d.plainIDs[s.ID] = d.names[s.ID] == 1 && len(s.Outputs) == 0
		}
	})
	for name, n := range d.names {
		if n > 1 || !slices.Contains(builtin, name) { // or of the file as well
			d.userNames = append(d.userNames, name)
		}
	}
	slices.Sort(d.userNames)
	f.names = d.userNames
	if len(d.uses) < maxUses {
		f.reads = map[string]bool{}
		for _, u := range d.uses {
			f.reads[u.path[0].Name] = true
		}
	}
}

// namesOf are the names that a file has for all of its steps.
func (d *decoder) namesOf(f *File) {
	for _, p := range f.Params {
		d.named(p.Name)
	}
	d.namedBy(f.Env)
	for _, s := range f.Secrets {
		d.named(s.Name)
	}
}

func (d *decoder) namedBy(vars []EnvVar) {
	for _, v := range vars {
		d.named(v.Name)
	}
}

func (d *decoder) checkUse(u use) {
	head := u.path[0].Name
	if u.maybe || head == "" || d.full() {
		return
	}
	if pl, ok := placed[head]; ok && !slices.Contains(d.userNames, head) {
		anywhere := d.file.Kind == MapReduce && u.phase == 'c' // what such a file has at the top level, and handlers
		if !pl.ok(u) && !anywhere && !d.countedBefore(u) {
			p := d.useProblem(u, "misplaced-variable", "the variable "+u.path.String()+" exists only "+pl.where)
			p.Suggest("%s", pl.hint)
			if d.toRun && !d.madeNames {
				p.Severity = diag.Error
			}
			return
		}
	}
	if d.noMember(u) || d.noEnviron(u) {
		return
	}
	if _, ok := placed[head]; ok {
		return
	}
	if d.names[head] > 0 || strings.HasPrefix(head, "ARG") || head == "attempt" && (u.phase == 'm' || u.handler) {
		return
	}
	if _, set := d.environ(head); set || u.code && slices.Contains(Given, head) {
		return
	}
	dotted := len(u.path) > 1 && u.path[1].Name != ""
	if !dotted && (d.shellsOwn(u, head) || u.code && len(u.path) > 1) { // an array of the shell
		return
	}
	known := d.userNames
	near := d.nearName(head)
	if near == "" {
		known = lone
		if dotted {
			known = builtin
		}
		near = diag.Nearest(head, known)
	}
	shell, standIn, ofShell := strings.Cut(head, "-")
	p := d.useProblem(u, "unknown-variable", "nothing sets the variable "+u.path.String())
	switch {
	case u.path[0].Name == "steps" && dotted && d.names[u.path[1].Name] > 0:
		p.Suggest("did you mean %q? the variable of a step is called as its id", u.path[1].Name+".output")
	case d.stepCalled(u) != nil:
		step := d.stepCalled(u)
		p.Suggest("%s", step.asVariable(u))
	case near != "" && slices.Contains(known, near):
		p.Suggest("did you mean %q?", near+strings.TrimPrefix(u.path.String(), head))
	case !dotted && !u.code && expr.WhenElsewhere(head) != "":
		p.Suggest("%s", expr.WhenElsewhere(head))
	case dotted:
		p.Suggest("a step sets it with id: %s or capture: %s", nameFrom(head), nameFrom(head))
	case ofShell && u.code && !strings.Contains(standIn, "-"):
		p.Suggest("did you mean ${%s:-%s}? a name may contain a -, so a default value follows :-", shell, standIn)
	default:
		p.Suggest("set it with capture: or env:, or in a step before with a line %[1]s=… in the file $BIDE_OUTPUT, or write ${%[1]s:-} where it may be unset", head)
	}
	if d.toRun && d.certain(u, head) {
		p.Severity = diag.Error
	}
}

// stepCalled is the step that a name of no variable is the label of, nil for none.
func (d *decoder) stepCalled(u use) *Step {
	name := u.path[0].Name
	if (name == "steps" || name == "step") && len(u.path) > 1 {
		name = u.path[1].Name
	}
	if d.labelled == nil {
		d.labelled = map[string]*Step{}
		Walk(d.file, func(s *Step) {
			if _, ok := d.labelled[s.Name]; s.Name != "" && !ok {
				d.labelled[s.Name] = s
			}
		})
	}
	return d.labelled[name]
}

// asVariable says how the output of a step that is meant by its label is written.
func (s *Step) asVariable(u use) string {
	member := "output"
	if last := u.path[len(u.path)-1].Name; len(u.path) > 1 && slices.Contains(resultMembers, last) {
		member = last
	}
	if s.ID != "" {
		return fmt.Sprintf("write ${%s.%s}: a step has the name of its id in variables", s.ID, member)
	}
	return fmt.Sprintf("write id: %[1]s at the step of that name, in line %[2]d, and ${%[1]s.%[3]s} here", nameFrom(s.Name), s.Pos.Line, member)
}

// countedBefore says whether u is what a foreach of the file leaves behind.
func (d *decoder) countedBefore(u use) bool {
	return d.looped && u.path[0].Name == "foreach" && len(u.path) > 1 && u.path[1].Name != "item" && u.path[1].Name != "index"
}

// noMember reports a member that a variable of a known form does not have.
func (d *decoder) noMember(u use) bool {
	head := u.path[0].Name
	if len(u.path) < 2 || u.path[1].Name == "" {
		return false
	}
	known, ok := members[head]
	if slices.Contains(d.userNames, head) {
		known, ok = resultMembers, d.plainIDs[head]
	}
	name := u.path[1].Name
	if !ok || slices.Contains(known, name) {
		return false
	}
	p := d.useProblem(u, "unknown-variable", fmt.Sprintf("nothing sets the variable %s: %s has no %s", u.path, head, name))
	if near := diag.Nearest(name, known); near != "" {
		p.Suggest("did you mean %q?", head+"."+near)
	} else {
		p.Suggest("it has %s", strings.Join(known, ", "))
	}
	if d.toRun && !d.madeNames {
		p.Severity = diag.Error
	}
	return true
}

// noEnviron reports env.NAME where neither the environment nor the file has the
// name.
func (d *decoder) noEnviron(u use) bool {
	if u.path[0].Name != "env" || len(u.path) != 2 || len(d.file.EnvFiles) > 0 {
		return false
	}
	name := u.path[1].Name
	if _, set := d.environ(name); name == "" || set || d.names[name] > 0 {
		return false
	}
	d.useProblem(u, "unknown-variable", "the environment has no variable "+name).
		Suggest("write ${env:%s:-} where it may be unset", name)
	return true
}

// environ asks for a variable of the environment that the run inherits.
func (d *decoder) environ(name string) (string, bool) {
	if d.lookupEnv == nil {
		return "", false
	}
	return d.lookupEnv(name)
}

// certain reports whether nothing that the run does can set a name: neither a
// file of variables nor a name that is made in the run, and it does not look
// like one of the environment.
func (d *decoder) certain(u use, name string) bool {
	return strings.ToUpper(name) != name && !d.madeNames && len(d.file.EnvFiles) == 0 && !(u.code && setsVariables().MatchString(u.n.text))
}

// setsVariables finds a text that sets variables by names which are not to be
// read in it.
var setsVariables = pattern.Lazy(`(^|[\s;&|(])(\.|source|eval|read|export|declare|local)\s|BIDE_OUTPUT|PRODIGY_OUTPUT`)

// maxLookups bounds how many different unknown names are compared with all
// known ones.
const maxLookups = 500

// nearName gives the known name that an unknown one is near to, if any.
func (d *decoder) nearName(name string) string {
	if len(name) < 3 || len(name) > maxKey { // which is near to everything, or nothing
		return ""
	}
	near, ok := d.nearNames[name]
	if !ok && len(d.nearNames) < maxLookups {
		near = diag.Nearest(name, d.userNames)
		value.Put(&d.nearNames, name, near)
	}
	return near
}

// shellsOwn reports whether a name without dots may be a variable of the shell
// itself: its text has the bare word.
func (d *decoder) shellsOwn(u use, name string) bool {
	if !u.code {
		return false
	}
	word, err := regexp.Compile(`(^|[^A-Za-z0-9_{$])` + regexp.QuoteMeta(name) + `($|[^A-Za-z0-9_}])`)
	return err != nil || word.MatchString(u.n.text)
}

func (d *decoder) useProblem(u use, code, message string) *diag.Problem {
	pos := u.n.pos
	if u.offset >= 0 {
		pos = u.n.at(u.offset)
	}
	return d.warnAt(pos, code, "%s", message)
}

// resultSchema reads the JSON Schema of a validation's result. A schema that
// refers to others is refused: nothing is fetched.
func (d *decoder) resultSchema(n *node) *jsonschema.Resolved {
	resolved, err := ReadSchema([]byte(value.JSON(n.value())))
	if err != nil {
		msg, _, _ := strings.Cut(err.Error(), "\n")
		d.errorf(n, "bad-schema", "expected_schema is no JSON Schema: %s", msg).
			Suggest("for example: expected_schema: {type: object, required: [score]}")
		return nil
	}
	return resolved
}

// ReadSchema reads a JSON Schema, in JSON. One that refers to others is an
// error: nothing is fetched.
func ReadSchema(text []byte) (*jsonschema.Resolved, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, err
	}
	if err := knownTypes(&schema); err != nil {
		return nil, err
	}
	return schema.Resolve(nil)
}

// knownTypes finds a type that JSON does not have, which would fit nothing.
func knownTypes(s *jsonschema.Schema) error {
	for _, t := range append(s.Types, s.Type) {
		switch t {
		case "", "null", "boolean", "object", "array", "number", "integer", "string":
		default:
			return fmt.Errorf("there is no type %q", t)
		}
	}
	subs := slices.Concat(slices.Collect(maps.Values(s.Properties)), s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems, []*jsonschema.Schema{s.Items, s.Not, s.AdditionalProperties})
	for _, sub := range subs {
		if sub != nil {
			if err := knownTypes(sub); err != nil {
				return err
			}
		}
	}
	return nil
}
