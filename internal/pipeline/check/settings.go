package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// settings gathers the options of one call.
type settings struct {
	c      *checker
	o      *Options
	given  []*syntax.Option // in the order of their kinds
	kinds  uint64           // of given, a bit each
	policy *option.Settings // of those that were applied
}

func newSettings(c *checker, options []*syntax.Option) settings {
	s := settings{c: c, o: new(Options), given: make([]*syntax.Option, 0, len(options))}
	for _, x := range options {
		if x.Kind != syntax.BadOption {
			s.given, s.kinds = append(s.given, x), s.kinds|1<<x.Kind
		}
	}
	slices.SortFunc(s.given, func(a, b *syntax.Option) int { return cmp.Compare(a.Kind, b.Kind) })
	return s
}

// get gives the option of a kind, nil if it is not given.
func (s *settings) get(k syntax.OptionKind) *syntax.Option {
	if !s.has(k) {
		return nil
	}
	return s.given[slices.IndexFunc(s.given, func(o *syntax.Option) bool { return o.Kind == k })]
}

func (s *settings) has(k syntax.OptionKind) bool { return s.kinds&(1<<k) != 0 }

// apply checks the value of one option by itself and takes it over.
func (s *settings) apply(x *syntax.Option) {
	if x.Kind == syntax.BadOption {
		return
	}
	switch v := x.Value.(type) {
	case *syntax.IntValue:
		s.number(x, v.Value)
	case *syntax.DurationValue:
		s.duration(x, v)
	case *syntax.RateValue:
		s.rate(x, v)
	case *syntax.WordValue:
		s.word(x, v.Word)
	case *syntax.BoolValue:
		if x.Kind.Row().InPolicy() {
			s.set(x, v.Value)
		} else {
			s.o.Lazy = v.Value
		}
	case *syntax.StringValue:
		if x.Kind == syntax.OptLimits {
			s.named(x, v)
		} else {
			s.backend(x, v)
		}
	case *syntax.MatchersValue:
		if all := s.matchers(x, v); all != nil {
			s.set(x, all)
		}
	case *syntax.RulesValue:
		s.rules(x, v)
	case *syntax.ExprValue, *syntax.WindowValue, *syntax.JoinValue, *syntax.BadValue:
	default:
		unhandled(v)
	}
	if x.Kind.Streaming() {
		s.streaming(x)
	}
}

// unhandled reports an option, or a form of its value, that was added without
// telling the checker.
func unhandled(what any) { panic(&syntax.Unhandled{Reader: "the checker of options", Node: what}) }

func (s *settings) invalid(x *syntax.Option, must string) {
	s.c.errorf(x, "E016", "Invalid value for '%s': %s (%s)", x.Kind, s.c.file.Text(x.Value.Extent()), must)
}

// here reports what the original would accept but cannot be done here.
func (c *checker) here(n syntax.Node, code, format string, args ...any) *diag.Problem {
	if c.env.Compat {
		return c.warnf(n, code, format, args...)
	}
	return c.errorf(n, code, format, args...)
}

// unsupported is here for what keeps the program from being run as well.
func (c *checker) unsupported(n syntax.Node, code, suggestion, format string, args ...any) {
	p := c.here(n, code, format, args...).Suggest("%s", suggestion)
	if c.quiet == 0 {
		c.program.unsupported = append(c.program.unsupported, *p)
	}
}

func (s *settings) number(x *syntax.Option, n int64) {
	row := x.Kind.Row()
	switch {
	case x.Kind == syntax.OptRetry && (n < 0 || n >= int64(row.Greatest)): // it counts the attempts after the first
		s.invalid(x, fmt.Sprintf("must be from 0 to %d", int64(row.Greatest)-1))
	case x.Kind == syntax.OptRetry:
		s.set(x, int(n)+1)
	case x.Kind == syntax.OptPriority:
		s.o.Priority = int(min(max(n, int64(row.Least)), int64(row.Greatest)))
		if int64(s.o.Priority) != n {
			s.c.warnf(x, "priority-range", "Priorities go from %v to %v; %d counts as %d", row.Least, row.Greatest, n, s.o.Priority)
		}
	case n < int64(row.Least):
		s.invalid(x, "must be > 0")
	case x.Kind == syntax.OptConcurrency:
		s.o.Limit = int(min(n, math.MaxInt32))
	case x.Kind != syntax.OptBatch:
		unhandled(x.Kind)
	}
}

