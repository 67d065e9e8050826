package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/value"
)

// Flag is an option that is given on a command line: the texts behind its flag,
// each time that it was there.
type Flag struct {
	Option *option.Row
	Name   string // of the flag, for messages
	Texts  []string
}

// FlagPolicy reads a policy out of flags, by the same rows and with the same
// bounds as out of a file. config is what a file would have as retry_config.
// All that is wrong is in the error.
func FlagPolicy(flags []Flag) (r *Retry, config map[string]any, err error) {
	var problems diag.List
	d := &decoder{file: &File{}, problems: &problems}
	s := &retrySpec{n: &node{kind: mapNode}}
	o, _ := d.object(s.n, retryTable) // it is a map
	config = map[string]any{}
	var errs []error
	for _, f := range flags {
		n, err := f.node()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if v, ok := d.optionValue(o, f.Option, "--"+f.Name, n); ok {
			if e, isExpr := v.(*expr.Expr); isExpr {
				if err := f.judges(e); err != nil {
					errs = append(errs, err)
				}
			}
			f.Option.Set(&s.Settings, v)
			config[f.Option.Name] = n.value()
		}
		for _, p := range problems {
			if p.Severity == diag.Error {
				errs = append(errs, f.problem(p))
			}
		}
		problems = nil
	}
	if r = d.resolve(s); len(errs) == 0 {
		for _, p := range problems {
			if p.Severity == diag.Error {
				errs = append(errs, fmt.Errorf("%s; %s", p.Message, onCommandLine.Replace(p.Suggestion)))
			}
		}
	}
	return r, config, errors.Join(errs...)
}

// problem is a problem of a flag's value: which flag, what, and what to do.
func (f Flag) problem(p diag.Problem) error {
	message := p.Message
	if !strings.HasPrefix(message, "--"+f.Name) {
		message = "--" + f.Name + ": " + message
	}
	if p.Suggestion != "" {
		message += "; " + onCommandLine.Replace(p.Suggestion)
	}
	if f.Option.Kind == option.Condition {
		message += "; it is a condition on the result, as in result.status == 'ready', and no command"
	}
	return errors.New(message)
}

// judges checks that a condition reads what a command leaves: any other name would be null
// at every attempt, and the condition false.
func (f Flag) judges(e *expr.Expr) error {
	for _, p := range e.Needs() {
		name := p[0].Name
		if slices.Contains(commandNames, name) {
			continue
		}
		write := fmt.Sprintf("write result.%s for a field of an output that is JSON, contains(output, '%[1]s') for a text in any other", name)
		switch name {
		case "stdout":
			write = "write output"
		case "status", "code", "exitcode", "exit", "rc":
			write = "write exit_code for the exit status, result." + name + " for a field of an output that is JSON"
		case "shell", "last":
			write = "write output in place of " + name + ".output"
		}
		return fmt.Errorf("--%s: a command leaves no %s, only output, stderr, exit_code and result; %s", f.Name, name, write)
	}
	return nil
}

// commandNames are what a condition on the command line may read: what the command leaves,
// and the variables of a batch and of the environment.
var commandNames = []string{"result", "output", "stderr", "exit_code", "item", "index", "total", "env"}

// onCommandLine rewrites what is proposed for a file into what a flag takes, where a
// bare number is no span of time.
var onCommandLine = strings.NewReplacer(
	"; a bare number is in seconds", "", ", or a bare number of seconds without quotes", "",
	"{pattern: '…'} or {exit_code: [1]}", "pattern:RE or exit_code:N",
	"{pattern: '", "'pattern:", "'}", "'", "{exit_code: [", "exit_code:", "]}", "",
	"attempts: unlimited, deadline: 1h", "--attempts unlimited --deadline 1h", "deadline: 1h", "--deadline 1h",
	"jitter: factor, jitter_factor: ", "--jitter factor --jitter-factor ")

