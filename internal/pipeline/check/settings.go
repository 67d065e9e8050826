package check

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/retry"
)

// settings gathers the options of one call.
type settings struct {
	c       *checker
	o       *Options
	given   [syntax.OptPolicy + 1]*syntax.Option // by kind
	backoff string
	maximum time.Duration // 0: not given
}

func (s *settings) has(k syntax.OptionKind) bool { return s.given[k] != nil }

// apply checks the value of one option by itself and takes it over.
func (s *settings) apply(x *syntax.Option) {
	if x.Kind == syntax.BadOption {
		return
	}
	s.given[x.Kind] = x
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
		s.o.Lazy = v.Value
	case *syntax.StringValue:
		s.backend(x, v)
	case *syntax.MatchersValue:
		s.matchers(x, v)
	}
	switch x.Kind {
	case syntax.OptBatch, syntax.OptBatchTimeout, syntax.OptWindow, syntax.OptCheckpoint, syntax.OptJoin:
		s.streaming(x)
	}
}

func (s *settings) invalid(x *syntax.Option, must string) {
	s.c.errorf(x, "E016", "Invalid value for '%s': %s (%s)", x.Kind, s.c.file.Text(x.Value.Extent()), must)
}

// here reports what the original would accept but cannot be done here.
func (s *settings) here(n syntax.Node, code, format string, args ...any) *diag.Problem {
	if s.c.env.Compat {
		return s.c.warnf(n, code, format, args...)
	}
	return s.c.errorf(n, code, format, args...)
}

func (s *settings) number(x *syntax.Option, n int64) {
	switch {
	case x.Kind == syntax.OptRetry && (n < 0 || n >= math.MaxInt32):
		s.invalid(x, "must be from 0 to 2147483646")
	case x.Kind == syntax.OptRetry:
		s.o.Retry.Attempts = int(n) + 1
	case x.Kind == syntax.OptPriority:
		s.o.Priority = int(min(max(n, 0), 100))
		if n < 0 || n > 100 {
			s.c.warnf(x, "priority-range", "Priorities go from 0 to 100; %d counts as %d", n, s.o.Priority)
		}
	case n <= 0:
		s.invalid(x, "must be > 0")
	case x.Kind == syntax.OptConcurrency:
		s.o.Limit = int(min(n, math.MaxInt32))
	}
}

func (s *settings) duration(x *syntax.Option, v *syntax.DurationValue) {
	if v.Value <= 0 {
		s.invalid(x, "must be > 0")
		return
	}
	switch x.Kind {
	case syntax.OptDelay:
		s.o.Retry.Backoff.Initial = v.Value
	case syntax.OptMaxDelay:
		s.maximum = v.Value
	case syntax.OptBudget:
		s.o.Retry.Budget = v.Value
	case syntax.OptTimeout:
		s.o.Retry.Timeout = v.Value
	case syntax.OptDeadline:
		s.o.Deadline = v.Value
	case syntax.OptCache:
		s.o.Cache = v.Value
	}
}

func (s *settings) rate(x *syntax.Option, v *syntax.RateValue) {
	if v.Count <= 0 || v.Count > math.MaxInt32 || v.Per.Value <= 0 {
		s.invalid(x, "number and span must be > 0")
		return
	}
	r := Rate{int(v.Count), v.Per.Value}
	if x.Kind == syntax.OptBreaker {
		s.o.Breaker = r
	} else {
		s.o.Throttle = r
	}
}

