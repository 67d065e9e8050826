package telemetry

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Signal is one of the three kinds of telemetry.
type Signal int

// The signals.
const (
	Traces Signal = iota
	MetricsSignal
	Logs
)

var signalNames = [...]string{"traces", "metrics", "logs"}

// String is the signal's name: traces, metrics, logs.
func (s Signal) String() string { return signalNames[s] }

// Exporter says where a signal goes.
type Exporter int

// The exporters.
const (
	None Exporter = iota
	OTLP
	Console // as JSON lines on standard error
)

// Endpoint is where and how a signal is sent.
type Endpoint struct {
	Exporter    Exporter
	URL         string
	JSON        bool // http/json, else http/protobuf
	Headers     map[string]string
	Timeout     time.Duration
	Gzip        bool
	Certificate string // file of the certificates that are trusted; "": the system's
	ClientCert  string // files of the client's own certificate and key
	ClientKey   string
}

// Config are the settings of telemetry, as the environment has them.
type Config struct {
	Signals  [3]Endpoint
	Resource []Attr
	Parent   Parent
	// Ratio is the part of traces that are sampled where no parent says so, 0 to 1.
	Ratio float64
	// Follow heeds the sampling decision of a parent.
	Follow bool
	// TraceContext and Baggage say what is passed on to processes.
	TraceContext, Baggage bool
	State, BaggageText    string // TRACESTATE and BAGGAGE
	// Queue bounds the spans and records that wait to be sent, Batch those that
	// are sent at once, and Delay how long they wait.
	Queue, Batch int
	Delay        time.Duration
	// Interval is how often metrics are sent.
	Interval time.Duration
}

// Enabled reports whether anything is sent.
func (c *Config) Enabled() bool {
	return c != nil && slices.ContainsFunc(c.Signals[:], func(e Endpoint) bool { return e.Exporter != None })
}

// Version is the version of the program's module, or the commit that was built.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}

// FromEnv reads the settings from the OTEL_… variables of an environment, and the
// parent from TRACEPARENT. Telemetry is off, and the result nil, unless an endpoint
// or an exporter is named. The error has all that is wrong.
func FromEnv(environ []string, version string) (*Config, error) {
	env := map[string]string{}
	for _, kv := range environ {
		name, v, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "OTEL_") || name == "TRACEPARENT" || name == "TRACESTATE" || name == "BAGGAGE" {
			env[name] = strings.TrimSpace(v)
		}
	}
	if strings.EqualFold(env["OTEL_SDK_DISABLED"], "true") {
		return nil, nil
	}
	r := reader{env: env}
	c := &Config{
		Queue: r.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048), Batch: r.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
		Delay: r.millis("OTEL_BSP_SCHEDULE_DELAY", 5*time.Second), Interval: r.millis("OTEL_METRIC_EXPORT_INTERVAL", time.Minute),
	}
	for s := range c.Signals {
		c.Signals[s] = r.endpoint(Signal(s))
	}
	if len(r.errs) == 0 && !c.Enabled() {
		return nil, nil
	}
	c.Resource = r.resource(version)
	r.sampler(c)
	r.propagators(c)
	if p, ok := ParseParent(env["TRACEPARENT"]); ok && c.TraceContext {
		c.Parent, c.State = p, env["TRACESTATE"]
	}
	if c.Baggage {
		c.BaggageText = env["BAGGAGE"]
	}
	return c, errors.Join(r.errs...)
}

type reader struct {
	env  map[string]string
	errs []error
}

// bad reports what is wrong with a variable. Each signal that reads it finds the same.
func (r *reader) bad(name, why string) {
	err := fmt.Errorf("%s is %q: %s", name, r.env[name], why)
	if !slices.ContainsFunc(r.errs, func(e error) bool { return e.Error() == err.Error() }) {
		r.errs = append(r.errs, err)
	}
}

// of gives a variable of one signal, or the one for all.
func (r *reader) of(s Signal, suffix string) (name, value string) {
	name = "OTEL_EXPORTER_OTLP_" + strings.ToUpper(s.String()) + "_" + suffix
	if r.env[name] == "" {
		name = "OTEL_EXPORTER_OTLP_" + suffix
	}
	return name, r.env[name]
}

