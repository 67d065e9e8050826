package telemetry

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/files"
)

// The names of Prometheus are ours with "_" for ".", and the unit at the end.
var unitSuffix = map[string]string{"s": "_seconds", "USD": "_usd"}

func promName(i *instrument) string {
	if i.name == "cicd.worker.count" {
		return "cicd_workers" // "_count" is of histograms
	}
	name := strings.ReplaceAll(i.name, ".", "_") + unitSuffix[i.unit]
	if i.kind == counter {
		name += "_total"
	}
	return name
}

// WritePrometheus writes the metrics in Prometheus' text format, version 0.0.4.
func (m *Metrics) WritePrometheus(w io.Writer) error {
	b := bufio.NewWriter(w)
	var last *instrument
	for _, s := range m.snapshot() {
		name := promName(s.instrument)
		if s.instrument != last {
			kind := map[metricKind]string{counter: "counter", upDown: "gauge", gauge: "gauge", histogram: "histogram"}[s.instrument.kind]
			fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, s.instrument.help, name, kind)
			last = s.instrument
		}
		if s.instrument.kind != histogram {
			fmt.Fprintf(b, "%s%s %s\n", name, labels(s.attrs, ""), number(s.value))
			continue
		}
		var sum uint64
		for i, n := range s.buckets {
			sum += n
			bound := "+Inf"
			if i < len(s.instrument.bounds) {
				bound = number(s.instrument.bounds[i])
			}
			fmt.Fprintf(b, "%s_bucket%s %d\n", name, labels(s.attrs, bound), sum)
		}
		fmt.Fprintf(b, "%s_sum%s %s\n%s_count%s %d\n", name, labels(s.attrs, ""), number(s.value), name, labels(s.attrs, ""), s.count)
	}
	return b.Flush()
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func labels(attrs []Attr, le string) string {
	var parts []string
	for _, a := range attrs {
		key := strings.ReplaceAll(a.Key, ".", "_")
		parts = append(parts, key+`="`+labelEscapes.Replace(strings.ToValidUTF8(fmt.Sprint(a.Value), "\ufffd"))+`"`)
	}
	if le != "" {
		parts = append(parts, `le="`+le+`"`)
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// WriteFile writes the metrics to a file that a collector of text files reads:
// by rename, so that it never sees half of it.
func (m *Metrics) WriteFile(path string) error {
	// Another user's collector reads it.
	return files.Replace(path, 0o644, func(f *os.File) error { return m.WritePrometheus(f) })
}
