package syntax

import (
	"slices"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/value"
)

// WithClause is "with option, option, …". Call forms such as
// "with retry(3, 1s)" have been turned into options. No option occurs twice
// (the second is an error and is left out).
type WithClause struct {
	Span
	Options []*Option
	Braces  bool // written "with { … }"
}

// Get returns the option of that kind, or nil. A nil clause has none.
func (w *WithClause) Get(k OptionKind) *Option {
	if w == nil {
		return nil
	}
	for _, o := range w.Options {
		if o.Kind == k {
			return o
		}
	}
	return nil
}

// OptionKind says which option it is: its place among the options of pipelines
// in the table of package option, from 1.
type OptionKind uint8

// BadOption is no option.
const BadOption OptionKind = 0

// The options that the code has something to say about; all are in the table.
var (
	OptRetry         = OptionByName("retry")
	OptDelay         = OptionByName("delay")
	OptBackoff       = OptionByName("backoff")
	OptMaxDelay      = OptionByName("max_delay")
	OptJitter        = OptionByName("jitter")
	OptRetryOn       = OptionByName("retry_on")
	OptAbortOn       = OptionByName("abort_on")
	OptBudget        = OptionByName("budget")
	OptBudgetExpires = OptionByName("budget_expires")
	OptDeadline      = OptionByName("deadline")
	OptBreaker       = OptionByName("breaker")
	OptUntil         = OptionByName("until")
	OptTimeout       = OptionByName("timeout")
	OptFallback      = OptionByName("fallback")
	OptOnError       = OptionByName("on_error")
	OptCache         = OptionByName("cache")
	OptCacheBackend  = OptionByName("cache_backend")
	OptThrottle      = OptionByName("throttle")
	OptConcurrency   = OptionByName("concurrency")
	OptLimits        = OptionByName("limits")
	OptPriority      = OptionByName("priority")
	OptLazy          = OptionByName("lazy")
	OptBatch         = OptionByName("batch")
	OptBatchTimeout  = OptionByName("batch_timeout")
	OptWindow        = OptionByName("window")
	OptJoin          = OptionByName("join")
	OptPolicy        = OptionByName("policy")
)

var noOption option.Row

// Row is what the table says about the option; an empty row for BadOption.
func (k OptionKind) Row() *option.Row {
	if rows := option.Calls(); k != BadOption && int(k) <= len(rows) {
		return rows[k-1]
	}
	return &noOption
}

// String is the option's name as written in a source.
func (k OptionKind) String() string {
	if name := k.Row().CallName(); name != "" {
		return name
	}
	return "?"
}

// OptionNames lists the names of all options, in the order of their kinds.
func OptionNames() []string {
	rows := option.Calls()
	return value.Map(rows, (*option.Row).CallName)
}

// Streaming reports whether an option is one of the original's for streams. It is
// read, so that the checker can say that there are none here.
func (k OptionKind) Streaming() bool { return k.Row().Stream }

// UsableNames is OptionNames without those for streams: what to offer.
func UsableNames() []string {
	return slices.DeleteFunc(OptionNames(), func(name string) bool { return OptionByName(name).Streaming() })
}

var optionKinds = sync.OnceValue(func() map[string]OptionKind {
	kinds := map[string]OptionKind{}
	for i, r := range option.Calls() {
		kinds[r.CallName()] = OptionKind(i + 1)
	}
	return kinds
})

// OptionByName finds an option's kind; BadOption if there is none.
func OptionByName(name string) OptionKind { return optionKinds()[name] }

// Option is one "name: value" of a with clause or policy.
type Option struct {
	Span
	Kind  OptionKind
	Name  Ident
	Value OptionValue // never nil; *BadValue after an error
}

// OptionValue is *IntValue, *DurationValue, *RateValue, *WordValue,
// *BoolValue, *StringValue, *MatchersValue, *RulesValue, *WindowValue, *JoinValue,
// *ExprValue or *BadValue.
type OptionValue interface {
	Node
	optionValue()
}

type (
	// IntValue is an integer; negative only for priority.
	IntValue struct {
		Span
		Value int64
	}

	// DurationValue is a span of time as in the rest of bide: 30s, 5m, 1h30m.
	// Zero is possible; the checker refuses it.
	DurationValue struct {
		Span
		Value time.Duration
		Text  string // as written: "90s"
	}

	// RateValue is "count/duration".
	RateValue struct {
		Span
		Count int64 // not negative
		Per   DurationValue
		Share string // of a breaker by rate, "0.5/20/30s": the 0.5; else ""
	}

	// WordValue is a bare word.
	WordValue struct {
		Span
		Word string
	}

	// BoolValue is true or false; a bare "lazy" is true.
	BoolValue struct {
		Span
		Value bool
	}

	// StringValue is a quoted string.
	StringValue struct {
		Span
		Value string
	}

	// MatchersValue is "[network, exit_code(75), pattern("…")]", or one of
	// these without brackets.
	MatchersValue struct {
		Span
		Matchers []Matcher
	}

	// Matcher is one of network, timeout, server_error, rate_limit,
	// circuit_open, exit_code(75, 111) and pattern("RE").
	Matcher struct {
		Span
		Name    Ident
		Codes   []int64 // of exit_code; at least one
		Pattern string  // of pattern; not yet compiled
	}

	// RulesValue is "[{on: network, retry: 5}, …]", or one of these without
	// brackets.
	RulesValue struct {
		Span
		Rules []*Rule
	}

	// Rule is one policy of a RulesValue.
	Rule struct {
		Span
		On      *MatchersValue // nil if it is missing
		Options []*Option
	}

	// WindowValue is tumbling(size), sliding(size, slide) or count(n).
	WindowValue struct {
		Span
		Shape string // "tumbling", "sliding", "count"
		Size  DurationValue
		Slide DurationValue
		Count int64
	}

	// JoinValue is combine_latest, zip or buffer(size).
	JoinValue struct {
		Span
		Shape string // "combine_latest", "zip", "buffer"
		Size  DurationValue
	}

	// ExprValue is any expression.
	ExprValue struct {
		Span
		X Expr
	}

	// BadValue stands for a value that was not understood; the error has
	// been reported.
	BadValue struct{ Span }
)

func (*IntValue) optionValue()      {}
func (*DurationValue) optionValue() {}
func (*RateValue) optionValue()     {}
func (*WordValue) optionValue()     {}
func (*BoolValue) optionValue()     {}
func (*StringValue) optionValue()   {}
func (*MatchersValue) optionValue() {}
func (*RulesValue) optionValue()    {}
func (*WindowValue) optionValue()   {}
func (*JoinValue) optionValue()     {}
func (*ExprValue) optionValue()     {}
func (*BadValue) optionValue()      {}
