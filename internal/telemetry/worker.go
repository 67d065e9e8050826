package telemetry

import (
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// Work measures what a worker for runs on many machines does. It is safe for concurrent
// use; nil measures nothing.
type Work struct {
	metrics *Metrics

	mu    sync.Mutex      // also of the folds of all parts
	tasks map[string]bool // of all runs, as a worker lives longer than they
}

// NewWork begins to measure a worker with so many slots.
func NewWork(m *Metrics, slots int) *Work {
	m.set("bide.worker.slots", float64(slots), nil)
	m.add("bide.worker.slots.used", 0, nil)
	return &Work{metrics: m, tasks: map[string]bool{}}
}

// StartWork begins to send what a worker measures. Both results are nil where the settings
// send no metrics. The sink must be closed.
func StartWork(cfg *Config, opt Options, slots int) (*Work, *Sink, error) {
	if cfg == nil || cfg.Signals[MetricsSignal].Exporter == None {
		return nil, nil, nil
	}
	mine := *cfg
	mine.Signals[Traces].Exporter, mine.Signals[Logs].Exporter = None, None // it has none
	mine.Resource = cfg.instance()
	s, err := Start(&mine, opt)
	if err != nil {
		return nil, nil, err
	}
	return NewWork(s.metrics, slots), s, nil
}

// instance is the resource of a process of which there are several at once: without what
// tells them apart, the sums of one would take the place of those of another.
func (c *Config) instance() []Attr {
	list := slices.Clone(c.Resource)
	add := func(key, value string) {
		if !slices.ContainsFunc(list, func(a Attr) bool { return a.Key == key }) {
			list = append(list, Attr{key, value})
		}
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	add("service.instance.id", fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]))
	if host, err := os.Hostname(); err == nil {
		add("host.name", host)
	}
	return list
}

// Slot tells that a slot gets work; the result tells that it has none any more.
func (w *Work) Slot() (free func()) {
	if w == nil {
		return func() {}
	}
	w.metrics.add("bide.worker.slots.used", 1, nil)
	return func() { w.metrics.add("bide.worker.slots.used", -1, nil) }
}

// Lease tells that a slot got a lease that has waited for it; the result tells how it ended.
func (w *Work) Lease(waited time.Duration) (end func(outcome string)) {
	if w == nil {
		return func(string) {}
	}
	began, free := time.Now(), w.Slot()
	w.metrics.add("bide.worker.leases", 1, nil)
	w.metrics.observe("bide.worker.lease.wait.time", max(waited, 0).Seconds(), nil)
	return func(outcome string) {
		free()
		w.metrics.observe("bide.worker.lease.duration", time.Since(began).Seconds(), []Attr{{"bide.lease.outcome", outcome}})
	}
}

// Recorded tells how long it took until decisions of a coordinator were in the store.
// failed is the class of the error of an attempt that failed, "" of none.
func (w *Work) Recorded(took time.Duration, failed string) {
	if w == nil {
		return
	}
	var attrs []Attr
	if failed != "" {
		attrs = []Attr{{"error.type", failed}}
	}
	w.metrics.observe("bide.worker.record.duration", max(took, 0).Seconds(), attrs)
}

// Part measures a part of a run by what is recorded of it.
func (w *Work) Part() func(facts []event.Event) {
	if w == nil {
		return func([]event.Event) {}
	}
	f := &Fold{Metrics: w.metrics, Part: true, tasks: w.tasks}
	f.begin(event.Event{})
	return func(facts []event.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range facts {
			f.Event(e)
		}
	}
}
