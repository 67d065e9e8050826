package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	logscollector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	metricscollector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/limits"
)

var t0 = time.Date(2026, 11, 1, 2, 0, 0, 0, time.UTC)

// script makes events, a second apart.
func script(list ...event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for i, e := range list {
			e.Run, e.Seq = "01RUN", int64(i+1)
			e.Time = t0.Add(time.Duration(i) * time.Second)
			if !yield(e, nil) {
				return
			}
		}
	}
}

func data(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// flaky is a run with a step that succeeds at its second attempt, with a step
// inside it, and a map of which one item fails for good.
func flaky() iter.Seq2[event.Event, error] {
	return script(
		event.Event{Type: event.RunStarted, Label: "nightly"},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Label: "fetch", Data: data(map[string]any{"action": "shell"})},
		event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1},
		event.Event{Type: event.AttemptFailed, Step: "commands[0]", Attempt: 1, Class: "network", Message: "connection refused", ExitCode: 7},
		event.Event{Type: event.RetryScheduled, Step: "commands[0]", Attempt: 1, Data: data(event.Wait{Source: event.FromRetryAfter, Delay: 2 * time.Second})},
		event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 2},
		event.Event{Type: event.StepStarted, Step: "commands[0].do[1]@3", Label: "inner"},
		event.Event{Type: event.AttemptStarted, Step: "commands[0].do[1]@3", Attempt: 1},
		event.Event{Type: event.AttemptFinished, Step: "commands[0].do[1]@3", Attempt: 1},
		event.Event{Type: event.StepFinished, Step: "commands[0].do[1]@3", Label: "inner", Status: event.Succeeded, Attempts: 1},
		event.Event{Type: event.AttemptFinished, Step: "commands[0]", Attempt: 2},
		event.Event{Type: event.StepFinished, Step: "commands[0]", Label: "fetch", Status: event.Succeeded, Attempts: 2},
		event.Event{Type: event.ItemStarted, Item: "a", Index: 1, Attempt: 1},
		event.Event{Type: event.ItemStarted, Item: "b", Index: 2, Attempt: 1},
		event.Event{Type: event.StepStarted, Step: "agent_template[0]", Index: 2, Label: "work"},
		event.Event{Type: event.AttemptStarted, Step: "agent_template[0]", Index: 2, Attempt: 1},
		event.Event{Type: event.AttemptFailed, Step: "agent_template[0]", Index: 2, Attempt: 1, Class: "exit", Message: "exit status 1"},
		event.Event{Type: event.StepFinished, Step: "agent_template[0]", Index: 2, Label: "work", Status: event.Failed, Attempts: 1, Class: "exit"},
		event.Event{Type: event.ItemFinished, Item: "b", Index: 2, Status: event.DeadLettered, Class: "exit", Message: "exit status 1"},
		event.Event{Type: event.ItemFinished, Item: "a", Index: 1, Status: event.Succeeded},
		event.Event{Type: event.BreakerChanged, Label: "map", From: "closed", To: "open"},
		event.Event{Type: event.BreakerChanged, Label: "map", From: "open", To: "half-open"},
		event.Event{Type: event.AgentUsage, Data: data(map[string]any{"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5})},
		event.Event{Type: event.Note, Message: "mind the gap"},
		event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures},
	)
}

func spansOf(t *testing.T, f *Fold, events iter.Seq2[event.Event, error]) []Span {
	t.Helper()
	var list []Span
	f.Span = func(s Span) { list = append(list, s) }
	for e := range events {
		f.Event(e)
	}
	return list
}

