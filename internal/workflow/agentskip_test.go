package workflow_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// TestSkippedPermissions: skip_permissions is the claude program's; beside any
// other program it would do nothing, and says so.
func TestSkippedPermissions(t *testing.T) {
	const (
		other  = "agents: {helper: {command: [helper, '${prompt}']}}\n"
		claude = "agents: {helper: {command: [/opt/bin/claude, -p, '${prompt}']}}\n"
	)
	for _, c := range []struct {
		name, src string
		warns     int
	}{
		{"the agent", "agents: {helper: {command: [helper, '${prompt}'], skip_permissions: true}}\ncommands: [{helper: hi}]", 1},
		{"the step", other + "commands: [{helper: hi, skip_permissions: true}]", 1},
		{"the step, false", other + "commands: [{helper: hi, skip_permissions: false}]", 0},
		{"the file", other + "skip_permissions: true\ncommands: [{helper: hi}]", 1},
		{"the file, with a claude step beside", other + "skip_permissions: true\ncommands: [{helper: hi}, {claude: /x}]", 0},
		{"another program as claude", "agents: {claude: {command: [helper, '${prompt}']}}\nskip_permissions: true\ncommands: [{claude: /x}]", 1},
		{"claude by its path", claude + "skip_permissions: true\ncommands: [{helper: hi, skip_permissions: true}]", 0},
		{"a program that only the run knows", "agents: {helper: {command: ['${env.PATH}', '${prompt}'], skip_permissions: true}}\ncommands: [{helper: hi}]", 0},
	} {
		_, problems := parse(t, c.src)
		if len(problems) != c.warns {
			t.Errorf("%s: %d problems, want %d\n%v", c.name, len(problems), c.warns, problems)
		}
		for _, p := range problems {
			if p.Code != "no-effect" || p.Suggestion == "" {
				t.Errorf("%s: %v is no warning about an option without effect, with what to do", c.name, p)
			}
		}
	}
}

// TestGoalSeekWithTwo: claude and shell beside each other are two steps, as
// they are written, with a warning.
func TestGoalSeekWithTwo(t *testing.T) {
	f, problems := parse(t, "commands:\n  - goal_seek: {goal: g, shell: b, claude: /a, validate: {shell: s}}\n")
	if len(problems) != 1 || problems.HasErrors() || problems[0].Code != "several-actions" {
		t.Fatalf("the problems are %v, want one warning", problems)
	}
	if got := briefs(f.Steps[0].Action.(*workflow.GoalSeek).Do); got != "shell:b claude:/a" {
		t.Errorf("the attempt is %q", got)
	}
}
