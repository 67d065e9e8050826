package workflow_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/reference"
	"github.com/bide-dev/bide/internal/workflow"
)

// TestEveryVariableWhereItIs: a file that reads a variable of the reference where that says that
// it is has no problem, to be run either.
func TestEveryVariableWhereItIs(t *testing.T) {
	t.Parallel()
	const (
		agents = "mode: mapreduce\nmap:\n  input: [a]\n  agent_template:\n    - shell: echo %\n"
		reduce = "mode: mapreduce\nmap:\n  input: [a]\n  agent_template: [{shell: 'true'}]\nreduce:\n  - shell: echo %\n"
	)
	// By the group, and by the beginning of the name where that is longer.
	places := map[string]string{
		"Everywhere":                       "commands:\n  - shell: echo %\n",
		"workflow.":                        "commands: [{shell: 'true'}]\nfinally:\n  - shell: echo %\n",
		"ITERATION":                        "max_iterations: 3\ncommands:\n  - shell: echo %\n",
		"After a step":                     "commands:\n  - {shell: 'true', id: ID, capture: NAME}\n  - {shell: 'true', capture_output: true}\n  - shell: echo %\n",
		"After a failure or a check":       "commands:\n  - test: {command: 'true', on_failure: [{shell: echo %}]}\n",
		"validation":                       "commands:\n  - shell: 'true'\n    validate: {shell: 'true', on_incomplete: {shell: echo %}}\n",
		"goal.":                            "commands:\n  - goal_seek: {goal: good, shell: echo %, validate: {shell: 'true'}}\n",
		"goal_seek.":                       "commands:\n  - goal_seek: {goal: good, shell: 'true', validate: {shell: 'true'}}\n  - shell: echo %\n",
		"In a loop or a map":               "commands:\n  - foreach: [a]\n    do: [{shell: echo %}]\n",
		"foreach.results":                  "commands:\n  - foreach: [a]\n    do: [{shell: 'true'}]\n  - shell: echo %\n",
		"foreach.s":                        "commands:\n  - foreach: [a]\n    do: [{shell: 'true'}]\n  - shell: echo %\n",
		"item.":                            agents,
		"item_":                            agents,
		"attempt":                          agents,
		"`same_error.on_hold`":             agents + "error_policy:\n  same_error: {count: 2, on_hold: [{shell: echo %}]}\n",
		"After a map: in reduce and merge": reduce,
		"In merge":                         reduce + "merge:\n  - shell: echo %\n",
	}
	for _, row := range reference.Scope {
		if strings.HasPrefix(row.Group, "Filters") {
			continue
		}
		for name := range strings.SplitSeq(row.Name, ", ") {
			best, file := "", places[row.Group]
			for begin, text := range places {
				if strings.HasPrefix(name, begin) && len(begin) > len(best) {
					best, file = begin, text
				}
			}
			if row.Group == "`same_error.on_hold`" {
				file = strings.Replace(file, "echo %", "'true'", 1)
			} else if row.Group == "In merge" {
				file = strings.Replace(file, "echo %", "'true'", 1)
			}
			if file == "" {
				t.Fatalf("%s: there is no file for %s", name, row.Group)
			}
			name := strings.NewReplacer("FORMAT", "%Y", "COMMAND", "true", "json:PATH:FILE", "json:a:b.json", "file:PATH", "file:go.mod", "env.NAME", "env.HOME", "env:NAME", "env:HOME").Replace(name)
			file = strings.ReplaceAll(file, "echo %", "'echo ${"+name+"}'")
			if _, problems := workflow.Parse("w.yml", []byte(file), workflow.Options{ToRun: true}); len(problems) > 0 {
				t.Errorf("%s: %v\n%s", name, problems, file)
			}
			if row.Group == "After a failure or a check" && strings.HasPrefix(name, "error") {
				for _, file := range []string{
					"commands:\n  - shell: 'true'\n    on_failure: {shell: 'echo ${%}'}\n",
					"commands:\n  - shell: 'true'\n    on_exit_code: {3: {shell: 'echo ${%}'}}\n",
					"commands:\n  - shell: 'true'\n    retry: {on_failure: {fallback: {command: 'echo ${%}'}}}\n",
					"mode: mapreduce\nmap:\n  input: [a]\n  agent_template: [{shell: 'true'}]\nerror_policy: {on_item_failure: {custom: mend}}\nhandlers: {mend: [{shell: 'echo ${%}'}]}\n",
				} {
					file = strings.ReplaceAll(file, "%", name)
					if _, problems := workflow.Parse("w.yml", []byte(file), workflow.Options{ToRun: true}); len(problems) > 0 {
						t.Errorf("%s: %v\n%s", name, problems, file)
					}
				}
			}
		}
	}
}
