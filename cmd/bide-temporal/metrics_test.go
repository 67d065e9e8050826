package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/telemetry"
	metricscollector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector that decodes the metrics of workers: by the instance of each,
// what it has sent last.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	last map[string]map[string]*metrics.Metric
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{last: map[string]map[string]*metrics.Metric{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		var m metricscollector.ExportMetricsServiceRequest
		body, err := io.ReadAll(q.Body)
		if err == nil {
			err = proto.Unmarshal(body, &m)
		}
		if err != nil || q.URL.Path != "/v1/metrics" {
			t.Errorf("%s: %v", q.URL, err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, x := range m.ResourceMetrics {
			attrs := map[string]string{}
			for _, a := range x.Resource.Attributes {
				attrs[a.Key] = a.Value.GetStringValue()
			}
			if attrs["service.name"] != "night" || attrs["team"] != "data" || attrs["host.name"] == "" {
				t.Errorf("the resource is %v", attrs)
			}
			list := map[string]*metrics.Metric{}
			for _, m := range x.ScopeMetrics[0].Metrics {
				list[m.Name] = m
			}
			r.last[attrs["service.instance.id"]] = list
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// settings are those of telemetry, for the receiver.
func (r *receiver) settings() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL, "OTEL_SERVICE_NAME=night", "OTEL_RESOURCE_ATTRIBUTES=team=data"}
}

// sum is that of a metric over all workers, of the points with a value of an attribute, or
// of all of them where it is ""; of a histogram it is how much was observed.
func (r *receiver) sum(name, with string) (n float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	has := func(s string) bool { return with == "" || strings.Contains(s, `"`+with+`"`) }
	for _, list := range r.last {
		m := list[name]
		for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
			if has(p.String()) {
				n += p.GetAsDouble()
			}
		}
		for _, p := range m.GetHistogram().GetDataPoints() {
			if has(p.String()) {
				n += float64(p.Count)
			}
		}
	}
	return n
}

// want compares sums.
func (r *receiver) want(t *testing.T, name, with string, want float64) {
	t.Helper()
	if got := r.sum(name, with); got != want {
		t.Errorf("%s %s: %v, not %v", name, with, got, want)
	}
}

// TestMetrics: of 12 items one is tried twice, one becomes a dead letter after two
// attempts, and what follows the map is one step: a collector gets exactly that.
func TestMetrics(t *testing.T) {
	t.Parallel()
	p := newPlace(t, slowRetry, 12)
	r := newReceiver(t)
	cfg, err := telemetry.FromEnv(r.settings(), "1")
	if err != nil {
		t.Fatal(err)
	}
	work, sink, err := telemetry.StartWork(cfg, telemetry.Options{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	p.worker.Work = work
	p.env.ExecuteWorkflow(Run, p.input())
	if got := p.result(); got != event.CompletedWithFailures {
		t.Fatal(got)
	}
	if err := sink.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.itemsOfSlowRetry(t)
	r.want(t, "bide.worker.slots", "", 2)
	if n := r.sum("bide.worker.record.duration", ""); n < 3 {
		t.Errorf("%v records", n)
	}
}

// itemsOfSlowRetry is what workers measure of a whole run of slowRetry.
func (r *receiver) itemsOfSlowRetry(t *testing.T) {
	t.Helper()
	r.want(t, "bide.worker.slots.used", "", 0)
	r.want(t, "bide.worker.items", "", 14)
	r.want(t, "bide.worker.item.duration", "succeeded", 11)
	r.want(t, "bide.worker.item.duration", "retrying", 2)
	r.want(t, "bide.worker.item.duration", "dead_lettered", 1)
	r.want(t, "bide.worker.item.duration", "", 14)
	r.want(t, "bide.items.dead_lettered", "exit", 1)
	r.want(t, "bide.attempt.duration", "", 15)
	r.want(t, "bide.attempt.duration", "exit", 3)
	r.want(t, "bide.step.attempts", "", 15)
	leases := r.sum("bide.worker.leases", "")
	if leases < 2 {
		t.Errorf("%v leases", leases)
	}
	r.want(t, "bide.worker.lease.duration", "settled", leases)
	r.want(t, "bide.worker.lease.wait.time", "", leases)
	for _, none := range []string{"bide.items", "cicd.pipeline.run.active", "cicd.pipeline.run.duration", "cicd.worker.count"} {
		r.want(t, none, "", 0)
	}
}

// TestMetricsOfWorkers: two workers of a real server send what they do when they leave, with
// nothing lost or counted twice; a third, whose collector stalls, leaves within its bound
// and works as well.
func TestMetricsOfWorkers(t *testing.T) {
	t.Parallel()
	s := newSite(t, strings.ReplaceAll(slowRetry, "6h", "1s"), 12)
	r := newReceiver(t)
	plain := s.env
	s.env = append(s.env, r.settings()...)
	workers := []*exec.Cmd{s.worker(2), s.worker(2)}
	s.env = plain
	if out, err := s.bide("run", "--on", "temporal", "flow.yml").CombinedOutput(); err == nil {
		t.Errorf("the run has no dead letter: %s", out)
	}
	for _, w := range workers {
		if err := w.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
	}
	r.itemsOfSlowRetry(t)
	r.want(t, "bide.worker.slots", "", 4)
	if len(r.last) != 2 {
		t.Errorf("%d workers", len(r.last))
	}
	stalled := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stalled }))
	defer srv.Close()
	defer close(stalled)
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+srv.URL, "OTEL_METRIC_EXPORT_INTERVAL=10")
	w := s.worker(2)
	s.env = plain
	before := s.lines("ran")
	if out, err := s.bide("run", "--on", "temporal", "flow.yml").CombinedOutput(); err == nil || s.lines("ran") != before+14 {
		t.Errorf("%v, %d attempts\n%s", err, s.lines("ran")-before, out)
	}
	began := time.Now()
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it left after %v", took)
	}
}
