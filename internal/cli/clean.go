package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/spf13/cobra"
)

// cleanOptions are the options of clean.
type cleanOptions struct {
	*app
	older               string
	runs                []string
	dryRun, yes, forced bool
	store               bool
}

func cleanCmd(a *app) *cobra.Command {
	o := &cleanOptions{app: a}
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove the recorded state of finished runs",
		Long: `Removes the state of runs that have ended: journal, logs, and worktrees whose work
is merged. It also removes expired results of pipeline calls (cache_backend:
"disk").

It keeps runs that are running and, without --force, runs that can be resumed or have
dead letters. It always keeps a run whose work is not merged, and its branches.

Of a run that many machines share, this machine's copy is removed, and with --store
what the store has of it, for all machines.

Say which runs: --older-than AGE (0s for all that have ended) or --run RUN. On a
terminal it asks for the age.`,
		Example: `  bide clean --older-than 0s --dry-run
  bide clean --older-than 30d -y
  bide clean --run 01KAJ3 --force`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.older, "older-than", "", "only runs that ended at least this long ago, as in 30d")
	fl.StringArrayVar(&o.runs, "run", nil, "only this run; may be given several times")
	fl.BoolVar(&o.dryRun, "dry-run", false, "show what would be removed, and remove nothing")
	fl.BoolVarP(&o.yes, "yes", "y", false, "do it without asking")
	fl.BoolVar(&o.forced, "force", false, "also runs that could be resumed, and those with dead letters")
	fl.BoolVar(&o.store, "store", false, "of runs on Temporal, also what their store has of them, for all machines")
	return o.withJSON(cmd, "print one JSON object")
}

// cleaned is a run that clean considered.
type cleaned struct {
	Run     string          `json:"run"`
	Name    string          `json:"name,omitempty"`
	Status  string          `json:"status"`
	Ended   time.Time       `json:"finished,omitzero"`
	Bytes   int64           `json:"bytes"`
	Removed bool            `json:"removed"`
	Why     string          `json:"why,omitempty"` // why it is kept
	dir     string          // where it ran
	shared  *cluster.Shared // what the store has of it, which is removed too; nil: nothing
}

func (o *cleanOptions) run(ctx context.Context) error {
	if err := o.askAge(); err != nil {
		return err
	}
	older, err := o.age()
	if err != nil {
		return err
	}
	st, err := o.openStore()
	if err != nil {
		return err
	}
	only, err := o.resolveRuns(ctx, st, o.runs)
	if err != nil {
		return err
	}
	c := &cleaner{st: st, f: o, older: older, repos: map[string]map[string]string{}}
	list := []cleaned{}
	for s, err := range st.Runs(ctx) {
		if err != nil && s.ID == "" {
			return err
		}
		if len(only) > 0 && !slices.Contains(only, s.ID) {
			continue
		}
		x, err := c.judge(ctx, s, err)
		if err != nil {
			return err
		}
		list = append(list, x)
	}
	if n, bytes := going(list, true); n > 0 && !o.dryRun {
		if err := o.confirm(o.yes, fmt.Sprintf("Remove the state of %s (%s)?", diag.Count(n, "run"), diag.Bytes(bytes))); err != nil {
			return err
		}
		err = c.remove(ctx, list)
	}
	cache, cerr := o.pruneCache(st)
	return errors.Join(err, cerr, o.printCleaned(list, cache))
}

// cleanedCache counts the results that clean removed from the cache, or would remove.
type cleanedCache struct {
	Results int   `json:"results"`
	Bytes   int64 `json:"bytes"`
}

// pruneCache removes expired results, unless clean was asked for certain runs only.
func (f *cleanOptions) pruneCache(st *journal.Store) (c cleanedCache, err error) {
	if len(f.runs) > 0 {
		return c, nil
	}
	c.Results, c.Bytes, err = flow.PruneCache(dataflow.CacheDir(st.Dir), time.Now(), !f.dryRun)
	if err != nil {
		err = fmt.Errorf("the cache of pipelines: %w", err)
	}
	return c, err
}

