package cli

import (
	"context"
	"os"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/telemetry"
	"github.com/spf13/cobra"
)

// telemetry begins to send what happens in a run, according to the environment and the flags;
// nil if neither asks for it.
func (f *runFlags) telemetry() (*telemetry.Sink, error) {
	items, err := traceItems(f.traceItems)
	if err != nil {
		return nil, err
	}
	cfg, err := telemetry.FromEnv(os.Environ(), version())
	if err != nil {
		return nil, usageError{err}
	}
	if cfg == nil && f.metricsFile == "" {
		return nil, nil
	}
	home, err := journal.Home()
	if err != nil {
		return nil, err
	}
	s, err := telemetry.Start(cfg, telemetry.Options{Items: items, File: f.metricsFile, Home: home, Out: f.err})
	if err != nil {
		return nil, usageError{err}
	}
	return s, nil
}

func traceItems(name string) (string, error) {
	switch name {
	case "", "failed":
		return telemetry.ItemsFailed, nil
	case telemetry.ItemsAll, telemetry.ItemsNone:
		return name, nil
	}
	return "", usagef("--trace-items is %q; write failed, all or none", name)
}

func exportCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Send the record of a run to another system",
		Long: `Gives what is recorded of a run to a program that shows it: as OpenTelemetry's
traces, metrics and logs, as JUnit XML, or as Markdown.`,
		Example: `  bide export otel
  bide export junit -o results.xml`,
	}
	cmd.AddCommand(otelCmd(a), junitCmd(a), markdownCmd(a))
	return cmd
}

// otelOptions are the options of export otel.
type otelOptions struct {
	*app
	id          string // of the run
	items, file string
}

func otelCmd(a *app) *cobra.Command {
	o := &otelOptions{app: a}
	cmd := &cobra.Command{
		Use:   "otel [RUN]",
		Short: "Send a run's traces, metrics and logs to an OpenTelemetry collector",
		Long: `Sends the spans, log records and metrics of a recorded run, with the same ids as
when they are sent during the run. The OTEL_… variables name the collector; without
them it is http://localhost:4318.`,
		Example: `  bide export otel
  OTEL_EXPORTER_OTLP_ENDPOINT=https://collector.example:4318 bide export otel 01KAJ3
  OTEL_TRACES_EXPORTER=console OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none bide export otel`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.items, "trace-items", "failed", "which items get spans: failed (or retried; 10,000 at most), all, none")
	cmd.Flags().StringVar(&o.file, "metrics-file", "", "also write the metrics to this file, in Prometheus' text format")
	return cmd
}

func (o *otelOptions) run(ctx context.Context) error {
	items, err := traceItems(o.items)
	if err != nil {
		return err
	}
	cfg, err := telemetry.FromEnv(os.Environ(), version())
	if cfg == nil && err == nil {
		cfg, err = telemetry.FromEnv(append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318"}, os.Environ()...), version())
	}
	if err != nil {
		return usageError{err}
	}
	if cfg == nil {
		return usagef("OTEL_SDK_DISABLED or OTEL_…_EXPORTER=none leaves nothing to send")
	}
	return o.reading(o.id, func(r *journal.Reader) error {
		held, err := r.InUse()
		if err != nil {
			return err
		}
		return telemetry.Export(ctx, cfg, telemetry.Options{Items: items, File: o.file, Out: o.out, Over: !held}, r.Events(ctx, 1, journal.EventFilter{}))
	})
}
