package cli

import "github.com/spf13/cobra"

// commands lists the commands in the order of the help.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.runCmd(),
		a.resumeCmd(),
		a.execCmd(),
		a.checkCmd(),
		a.explainCmd(),
		a.backoffCmd(),
		a.initCmd(),
		a.schemaCmd(),
		a.manCmd(),
		a.batchCmd(),
		a.runsCmd(),
		a.showCmd(),
		a.logsCmd(),
		a.eventsCmd(),
		a.dlqCmd(),
		a.worktreeCmd(),
		a.cleanCmd(),
		a.fmtCmd(),
		a.graphCmd(),
		a.lspCmd(),
	}
}
