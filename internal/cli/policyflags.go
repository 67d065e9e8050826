package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
	"github.com/spf13/pflag"
)

// policyFlags are the flags of a retry policy: the options that are allowed on the command
// line, each with its row.
type policyFlags struct {
	flags   []*policyFlag
	seed    uint64
	retries int // of --retry, if the command has it
	set     *pflag.FlagSet
}

// policyFlag is the flag of an option. It keeps the texts that the user set, which are parsed
// together.
type policyFlag struct {
	row   *option.Row
	name  string
	texts []string
}

// register adds the flags that a command has. --backoff may name several strategies.
func (p *policyFlags) register(s *streams, fs *pflag.FlagSet, in option.Layer) {
	p.set = fs
	for _, row := range option.For(in) {
		f := &policyFlag{row: row, name: row.FlagName()}
		p.flags = append(p.flags, f)
		fs.Var(f, f.name, f.usage())
		if row.Kind == option.Flag {
			fs.Lookup(f.name).NoOptDefVal = "true"
		}
		if row.OldFlag != "" {
			s.renamedFlag(fs, row.OldFlag, f.name)
		}
	}
	fs.Uint64Var(&p.seed, "seed", 0, "seed of the jitter; the same seed gives the same delays")
}

// registerRetry adds --retry, which counts the attempts after the first.
func (p *policyFlags) registerRetry(fs *pflag.FlagSet) {
	fs.IntVar(&p.retries, "retry", 0, "retries after the first attempt: --retry 2 is --attempts 3")
}

// retry turns --retry into a number of attempts.
func (p *policyFlags) retry() error {
	attempts := p.flag("attempts")
	switch {
	case !p.set.Changed("retry"):
	case len(attempts.texts) > 0:
		return errors.New("--retry and --attempts cannot be used together")
	case p.retries < 0:
		return fmt.Errorf("--retry is %d; it must be at least 0", p.retries)
	default:
		attempts.texts = []string{strconv.Itoa(p.retries + 1)}
	}
	return nil
}

func (f *policyFlag) usage() string {
	text := f.row.Brief()
	for _, row := range option.For(option.Command) {
		if strings.Contains(row.Name, "_") {
			text = strings.ReplaceAll(text, row.Name, "--"+row.FlagName())
		}
	}
	if words := flagWords("", f.name); len(words) > 0 {
		text += ": " + strings.Join(words, ", ")
	}
	switch f.row.Kind {
	case option.Matchers:
		text += ", exit_code:N, pattern:RE"
	case option.Exhausted:
		return "shell text to run once when all attempts have failed"
	}
	if def := f.row.Default; def != "" && def != "none" {
		text += " (default: " + def + ")"
	}
	return text
}

// String is empty: the text of the help already names the default.
func (f *policyFlag) String() string { return "" }

// Type is the name of the value in the help.
func (f *policyFlag) Type() string {
	switch f.row.Kind {
	case option.Count:
		return "int"
	case option.Number:
		return "float"
	case option.Span:
		return "duration"
	case option.Spans:
		return "durations"
	case option.Flag:
		return "bool"
	case option.Matchers:
		return "errors"
	}
	return "string"
}

// Set takes a text. It rejects immediately what can be no value at all; the rest is checked
// with all flags together.
func (f *policyFlag) Set(text string) error {
	if f.row.Kind == option.Count && !slices.Contains(f.row.Words, text) {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return errors.New("it takes a whole number")
		}
	}
	f.texts = append(f.texts, text)
	return nil
}

// named is a policy with the name of its strategy.
type named struct {
	name   string
	retry  *workflow.Retry
	config map[string]any // the policy as a file's retry_config
	policy retry.Policy
}

// present are the flags that the user set.
func (p *policyFlags) present() (list []workflow.Flag) {
	for _, f := range p.flags {
		if len(f.texts) > 0 {
			list = append(list, workflow.Flag{Option: f.row, Name: f.name, Texts: f.texts})
		}
	}
	return list
}

func (p *policyFlags) flag(option string) *policyFlag {
	return p.flags[slices.IndexFunc(p.flags, func(f *policyFlag) bool { return f.row.Name == option })]
}

// strategies are the names that the flag for the strategy lists.
func (p *policyFlags) strategies() (names []string) {
	f := p.flag("backoff")
	if len(f.texts) == 0 {
		return []string{f.row.Default}
	}
	for _, text := range f.texts {
		for name := range strings.SplitSeq(text, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// policies reads the flags: one policy for each strategy that was named. It reports all errors
// together.
func (p *policyFlags) policies() ([]named, error) {
	errs := p.unused()
	said := map[string]bool{}
	var out []named
	for _, name := range p.strategies() {
		if name == "" {
			errs = append(errs, fmt.Errorf("the strategy is empty; write one of %s", strings.Join(option.Strategies, ", ")))
			continue
		}
		r, config, err := workflow.FlagPolicy(p.of(name))
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !said[line] {
					said[line], errs = true, append(errs, errors.New(line))
				}
			}
			continue
		}
		n := named{name: name, retry: r, config: config, policy: r.Policy()}
		if p.set.Changed("seed") {
			n.policy.Rand = backoff.NewRand(p.seed)
		}
		out = append(out, n)
	}
	return out, errors.Join(errs...)
}

// one is like policies if there can be only one strategy.
func (p *policyFlags) one() (named, error) {
	wrong := p.retry()
	list, err := p.policies()
	err = errors.Join(wrong, err)
	if len(p.strategies()) > 1 {
		err = errors.Join(err, errors.New("--backoff: one command has one strategy"))
	}
	if err != nil {
		return named{}, err
	}
	return list[0], nil
}

// of returns the flags that a strategy uses, with its name among them.
func (p *policyFlags) of(strategy string) []workflow.Flag {
	list := slices.DeleteFunc(p.present(), func(f workflow.Flag) bool {
		return f.Option.Kind == option.Strategy || f.Option.Of != strategy && slices.Contains(option.Strategies, f.Option.Of)
	})
	if f := p.flag("backoff"); len(f.texts) > 0 {
		list = append(list, workflow.Flag{Option: f.row, Name: f.name, Texts: []string{strategy}})
	}
	return list
}

// unused reports flags that none of the named strategies and jitters uses.
func (p *policyFlags) unused() (errs []error) {
	jitter := "none"
	if texts := p.flag("jitter").texts; len(texts) > 0 {
		jitter = texts[len(texts)-1]
	}
	for _, f := range p.flags {
		of := f.row.Of
		switch {
		case of == "" || len(f.texts) == 0:
		case slices.Contains(option.Strategies, of):
			if names := p.strategies(); !slices.Contains(names, of) {
				errs = append(errs, fmt.Errorf("--%s is of the strategy %s; here it is %s: write --backoff %s beside it", f.name, of, strings.Join(names, ", "), of))
			}
		case jitter != of && jitter != "true":
			errs = append(errs, fmt.Errorf("--%s is of --jitter %s; here it is %s", f.name, of, jitter))
		}
	}
	return errs
}
