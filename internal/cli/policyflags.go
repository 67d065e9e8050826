package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/retry"
	"github.com/spf13/pflag"
)

// strategies are the names of the backoff strategies.
var strategies = []string{"fixed", "linear", "exponential", "fibonacci", "custom"}

// policyFlags are the flags of a retry policy, the same wherever one is given
// on the command line.
type policyFlags struct {
	attempts     int
	strategies   []string
	initial, max string
	increment    string
	base         float64
	delays       []string
	jitter       string
	jitterFactor float64
	budget       string
	seed         uint64
	set          *pflag.FlagSet
}

// register adds the flags. name is that of the strategy's flag.
func (p *policyFlags) register(fs *pflag.FlagSet, name string) {
	p.set = fs
	fs.IntVar(&p.attempts, "attempts", 3, "executions in all, the first included")
	fs.StringSliceVar(&p.strategies, name, []string{"exponential"}, "backoff strategy: "+strings.Join(strategies, ", "))
	fs.StringVar(&p.initial, "initial-delay", "1s", "delay after the first failed attempt; also --initial")
	fs.StringVar(&p.initial, "initial", "1s", "the same as --initial-delay")
	fs.StringVar(&p.max, "max-delay", "30s", "cap of every delay; also --max")
	fs.StringVar(&p.max, "max", "30s", "the same as --max-delay")
	fs.StringVar(&p.increment, "increment", "", "of linear: what each delay adds (default: the initial delay)")
	fs.Float64Var(&p.base, "base", 2, "of exponential: the factor from delay to delay, at least 1")
	fs.StringSliceVar(&p.delays, "delays", nil, "of custom: the delays, as in 1s,3s,7s")
	fs.StringVar(&p.jitter, "jitter", "none", "none, factor (or true), full, equal, decorrelated")
	fs.Float64Var(&p.jitterFactor, "jitter-factor", 0.3, "of jitter factor: the share of the delay, 0 to 1")
	fs.StringVar(&p.budget, "budget", "", "bound on the sum of the delays")
	fs.Uint64Var(&p.seed, "seed", 0, "seed of the jitter; the same seed gives the same delays")
	for _, alias := range []string{"initial", "max"} {
		if err := fs.MarkHidden(alias); err != nil {
			panic(err) // the flag was added above
		}
	}
}

// policies reads the flags: one policy for each strategy that was named. All
// that is wrong is reported at once.
func (p *policyFlags) policies() ([]named, error) {
	var errs []error
	read := func(flag, text string) time.Duration {
		d, err := duration.Parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
		return d
	}
	if p.attempts < 1 {
		errs = append(errs, fmt.Errorf("--attempts is %d; it must be at least 1 (1 means no retry)", p.attempts))
	}
	pol := retry.Policy{Attempts: p.attempts}
	pol.Backoff.Initial = read("initial-delay", p.initial)
	if pol.Backoff.Max = read("max-delay", p.max); pol.Backoff.Max == 0 {
		pol.Backoff.Max = backoff.Zero
	}
	if p.budget != "" {
		if pol.Budget = read("budget", p.budget); pol.Budget == 0 && len(errs) == 0 {
			errs = append(errs, errors.New("--budget is 0; it must be more, or be left out"))
		}
	}
	if p.set.Changed("seed") {
		pol.Rand = backoff.NewRand(p.seed)
	}
	var err error
	if pol.Backoff.Jitter, err = parseJitter(p.jitter); err != nil {
		errs = append(errs, fmt.Errorf("--jitter: %w", err))
	}
	if !(p.jitterFactor >= 0 && p.jitterFactor <= 1) {
		errs = append(errs, fmt.Errorf("--jitter-factor is %v; it must be from 0 to 1", p.jitterFactor))
	}
	if pol.Backoff.JitterFactor = p.jitterFactor; p.jitterFactor == 0 {
		pol.Backoff.JitterFactor = -1
	}
	errs = append(errs, p.unused()...)
	var out []named
	for _, name := range p.strategies {
		s, serrs := p.strategy(name, read)
		errs = append(errs, serrs...)
		q := pol
		q.Backoff.Strategy = s
		out = append(out, named{strings.TrimSpace(name), q})
	}
	return out, errors.Join(errs...)
}