func TestSpans(t *testing.T) {
	spans := spansOf(t, &Fold{}, flaky())
	byID := map[SpanID]Span{}
	for _, s := range spans {
		if s.ID.IsZero() || byID[s.ID].Name != "" {
			t.Errorf("the id of %s is zero or taken", s.Name)
		}
		byID[s.ID] = s
	}
	var lines []string
	for _, s := range spans {
		lines = append(lines, fmt.Sprintf("%s < %s kind %d %ds %s %d events", s.Name, byID[s.Parent].Name, s.Kind, int(s.End.Sub(s.Start).Seconds()), s.Failed, len(s.Events)))
	}
	want := []string{
		"fetch < fetch kind 3 1s network 0 events",
		"inner < inner kind 3 1s  0 events",
		"inner < fetch kind 1 3s  0 events",
		"fetch < fetch kind 3 5s  0 events",
		"fetch < RUN nightly kind 1 10s  1 events",
		"work < work kind 3 1s exit 0 events",
		"work < item kind 1 3s exit 0 events",
		"item < RUN nightly kind 1 5s exit 0 events",
		"RUN nightly <  kind 2 24s  0 events",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	inner := byID[spans[2].Parent]
	if inner.Kind != Client || !slices.Contains(inner.Attrs, Attr{"bide.attempt.number", int64(2)}) {
		t.Errorf("the inner step is not inside the second attempt: %+v", inner)
	}
	wait := spans[4].Events[0]
	if wait.Name != "bide.retry" || !slices.Contains(wait.Attrs, Attr{"bide.retry.source", "retry_after"}) || !slices.Contains(wait.Attrs, Attr{"bide.retry.delay", 2.0}) {
		t.Errorf("%+v", wait)
	}
	if n := len(spansOf(t, &Fold{Items: ItemsNone}, flaky())); n != 6 {
		t.Errorf("%d spans without items", n)
	}
	if n := len(spansOf(t, &Fold{Items: ItemsAll}, flaky())); n != len(want)+1 {
		t.Errorf("%d spans with all items", n)
	}
}

// TestALifeThatWasKilled: spans that have ended are inside of one that is there, and what was
// in flight ends with the last event before the kill.
func TestALifeThatWasKilled(t *testing.T) {
	var spans []Span
	f := &Fold{Span: func(s Span) { spans = append(spans, s) }}
	for e := range script(
		event.Event{Type: event.RunStarted, Label: "n"},
		event.Event{Type: event.StepStarted, Step: "setup[0]", Label: "first"},
		event.Event{Type: event.StepFinished, Step: "setup[0]", Label: "first", Status: event.Succeeded},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Label: "loop"},
		event.Event{Type: event.AttemptStarted, Step: "commands[0]", Attempt: 1},
		event.Event{Type: event.StepStarted, Step: "commands[0].do[0]@0", Label: "inner"},
		event.Event{Type: event.StepFinished, Step: "commands[0].do[0]@0", Label: "inner", Status: event.Succeeded},
		event.Event{Type: event.ItemStarted, Index: 3, Item: "c", Attempt: 1},
		event.Event{Type: event.StepStarted, Index: 3, Item: "c", Step: "map.agent_template[0]", Label: "work"},
		event.Event{Type: event.AttemptStarted, Index: 3, Item: "c", Step: "map.agent_template[0]", Attempt: 1},
		event.Event{Type: event.RunResumed, Label: "n"},
		event.Event{Type: event.ItemStarted, Index: 3, Item: "c", Attempt: 1},
	) {
		f.Event(e)
	}
	f.CutOff() // it was killed again, and nobody resumed it
	f.Gone()
	f.CutOff()
	names := map[SpanID]string{}
	for _, s := range spans {
		names[s.ID] = s.Name
	}
	var got []string
	for _, s := range spans {
		outcome := ""
		for _, a := range s.Attrs {
			if strings.HasSuffix(a.Key, ".result") || a.Key == "bide.item.state" {
				outcome = fmt.Sprint(a.Value)
			}
		}
		got = append(got, fmt.Sprintf("%s < %s %s %d to %d", s.Name, names[s.Parent], outcome, int(s.Start.Sub(t0).Seconds()), int(s.End.Sub(t0).Seconds())))
	}
	want := []string{
		"first < RUN n success 1 to 2", "inner < loop success 5 to 6", // in flight when it was killed:
		"loop < loop  4 to 9", "loop < RUN n cancellation 3 to 9", "work < work  9 to 9", "work < item cancellation 8 to 9", "item < RUN n interrupted 7 to 9", "RUN n <  cancellation 0 to 9",
		"item < RUN n interrupted 11 to 11", "RUN n <  cancellation 10 to 11",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if link := spans[len(spans)-1].Link; link == nil || names[link.Span] != "RUN n" {
		t.Errorf("the second life links to %+v", link)
	}
}

// TestItemsOfWhichAStepWasRetried have spans, though they succeeded at their first attempt.
func TestItemsOfWhichAStepWasRetried(t *testing.T) {
	const step = "map.agent_template[0]"
	spans := spansOf(t, &Fold{}, script(
		event.Event{Type: event.RunStarted, Label: "n"},
		event.Event{Type: event.ItemStarted, Index: 1, Item: "a", Attempt: 1},
		event.Event{Type: event.StepStarted, Index: 1, Step: step, Label: "work"},
		event.Event{Type: event.AttemptStarted, Index: 1, Step: step, Attempt: 1},
		event.Event{Type: event.AttemptFailed, Index: 1, Step: step, Attempt: 1, Class: "exit"},
		event.Event{Type: event.RetryScheduled, Index: 1, Step: step, Attempt: 1, DelayMS: 10},
		event.Event{Type: event.AttemptStarted, Index: 1, Step: step, Attempt: 2},
		event.Event{Type: event.AttemptFinished, Index: 1, Step: step, Attempt: 2},
		event.Event{Type: event.StepFinished, Index: 1, Step: step, Label: "work", Status: event.Succeeded, Attempts: 2},
		event.Event{Type: event.ItemFinished, Index: 1, Item: "a", Status: event.Succeeded},
		event.Event{Type: event.ItemStarted, Index: 2, Item: "b", Attempt: 1},
		event.Event{Type: event.ItemFinished, Index: 2, Item: "b", Status: event.Succeeded},
	))
	var names []string
	for _, s := range spans {
		names = append(names, s.Name)
	}
	if want := []string{"work", "work", "work", "item"}; !slices.Equal(names, want) {
		t.Errorf("spans %q, want %q", names, want)
	}
}

func TestItemsAreBounded(t *testing.T) {
	var list []event.Event
	list = append(list, event.Event{Type: event.RunStarted, Label: "m"})
	for i := range MaxItems + 10 {
		list = append(list, event.Event{Type: event.ItemStarted, Index: i + 1, Attempt: 1}, event.Event{Type: event.ItemFinished, Index: i + 1, Status: event.DeadLettered, Class: "exit"})
	}
	list = append(list, event.Event{Type: event.RunFinished, Status: event.Failed})
	if n := len(spansOf(t, &Fold{}, script(list...))); n != MaxItems+1 {
		t.Errorf("%d spans", n)
	}
}

func TestALaterLifeLinksToTheFirst(t *testing.T) {
	cfg := &Config{Ratio: 1, TraceContext: true}
	cfg.Parent, _ = ParseParent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	spans := spansOf(t, &Fold{}, script(
		event.Event{Type: event.RunStarted, Label: "n", Data: data(cfg.Origin("01RUN", 1))},
		event.Event{Type: event.RunFinished, Status: event.Interrupted, Class: "cancelled"},
		event.Event{Type: event.RunResumed, Label: "n", Data: data(cfg.Origin("01RUN", 2))},
		event.Event{Type: event.RunFinished, Status: event.Succeeded},
	))
	if len(spans) != 2 || spans[0].Trace.String() != "0af7651916cd43dd8448eb211c80319c" || spans[0].Parent.String() != "b7ad6b7169203331" || spans[0].Link != nil {
		t.Fatalf("%+v", spans)
	}
	if s := spans[1]; s.Trace == spans[0].Trace || !s.Parent.IsZero() || s.Link == nil || *s.Link != (SpanLink{spans[0].Trace, spans[0].ID}) {
		t.Errorf("%+v", s)
	}
	env := cfg.Environ(cfg.Trace("01RUN", 1), cfg.Trace("01RUN", 1).Attempt(Place{Step: "commands[0]"}, 2))
	if len(env) != 1 || !strings.HasPrefix(env[0], "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-") || !strings.HasSuffix(env[0], "-01") {
		t.Errorf("%q", env)
	}
}

// An attempt is told the id that its span then has.
func TestAttemptIDsAreKnownBefore(t *testing.T) {
	tr := NewTrace("01RUN", 1, Parent{})
	for _, s := range spansOf(t, &Fold{Items: ItemsAll}, flaky()) {
		if s.Name == "work" && s.Kind == Client && s.ID != tr.Attempt(Place{Index: 2, Attempt: 1, Step: "agent_template[0]"}, 1) {
			t.Error("another id")
		}
	}
}

func TestParseParent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for text, want := range map[string]bool{
		good: true, " " + good: true, "01" + good[2:] + "-more": true,
		"": false, good + "-more": false, "ff" + good[2:]: false, strings.ToUpper(good): false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
		"00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01":  false,
		"00-0af7651916cd43dd8448eb211c80319x-b7ad6b7169203331-01": false,
	} {
		if _, ok := ParseParent(text); ok != want {
			t.Errorf("%q: %v", text, ok)
		}
	}
}

