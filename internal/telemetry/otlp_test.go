package telemetry

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	logscollector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	metricscollector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// anything makes what is sent, from nothing at all to all that there can be.
type anything struct{ *rand.Rand }

func (r anything) text() string {
	return []string{"", "a", "é<&>\u2028\"", "\xff bad", "long text with blanks"}[r.IntN(5)]
}

func (r anything) time() time.Time {
	return []time.Time{{}, time.Unix(0, 0), time.Unix(0, 1), time.Unix(1<<33, 999_999_999)}[r.IntN(4)]
}

func (r anything) number() float64 {
	return []float64{0, 1, -0.5, 1e21, 1e-9, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(9)]
}

func (r anything) attrs() (list []Attr) {
	for range r.IntN(4) {
		list = append(list, Attr{r.text(), []any{r.text(), r.number(), int64(0), int64(-1), int64(math.MaxInt64), true, false}[r.IntN(7)]})
	}
	return list
}

func (r anything) trace() (id TraceID) {
	if r.IntN(3) > 0 {
		id[15], id[0] = 7, byte(r.IntN(256))
	}
	return id
}

func (r anything) span() (id SpanID) {
	if r.IntN(3) > 0 {
		id[7], id[0] = 7, byte(r.IntN(256))
	}
	return id
}

func (r anything) spans() (list []Span) {
	for range r.IntN(4) {
		s := Span{Trace: r.trace(), ID: r.span(), Parent: r.span(), Name: r.text(), Kind: Kind(r.IntN(4)), Start: r.time(), End: r.time(), Attrs: r.attrs(), Failed: r.text(), Message: r.text()}
		for range r.IntN(3) {
			s.Events = append(s.Events, SpanEvent{r.time(), "bide.retry", r.attrs()})
		}
		if r.IntN(2) == 0 {
			s.Link = &SpanLink{r.trace(), r.span()}
		}
		list = append(list, s)
	}
	return list
}

func (r anything) records() (list []Record) {
	for range r.IntN(4) {
		list = append(list, Record{Time: r.time(), Severity: []Severity{0, Warn, Error}[r.IntN(3)], Event: "note", Body: r.text(), Attrs: r.attrs(), Trace: r.trace(), Span: r.span()})
	}
	return list
}

func (r anything) metrics() *Metrics {
	m := NewMetrics(r.time())
	for range r.IntN(6) {
		for _, i := range instruments {
			switch {
			case r.IntN(2) == 0:
			case i.kind == histogram:
				m.observe(i.name, r.number(), r.attrs())
			default:
				m.add(i.name, r.number(), r.attrs())
			}
		}
	}
	return m
}

// TestMessages: the code that is generated for the protocol reads what is sent, finds nothing
// in it that it does not know, and writes the same, in both forms.
func TestMessages(t *testing.T) {
	r := anything{rand.New(rand.NewPCG(1, 2))}
	for range 300 {
		now, res := time.Unix(1<<33, 0), r.attrs()
		for _, of := range []struct {
			sent message
			into proto.Message
		}{
			{traceRequest(res, r.spans()), &tracecollector.ExportTraceServiceRequest{}},
			{logsRequest(res, r.records()), &logscollector.ExportLogsServiceRequest{}},
			{metricsRequest(res, r.metrics(), now), &metricscollector.ExportMetricsServiceRequest{}},
		} {
			b, err := encode(of.sent, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, of.into); err != nil {
				t.Fatalf("%x: %v", b, err)
			}
			if again, err := proto.Marshal(of.into); err != nil || !bytes.Equal(again, b) {
				t.Fatalf("%v: it is sent\n%x, and is written as\n%x: %v", of.into, b, again, err)
			}
			text, err := encode(of.sent, true)
			if err != nil {
				t.Fatal(err)
			}
			if want := inJSON(t, of.into); !bytes.Equal(text, want) {
				t.Fatalf("in JSON it is\n%s, want\n%s", text, want)
			}
		}
	}
}

// inJSON is a message in the protocol's JSON: protobuf's own, with ids in hexadecimal.
func inJSON(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(m)
	var v any
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err == nil {
		hexIDs(v)
		b, err = json.Marshal(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

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
