package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/spf13/cobra"
)

// storeFlags name the store.
type storeFlags struct {
	*app
	where string
}

func storeCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Verify and repair the store of runs on many machines",
		Long: `Runs on many machines are kept in a store: --store, else BIDE_STORE, else the directory
of bide's state. These commands find and repair what a disk or a copy has damaged there.`,
		Example: `  bide store verify
  bide store repair last`,
	}
	cmd.AddCommand(storeVerifyCmd(a), storeRepairCmd(a))
	return cmd
}

// storeVerifyOptions are the options of store verify.
type storeVerifyOptions struct {
	storeFlags
	names []string // of runs; none: all
}

func storeVerifyCmd(a *app) *cobra.Command {
	o := &storeVerifyOptions{storeFlags: storeFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "verify [RUN]...",
		Short: "Compare what is in the store with what was recorded of it",
		Long: `Reads all objects that a run needs, by default those of all runs in the store, and
names each damaged one. The exit status is 1 if one is damaged. Nothing is changed.`,
		Example: `  bide store verify
  bide store verify last --store dir:/mnt/shared/bide`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.names = args
			return o.run()
		},
	}
	cmd.Flags().StringVar(&o.where, "store", "", "the store: dir:PATH")
	return o.withJSON(cmd, "print a JSON array")
}

// storeRepairOptions are the options of store repair.
type storeRepairOptions struct {
	storeFlags
	name string // of the run
}

func storeRepairCmd(a *app) *cobra.Command {
	o := &storeRepairOptions{storeFlags: storeFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "repair RUN",
		Short: "Have what is damaged in the store run again",
		Long: `From now on, only the part of each damaged log before the damage counts: items that
ended later have not ended, and "bide resume" runs them again. A coordinator that
still works on the run stops. Nothing is removed. Damaged objects that are not logs
cannot be repaired; they are named.`,
		Example: `  bide store repair last
  bide resume last`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.where, "store", "", "the store: dir:PATH")
	return o.withJSON(cmd, "print a JSON object")
}

// inStore opens a store and finds the runs that are named: by their ids, by the first or last
// letters of them, or as last; all if none is named.
func (f *storeFlags) inStore(names []string) (cluster.Store, []string, error) {
	home, err := f.openStore()
	if err != nil {
		return cluster.Store{}, nil, err
	}
	s, err := sharedStore(home, f.where)
	if err != nil {
		return s, nil, err
	}
	all, err := s.Runs()
	if err != nil || len(names) == 0 {
		return s, all, err
	}
	var runs []string
	for _, name := range names {
		var fit []string
		for _, run := range all {
			if strings.HasSuffix(run, strings.ToUpper(name)) || strings.HasPrefix(run, strings.ToUpper(name)) {
				fit = append(fit, run)
			}
		}
		if name == "last" && len(all) > 0 {
			fit = all[len(all)-1:]
		}
		switch len(fit) {
		case 1:
			runs = append(runs, fit[0])
		case 0:
			return s, nil, usagef("the store %s has no run %s; bide store verify lists those that it has", s, name)
		default:
			return s, nil, usagef("%s matches the runs %s in the store %s: write more of the id", name, strings.Join(fit, ", "), s)
		}
	}
	return s, runs, nil
}

func (o *storeVerifyOptions) run() error {
	s, runs, err := o.inStore(o.names)
	if err != nil {
		return err
	}
	list, damaged := []cluster.Report{}, 0
	var unread []error
	for _, run := range runs {
		rep, err := s.Run(run).Verify()
		if err != nil { // of another protocol, perhaps; the others are still read
			unread = append(unread, fmt.Errorf("run %s cannot be verified: %w", run, err))
			continue
		}
		list = append(list, rep)
		damaged += len(rep.Damaged)
	}
	if o.json {
		err = printJSON(o.out, list)
	} else {
		err = o.printReports(s, list, len(runs))
	}
	if err = errors.Join(append(unread, err)...); err == nil && damaged > 0 {
		err = exitError(1)
	}
	return err
}

func (o *storeVerifyOptions) printReports(s cluster.Store, list []cluster.Report, runs int) error {
	if runs == 0 {
		return o.printf("the store %s has no run\n", s)
	}
	for _, rep := range list {
		state := "undamaged"
		if n := len(rep.Damaged); n > 0 {
			state = diag.Count(n, "damaged object")
		}
		if err := o.printf("run %s: %s, %s in the order: %s\n", rep.Run, diag.Count(rep.Logs, "log"), diag.Count(rep.Entries, "entry", "entries"), state); err != nil {
			return err
		}
		for _, d := range rep.Damaged {
			text := "cannot be repaired; put it back from a backup of the store"
			if d.Keep != nil {
				text = fmt.Sprintf("of the log %s, the first %d of %d bytes can be kept: bide store repair %s", d.Keep.Log, d.Keep.Length, d.Had, shortRun(rep.Run))
			}
			if err := o.printf("  %s: %s\n    %s\n", d.Name, d.Why, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *storeRepairOptions) run(ctx context.Context) error {
	s, runs, err := o.inStore([]string{o.name})
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	run := runs[0]
	rep, err := s.Run(run).Repair(ctx, "bide store repair on "+host+" "+rand.Text(), time.Now())
	switch {
	case err != nil:
		return err
	case o.json:
		return printJSON(o.out, rep)
	case len(rep.Damaged) == 0:
		return o.printf("run %s is undamaged: nothing was changed\n", run)
	}
	return o.printf("repaired run %s: %s; `bide resume %s` runs what was lost\n", run, diag.Count(len(rep.Damaged), "log counts up to its damage", "logs count up to their damage"), shortRun(run))
}
