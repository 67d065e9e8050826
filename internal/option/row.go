// Package option is the one table of the options of a call: what may be in
// retry_config of a workflow file, in the with clause of a pipeline, and among
// the flags of exec, batch and backoff.
//
// A [Row] is one option: its names, the form and bounds of its value, where it
// may stand, an example and a sentence; and the field of [Settings] that it
// sets. The decoder of workflow files, the parser, checker and formatter of
// pipelines, the flags, the schema for editors, completion, the language server
// and the reference read the row. To add an option is a row, its field, and
// what the field means in [Settings.Policy] or in the one who makes the
// attempts.
package option

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/value"
)

// Kind is the form of an option's value. Beside each kind stands the type of
// the value in Go, where the option has a field.
type Kind uint8

// The kinds.
const (
	Count     Kind = iota // int: a whole number, or one of the words
	Number                // float64
	Span                  // time.Duration
	Spans                 // []time.Duration
	Flag                  // bool
	Word                  // string: one of the words
	Jitter                // backoff.Jitter: one of the words, or true or false
	Strategy              // string: one of the words; files may put its parameters beside it
	Matchers              // []Matcher
	Condition             // Text: an expression
	Breaker               // *circuit.Config
	Exhausted             // Ending: stop, continue or a fallback
	Shared                // *Quota
	Rules                 // []Rule: a list of policies, each with errors that it is for

	// Of pipelines alone, which read them themselves.
	Rate       // a number in a span of time
	Expression // any expression
	Quoted     // a string
	Level      // a number or a word
	Grouping   // how elements of a stream are grouped
	Joining    // how streams are joined
	PolicyName // the name of a policy
)

// Layer is a set of the places in which an option may stand.
type Layer uint8

// The layers.
const (
	File    Layer = 1 << iota // retry_config of a workflow file
	Call                      // the with clause of a pipeline, and its policies
	Exec                      // the flags of exec
	Batch                     // the flags of batch
	Backoff                   // the flags of backoff
	InRule                    // a rule of a policy, in each of these
	Probe                     // the waits before the probes of a hold

	Command = Exec | Batch | Backoff
)

// Row is one option.
type Row struct {
	// Name is the option's key in a file and its name everywhere else, but for
	// the places that have a name of their own for it.
	Name    string
	Call    string // in a pipeline; "": Name
	Flag    string // on the command line; "": Name with hyphens
	OldFlag string // its name on the command line until November 2026; the flag of that name says so
	// Meant are names that other tools have for it: they are no spellings, but
	// who writes one in a pipeline is told ours.
	Meant []string

	// Older are other spellings that files may have; they are turned into Name
	// before anything is read. Of a span of time the spellings NAME_ms and
	// NAME_secs belong to it too, where Units says so.
	Older []string
	Units bool

	Kind     Kind
	Words    []string // that a value may be
	Default  string   // what holds where the option is missing, as it is written
	Least    float64  // bounds of a number
	Greatest float64  // 0: none
	Positive bool     // of a span: it must be more than 0

	In      Layer
	Stream  bool   // of the original's streams: it is read, and refused
	Of      string // the strategy or the jitter that it is a parameter of; "": of none
	Example string // a value, as a file has it
	Shown   string // a value, as a pipeline has it; "": Example
	Doc     string // one sentence

	field *field // of *Settings or *circuit.Config; nil: pipelines alone
	at    int    // its place in its table
}

// field is the field that an option has in a struct, whose pointer it is given.
type field struct {
	set  func(to, v any)    // v has the type of the field
	copy func(to, from any) // from has it too
}

// of makes the field that get points to.
func of[S, T any](get func(*S) *T) *field {
	return &field{
		set:  func(to, v any) { *get(to.(*S)) = v.(T) },
		copy: func(to, from any) { *get(to.(*S)) = *get(from.(*S)) },
	}
}

// CallName is the option's name in a pipeline.
func (r *Row) CallName() string { return either(r.Call, r.Name) }

// FlagName is the option's name on the command line, without the hyphens
// before it.
func (r *Row) FlagName() string { return either(r.Flag, strings.ReplaceAll(r.Name, "_", "-")) }

// CallWords are the words that the option's value may be in a pipeline. Of the
// strategies those are left out whose parameters have no place there.
func (r *Row) CallWords() []string {
	if r.Kind == Strategy {
		return callStrategies
	}
	return r.Words
}

// CallExample shows the option as a pipeline has it: "timeout: 5s".
func (r *Row) CallExample() string {
	return r.CallName() + ": " + either(r.Shown, r.Example)
}

// Brief is the first sentence about the option, as a help text has it.
func (r *Row) Brief() string {
	first, _, _ := strings.Cut(r.Doc, ". ")
	return strings.ToLower(first[:1]) + strings.TrimSuffix(first[1:], ".")
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// Spellings are all keys by which a file may have the option, the present one
// first.
func (r *Row) Spellings() []string {
	out := append([]string{r.Name}, r.Older...)
	if r.Units {
		out = append(out, r.Name+"_ms", r.Name+"_secs")
	}
	return out
}

// Unit is what a bare number counts under a spelling.
func Unit(key string) time.Duration {
	if strings.HasSuffix(key, "_ms") {
		return time.Millisecond
	}
	return time.Second
}

// InPolicy reports whether the option is one of a policy, so that [Row.Set] has
// a field to set. What is of pipelines alone has none.
func (r *Row) InPolicy() bool { return r.field != nil }

// Set sets the option's field; v has the type of the option's kind. to is the
// *Settings, or of a breaker's option the *circuit.Config.
func (r *Row) Set(to, v any) {
	r.field.set(to, v)
	if s, ok := to.(*Settings); ok {
		s.written |= r.bit()
	}
}

func (r *Row) bit() uint64 { return 1 << r.at }

// Table is every option of a policy and of a call, in the order of the
// reference. Its rows are not to be changed.
var Table = sync.OnceValue(func() []*Row { return pointers(rows) })

// BreakerTable is the options of a circuit breaker.
var BreakerTable = sync.OnceValue(func() []*Row { return pointers(breakerRows) })

func pointers(rows []Row) []*Row {
	out := make([]*Row, len(rows))
	for i := range rows {
		out[i] = &rows[i]
		out[i].at = i
	}
	return out
}

// For gives the options that may be in any of some places.
func For(in Layer) []*Row {
	return slices.DeleteFunc(slices.Clone(Table()), func(r *Row) bool { return r.In&in == 0 })
}

// ByName gives the option of a name, whichever place it is written in; nil if
// there is none.
func ByName(name string) *Row {
	for _, r := range Table() {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Calls is the options of pipelines.
var Calls = sync.OnceValue(func() []*Row { return For(Call) })

// MeantInCall gives the name in a pipeline of the option that other tools call
// so, or "".
func MeantInCall(name string) string {
	for _, r := range Calls() {
		if slices.Contains(r.Meant, name) || r.In&File != 0 && slices.Contains(r.Spellings(), name) {
			return r.CallName()
		}
	}
	return ""
}

// Strategies and Jitters are the words for a backoff and for its jitter.
var (
	Strategies = []string{"fixed", "linear", "exponential", "fibonacci", "custom"}
	Jitters    = []string{"none", "factor", "full", "equal", "decorrelated"}

	callStrategies = value.Filter(Strategies, func(w string) bool { return w != "custom" })
)
