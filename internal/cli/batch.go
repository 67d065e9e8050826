package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// batchFlags are the flags of batch.
type batchFlags struct {
	run              runFlags
	pf               policyFlags
	command          string
	parallel         int
	retries          int
	retryOn, abortOn []string
	timeout          string
	failFast         bool
}

func (a *app) batchCmd() *cobra.Command {
	f := &batchFlags{}
	cmd := &cobra.Command{
		Use:   "batch GLOB --command TEXT",
		Short: "Run a command for each file, or for each line of standard input",
		Long: `Runs a shell command for each file that fits the pattern, several at once, each under
the same retry policy. ** stands for any number of directories; names that begin with
a dot fit only where the pattern has the dot. With - instead of a pattern, it is run
for each line of standard input.

The file or line is ${item} in the text of the command. It is data: no name of a file
can become a command. Put it in double quotes where it may have blanks in it.

What is run is a recorded MapReduce workflow, so that "bide resume", "bide show" and
"bide dlq" work as for any other. What the commands write is kept with the run and not
mixed here: "bide logs" prints it, one command after the other.`,
		Example: `  bide batch 'src/**/*.png' --command 'optipng "${item}"' --parallel 4
  bide batch - --command 'curl -fsSO "${item}"' --attempts 5 --backoff exponential < urls.txt
  bide batch 'logs/*.gz' --command 'gzip -t "${item}"' --timeout 30s --fail-fast`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.batch(cmd.Context(), f, args[0]) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.command, "command", "", "text for sh -c, with ${item} for the file or line")
	fs.IntVar(&f.parallel, "parallel", 10, "commands at once")
	f.pf.register(fs, "backoff")
	fs.IntVar(&f.retries, "retry", 0, "retries after the first attempt: --retry 2 is --attempts 3")
	fs.StringArrayVar(&f.retryOn, "retry-on", nil, "retry only these errors; see bide exec --help")
	fs.StringArrayVar(&f.abortOn, "abort-on", nil, "never retry these errors; wins over --retry-on")
	fs.StringVar(&f.timeout, "timeout", "", "of each attempt; the whole process group is ended")
	fs.BoolVar(&f.failFast, "fail-fast", false, "stop at the first file or line that fails for good")
	fs.StringVarP(&f.run.dir, "path", "p", "", "directory to run in, which the pattern starts from (default: here)")
	f.run.showing(cmd, a)
	if err := cmd.MarkFlagRequired("command"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

func (a *app) batch(ctx context.Context, f *batchFlags, pattern string) error {
	retryConfig, err := f.retryConfig()
	if err != nil {
		return err
	}
	opt, err := f.run.options()
	if err != nil {
		return err
	}
	st, err := a.store()
	if err != nil {
		return err
	}
	list, n, err := a.batchItems(st, f, pattern)
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.Join(usagef("%s: no file fits; nothing was run", pattern), os.Remove(list))
	}
	src, err := f.workflow(list, retryConfig)
	if err != nil {
		return err
	}
	file, problems := workflow.Parse(filepath.Join(filepath.Dir(list), "batch.yml"), src, workflow.Options{})
	if problems.HasErrors() || file == nil {
		a.problems(problems, sources(file))
		return errors.Join(usagef("--command or a flag of the policy cannot be used; nothing was run"), os.Remove(list))
	}
	if !strings.Contains(f.command, "item") {
		fmt.Fprintln(a.err, "bide: the command does not use ${item}: it is the same each time")
	}
	opt.File = file
	recorded := false
	err = a.execute(ctx, &f.run, opt, func(ctx context.Context, o engine.Options) (*engine.Summary, error) {
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

// batchItems writes the items, as JSON lines, into a file beside the runs: a
// run that is killed before it has recorded them is resumed from there.
func (a *app) batchItems(st *journal.Store, f *batchFlags, pattern string) (name string, n int, err error) {
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
	add := func(item string) error {
		if !utf8.ValidString(item) {
			return usagef("%q is no UTF-8 text and cannot be an item; nothing was run", item)
		}
		n++
		b, err := json.Marshal(item)
		if err == nil {
			_, err = w.Write(append(b, '\n'))
		}
		return err
	}
	if pattern == "-" {
		err = lines(a.in, add)
	} else {
		err = glob(f.run.dir, pattern, add)
	}
	if err = errors.Join(err, w.Flush(), out.Close()); err != nil {
		return "", 0, errors.Join(err, os.Remove(out.Name()))
	}
	return out.Name(), n, nil
}

// batchAge is how long the items of a batch are kept whose run was killed: by
// then it has been resumed, or it will not be.
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

// maxLine bounds one line of standard input.
const maxLine = 16 << 20

// lines gives the lines of a stream that are not empty.
func lines(r io.Reader, add func(string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		if line := strings.TrimSuffix(s.Text(), "\r"); line != "" {
			if err := add(line); err != nil {
				return err
			}
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("reading standard input: %w", err)
	}
	return nil
}

// retryConfig reads the flags of the policy into the form of a workflow file;
// nil where none is given.
func (f *batchFlags) retryConfig() (map[string]any, error) {
	p := &f.pf
	var errs []error
	if p.set.Changed("retry") {
		switch {
		case p.set.Changed("attempts"):
			errs = append(errs, errors.New("--retry and --attempts cannot be used together"))
		case f.retries < 0:
			errs = append(errs, fmt.Errorf("--retry is %d; it must be at least 0", f.retries))
		default:
			p.attempts = f.retries + 1
		}
	}
	list, err := p.policies()
	errs = append(errs, err)
	if len(list) > 1 {
		errs = append(errs, errors.New("--backoff: one command has one strategy"))
	}
	_, err = parseMatchers("retry-on", f.retryOn)
	errs = append(errs, err)
	_, err = parseMatchers("abort-on", f.abortOn)
	errs = append(errs, err)
	if f.parallel < 1 {
		errs = append(errs, fmt.Errorf("--parallel is %d; it must be at least 1", f.parallel))
	}
	if f.timeout != "" {
		if d, err := duration.Parse(f.timeout); err != nil || d == 0 {
			errs = append(errs, fmt.Errorf("--timeout %s: it must be more than 0; %s", f.timeout, duration.Forms))
		}
	}
	if strings.TrimSpace(f.command) == "" {
		errs = append(errs, errors.New("--command is empty"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usageError{err}
	}
	return f.policyMap(), nil
}

// policyMap is the policy as retry_config; nil where no flag of it was given.
func (f *batchFlags) policyMap() map[string]any {
	p := &f.pf
	m := map[string]any{}
	for _, x := range []struct {
		flag, key string
		value     any
	}{
		{"initial-delay", "initial_delay", p.initial}, {"initial", "initial_delay", p.initial},
		{"max-delay", "max_delay", p.max}, {"max", "max_delay", p.max}, {"increment", "increment", p.increment},
		{"base", "base", p.base}, {"delays", "delays", p.delays}, {"jitter", "jitter", p.jitter},
		{"jitter-factor", "jitter_factor", p.jitterFactor}, {"budget", "retry_budget", p.budget},
		{"retry-on", "retry_on", f.matchers(f.retryOn)}, {"abort-on", "abort_on", f.matchers(f.abortOn)},
		{"backoff", "backoff", first(p.strategies)},
	} {
		if p.set.Changed(x.flag) {
			m[x.key] = x.value
		}
	}
	if len(m) == 0 && !p.set.Changed("attempts") && !p.set.Changed("retry") {
		return nil
	}
	m["attempts"] = p.attempts
	return m
}

// matchers writes --retry-on as a list of a workflow file. The texts were
// checked before.
func (f *batchFlags) matchers(texts []string) []any {
	var out []any
	for _, text := range texts {
		if re, ok := strings.CutPrefix(text, "pattern:"); ok {
			out = append(out, map[string]any{"pattern": re})
			continue
		}
		codes := false
		for word := range strings.SplitSeq(text, ",") {
			word = strings.TrimSpace(word)
			if rest, ok := strings.CutPrefix(word, "exit_code:"); ok {
				codes, word = true, rest
			} else if word != "" && strings.Trim(word, "0123456789") != "" {
				codes = false
			}
			if n, err := strconv.Atoi(word); codes && err == nil {
				out = append(out, map[string]any{"exit_code": n})
				continue
			}
			out = append(out, word)
		}
	}
	return out
}

// workflow is the text of the workflow that is run and recorded.
func (f *batchFlags) workflow(items string, retryConfig map[string]any) ([]byte, error) {
	step := map[string]any{"name": "command", "shell": f.command}
	if retryConfig != nil {
		step["retry_config"] = retryConfig
	}
	if f.timeout != "" {
		step["timeout"] = f.timeout
	}
	doc := map[string]any{
		"name": "batch",
		"mode": "mapreduce",
		"map": map[string]any{
			"input":          map[string]any{"file": strings.ReplaceAll(items, "$", "$$"), "format": "jsonl"},
			"label":          "${item}",
			"max_parallel":   f.parallel,
			"agent_template": []any{step},
		},
		"error_policy": map[string]any{"on_item_failure": "dlq", "continue_on_failure": !f.failFast},
	}
	b, err := yaml.Marshal(doc)
	return append([]byte("# Made by `bide batch`.\n"), b...), err
}
