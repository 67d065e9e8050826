package worst

import (
	"cmp"
	"fmt"
	"github.com/bide-dev/bide/internal/bound"
	"strings"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// Plan is what a workflow file would do at most, every default filled in.
//
// Times are the worst case as the file bounds it: each attempt takes all of its
// timeout, each jitter draws its longest delay, everything fails that can. The
// work of bide itself and of git does not count, nor, but in Asked, do waits that
// a server asks for with Retry-After, nor, but in Killed, the time in which a command may end after its timeout.
type Plan struct {
	Path        string   `json:"path"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Kind        string   `json:"kind"`
	Isolation   string   `json:"isolation"`
	Where       string   `json:"where"`
	Uncommitted string   `json:"left_uncommitted,omitempty"` // what becomes of files that steps leave uncommitted there
	Durability  string   `json:"durability"`
	Timeout     Limit    `json:"timeout"`
	Iterations  int      `json:"max_iterations"`
	Phases      []*Phase `json:"phases"`
	Map         *Map     `json:"map,omitempty"`
	// Worst is of the whole run, and Asked the same where each retry is asked by a
	// server (Retry-After) to wait for as long as its policy obeys; nil where that
	// changes nothing.
	Worst bound.Cost  `json:"worst_case"`
	Asked *bound.Cost `json:"worst_case_asked,omitempty"`
	// Killed is Worst where each command that is told to end, by SIGTERM, continues until
	// it is killed; nil where that changes nothing.
	Killed *bound.Cost `json:"worst_case_killed,omitempty"`
	// Findings are what the file says in vain: budgets and attempts that
	// cannot be reached, timeouts shorter than the waits inside them.
	Findings diag.List `json:"findings"`
}

// Limit is a timeout. Text is the variable that gives it, if one does; D is 0
// where there is no timeout or it is not known.
type Limit struct {
	D    time.Duration `json:"ns,omitempty"`
	Text string        `json:"variable,omitempty"`
}

// String gives the span, the variable, or "none".
func (l Limit) String() string {
	switch {
	case l.Text != "":
		return l.Text
	case l.D == 0:
		return "none"
	}
	return duration.Format(l.D)
}

func limit(d workflow.Duration) Limit {
	if d.Text != nil {
		return Limit{Text: d.Text.String()}
	}
	return Limit{D: d.D}
}

// Phase is a list of steps with what is there when it begins.
type Phase struct {
	Name      string     `json:"phase"`
	Where     string     `json:"where"`
	Timeout   Limit      `json:"timeout"`
	Variables []string   `json:"variables"`
	Steps     []*Step    `json:"steps"`
	Worst     bound.Cost `json:"worst_case"`
}

// Step is one step with everything filled in.
type Step struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Label  string `json:"label"`
	ID     string `json:"id,omitempty"`
	Action string `json:"action"`
	Text   string `json:"text,omitempty"`
	Agent  string `json:"agent,omitempty"`
	When   string `json:"when,omitempty"`
	Dir    string `json:"working_dir,omitempty"`
	// Timeout is of one attempt, the least of all that bound it.
	Timeout Limit `json:"timeout"`
	// Timeouts are those of the attempts, one after the other; the last is also
	// that of all that follow. Stall is how long an attempt may print nothing.
	Timeouts []time.Duration `json:"timeout_by_attempt_ns,omitempty"`
	Stall    Limit           `json:"stall_timeout"`
	Retry    *Retry          `json:"retry,omitempty"`
	// Limits are those of the machine that each attempt holds, and Priority how soon it gets
	// them; nil where it takes none.
	Limits   []Taken `json:"limits,omitempty"`
	Priority *int    `json:"priority,omitempty"`
	// Rounds is how often the step is begun anew after its handler; 1 without.
	Rounds int `json:"rounds"`
	// Afterwards says what becomes of the run when the step has failed.
	Afterwards string `json:"when_failed"`
	// Factors multiply to Executions: how often the action is executed at most
	// in the whole run, or for one work item.
	Factors    []Factor    `json:"factors"`
	Executions bound.Count `json:"executions"`
	Worst      bound.Cost  `json:"worst_case"`
	Variables  []string    `json:"variables"`
	Sets       []string    `json:"sets"`
	Groups     []Group     `json:"groups,omitempty"`
}

// Factor is one reason why an action is executed several times.
type Factor struct {
	Times bound.Count `json:"times"`
	Of    string      `json:"of"`
}

// Group is steps inside a step.
type Group struct {
	As    string      `json:"as"`
	Times bound.Count `json:"times"`
	Steps []*Step     `json:"steps"`
}

// Retry is a retry policy with its delays.
type Retry struct {
	Attempts      int           `json:"attempts"`
	Backoff       string        `json:"backoff"`
	Initial       time.Duration `json:"initial_delay_ns"`
	Max           time.Duration `json:"max_delay_ns"`
	Jitter        string        `json:"jitter"`
	JitterFactor  float64       `json:"jitter_factor,omitempty"`
	Budget        time.Duration `json:"retry_budget_ns,omitempty"`
	BudgetExpires bool          `json:"retry_budget_expires,omitempty"`
	Deadline      time.Duration `json:"deadline_ns,omitempty"`
	Until         string        `json:"until,omitempty"`
	Rules         []Rule        `json:"rules,omitempty"`
	RetryOn       []string      `json:"retry_on"`
	AbortOn       []string      `json:"abort_on,omitempty"`
	RetryAfterMax time.Duration `json:"retry_after_max_ns"`
	Breaker       *Breaker      `json:"circuit_breaker,omitempty"`
	OnFailure     string        `json:"on_failure,omitempty"`
	Fallback      string        `json:"fallback,omitempty"`
	// Waits are the first delays, Most how many there are at most.
	Waits        []Delay     `json:"waits"`
	MostAttempts bound.Count `json:"most_attempts"`
	MostWaits    bound.Span  `json:"most_waits_ns"`
	most         bound.Retries
}

// Unlimited reports whether no number bounds the attempts.
func (r *Retry) Unlimited() bool { return r.Attempts == retry.Unlimited }

// Rule is a policy for errors of some kinds, with its delays.
type Rule struct {
	On []string `json:"on"`
	*Retry
}

// Breaker is a circuit breaker, its defaults filled in.
type Breaker struct {
	FailureThreshold int           `json:"failure_threshold"` // 0 where a rate of failures takes its place
	Rate             string        `json:"rate,omitempty"`
	SuccessThreshold int           `json:"success_threshold"`
	Timeout          time.Duration `json:"timeout_ns"`
	HalfOpenRequests int           `json:"half_open_requests"`
}

// String says it in a phrase.
func (b Breaker) String() string {
	opens := fmt.Sprintf("after %d failures in a row", b.FailureThreshold)
	switch {
	case b.FailureThreshold == 0:
		opens = b.Rate
	case b.Rate != "":
		opens += ", or " + b.Rate
	}
	return fmt.Sprintf("opens %s, for %s; then %d at a time, and %d successes in a row close it",
		opens, duration.Format(b.Timeout), b.HalfOpenRequests, b.SuccessThreshold)
}

func breaker(c *circuit.Config) *Breaker {
	if c == nil {
		return nil
	}
	threshold := cmp.Or(c.FailureThreshold, circuit.DefaultFailureThreshold)
	if c.FailureRate > 0 {
		threshold = 0
	}
	return &Breaker{Rate: rateText(c), FailureThreshold: threshold, SuccessThreshold: cmp.Or(c.SuccessThreshold, circuit.DefaultSuccessThreshold),
		Timeout: cmp.Or(c.Timeout, circuit.DefaultTimeout), HalfOpenRequests: cmp.Or(c.HalfOpenRequests, circuit.DefaultHalfOpenRequests),
	}
}

// rateText says at which rates a breaker opens; "" if at none.
func rateText(c *circuit.Config) string {
	var rates []string
	if c.FailureRate > 0 {
		rates = append(rates, fmt.Sprintf("%g %% failures", 100*c.FailureRate))
	}
	if c.SlowRate > 0 {
		rates = append(rates, fmt.Sprintf("%g %% slower than %s", 100*c.SlowRate, duration.Format(c.SlowCall)))
	}
	if len(rates) == 0 {
		return ""
	}
	window := fmt.Sprintf("the last %d", cmp.Or(c.Window, circuit.DefaultWindow))
	if c.WindowTime > 0 {
		window = "those of the last " + duration.Format(c.WindowTime)
	}
	return fmt.Sprintf("at %s of %s, from %d on", strings.Join(rates, " or "), window, cmp.Or(c.MinCalls, circuit.DefaultMinCalls))
}

// Delay is the range of the delay after one failed attempt.
type Delay struct {
	After    int           `json:"after"`
	Least    time.Duration `json:"least_ns"`
	Greatest time.Duration `json:"greatest_ns"`
}

// Map is the map phase.
type Map struct {
	Input        string      `json:"input"`
	Items        bound.Count `json:"items"`
	Parallel     string      `json:"max_parallel"`
	Finds        string      `json:"max_parallel_found,omitempty"` // that the map finds out how many, and what it begins with
	AgentTimeout Limit       `json:"agent_timeout"`
	Policy       string      `json:"timeout_policy"`
	OnFailure    string      `json:"on_item_failure"`
	Retry        *Retry      `json:"retry,omitempty"`
	Stops        string      `json:"stops"`
	// Alone says how many items run before all others, and Held when the map is held,
	// and for how long, which no worst case counts; "" for never.
	Alone   string   `json:"canary,omitempty"`
	Held    string   `json:"same_error,omitempty"`
	Budget  string   `json:"item_budget,omitempty"` // what an item may use, and all of them; "" for anything
	Queue   string   `json:"merge_queue,omitempty"` // how items are merged; "" without a merge queue
	Breaker *Breaker `json:"circuit_breaker,omitempty"`
	Limits  []Taken  `json:"limits,omitempty"` // of the machine, that each item holds
	Select  []Field  `json:"select,omitempty"`
	// Agent is the worst case of one agent, Item that of one item.
	Agent bound.Cost `json:"agent_worst_case"`
	Item  bound.Cost `json:"item_worst_case"`
}

// Field is a key with its value as written.
type Field struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}
