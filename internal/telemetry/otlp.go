package telemetry

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	logscollector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	metricscollector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// schemaURL is the version of the semantic conventions whose names are used.
const schemaURL = "https://opentelemetry.io/schemas/1.44.0"

func scope() *common.InstrumentationScope {
	return &common.InstrumentationScope{Name: "github.com/bide-dev/bide"}
}

func attributes(list []Attr) []*common.KeyValue {
	out := make([]*common.KeyValue, 0, len(list))
	for _, a := range list {
		v := &common.AnyValue{}
		switch x := a.Value.(type) {
		case string:
			v.Value = &common.AnyValue_StringValue{StringValue: valid(x)}
		case int64:
			v.Value = &common.AnyValue_IntValue{IntValue: x}
		case float64:
			v.Value = &common.AnyValue_DoubleValue{DoubleValue: x}
		case bool:
			v.Value = &common.AnyValue_BoolValue{BoolValue: x}
		default:
			panic(fmt.Sprintf("telemetry: attribute %s is a %T", a.Key, a.Value))
		}
		out = append(out, &common.KeyValue{Key: a.Key, Value: v})
	}
	return out
}

func nanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func spanID(id SpanID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// traceRequest is spans as a collector takes them.
func traceRequest(res []Attr, spans []Span) proto.Message {
	list := make([]*trace.Span, len(spans))
	for i, s := range spans {
		p := &trace.Span{TraceId: s.Trace[:], SpanId: s.ID[:], ParentSpanId: spanID(s.Parent), Name: valid(s.Name), Kind: trace.Span_SpanKind(s.Kind),
			StartTimeUnixNano: nanos(s.Start), EndTimeUnixNano: nanos(s.End), Attributes: attributes(s.Attrs)}
		for _, e := range s.Events {
			p.Events = append(p.Events, &trace.Span_Event{TimeUnixNano: nanos(e.Time), Name: e.Name, Attributes: attributes(e.Attrs)})
		}
		if s.Link != nil {
			p.Links = []*trace.Span_Link{{TraceId: s.Link.Trace[:], SpanId: s.Link.Span[:]}}
		}
		if s.Failed != "" {
			p.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: valid(s.Message)}
		}
		list[i] = p
	}
	return &tracecollector.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: attributes(res)}, SchemaUrl: schemaURL,
		ScopeSpans: []*trace.ScopeSpans{{Scope: scope(), Spans: list, SchemaUrl: schemaURL}},
	}}}
}

// logsRequest is log records as a collector takes them.
func logsRequest(res []Attr, records []Record) proto.Message {
	list := make([]*logs.LogRecord, len(records))
	for i, r := range records {
		p := &logs.LogRecord{TimeUnixNano: nanos(r.Time), ObservedTimeUnixNano: nanos(r.Time), SeverityNumber: logs.SeverityNumber(r.Severity),
			SeverityText: map[Severity]string{Warn: "WARN", Error: "ERROR"}[r.Severity], EventName: r.Event, Attributes: attributes(r.Attrs),
			Body: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: valid(r.Body)}}, SpanId: spanID(r.Span)}
		if !r.Trace.IsZero() {
			p.TraceId = r.Trace[:]
		}
		list[i] = p
	}
	return &logscollector.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
		Resource: &resource.Resource{Attributes: attributes(res)}, SchemaUrl: schemaURL,
		ScopeLogs: []*logs.ScopeLogs{{Scope: scope(), LogRecords: list, SchemaUrl: schemaURL}},
	}}}
}

// metricsRequest is metrics as a collector takes them: what has been added up
// since they began.
func metricsRequest(res []Attr, m *Metrics, now time.Time) proto.Message {
	var list []*metrics.Metric
	for _, s := range m.snapshot() {
		var p *metrics.Metric
		if n := len(list); n > 0 && list[n-1].Name == s.instrument.name {
			p = list[n-1]
		} else {
			p = newMetric(s.instrument)
			list = append(list, p)
		}
		addPoint(p, s, nanos(m.began), nanos(now))
	}
	return &metricscollector.ExportMetricsServiceRequest{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource: &resource.Resource{Attributes: attributes(res)}, SchemaUrl: schemaURL,
		ScopeMetrics: []*metrics.ScopeMetrics{{Scope: scope(), Metrics: list, SchemaUrl: schemaURL}},
	}}}
}

func newMetric(i *instrument) *metrics.Metric {
	const cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	p := &metrics.Metric{Name: i.name, Unit: i.unit, Description: i.help}
	switch i.kind {
	case counter, upDown:
		p.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{AggregationTemporality: cumulative, IsMonotonic: i.kind == counter}}
	case gauge:
		p.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{}}
	case histogram:
		p.Data = &metrics.Metric_Histogram{Histogram: &metrics.Histogram{AggregationTemporality: cumulative}}
	}
	return p
}

func addPoint(p *metrics.Metric, s series, from, to uint64) {
	point := &metrics.NumberDataPoint{Attributes: attributes(s.attrs), StartTimeUnixNano: from, TimeUnixNano: to,
		Value: &metrics.NumberDataPoint_AsDouble{AsDouble: s.value}}
	switch d := p.Data.(type) {
	case *metrics.Metric_Sum:
		d.Sum.DataPoints = append(d.Sum.DataPoints, point)
	case *metrics.Metric_Gauge:
		d.Gauge.DataPoints = append(d.Gauge.DataPoints, point)
	case *metrics.Metric_Histogram:
		sum := s.value
		d.Histogram.DataPoints = append(d.Histogram.DataPoints, &metrics.HistogramDataPoint{Attributes: point.Attributes,
			StartTimeUnixNano: from, TimeUnixNano: to, Count: s.count, Sum: &sum, BucketCounts: s.buckets, ExplicitBounds: s.instrument.bounds})
	}
}

// encode gives the bytes of a message, as protobuf or as the protocol's JSON.
func encode(m proto.Message, asJSON bool) ([]byte, error) {
	if !asJSON {
		return proto.Marshal(m)
	}
	b, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	hexIDs(v)
	return json.Marshal(v)
}

// hexIDs writes ids in hexadecimal, as the protocol wants them in JSON, where
// protobuf's own JSON has base64.
func hexIDs(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			text, ok := x.(string)
			if ok && (key == "traceId" || key == "spanId" || key == "parentSpanId") {
				if b, err := base64.StdEncoding.DecodeString(text); err == nil {
					v[key] = hex.EncodeToString(b)
				}
				continue
			}
			hexIDs(x)
		}
	case []any:
		for _, x := range v {
			hexIDs(x)
		}
	}
}