// parseJitter reads a kind of jitter as workflow files spell it: a name, or
// true for factor and false for none.
func parseJitter(name string) (backoff.Jitter, error) {
	switch name {
	case "true":
		return backoff.Factor, nil
	case "false":
		return backoff.None, nil
	}
	return backoff.ParseJitter(name)
}

// unused reports flags that no strategy or jitter of those named heeds.
func (p *policyFlags) unused() (errs []error) {
	for _, f := range []struct{ flag, of string }{{"increment", "linear"}, {"base", "exponential"}, {"delays", "custom"}} {
		has := slices.ContainsFunc(p.strategies, func(s string) bool { return strings.TrimSpace(s) == f.of })
		if p.set.Changed(f.flag) && !has {
			errs = append(errs, fmt.Errorf("--%s is of the strategy %s; here it is %s", f.flag, f.of, strings.Join(p.strategies, ", ")))
		}
	}
	if p.set.Changed("jitter-factor") && p.jitter != "factor" && p.jitter != "true" {
		errs = append(errs, fmt.Errorf("--jitter-factor is of --jitter factor; here it is %s", p.jitter))
	}
	return errs
}

// named is a policy with the name of its strategy.
type named struct {
	name   string
	policy retry.Policy
}

func (p *policyFlags) strategy(name string, read func(flag, text string) time.Duration) (backoff.Strategy, []error) {
	switch strings.TrimSpace(name) {
	case "fixed":
		return backoff.Fixed{}, nil
	case "linear":
		var l backoff.Linear
		if p.increment != "" {
			if l.Increment = read("increment", p.increment); l.Increment == 0 {
				l.Increment = backoff.Zero
			}
		}
		return l, nil
	case "exponential":
		if !(p.base >= 1) || math.IsInf(p.base, 0) {
			return nil, []error{fmt.Errorf("--base is %v; it must be at least 1", p.base)}
		}
		return backoff.Exponential{Base: p.base}, nil
	case "fibonacci":
		return backoff.Fibonacci{}, nil
	case "custom":
		var c backoff.Custom
		for _, d := range p.delays {
			c.Delays = append(c.Delays, read("delays", d))
		}
		return c, nil
	}
	return nil, []error{fmt.Errorf("the strategy %q is not known; write one of %s", name, strings.Join(strategies, ", "))}
}

// parseMatchers reads --retry-on and --abort-on: names, pattern:RE and
// exit_code:N. Names and exit codes may stand several to a flag, with commas
// in between; a pattern takes all of its flag.
func parseMatchers(flag string, texts []string) (retry.Matcher, error) {
	var ms []retry.Matcher
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("--"+flag+": "+format, args...))
	}
	var codes []int
	inCodes := false
	for _, text := range texts {
		if re, ok := strings.CutPrefix(text, "pattern:"); ok {
			m, err := retry.Pattern(re)
			if err != nil {
				bad("%w", err)
			}
			ms = append(ms, m)
			continue
		}
		for word := range strings.SplitSeq(text, ",") {
			word = strings.TrimSpace(word)
			rest, isCode := strings.CutPrefix(word, "exit_code:")
			if n, err := strconv.Atoi(rest); err == nil && (isCode || inCodes) {
				codes, inCodes = append(codes, n), true
				continue
			}
			inCodes = false
			m, ok := retry.MatcherByName(word)
			if !ok {
				bad("%q is not known; write %s, exit_code:N or pattern:RE", word, strings.Join(retry.MatcherNames(), ", "))
				continue
			}
			ms = append(ms, m)
		}
	}
	if len(codes) > 0 {
		ms = append(ms, retry.ExitCode(codes...))
	}
	if len(errs) > 0 || len(ms) == 0 {
		return nil, errors.Join(errs...)
	}
	return retry.Any(ms...), nil
}
