package telemetry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/limits"
)

// instrument is one row of the table of metrics: everything that is measured.
type instrument struct {
	name, unit, help string
	kind             metricKind
	bounds           []float64 // of a histogram
}

type metricKind int

const (
	counter metricKind = iota
	upDown
	gauge
	histogram
)

var (
	seconds  = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
	attempts = []float64{1, 2, 3, 5, 8, 13, 21}
	tokens   = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576}
)

var instruments = []instrument{
	{"cicd.pipeline.run.duration", "s", "How long runs took.", histogram, seconds},
	{"cicd.pipeline.run.active", "{run}", "Running runs.", upDown, nil},
	{"cicd.pipeline.run.errors", "{error}", "Runs that failed, by the class of the error.", counter, nil},
	{"cicd.worker.count", "{worker}", "Workers of maps that have an item.", upDown, nil},
	{"bide.attempt.duration", "s", "How long attempts took.", histogram, seconds},
	{"bide.step.attempts", "{attempt}", "How many attempts steps took.", histogram, attempts},
	{"bide.step.outcomes", "{step}", "Steps that ended, by how, and whether they were retried.", counter, nil},
	{"bide.retry.delay", "s", "Waits before retries, by what their length comes from.", histogram, seconds},
	{"bide.items", "{item}", "Work items, by where they stand.", upDown, nil},
	{"bide.items.dead_lettered", "{item}", "Work items that became dead letters.", counter, nil},
	{"bide.breaker.state", "{state}", "The state of a breaker: 0 closed, 1 half-open, 2 open.", gauge, nil},
	{"bide.breaker.transitions", "{transition}", "Changes of state of a breaker.", counter, nil},
	{"bide.pause.duration", "s", "How long a breaker or a rate limit held back new work.", histogram, seconds},
	{"bide.runs.held", "{run}", "Running runs that are held up, by what holds them up: a log record says it in a sentence.", upDown, nil},
	{"bide.limit.slots", "{slot}", "Slots that a limit of this machine has.", gauge, nil},
	{"bide.limit.slots.used", "{slot}", "Slots of a limit of this machine that are held.", gauge, nil},
	{"bide.limit.waiting", "{attempt}", "Attempts, items and commands that wait for a limit of this machine.", gauge, nil},
	{"bide.limit.waits", "{wait}", "Waits for a limit of this machine that have ended.", counter, nil},
	{"bide.limit.wait.time", "s", "How long all waits for a limit of this machine were that have ended.", counter, nil},
	{"bide.limit.paused", "s", "For how much longer a limit of this machine is paused.", gauge, nil},
	{"bide.limit.pauses", "{pause}", "How often a limit of this machine was paused, or a pause prolonged.", counter, nil},
	{"bide.runs.unreadable", "{run}", "Runs whose journal cannot be read: nothing here counts them.", gauge, nil},
	{"bide.worker.slots", "{slot}", "Slots of a worker for runs on many machines.", gauge, nil},
	{"bide.worker.slots.used", "{slot}", "Slots of a worker that have work.", upDown, nil},
	{"bide.worker.leases", "{lease}", "Leases that a worker has taken.", counter, nil},
	{"bide.worker.lease.duration", "s", "How long a worker worked at leases, by how they ended.", histogram, seconds},
	{"bide.worker.lease.wait.time", "s", "How long leases waited for a slot.", histogram, seconds},
	{"bide.worker.items", "{item}", "Attempts at work items that a worker has begun.", counter, nil},
	{"bide.worker.item.duration", "s", "How long a worker's attempts at work items took, by how they ended.", histogram, seconds},
	{"bide.worker.record.duration", "s", "How long decisions of a coordinator took until they were in the store.", histogram, seconds},
	{"gen_ai.client.token.usage", "{token}", "Tokens that agents used.", histogram, tokens},
	{"bide.agent.cost", "USD", "What agents cost.", counter, nil},
}

// Metrics are measurements, added up since they began. They are safe for
// concurrent use.
type Metrics struct {
	began time.Time

	mu     sync.Mutex
	series map[string]*series // by name and attributes
	key    strings.Builder
}

// NewMetrics begins to add up at a time.
func NewMetrics(now time.Time) *Metrics {
	return &Metrics{began: now, series: map[string]*series{}}
}

// series is one metric with one set of attributes.
type series struct {
	instrument *instrument
	attrs      []Attr
	value      float64 // the sum of a histogram
	count      uint64
	buckets    []uint64 // one more than bounds
}

// Unreadable says how many runs are missing, as their journals cannot be read.
func (m *Metrics) Unreadable(n int) { m.set("bide.runs.unreadable", float64(n), nil) }

// Limits says how the limits of this machine are at a time, over all runs; those that it does
// not name are forgotten.
func (m *Metrics) Limits(list []limits.Status, now time.Time) {
	m.mu.Lock()
	maps.DeleteFunc(m.series, func(_ string, s *series) bool { return strings.HasPrefix(s.instrument.name, "bide.limit.") })
	m.mu.Unlock()
	for _, l := range list {
		name := []Attr{{"bide.limit", l.Name}}
		if l.Slots > 0 {
			m.set("bide.limit.slots", float64(l.Slots), name)
			m.set("bide.limit.slots.used", float64(len(l.Held)), name)
		}
		m.set("bide.limit.waiting", float64(len(l.Waiting)), name)
		m.set("bide.limit.waits", float64(l.Waits), name)
		m.set("bide.limit.wait.time", l.Waited.Seconds(), name)
		if l.Shared {
			left := 0.0
			if l.Paused(now) {
				left = l.PausedUntil.Sub(now).Seconds()
			}
			m.set("bide.limit.paused", left, name)
			m.set("bide.limit.pauses", float64(l.Pauses), name)
		}
	}
}

func (m *Metrics) add(name string, v float64, attrs []Attr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.find(name, attrs).value += v
}

func (m *Metrics) set(name string, v float64, attrs []Attr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.find(name, attrs).value = v
}

func (m *Metrics) observe(name string, v float64, attrs []Attr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.find(name, attrs)
	s.value += v
	s.count++
	i, _ := slices.BinarySearch(s.instrument.bounds, v)
	s.buckets[i]++
}

// find gives a series. The caller has the lock.
func (m *Metrics) find(name string, attrs []Attr) *series {
	m.key.Reset()
	m.key.WriteString(name)
	for _, a := range attrs {
		fmt.Fprintf(&m.key, "\x00%s\x00%v", a.Key, a.Value)
	}
	s := m.series[m.key.String()]
	if s != nil {
		return s
	}
	i := slices.IndexFunc(instruments, func(i instrument) bool { return i.name == name })
	if i < 0 {
		panic("telemetry: the metric " + name + " is not in the table")
	}
	s = &series{instrument: &instruments[i], attrs: slices.Clone(attrs)}
	if s.instrument.kind == histogram {
		s.buckets = make([]uint64, len(s.instrument.bounds)+1)
	}
	m.series[m.key.String()] = s
	return s
}

// snapshot gives a copy of all series, in the order of the table and then of
// their attributes.
func (m *Metrics) snapshot() []series {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.Collect(maps.Keys(m.series))
	place := func(key string) int {
		name, _, _ := strings.Cut(key, "\x00")
		return slices.IndexFunc(instruments, func(i instrument) bool { return i.name == name })
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(place(a)-place(b), strings.Compare(a, b)) })
	list := make([]series, len(keys))
	for i, k := range keys {
		list[i] = *m.series[k]
		list[i].buckets = slices.Clone(list[i].buckets)
	}
	return list
}
