package guardotel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	metricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	guardotel "github.com/bide-dev/bide/contrib/otel"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/retry"
)

// collector takes OTLP over HTTP on the loopback, as a real one does.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []string
	metrics map[string]float64 // the sum or the count by name and outcome or source
}

func newCollector(t *testing.T) *collector {
	c := &collector{metrics: map[string]float64{}}
	mux := http.NewServeMux()
	take := func(path string, message proto.Message, use func()) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			c.mu.Lock()
			defer c.mu.Unlock()
			body, err := io.ReadAll(r.Body)
			if err == nil {
				proto.Reset(message)
				err = proto.Unmarshal(body, message)
			}
			if err != nil {
				t.Error(err)
			}
			use()
			w.Header().Set("Content-Type", "application/x-protobuf")
		})
	}
	traces, metrics := &tracepb.ExportTraceServiceRequest{}, &metricpb.ExportMetricsServiceRequest{}
	take("/v1/traces", traces, func() {
		for _, resource := range traces.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					c.spans = append(c.spans, span.Name+" "+span.Status.GetMessage())
				}
			}
		}
	})
	take("/v1/metrics", metrics, func() {
		for _, resource := range metrics.ResourceMetrics {
			for _, scope := range resource.ScopeMetrics {
				for _, m := range scope.Metrics {
					for _, point := range m.GetSum().GetDataPoints() {
						c.metrics[m.Name+" "+point.Attributes[0].Value.GetStringValue()] = float64(point.GetAsInt())
					}
					for _, point := range m.GetHistogram().GetDataPoints() {
						c.metrics[m.Name+" "+point.Attributes[0].Value.GetStringValue()] = float64(point.Count)
					}
				}
			}
		}
	})
	c.Server = httptest.NewServer(mux)
	t.Cleanup(c.Close)
	return c
}

func TestWhatACollectorGets(t *testing.T) {
	c := newCollector(t)
	address := c.Listener.Addr().String()
	spans, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(address), otlptracehttp.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	points, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpoint(address), otlpmetrichttp.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	tracing := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans))
	metering := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(points)))
	told, err := guardotel.Metrics(metering.Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	g := guard.Must(guard.New(retry.Policy{Attempts: 2}, guard.Observe(told)))
	down := errors.New("down")
	for fails := range 3 { // well at once, on the second attempt, not at all
		n := 0
		err = guardotel.Do(t.Context(), tracing.Tracer("test"), "price", g, func(context.Context) error {
			if n++; n <= fails {
				return down
			}
			return nil
		})
		if (err != nil) != (fails == 2) {
			t.Error(err)
		}
	}
	if err := errors.Join(tracing.Shutdown(t.Context()), metering.Shutdown(t.Context())); err != nil {
		t.Fatal(err)
	}
	slices.Sort(c.spans)
	want := []string{"price ", "price ", "price attempt ", "price attempt ", "price attempt down", "price attempt down", "price attempt down",
		"price attempts used up after 2 attempts: down"}
	if !slices.Equal(c.spans, want) {
		t.Errorf("the spans are %q", c.spans)
	}
	for name, n := range map[string]float64{"bide.calls success": 2, "bide.calls attempts": 1, "bide.attempts success": 2, "bide.attempts failure": 3,
		"bide.call.duration success": 2, "bide.retry.delay policy": 2} {
		if c.metrics[name] != n {
			t.Errorf("%s is %v, want %v: %v", name, c.metrics[name], n, c.metrics)
		}
	}
	if _, err := guardotel.Get[int](t.Context(), tracing.Tracer("test"), "nil", g, nil); err == nil {
		t.Error("a nil function is called")
	}
	if err := guardotel.Do(t.Context(), tracing.Tracer("test"), "nil", g, nil); err == nil || errors.As(err, new(*retry.PanicError)) {
		t.Errorf("a nil function without a value: %v", err)
	}
	if _, err := guardotel.Metrics(metering.Meter("test"), attribute.String("target", "x")); err != nil {
		t.Error(err)
	}
}
