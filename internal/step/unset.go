package step

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// Checked are actions whose commands and prompts name variables: what nothing has set is
// reported. Where the variables are made up, there is nothing to check.
type Checked struct {
	Actions
	// Note tells a warning the first time that it is called with a key.
	Note func(key, text string)
}

// Run makes an attempt, unless its command names a field that the item does not have.
func (c Checked) Run(ctx context.Context, call *Call) (action.Result, error) {
	switch a := call.Action.(type) {
	case *workflow.Shell:
		if err := lacksField(a.Text, call.Scope); err != nil {
			return action.Result{}, err
		}
		res, err := c.Actions.Run(ctx, call)
		if err != nil {
			err = explainUnset(a.Text, call.Scope, err)
		}
		return res, err
	case *workflow.Claude:
		if call.Step != nil {
			c.warnUnset(call, a.Text)
		}
	}
	return c.Actions.Run(ctx, call)
}

// warnUnset tells once of a step that its prompt names a field that an item does not
// have: the agent is given the name as it is written.
func (c Checked) warnUnset(call *Call, text *template.Text) {
	if call.Index == 0 {
		return
	}
	refs := slices.DeleteFunc(text.Refs(), func(r template.Ref) bool { return r.Path == nil || r.Path[0].Name != "item" })
	if unset := unsetIn(refs, call.Scope); len(unset) > 0 {
		s := call.Step
		c.Note("unset "+s.Path, fmt.Sprintf("%s: step %q, first of item %s: %s", s.Pos, s.Label(), call.Item, lacking(unset, call.Scope)))
	}
}

// explainUnset says of the failure of a command which variables of its text nothing
// has set: the shell was given them as they are written. One that could make nothing
// of such a name fails the next time as well, and what it said is no help.
func explainUnset(text *template.Text, scope *vars.Scope, err error) error {
	unset := unsetIn(text.Refs(), scope)
	if len(unset) == 0 {
		return err
	}
	var exit *action.ExitError
	if !errors.As(err, &exit) || !badSubstitution().MatchString(exit.Stderr) {
		return fmt.Errorf("%w; nothing has set ${%s}", err, strings.Join(unset, "}, ${"))
	}
	return &UnsetError{Text: lacking(unset, scope), OfItem: strings.HasPrefix(unset[0], "item.")}
}

// lacksField is the error of a command that names a field which the item does not
// have, where a shell could not but fail of it: none is started.
func lacksField(text *template.Text, scope *vars.Scope) error {
	refs := slices.DeleteFunc(text.Refs(), func(r template.Ref) bool {
		return len(r.Path) < 2 || r.Path[0].Name != "item" || !text.MustExpand(r.Offset)
	})
	if unset := unsetIn(refs, scope); len(unset) > 0 {
		return &UnsetError{Text: lacking(unset, scope), OfItem: true}
	}
	return nil
}

// UnsetError is a command whose text names what nothing has set, and that failed of it.
type UnsetError struct {
	Text   string
	OfItem bool // it is a field that the item does not have: no other attempt at the item has it
}

func (e *UnsetError) Error() string { return e.Text }

// Input is true: another attempt would meet the same.
func (e *UnsetError) Input() bool { return true }

// Class is "input".
func (e *UnsetError) Class() string { return "input" }

// badSubstitution is what shells say of a name that they cannot read.
var badSubstitution = pattern.Lazy(`(?i)bad substitution`)

// unsetIn gives the names that nothing has set, that have no default, and that no shell
// could read: those with members, and of the environment.
func unsetIn(refs []template.Ref, scope *vars.Scope) (unset []string) {
	for _, ref := range refs {
		member := len(ref.Path) > 1 && ref.Path[1].Name != "" || strings.HasPrefix(ref.Name, "env:")
		if !member || ref.Default || slices.Contains(unset, ref.Name) {
			continue
		}
		if _, set, err := Lookup(scope, ref.Name); !set && err == nil {
			unset = append(unset, ref.Name)
		}
	}
	return unset
}

// mostFields is how many fields of an item are listed.
const mostFields = 12

// lacking says what is not there, what the item has, and what may be meant.
func lacking(unset []string, scope *vars.Scope) string {
	said := fmt.Sprintf("nothing has set ${%s}", strings.Join(unset, "}, ${"))
	name, ofItem := strings.CutPrefix(unset[0], "item.")
	if !ofItem {
		return said + "; write ${" + unset[0] + ":-} where it may be missing"
	}
	item, isObject := scope.Get("item").(map[string]any)
	if !isObject {
		return said + ": the item is no object and has no fields; ${item} is all of it"
	}
	return said + ": the item " + FieldsText(slices.Sorted(maps.Keys(item)), name, "write ${"+unset[0]+":-} where it may be missing")
}

// FieldsText says which fields there are, and what may be meant by a name that is
// none of them: one of a similar name, else what instead says.
func FieldsText(fields []string, name, instead string) string {
	hint := instead
	if near := diag.Nearest(name, fields); near != "" {
		hint = fmt.Sprintf("did you mean ${item.%s}? (or %s)", near, instead)
	}
	return fmt.Sprintf("has %s; %s", diag.First(fields, mostFields), hint)
}

// WarnMisspelt tells once of a step that its condition, which does not hold, reads a
// field that the item does not have, where it has one of a similar name.
func (x *Executor) WarnMisspelt(p Place, s *workflow.Step) {
	item, ok := p.Scope.Get("item").(map[string]any)
	if p.Index == 0 || !ok {
		return
	}
	maybe := s.When.Optional()
	for i, path := range s.When.Refs() {
		if maybe[i] || path[0].Name != "item" || len(path) < 2 || path[1].Name == "" {
			continue
		}
		if _, has := item[path[1].Name]; has {
			continue
		}
		if near := diag.Nearest(path[1].Name, slices.Sorted(maps.Keys(item))); near != "" {
			x.NoteOnce("when "+s.Path, fmt.Sprintf("%s: step %q is skipped, first of item %s: its when reads item.%s, which is not there; did you mean item.%s? (or write ${item.%[4]s:-} where it may be missing)",
				s.Pos, s.Label(), p.Item, path[1].Name, near))
		}
	}
}
