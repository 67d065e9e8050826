package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/value"
)

// use is a variable that a text or a condition reads, with where it stands.
type use struct {
	n       *node
	path    expr.Path
	offset  int // in the node's text; -1 where it is not known
	phase   byte
	loop    bool // inside a foreach
	handler bool // inside something that follows a failure
	code    bool // a shell may have a variable of this name of its own
	maybe   bool // it has a default, so it may be missing
}

const maxUses = 100_000

func (d *decoder) note(u use) {
	if len(d.uses) >= maxUses || len(u.path) == 0 {
		return
	}
	u.phase, u.loop, u.handler = d.phase, d.loops > 0, d.handlersOpen > 0
	d.uses = append(d.uses, u)
}

// named records a name that a step defines.
func (d *decoder) named(name string) {
	if name != "" {
		if d.names == nil {
			d.names = map[string]bool{}
		}
		d.names[name] = true
	}
}

// builtin are the first words of variables that are always there or belong to
// a place of their own.
var builtin = []string{
	"item", "item_json", "item_id", "item_index", "item_total", "map", "merge", "shell", "claude", "last", "step", "workflow", "git",
	"validation", "test", "error", "foreach", "env", "handler", "http", "pipeline", "write_file", "goal_seek", "agent", "worker",
	"index", "total", "uuid", "iteration",
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
	"error":      {func(u use) bool { return u.handler }, "in on_failure and what else follows a failure", "put the step into on_failure:"},
}

// check looks at the finished model.
func (d *decoder) check() {
	d.duplicateIDs()
	Walk(d.file, func(s *Step) {
		if s.Retry != nil && s.OnFailure != nil && s.Retry.OnFailure != "stop" && !d.full() {
			p := d.problems.Warnf(s.OnFailure.Pos, "handler-unreachable",
				"this on_failure never runs: the retry policy's on_failure is %s, which comes first", s.Retry.OnFailure)
			p.Suggest("remove the one or the other")
			d.strictly(p)
		}
	})
	d.skipsNothing()
	d.knownNames()
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
	Walk(d.file, func(s *Step) {
		c, ok := s.Action.(*Claude)
		if !ok {
			return
		}
		agents++
		name := c.Provider
		if name == "" {
			name = "claude"
		}
		cfg := d.file.Agents[name]
		asks = asks || cfg == nil || cfg.asksPermissions()
	})
	if agents > 0 && !asks {
		d.warnf(d.skipAll, "no-effect", "skip_permissions has no effect: none of the agents here is the claude program").
			Suggest("write the options that the programs have for this into their command, under agents:")
	}
}

func (d *decoder) strictly(p *diag.Problem) {
	if d.strict {
		p.Severity = diag.Error
	}
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
			p := d.problems.Warnf(s.Pos, "duplicate-id", "the id %q is there already, on line %d; ${%s.output} is then the later step's", s.ID, f.Pos.Line, s.ID)
			p.Suggest("give one of the two steps another id")
			d.strictly(p)
			return
		}
		first[s.ID] = s
	})
}

func (d *decoder) knownNames() {
	f := d.file
	for _, n := range builtin {
		d.named(n)
	}
	for _, p := range f.Params {
		d.named(p.Name)
	}
	for _, vars := range append(profileVars(f), f.Env) {
		for _, v := range vars {
			d.named(v.Name)
		}
	}
	for _, s := range f.Secrets {
		d.named(s.Name)
	}
	for _, w := range f.Workflows {
		d.named(w.Name)
	}
	for _, c := range d.calls {
		d.named(c.call.Workflow)
	}
	for name := range d.agents {
		d.named(name)
	}
	for name := range d.names {
		if !slices.Contains(builtin, name) {
			d.userNames = append(d.userNames, name)
		}
	}
	slices.Sort(d.userNames)
}

func profileVars(f *File) [][]EnvVar {
	var out [][]EnvVar
	for _, vars := range f.Profiles {
		out = append(out, vars)
	}
	return out
}

func (d *decoder) checkUse(u use) {
	head := u.path[0].Name
	if u.maybe || head == "" || d.full() {
		return
	}
	if pl, ok := placed[head]; ok && !slices.Contains(d.userNames, head) {
		if !pl.ok(u) && !d.anywhere(u) {
			d.useProblem(u, "misplaced-variable", "the variable "+u.path.String()+" exists only "+pl.where).Suggest("%s", pl.hint)
		}
		return
	}
	if d.names[head] || strings.HasPrefix(head, "ARG") {
		return
	}
	near := d.nearName(head)
	dotted := len(u.path) > 1 && u.path[1].Name != ""
	switch {
	case dotted && near != "":
		d.useProblem(u, "unknown-variable", "nothing sets the variable "+u.path.String()).Suggest("did you mean %q?", near+strings.TrimPrefix(u.path.String(), head))
	case dotted:
		if b := diag.Nearest(head, builtin); b != "" {
			d.useProblem(u, "unknown-variable", "nothing sets the variable "+u.path.String()).Suggest("did you mean %q?", b+strings.TrimPrefix(u.path.String(), head))
			return
		}
		d.useProblem(u, "unknown-variable", "nothing sets the variable "+u.path.String()).
			Suggest("a step sets it with id: %s or capture: %s", nameFrom(head), nameFrom(head))
	case near != "" && len(u.path) == 1 && !d.shellsOwn(u, head):
		d.useProblem(u, "unknown-variable", "nothing sets the variable "+head).Suggest("did you mean %q?", near)
	}
}

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
		if d.nearNames == nil {
			d.nearNames = map[string]string{}
		}
		d.nearNames[name] = near
	}
	return near
}

// anywhere reports whether a use stands where it cannot be said in which place
// it is evaluated: what a MapReduce file has at the top level, and handlers.
func (d *decoder) anywhere(u use) bool {
	return d.file.Kind == MapReduce && u.phase == 'c'
}

// shellsOwn reports whether a name without dots may be a variable of the shell
// itself: it is in capitals, or its text or another step's has the bare word.
func (d *decoder) shellsOwn(u use, name string) bool {
	if strings.ToUpper(name) == name {
		return true
	}
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
	p := d.problems.Warnf(pos, code, "%s", message)
	d.strictly(p)
	return p
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
