package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/retry"
)

// OnError is what a call does when retries and fallback have failed.
type OnError uint8

// The answers to a failure.
const (
	Propagate OnError = iota // the call fails
	Skip                     // the zero of its type
	Log                      // the same, and a message
	Wrap                     // a Result that says so
)

// String is the name in a source.
func (o OnError) String() string { return syntax.OptOnError.Row().Words[o] }

// Options is what a with clause says, policies included.
type Options struct {
	*Plain

	Fallback Expr    // nil: none
	Failure  *Var    // what `error` means in Fallback
	Until    *Lambda // says whether the value of an attempt is the end; nil: any is
}

// Plain is what of a with clause means the same at every call: calls that say the
// same have one Plain. The zero Plain changes nothing: one attempt, no limits.
type Plain struct {
	// Retry is ready for package retry: Attempts is 1 or more.
	Retry    retry.Policy
	Breaker  *circuit.Config // shared by all calls of the module; nil: none
	Deadline time.Duration   // for the call as a whole; 0: none

	OnError  OnError
	Cache    time.Duration // how long a result is kept; 0: not
	Backend  string        // "memory" or "disk"
	Throttle Rate          // zero: none
	Limit    int           // attempts at once, over all calls of the module; 0: any number
	Named    []NamedLimit  // of the machine, that each attempt holds
	Priority int           // 0 to 100; [option.NormalPriority] if not given
	Lazy     bool

	// Text lists the options that were given in a fixed order and form. Two
	// calls whose Text and Fallback are equal behave alike.
	Text string
}

// NamedLimit is the name of a limit of the machine, and where it is.
type NamedLimit struct {
	Name string
	Pos  diag.Pos
}

// Rate is a number in a span of time.
type Rate struct {
	Count int
	Per   time.Duration
}

func (r Rate) String() string { return fmt.Sprintf("%d/%s", r.Count, duration.Format(r.Per)) }

// limits are those that a module has been given so far.
type limits struct {
	throttle    Rate
	concurrency int
}

// policy remembers a `policy` declaration. Its options are checked here once;
// whether the fallback is of the right type depends on the call.
func (c *checker) policy(d *syntax.PolicyDecl) {
	if c.policies[d.Name.Name] != nil {
		c.warnf(d.Name, "redefined", "The policy %s is declared again; calls below have this one", d.Name.Name).Suggest("give one of the two another name")
	}
	expanded := c.expand(d.Options)
	s := newSettings(c, d.Options)
	s.o.Plain, s.policy = new(Plain), new(option.Settings)
	for _, o := range d.Options {
		s.apply(o)
	}
	if x := s.get(syntax.OptFallback); x != nil {
		s.failing(x, nil)
	}
	c.noteDeclared(named{PolicySymbol, d.Name.Name}, PolicySymbol, d.Name, nil)
	c.policies[d.Name.Name] = append([]*syntax.Option{}, expanded...)
}

// expand puts the options of a named policy in the place of its name; those
// written beside it win.
func (c *checker) expand(options []*syntax.Option) []*syntax.Option {
	if !slices.ContainsFunc(options, func(o *syntax.Option) bool { return o.Kind == syntax.OptPolicy }) {
		return options
	}
	out := make([]*syntax.Option, 0, len(options))
	for _, o := range options {
		if o.Kind != syntax.OptPolicy {
			continue
		}
		name, _ := o.Value.(*syntax.WordValue)
		if name == nil {
			continue
		}
		policy, known := c.policies[name.Word]
		if !known {
			c.unknownPolicy(name)
		}
		c.noteUse(name.Span, named{PolicySymbol, name.Word})
		out = append(out, policy...)
	}
	for _, o := range options {
		if o.Kind == syntax.OptPolicy {
			continue
		}
		out = slices.DeleteFunc(out, func(p *syntax.Option) bool { return p.Kind == o.Kind })
		out = append(out, o)
	}
	return out
}

func (c *checker) unknownPolicy(name *syntax.WordValue) {
	p := c.errorf(name, "unknown-policy", "There is no policy named %s", name.Word)
	for _, d := range c.file.Decls {
		if d, ok := d.(*syntax.PolicyDecl); ok && d.Name.Name == name.Word {
			p.Suggest("it is declared below, at line %d; move that declaration up", c.file.Pos(d.Name.Start).Line)
			return
		}
	}
	p.Suggestion = c.didYouMean(name.Word, len(c.policies), func() []string { return slices.Collect(maps.Keys(c.policies)) })
	p.Or("declare it above: policy %s = retry: 3, delay: 1s", name.Word)
}

// with checks a with clause for a call that gives a result of type t.
func (c *checker) with(w *syntax.WithClause, target *callable, t *types.Type) *Options {
	expanded := c.expand(w.Options)
	s := newSettings(c, expanded)
	s.settle(w, expanded)
	s.fallback(t, w)
	s.until(t, w)
	s.dependencies(w)
	s.limits(w, target)
	return s.o
}

// text writes the options in the order of their kinds, for the content hash.
func (s *settings) text(b []byte) []byte {
	for _, o := range s.given {
		if o.Kind == syntax.OptFallback {
			continue
		}
		b = append(append(b, o.Kind.String()...), ':')
		if x, ok := o.Value.(*syntax.ExprValue); ok {
			b = append(b, s.c.file.Text(x.Span)...)
		}
		b = append(appendValue(b, o.Value), ';')
	}
	return b
}

// appendValue writes an option's value in one form, however it is laid out in
// the source.
func appendValue(b []byte, v syntax.OptionValue) []byte {
	number := func(ns ...int64) {
		for _, n := range ns {
			b = append(strconv.AppendInt(b, n, 10), ' ')
		}
	}
	switch v := v.(type) {
	case *syntax.IntValue:
		number(v.Value)
	case *syntax.DurationValue:
		number(int64(v.Value))
	case *syntax.RateValue:
		if v.Share != "" {
			b = append(append(b, v.Share...), ' ')
		}
		number(v.Count, int64(v.Per.Value))
	case *syntax.WordValue:
		b = append(b, v.Word...)
	case *syntax.BoolValue:
		b = strconv.AppendBool(b, v.Value)
	case *syntax.StringValue:
		b = strconv.AppendQuote(b, v.Value)
	case *syntax.MatchersValue:
		for _, m := range v.Matchers {
			b = strconv.AppendQuote(append(b, m.Name.Name...), m.Pattern)
			number(m.Codes...)
		}
	case *syntax.RulesValue:
		for _, r := range v.Rules {
			b = append(b, '{')
			if r.On != nil {
				b = appendValue(b, r.On)
			}
			for _, o := range r.Options {
				b = append(appendValue(append(append(b, o.Kind.String()...), ':'), o.Value), ';')
			}
			b = append(b, '}')
		}
	case *syntax.WindowValue:
		b = append(b, v.Shape...)
		number(int64(v.Size.Value), int64(v.Slide.Value), v.Count)
	case *syntax.JoinValue:
		b = append(b, v.Shape...)
		number(int64(v.Size.Value))
	case *syntax.ExprValue, *syntax.BadValue:
	default:
		panic(&syntax.Unhandled{Reader: "the checker", Node: v})
	}
	return b
}
