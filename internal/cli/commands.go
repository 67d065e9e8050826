package cli

import "github.com/spf13/cobra"

// groups are the groups of commands, in the order of the help.
var groups = []*cobra.Group{
	{ID: "run", Title: "Run work:"},
	{ID: "look", Title: "Look at runs:"},
	{ID: "fix", Title: "Fix what failed:"},
	{ID: "foresee", Title: "Check and foresee:"},
	{ID: "setup", Title: "Set up:"},
}

// The help lists the commands of a group in the order of their table, not of their names.
func init() { cobra.EnableCommandSorting = false }

// command is a command with its group and name. It is constructed only when it is needed.
type command struct {
	group, name string
	make        func(*app) *cobra.Command
}

// commandTable lists the commands in the order of the help.
func commandTable() []command {
	return []command{
		{"run", "run", runCmd},
		{"run", "exec", execCmd},
		{"run", "batch", batchCmd},
		{"run", "control", controlCmd},
		{"run", "stop", stopCmd},
		{"run", "limits", limitsCmd},
		{"look", "status", statusCmd},
		{"look", "runs", runsCmd},
		{"look", "show", showCmd},
		{"look", "logs", logsCmd},
		{"look", "events", eventsCmd},
		{"look", "ui", uiCmd},
		{"look", "proof", proofCmd},
		{"look", "export", exportCmd},
		{"fix", "resume", resumeCmd},
		{"fix", "rerun", rerunCmd},
		{"fix", "dlq", dlqCmd},
		{"fix", "worktree", worktreeCmd},
		{"fix", "clean", cleanCmd},
		{"fix", "store", storeCmd},
		{"foresee", "check", checkCmd},
		{"foresee", "explain", explainCmd},
		{"foresee", "graph", graphCmd},
		{"foresee", "backoff", backoffCmd},
		{"foresee", "simulate", simulateCmd},
		{"foresee", "replay", replayCmd},
		{"foresee", "tune", tuneCmd},
		{"setup", "init", initCmd},
		{"setup", "migrate", migrateCmd},
		{"setup", "fmt", fmtCmd},
		{"setup", "schema", schemaCmd},
		{"setup", "lsp", lspCmd},
		{"setup", "docs", docsCmd},
		{"setup", "man", manCmd},
		{"setup", "worker", workerCmd},
		{"setup", "cluster", clusterCmd},
		{"setup", "version", versionCmd},
	}
}

// commands constructs the command that the first argument names, or all if it names none:
// constructing all takes time that a short command would feel. The version needs no command.
func (a *app) commands(args []string) (list []*cobra.Command) {
	if len(args) == 1 && args[0] == "--version" {
		return nil
	}
	table := commandTable()
	for _, c := range table {
		if len(args) > 0 && args[0] == c.name {
			table = []command{c}
			break
		}
	}
	for _, c := range table {
		cmd := c.make(a)
		cmd.GroupID = c.group
		list = append(list, cmd)
	}
	return list
}
