package cli

import "github.com/spf13/cobra"

// commands lists the commands in the order of the help. Where the first of the
// arguments is run, as in most starts, it is that command alone: to make all of
// them is time that a short run would feel.
func (a *app) commands(args []string) []*cobra.Command {
	if len(args) > 0 && args[0] == "run" {
		return []*cobra.Command{a.runCmd()}
	}
	return []*cobra.Command{
		a.runCmd(),
		a.resumeCmd(),
		a.rerunCmd(),
		a.execCmd(),
		a.checkCmd(),
		a.explainCmd(),
		a.simulateCmd(),
		a.replayCmd(),
		a.tuneCmd(),
		a.backoffCmd(),
		a.docsCmd(),
		a.initCmd(),
		a.schemaCmd(),
		a.manCmd(),
		a.batchCmd(),
		a.runsCmd(),
		a.showCmd(),
		a.statusCmd(),
		a.stopCmd(),
		a.controlCmd(),
		a.uiCmd(),
		a.workerCmd(),
		a.clusterCmd(),
		a.logsCmd(),
		a.eventsCmd(),
		a.exportCmd(),
		a.dlqCmd(),
		a.worktreeCmd(),
		a.cleanCmd(),
		a.migrateCmd(),
		a.fmtCmd(),
		a.graphCmd(),
		a.lspCmd(),
		a.versionCmd(),
	}
}