func (s *settings) duration(x *syntax.Option, v *syntax.DurationValue) {
	if v.Value <= 0 {
		s.invalid(x, "must be > 0")
		return
	}
	switch {
	case x.Kind.Row().InPolicy():
		s.set(x, v.Value)
	case x.Kind == syntax.OptCache:
		s.o.Cache = v.Value
	case !x.Kind.Streaming():
		unhandled(x.Kind)
	}
}

// set sets the field that an option of a policy has.
func (s *settings) set(x *syntax.Option, v any) { x.Kind.Row().Set(s.policy, v) }

func (s *settings) rate(x *syntax.Option, v *syntax.RateValue) {
	if v.Count <= 0 || v.Count > math.MaxInt32 || v.Per.Value <= 0 {
		s.invalid(x, "number and span must be > 0")
		return
	}
	switch x.Kind {
	case syntax.OptBreaker:
		c := &circuit.Config{FailureThreshold: int(v.Count), SuccessThreshold: 1, Timeout: v.Per.Value, HalfOpenRequests: 1}
		if v.Share != "" {
			rate, err := strconv.ParseFloat(v.Share, 64)
			if err != nil || rate <= 0 || rate > 1 {
				s.invalid(x, "the rate must be more than 0 and at most 1.0")
				return
			}
			c.FailureThreshold, c.FailureRate, c.Window = 0, rate, int(v.Count)
		}
		s.set(x, c)
	case syntax.OptThrottle:
		s.o.Throttle = Rate{int(v.Count), v.Per.Value}
	default:
		unhandled(x.Kind)
	}
}

func (s *settings) word(x *syntax.Option, word string) {
	switch x.Kind {
	case syntax.OptRetry: // the parser lets no word but unlimited through
		s.set(x, retry.Unlimited)
	case syntax.OptBackoff:
		s.set(x, word)
	case syntax.OptJitter:
		j, err := backoff.ParseJitter(word)
		if err != nil {
			s.invalid(x, "must be "+oneOf(option.Jitters))
		}
		s.set(x, j)
	case syntax.OptOnError:
		words := x.Kind.Row().Words // in the order of the values
		i := slices.Index(words, word)
		if i < 0 {
			s.invalid(x, "must be "+oneOf(words))
		}
		s.o.OnError = OnError(max(i, 0))
	case syntax.OptPriority:
		p, ok := option.Priorities[word]
		if !ok {
			row := x.Kind.Row()
			s.invalid(x, fmt.Sprintf("must be %s or a number from %v to %v", strings.Join(row.Words, ", "), row.Least, row.Greatest))
		}
		s.o.Priority = p
	case syntax.OptPolicy: // its options are in its place, see expand
	default:
		unhandled(x.Kind)
	}
}

// oneOf lists words: a, b or c.
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func (s *settings) backend(x *syntax.Option, v *syntax.StringValue) {
	words := x.Kind.Row().Words
	if !slices.Contains(words, v.Value) {
		s.c.here(x, "E016", "Invalid value for '%s': %q (must be %q or %q)", x.Kind, v.Value, words[0], words[1]).
			Suggestion = diag.DidYouMean(v.Value, words)
		return
	}
	if s.o.Backend = v.Value; v.Value == "disk" && s.c.env.NoDisk && s.has(syntax.OptCache) {
		s.c.errorf(x, "no-disk", "there is no directory for a cache on disk here").Suggest("write cache_backend: \"memory\"")
	}
}

// LimitNames are the names of limits in the value of the option limits.
func LimitNames(v *syntax.StringValue) []string {
	return value.Map(strings.Split(v.Value, ","), strings.TrimSpace)
}

// named takes the names of limits of the machine. Whether it has them is for whoever runs the
// program to say.
func (s *settings) named(x *syntax.Option, v *syntax.StringValue) {
	if s.c.env.NoMachine {
		s.c.errorf(x, "no-machine", "named limits are those of a machine, and a Go program has none").Suggest("use concurrency or throttle")
		return
	}
	for _, name := range LimitNames(v) {
		switch {
		case name == "":
			s.c.errorf(x, "E016", "Invalid value for '%s': %q (must be the names of limits, with commas between them)", x.Kind, v.Value).
				Suggest("write %s", x.Kind.Row().CallExample())
			return
		case slices.ContainsFunc(s.o.Named, func(l NamedLimit) bool { return l.Name == name }):
			s.c.warnf(x, "no-effect", "the limit %q is named twice", name).Suggest("remove one of the two")
		default:
			s.o.Named = append(s.o.Named, NamedLimit{name, s.c.file.Pos(v.Start)})
		}
	}
}