// node is the value of a flag as a file would have it.
func (f Flag) node() (*node, error) {
	last := f.Texts[len(f.Texts)-1]
	switch f.Option.Kind {
	case option.Condition, option.Span: // a bare number is no span of time on the command line
		return wordNode(last), nil
	case option.Rules:
		return f.list()
	case option.Breaker:
		return f.breaker(last)
	case option.Spans:
		return &node{kind: listNode, items: value.Map(f.words(), wordNode)}, nil
	case option.Matchers:
		return f.matchers()
	case option.Exhausted:
		return &node{kind: mapNode, pairs: []pair{{wordNode("fallback"), wordNode(last)}}}, nil
	case option.Count, option.Number, option.Jitter, option.Strategy, option.Flag:
		last = strings.TrimSpace(last)
		if last == "" {
			return nil, fmt.Errorf("--%s is empty; write for example --%s %s", f.Name, f.Name, f.Option.Example)
		}
		return plainNode(last), nil
	}
	panic("workflow: there is no form for the flag --" + f.Name)
}

// wordNode is a text, plainNode what a file has where the text is without quotes.
func wordNode(text string) *node  { return &node{kind: strNode, text: text} }
func plainNode(text string) *node { return &node{kind: plainKind(text), text: text} }

// breaker reads 5/30s and 0.5/20/30s.
func (f Flag) breaker(text string) (*node, error) {
	parts := strings.Split(text, "/")
	keys := []string{"failure_threshold", "timeout"}
	if len(parts) == 3 {
		keys = []string{"failure_rate", "window", "timeout"}
	}
	if len(parts) != len(keys) || slices.Contains(parts, "") {
		return nil, fmt.Errorf("--%s: %q is no breaker; write 5/30s for 30 s after 5 failures in a row, 0.5/20/30s for a rate", f.Name, text)
	}
	n := &node{kind: mapNode}
	for i, key := range keys {
		n.pairs = append(n.pairs, pair{wordNode(key), plainNode(parts[i])})
	}
	return n, nil
}

// list reads values that are written as a file would have them, one behind each
// flag.
func (f Flag) list() (*node, error) {
	list := &node{kind: listNode}
	for _, text := range f.Texts {
		var problems diag.List
		n := parseTree(&source{text: []byte(text)}, &problems)
		if problems.HasErrors() || n == nil {
			return nil, fmt.Errorf("--%s: %q is not in the form of a file; write for example --%s '{on: rate_limit, attempts: 20}'", f.Name, text, f.Name)
		}
		list.items = append(list.items, n)
	}
	return list, nil
}

// words are the texts of a flag that stand one after another with commas in
// between.
func (f Flag) words() (out []string) {
	for _, text := range f.Texts {
		for word := range strings.SplitSeq(text, ",") {
			out = append(out, strings.TrimSpace(word))
		}
	}
	return out
}

// matchers reads --retry-on and --abort-on: names, exit_code:N or N, and pattern:RE.
// Names and exit codes may stand several to a flag, with commas in between; a
// pattern takes all of its flag.
func (f Flag) matchers() (*node, error) {
	list := &node{kind: listNode}
	matcher := func(key, text string) {
		list.items = append(list.items, &node{kind: mapNode, pairs: []pair{{wordNode(key), plainNode(text)}}})
	}
	for _, text := range f.Texts {
		if re, ok := strings.CutPrefix(text, "pattern:"); ok {
			matcher("pattern", re)
			continue
		}
		for _, word := range (Flag{Texts: []string{text}}).words() {
			if strings.HasPrefix(word, "pattern:") {
				return nil, fmt.Errorf("--%s: a pattern takes all of its flag; write --%s %s", f.Name, f.Name, strings.Replace(text, ","+word, " --"+f.Name+" "+word, 1))
			}
			code, named := strings.CutPrefix(word, "exit_code:")
			if named || intText().MatchString(word) {
				matcher("exit_code", code)
			} else {
				list.items = append(list.items, wordNode(word))
			}
		}
	}
	return list, nil
}
