package cli

import "github.com/spf13/cobra"

// commands lists the commands in the order of the help.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.runCmd(),
		a.resumeCmd(),
		a.execCmd(),
		a.checkCmd(),
	}
}
