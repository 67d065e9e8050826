// Package guardotel tells OpenTelemetry what a guard does.
//
//	metrics, err := guardotel.Metrics(otel.Meter("shop"), attribute.String("target", "prices"))
//	g, err := guard.New(policy, breaker, guard.Observe(metrics))
//	h, err := hedge.New(hedge.Config{Observer: metrics})
//
//	price, err := guardotel.Get(ctx, otel.Tracer("shop"), "price", g, fetchPrice)
//
// The metrics are, each with the attributes given:
//
//	bide.attempts         counter, {attempt}: attempts that failed or succeeded at the end of a call (outcome)
//	bide.calls            counter, {call}: calls that have ended (outcome: success, or the reason)
//	bide.call.duration    histogram, s: of calls, waits included (outcome)
//	bide.retry.delay      histogram, s: waits before a further attempt (source)
//	bide.refusals         counter, {attempt}: attempts that a breaker or limit refused (class)
//	bide.hedges           counter, {call}: calls that began beside a slow one
package guardotel

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// metrics are the instruments of one guard.
type metrics struct {
	attempts, calls, refusals, hedges metric.Int64Counter
	duration, delay                   metric.Float64Histogram

	// The sets of attributes are made once, or each event would make its own.
	fixed   attribute.Set
	plain   metric.MeasurementOption
	success metric.MeasurementOption
	failure metric.MeasurementOption
	sources [4]metric.MeasurementOption
}

// Metrics returns an observer that counts and measures what a guard does, and a
// hedge. The error is that of an instrument that the meter does not make.
func Metrics(meter metric.Meter, attributes ...attribute.KeyValue) (retry.Observer, error) {
	m := &metrics{fixed: attribute.NewSet(attributes...)}
	m.plain = metric.WithAttributeSet(m.fixed)
	var errs [6]error
	m.attempts, errs[0] = meter.Int64Counter("bide.attempts", metric.WithUnit("{attempt}"), metric.WithDescription("Attempts that have ended."))
	m.calls, errs[1] = meter.Int64Counter("bide.calls", metric.WithUnit("{call}"), metric.WithDescription("Calls that have ended."))
	m.refusals, errs[2] = meter.Int64Counter("bide.refusals", metric.WithUnit("{attempt}"), metric.WithDescription("Attempts that a breaker or limit refused."))
	m.duration, errs[3] = meter.Float64Histogram("bide.call.duration", metric.WithUnit("s"), metric.WithDescription("Time of calls, waits included."))
	m.delay, errs[4] = meter.Float64Histogram("bide.retry.delay", metric.WithUnit("s"), metric.WithDescription("Waits before a further attempt."))
	m.hedges, errs[5] = meter.Int64Counter("bide.hedges", metric.WithUnit("{call}"), metric.WithDescription("Calls that began beside a slow one."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	m.success, m.failure = m.with("outcome", "success"), m.with("outcome", "failure")
	for i := range m.sources {
		m.sources[i] = m.with("source", driver.Source(i).String())
	}
	return m.observe, nil
}

// with is the fixed attributes and one more.
func (m *metrics) with(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(m.fixed.ToSlice(), attribute.String(key, value))...))
}

func (m *metrics) observe(e retry.Event) {
	ctx := context.Background()
	switch e.Type {
	case retry.AttemptFailed:
		m.attempts.Add(ctx, 1, m.failure)
	case retry.WaitScheduled:
		m.delay.Record(ctx, e.Delay.Seconds(), m.sources[e.Source])
	case retry.Refused:
		m.refusals.Add(ctx, 1, m.with("class", driver.Class(e.Err)))
	case retry.Hedged:
		m.hedges.Add(ctx, 1, m.plain)
	case retry.Finished:
		outcome := m.success
		if e.Reason == driver.ReasonNone {
			m.attempts.Add(ctx, 1, m.success)
		} else {
			outcome = m.with("outcome", e.Reason.String())
		}
		m.calls.Add(ctx, 1, outcome)
		m.duration.Record(ctx, e.Duration.Seconds(), outcome)
	}
}

// Get is guard.Get within a span of that name, with a span of its own for each
// attempt, in whose context fn runs. The attribute bide.attempt of those counts
// from 1; what failed has the status Error and the class of its error.
func Get[T any](ctx context.Context, tracer trace.Tracer, name string, g *guard.Guard, fn func(context.Context) (T, error)) (T, error) {
	ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	var attempts atomic.Int64
	var inner func(context.Context) (T, error)
	if fn != nil { // guard.Get says what is wrong with nil
		inner = func(ctx context.Context) (T, error) {
			ctx, span := tracer.Start(ctx, name+" attempt", trace.WithAttributes(attribute.Int64("bide.attempt", attempts.Add(1))))
			defer span.End()
			v, err := fn(ctx)
			fail(span, err)
			return v, err
		}
	}
	v, err := guard.Get(ctx, g, inner)
	span.SetAttributes(attribute.Int64("bide.attempts", attempts.Load()))
	fail(span, err)
	return v, err
}

// Do is [Get] for a function without a value.
func Do(ctx context.Context, tracer trace.Tracer, name string, g *guard.Guard, fn func(context.Context) error) error {
	var inner func(context.Context) (struct{}, error)
	if fn != nil {
		inner = func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }
	}
	_, err := Get(ctx, tracer, name, g, inner)
	return err
}

func fail(span trace.Span, err error) {
	if err == nil {
		return
	}
	span.SetStatus(codes.Error, err.Error())
	span.SetAttributes(attribute.String("error.type", driver.Class(err)))
	var after time.Duration
	if e, ok := err.(*retry.Error); ok {
		after = e.RetryAfter
		span.SetAttributes(attribute.String("bide.reason", e.Reason.String()))
	}
	if after > 0 {
		span.SetAttributes(attribute.Float64("bide.retry_after", after.Seconds()))
	}
}
