package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worst"
	"github.com/spf13/cobra"
)

// migrated is what migrate did with a file.
type migrated struct {
	Path    string             `json:"path"`
	Changed bool               `json:"changed"`
	Done    []workflow.Rewrite `json:"done"`
	Left    []workflow.Rewrite `json:"left"`
	// Formerly are safeguards in the file that Prodigy ignored.
	Formerly diag.List `json:"formerly_ignored"`

	github bool // the file was a workflow of GitHub Actions
	text   []byte
}

// migrateOptions are the options of migrate.
type migrateOptions struct {
	*streams
	paths []string
	job   string // of a workflow of GitHub Actions; "" for the only one
	write bool
}

func migrateCmd(a *app) *cobra.Command {
	o := &migrateOptions{streams: &a.streams}
	cmd := &cobra.Command{
		Use:   "migrate FILE...",
		Short: "Rewrite files of Prodigy, and jobs of GitHub, for bide",
		Long: `Prints workflow files in the present form: keys and words by their present names,
prompts that are only a text as claude: steps, and the keys inside backoff:, test:,
metadata: or workflow: one level higher. Milliseconds get their unit; timeout_secs:
60 becomes timeout: 60. Comments and layout stay.

The report on standard error lists each change, older forms that were left as they
are, and what works here but was ignored by Prodigy.

You need not migrate a file to run it: old spellings keep working. bide reads the
result again and checks that it means the same. A file with errors is not rewritten,
and a file in the present form does not change.

A job of a GitHub Actions workflow becomes a workflow of bide: its run: steps with
env:, working-directory:, shell: (bash, sh, python), timeout-minutes:,
continue-on-error: and defaults:. A text that needs bash is given to bash, and
'${item}' and its like in it are escaped. An output of an earlier step and a variable
of env: become references of bide; other expressions, ${{ … }}, stay, and the report
says what to write for each. If there are several jobs, --job chooses one. A matrix becomes a map over its combinations, one after another, because they
share one directory here. A step whose condition (if:) only GitHub can decide gets
when: false: it does not run until you write the condition. A step that uses
nick-fields/retry becomes one with timeout: and retry:. What is left out (such as
other uses:) or works differently (such as $GITHUB_PATH) becomes a comment in its
place, and is in the report.`,
		Example: `  bide migrate review.yml
  bide migrate -w workflows/*.yml
  bide migrate .github/workflows/test.yml --job unit > unit.yml`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.paths = args
			return o.run()
		},
	}
	cmd.Flags().StringVar(&o.job, "job", "", "the job of a workflow of GitHub Actions that has several")
	cmd.Flags().BoolVarP(&o.write, "write", "w", false, "write the files instead of printing them")
	return o.withJSON(cmd, "print the report as a JSON array, and no file")
}

func (o *migrateOptions) run() error {
	if len(o.paths) > 1 && !o.write && !o.json {
		return usagef("%d files cannot be printed as one: name one, or write each in its place with -w", len(o.paths))
	}
	status, all := 0, []migrated{}
	for _, path := range o.paths {
		m, problems, err := migrateFile(path, o.job)
		if errors.As(err, new(usageError)) {
			o.tell("%v", err)
			status = 2
			continue
		}
		if err != nil {
			return err
		}
		if problems.HasErrors() {
			o.problems(problems, sourceTexts{})
			o.tell("%s is not rewritten: it has errors", path)
			status = 2
			continue
		}
		all = append(all, *m)
		switch {
		case o.write && m.github:
			o.tell("%s is left as it is, for GitHub; write the workflow beside it: bide migrate %s > FILE", path, path)
			status = 2
		case o.write && m.Changed:
			if err := writeOver(path, m.text); err != nil {
				return err
			}
		case !o.write && !o.json:
			if err := o.print(foldComments(string(m.text), o.columns(o.out))); err != nil {
				return err
			}
		}
		if !o.json {
			o.reportMigrated(m)
		}
	}
	if o.json {
		if err := printJSON(o.out, all); err != nil {
			return err
		}
	}
	if status != 0 {
		return exitError(status)
	}
	return nil
}

// migrateFile reads a file, writes it in the present format, and checks that its meaning is
// the same.
func migrateFile(path, name string) (*migrated, diag.List, error) {
	src, err := os.ReadFile(path)
	if errors.Is(err, syscall.EISDIR) {
		return nil, nil, usagef("%s is a directory; name the files in it", path)
	}
	if err != nil {
		return nil, nil, usageError{err}
	}
	if f := ofAnotherTool(path, src); f.what != "" {
		return nil, nil, usagef("%s is %s, which migrate does not read; %s", path, f.what, f.instead)
	}
	if dataflow.IsPipeline(path) {
		return nil, nil, usagef("%s is a pipeline: bide fmt writes it in the canonical form", path)
	}
	if job, err := githubJob(path, src, name); job != nil || err != nil {
		return job, nil, err
	}
	if name != "" {
		return nil, nil, usagef("%s is no workflow of GitHub Actions: it has no job %s", path, name)
	}
	file, m, problems := parseToMigrate(path, src)
	if file == nil || problems.HasErrors() {
		return nil, problems, nil
	}
	out := &migrated{Path: path, Left: m.Left(), Done: []workflow.Rewrite{}, Formerly: append(diag.List{}, workflow.Formerly(file)...), text: src}
	for { // what is moved may have older spellings in its new place
		before := out.text
		if err := out.respell(); err != nil {
			return nil, nil, err
		}
		out.move()
		if bytes.Equal(before, out.text) {
			break
		}
	}
	slices.SortStableFunc(out.Done, func(a, b workflow.Rewrite) int { return cmp.Compare(a.Line, b.Line) })
	out.Changed = !bytes.Equal(out.text, src)
	return out, nil, nil
}

