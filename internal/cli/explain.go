package cli

import (
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worst"
	"github.com/spf13/cobra"
)

// explainOptions are the options of explain.
type explainOptions struct {
	runFlags
	path string
}

func explainCmd(a *app) *cobra.Command {
	o := &explainOptions{runFlags: runFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "explain FILE",
		Short: "Show the plan of a workflow: defaults, retries, worst case",
		Long: `Shows the effective plan of a workflow file, every default filled in: for each
step what it does and where, its attempts and the delays between them, how often
it is executed at most, how long it can take, and which variables are in scope
(one with a question mark may be missing, since the step that sets it may not run).
For limits of the machine that a step, a map or a call names, it shows what this
machine allows.

It also reports settings that cannot take effect: budgets and attempts that are
never reached, timeouts shorter than the waits inside them.

In the worst case every attempt takes its whole timeout and fails, and every jitter
draws its longest delay. It leaves out waits that a server asks for with
Retry-After, and the work of bide and git. Nothing is run.`,
		Example: `  bide explain nightly.yml
  bide explain deploy.yml --param env=staging --json`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.path = args[0]
			return o.run()
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&o.params, "param", nil, "a parameter, NAME=VALUE")
	fs.StringVar(&o.paramFile, "param-file", "", "parameters from a JSON or YAML file")
	fs.StringVar(&o.Profile, "profile", "", "use a profile of the file")
	o.addManifest(fs)
	fs.BoolVar(&o.strict, "strict", false, "treat warnings about the file as errors")
	return o.withJSON(cmd, "print the plan as a JSON object")
}

// load reads a workflow file with the parameters and the profile of the flags. It uses read
// unless that is nil.
func (f *runFlags) load(path string, read func(string) ([]byte, error)) (*workflow.File, diag.List, error) {
	params, paramFile, err := f.parameters()
	if err != nil {
		return nil, nil, err
	}
	file, problems := loadWorkflow(path, workflow.Options{Params: params, ParamFile: paramFile, Profile: f.Profile, Strict: f.strict, ReadFile: read})
	return file, problems, nil
}

func (o *explainOptions) run() error {
	if dataflow.IsPipeline(o.path) {
		p, err := o.loadPipeline(o.path, o.manifest, o.strict)
		if err != nil {
			return err
		}
		return o.explainPipeline(p)
	}
	file, problems, err := o.load(o.path, nil)
	if err != nil {
		return err
	}
	o.problems(problems, sources(file))
	if problems.HasErrors() || file == nil {
		return o.faulty(o.path, problems, "")
	}
	plan := worst.Explain(file)
	if plan.NamesLimits() {
		c, err := machineLimits()
		if err != nil {
			return err
		}
		plan.OnMachine(c)
	}
	if o.json {
		return printJSON(o.out, plan)
	}
	w := planWriter{palette: o.palette(o.out), width: o.columns(o.out)}
	w.plan(plan)
	return o.print(w.String())
}