// collector is a collector that decodes what it gets.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*trace.Span
	metrics map[string]*metrics.Metric
	logs    []string
	headers http.Header
	service string
	refuse  int // so many requests, with 503
}

func newCollector(t *testing.T) *collector {
	c := &collector{metrics: map[string]*metrics.Metric{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.refuse > 0 {
			c.refuse--
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		c.headers = r.Header
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		b, err := io.ReadAll(body)
		if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Error(err, r.Header)
			return
		}
		switch r.URL.Path {
		case "/v1/traces":
			var m tracecollector.ExportTraceServiceRequest
			if err := proto.Unmarshal(b, &m); err != nil {
				t.Error(err)
			}
			for _, rs := range m.ResourceSpans {
				for _, a := range rs.Resource.Attributes {
					if a.Key == "service.name" {
						c.service = a.Value.GetStringValue()
					}
				}
				for _, ss := range rs.ScopeSpans {
					c.spans = append(c.spans, ss.Spans...)
				}
			}
		case "/v1/metrics":
			var m metricscollector.ExportMetricsServiceRequest
			if err := proto.Unmarshal(b, &m); err != nil {
				t.Error(err)
			}
			for _, x := range m.ResourceMetrics[0].ScopeMetrics[0].Metrics {
				c.metrics[x.Name] = x
			}
		case "/v1/logs":
			var m logscollector.ExportLogsServiceRequest
			if err := proto.Unmarshal(b, &m); err != nil {
				t.Error(err)
			}
			for _, x := range m.ResourceLogs[0].ScopeLogs[0].LogRecords {
				c.logs = append(c.logs, fmt.Sprint(x.SeverityText, " ", x.EventName, " ", x.Body.GetStringValue()))
			}
		default:
			t.Errorf("unexpected %s", r.URL)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func TestLiveAndAfterwardsAreTheSame(t *testing.T) {
	live, later := newCollector(t), newCollector(t)
	later.refuse = 2
	config := func(c *collector, more ...string) *Config {
		cfg, err := FromEnv(append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_EXPORTER_OTLP_HEADERS=key=a%20b", "OTEL_SERVICE_NAME=jobs"}, more...), "1.2")
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	s, err := Start(config(live), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for e := range flaky() {
		s.Emit(e)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := Export(t.Context(), config(later, "OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=2"), Options{}, flaky()); err != nil {
		t.Fatal(err)
	}
	if len(live.spans) != 9 || live.service != "jobs" || live.headers.Get("key") != "a b" {
		t.Errorf("%d spans of %s, headers %v", len(live.spans), live.service, live.headers)
	}
	text := func(c *collector) string {
		var lines []string
		for _, s := range c.spans {
			lines = append(lines, hex.EncodeToString(s.TraceId)+hex.EncodeToString(s.SpanId)+hex.EncodeToString(s.ParentSpanId)+fmt.Sprint(s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano, s.Status.GetCode()))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	if a, b := text(live), text(later); a != b {
		t.Errorf("live\n%s\nafterwards\n%s", a, b)
	}
	if want := []string{"WARN bide.attempt_failed connection refused", "WARN bide.attempt_failed exit status 1", "ERROR bide.item_finished exit status 1", "WARN bide.note mind the gap"}; !slices.Equal(live.logs, want) || !slices.Equal(later.logs, want) {
		t.Errorf("logs: %q, %q", live.logs, later.logs)
	}
	steps := live.metrics["bide.step.attempts"].GetHistogram().DataPoints
	if len(steps) != 3 || steps[0].GetCount() != 1 || steps[0].ExplicitBounds[2] != 3 {
		t.Errorf("%v", steps)
	}
	for _, name := range []string{"cicd.pipeline.run.duration", "cicd.pipeline.run.active", "cicd.worker.count", "bide.attempt.duration", "bide.step.outcomes",
		"bide.retry.delay", "bide.items", "bide.items.dead_lettered", "bide.breaker.state", "bide.breaker.transitions", "bide.pause.duration",
		"gen_ai.client.token.usage", "bide.agent.cost"} {
		if live.metrics[name] == nil {
			t.Errorf("no metric %s", name)
		}
	}
	for name, m := range live.metrics {
		if s := fmt.Sprint(m); strings.Contains(s, "01RUN") || strings.Contains(s, "refused") || strings.Contains(s, "bide.item.id") {
			t.Errorf("%s has what no metric may have: %s", name, s)
		}
	}
}

// A collector that takes the connection and then nothing more costs two seconds
// at the end, and one warning.
func TestACollectorThatStalls(t *testing.T) {
	stalled := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stalled }))
	defer srv.Close()
	defer close(stalled)
	cfg, err := FromEnv([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + srv.URL}, "1")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for e := range flaky() {
		s.Emit(e)
	}
	began := time.Now()
	err = s.Close(t.Context())
	if took := time.Since(began); took > time.Minute || took < CloseTimeout/2 {
		t.Errorf("closed after %s", took)
	}
	if err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), "not taken within 2s") {
		t.Errorf("%v", err)
	}
	s, err = Start(cfg, Options{}) // a second interrupt skips it
	if err != nil {
		t.Fatal(err)
	}
	for e := range flaky() {
		s.Emit(e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); err == nil {
		t.Error("all was taken")
	}
}

func TestAQueueThatIsFullDropsAndSaysSo(t *testing.T) {
	c := newCollector(t)
	cfg, err := FromEnv([]string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + c.URL + "/v1/traces", "OTEL_BSP_MAX_QUEUE_SIZE=3"}, "1")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for e := range flaky() {
		s.Emit(e)
	}
	if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "6 spans and records were dropped") || len(c.spans) != 3 {
		t.Errorf("%v, %d spans", err, len(c.spans))
	}
}

func TestConsoleHasHexIDs(t *testing.T) {
	cfg, err := FromEnv([]string{"OTEL_TRACES_EXPORTER=console"}, "1")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Export(t.Context(), cfg, Options{Out: &out}, flaky()); err != nil {
		t.Fatal(err)
	}
	if id := NewTrace("01RUN", 1, Parent{}).ID.String(); !strings.Contains(out.String(), `"traceId":"`+id+`"`) {
		t.Errorf("%s is not in %s", id, &out)
	}
}

func TestPrometheusText(t *testing.T) {
	f := Fold{Metrics: NewMetrics(t0)}
	for e := range flaky() {
		f.Event(e)
	}
	path := filepath.Join(t.TempDir(), "bide.prom")
	if err := f.Metrics.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"# TYPE bide_attempt_duration_seconds histogram",
		`bide_items_dead_lettered_total{error_type="exit"} 1`,
		`bide_items{bide_item_state="running"} 0`,
		`bide_breaker_state{bide_breaker="map"} 1`,
		`bide_step_attempts_bucket{cicd_pipeline_task_name="fetch",le="2"} 1`,
		`bide_step_attempts_bucket{cicd_pipeline_task_name="fetch",le="+Inf"} 1`,
		`bide_retry_delay_seconds_sum{bide_retry_source="retry_after"} 2`,
		`bide_agent_cost_usd_total 0.5`,
	} {
		if !strings.Contains(string(b), line+"\n") {
			t.Errorf("no line %s in\n%s", line, b)
		}
	}
}

func TestTasksAreBounded(t *testing.T) {
	f := Fold{Metrics: NewMetrics(t0)}
	var list []event.Event
	for i := range 300 {
		list = append(list, event.Event{Type: event.StepFinished, Label: fmt.Sprint("step ", i), Status: event.Succeeded, Attempts: 1})
	}
	f.Event(event.Event{Type: event.RunStarted, Run: "r", Label: "many"})
	for _, e := range list {
		f.Event(e)
	}
	var b strings.Builder
	if err := f.Metrics.WritePrometheus(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `bide_step_attempts_count{cicd_pipeline_task_name="_OTHER"} 100`) || strings.Contains(b.String(), "step 250") {
		t.Error("the tasks are not bounded")
	}
}

func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		env  string
		want string // in the error, or "off", or ""
	}{
		{"", "off"},
		{"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "off"},
		{"OTEL_SDK_DISABLED=true OTEL_EXPORTER_OTLP_ENDPOINT=http://x", "off"},
		{"OTEL_TRACES_EXPORTER=none OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://x", "off"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://x", ""},
		{"OTEL_TRACES_EXPORTER=otlp", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "bide sends http/protobuf and http/json"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318", "must be an address"},
		{"OTEL_TRACES_EXPORTER=zipkin", "write otlp, console or none"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_EXPORTER_OTLP_HEADERS=secret", "key=value"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_TRACES_SAMPLER=jaeger_remote", "always_on"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=2", "from 0 to 1"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_BSP_SCHEDULE_DELAY=soon", "whole number"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_PROPAGATORS=b3", "tracecontext"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_EXPORTER_OTLP_COMPRESSION=zstd", "gzip"},
	} {
		cfg, err := FromEnv(strings.Fields(c.env), "1")
		switch {
		case c.want == "off" && (cfg != nil || err != nil),
			c.want == "" && (err != nil || !cfg.Enabled()),
			c.want != "off" && c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v %v", c.env, cfg, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a header is shown: %v", err)
		}
	}
}

func TestSampling(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want bool
	}{
		{nil, true},
		{[]string{"OTEL_TRACES_SAMPLER=always_off"}, false},
		{[]string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0"}, false},
		{[]string{"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}, false},
		{[]string{"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "OTEL_TRACES_SAMPLER=always_on"}, true},
	} {
		cfg, err := FromEnv(append(c.env, "OTEL_TRACES_EXPORTER=console"), "1")
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Trace("01RUN", 1).Sampled; got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
		n := len(spansOf(t, &Fold{}, script(event.Event{Type: event.RunStarted, Data: data(cfg.Origin("01RUN", 1))}, event.Event{Type: event.RunFinished})))
		if (n > 0) != c.want {
			t.Errorf("%v: %d spans", c.env, n)
		}
	}
}

// TestAttributesOfActions: the span of an attempt says what ran and how that
// ended, in the words of the semantic conventions.
func TestAttributesOfActions(t *testing.T) {
	t.Parallel()
	step := func(path, began string, failed bool, ended string) []event.Event {
		list := []event.Event{
			{Type: event.StepStarted, Step: path, Label: path, Data: json.RawMessage(began)},
			{Type: event.AttemptStarted, Step: path, Attempt: 1},
		}
		end := event.Event{Type: event.StepFinished, Step: path, Label: path, Status: event.Succeeded, Attempts: 1}
		if failed {
			list = append(list, event.Event{Type: event.AttemptFailed, Step: path, Attempt: 1, Class: "exit", ExitCode: 22, Data: json.RawMessage(ended)})
			end.Status, end.Class = event.Failed, "exit"
		} else if ended != "" {
			list = append(list, event.Event{Type: event.AttemptFinished, Step: path, Attempt: 1, Data: json.RawMessage(ended)})
		}
		return append(list, end)
	}
	events := []event.Event{{Type: event.RunStarted}}
	for _, list := range [][]event.Event{
		step("sh", `{"action":"shell"}`, false, `{}`),
		step("cargo", `{"action":"shell"}`, true, `{"program":"/usr/bin/cargo"}`),
		step("get", `{"action":"http","method":"PUT"}`, true, `{"http_status":503}`),
		step("ask", `{"action":"claude"}`, false, `{}`),
		step("old", ``, false, ``), // of a journal that does not tell
	} {
		events = append(events, list...)
	}
	got := map[string]string{}
	for _, s := range spansOf(t, &Fold{}, script(events...)) {
		if s.Kind != Client {
			continue
		}
		for _, a := range s.Attrs {
			if a.Key != "bide.attempt.number" && a.Key != "error.type" {
				got[s.Name] += fmt.Sprintf(" %s=%v", a.Key, a.Value)
			}
		}
	}
	want := map[string]string{
		"sh":    " process.executable.name=sh process.exit.code=0",
		"cargo": " process.executable.name=cargo process.exit.code=22",
		"get":   " http.request.method=PUT http.response.status_code=503",
		"ask":   " gen_ai.operation.name=invoke_agent",
	}
	if !maps.Equal(got, want) {
		t.Errorf("the attributes are\n%q\nwant\n%q", got, want)
	}
}

// TestUsageInParts: what an agent used in an attempt is told in parts where an item has a
// budget; it is one sum of the attempt, also of one that a kill cut short.
func TestUsageInParts(t *testing.T) {
	t.Parallel()
	used := func(calls int) event.Event {
		return event.Event{Type: event.AgentUsage, Step: "ask", Data: data(map[string]any{"input_tokens": 100, "cache_tokens": 20, "output_tokens": 5, "cost_usd": 0.5, "calls": calls})}
	}
	f := &Fold{Metrics: NewMetrics(t0)}
	var got []string
	for _, s := range spansOf(t, f, script(
		event.Event{Type: event.RunStarted},
		event.Event{Type: event.StepStarted, Step: "ask", Label: "ask", Data: json.RawMessage(`{"action":"claude"}`)},
		event.Event{Type: event.AttemptStarted, Step: "ask", Attempt: 1}, used(1),
		event.Event{Type: event.AttemptStarted, Step: "ask", Attempt: 2}, used(1), used(0), used(0),
		event.Event{Type: event.AttemptFinished, Step: "ask", Attempt: 2},
	)) {
		for _, a := range s.Attrs {
			if strings.HasPrefix(a.Key, "gen_ai.usage.") || a.Key == "bide.agent.cost_usd" {
				got = append(got, fmt.Sprintf("%s=%v", a.Key, a.Value))
			}
		}
	}
	if want := []string{"gen_ai.usage.input_tokens=360", "gen_ai.usage.output_tokens=15", "bide.agent.cost_usd=1.5"}; !slices.Equal(got, want) {
		t.Errorf("the span has %q, want %q", got, want)
	}
	var text strings.Builder
	if err := f.Metrics.WritePrometheus(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`usage_count{gen_ai_token_type="input"} 2`, `usage_sum{gen_ai_token_type="input"} 480`} {
		if !strings.Contains(strings.ReplaceAll(text.String(), "usage_tokens_", "usage_"), want) {
			t.Errorf("nothing says %s:\n%s", want, text.String())
		}
	}
}

// standing is what the metrics say of what is running now: runs, items by state,
// workers.
func standing(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, s := range m.snapshot() {
		if s.instrument.kind == upDown {
			name := s.instrument.name
			for _, a := range s.attrs {
				if a.Key == "bide.item.state" {
					name += " " + fmt.Sprint(a.Value)
				}
			}
			out[name] += s.value
		}
	}
	return out
}

// TestKilledRunsAreNotActive: what a process left in flight when it was killed
// counts no more, neither before the run is resumed nor after.
func TestKilledRunsAreNotActive(t *testing.T) {
	f := &Fold{Metrics: NewMetrics(t0)}
	for e := range script(
		event.Event{Type: event.RunStarted, Label: "nightly"},
		event.Event{Type: event.ItemStarted, Index: 1, Attempt: 1},
		event.Event{Type: event.ItemStarted, Index: 2, Attempt: 1},
		event.Event{Type: event.ItemRetry, Index: 2, Attempt: 1, DelayMS: 60_000},
		event.Event{Type: event.ItemStarted, Index: 3, Attempt: 1},
		event.Event{Type: event.ItemFinished, Index: 3, Status: event.DeadLettered, Class: "exit"},
	) {
		f.Event(e)
	}
	want := func(what string, want map[string]float64) {
		t.Helper()
		if got := standing(t, f.Metrics); !maps.Equal(got, want) {
			t.Errorf("%s it says %v, want %v", what, got, want)
		}
	}
	const active, workers, items = "cicd.pipeline.run.active", "cicd.worker.count", "bide.items "
	want("while it goes on", map[string]float64{active: 1, workers: 1, items + "running": 1, items + "retrying": 1, items + "dead_lettered": 1})
	f.Gone()
	over := map[string]float64{active: 0, workers: 0, items + "running": 0, items + "retrying": 0, items + "dead_lettered": 1}
	want("after its process has gone", over)
	f.Gone()
	want("when that is told again", over)
	for e := range script(
		event.Event{Type: event.RunResumed, Label: "nightly"},
		event.Event{Type: event.ItemStarted, Index: 2, Attempt: 2},
		event.Event{Type: event.ItemRetry, Index: 2, Attempt: 2, DelayMS: 60_000},
		event.Event{Type: event.RunResumed, Label: "nightly"}, // killed, and nobody looked meanwhile
		event.Event{Type: event.ItemStarted, Index: 2, Attempt: 3},
		event.Event{Type: event.ItemRetry, Index: 2, Attempt: 3, DelayMS: 60_000},
		event.Event{Type: event.ItemStarted, Index: 2, Attempt: 4},
		event.Event{Type: event.ItemRequeued, Index: 3},
		event.Event{Type: event.ItemStarted, Index: 3, Attempt: 1},
	) {
		f.Event(e)
	}
	want("after two resumes", map[string]float64{active: 1, workers: 2, items + "running": 2, items + "retrying": 0, items + "dead_lettered": 0})
	for e := range script(event.Event{Type: event.ItemFinished, Index: 2, Status: event.Succeeded}, event.Event{Type: event.RunFinished, Status: event.Interrupted}) {
		f.Event(e)
	}
	want("at its end", map[string]float64{active: 0, workers: 0, items + "running": 0, items + "retrying": 0, items + "dead_lettered": 0, items + "succeeded": 1})
}

// TestLimitsOfTheMachine: what is measured of a limit goes by its name, in both forms.
func TestLimitsOfTheMachine(t *testing.T) {
	m := NewMetrics(t0)
	three := limits.Status{Limit: limits.Limit{Name: "prov", Slots: 3, Shared: true}, Held: make([]limits.Who, 2), Waiting: make([]limits.Who, 4),
		State: limits.State{Waits: 7, Waited: 90 * time.Second, Pauses: 2, PausedUntil: t0.Add(time.Minute)}}
	m.Limits([]limits.Status{three, {Limit: limits.Limit{Name: "mail", Rate: 2, Per: time.Second}}}, t0.Add(15*time.Second))
	want := map[string]float64{"bide.limit.slots prov": 3, "bide.limit.slots.used prov": 2, "bide.limit.waiting prov": 4, "bide.limit.waits prov": 7,
		"bide.limit.wait.time prov": 90, "bide.limit.paused prov": 45, "bide.limit.pauses prov": 2, "bide.limit.waiting mail": 0, "bide.limit.waits mail": 0, "bide.limit.wait.time mail": 0}
	got := map[string]float64{}
	body, err := encode(metricsRequest(nil, m, t0), false)
	if err != nil {
		t.Fatal(err)
	}
	var sent metricscollector.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	for _, metric := range sent.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		points := slices.Concat(metric.GetGauge().GetDataPoints(), metric.GetSum().GetDataPoints())
		if sum := metric.GetSum(); sum != nil && !sum.IsMonotonic {
			t.Errorf("%s may go down", metric.Name)
		}
		for _, p := range points {
			got[metric.Name+" "+p.Attributes[0].Value.GetStringValue()] = p.GetAsDouble()
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	var text strings.Builder
	if err := m.WritePrometheus(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`bide_limit_wait_time_seconds_total{bide_limit="prov"} 90`, `bide_limit_paused_seconds{bide_limit="prov"} 45`, "# TYPE bide_limit_pauses_total counter"} {
		if !strings.Contains(text.String(), line+"\n") {
			t.Errorf("no line %s in\n%s", line, text.String())
		}
	}
	m.Limits(nil, t0)
	if left := m.snapshot(); len(left) != 0 {
		t.Errorf("%d are left of limits that there are no more", len(left))
	}
}

// What is wrong with a variable of all signals is told once.
func TestConfigErrorsOnce(t *testing.T) {
	_, err := FromEnv([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_TIMEOUT=x"}, "1")
	if err == nil || strings.Count(err.Error(), "OTEL_EXPORTER_OTLP_PROTOCOL is") != 1 || strings.Count(err.Error(), "OTEL_EXPORTER_OTLP_TIMEOUT is") != 1 {
		t.Errorf("it says: %v", err)
	}
}