func parseToMigrate(path string, text []byte) (*workflow.File, *workflow.Migration, diag.List) {
	var m workflow.Migration
	f, problems := workflow.Parse(path, text, workflow.Options{Unfilled: true, Migration: &m})
	return f, &m, problems
}

// respell writes keys and words by their present names, in place.
func (m *migrated) respell() error {
	before, mig, _ := parseToMigrate(m.Path, m.text)
	text := mig.Text()
	if bytes.Equal(text, m.text) {
		return nil
	}
	if !m.sameMeaning(before, text) {
		return fmt.Errorf("%s: the present spelling would not mean the same; nothing was written. Please report this file", m.Path)
	}
	m.text, m.Done = text, append(m.Done, mig.Done()...)
	return nil
}

// move rewrites older forms that have several lines. It keeps those whose meaning would
// change, and reports them.
func (m *migrated) move() {
	before, mig, _ := parseToMigrate(m.Path, m.text)
	for _, c := range m.moved(before, mig.Changes()) {
		if !slices.ContainsFunc(m.Left, func(r workflow.Rewrite) bool { return r.From == c.From && r.To == c.To }) {
			m.Left = append(m.Left, c.Rewrite)
		}
	}
}

// moved makes changes, all at once or in parts, and returns those that it could not make.
func (m *migrated) moved(before *workflow.File, list []workflow.Change) (stay []workflow.Change) {
	if len(list) == 0 {
		return nil
	}
	if text := workflow.WithChanges(m.text, list); m.sameMeaning(before, text) {
		m.text = text
		for _, c := range list {
			m.Done = append(m.Done, c.Rewrite)
		}
		return nil
	}
	if len(list) == 1 {
		return list
	}
	half := len(list) / 2
	return append(m.moved(before, list[:half]), m.moved(before, list[half:])...)
}

// sameMeaning reports whether another text of a file would do the same, according to bide
// explain.
func (m *migrated) sameMeaning(before *workflow.File, text []byte) bool {
	after, _, problems := parseToMigrate(m.Path, text)
	if after == nil || problems.HasErrors() {
		return false
	}
	plan := func(f *workflow.File) (v any) {
		p := worst.Explain(f)
		p.Findings = nil // they name lines
		b, err := json.Marshal(p)
		if err != nil || json.Unmarshal(b, &v) != nil {
			return err
		}
		dropLines(v)
		return v
	}
	return reflect.DeepEqual(plan(before), plan(after))
}

// dropLines removes the line numbers from a value.
func dropLines(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "line")
		for _, x := range v {
			dropLines(x)
		}
	case []any:
		for _, x := range v {
			dropLines(x)
		}
	}
}

// foldComments folds the comments that migrate wrote into a file, for a narrow terminal.
func foldComments(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if comment := strings.TrimLeft(line, " "); strings.HasPrefix(comment, githubComment) {
			line = fold(strings.TrimSuffix(line, "\n"), width, line[:len(line)-len(comment)]+"#   ") + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

func (o *migrateOptions) reportMigrated(m *migrated) {
	line := func(format string, args ...any) {
		fmt.Fprintln(o.err, fold(fmt.Sprintf(format, args...), o.columns(o.err), "    "))
	}
	if !m.Changed {
		line("%s: it is in the present spelling", m.Path)
	}
	list := func(head string, each []workflow.Rewrite) {
		if len(each) > 0 {
			line("%s: %s", m.Path, head)
		}
		for _, r := range each {
			at := strconv.Itoa(r.Line)
			if r.Column > 0 {
				at += ":" + strconv.Itoa(r.Column)
			}
			line("  line %s: %s → %s", at, oneLine(r.From), oneLine(r.To))
		}
	}
	if m.github {
		list("a job of GitHub, which differs here in this", m.Left)
		return
	}
	if o.write {
		list("rewritten", m.Done)
	} else {
		list("printed with these changes, which -w writes to the file", m.Done)
	}
	list("older forms that still work, and how they are written now", m.Left)
	if len(m.Formerly) > 0 {
		line("%s: bide carries these out; Prodigy ignored them", m.Path)
		for _, p := range m.Formerly {
			line("  line %d: %s", p.Line, p.Message)
		}
	}
}