func (s *settings) matchers(x *syntax.Option, v *syntax.MatchersValue) []option.Matcher {
	if len(v.Matchers) == 0 {
		s.invalid(x, "must name at least one kind of error")
		return nil
	}
	all := make([]option.Matcher, 0, len(v.Matchers))
	for _, m := range v.Matchers {
		if matcher := s.matcher(m); matcher != nil {
			all = append(all, option.Matcher{Name: s.c.file.Text(m.Span), Match: matcher})
		}
	}
	return all
}

// rules checks policies for kinds of errors. Each has some of the options of a
// call.
func (s *settings) rules(x *syntax.Option, v *syntax.RulesValue) {
	var all []option.Rule
	for _, r := range v.Rules {
		if r.On == nil {
			s.c.errorf(r, "E016", "Invalid value for 'rules': a rule needs the errors that it is for").Suggest("write %q", "{on: rate_limit, retry: 20, delay: 1s}")
			continue
		}
		one := &settings{c: s.c, o: &Options{Plain: new(Plain)}, policy: new(option.Settings)}
		for _, o := range r.Options {
			switch {
			case o.Kind != syntax.BadOption && o.Kind.Row().In&option.InRule == 0:
				s.c.errorf(o, "E016", "Invalid value for 'rules': '%s' is not of a rule", o.Kind).Suggest("write it beside rules")
				continue
			case o.Kind == syntax.OptRetry:
				if _, word := o.Value.(*syntax.WordValue); word {
					s.c.errorf(o, "E016", "Invalid value for 'retry': unlimited (a rule has a number, or none)").Suggest("leave it out: the retries of the call bound it then")
					continue
				}
			}
			one.apply(o)
		}
		all = append(all, option.Rule{On: s.matchers(x, r.On), Settings: *one.policy})
	}
	s.set(x, all)
}

// until checks the condition on the value of an attempt, which it knows as
// `result`, unless the file has a variable of that name; a condition written as
// a function gets the value as well.
func (s *settings) until(t *types.Type, w *syntax.WithClause) {
	x := s.get(syntax.OptUntil)
	if x == nil {
		return
	}
	v, ok := x.Value.(*syntax.ExprValue)
	if !ok {
		return
	}
	c := s.c
	check := func() {
		l, isLambda := syntax.Unparen(v.X).(*syntax.LambdaExpr)
		if !isLambda {
			if c.lookup("result") != nil {
				c.errorf(v, "E016", "Invalid value for 'until': the file has a variable named result").Suggest("write a function: until: (value) => …")
				return
			}
			l = &syntax.LambdaExpr{Span: v.Span, Params: []syntax.Param{{Name: syntax.Ident{Span: v.Span, Name: "result"}}}, Body: v.X}
		}
		if l, ok := c.lambda(l, types.FuncOf([]*types.Type{t}, types.Boolean)).(*Lambda); ok {
			s.o.Until = l
		}
	}
	if w.Get(syntax.OptUntil) == x {
		check()
		return
	}
	local, info := c.local, c.info
	c.local, c.info = nil, nil
	check()
	c.local, c.info = local, info
}

func (s *settings) matcher(m syntax.Matcher) retry.Matcher {
	switch m.Name.Name {
	case "exit_code":
		codes := make([]int, len(m.Codes))
		for i, code := range m.Codes {
			if code < 1 || code > 255 {
				s.c.errorf(m, "E016", "Invalid exit code %d: a failing command ends with 1 to 255", code)
			}
			codes[i] = int(code)
		}
		return retry.ExitCode(codes...)
	case "pattern":
		matcher, err := retry.TextPattern(m.Pattern)
		if err != nil {
			s.c.errorf(m, "E016", "Invalid pattern: %s", strings.TrimPrefix(err.Error(), "retry: ")).Suggest("write an RE2 regular expression")
			return nil
		}
		return matcher
	}
	matcher, ok := driver.MatcherByName(m.Name.Name)
	if !ok {
		names := append(driver.MatcherNames(), "exit_code", "pattern")
		s.c.errorf(m, "E016", "Unknown kind of error: %s (must be one of %s)", m.Name.Name, strings.Join(names, ", ")).
			Suggestion = diag.DidYouMean(m.Name.Name, names)
	}
	return matcher
}

