package telemetry

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// TestAPartOfARun: a worker measures what it does with items, each attempt of them and of
// steps; what is of the whole run is not measured, as another worker may have the item next.
func TestAPartOfARun(t *testing.T) {
	m := NewMetrics(t0)
	w := NewWork(m, 4)
	home, lane := w.Part(), w.Part()
	var facts []event.Event
	for e, err := range flaky() {
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, e)
	}
	retried := facts[13] // item b is tried before, at another time
	again := retried
	again.Type, again.DelayMS, again.Time = event.ItemRetry, 1500, retried.Time.Add(2*time.Second)
	home(facts[:12])
	lane([]event.Event{retried, again})
	lane(facts[12:])
	end, broken := w.Lease(1500*time.Millisecond), w.Lease(0)
	free := w.Slot()
	end("settled")
	w.Recorded(time.Second, "")
	w.Recorded(time.Second, "store")
	var text strings.Builder
	if err := m.WritePrometheus(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"bide_worker_slots 4\n", "bide_worker_slots_used 2\n", "bide_worker_leases_total 2\n",
		`bide_worker_lease_duration_seconds_count{bide_lease_outcome="settled"} 1` + "\n",
		"bide_worker_lease_wait_time_seconds_count 2\n", "bide_worker_lease_wait_time_seconds_sum 1.5\n",
		"bide_worker_items_total 3\n",
		`bide_worker_item_duration_seconds_count{bide_item_state="retrying"} 1` + "\n",
		`bide_worker_item_duration_seconds_sum{bide_item_state="retrying"} 2` + "\n",
		`bide_worker_item_duration_seconds_count{bide_item_state="dead_lettered"} 1` + "\n",
		`bide_worker_item_duration_seconds_count{bide_item_state="succeeded"} 1` + "\n",
		"bide_worker_record_duration_seconds_count 1\n", `bide_worker_record_duration_seconds_count{error_type="store"} 1` + "\n",
		`bide_attempt_duration_seconds_count{cicd_pipeline_task_name="fetch",bide_attempt_type="retry",bide_action="shell"} 1` + "\n",
		`bide_attempt_duration_seconds_count{cicd_pipeline_task_name="work",bide_attempt_type="original",error_type="exit"} 1` + "\n",
		`bide_items_dead_lettered_total{error_type="exit"} 1` + "\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %s", want)
		}
	}
	for _, not := range []string{"bide_items{", "cicd_pipeline_run", "cicd_workers", "bide_runs_held"} {
		if strings.Contains(text.String(), not) {
			t.Errorf("there is %s", not)
		}
	}
	if t.Failed() {
		t.Log(text.String())
	}
	free()
	broken("broken")
	var none *Work
	none.Part()(facts)
	none.Lease(0)("settled")
	none.Slot()()
	none.Recorded(0, "")
}

// TestARunHasNoMetricsOfWorkers: those of workers are not measured of a run on one machine.
func TestARunHasNoMetricsOfWorkers(t *testing.T) {
	m := NewMetrics(t0)
	spansOf(t, &Fold{Metrics: m}, flaky())
	for _, s := range m.snapshot() {
		if strings.HasPrefix(s.instrument.name, "bide.worker.") {
			t.Errorf("there is %s", s.instrument.name)
		}
	}
}

// TestTheCollectorIsAway: what lives for long says once that metrics are not taken, and
// once that they are again; the sums have all that happened meanwhile, and Close says nothing.
func TestTheCollectorIsAway(t *testing.T) {
	c := newCollector(t)
	var away atomic.Bool
	away.Store(true)
	var asked atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if away.Load() {
			w.WriteHeader(http.StatusForbidden) // which is not tried again at once
			return
		}
		c.Config.Handler.ServeHTTP(w, r)
	}))
	defer front.Close()
	cfg, err := FromEnv([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + front.URL, "OTEL_METRIC_EXPORT_INTERVAL=5"}, "1")
	if err != nil {
		t.Fatal(err)
	}
	notes := make(chan string, 100)
	w, s, err := StartWork(cfg, Options{Note: func(text string) { notes <- text }}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if text := <-notes; !strings.Contains(text, "403 Forbidden; they are sent when the collector takes them") {
		t.Error(text)
	}
	w.Lease(0)("settled")
	for asked.Load() < 5 {
		time.Sleep(time.Millisecond)
	}
	away.Store(false)
	if text := <-notes; text != "telemetry: metrics: the collector takes them again" {
		t.Error(text)
	}
	w.Lease(0)("settled")
	if err := s.Close(t.Context()); err != nil || len(notes) > 0 {
		t.Errorf("%v, %d notes more", err, len(notes))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.metrics["bide.worker.leases"].GetSum().GetDataPoints()[0].GetAsDouble(); n != 2 {
		t.Errorf("%v leases", n)
	}
	if n := c.metrics["bide.worker.slots"].GetGauge().GetDataPoints()[0].GetAsDouble(); n != 3 {
		t.Errorf("%v slots", n)
	}
	if len(c.spans)+len(c.logs) > 0 {
		t.Errorf("%d spans, %d records", len(c.spans), len(c.logs))
	}
}

// TestInstances: workers with the same settings are told apart, unless the settings do.
func TestInstances(t *testing.T) {
	for _, own := range []string{"", "mine"} {
		cfg, err := FromEnv([]string{"OTEL_METRICS_EXPORTER=otlp", "OTEL_RESOURCE_ATTRIBUTES=service.instance.id=" + own}, "1")
		if err != nil {
			t.Fatal(err)
		}
		if own == "" {
			cfg, err = FromEnv([]string{"OTEL_METRICS_EXPORTER=otlp"}, "1")
		}
		seen := map[any]bool{}
		for range 2 {
			for _, a := range cfg.instance() {
				if a.Key == "service.instance.id" {
					seen[a.Value] = true
				}
			}
		}
		if err != nil || own == "" && len(seen) != 2 || own != "" && (len(seen) != 1 || !seen[own]) {
			t.Errorf("%q: %v, %v", own, seen, err)
		}
	}
}
