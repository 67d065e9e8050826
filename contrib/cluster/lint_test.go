package cluster

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"helm.sh/helm/v3/pkg/chart"
	chartloader "helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// bide runs the program from the sources.
func bide(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", "./cmd/bide"}, args...)...)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "BIDE_HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("bide %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func project(t *testing.T, text string) (*types.Project, error) {
	t.Helper()
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: ".", ConfigFiles: []types.ConfigFile{{Filename: "compose.yml", Content: []byte(text)}},
	}, func(o *loader.Options) { o.Profiles = []string{"*"} })
}

// TestCompose has Docker Compose's own loader read the file, and bide what it is told to do.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := project(t, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(p.Services)); !slices.Equal(got, []string{"bide", "temporal", "worker"}) {
		t.Fatalf("the services are %q", got)
	}
	for _, name := range []string{"bide", "worker"} {
		s := p.Services[name]
		store := strings.TrimPrefix(*s.Environment["BIDE_STORE"], "dir:")
		if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == store && v.Source == "store" }) {
			t.Errorf("%s has no volume at %s", name, store)
		}
		if host, _, _ := strings.Cut(*s.Environment["TEMPORAL_ADDRESS"], ":"); p.Services[host].Name == "" {
			t.Errorf("%s asks %s, which is no service", name, host)
		}
		bide(t, append([]string(s.Command), "--help")...)
	}
	// A key that there is not would be refused.
	if _, err := project(t, strings.Replace(string(text), "stop_grace_period", "stop_grace_periods", 1)); err == nil {
		t.Error("a wrong key is taken")
	}
	bide(t, "check", "--on", "temporal", "--store", "dir:/store", "contrib/cluster/flow.yml")
}

// values are those that have to be given, with others.
func values(more map[string]any) map[string]any {
	out := map[string]any{"temporal": map[string]any{"address": "temporal.example.org:7233"}, "store": "s3:night/bide"}
	maps.Copy(out, more)
	return out
}

var valuesOfMany = values(map[string]any{
	"temporal":          map[string]any{"address": "temporal.example.org:7233", "namespace": "night", "apiKeySecret": "api", "tlsSecret": "tls"},
	"environmentSecret": "aws", "keySecret": "key", "env": []any{map[string]any{"name": "AWS_REGION", "value": "eu-central-1"}},
	"version": map[string]any{"deployment": "night", "build": "2.1"}, "imagePullSecrets": []any{map[string]any{"name": "registry"}},
	"resources": map[string]any{"requests": map[string]any{"cpu": "2"}},
})

// TestChartIsLinted has Helm's own linter read the chart.
func TestChartIsLinted(t *testing.T) {
	for name, v := range map[string]map[string]any{"few": values(nil), "many": valuesOfMany} {
		for _, m := range lint.AllWithKubeVersion("chart", v, "night", nil).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
	// What has to be given is missed, and what is wrong is refused, by the schema of the values.
	for name, v := range map[string]map[string]any{
		"no address": {"store": "s3:night"}, "no store": {"temporal": map[string]any{"address": "t:7233"}},
		"a key that there is not": values(map[string]any{"slot": 4}), "no slots": values(map[string]any{"slots": 0}),
	} {
		if lint.AllWithKubeVersion("chart", v, "night", nil).HighestSeverity < support.ErrorSev {
			t.Errorf("%s: nothing is said", name)
		}
	}
}

// deployment is what the chart makes of values.
func deployment(t *testing.T, c *chart.Chart, v map[string]any) (d appsv1.Deployment) {
	t.Helper()
	all, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "b", Namespace: "night"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(files[filepath.Join(c.Name(), "templates", "deployment.yaml")]), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestChart looks at what Kubernetes is given, field by field of its own types.
func TestChart(t *testing.T) {
	c, err := chartloader.Load("chart")
	if err != nil {
		t.Fatal(err)
	}
	few := deployment(t, c, values(nil)).Spec
	worker := few.Template.Spec.Containers[0]
	if *few.Replicas != 3 || !slices.Equal(worker.Args, []string{"worker", "--slots", "4", "--store", "s3:night/bide"}) || len(few.Template.Spec.Volumes) > 0 {
		t.Errorf("%+v", few)
	}
	bide(t, append(worker.Args, "--help")...)
	if got := names(worker.Env); !slices.Equal(got, []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"}) {
		t.Errorf("%q", got)
	}

	many := deployment(t, c, valuesOfMany).Spec.Template.Spec
	worker = many.Containers[0]
	want := []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_KEY_PATH",
		"BIDE_TEMPORAL_KEY_FILE", "TEMPORAL_DEPLOYMENT_NAME", "TEMPORAL_WORKER_BUILD_ID", "AWS_REGION"}
	if got := names(worker.Env); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// Each file that a variable names is in a volume that is mounted.
	for _, e := range worker.Env {
		if !strings.HasPrefix(e.Value, "/") {
			continue
		}
		at := slices.IndexFunc(worker.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == filepath.Dir(e.Value) })
		if at < 0 || !slices.ContainsFunc(many.Volumes, func(v corev1.Volume) bool { return v.Name == worker.VolumeMounts[at].Name && v.Secret != nil }) {
			t.Errorf("%s is nowhere", e.Value)
		}
	}
	if worker.EnvFrom[0].SecretRef.Name != "aws" || many.ImagePullSecrets[0].Name != "registry" || worker.Resources.Requests.Cpu().Value() != 2 {
		t.Errorf("%+v", many)
	}
	// The environment's names are those of the page.
	page, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range want[:len(want)-1] {
		if !strings.Contains(string(page), name) && !strings.HasPrefix(name, "TEMPORAL_TLS_") {
			t.Errorf("%s is not on the page", name)
		}
	}
}

func names(env []corev1.EnvVar) (out []string) {
	for _, e := range env {
		out = append(out, e.Name)
	}
	return out
}
