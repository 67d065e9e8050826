package telemetry

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	logscollector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	metricscollector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
)

// TestMessagesAreTheProtocols: the library of the protocol reads what is written
// as protobuf, knows every field of it, and says the same in JSON.
func TestMessagesAreTheProtocols(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 123456789)
	attrs := []Attr{{"text", "a\xffé"}, {"", ""}, {"int", int64(-5)}, {"zero", int64(0)}, {"most", int64(math.MaxInt64)}, {"float", 1.5},
		{"none", 0.0}, {"nan", math.NaN()}, {"inf", math.Inf(-1)}, {"yes", true}, {"no", false}}
	m := NewMetrics(at)
	for _, i := range instruments {
		for _, a := range [][]Attr{attrs, {{"other", "b"}}, nil} {
			switch i.kind {
			case histogram:
				m.observe(i.name, 0.3, a)
				m.observe(i.name, 1e9, a)
			case gauge:
				m.set(i.name, 0, a)
			default:
				m.add(i.name, -2.5, a)
			}
		}
	}
	link := &SpanLink{Trace: TraceID{7, 255}, Span: SpanID{8}}
	spans := []Span{
		{Trace: TraceID{1, 254}, ID: SpanID{2}, Parent: SpanID{3}, Name: "run\xff", Kind: Server, Start: at, End: at.Add(time.Second), Attrs: attrs,
			Events: []SpanEvent{{Time: at, Name: "retry", Attrs: attrs}, {}}, Link: link, Failed: "timeout", Message: "it took too long"},
		{Trace: TraceID{1}, ID: SpanID{9}, Kind: Client, Failed: "exit"},
		{Trace: TraceID{1}, ID: SpanID{9}, Kind: Internal},
	}
	records := []Record{
		{Time: at, Severity: Warn, Event: "attempt_failed", Body: "b\xff", Attrs: attrs, Trace: TraceID{1}, Span: SpanID{2}},
		{Severity: Error},
	}
	for name, c := range map[string]struct {
		ours message
		read proto.Message
	}{
		"traces":     {traceRequest(attrs, spans), &tracecollector.ExportTraceServiceRequest{}},
		"no spans":   {traceRequest(nil, nil), &tracecollector.ExportTraceServiceRequest{}},
		"logs":       {logsRequest(attrs, records), &logscollector.ExportLogsServiceRequest{}},
		"metrics":    {metricsRequest(attrs, m, at.Add(time.Minute)), &metricscollector.ExportMetricsServiceRequest{}},
		"no metrics": {metricsRequest(nil, NewMetrics(at), at), &metricscollector.ExportMetricsServiceRequest{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := encode(c.ours, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := proto.Unmarshal(b, c.read); err != nil {
				t.Fatal(err)
			}
			theirs, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(c.read) // without the fields that it does not know
			if err != nil {
				t.Fatal(err)
			}
			ours, err := encode(c.ours, true)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := tree(t, ours), tree(t, theirs); !reflect.DeepEqual(got, want) {
				t.Errorf("JSON has\n%s\nand what was read from protobuf\n%s", ours, theirs)
			}
			if again, err := proto.Marshal(c.read); err != nil || len(again) != len(b) {
				t.Errorf("%d bytes, and %d by the library (%v)", len(b), len(again), err)
			}
		})
	}
}

// tree is JSON with the ids in hexadecimal, where protobuf's own has base64.
func tree(t *testing.T, text []byte) any {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, x := range v {
				if id, ok := x.(string); ok && (key == "traceId" || key == "spanId" || key == "parentSpanId") {
					if b, err := base64.StdEncoding.DecodeString(id); err == nil && (len(b) == 16 || len(b) == 8) {
						v[key] = hex.EncodeToString(b)
					}
				}
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(v)
	return v
}
