package guardotel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	guardotel "github.com/bide-dev/bide/contrib/otel"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/retry"
)

var errBusy = errors.New("busy")

func ExampleMetrics() {
	reader := sdkmetric.NewManualReader()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("shop")
	metrics, err := guardotel.Metrics(meter, attribute.String("target", "prices"))
	if err != nil {
		fmt.Println(err)
		return
	}
	g := guard.Must(guard.New(retry.Policy{Attempts: 3}, guard.Observe(metrics)))
	_ = guard.Do(context.Background(), g, func(context.Context) error { return errBusy })

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			for _, point := range sum.DataPoints {
				outcome, _ := point.Attributes.Value("outcome")
				fmt.Println(m.Name, outcome.AsString(), point.Value)
			}
		}
	}
	// Unordered output:
	// bide.attempts failure 3
	// bide.calls attempts 1
}

// names keeps the names of spans that have ended.
type names []string

func (n *names) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (n *names) OnEnd(s sdktrace.ReadOnlySpan) {
	*n = append(*n, fmt.Sprint(s.Name(), " ", s.Status().Code))
}
func (n *names) Shutdown(context.Context) error   { return nil }
func (n *names) ForceFlush(context.Context) error { return nil }

// A span for the call, and one for each attempt.
func ExampleGet() {
	var ended names
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&ended)).Tracer("shop")
	g := guard.Must(guard.New(retry.Policy{Attempts: 3}))
	calls := 0
	price, err := guardotel.Get(context.Background(), tracer, "price", g, func(context.Context) (int, error) {
		if calls++; calls == 1 {
			return 0, errBusy
		}
		return 42, nil
	})
	fmt.Println(price, err)
	fmt.Println(ended)
	// Output:
	// 42 <nil>
	// [price attempt Error price attempt Unset price Unset]
}

func ExampleDo() {
	var ended names
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&ended)).Tracer("shop")
	g := guard.Must(guard.New(retry.Policy{Attempts: 2}))
	err := guardotel.Do(context.Background(), tracer, "save", g, func(context.Context) error { return errBusy })
	fmt.Println(errors.Is(err, errBusy), slices.Contains(ended, "save Error"))
	// Output: true true
}
