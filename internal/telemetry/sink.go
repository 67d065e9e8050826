package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/limits"
)

// Options are what a sink is started with, beside its settings.
type Options struct {
	// Items says which items of a map get spans: ItemsFailed, ItemsAll or
	// ItemsNone.
	Items string
	// File gets the metrics in Prometheus' text format; "": none.
	File string
	// Home is the directory with the limits of this machine, which metrics tell of; "": none.
	Home string
	// Over says of a run that is exported that no process has it.
	Over bool
	// Out is where the console exporter writes.
	Out io.Writer
	// Note, if not nil, is told when metrics cannot be sent, and when they are sent again: of
	// what lives for long, Close would tell too late.
	Note func(text string)
}

// FileInterval is how often a metrics file is written.
const FileInterval = 15 * time.Second

// Sink sends what happens in a run while it happens. Emit never waits: where the
// collector is too slow, what is over the queue is dropped and counted.
type Sink struct {
	cfg     *Config
	opt     Options
	senders [3]*sender
	metrics *Metrics

	mu      sync.Mutex
	trace   Trace
	fold    Fold
	spans   []Span
	records []Record
	dropped int

	wake   chan struct{} // there is a batch to send
	stop   chan struct{}
	done   chan struct{}
	failed [3]error // the last failure of each signal; the goroutine's
	cancel context.CancelFunc
}

// Start begins to send. It must be closed. cfg may be nil, for a metrics file
// alone.
func Start(cfg *Config, opt Options) (*Sink, error) {
	s, err := newSink(cfg, opt)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.run(ctx)
	return s, nil
}

// newSink is a sink that nobody empties.
func newSink(cfg *Config, opt Options) (*Sink, error) {
	if cfg == nil {
		cfg = &Config{Queue: 1, Batch: 1, Delay: time.Hour, Interval: time.Hour}
	}
	s := &Sink{cfg: cfg, opt: opt, metrics: NewMetrics(time.Now()), wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	for i, e := range cfg.Signals {
		if e.Exporter == None {
			continue
		}
		var err error
		if s.senders[i], err = newSender(e, opt.Out); err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
	}
	s.fold = Fold{Items: opt.Items, Metrics: s.metrics}
	if s.senders[Traces] != nil {
		s.fold.Span = s.addSpan
	}
	if s.senders[Logs] != nil {
		s.fold.Log = s.addRecord
	}
	if opt.File != "" {
		s.lookAtLimits()
		if err := s.metrics.WriteFile(opt.File); err != nil {
			return nil, fmt.Errorf("the metrics file: %w", err)
		}
	}
	return s, nil
}

// Emit takes in an event. It is safe for concurrent use.
func (s *Sink) Emit(e event.Event) {
	if e.Type == event.Output || e.Type == event.AgentMessage {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fold.Event(e)
	if len(s.spans)+len(s.records) >= s.cfg.Batch {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// addSpan and addRecord are called by the fold, with the lock.
func (s *Sink) addSpan(x Span) {
	if len(s.spans) >= s.cfg.Queue {
		s.dropped++
		return
	}
	s.spans = append(s.spans, x)
}

func (s *Sink) addRecord(x Record) {
	if len(s.records) >= s.cfg.Queue {
		s.dropped++
		return
	}
	s.records = append(s.records, x)
}

// run sends until the sink is closed. It owns failed.
func (s *Sink) run(ctx context.Context) {
	defer close(s.done)
	batches, metrics, file := time.NewTicker(s.cfg.Delay), time.NewTicker(s.cfg.Interval), time.NewTicker(FileInterval)
	defer batches.Stop()
	defer metrics.Stop()
	defer file.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.wake:
			s.flush(ctx, Traces, Logs)
		case <-batches.C:
			s.flush(ctx, Traces, Logs)
		case <-metrics.C:
			before := s.failed[MetricsSignal]
			s.flush(ctx, MetricsSignal)
			s.note(ctx, before)
		case <-file.C:
			s.writeFile()
		}
	}
}

// lookAtLimits has the metrics tell how the limits of this machine are now.
func (s *Sink) lookAtLimits() {
	if s.opt.Home == "" {
		return
	}
	list, _ := limits.Snapshot(s.opt.Home) // what cannot be read is not told; a run that uses it says why
	s.metrics.Limits(list, time.Now())
}

func (s *Sink) writeFile() {
	if s.opt.File == "" {
		return
	}
	s.lookAtLimits()
	if err := s.metrics.WriteFile(s.opt.File); err != nil {
		s.failed[MetricsSignal] = fmt.Errorf("the metrics file: %w", err)
	}
}

// flush sends what there is of some signals, side by side.
func (s *Sink) flush(ctx context.Context, signals ...Signal) {
	var wg sync.WaitGroup
	for _, sig := range signals {
		if s.senders[sig] == nil {
			continue
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				m := s.next(sig)
				if m == nil {
					return
				}
				err := s.senders[sig].send(ctx, m)
				if sig == MetricsSignal { // what is sent later tells of the time before, too
					s.failed[sig] = err
					return
				}
				if err != nil {
					s.failed[sig] = err
				}
			}
		})
	}
	wg.Wait()
}