func (r *reader) endpoint(s Signal) Endpoint {
	e := Endpoint{Timeout: 10 * time.Second}
	name, address := r.of(s, "ENDPOINT")
	exporter := "OTEL_" + strings.ToUpper(s.String()) + "_EXPORTER"
	switch v := r.env[exporter]; v {
	case "":
		if address == "" {
			return e
		}
		e.Exporter = OTLP
	case "otlp":
		e.Exporter = OTLP
	case "console":
		e.Exporter = Console
		return e
	case "none":
		return e
	default:
		r.bad(exporter, "write otlp, console or none")
		return e
	}
	address = cmp.Or(address, "http://localhost:4318")
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		r.bad(name, "it must be an address such as http://localhost:4318")
		return e
	}
	if !strings.HasSuffix(name, strings.ToUpper(s.String())+"_ENDPOINT") { // the one for all is a base
		u = u.JoinPath("v1", s.String())
	}
	e.URL = u.String()
	switch name, v := r.of(s, "PROTOCOL"); v {
	case "", "http/protobuf":
	case "http/json":
		e.JSON = true
	case "grpc":
		r.bad(name, "bide sends http/protobuf and http/json; collectors take both, mostly at port 4318")
	default:
		r.bad(name, "write http/protobuf or http/json")
	}
	switch name, v := r.of(s, "COMPRESSION"); v {
	case "", "none":
	case "gzip":
		e.Gzip = true
	default:
		r.bad(name, "write gzip or none")
	}
	name, v := r.of(s, "TIMEOUT")
	if v != "" {
		e.Timeout = r.millis(name, e.Timeout)
	}
	name, v = r.of(s, "HEADERS")
	e.Headers = map[string]string{}
	for _, a := range r.pairs(name, v) {
		e.Headers[a.Key], _ = a.Value.(string)
	}
	_, e.Certificate = r.of(s, "CERTIFICATE")
	_, e.ClientCert = r.of(s, "CLIENT_CERTIFICATE")
	_, e.ClientKey = r.of(s, "CLIENT_KEY")
	return e
}

// pairs reads key=value,key=value with values that are percent-encoded.
func (r *reader) pairs(name, text string) (list []Attr) {
	if text == "" {
		return nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, v, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(v))
		if key = strings.TrimSpace(key); !ok || key == "" || err != nil {
			// Not the text: there may be a key for the collector in it.
			r.errs = append(r.errs, fmt.Errorf("%s: it must be of the form key=value,key=value, with values percent-encoded", name))
			return list
		}
		list = append(list, Attr{key, value})
	}
	return list
}

func (r *reader) number(name string, otherwise int) int {
	v := r.env[name]
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		r.bad(name, "it must be a whole number of 1 or more")
		return otherwise
	}
	return n
}

func (r *reader) millis(name string, otherwise time.Duration) time.Duration {
	return time.Duration(r.number(name, int(otherwise.Milliseconds()))) * time.Millisecond
}

func (r *reader) resource(version string) []Attr {
	attrs := []Attr{{"service.name", "bide"}, {"service.version", version}, {"telemetry.sdk.name", "bide"}, {"telemetry.sdk.language", "go"},
		{"telemetry.sdk.version", version}}
	set := func(a Attr) {
		if i := slices.IndexFunc(attrs, func(b Attr) bool { return a.Key == b.Key }); i >= 0 {
			attrs[i] = a
		} else {
			attrs = append(attrs, a)
		}
	}
	for _, a := range r.pairs("OTEL_RESOURCE_ATTRIBUTES", r.env["OTEL_RESOURCE_ATTRIBUTES"]) {
		set(a)
	}
	if name := r.env["OTEL_SERVICE_NAME"]; name != "" {
		set(Attr{"service.name", name})
	}
	return attrs
}

func (r *reader) sampler(c *Config) {
	c.Ratio = 1
	name, parent := strings.CutPrefix(r.env["OTEL_TRACES_SAMPLER"], "parentbased_")
	c.Follow = parent || name == ""
	switch name {
	case "", "always_on":
	case "always_off":
		c.Ratio = 0
	case "traceidratio":
		if v := r.env["OTEL_TRACES_SAMPLER_ARG"]; v != "" {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil || !(f >= 0 && f <= 1) {
				r.bad("OTEL_TRACES_SAMPLER_ARG", "it must be from 0 to 1")
				return
			}
			c.Ratio = f
		}
	default:
		r.bad("OTEL_TRACES_SAMPLER", "write always_on, always_off, traceidratio, or one of them after parentbased_")
	}
}

func (r *reader) propagators(c *Config) {
	list := cmp.Or(r.env["OTEL_PROPAGATORS"], "tracecontext,baggage")
	for name := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(name) {
		case "tracecontext":
			c.TraceContext = true
		case "baggage":
			c.Baggage = true
		case "none":
		default:
			r.bad("OTEL_PROPAGATORS", "bide knows tracecontext, baggage and none")
		}
	}
}

// sampled decides about a trace by its id, so that every part of a system comes
// to the same decision.
func (c *Config) sampled(t TraceID) bool {
	if c.Follow && !c.Parent.Trace.IsZero() {
		return c.Parent.Sampled
	}
	var n uint64
	for _, b := range t[8:] {
		n = n<<8 | uint64(b)
	}
	return c.Ratio >= 1 || float64(n>>1) < c.Ratio*float64(1<<63)
}
