package cluster

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// Apart reports which steps of a file need a directory that all machines share, if the
// store of the run is not one. Steps that only write a file there are errors. Commands that
// write one are warnings, because only the command itself may need the file. What an item
// writes in its own worktree travels with its work. isolation is the value from the command
// line.
func (s Store) Apart(f *workflow.File, isolation string) (list diag.List) {
	if _, ok := s.o.(Directory); ok {
		return nil
	}
	own := map[*workflow.Step]bool{} // steps of items that have a worktree
	if isolation = cmp.Or(isolation, f.Isolation); f.Map != nil && (isolation == "worktree" || isolation != "none" && workflow.NeedsIsolation(f)) {
		workflow.WalkAll(&workflow.File{Steps: f.Map.Template.Steps}, func(step *workflow.Step) { own[step] = true })
	}
	tell := func(step *workflow.Step, severity diag.Severity, what string) {
		pos := step.Pos
		pos.File = cmp.Or(pos.File, f.Path)
		list = append(list, diag.Problem{Pos: pos, Severity: severity, Code: "no-shared-directory",
			Message:    fmt.Sprintf("%s, which stays on the machine that runs the step: with the store %s, no directory is shared", what, s),
			Suggestion: "print it and capture it (capture_output, ${map.outputs}): outputs go to all machines; or use a store dir:PATH"})
	}
	workflow.WalkAll(f, func(step *workflow.Step) {
		if own[step] {
			return
		}
		if step.OutputFile != nil {
			tell(step, diag.Error, "output_file writes the file "+step.OutputFile.String())
		}
		switch a := step.Action.(type) {
		case *workflow.WriteFile:
			tell(step, diag.Error, "write_file writes the file "+a.Path.String())
		case *workflow.Shell:
			names := slices.DeleteFunc(slices.Clone(a.Text.Script().Writes), func(name string) bool { return name == "" || filepath.IsAbs(name) || strings.HasPrefix(name, "$") })
			if len(names) > 0 {
				tell(step, diag.Warning, "the command writes the file "+names[0])
			}
		}
	})
	return list
}