// askAge asks for the age if the user named neither an age nor a run.
func (o *cleanOptions) askAge() error {
	if o.older != "" || len(o.runs) > 0 {
		return nil
	}
	if !isTerminal(o.in) || !isTerminal(o.err) {
		return usagef("say which runs: --older-than 30d, --older-than 0s for all that have ended, or --run RUN")
	}
	o.question("Remove runs that ended how long ago, at least (as in 30d)?")
	line, err := bufio.NewReader(o.in).ReadString('\n')
	if o.older = strings.TrimSpace(line); o.older == "" {
		return errors.Join(errors.New("nothing was done"), err)
	}
	return nil
}

func (f *cleanOptions) age() (time.Duration, error) {
	if f.older == "" {
		return 0, nil
	}
	d, err := duration.Parse(f.older)
	if err != nil {
		return 0, usagef("--older-than: %w", err)
	}
	return d, nil
}

// resolveRuns turns ids and their beginnings into ids. It reports all wrong ones together.
func (a *app) resolveRuns(ctx context.Context, st *journal.Store, runs []string) ([]string, error) {
	var out []string
	var errs []error
	for _, run := range runs {
		if run == "" { // which would mean the last run
			return nil, usagef("--run is empty: name a run")
		}
		m, err := a.meant(ctx, run, runArg{})
		id := m.ID
		if err == nil && id == "" {
			id, err = st.Find(run)
		}
		if err != nil {
			errs = append(errs, err)
		}
		out = append(out, id)
	}
	return out, errors.Join(errs...)
}

// cleaner decides which runs to remove, and removes them.
type cleaner struct {
	st    *journal.Store
	f     *cleanOptions
	older time.Duration
	repos map[string]map[string]string // by directory and run: why its work is kept
}

// judge decides whether a run may be removed.
func (c *cleaner) judge(ctx context.Context, s journal.Summary, bad error) (cleaned, error) {
	i := infoOf(s, bad)
	x := cleaned{Run: s.ID, Name: i.Title, Status: i.Status, Ended: i.Finished, dir: s.Dir}
	var err error
	if x.Bytes, err = worktree.SizeOf(c.st.RunDir(s.ID)); err != nil {
		return x, err
	}
	back := false // the run would come back from the store
	if place, perr := cluster.Place(c.st.RunDir(s.ID)); perr == nil {
		store, err := cluster.OpenStore(place.Store)
		if err != nil {
			return x, err
		}
		if c.f.store {
			there := store.Run(s.ID)
			x.shared = &there
			if path := there.Path(); path != "" { // its size elsewhere is unknown: finding it would take a look at all of it
				n, err := worktree.SizeOf(path)
				if err != nil {
					return x, err
				}
				x.Bytes += n
			}
		} else if seen, err := cluster.OpenStore(os.Getenv("BIDE_STORE")); err == nil && seen == store {
			back = store.Has(s.ID)
		}
	}
	switch {
	case i.Status == event.Running:
		x.Why = "it is running"
	case bad != nil && !c.f.forced:
		x.Why = "its journal cannot be read; --force removes it"
	case i.Resumable && !c.f.forced:
		x.Why = "it can be resumed; --force removes it"
	case s.Items.DeadLettered > 0 && !c.f.forced:
		x.Why = fmt.Sprintf("it has %s; --force removes it", diag.Count(s.Items.DeadLettered, "dead letter"))
	case c.older > 0 && time.Since(ended(s)) < c.older:
		x.Why = "it is not old enough"
	case back:
		x.Why = "the store that BIDE_STORE names would give it back; --store removes it there, for all machines"
	default:
		x.Why, err = c.unmerged(ctx, s)
	}
	return x, err
}

// ended is when a run ended. For an interrupted run it is the start, the last time that is
// certain.
func ended(s journal.Summary) time.Time {
	if s.Finished.IsZero() {
		return s.Started
	}
	return s.Finished
}

// unmerged says what work of a run would be lost; "" if none.
func (c *cleaner) unmerged(ctx context.Context, s journal.Summary) (string, error) {
	if s.Dir == "" {
		return "", nil
	}
	kept, ok := c.repos[s.Dir]
	if !ok {
		var err error
		if kept, err = keptWork(ctx, s.Dir); err != nil {
			return "", fmt.Errorf("the repository of %s: %w", s.Dir, err)
		}
		c.repos[s.Dir] = kept
	}
	return kept[s.ID], nil
}

