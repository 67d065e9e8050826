package syntax

import (
	"slices"
	"time"
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

// OptionKind says which option it is.
type OptionKind uint8

// The options. Beside each stands the type of its value.
const (
	BadOption       OptionKind = iota
	OptRetry                   // IntValue, not negative
	OptDelay                   // DurationValue
	OptBackoff                 // WordValue: fixed, linear, exponential, fibonacci
	OptMaxDelay                // DurationValue
	OptJitter                  // WordValue: none, factor, full, equal, decorrelated
	OptRetryOn                 // MatchersValue
	OptAbortOn                 // MatchersValue
	OptBudget                  // DurationValue
	OptDeadline                // DurationValue
	OptBreaker                 // RateValue: opens after Count failures, for Per
	OptTimeout                 // DurationValue
	OptFallback                // ExprValue
	OptOnError                 // WordValue: propagate, skip, log, wrap
	OptCache                   // DurationValue
	OptCacheBackend            // StringValue
	OptThrottle                // RateValue
	OptConcurrency             // IntValue, not negative
	OptPriority                // IntValue, or WordValue: critical, high, normal, low, background
	OptLazy                    // BoolValue
	OptBatch                   // IntValue, not negative
	OptBatchTimeout            // DurationValue
	OptWindow                  // WindowValue
	OptCheckpoint              // DurationValue
	OptJoin                    // JoinValue
	OptPolicy                  // WordValue: the name of a policy declaration
)

var optionNames = [...]string{BadOption: "?", OptRetry: "retry", OptDelay: "delay", OptBackoff: "backoff", OptMaxDelay: "max_delay", OptJitter: "jitter",
	OptRetryOn: "retry_on", OptAbortOn: "abort_on", OptBudget: "budget", OptDeadline: "deadline", OptBreaker: "breaker",
	OptTimeout: "timeout", OptFallback: "fallback", OptOnError: "on_error", OptCache: "cache", OptCacheBackend: "cache_backend",
	OptThrottle: "throttle", OptConcurrency: "concurrency", OptPriority: "priority", OptLazy: "lazy", OptBatch: "batch",
	OptBatchTimeout: "batch_timeout", OptWindow: "window", OptCheckpoint: "checkpoint", OptJoin: "join", OptPolicy: "policy"}

// String is the option's name as written in a source.
func (k OptionKind) String() string {
	if int(k) < len(optionNames) {
		return optionNames[k]
	}
	return optionNames[BadOption]
}

// OptionNames lists the names of all options, in the order of their kinds.
func OptionNames() []string { return slices.Clone(optionNames[1:]) }

// OptionByName finds an option's kind; BadOption if there is none.
func OptionByName(name string) OptionKind {
	for k := OptRetry; int(k) < len(optionNames); k++ {
		if optionNames[k] == name {
			return k
		}
	}
	return BadOption
}

// Option is one "name: value" of a with clause or policy.
type Option struct {
	Span
	Kind  OptionKind
	Name  Ident
	Value OptionValue // never nil; *BadValue after an error
}

// OptionValue is *IntValue, *DurationValue, *RateValue, *WordValue,
// *BoolValue, *StringValue, *MatchersValue, *WindowValue, *JoinValue,
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

	// DurationValue is a number with one of the units ms, s, min, h, d.
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
func (*WindowValue) optionValue()   {}
func (*JoinValue) optionValue()     {}
func (*ExprValue) optionValue()     {}
func (*BadValue) optionValue()      {}
