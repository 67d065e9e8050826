package telemetry

import (
	"fmt"
	"time"
)

// schemaURL is the version of the semantic conventions whose names are used.
const schemaURL = "https://opentelemetry.io/schemas/1.44.0"

// request is a request to a collector: what the resource tells by one scope. signal is the
// name of its messages, list that of what is told.
func request(signal string, res []Attr, list string, told []message) message {
	scope := message{{1, "name", "github.com/bide-dev/bide"}}
	return message{{1, "resource" + signal, []message{{
		{1, "resource", attributed(1, res)},
		{2, "scope" + signal, []message{{{1, "scope", scope}, {2, list, told}, {3, "schemaUrl", schemaURL}}}},
		{3, "schemaUrl", schemaURL},
	}}}}
}

// attributed is a message of attributes alone.
func attributed(number int, list []Attr) message {
	return message{{number, "attributes", attributes(list)}}
}

func attributes(list []Attr) []message {
	out := make([]message, 0, len(list))
	for _, a := range list {
		var v field
		switch x := a.Value.(type) {
		case string:
			v = field{1, "stringValue", given{valid(x)}}
		case bool:
			v = field{2, "boolValue", given{x}}
		case int64:
			v = field{3, "intValue", given{x}}
		case float64:
			v = field{4, "doubleValue", given{x}}
		default:
			panic(fmt.Sprintf("telemetry: attribute %s is a %T", a.Key, a.Value))
		}
		out = append(out, message{{1, "key", valid(a.Key)}, {2, "value", message{v}}})
	}
	return out
}

func nanos(t time.Time) fixed {
	if t.IsZero() {
		return 0
	}
	return fixed(t.UnixNano())
}

func spanID(of SpanID) id {
	if of.IsZero() {
		return nil
	}
	return of[:]
}

func traceID(of TraceID) id {
	if of.IsZero() {
		return nil
	}
	return of[:]
}

// traceRequest is spans as a collector takes them.
func traceRequest(res []Attr, spans []Span) message {
	list := make([]message, len(spans))
	for i, s := range spans {
		var events, links []message
		for _, e := range s.Events {
			events = append(events, message{{1, "timeUnixNano", nanos(e.Time)}, {2, "name", e.Name}, {3, "attributes", attributes(e.Attrs)}})
		}
		if s.Link != nil {
			links = []message{{{1, "traceId", id(s.Link.Trace[:])}, {2, "spanId", id(s.Link.Span[:])}}}
		}
		var status message
		if s.Failed != "" {
			const failed = 2
			status = message{{2, "message", valid(s.Message)}, {3, "code", enum(failed)}}
		}
		list[i] = message{
			{1, "traceId", id(s.Trace[:])},
			{2, "spanId", id(s.ID[:])},
			{4, "parentSpanId", spanID(s.Parent)},
			{5, "name", valid(s.Name)},
			{6, "kind", enum(s.Kind)},
			{7, "startTimeUnixNano", nanos(s.Start)},
			{8, "endTimeUnixNano", nanos(s.End)},
			{9, "attributes", attributes(s.Attrs)},
			{11, "events", events},
			{13, "links", links},
			{15, "status", status},
		}
	}
	return request("Spans", res, "spans", list)
}

// logsRequest is log records as a collector takes them.
func logsRequest(res []Attr, records []Record) message {
	list := make([]message, len(records))
	for i, r := range records {
		list[i] = message{
			{1, "timeUnixNano", nanos(r.Time)},
			{2, "severityNumber", enum(r.Severity)},
			{3, "severityText", map[Severity]string{Warn: "WARN", Error: "ERROR"}[r.Severity]},
			{5, "body", message{{1, "stringValue", given{valid(r.Body)}}}},
			{6, "attributes", attributes(r.Attrs)},
			{9, "traceId", traceID(r.Trace)},
			{10, "spanId", spanID(r.Span)},
			{11, "observedTimeUnixNano", nanos(r.Time)},
			{12, "eventName", r.Event},
		}
	}
	return request("Logs", res, "logRecords", list)
}

// metricsRequest is metrics as a collector takes them: what has been added up
// since they began.
func metricsRequest(res []Attr, m *Metrics, now time.Time) message {
	var list, points []message
	all := m.snapshot()
	for i, s := range all {
		points = append(points, point(s, nanos(m.began), nanos(now)))
		if i+1 == len(all) || all[i+1].instrument.name != s.instrument.name {
			list, points = append(list, metric(s.instrument, points)), nil
		}
	}
	return request("Metrics", res, "metrics", list)
}

func metric(i *instrument, points []message) message {
	m := message{{1, "name", i.name}, {2, "description", i.help}, {3, "unit", i.unit}}
	list, cumulative := field{1, "dataPoints", points}, field{2, "aggregationTemporality", enum(2)}
	switch i.kind {
	case counter, upDown:
		return append(m, field{7, "sum", message{list, cumulative, {3, "isMonotonic", i.kind == counter}}})
	case gauge:
		return append(m, field{5, "gauge", message{list}})
	}
	return append(m, field{9, "histogram", message{list, cumulative}})
}

func point(s series, from, to fixed) message {
	times := message{{2, "startTimeUnixNano", from}, {3, "timeUnixNano", to}}
	if s.instrument.kind != histogram {
		return append(times, field{7, "attributes", attributes(s.attrs)}, field{4, "asDouble", given{s.value}})
	}
	return append(times, field{4, "count", fixed(s.count)}, field{5, "sum", given{s.value}}, field{6, "bucketCounts", s.buckets},
		field{7, "explicitBounds", s.instrument.bounds}, field{9, "attributes", attributes(s.attrs)})
}
