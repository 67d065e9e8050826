package option

import (
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
)

const everywhere = File | Call | Exec | Batch

var rows = []Row{
	{Name: "attempts", Call: "retry", Meant: []string{"retries", "max_retries"}, Older: []string{"max_attempts"}, Kind: Count, Words: []string{"unlimited"}, Default: "3, or the most that a rule has", Least: 1, Greatest: MaxAttempts,
		In: everywhere | Backoff | InRule, Example: "5", Shown: "3", field: of(func(s *Settings) *int { return &s.Attempts }),
		Doc: "The most attempts, the first one included; unlimited needs a deadline. In a pipeline, retry: N is N attempts after the first."},
	{Name: "backoff", Meant: []string{"strategy", "multiplier"}, Kind: Strategy, Words: Strategies, Default: "exponential", In: everywhere | Backoff | InRule | Probe, Example: "fibonacci", Shown: "exponential",
		field: of(func(s *Settings) *string { return &s.Strategy }),
		Doc:   "How the delay D grows from attempt to attempt: linear is n·D, exponential D·base^(n-1). In a pipeline the default is fixed."},
	{Name: "initial_delay", Call: "delay", Meant: []string{"wait"}, OldFlag: "initial", Units: true, Kind: Span, Default: "1s", In: everywhere | Backoff | InRule | Probe, Example: "500ms", Shown: "1s",
		field: of(func(s *Settings) *time.Duration { return &s.Initial }),
		Doc:   "The delay after the first failed attempt. In a pipeline the default is none."},
	{Name: "max_delay", OldFlag: "max", Units: true, Kind: Span, Default: "30s", In: everywhere | Backoff | InRule | Probe, Example: "1m", Shown: "5s",
		field: of(func(s *Settings) *time.Duration { return &s.Max }),
		Doc:   "The longest delay between two attempts."},
	{Name: "increment", Kind: Span, Default: "initial_delay", In: File | Command | InRule | Probe, Of: "linear", Example: "2s",
		field: of(func(s *Settings) *time.Duration { return &s.Increment }),
		Doc:   "For linear: what each delay adds to the one before."},
	{Name: "base", Older: []string{"multiplier", "factor"}, Kind: Number, Least: 1, Default: "2", In: File | Command | InRule | Probe, Of: "exponential", Example: "3.0",
		field: of(func(s *Settings) *float64 { return &s.Base }),
		Doc:   "For exponential: the factor from one delay to the next."},
	{Name: "delays", Kind: Spans, Default: "none", In: File | Command | InRule | Probe, Of: "custom", Example: "[1s, 3s]",
		field: of(func(s *Settings) *[]time.Duration { return &s.Delays }),
		Doc:   "For custom: the delays, one after another; after the last, every delay is max_delay."},
	{Name: "jitter", Kind: Jitter, Words: Jitters, Default: "none", In: everywhere | Backoff | InRule, Example: "true", Shown: "full",
		field: of(func(s *Settings) *backoff.Jitter { return &s.Jitter }),
		Doc:   "How the delays are varied at random; true means factor."},
	{Name: "jitter_factor", Kind: Number, Greatest: 1, Default: "0.3", In: File | Command | InRule, Of: "factor", Example: "0.5",
		field: of(func(s *Settings) *float64 { return &s.JitterFactor }),
		Doc:   "For jitter: factor, the share of a delay by which it may be shorter or longer."},
	{Name: "retry_on", Kind: Matchers, Default: "every error", In: everywhere, Example: "[network, {pattern: 'try later'}]", Shown: "[network, timeout]",
		field: of(func(s *Settings) *[]Matcher { return &s.RetryOn }),
		Doc:   "Which errors are retried."},
	{Name: "abort_on", Kind: Matchers, Default: "none", In: everywhere, Example: "[{exit_code: 2}]", Shown: "[network, timeout]",
		field: of(func(s *Settings) *[]Matcher { return &s.AbortOn }),
		Doc:   "Which errors are never retried, even if retry_on matches."},
	{Name: "retry_budget", Call: "budget", Flag: "budget", Units: true, Kind: Span, Positive: true, Default: "none", In: everywhere | Backoff | InRule, Example: "5m", Shown: "5s",
		field: of(func(s *Settings) *time.Duration { return &s.Budget }),
		Doc:   "A bound on the sum of the delays."},
	{Name: "retry_after_max", Kind: Span, Default: "5m", In: File | Batch, Example: "10m",
		field: of(func(s *Settings) *time.Duration { return &s.RetryAfterMax }),
		Doc:   "The longest wait that a server may ask for with Retry-After; a longer one ends the retries."},
	{Name: "retry_budget_expires", Call: "budget_expires", Flag: "budget-expires", Kind: Flag, Default: "false", In: File | Call | Batch, Example: "true",
		field: of(func(s *Settings) *bool { return &s.BudgetExpires }),
		Doc:   "After a resume the budget also counts by the clock: it ends that long after the first failure."},
	{Name: "deadline", Kind: Span, Units: true, Positive: true, Default: "none", In: everywhere | Backoff, Example: "1h", Shown: "5s",
		field: of(func(s *Settings) *time.Duration { return &s.Deadline }),
		Doc:   "The most time from the first attempt to the end: attempts, delays, queues, and the time between an interruption and the resume."},
	{Name: "until", Kind: Condition, Default: "none", In: everywhere, Example: "result.status == 'done'", Shown: "result != \"\"",
		field: of(func(s *Settings) *Text { return &s.Until }),
		Doc:   "A condition on the result of a successful attempt; if it is false, the attempt has failed. For a command, result is its output, parsed if it is JSON; output, stderr and exit_code are there as well. For a call, result is its value."},
	{Name: "rules", Flag: "rule", Kind: Rules, Default: "none", In: everywhere,
		Example: "[{on: rate_limit, attempts: 20, backoff: fixed}, {on: {exit_code: 75}, attempts: 3}]", Shown: "[{on: rate_limit, retry: 20, delay: 1s}]",
		field: of(func(s *Settings) *[]Rule { return &s.Rules }),
		Doc:   "Policies for classes of errors. The first rule that matches an error decides about it, with its own count of attempts; what a rule leaves out comes from the policy."},
	{Name: "circuit_breaker", Call: "breaker", Flag: "breaker", Kind: Breaker, Default: "none", In: everywhere, Example: "{failure_threshold: 5}", Shown: "5/30s",
		field: of(func(s *Settings) **circuit.Config { return &s.Breaker }),
		Doc:   "Refuses attempts for a time after failures in a row, or at a rate of failures. All executions of a step, or calls of a module, share one breaker. In a pipeline and in a flag, 5/30s is 30 s after 5 failures in a row; 0.5/20/30s is 30 s when half of the last 20 have failed."},
	{Name: "timeout", Units: true, Kind: Span, Positive: true, Default: "none", In: everywhere, Example: "30s", Shown: "5s",
		field: of(func(s *Settings) *time.Duration { return &s.Timeout }),
		Doc:   "The most time for each attempt; one that takes longer is stopped and has failed."},
	{Name: "on_failure", Flag: "fallback", Kind: Exhausted, Words: []string{"stop", "continue"}, Default: "stop", In: File | Exec, Example: "continue",
		field: of(func(s *Settings) *Ending { return &s.Ending }),
		Doc:   "What happens after the last failed attempt: stop, continue, or a fallback that runs once instead."},
	{Name: "quota", Kind: Shared, Default: "none", In: File, Example: "{name: api, ratio: 0.1}",
		field: of(func(s *Settings) **Quota { return &s.Quota }),
		Doc:   "A budget of retries that several operations share."},

	{Name: "fallback", Meant: []string{"default", "or_else"}, Kind: Expression, Default: "none", In: Call, Example: `"none"`,
		Doc: "The value to take after the last failure; it is evaluated only then. The variable error holds the failure."},
	{Name: "on_error", Meant: []string{"on_failure"}, Kind: Word, Words: []string{"propagate", "skip", "log", "wrap"}, Default: "propagate", In: Call, Example: "skip",
		Doc: "What a failure becomes: propagate passes it on, skip and log give the zero of the type, wrap gives it as a value."},
	{Name: "cache", Meant: []string{"ttl"}, Kind: Span, Positive: true, Default: "none", In: Call, Example: "10min",
		Doc: "Keeps a successful result for this long."},
	{Name: "cache_backend", Meant: []string{"backend"}, Kind: Quoted, Words: []string{"memory", "disk"}, Default: "memory", In: Call, Example: `"memory"`,
		Doc: `Where results are kept: "memory" or "disk".`},
	{Name: "throttle", Meant: []string{"rate", "rate_limit"}, Kind: Rate, Default: "none", In: Call, Example: "100/1min",
		Doc: "At most this many attempts per duration, for the module."},
	{Name: "concurrency", Meant: []string{"parallel", "max_parallel", "parallelism"}, Kind: Count, Least: 1, Default: "any number", In: Call, Example: "4",
		Doc: "At most this many attempts at once, for the module."},
	{Name: "limits", Meant: []string{"limit"}, Kind: Quoted, Default: "none", In: Call, Example: `"anthropic"`,
		Doc: "Limits of the machine, by their names in limits.yml, separated by commas: each attempt holds a slot of each. All runs share them."},
	{Name: "priority", Kind: Level, Words: []string{"critical", "high", "normal", "low", "background"}, Greatest: 100, Default: "normal", In: Call, Example: "high",
		Doc: "Who comes first when several wait for a slot or a token: a level or a number, 0 to 100. Each point is worth half a second of waiting. A step of a workflow file has it too, for limits of the machine."},
	{Name: "lazy", Kind: Flag, Default: "false", In: Call, Example: "true",
		Doc: "Computed only if it is needed."},
	{Name: "batch", Stream: true, Kind: Count, Least: 1, In: Call, Example: "100",
		Doc: "Streaming: how many elements are taken together."},
	{Name: "batch_timeout", Stream: true, Kind: Span, Positive: true, In: Call, Example: "5s",
		Doc: "Streaming: how long a batch waits to fill."},
	{Name: "window", Stream: true, Kind: Grouping, Words: []string{"tumbling", "sliding", "count"}, In: Call, Example: "tumbling(5s)",
		Doc: "Streaming: how elements are grouped over time."},
	{Name: "checkpoint", Stream: true, Kind: Span, Positive: true, In: Call, Example: "5s",
		Doc: "Streaming: how often the state is saved."},
	{Name: "join", Stream: true, Kind: Joining, Words: []string{"combine_latest", "zip", "buffer"}, In: Call, Example: "zip",
		Doc: "Streaming: how inputs are joined."},
	{Name: "policy", Kind: PolicyName, In: Call, Example: "name",
		Doc: "Takes its options from a policy that this file declares."},
}

