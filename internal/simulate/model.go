package simulate

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Model is what the world does to the attempts of a file: a model of failures,
// in place of the programs and services themselves. It is not changed once it
// is read, and so is safe for concurrent use.
type Model struct {
	// Steps are by name, id or path of a step; "*" is for all others.
	Steps map[string]*Target
	// Process is what starting a command costs.
	Process time.Duration
	// Late is how much later attempts begin than they are due; nil: that is not said, and
	// simulated runs differ in it as machines do.
	Late *Latency
	// Correlation is the share of an item's luck, from 0 to 1, that all its
	// attempts have in common.
	Correlation float64
	// Items is how many work items there are where only a run can say.
	Items int
	// Guessed says that nobody has said so.
	Guessed bool
	// width is how many work items were in flight at once in the run that it is fitted
	// to; 0: it is fitted to none.
	width int
	// parallel is how many were allowed; 0: that is not known.
	parallel int
	// Assumed is what the model rests on and nobody knows, each as a clause.
	Assumed []string
	// draws are models that the same run could have been fitted to; nil: what the model
	// says is known. Simulated runs take them in turn.
	draws []*Model
	// stretch is by what latencies at another number at once than width are taken to be
	// longer, as a power of how much the number differs.
	stretch float64
	// slow is by what all latencies are longer than those that were recorded; 0: 1.
	slow float64
}

// A machine begins attempts later than they are due: by little where it is idle, by
// milliseconds where it is busy; and what comes after a wait, by more or by less than what
// comes after other work. In one simulated run it is by leastLate in the mean, in another by
// up to mostLate.
const leastLate, mostLate = 20 * time.Microsecond, 10 * time.Millisecond

// lateness is how much later than they are due the attempts of one simulated run begin: the
// first ones, and those after a wait.
func (m *Model) lateness(seed luck) (late [2]Latency) {
	l := seed.with(hash("late"))
	for i := range late {
		if m.Late != nil {
			late[i] = *m.Late
			continue
		}
		late[i].Exponential = time.Duration(float64(leastLate) * math.Pow(float64(mostLate)/float64(leastLate), l.unit()))
	}
	return late
}

// drawn is the model that a simulated run meets, by its seed.
func (m *Model) drawn(seed uint64) *Model {
	if len(m.draws) == 0 {
		return m
	}
	return m.draws[seed%uint64(len(m.draws))]
}

// Target is what one step meets. The zero Target answers at once and never
// fails.
type Target struct {
	// Failures are classes of errors, each with its probability an attempt; the
	// sum is at most 1. They are sorted by class.
	Failures []Failure
	Latency  Latency
	Outages  []Outage
	Limit    *Limited
	// USD and Tokens are what each attempt costs.
	USD    float64
	Tokens int64
	// Output is what an attempt that succeeds prints.
	Output *string
	value  bool // Output is the value of a call as JSON

	// What follows is fitted to a run.

	tries   int // the most attempts in a row that are known
	unlucky *unlucky
	// spans are how long attempts take that end with a class of errors, sorted; of other
	// classes it is as Latency says.
	spans map[string][]time.Duration
	// lags are how much later attempts begin than they are due, sorted.
	lags []time.Duration
	// limit is the timeout that has ended attempts; hang, how many times as long they
	// would have taken, then to succeed; 0: they would never have ended.
	limit time.Duration
	hang  float64
}

// unlucky is a share of the items of which attempts fail at rates of their own.
type unlucky struct {
	share    float64
	failures []Failure
}

// Failure is a class of errors and its probability.
type Failure struct {
	Class string
	P     float64
}

// Latency is how long an attempt takes. One of its parts is set, or none: no
// time at all.
type Latency struct {
	Constant    time.Duration
	Uniform     [2]time.Duration // its bounds
	LogNormal   [2]time.Duration // its median and its 99th percentile
	Exponential time.Duration    // its mean
	Empirical   []time.Duration  // sorted
	// Capacity is how many attempts a queue serves at once, each for a time that is
	// Empirical, or else is exponentially distributed around Service.
	Capacity int
	Service  time.Duration
}

// Outage is a time in which every attempt fails.
type Outage struct {
	From, For time.Duration // a fixed one
	// MeanUp and MeanDown are the exponentially distributed times between
	// outages and of them, where there are many.
	MeanUp, MeanDown time.Duration
	Class            string
	// sooner is by how much a fixed one may have begun sooner, and longer by how much it
	// may have lasted longer, than is known: no attempt was made in these times.
	sooner, longer time.Duration
	open           bool // nobody has seen its end
}

// Limited is a token bucket that answers 429 when it is empty.
type Limited struct {
	Count      int
	Per        time.Duration
	Burst      int           // 0: Count
	RetryAfter time.Duration // 0: until there is a token; negative: no answer says when
	// AtAnswer says that a token is taken when the answer is given, not when the request
	// arrives.
	AtAnswer bool
	whole    bool // until there is a token, in whole seconds
}

// Default is the model where nobody gives one: of ten attempts one fails, and
// each takes a second.
func Default() *Model {
	return &Model{Steps: map[string]*Target{"*": {Failures: []Failure{{"exit", 0.1}}, Latency: Latency{Constant: time.Second}}}, Items: 100, Guessed: true,
		Assumed: []string{"of ten attempts one fails, and each takes 1s"}}
}

// target finds what a step meets: by its path, its id, its name, or "*".
func (m *Model) target(names ...string) (string, *Target) {
	for _, n := range append(names, "*") {
		if t, ok := m.Steps[n]; ok && n != "" {
			return n, t
		}
	}
	return "", &Target{}
}

// static is the path of a step in its file: without the rounds of the loops
// around it.
func static(path string) string {
	if i := strings.IndexAny(path, "@#%/"); i >= 0 {
		path = path[:i]
	}
	return strings.TrimSuffix(strings.TrimSuffix(path, ".items"), fallbackOf)
}

// End is when the last fixed outage of a model ends; false if there is
// none.
func (m *Model) End() (time.Duration, bool) {
	var end time.Duration
	for _, t := range m.Steps {
		for _, o := range t.Outages {
			if o.For > 0 {
				end = max(end, o.From+o.For+o.longer)
			}
		}
	}
	return end, end > 0
}

func sortFailures(list []Failure) []Failure {
	slices.SortFunc(list, func(a, b Failure) int { return strings.Compare(a.Class, b.Class) })
	return list
}
