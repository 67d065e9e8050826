package cli

import "github.com/spf13/cobra"

// command is a command by its name, which is made when it is asked for.
type command struct {
	name string
	make func() *cobra.Command
}

// commandTable has the commands in the order of the help.
func (a *app) commandTable() []command {
	return []command{
		{"run", a.runCmd},
		{"resume", a.resumeCmd},
		{"rerun", a.rerunCmd},
		{"exec", a.execCmd},
		{"check", a.checkCmd},
		{"explain", a.explainCmd},
		{"simulate", a.simulateCmd},
		{"replay", a.replayCmd},
		{"tune", a.tuneCmd},
		{"backoff", a.backoffCmd},
		{"docs", a.docsCmd},
		{"init", a.initCmd},
		{"schema", a.schemaCmd},
		{"man", a.manCmd},
		{"batch", a.batchCmd},
		{"runs", a.runsCmd},
		{"show", a.showCmd},
		{"status", a.statusCmd},
		{"stop", a.stopCmd},
		{"control", a.controlCmd},
		{"ui", a.uiCmd},
		{"worker", a.workerCmd},
		{"cluster", a.clusterCmd},
		{"logs", a.logsCmd},
		{"events", a.eventsCmd},
		{"export", a.exportCmd},
		{"dlq", a.dlqCmd},
		{"worktree", a.worktreeCmd},
		{"clean", a.cleanCmd},
		{"migrate", a.migrateCmd},
		{"fmt", a.fmtCmd},
		{"graph", a.graphCmd},
		{"lsp", a.lspCmd},
		{"version", a.versionCmd},
	}
}

// commands makes the command that the first of the arguments names, and all of them
// where it names none: to make all is time that a short command would feel.
func (a *app) commands(args []string) (list []*cobra.Command) {
	table := a.commandTable()
	for _, c := range table {
		if len(args) > 0 && args[0] == c.name {
			return []*cobra.Command{c.make()}
		}
	}
	for _, c := range table {
		list = append(list, c.make())
	}
	return list
}