// NormalPriority is the priority of what names none.
const NormalPriority = 50

// Priorities are the words for some priorities.
var Priorities = map[string]int{"critical": 100, "high": 80, "normal": NormalPriority, "low": 20, "background": 0}

var breakerRows = []Row{
	{Name: "failure_threshold", Kind: Count, Least: 1, Default: "5", In: File, Example: "4",
		field: of(func(c *circuit.Config) *int { return &c.FailureThreshold }), Doc: "How many failures in a row open it."},
	{Name: "failure_rate", Kind: Number, Least: 0, Greatest: 1, Default: "none", In: File, Example: "0.5",
		field: of(func(c *circuit.Config) *float64 { return &c.FailureRate }), Doc: "The share of failures in the window that opens it, instead of failures in a row."},
	{Name: "window", Kind: Count, Least: 1, Default: "100", In: File, Example: "20",
		field: of(func(c *circuit.Config) *int { return &c.Window }), Doc: "Over how many of the last attempts the rates are taken."},
	{Name: "window_time", Kind: Span, Units: true, Positive: true, Default: "none", In: File, Example: "1m",
		field: of(func(c *circuit.Config) *time.Duration { return &c.WindowTime }), Doc: "The rates are taken over the attempts of this time, instead of a number of attempts."},
	{Name: "min_calls", Kind: Count, Least: 1, Default: "10, or the window if that is less", In: File, Example: "5",
		field: of(func(c *circuit.Config) *int { return &c.MinCalls }), Doc: "How many attempts the window must hold before a rate opens it."},
	{Name: "slow_call", Kind: Span, Units: true, Positive: true, Default: "none", In: File, Example: "2s",
		field: of(func(c *circuit.Config) *time.Duration { return &c.SlowCall }), Doc: "An attempt that takes longer is slow."},
	{Name: "slow_rate", Kind: Number, Least: 0, Greatest: 1, Default: "none", In: File, Example: "0.8",
		field: of(func(c *circuit.Config) *float64 { return &c.SlowRate }), Doc: "The share of slow attempts in the window that opens it."},
	{Name: "success_threshold", Kind: Count, Least: 1, Default: "3", In: File, Example: "2",
		field: of(func(c *circuit.Config) *int { return &c.SuccessThreshold }), Doc: "How many successes in half-open close it."},
	{Name: "timeout", Kind: Span, Units: true, Positive: true, Default: "30s", In: File, Example: "20s",
		field: of(func(c *circuit.Config) *time.Duration { return &c.Timeout }), Doc: "How long it stays open."},
	{Name: "half_open_requests", Kind: Count, Least: 1, Default: "3", In: File, Example: "1",
		field: of(func(c *circuit.Config) *int { return &c.HalfOpenRequests }), Doc: "How many attempts may be in flight in half-open."},
}

// of makes the reader of a field.
func of[S, T any](get func(*S) *T) func(any) any {
	return func(to any) any { return get(to.(*S)) }
}
