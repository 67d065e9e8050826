package cli

import (
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
)

func (a *app) schemaCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of workflow files",
		Long: `Prints the JSON Schema (2020-12) of workflow files. Editors that know YAML then
complete keys and mark mistakes; for the YAML language server, put a line

  # yaml-language-server: $schema=PATH

at the top of the workflow. The schema is made of the tables by which bide reads
files; "bide check" knows more, such as what a variable refers to.`,
		Example: `  bide schema > workflow.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(workflow.Schema())
			return err
		},
	}
	a.jsonFlag(cmd, "the same: the schema is JSON")
	return cmd
}
