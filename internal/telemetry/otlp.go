package telemetry

import (
	"fmt"
	"time"
)

// schemaURL is the version of the semantic conventions whose names are used.
const schemaURL = "https://opentelemetry.io/schemas/1.44.0"

// aggregated: a value is what has been added up since the start.
const aggregated enum = 2

// failedStatus is the code of a span's status that says that it failed.
const failedStatus enum = 2

// request is what a collector takes of any signal: lists of one resource and one
// scope, under the names that they have there.
func request(res []Attr, resourceKey, scopeKey, listKey string, list []message) message {
	scoped := message{
		{1, "scope", message{{1, "name", "github.com/bide-dev/bide"}}},
		{2, listKey, list},
		{3, "schemaUrl", schemaURL},
	}
	return message{{1, resourceKey, []message{{
		{1, "resource", message{{1, "attributes", attributes(res)}}},
		{2, scopeKey, []message{scoped}},
		{3, "schemaUrl", schemaURL},
	}}}}
}

func attributes(list []Attr) []message {
	out := make([]message, 0, len(list))
	for _, a := range list {
		out = append(out, message{{1, "key", a.Key}, {2, "value", anyValue(a.Key, a.Value)}})
	}
	return out
}

func anyValue(key string, v any) message {
	switch x := v.(type) {
	case string:
		return message{{1, "stringValue", given{valid(x)}}}
	case bool:
		return message{{2, "boolValue", given{x}}}
	case int64:
		return message{{3, "intValue", given{x}}}
	case float64:
		return message{{4, "doubleValue", given{x}}}
	}
	panic(fmt.Sprintf("telemetry: attribute %s is a %T", key, v))
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

func traceID(id TraceID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// traceRequest is spans as a collector takes them.
func traceRequest(res []Attr, spans []Span) message {
	list := make([]message, len(spans))
	for i, s := range spans {
		list[i] = spanMessage(s)
	}
	return request(res, "resourceSpans", "scopeSpans", "spans", list)
}

func spanMessage(s Span) message {
	var events, links []message
	for _, e := range s.Events {
		events = append(events, message{{1, "timeUnixNano", nanos(e.Time)}, {2, "name", e.Name}, {3, "attributes", attributes(e.Attrs)}})
	}
	if s.Link != nil {
		links = []message{{{1, "traceId", traceID(s.Link.Trace)}, {2, "spanId", spanID(s.Link.Span)}}}
	}
	var status message
	if s.Failed != "" {
		status = message{{2, "message", valid(s.Message)}, {3, "code", failedStatus}}
	}
	return message{
		{1, "traceId", s.Trace[:]}, {2, "spanId", s.ID[:]}, {4, "parentSpanId", spanID(s.Parent)},
		{5, "name", valid(s.Name)}, {6, "kind", enum(s.Kind)},
		{7, "startTimeUnixNano", nanos(s.Start)}, {8, "endTimeUnixNano", nanos(s.End)},
		{9, "attributes", attributes(s.Attrs)}, {11, "events", events}, {13, "links", links}, {15, "status", status},
	}
}

// logsRequest is log records as a collector takes them.
func logsRequest(res []Attr, records []Record) message {
	list := make([]message, len(records))
	for i, r := range records {
		list[i] = message{
			{1, "timeUnixNano", nanos(r.Time)}, {11, "observedTimeUnixNano", nanos(r.Time)},
			{2, "severityNumber", enum(r.Severity)},
			{3, "severityText", map[Severity]string{Warn: "WARN", Error: "ERROR"}[r.Severity]},
			{5, "body", anyValue("", r.Body)}, {6, "attributes", attributes(r.Attrs)},
			{9, "traceId", traceID(r.Trace)}, {10, "spanId", spanID(r.Span)}, {12, "eventName", r.Event},
		}
	}
	return request(res, "resourceLogs", "scopeLogs", "logRecords", list)
}

// metricsRequest is metrics as a collector takes them: what has been added up
// since they began.
func metricsRequest(res []Attr, m *Metrics, now time.Time) message {
	all := m.snapshot()
	var list []message
	for len(all) > 0 {
		in, n := all[0].instrument, 0
		var points []message
		for ; n < len(all) && all[n].instrument == in; n++ {
			points = append(points, point(all[n], nanos(m.began), nanos(now)))
		}
		list = append(list, metric(in, points))
		all = all[n:]
	}
	return request(res, "resourceMetrics", "scopeMetrics", "metrics", list)
}

func metric(i *instrument, points []message) message {
	p := message{{1, "name", i.name}, {2, "description", i.help}, {3, "unit", i.unit}}
	data := part{1, "dataPoints", points}
	switch i.kind {
	case counter, upDown:
		return append(p, part{7, "sum", message{data, {2, "aggregationTemporality", aggregated}, {3, "isMonotonic", i.kind == counter}}})
	case histogram:
		return append(p, part{9, "histogram", message{data, {2, "aggregationTemporality", aggregated}}})
	}
	return append(p, part{5, "gauge", message{data}})
}

func point(s series, from, to uint64) message {
	span := message{{2, "startTimeUnixNano", from}, {3, "timeUnixNano", to}}
	if s.instrument.kind != histogram {
		return append(span, part{4, "asDouble", given{s.value}}, part{7, "attributes", attributes(s.attrs)})
	}
	return append(span,
		part{4, "count", s.count}, part{5, "sum", given{s.value}}, part{6, "bucketCounts", s.buckets},
		part{7, "explicitBounds", s.instrument.bounds}, part{9, "attributes", attributes(s.attrs)})
}