// note tells of a change in whether metrics are sent. before is their failure before the last
// attempt.
func (s *Sink) note(ctx context.Context, before error) {
	now := s.failed[MetricsSignal]
	if s.opt.Note == nil || ctx.Err() != nil || (before == nil) == (now == nil) {
		return
	}
	if now != nil {
		s.opt.Note(fmt.Sprintf("telemetry: metrics: %v; they are sent when the collector takes them", now))
		return
	}
	s.opt.Note("telemetry: metrics: the collector takes them again")
}

// next takes the next batch of a signal; nil where there is nothing to send.
func (s *Sink) next(sig Signal) proto.Message {
	if sig == MetricsSignal {
		s.lookAtLimits()
		return metricsRequest(s.cfg.Resource, s.metrics, time.Now())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sig == Traces {
		n := min(len(s.spans), s.cfg.Batch)
		if n == 0 {
			return nil
		}
		batch := slices.Clone(s.spans[:n])
		s.spans = append(s.spans[:0], s.spans[n:]...)
		return traceRequest(s.cfg.Resource, batch)
	}
	n := min(len(s.records), s.cfg.Batch)
	if n == 0 {
		return nil
	}
	batch := slices.Clone(s.records[:n])
	s.records = append(s.records[:0], s.records[n:]...)
	return logsRequest(s.cfg.Resource, batch)
}

// CloseTimeout bounds how long Close waits for collectors.
const CloseTimeout = 2 * time.Second

// Close sends what is left, all signals side by side, within CloseTimeout or
// until ctx ends. Its error is one warning: telemetry never changes how a run
// ends.
func (s *Sink) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, CloseTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, s.cancel) // a send that is under way ends, too
	defer stop()
	close(s.stop)
	<-s.done
	s.flush(ctx, Traces, MetricsSignal, Logs)
	s.writeFile()
	s.cancel()
	return s.warning(ctx)
}

// warning says all that went wrong.
func (s *Sink) warning(ctx context.Context) error {
	var parts []string
	for sig, err := range s.failed {
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("not taken within %s", CloseTimeout)
			}
			parts = append(parts, fmt.Sprintf("%s: %v", Signal(sig), err))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.spans) + len(s.records); n > 0 {
		parts = append(parts, fmt.Sprintf("%d spans and records are not sent", n))
	}
	if s.dropped > 0 {
		parts = append(parts, fmt.Sprintf("%d spans and records were dropped, as the collector was slower than the run (OTEL_BSP_MAX_QUEUE_SIZE)", s.dropped))
	}
	if len(parts) == 0 {
		return nil
	}
	return errors.New("telemetry: " + strings.Join(parts, "; "))
}
