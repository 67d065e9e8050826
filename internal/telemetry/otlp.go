package telemetry

import (
	"time"

	"github.com/bide-dev/bide/internal/value"
)

// schemaURL is the version of the semantic conventions whose names are used.
const schemaURL = "https://opentelemetry.io/schemas/1.44.0"

// request is what a collector takes of a signal: a list of messages that comes from one
// resource and one scope. The numbers are those of opentelemetry-proto, here and below.
func request(res []Attr, ofResource, ofScope, name string, list []message) message {
	scope := message{{1, "name", "github.com/bide-dev/bide"}}
	return message{{1, ofResource, []message{{
		{1, "resource", message{{1, "attributes", attributes(res)}}},
		{2, ofScope, []message{{{1, "scope", scope}, {2, name, list}, {3, "schemaUrl", schemaURL}}}},
		{3, "schemaUrl", schemaURL},
	}}}}
}

func attributes(list []Attr) []message {
	return value.Map(list, func(a Attr) message { return message{{1, "key", a.Key}, {2, "value", anyValue(a)}} })
}

func anyValue(a Attr) message {
	switch a.Value.(type) {
	case string:
		return message{{1, "stringValue", chosen{a.Value}}}
	case bool:
		return message{{2, "boolValue", chosen{a.Value}}}
	case int64:
		return message{{3, "intValue", chosen{a.Value}}}
	case float64:
		return message{{4, "doubleValue", chosen{a.Value}}}
	}
	panic("telemetry: the attribute " + a.Key + " is of no type that the protocol has")
}

func nanos(t time.Time) fixed64 {
	if t.IsZero() {
		return 0
	}
	return fixed64(t.UnixNano())
}

func spanID(s SpanID) id {
	if s.IsZero() {
		return nil
	}
	return s[:]
}

func traceID(t TraceID) id {
	if t.IsZero() {
		return nil
	}
	return t[:]
}

// traceRequest is spans as a collector takes them.
func traceRequest(res []Attr, spans []Span) message {
	return request(res, "resourceSpans", "scopeSpans", "spans", value.Map(spans, func(s Span) message {
		m := message{
			{1, "traceId", traceID(s.Trace)}, {2, "spanId", spanID(s.ID)}, {4, "parentSpanId", spanID(s.Parent)},
			{5, "name", s.Name}, {6, "kind", enum(s.Kind)}, {7, "startTimeUnixNano", nanos(s.Start)}, {8, "endTimeUnixNano", nanos(s.End)},
			{9, "attributes", attributes(s.Attrs)},
			{11, "events", value.Map(s.Events, func(e SpanEvent) message {
				return message{{1, "timeUnixNano", nanos(e.Time)}, {2, "name", e.Name}, {3, "attributes", attributes(e.Attrs)}}
			})},
		}
		if s.Link != nil {
			m = append(m, field{13, "links", []message{{{1, "traceId", traceID(s.Link.Trace)}, {2, "spanId", spanID(s.Link.Span)}}}})
		}
		if s.Failed != "" {
			const failed enum = 2
			m = append(m, field{15, "status", message{{2, "message", s.Message}, {3, "code", failed}}})
		}
		return m
	}))
}

// logsRequest is log records as a collector takes them.
func logsRequest(res []Attr, records []Record) message {
	return request(res, "resourceLogs", "scopeLogs", "logRecords", value.Map(records, func(r Record) message {
		return message{
			{1, "timeUnixNano", nanos(r.Time)}, {2, "severityNumber", enum(r.Severity)},
			{3, "severityText", map[Severity]string{Warn: "WARN", Error: "ERROR"}[r.Severity]},
			{5, "body", anyValue(Attr{Value: r.Body})}, {6, "attributes", attributes(r.Attrs)},
			{9, "traceId", traceID(r.Trace)}, {10, "spanId", spanID(r.Span)},
			{11, "observedTimeUnixNano", nanos(r.Time)}, {12, "eventName", r.Event},
		}
	}))
}

// metricsRequest is metrics as a collector takes them: what has been added up
// since they began.
func metricsRequest(res []Attr, m *Metrics, now time.Time) message {
	var list []message
	all := m.snapshot()
	for len(all) > 0 {
		n := 1 // of the same metric
		for n < len(all) && all[n].instrument == all[0].instrument {
			n++
		}
		list = append(list, metric(all[:n], nanos(m.began), nanos(now)))
		all = all[n:]
	}
	return request(res, "resourceMetrics", "scopeMetrics", "metrics", list)
}

// metric is all series of an instrument.
func metric(list []series, from, to fixed64) message {
	const cumulative enum = 2
	i := list[0].instrument
	points := field{1, "dataPoints", value.Map(list, func(s series) message { return point(s, from, to) })}
	m := message{{1, "name", i.name}, {2, "description", i.help}, {3, "unit", i.unit}}
	switch i.kind {
	case gauge:
		return append(m, field{5, "gauge", message{points}})
	case histogram:
		return append(m, field{9, "histogram", message{points, {2, "aggregationTemporality", cumulative}}})
	}
	return append(m, field{7, "sum", message{points, {2, "aggregationTemporality", cumulative}, {3, "isMonotonic", i.kind == counter}}})
}

func point(s series, from, to fixed64) message {
	m := message{{2, "startTimeUnixNano", from}, {3, "timeUnixNano", to}}
	if s.instrument.kind != histogram {
		return append(m, field{7, "attributes", attributes(s.attrs)}, field{4, "asDouble", chosen{s.value}})
	}
	return append(m, field{4, "count", fixed64(s.count)}, field{5, "sum", chosen{s.value}},
		field{6, "bucketCounts", value.Map(s.buckets, func(n uint64) fixed64 { return fixed64(n) })},
		field{7, "explicitBounds", s.instrument.bounds}, field{9, "attributes", attributes(s.attrs)})
}
