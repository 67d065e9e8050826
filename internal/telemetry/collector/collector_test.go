// Package collector tries bide's telemetry on the programs that people have: the
// receiver of the OpenTelemetry collector, and the parser and the linter of
// Prometheus. The real program runs against them on loopback. It is a module of
// its own, so that nobody who uses bide has what they need.
package collector

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// bide is the program; TestMain builds it.
var bide string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bide-collector-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	bide = filepath.Join(dir, "bide")
	cmd := exec.Command("go", "build", "-o", bide, "./cmd/bide")
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Printf("go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// received is what the receiver of a collector took.
type received struct {
	traces  consumertest.TracesSink
	metrics consumertest.MetricsSink
	logs    consumertest.LogsSink
}

// listen starts the OTLP receiver of the OpenTelemetry collector, and gives its
// address.
func listen(t *testing.T) (*received, string) {
	t.Helper()
	for range 100 {
		r, address, err := listenSomewhere(t)
		if err == nil {
			return r, address
		}
		t.Log(err) // another program was given the port
	}
	t.Fatal("no free port")
	return nil, ""
}

// listenSomewhere is listen on a port that was free a moment ago.
func listenSomewhere(t *testing.T) (*received, string, error) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	f := otlpreceiver.NewFactory()
	cfg := f.CreateDefaultConfig().(*otlpreceiver.Config)
	cfg.GRPC = configoptional.None[configgrpc.ServerConfig]()
	http := cfg.HTTP.GetOrInsertDefault()
	http.ServerConfig.NetAddr.Endpoint = address
	r := &received{}
	set := receivertest.NewNopSettings(f.Type())
	ctx := context.Background()
	t1, err := f.CreateTraces(ctx, set, cfg, &r.traces)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.CreateMetrics(ctx, set, cfg, &r.metrics); err != nil {
		t.Fatal(err)
	}
	if _, err := f.CreateLogs(ctx, set, cfg, &r.logs); err != nil {
		t.Fatal(err)
	}
	// The three are one server.
	if err := t1.Start(ctx, componenttest.NewNopHost()); err != nil {
		return nil, "", err
	}
	t.Cleanup(func() {
		if err := t1.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return r, "http://" + address, nil
}

const file = `
name: nightly
mode: mapreduce
setup:
  - name: fetch
    shell: 'test -f ready || { touch ready; echo "connection reset" >&2; exit 7; }'
    retry_config: {attempts: 3, backoff: fixed, initial_delay: 10ms}
  - name: find
    shell: env
map:
  input: 'seq 1 20 | sed "s/.*/{\"n\":&}/"'
  agent_template:
    - name: work
      shell: "test ${item.n} != 13"
error_policy: {on_item_failure: dlq, continue_on_failure: true}
`

// command runs bide in a directory with an environment; a run that fails is no
// failure.
func command(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command(bide, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append([]string{"BIDE_HOME=" + filepath.Join(dir, "home")}, env...)...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() > 3 {
		t.Fatalf("bide %s: %v\n%s", args, err, out)
	}
	if strings.Contains(string(out), "telemetry") {
		t.Errorf("bide %s: %s", args, out)
	}
}

func workspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nightly.yml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func str(attrs pcommon.Map, key string) string {
	v, ok := attrs.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// spans are the lines of all spans, sorted.
func (r *received) spans() (lines []string) {
	for _, t := range r.traces.AllTraces() {
		for _, rs := range t.ResourceSpans().All() {
			service := str(rs.Resource().Attributes(), "service.name")
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					lines = append(lines, fmt.Sprintf("%s %s %s %s %s %s %s events=%d", service, s.TraceID(), s.SpanID(), s.ParentSpanID(), s.Kind(), s.Name(), s.Status().Code(), s.Events().Len()))
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// find is the attributes of the spans of a name and kind.
func (r *received) find(name, kind string) (found []pcommon.Map) {
	for _, t := range r.traces.AllTraces() {
		for _, rs := range t.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					if s.Name() == name && s.Kind().String() == kind {
						found = append(found, s.Attributes())
					}
				}
			}
		}
	}
	return found
}

// TestOpenTelemetryCollector: the receiver of the OpenTelemetry collector takes
// what a run sends, as protobuf and as JSON; what bide export otel sends
// afterwards is the same.
func TestOpenTelemetryCollector(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "http/json"} {
		t.Run(strings.TrimPrefix(protocol, "http/"), func(t *testing.T) {
			dir := workspace(t)
			live, address := listen(t)
			env := []string{"OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_SERVICE_NAME=jobs",
				"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
			command(t, dir, append(env, "OTEL_EXPORTER_OTLP_ENDPOINT="+address), "run", "nightly.yml", "-q")
			// The run, its setup's two steps with two attempts and one, and the item
			// that failed with its step and its attempt.
			if got := live.spans(); len(got) != 9 || !strings.HasPrefix(got[0], "jobs 0af7651916cd43dd8448eb211c80319c ") {
				t.Errorf("%d spans:\n%s", len(got), strings.Join(got, "\n"))
			}
			attempts := live.find("fetch", "Client")
			if len(attempts) != 2 || str(attempts[0], "process.executable.name") != "sh" || str(attempts[0], "process.exit.code") != "7" || str(attempts[1], "process.exit.code") != "0" {
				t.Errorf("the attempts at fetch: %v", attempts)
			}
			if env := live.find("find", "Client"); len(env) != 1 || str(env[0], "process.executable.name") != "env" {
				t.Errorf("the attempt at find: %v", env)
			}
			if runs := live.find("RUN nightly", "Server"); len(runs) != 1 || str(runs[0], "cicd.pipeline.result") == "" || str(runs[0], "cicd.pipeline.run.id") == "" {
				t.Errorf("the run: %v", runs)
			}
			if n := live.metrics.DataPointCount(); n == 0 {
				t.Error("no metrics came")
			}
			if n := live.logs.LogRecordCount(); n < 3 {
				t.Errorf("%d log records came", n)
			}
			later, address := listen(t)
			command(t, dir, append(env, "OTEL_EXPORTER_OTLP_ENDPOINT="+address), "export", "otel")
			if a, b := strings.Join(live.spans(), "\n"), strings.Join(later.spans(), "\n"); a != b {
				t.Errorf("live\n%s\nafterwards\n%s", a, b)
			}
		})
	}
}

// TestPrometheus: what --metrics-file writes is read by Prometheus' parser, and
// its linter has no complaint.
func TestPrometheus(t *testing.T) {
	dir := workspace(t)
	command(t, dir, nil, "run", "--metrics-file", "bide.prom", "nightly.yml", "-q")
	text, err := os.ReadFile(filepath.Join(dir, "bide.prom"))
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(string(text))).Lint()
	if err != nil {
		t.Fatalf("it cannot be read: %v\n%s", err, text)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	attempts := families["bide_step_attempts"]
	if attempts == nil || attempts.GetType().String() != "HISTOGRAM" {
		t.Fatalf("no histogram of attempts: %v", attempts)
	}
	for _, m := range attempts.Metric {
		if len(m.Label) == 1 && m.Label[0].GetValue() == "fetch" && m.Histogram.GetSampleSum() != 2 {
			t.Errorf("fetch needed %v attempts", m.Histogram)
		}
	}
	if families["bide_items_dead_lettered_total"] == nil {
		t.Errorf("no dead letters in:\n%s", text)
	}
}
