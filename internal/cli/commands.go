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

// The commands of a group stand in the order of their table, not of their names.
func init() { cobra.EnableCommandSorting = false }

// command is a command by its group and name, which is made when it is asked for.
type command struct {
	group, name string
	make        func() *cobra.Command
}

// commandTable has the commands in the order of the help.
func (a *app) commandTable() []command {
	return []command{
		{"run", "run", a.runCmd},
		{"run", "exec", a.execCmd},
		{"run", "batch", a.batchCmd},
		{"run", "control", a.controlCmd},
		{"run", "stop", a.stopCmd},
		{"look", "status", a.statusCmd},
		{"look", "runs", a.runsCmd},
		{"look", "show", a.showCmd},
		{"look", "logs", a.logsCmd},
		{"look", "events", a.eventsCmd},
		{"look", "ui", a.uiCmd},
		{"look", "export", a.exportCmd},
		{"fix", "resume", a.resumeCmd},
		{"fix", "rerun", a.rerunCmd},
		{"fix", "dlq", a.dlqCmd},
		{"fix", "worktree", a.worktreeCmd},
		{"fix", "clean", a.cleanCmd},
		{"fix", "store", a.storeCmd},
		{"foresee", "check", a.checkCmd},
		{"foresee", "explain", a.explainCmd},
		{"foresee", "graph", a.graphCmd},
		{"foresee", "backoff", a.backoffCmd},
		{"foresee", "simulate", a.simulateCmd},
		{"foresee", "replay", a.replayCmd},
		{"foresee", "tune", a.tuneCmd},
		{"setup", "init", a.initCmd},
		{"setup", "migrate", a.migrateCmd},
		{"setup", "fmt", a.fmtCmd},
		{"setup", "schema", a.schemaCmd},
		{"setup", "lsp", a.lspCmd},
		{"setup", "docs", a.docsCmd},
		{"setup", "man", a.manCmd},
		{"setup", "worker", a.workerCmd},
		{"setup", "cluster", a.clusterCmd},
		{"setup", "version", a.versionCmd},
	}
}

// commands makes the command that the first of the arguments names, and all of them
// where it names none: to make all is time that a short command would feel.
func (a *app) commands(args []string) (list []*cobra.Command) {
	table := a.commandTable()
	for _, c := range table {
		if len(args) > 0 && args[0] == c.name {
			table = []command{c}
			break
		}
	}
	for _, c := range table {
		cmd := c.make()
		cmd.GroupID = c.group
		list = append(list, cmd)
	}
	return list
}
