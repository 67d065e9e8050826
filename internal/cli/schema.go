package cli

import (
	"cmp"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
)

// schemas are the names of all schemas.
var schemas = []string{"workflow", "model"}

// schemaOptions are the options of schema.
type schemaOptions struct {
	*streams
	of string // one of schemas; "": the first
}

func schemaCmd(a *app) *cobra.Command {
	o := &schemaOptions{streams: &a.streams}
	return o.withJSON(&cobra.Command{
		Use:   "schema [workflow|model]",
		Short: "Print the JSON Schema of workflow files, or of models",
		Long: `Prints the JSON Schema (2020-12) of workflow files, or of the model files of
"bide simulate". With it, YAML editors complete keys and mark mistakes. For the YAML language server,
put a line

  # yaml-language-server: $schema=PATH

at the top of the workflow. The schema comes from the tables with which bide reads
files; "bide check" finds more, such as a variable that nothing sets.`,
		Example: `  bide schema > workflow.schema.json
  bide schema model > model.schema.json`,
		ValidArgs: schemas,
		RunE: func(_ *cobra.Command, args []string) error {
			o.of = first(args)
			return o.run()
		},
	}, "the same: the schema is JSON")
}

func (o *schemaOptions) run() error {
	text := workflow.Schema()
	if o.of != "" && o.of != schemas[0] {
		if o.of != schemas[1] {
			hint := cmp.Or(formerly["bide schema "+o.of], diag.DidYouMean(o.of, schemas))
			return usagef("there is no schema of %q; write %s%s", o.of, strings.Join(schemas, " or "), strings.TrimRight("; "+hint, "; "))
		}
		text = simulate.Schema
	}
	_, err := o.out.Write(text)
	return err
}
