package telemetry

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"testing"
	"time"

	logscollector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	metricscollector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// TestEncodings: the protocol's own types read both encodings, find the same in them, and
// write the same bytes.
func TestEncodings(t *testing.T) {
	attrs := []Attr{{"text", "ü\xff"}, {"none", ""}, {"count", int64(-3)}, {"zero", int64(0)}, {"share", 0.25}, {"least", 0.0}, {"yes", true}, {"no", false}}
	id, other := SpanID{1, 2, 3, 4, 5, 6, 7, 255}, SpanID{9}
	trace := TraceID{15: 7}
	m := NewMetrics(t0)
	m.add("cicd.worker.count", -2, attrs)
	m.add("bide.items.dead_lettered", 0, nil)
	m.set("bide.breaker.state", 2, attrs[:1])
	m.set("bide.breaker.state", 1, attrs[:2])
	for _, v := range []float64{0, 0.005, 3, 1e9, math.SmallestNonzeroFloat64} {
		m.observe("bide.attempt.duration", v, attrs)
	}
	for name, c := range map[string]struct {
		request      message
		binary, text proto.Message
	}{
		"traces": {traceRequest(attrs, []Span{
			{Trace: trace, ID: id, Parent: other, Name: "RUN \xff", Kind: Server, Start: t0, End: t0.Add(time.Second), Attrs: attrs,
				Events: []SpanEvent{{t0, "retry", attrs}, {Name: ""}}, Link: &SpanLink{trace, other}, Failed: "exit", Message: "exit status 7"},
			{Trace: trace, ID: other, Kind: Internal, Failed: "x"},
		}), new(tracecollector.ExportTraceServiceRequest), new(tracecollector.ExportTraceServiceRequest)},
		"logs": {logsRequest(attrs, []Record{
			{Time: t0, Severity: Warn, Event: "note", Body: "a \"b\" \u2028", Attrs: attrs, Trace: trace, Span: id},
			{Severity: Error},
		}), new(logscollector.ExportLogsServiceRequest), new(logscollector.ExportLogsServiceRequest)},
		"metrics": {metricsRequest(attrs, m, t0.Add(time.Minute)), new(metricscollector.ExportMetricsServiceRequest), new(metricscollector.ExportMetricsServiceRequest)},
		"nothing": {metricsRequest(nil, NewMetrics(t0), t0), new(metricscollector.ExportMetricsServiceRequest), new(metricscollector.ExportMetricsServiceRequest)},
	} {
		got, err := encode(c.request, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(got, c.binary); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, err := proto.Marshal(c.binary)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s are\n%x\nand what is read of them is\n%x", name, got, want)
		}
		if got, err = encode(c.request, true); err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal(base64IDs(t, got), c.text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !proto.Equal(c.text, c.binary) {
			t.Errorf("%s are\n%v\nin JSON, and otherwise\n%v", name, c.text, c.binary)
		}
	}
}

// base64IDs writes the ids as protobuf's own JSON has them.
func base64IDs(t *testing.T, text []byte) []byte {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	var within func(v any)
	within = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, x := range v {
				if text, is := x.(string); is && (key == "traceId" || key == "spanId" || key == "parentSpanId") {
					b, err := hex.DecodeString(text)
					if err != nil {
						t.Error(err)
					}
					v[key] = base64.StdEncoding.EncodeToString(b)
				}
				within(x)
			}
		case []any:
			for _, x := range v {
				within(x)
			}
		}
	}
	within(v)
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
