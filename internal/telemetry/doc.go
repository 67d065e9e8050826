// Package telemetry tells collectors about runs: traces, metrics and logs in
// OpenTelemetry's protocol, and metrics in Prometheus' text format.
//
// It is a reader of events. A [Fold] makes spans, log records and measurements
// of them, without a clock, randomness or I/O of its own; whether the events come
// live from a run ([Sink]) or afterwards from its journal ([Export]), the spans
// are the same, with the same ids. A span's id is a digest of where it is: the
// run, its life, the item, the step and the attempt. So an attempt can be told
// its own span before it begins ([Trace.Attempt]), and nothing has to be kept.
//
// What is sent are the protocol's own messages, without an SDK: a run knows
// better than a general batching processor what its spans are and when it ends.
// Settings are those of the specification's environment variables ([FromEnv]);
// without an endpoint, an exporter or a metrics file there is no sink at all.
//
// # Spans
//
//	run            SERVER    one for each life of the run; a resume links to the first
//	  step         INTERNAL  its waits are events of it
//	    attempt    CLIENT    each one
//	  item         INTERNAL  of those that failed or were retried, 10,000 at most
//	    step …
//
// Metrics have neither runs nor items, messages or addresses as attributes, and no
// more than 200 tasks.
package telemetry
