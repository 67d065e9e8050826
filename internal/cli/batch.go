package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// batchOptions are the options of batch.
type batchOptions struct {
	runFlags
	pf policyFlags
	jobsShown
	parallel  string
	failFast  bool
	canary    int
	sameError bool
	limits    []string // of the machine
	argFile   string
	null      bool

	glob   string   // files that match it are the items
	agent  string   // for which command is a prompt; "" for none
	args   []string // what follows :::
	listed bool     // there was a :::
}

// batchNames maps names of flags that people know from parallel and xargs, and for a retry
// from other tools, to ours. The --delay of parallel is no delay of a retry.
func batchNames() map[string]string {
	names := maps.Clone(retryNames)
	delete(names, "delay")
	maps.Copy(names, map[string]string{"jobs": "max-parallel", "arg": "arg-file", "retries": "attempts", "dryrun": "dry-run", "wd": "path", "workdir": "path"})
	return names
}

func batchCmd(a *app) *cobra.Command {
	o := &batchOptions{runFlags: runFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "batch [GLOB] [-- COMMAND...] [::: ARG...]",
		Short: "Run a command for each file or line, as parallel and xargs do",
		Long: `Runs a command for each item, several at once, each under the same retry policy. The
items are the files that match GLOB, what follows ":::", or the lines of -a FILE or of
standard input (also as GLOB -). In a pattern, ** matches any number of directories; a name that begins with a dot
matches only if the pattern has the dot too.

The command follows "--", or comes before ":::" as with parallel; its options are
its own. It is a list of words, or one text for a shell. In it you can write
  {}    the item             {/}   its name without directories
  {.}   without extension    {//}  its directory
  {#}   its number, from 1   {/.}  its name without directories and extension
A command without any of them gets {} as its last word. --command takes a text for a
shell too; one that begins with "claude:", "codex:" or "gemini:" is a prompt for the
CLI of that agent. In a text, write {} or ${item}, not both. An item is data: no file
name becomes a command or an option. A name such as -x is refused: write ./-x, put --
before it, or use printf '%s\n' instead of echo. bide does not see what a function or
a script does with its words.

The output of each command is printed when it ends; with -k, in the order of the
items. The batch is recorded as a MapReduce workflow: "bide resume", "bide show" and
"bide dlq" work on it, and "bide logs" has all outputs.

A resume prints the outputs that were not printed yet, with -k also those that had
to wait for an earlier item, and continues the job log. After a kill -9, the output
that was being written may come twice; after a power cut, all output of that process
may.`,
		Example: `  bide batch 'src/**/*.png' -- optipng {}
  bide batch -k --attempts 5 -- curl -fsS {} ::: https://a.example https://b.example
  find . -name '*.gz' -print0 | bide batch -0 -- gzip -t {}
  bide batch -a urls.txt -j 4 --joblog jobs.tsv -- 'curl -fsS {} | wc -c'
  bide batch '**/*.py' --command "claude: /add-types" --max-parallel 5 --retry 2
  bide batch 'logs/*.gz' --command 'gzip -t "${item}"' --timeout 30s --fail-fast`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := flagsBehind(cmd, args)
			if err != nil {
				return err
			}
			if err := o.read(args, cmd.ArgsLenAtDash()); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.StringVar(&o.Command, "command", "", "text for sh -c, with ${item} or {} for the item; \"claude: PROMPT\" is for the agent CLI")
	fs.StringVarP(&o.parallel, "max-parallel", "j", "100%", "commands at once: a number, auto, a share of the processors (50%), or that many more or fewer (+2, -1); also --jobs")
	o.renamedFlag(fs, "parallel", "max-parallel")
	fs.StringVarP(&o.parallel, "max-procs", "P", "100%", "the same as --max-parallel")
	if err := fs.MarkHidden("max-procs"); err != nil {
		panic(err) // the flag was added above
	}
	fs.StringVarP(&o.argFile, "arg-file", "a", "", "the items are the lines of this file")
	fs.BoolVarP(&o.null, "null", "0", false, "items end with NUL and not with the line")
	fs.BoolVarP(&o.Order, "keep-order", "k", false, "outputs in the order of the items")
	fs.BoolVar(&o.Tag, "tag", false, "put the item before each line of output")
	fs.StringVar(&o.Log, "joblog", "", "write a line for each command into this file, in parallel's form")
	fs.BoolVar(&o.dryRun, "dry-run", false, "print the commands, and run nothing")
	o.pf.register(&o.streams, fs, option.Batch)
	attempts := fs.Lookup("attempts") // a command runs once unless a flag asks for retries
	attempts.Usage = strings.Replace(attempts.Usage, "(default: ", "(default: 1, with another flag of retries ", 1)
	o.pf.registerRetry(fs)
	fs.BoolVar(&o.sameError, "same-error", false, "hold the batch while the same thing keeps failing, and try one item now and then")
	fs.Var(&limitsFlag{&o.limits}, "limit", "limits of this machine; each item holds a slot of each; bide limits shows them")
	fs.Var(&countFlag{&o.canary}, "canary", "run this many items first, alone; the others start when all of them have succeeded")
	fs.BoolVar(&o.failFast, "fail-fast", false, "stop at the first item that fails for good")
	fs.StringVarP(&o.Dir, "path", "p", "", "directory to run in, which the pattern starts from (default: here)")
	o.showing(cmd)
	alsoNamed(fs, batchNames())
	return cmd
}

// listEndings are the endings of files that have a list of items more often than they are one.
var listEndings = []string{".txt", ".list", ".lst", ".csv", ".tsv", ".jsonl"}

// isFile reports whether a name is that of a file, in the directory of the commands.
func isFile(dir, name string) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// flagsBehind reads the flags that follow the pattern. Before ":::" and without a "--" they
// are words of the command, as with parallel.
func flagsBehind(cmd *cobra.Command, args []string) ([]string, error) {
	colons, dash := slices.IndexFunc(args, func(w string) bool { return w == ":::" || w == "::::" }), slices.Index(args, "--")
	if cmd.ArgsLenAtDash() >= 0 || colons >= 0 && (dash < 0 || dash > colons) {
		return args, nil
	}
	fs := cmd.Flags()
	fs.SetInterspersed(true)
	if err := fs.Parse(args); err != nil {
		return nil, wrongFlag(cmd, err)
	}
	if help, err := fs.GetBool("help"); help && err == nil {
		return nil, pflag.ErrHelp
	}
	return fs.Args(), cmd.Root().PersistentPreRunE(cmd, args)
}

// numbered is how parallel names the item of one of several lists.
var numbered = pattern.Lazy(`^\{[0-9]+\}$`)

// strange finds what other programs have for the item, and bide has not.
var strange = pattern.Lazy(`\$?\{\{-? *item(?:\.\w+)? *-?\}\}|\$?\{item\}|\{= .* =\}|\{\.\.\}|\{\+/\}`)

// commandOf is a command up to the last word with a placeholder, and short: a shell may have put
// the names of many files behind it.
func commandOf(words []string) string {
	for len(words) > 0 && !namesAnItem(words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	return strings.Join(value.Map(words, diag.ShellWord), " ")
}

// assigned finds a text of another language that has a variable of that name.
var assigned = pattern.Lazy(`\bitem\s*(?:=|:=|in\b)|f["']`)

// numberedWord finds it as a word of a text.
var numberedWord = pattern.Lazy(`(?:^|[\s"'=/])(\{[1-9]\})(?:$|[\s"'/.;])`)

// read splits the arguments into GLOB, the command after the dash, and the items after :::.
func (f *batchOptions) read(args []string, dash int) error {
	before, after := args, []string(nil)
	if dash >= 0 {
		before, after = args[:dash], args[dash:]
	}
	cut := func(words []string) []string {
		if i := slices.Index(words, "::::"); i >= 0 && len(words) == i+2 && !slices.Contains(words[:i], ":::") && f.argFile == "" {
			f.argFile = words[i+1] // as parallel has it: the lines of a file
			return words[:i]
		}
		i := slices.Index(words, ":::")
		if i < 0 {
			return words
		}
		f.listed, f.args = true, words[i+1:]
		return words[:i]
	}
	after = cut(after)
	if before = cut(before); dash < 0 && f.Command == "" && (f.listed || f.argFile != "" || f.null) {
		before, after = nil, before // batch echo {} ::: a b
	}
	f.Words = after
	if len(before) > 0 {
		f.glob = before[0]
	}
	f.prefixed()
	for _, w := range slices.Concat(f.args, before, after) {
		if w == "::::" || w == ":::+" || w == "::::+" || f.listed && slices.Contains(f.args, ":::") {
			return usagef("there is one list of items: a single :::, -a FILE, a pattern, or standard input")
		}
	}
	sources := 0
	for _, is := range []bool{f.glob != "", f.listed, f.argFile != ""} {
		if is {
			sources++
		}
	}
	if err := chosen("run", "progress", f.progress); err != nil { // the flag may have taken the command
		return usageError{err}
	}
	switch {
	case len(before) > 1 && namesAnItem(before...), len(before) == 1 && f.Command == "" && len(f.Words) == 0 && namesAnItem(before...):
		return usagef("the command has no -- before it, so that its words are patterns of files; for files write: bide batch 'PATTERN' -- %s; for the lines of standard input: bide batch -- %[1]s", commandOf(before))
	case len(before) > 1:
		return usagef("%q is a second pattern; put patterns in quotes, so that the shell does not expand them, or write: bide batch -- COMMAND ::: FILE...", before[1])
	case sources > 1:
		return usagef("the items come from one place: a pattern, :::, or -a FILE")
	case f.Command == "" && len(f.Words) == 0 && f.glob != "" && !strings.ContainsAny(f.glob, "*?[{/."):
		return usagef("%q is the pattern of the files, and no command is given; for a command over the lines of standard input write: bide batch -- %s", f.glob, diag.ShellWord(f.glob))
	case f.Command == "" && len(f.Words) == 0:
		return usagef("no command is given; write it after --, as in: bide batch '*.png' -- optipng {}, or as --command TEXT")
	case f.Command != "" && len(f.Words) > 0:
		return usagef("--command and a command after -- cannot be used together")
	case slices.ContainsFunc(append(f.Words, f.Command), func(w string) bool { return strings.Contains(w, "{%}") && !namesItem(w) }):
		return usagef("{%%}, the number of the slot, is not supported")
	}
	for _, w := range append(f.Words, f.Command) {
		found := strange().FindString(w)
		if numbered().MatchString(w) && len(f.Words) > 1 {
			found = w
		} else if m := numberedWord().FindStringSubmatch(w); m != nil && found == "" && len(f.Words) == 1 {
			found = m[1]
		}
		if assigned().MatchString(w) {
			continue
		}
		if text, isText := f.aText(); found != "" && !(isText && namesItem(text)) && !hasPlaceholder(append(f.Words, f.Command)...) {
			return usagef("%s is not supported: there is one list of items, and one item for each command; write {} for it", found)
		}
	}
	if info, err := os.Stat(cmp.Or(f.Dir, ".")); err != nil || !info.IsDir() {
		return usagef("-p: %s: no such directory; nothing was run", f.Dir)
	}
	return f.oneName()
}

// oneName refuses a text that has both ${item} and other placeholders: beside ${item}, braces
// belong to the text, as with find -exec.
func (f *batchOptions) oneName() error {
	text, ok := f.aText()
	if !ok || !namesItem(text) {
		return nil
	}
	var beside []string
	for _, at := range placeholder().FindAllStringIndex(text, -1) {
		// In a shell text, {} may belong to another program or to a JSON body, and ${#} is the
		// shell's.
		if p := text[at[0]:at[1]]; f.agent != "" || p != "{}" && !strings.HasSuffix(text[:at[0]], "$") {
			beside = append(beside, p)
		}
	}
	if t, err := template.Parse(text); err == nil && f.agent == "" {
		beside = append(beside, t.Placeholders()...)
	}
	if len(beside) == 0 {
		return nil
	}
	return usagef("the command names the item both as ${item} and as %s; nothing was run. Write {} in place of ${item}", beside[0])
}

// prefixed reads a command with a prefix: "shell: TEXT", or "claude: PROMPT". The item is its
// last word unless the text names the item.
func (f *batchOptions) prefixed() {
	given := &f.Command
	if len(f.Words) == 1 {
		given = &f.Words[0]
	}
	if text, ok := strings.CutPrefix(*given, "shell:"); ok {
		*given = strings.TrimSpace(text)
	}
	agent, prompt := forAgent(*given)
	if agent == "" {
		return
	}
	f.Command, f.Words, f.agent = prompt, nil, agent
	if f.Command != "" && !namesItem(f.Command) && !hasPlaceholder(f.Command) {
		f.Command += " {}"
	}
}

// text is what runs for each item, with references in place of the placeholders; parts says
// that each item is an object with its parts.
func (f *batchOptions) text() (text string, parts bool) {
	switch {
	case f.agent != "" && !hasPlaceholder(f.Command):
		return f.Command, false
	case f.agent != "":
		return placeholder().ReplaceAllStringFunc(f.Command, func(p string) string { return "${item." + placeholders[p] + "}" }), true
	}
	text, ok := f.aText()
	switch {
	case !ok:
		return shellOfWords(f.wordsWithItem()), true
	case namesItem(text):
		return text, false
	}
	return shellOfText(withItem(text)), true
}

// auto lets the run find out how many commands can run at once.
const auto = "auto"

// slots reads how many commands run at once; 0 means auto.
func (f *batchOptions) slots() (int, error) {
	cpus := runtime.NumCPU()
	text := f.parallel
	percent, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(percent)
	switch {
	case text == auto:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("-j, --max-parallel is %q; write a number, auto, a share such as 50%%, or +2 or -1 for that many more or fewer than the processors", text)
	case isShare:
		return max(1, cpus*n/100), nil
	case text[0] == '+' || text[0] == '-':
		return max(1, cpus+n), nil
	case n < 1:
		return 0, fmt.Errorf("-j, --max-parallel is %d; it must be at least 1", n)
	}
	return n, nil
}

func (o *batchOptions) run(ctx context.Context) error {
	retryConfig, err := o.retryConfig()
	if err != nil {
		return err
	}
	opt, err := o.options()
	if err != nil {
		return err
	}
	if o.dryRun {
		n := 0
		return o.eachItem(func(arg string) error {
			n++
			text := o.shown(newBatchItem(arg, n))
			if o.agent != "" {
				text = o.agent + ": " + text
			}
			_, err := fmt.Fprintln(o.out, visible(text))
			return err
		})
	}
	st, err := o.openStore()
	if err != nil {
		return err
	}
	list, n, err := o.batchItems(st)
	if err != nil {
		return err
	}
	if n == 0 {
		if o.glob == "" || o.glob == "-" {
			hint := ""
			if last := len(o.Words) - 1; last > 0 && isFile(o.Dir, o.Words[last]) {
				hint = "; for the lines of " + o.Words[last] + " write -a " + o.Words[last] + " before --"
			}
			return errors.Join(usagef(`there is no item; nothing was run; items are lines of standard input, or follow ":::"%s`, hint), os.Remove(list))
		}
		return errors.Join(usagef("%s%s; nothing was run", o.glob, cmp.Or(below(o.Dir, o.glob), ": no file matches")), os.Remove(list))
	}
	if n == 1 && slices.Contains(listEndings, filepath.Ext(o.glob)) && isFile(o.Dir, o.glob) {
		o.tell("the item is the file %[1]s itself; its lines are items with -a %[1]s", o.glob)
	}
	src, err := o.workflow(list, retryConfig)
	if err != nil {
		return err
	}
	file, problems := workflow.Parse(filepath.Join(filepath.Dir(list), "batch.yml"), src, workflow.Options{})
	if problems.HasErrors() || file == nil {
		o.problems(problems, sources(file))
		return errors.Join(usagef("the command or a flag of the policy cannot be used; nothing was run"), os.Remove(list))
	}
	for _, p := range problems {
		if why, ok := strings.CutPrefix(p.Message, template.NotShell); ok {
			return errors.Join(usagef("the command is not valid shell: %s; where it has no placeholder, the item is its last word; nothing was run", why), os.Remove(list))
		}
	}
	opt.File = file
	if o.jobs, opt.Batch, err = o.beginJobs(st); err != nil {
		return errors.Join(usagef("--joblog: %w; nothing was run", err), os.Remove(list))
	}
	recorded := false
	err = o.execute(ctx, opt, func(ctx context.Context, o engine.Options) (*engine.Summary, error) {
		sum, err := engine.Run(ctx, o)
		// Once they are in the journal, nobody reads the items here again.
		recorded = sum != nil && sum.Items.Total > 0
		return sum, err
	})
	if recorded {
		if rerr := os.Remove(list); rerr != nil {
			return errors.Join(err, rerr)
		}
	}
	return err
}

// eachItem calls add with each item of a batch.
func (o *batchOptions) eachItem(add func(string) error) error {
	end := byte('\n')
	if o.null {
		end = 0
	}
	switch {
	case o.listed:
		for _, arg := range o.args {
			if err := add(arg); err != nil {
				return err
			}
		}
		return nil
	case o.argFile != "" && o.argFile != "-":
		in, err := os.Open(o.argFile)
		if err != nil {
			return usagef("-a: %w", err)
		}
		return errors.Join(items(in, end, add), in.Close())
	case o.glob != "" && o.glob != "-":
		return glob(o.Dir, o.glob, add)
	case o.glob == "" && o.argFile == "" && isTerminal(o.in):
		return usagef("no items are given: a pattern, ::: ARG..., -a FILE, or lines on standard input, which is a terminal here")
	}
	return items(o.in, end, add)
}

// batchItems writes the items, as JSON lines, into a file beside the runs. A run that was
// killed before it recorded its items is resumed from that file.
func (o *batchOptions) batchItems(st *journal.Store) (name string, n int, err error) {
	dir := filepath.Join(st.Dir, "batches")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", 0, err
	}
	if err := sweepBatches(dir); err != nil {
		return "", 0, err
	}
	out, err := os.CreateTemp(dir, "items-*.jsonl")
	if err != nil {
		return "", 0, err
	}
	w := bufio.NewWriter(out)
	_, parts := o.text()
	add := func(item string) error {
		if !o.null && !o.listed && strings.Contains(item, "\x00") {
			return usagef("the items have NUL bytes between them: write -0; nothing was run")
		}
		if !utf8.ValidString(item) {
			return usagef("%q is no UTF-8 text and cannot be an item; nothing was run", item)
		}
		n++
		var v any = item
		if parts {
			v = newBatchItem(item, n)
		}
		b, err := json.Marshal(v)
		if err == nil {
			_, err = w.Write(append(b, '\n'))
		}
		return err
	}
	err = o.eachItem(add)
	if err = errors.Join(err, w.Flush(), out.Close()); err != nil {
		return "", 0, errors.Join(err, os.Remove(out.Name()))
	}
	return out.Name(), n, nil
}

// batchAge is how long the items of a killed run are kept. A run that was not resumed by then
// never will be.
const batchAge = 30 * 24 * time.Hour

func sweepBatches(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > batchAge {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// maxLine bounds one item of a stream, in bytes.
const maxLine = 16 << 20

// items calls add with each item of a stream that is not empty. Each item ends with end.
func items(r io.Reader, end byte, add func(string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	if end == 0 {
		s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
			if i := bytes.IndexByte(data, 0); i >= 0 {
				return i + 1, data[:i], nil
			}
			if atEOF && len(data) > 0 {
				return len(data), data, nil
			}
			return 0, nil, nil
		})
	}
	for s.Scan() {
		item := s.Text()
		if end != 0 {
			item = strings.TrimSuffix(item, "\r")
		}
		if item == "" {
			continue
		}
		if err := add(item); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("reading the items: %w", err)
	}
	return nil
}

// retryConfig turns the retry flags into the retry_config of a workflow file; nil without such
// flags.
func (f *batchOptions) retryConfig() (map[string]any, error) {
	var errs []error
	n, err := f.pf.one()
	errs = append(errs, err)
	if _, err := f.slots(); err != nil {
		errs = append(errs, err)
	}
	if len(f.Words) == 0 && strings.TrimSpace(f.Command) == "" {
		errs = append(errs, errors.New("--command is empty"))
	}
	if f.agent != "" {
		errs = append(errs, lacksAgent(f.agent))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usageError{err}
	}
	if len(n.config) == 0 {
		return nil, nil
	}
	if len(n.config) == 1 && n.config["timeout"] != nil { // a timeout alone asks for no retry
		n.config["attempts"] = 1
	}
	return n.config, nil
}

// workflow is the text of the workflow that runs and is recorded.
func (f *batchOptions) workflow(items string, retryConfig map[string]any) ([]byte, error) {
	text, parts := f.text()
	label := "${item}"
	if parts {
		label = "${item.arg}"
	}
	slots, err := f.slots()
	if err != nil {
		return nil, err
	}
	var parallel any = slots
	if slots == 0 {
		parallel = auto
	}
	step := map[string]any{"name": "command", "shell": text}
	if f.agent != "" {
		step = map[string]any{"name": "agent", f.agent: text}
	}
	if retryConfig != nil {
		step["retry_config"] = retryConfig
	}
	doc := map[string]any{
		"name": "batch",
		"mode": "mapreduce",
		"map": map[string]any{
			"input":          map[string]any{"file": strings.ReplaceAll(items, "$", "$$"), "format": "jsonl"},
			"label":          label,
			"max_parallel":   parallel,
			"agent_template": []any{step},
		},
		"error_policy": map[string]any{"on_item_failure": "dlq", "continue_on_failure": !f.failFast, "error_collection": "immediate"},
	}
	if f.sameError {
		doc["error_policy"].(map[string]any)["same_error"] = true
	}
	if f.canary > 0 {
		doc["map"].(map[string]any)["canary"] = f.canary
	}
	if len(f.limits) > 0 {
		doc["map"].(map[string]any)["limits"] = f.limits
	}
	b, err := yaml.Marshal(doc)
	return append([]byte("# Made by `bide batch`.\n"), b...), err
}

// glob calls files.Glob with a pattern of the command line.
func glob(dir, pattern string, add func(string) error) error {
	err := files.Glob(dir, pattern, add)
	if errors.Is(err, path.ErrBadPattern) {
		return usagef("%w", err)
	}
	return err
}

// below says why a pattern matches no file: it names a directory, or the files are in deeper
// directories; "" if there is no such reason.
func below(dir, pattern string) string {
	if info, err := os.Stat(filepath.Join(dir, pattern)); err == nil && info.IsDir() {
		return fmt.Sprintf(": this is a directory; write '%s/*' for the files in it", strings.TrimRight(pattern, "/"))
	}
	if strings.Contains(pattern, "/") {
		return ""
	}
	n := 0
	if glob(dir, "**/"+pattern, func(string) error { n++; return nil }) != nil || n == 0 {
		return ""
	}
	return fmt.Sprintf(": no file matches; in the directories below %s: write '**/%s'", diag.Count(n, "file does", "files do"), pattern)
}