// openRepo opens the repository of a directory; nil if there is none.
func openRepo(ctx context.Context, dir string) (*worktree.Repo, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	repo, err := worktree.Open(ctx, dir)
	if errors.Is(err, worktree.ErrNotRepo) || errors.Is(err, worktree.ErrBare) || errors.Is(err, worktree.ErrNoGit) {
		return nil, nil
	}
	return repo, err
}

// keptWork returns, by run, the work in a repository that is not merged.
func keptWork(ctx context.Context, dir string) (map[string]string, error) {
	kept := map[string]string{}
	repo, err := openRepo(ctx, dir)
	if err != nil || repo == nil {
		return kept, err
	}
	infos, err := repo.List(ctx, "")
	for _, i := range infos {
		if !i.Merged() && kept[i.Run] == "" {
			kept[i.Run] = fmt.Sprintf("branch %s has work that is not merged; see `bide worktree ls %s`", i.Branch, i.Run)
		}
	}
	return kept, err
}

func (c *cleaner) remove(ctx context.Context, list []cleaned) error {
	var errs []error
	for n := range list {
		x := &list[n]
		if x.Why != "" {
			continue
		}
		if err := c.removeRun(ctx, *x); err != nil {
			x.Why = err.Error()
			errs = append(errs, fmt.Errorf("run %s: %w", x.Run, err))
			continue
		}
		x.Removed = true
	}
	return errors.Join(errs...)
}

func (c *cleaner) removeRun(ctx context.Context, x cleaned) error {
	if repo, err := openRepo(ctx, x.dir); err != nil {
		return err
	} else if repo != nil {
		if _, err := repo.Clean(ctx, worktree.CleanOptions{Run: x.Run}); err != nil {
			return err
		}
	}
	if x.shared != nil { // first: what is only here can be found again
		if err := x.shared.Remove(); err != nil {
			return err
		}
	}
	return c.st.Remove(x.Run)
}

func (o *cleanOptions) printCleaned(list []cleaned, cache cleanedCache) error {
	n, bytes := going(list, o.dryRun)
	if o.json {
		return printJSON(o.out, struct {
			Runs    []cleaned    `json:"runs"`
			Removed int          `json:"removed"`
			Bytes   int64        `json:"bytes"`
			Cache   cleanedCache `json:"cache"`
			DryRun  bool         `json:"dry_run"`
		}{list, n, bytes, cache, o.dryRun})
	}
	t := table{head: []string{"RUN", "STATUS", "SIZE", "NAME", "WHAT"}, right: map[int]bool{2: true}, flex: 4, also: []int{3}, block: true, keep: map[int]int{4: 20}, most: map[int]int{3: 24}}
	t.paint = paintStatus(o.palette(o.out), 1)
	for _, x := range list {
		t.add(shortRun(x.Run), words(x.Status), diag.Bytes(x.Bytes), x.Name, shortRuns(fate(x.goes(o.dryRun), o.dryRun, x.Why)))
	}
	verb := fate(true, o.dryRun, "")
	if len(list) > 0 {
		if err := t.print(o.out, o.columns(o.out)); err != nil {
			return err
		}
	}
	o.tell("%d of %s %s, %s", n, diag.Count(len(list), "run"), verb, diag.Bytes(bytes))
	if cache.Results > 0 {
		o.tell("%s of the cache %s, %s", diag.Count(cache.Results, "expired result"), verb, diag.Bytes(cache.Bytes))
	}
	return nil
}

// goes reports whether a run was removed or, in a dry run, would be.
func (x cleaned) goes(dry bool) bool { return x.Removed || dry && x.Why == "" }

// going counts the runs that were removed or would be, and their bytes.
func going(list []cleaned, dry bool) (n int, bytes int64) {
	for _, x := range list {
		if x.goes(dry) {
			n, bytes = n+1, bytes+x.Bytes
		}
	}
	return n, bytes
}

// fate says what happened, or would happen, to something that was to be cleaned.
func fate(goes, dry bool, why string) string {
	switch {
	case !goes:
		return "kept: " + why
	case dry:
		return "would be removed"
	}
	return "removed"
}