func (s *settings) word(x *syntax.Option, word string) {
	switch x.Kind {
	case syntax.OptBackoff:
		if !slices.Contains([]string{"fixed", "linear", "exponential", "fibonacci"}, word) {
			s.invalid(x, "must be fixed, linear, exponential or fibonacci")
		}
		s.backoff = word
	case syntax.OptJitter:
		j, err := backoff.ParseJitter(word)
		if err != nil {
			s.invalid(x, "must be none, factor, full, equal or decorrelated")
		}
		s.o.Retry.Backoff.Jitter = j
	case syntax.OptOnError:
		i := slices.Index(onErrorNames, word)
		if i < 0 {
			s.invalid(x, "must be propagate, skip, log or wrap")
		}
		s.o.OnError = OnError(max(i, 0))
	case syntax.OptPriority:
		p, ok := priorities[word]
		if !ok {
			s.invalid(x, "must be critical, high, normal, low, background or a number from 0 to 100")
		}
		s.o.Priority = p
	}
}

func (s *settings) backend(x *syntax.Option, v *syntax.StringValue) {
	if v.Value != "memory" && v.Value != "disk" {
		s.here(x, "E016", "Invalid value for 'cache_backend': %q (must be \"memory\" or \"disk\")", v.Value).
			Suggestion = diag.DidYouMean(v.Value, []string{"memory", "disk"})
		return
	}
	s.o.Backend = v.Value
}

func (s *settings) matchers(x *syntax.Option, v *syntax.MatchersValue) {
	if len(v.Matchers) == 0 {
		s.invalid(x, "must name at least one kind of error")
		return
	}
	all := make([]retry.Matcher, 0, len(v.Matchers))
	for _, m := range v.Matchers {
		if matcher := s.matcher(m); matcher != nil {
			all = append(all, matcher)
		}
	}
	if x.Kind == syntax.OptRetryOn {
		s.o.Retry.RetryOn = retry.Any(all...)
	} else {
		s.o.Retry.AbortOn = retry.Any(all...)
	}
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
		matcher, err := retry.Pattern(m.Pattern)
		if err != nil {
			s.c.errorf(m, "E016", "Invalid pattern: %s", strings.TrimPrefix(err.Error(), "retry: ")).Suggest("write an RE2 regular expression")
			return nil
		}
		return matcher
	}
	matcher, ok := retry.MatcherByName(m.Name.Name)
	if !ok {
		names := append(retry.MatcherNames(), "exit_code", "pattern")
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
	p := s.here(x, "unsupported-option", "The option '%s' is for streams, which are not supported here", x.Kind)
	p.Suggest("remove it; to work on each element of a list, write map(xs, (x) => …)")
	if s.c.quiet == 0 {
		s.c.program.unsupported = append(s.c.program.unsupported, *p)
	}
}

// schedule makes the backoff of delay, backoff and max_delay. The cap of 30 s
// is for delays that grow; a fixed one is what the author wrote.
func (s *settings) schedule() {
	b := &s.o.Retry.Backoff
	switch s.backoff {
	case "linear":
		b.Strategy = backoff.Linear{}
	case "exponential":
		b.Strategy = backoff.Exponential{}
	case "fibonacci":
		b.Strategy = backoff.Fibonacci{}
	default:
		b.Strategy = backoff.Fixed{}
		if b.Jitter != backoff.Decorrelated { // which grows
			b.Max = backoff.Unlimited
		}
	}
	if s.maximum > 0 {
		b.Max = s.maximum
	}
}

// fallback checks the fallback against the type of the call's result, in the
// scope of the call, or of the file if it stands in a policy: then what is
// wrong in it by itself was reported there.
func (s *settings) fallback(t *types.Type, w *syntax.WithClause) {
	x := s.given[syntax.OptFallback]
	if x == nil {
		return
	}
	c := s.c
	saved := c.local
	defer func() { c.local = saved }()
	if w.Get(syntax.OptFallback) == x {
		s.failing(x, t)
	} else {
		c.local = nil
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
		s.o.Failure.Name = l.Params[0].Name.Name
		body = l.Body
		c.local = &scope{s.o.Failure, c.local}
	} else if c.lookup("error") == nil {
		c.local = &scope{s.o.Failure, c.local}
	}
	s.o.Fallback = c.expr(body, want)
}
