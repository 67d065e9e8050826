package telemetry

import (
	"context"
	"iter"
	"math"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
)

// Origin is what run_started and run_resumed keep of a life's trace, so that
// what is exported afterwards has the same ids.
func (c *Config) Origin(run string, life int) map[string]any {
	t := c.Trace(run, life)
	d := map[string]any{"trace_id": t.ID.String(), "trace_sampled": t.Sampled}
	if !t.Parent.IsZero() {
		d["traceparent"] = "00-" + t.ID.String() + "-" + t.Parent.String() + map[bool]string{false: "-00", true: "-01"}[t.Sampled]
	}
	return d
}

// Trace is the trace of a life of a run that is started with these settings.
func (c *Config) Trace(run string, life int) Trace {
	parent := c.Parent
	if life > 1 {
		parent = Parent{} // a trace of its own, with a link to the first
	}
	t := NewTrace(run, life, parent)
	t.Sampled = c.sampled(t.ID)
	return t
}

// Environ is what a process is told of the span that it runs in.
func (c *Config) Environ(t Trace, span SpanID) []string {
	var env []string
	if c.TraceContext {
		env = append(env, "TRACEPARENT="+t.Traceparent(span))
		if c.State != "" && t.ID == c.Parent.Trace {
			env = append(env, "TRACESTATE="+c.State)
		}
	}
	if c.Baggage && c.BaggageText != "" {
		env = append(env, "BAGGAGE="+c.BaggageText)
	}
	return env
}

// Begin tells which life of which run begins, and what the run_started of the
// first has kept; it gives what this one is to keep. A life before in which there
// was no telemetry is linked to all the same.
func (s *Sink) Begin(run string, life int, first []byte) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = s.cfg.Trace(run, life)
	s.fold.Lives = life - 1
	if life > 1 {
		var past Fold
		past.begin(event.Event{Type: event.RunStarted, Run: run, Data: first})
		s.fold.First = past.First
	}
	if !s.cfg.Enabled() {
		return nil
	}
	return s.cfg.Origin(run, life)
}

// Environ is what a process is told of the attempt that it is.
func (s *Sink) Environ(p step.Address, path string, n int) []string {
	s.mu.Lock()
	t := s.trace
	s.mu.Unlock()
	if !s.cfg.Enabled() {
		return nil
	}
	return s.cfg.Environ(t, t.Attempt(Place{Index: p.Index, Attempt: p.Attempt, Step: path}, n))
}

// Export sends the spans, log records and metrics of a run that is recorded, as a
// sink would have sent them live. Its error says what could not be sent.
func Export(ctx context.Context, cfg *Config, opt Options, events iter.Seq2[event.Event, error]) error {
	whole := *cfg
	whole.Queue = math.MaxInt // who exports waits, and drops nothing
	s, err := newSink(&whole, opt)
	if err != nil {
		return err
	}
	for e, err := range events {
		if err != nil {
			return err
		}
		s.Emit(e)
		if len(s.spans)+len(s.records) >= whole.Batch {
			s.flush(ctx, Traces, Logs)
		}
	}
	if opt.Over {
		s.fold.CutOff()
		s.fold.Gone()
	}
	s.flush(ctx, Traces, MetricsSignal, Logs)
	s.writeFile()
	return s.warning(ctx)
}
