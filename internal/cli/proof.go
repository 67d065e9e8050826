package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/proof"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/spf13/cobra"
)

// proofOptions are the options of proof.
type proofOptions struct {
	*app
	id, item string // item "": all items
	verify   bool
	format   string
	dir      string
}

func proofCmd(a *app) *cobra.Command {
	o := &proofOptions{app: a}
	cmd := &cobra.Command{
		Use:   "proof [RUN] [ITEM]",
		Short: "List what the items of a run have shown, and their merges",
		Long: `Lists for each item of a map with evidence or a merge queue what was checked, on
which tree, with which result, and which merge has its work.

--verify compares the record with the repository and with what the checks printed:
trees, digests, merges, and that everything that landed was verified. It reports
each difference; the exit status is 1 if there is one.`,
		Example: `  bide proof
  bide proof 01KAJ3 --verify
  bide proof 01KAJ3 item-7
  bide proof 01KAJ3 --format in-toto > attestations.jsonl`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			if len(args) > 1 {
				o.item = args[1]
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&o.verify, "verify", false, "compare the record with the repository, and report differences")
	fs.StringVar(&o.format, "format", "text", "text, json, or in-toto: an attestation of each item on a line, with the predicate test-result")
	fs.StringVarP(&o.dir, "path", "p", "", "a directory in the repository (default: that of the run)")
	return o.withJSON(cmd, "print one JSON object")
}

func (o *proofOptions) run(ctx context.Context) error {
	if err := chosen("proof", "format", o.format); err != nil {
		return usageError{err}
	}
	switch {
	case o.json && o.format == "in-toto":
		return usagef("--json and --format in-toto cannot be used together")
	case o.json:
		o.format = "json"
	}
	return o.reading(o.id, func(r *journal.Reader) error {
		p, err := proof.Read(ctx, r)
		if err != nil {
			return err
		}
		if err := o.choose(p); err != nil {
			return err
		}
		problems := []proof.Problem{}
		if o.verify {
			repo, err := worktree.Open(ctx, cmp.Or(o.dir, r.Header().Dir))
			if err != nil {
				return err
			}
			found, err := proof.Verify(ctx, repo, p)
			if err != nil {
				return err
			}
			problems = append(problems, found...)
		}
		if err := o.print(p, problems, r.Header()); err != nil {
			return err
		}
		for _, bad := range problems {
			where := ""
			if bad.Item != "" {
				where = "item " + oneLine(bad.Item) + ": "
			}
			o.tell("%s%s", where, oneLine(bad.Message))
		}
		switch {
		case len(problems) > 0:
			o.tell("%s not as on record", diag.Count(len(problems), "thing")+" "+diag.Plural(len(problems), "is", "are"))
			return exitError(1)
		case o.verify:
			o.tell("all is as it is on record")
		}
		return nil
	})
}

// choose removes all items but the requested one.
func (o *proofOptions) choose(p *proof.Proof) error {
	asked := len(p.Verified) > 0
	for _, it := range p.Items {
		asked = asked || it.Evidence != nil
	}
	if !asked {
		return errors.New("run " + p.Run + " has no evidence: in its file, map.evidence can say what items must show, and merge_queue what a merge must pass")
	}
	if o.item == "" {
		return nil
	}
	it, err := p.Find(o.item)
	if err != nil {
		return usageError{err}
	}
	p.Items = []proof.Item{*it}
	return nil
}

func (o *proofOptions) print(p *proof.Proof, problems []proof.Problem, h journal.Header) error {
	switch o.format {
	case "json":
		return printJSON(o.out, struct {
			*proof.Proof
			Problems []proof.Problem `json:"problems"`
		}{p, problems})
	case "in-toto":
		enc := json.NewEncoder(o.out)
		for _, s := range p.InToto(filepath.Base(h.Path), h.Source) {
			if err := enc.Encode(s); err != nil {
				return err
			}
		}
		return nil
	}
	if o.item != "" {
		return o.printItem(&p.Items[0], p)
	}
	if w := o.columns(o.out); w > 0 && w < 80 { // a table of six columns does not fit
		for i := range p.Items {
			if i > 0 {
				fmt.Fprintln(o.out)
			}
			if err := o.printItem(&p.Items[i], p); err != nil {
				return err
			}
		}
		return nil
	}
	t := table{head: []string{"ITEM", "STATUS", "CHECKS", "TREE", "MERGE", "MESSAGE"}, flex: 5}
	t.paint = paintStatus(o.palette(o.out), 1)
	for _, it := range p.Items {
		tree, checks := "", ""
		if e := it.Evidence; e != nil {
			tree, checks = shortID(e.Tree), checksOf(e)
		}
		t.add(cmp.Or(it.Label, it.ID), words(it.Status), checks, tree, shortID(it.Merge), it.Message)
	}
	return t.print(o.out, o.columns(o.out))
}

// shortID is the beginning of a git id.
func shortID(id string) string { return id[:min(len(id), 12)] }

// checksOf says how the checks of an item ended.
func checksOf(e *mapper.Evidence) string {
	var parts []string
	for _, c := range e.Checks {
		parts = append(parts, c.Check+": "+checkStatus(c))
	}
	if n := len(e.Refused); n > 0 {
		parts = append(parts, diag.Count(n, "file")+" refused")
	}
	if len(parts) == 0 {
		return diag.Count(e.Changed, "file") + " changed"
	}
	return strings.Join(parts, ", ")
}

func checkStatus(c mapper.Check) string {
	switch {
	case c.RedBase:
		return "red, as the base"
	case c.Status == event.Succeeded:
		return "ok"
	case c.ExitCode != 0:
		return fmt.Sprintf("exit status %d", c.ExitCode)
	}
	return words(c.Status)
}

// verifiedText says with which other items an item was verified, and how that ended.
func verifiedText(m *proof.Merge) string {
	company := "alone"
	if n := len(m.Items) - 1; n > 0 {
		company = "with " + diag.Count(n, "other item")
	}
	text := fmt.Sprintf("%s: %s, %s on %s, tree %s", oneLine(strings.Join(m.Verify, ", ")), words(m.Status), company, shortID(m.Base), shortID(m.Tree))
	if m.Runs > 1 {
		text += fmt.Sprintf(", after %d runs", m.Runs)
	}
	return text
}

// printItem prints everything about an item.
func (o *proofOptions) printItem(it *proof.Item, p *proof.Proof) error {
	rows := [][2]string{{"item", cmp.Or(it.Label, it.ID)}, {"status", words(it.Status)}}
	row := func(name, value string) {
		if value != "" {
			rows = append(rows, [2]string{name, value})
		}
	}
	row("message", it.Message)
	if e := it.Evidence; e != nil {
		row("commit", e.Commit)
		row("tree", e.Tree)
		row("base", e.Base)
		row("changed", diag.Count(e.Changed, "file"))
		row("refused", strings.Join(e.Refused, ", "))
		for _, c := range e.Checks {
			row("check", fmt.Sprintf("%s: %s, %d ms", c.Check, checkStatus(c), c.DurationMS))
			row("  printed", c.File)
		}
		row("evidence", it.Sum)
	}
	row("merge", it.Merge)
	row("branch", it.Branch)
	for _, m := range p.Verified {
		for _, id := range m.Items {
			if id == it.ID {
				row("verified", verifiedText(&m))
			}
		}
	}
	for _, r := range rows {
		if _, err := fmt.Fprintln(o.out, fold(fmt.Sprintf("%-10s %s", r[0], oneLine(r[1])), o.columns(o.out), "           ")); err != nil {
			return err
		}
	}
	return nil
}