// streaming checks the options of streams, and says that there are none here.
func (s *settings) streaming(x *syntax.Option) {
	switch v := x.Value.(type) {
	case *syntax.WindowValue:
		if v.Shape == "count" && v.Count <= 0 || v.Shape != "count" && v.Size.Value <= 0 || v.Shape == "sliding" && v.Slide.Value <= 0 {
			s.invalid(x, "must be > 0")
		}
	case *syntax.JoinValue:
		if v.Shape == "buffer" && v.Size.Value <= 0 {
			s.invalid(x, "must be > 0")
		}
	}
	s.c.unsupported(x, "unsupported-option", "remove it; to work on each element of a list, write map(xs, (x) => …)",
		"The option '%s' is for streams, which are not supported here", x.Kind)
}

// settle applies the options of a clause, each by itself, gives what is left out its
// default, and makes the policy. Clauses in which nothing is wrong mean the same if
// their texts are equal, wherever they are: only the first of them is looked at.
// Fallback, until, and what the options mean together are for the caller to check.
func (s *settings) settle(w *syntax.WithClause, options []*syntax.Option) {
	s.c.text = s.text(s.c.text[:0])
	if known := s.c.settled[string(s.c.text)]; known != nil {
		s.o.Plain = known
		return
	}
	s.o.Plain = &Plain{Priority: option.NormalPriority, Backend: "memory", Text: string(s.c.text)}
	s.policy = new(option.Settings)
	found := s.c.found
	for _, x := range options {
		if w.Get(x.Kind) == x {
			s.apply(x)
		} else {
			s.c.quietly(func() { s.apply(x) }) // reported at the policy
		}
	}
	s.finish()
	if s.c.found == found && s.o.Named == nil { // named limits have a place
		s.c.settled[s.o.Text] = s.o.Plain
	}
}

// finish gives what is left out its default and makes the policy.
func (s *settings) finish() {
	p := s.policy.Resolve(option.Call)
	s.o.Retry = p.Policy()
	s.o.Retry.Timeout, s.o.Deadline, s.o.Breaker = p.Timeout, p.Deadline, p.Breaker
}

// fallback checks the fallback against the type of the call's result, in the
// scope of the call, or of the file if it is in a policy: then what is
// wrong in it by itself was reported there.
func (s *settings) fallback(t *types.Type, w *syntax.WithClause) {
	x := s.get(syntax.OptFallback)
	if x == nil {
		return
	}
	c := s.c
	saved, info := c.local, c.info
	defer func() { c.local, c.info = saved, info }()
	if w.Get(syntax.OptFallback) == x {
		s.failing(x, t)
	} else {
		c.local, c.info = nil, nil // noted at the policy
		c.quietly(func() { s.failing(x, t) })
	}
	if f := s.o.Fallback; f != nil && !types.Subtype(f.Type(), t) {
		c.errorf(s.place(syntax.OptFallback, w), "E017", "Fallback type mismatch: module returns %s but fallback is %s", t, f.Type())
	}
}

// failing checks the expression of a fallback. In it `error` is the failure,
// unless the file has a variable of that name; a fallback written as a
// function gets the failure as well.
func (s *settings) failing(x *syntax.Option, want *types.Type) {
	v, ok := x.Value.(*syntax.ExprValue)
	if !ok {
		return
	}
	c := s.c
	saved := c.local
	defer func() { c.local = saved }()
	s.o.Failure = &Var{Name: "error", Kind: ErrorVar, Type: types.Error, Span: x.Span}
	body := v.X
	if l, isLambda := syntax.Unparen(v.X).(*syntax.LambdaExpr); isLambda && len(l.Params) == 1 {
		s.o.Failure.Name, s.o.Failure.Span = l.Params[0].Name.Name, l.Params[0].Name.Span
		body = l.Body
	}
	if body != v.X || c.lookup("error") == nil {
		c.local = &scope{s.o.Failure, c.local}
		c.noteLocal(s.o.Failure, FailureSymbol, body)
	}
	s.o.Fallback = c.expr(body, want)
}
