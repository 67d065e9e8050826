package reference

import "strings"

// Variables says of each environment variable that bide reads or sets what it
// means. A test compares it with the sources.
var Variables = []struct{ Group, Name, Doc string }{
	{"Read by bide", "BIDE_HOME", "where the state of runs is kept, instead of `$XDG_STATE_HOME/bide` or `~/.local/state/bide`"},
	{"Read by bide", "BIDE_STORE", "the store of runs on many machines, `dir:PATH`: what `--store` is without being written, and whose runs all commands see"},
	{"Read by bide", "BIDE_TEMPORAL_KEY_FILE", "a file with the key by which what goes through a Temporal server is encrypted: 64 hexadecimal digits, the same on all machines"},
	{"Read by bide", "TEMPORAL_DEPLOYMENT_NAME", "of `bide worker`: the deployment to which the worker belongs; Temporal's worker controller for Kubernetes sets it"},
	{"Read by bide", "TEMPORAL_WORKER_BUILD_ID", "of `bide worker`: which build of that deployment it is; both or none"},
	{"Read by bide", "XDG_STATE_HOME", "where `bide/` stands if `BIDE_HOME` is not set; it must be an absolute path"},
	{"Read by bide", "COLUMNS", "how wide lines may be where the output is no terminal, such as a pipe or a file; a terminal is as wide as it says itself"},
	{"Read by bide", "NO_COLOR", "any value: no colours, unless `--color always`"},
	{"Read by bide", "TERM", "`dumb`: no colours and no live display"},
	{"Read by bide", "CI", "any value: plain progress lines also on a terminal"},
	{"Read by bide", "GITHUB_STEP_SUMMARY", "the file of a job's summary in GitHub Actions, to which each run is added"},
	{"Read by bide", "EMAIL", "the address of commits where git has none"},
	{"Read by bide", "PRODIGY_NO_COMMIT_VALIDATION", "`true`: `commit_required` is not checked"},
	{"Set for what bide runs", "BIDE_RUN", "the id of the run"},
	{"Set for what bide runs", "BIDE_AUTOMATION", "`true`: nobody is there to answer"},
	{"Set for what bide runs", "PRODIGY_AUTOMATION", "the same as `BIDE_AUTOMATION`, for existing scripts"},
	{"Set for what bide runs", "BIDE_OUTPUT", "a file: `NAME=value` lines that a step appends to it are variables of the steps after it"},
	{"Set for what bide runs", "PRODIGY_OUTPUT", "the same as `BIDE_OUTPUT`"},
	{"Set for what bide runs", "BIDE_ITEM", "in a map: the id of the work item"},
	{"Set for what bide runs", "BIDE_ATTEMPT", "the number of the attempt at the step, from 1; in a map on top of the attempts at the item"},
	{"Set for what bide runs", "BIDE_LAST_EXIT", "from the second attempt on: the exit status of the one before; empty where it had none"},
	{"Set for what bide runs", "BIDE_LAST_ERROR", "from the second attempt on: what went wrong in the one before"},
	{"Set for what bide runs", "BIDE_PROBE", "in a map: 1 for an item that is tried while the map is held by same_error"},
	{"Set for what bide runs", "BIDE_RECOVERED", "in a map: how often the item was begun by a process that died; not set if never"},
	{"Set for what bide runs", "BIDE_STATUS", "in `finally`: how the run ended: succeeded, failed or completed_with_failures"},
	{"Set for what bide runs", "BIDE_MESSAGE", "in `finally`: why it failed; empty where it did not"},
	{"Set for what bide runs", "BIDE_RESULTS_FILE", "after a map: the file that `${map.results_file}` names, one JSON object a line"},
	{"Set for what bide runs", "BIDE_GOAL_ATTEMPT", "in the validation of a goal_seek: the number of the attempt"},
	{"Set for what bide runs", "PRODIGY_VALIDATION", "in an attempt of a goal_seek after the first: what the last validation gave, as JSON"},
	{"Set for what bide runs", "BIDE_LIMITS", "the limits of the machine that are held around it, as `NAME=PID`: bide refuses to take one of them again"},
	{"Set for what bide runs", "BIDE_SUPERVISOR", "marks the processes of a run, so that none is left behind; do not change it"},
	{"Set for what bide runs", "BIDE_V1", "`BIDE_V1`, `BIDE_V2`, …: the values of `${…}` in a shell text"},
	{"Telemetry", "OTEL_EXPORTER_OTLP_ENDPOINT", "the collector; also `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `_METRICS_`, `_LOGS_`, and so for the next six"},
	{"Telemetry", "OTEL_EXPORTER_OTLP_PROTOCOL", "`http/protobuf` or `http/json`; where missing: http/protobuf"},
	{"Telemetry", "OTEL_EXPORTER_OTLP_HEADERS", "`name=value,…` of each request"},
	{"Telemetry", "OTEL_EXPORTER_OTLP_TIMEOUT", "of a request, in milliseconds"},
	{"Telemetry", "OTEL_EXPORTER_OTLP_COMPRESSION", "`gzip` or `none`"},
	{"Telemetry", "OTEL_EXPORTER_OTLP_CERTIFICATE", "a file with the authorities that sign the collector's certificate"},
	{"Telemetry", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "our certificate, with `OTEL_EXPORTER_OTLP_CLIENT_KEY`"},
	{"Telemetry", "OTEL_EXPORTER_OTLP_CLIENT_KEY", "the key of our certificate"},
	{"Telemetry", "OTEL_TRACES_EXPORTER", "`otlp`, `console` or `none`; likewise `OTEL_METRICS_EXPORTER`, `OTEL_LOGS_EXPORTER`"},
	{"Telemetry", "OTEL_METRICS_EXPORTER", "`otlp`, `console` or `none`"},
	{"Telemetry", "OTEL_LOGS_EXPORTER", "`otlp`, `console` or `none`"},
	{"Telemetry", "OTEL_SERVICE_NAME", "the name of this service"},
	{"Telemetry", "OTEL_RESOURCE_ATTRIBUTES", "`name=value,…` of everything that is sent"},
	{"Telemetry", "OTEL_PROPAGATORS", "`tracecontext`, `baggage`, `none`"},
	{"Telemetry", "OTEL_TRACES_SAMPLER", "`always_on`, `always_off`, `traceidratio`, or one of them after `parentbased_`"},
	{"Telemetry", "OTEL_TRACES_SAMPLER_ARG", "of traceidratio: 0 to 1"},
	{"Telemetry", "OTEL_BSP_SCHEDULE_DELAY", "between two exports of spans, in milliseconds"},
	{"Telemetry", "OTEL_BSP_MAX_QUEUE_SIZE", "spans that wait at most"},
	{"Telemetry", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "spans of a request at most"},
	{"Telemetry", "OTEL_METRIC_EXPORT_INTERVAL", "between two exports of metrics, in milliseconds"},
	{"Telemetry", "OTEL_SDK_DISABLED", "`true`: no telemetry"},
	{"Telemetry", "TRACEPARENT", "the trace that a run is a part of; each attempt's process gets its own"},
	{"Telemetry", "TRACESTATE", "goes with `TRACEPARENT`"},
	{"Telemetry", "BAGGAGE", "goes with `TRACEPARENT`"},
}

// Environment is the page of the environment variables.
func Environment() string {
	var b strings.Builder
	b.WriteString(Made + "# Environment variables\n")
	group := ""
	for _, v := range Variables {
		if v.Group != group {
			group = v.Group
			b.WriteString("\n## " + group + "\n\n")
			Head(&b, "variable", "what")
		}
		Row(&b, Code(v.Name), v.Doc)
	}
	return b.String()
}
