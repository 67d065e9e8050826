package cli

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// These are the files that init writes. Tests check and run them.
var (
	//go:embed templates/workflow.yml
	firstWorkflow []byte
	//go:embed templates/mapreduce.yml
	firstMapReduce []byte
)

// initOptions are the options of init.
type initOptions struct {
	*streams
	dir       string
	file      string // in dir; "" for the usual name
	mapReduce bool
}

func initCmd(a *app) *cobra.Command {
	o := &initOptions{streams: &a.streams}
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a first workflow",
		Long: `Writes a first workflow, with comments and ready to run, as workflow.yml (or
mapreduce.yml) into DIR, or into this directory without DIR. DIR is made if it is
missing; it may also be the name of the file, such as demo/mine.yml. A file that
exists is not changed.`,
		Example: `  bide init
  bide init --mapreduce demo && bide run demo/mapreduce.yml`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.dir = cmp.Or(first(args), ".")
			switch filepath.Ext(o.dir) {
			case ".cst":
				return usagef("bide init writes a workflow, and %s is the name of a pipeline; bide docs pipelines has a first one", o.dir)
			case ".yml", ".yaml":
				o.dir, o.file = filepath.Split(o.dir)
				o.dir = filepath.Clean(o.dir)
			}
			return o.run()
		},
	}
	cmd.Flags().BoolVar(&o.mapReduce, "mapreduce", false, "a workflow that maps over work items in parallel")
	return o.withJSON(cmd, "print what was written as a JSON object")
}

func (o *initOptions) run() (err error) {
	name, text, kind := "workflow.yml", firstWorkflow, "workflow"
	if o.mapReduce {
		name, text, kind = "mapreduce.yml", firstMapReduce, "mapreduce"
	}
	name = cmp.Or(o.file, name)
	if info, err := os.Stat(o.dir); err == nil && !info.IsDir() {
		return usagef("%s is a file; give a directory: bide init DIR", o.dir)
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	path := filepath.Join(o.dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		if o.file != "" {
			return usagef("%s is there already, and was left alone; give another name: bide init FILE", path)
		}
		return fmt.Errorf("%s is there already, and was left alone; give another directory: bide init DIR", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(path)))
	}
	if o.json {
		return printJSON(o.out, map[string]string{"path": path, "kind": kind})
	}
	fmt.Fprintln(o.out, path)
	between, next := ", ", fmt.Sprintf("next: bide check %s", path)
	if width := o.columns(o.err); width > 0 && 3*len(next) > width {
		between = "\n      "
	}
	fmt.Fprintf(o.err, "%s%sbide explain %[3]s%[2]sbide run %[3]s\n", next, between, path)
	return nil
}
