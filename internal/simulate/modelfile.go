package simulate

import (
	_ "embed"
	"errors"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/notyaml"
)

// Schema is the JSON Schema of model files.
//
//go:embed model.schema.json
var Schema []byte

// Load reads a model file. known are the names under which it may speak of
// steps; nil: any. The model is nil where the list has errors.
func Load(path string, known []string) (*Model, diag.List) {
	text, err := os.ReadFile(path)
	if err != nil {
		var list diag.List
		list.Errorf(diag.Pos{File: path}, "cannot-read", "the model cannot be read: %v", err).Suggest("check the path; bide docs simulate has a model to begin with")
		return nil, list
	}
	return Parse(path, text, known)
}

// maxModel is how large a model file may be, in bytes.
const maxModel = 4 << 20

// Parse is Load with the text given.
func Parse(path string, text []byte, known []string) (*Model, diag.List) {
	r := &reader{path: path, known: known}
	m := &Model{Steps: map[string]*Target{}, Items: 100, Guessed: true}
	var root yaml.Node
	var err error
	if len(text) > maxModel {
		r.list.Errorf(diag.Pos{File: path}, "syntax", "it has %d bytes, and may have %d", len(text), maxModel)
	} else {
		err = yaml.Unmarshal(text, &root)
	}
	switch {
	case err != nil:
		notyaml.Problem(&r.list, path, text, err)
	case len(root.Content) == 1:
		r.fields(root.Content[0], "the model", map[string]func(*yaml.Node){
			"steps":   func(n *yaml.Node) { r.steps(n, m) },
			"process": func(n *yaml.Node) { m.Process = r.span(n) },
			"late": func(n *yaml.Node) {
				m.Late = &Latency{}
				if r.latency(n, m.Late); m.Late.Capacity > 0 {
					r.bad(n, "range", "late is no queue: it is a span, or the uniform, lognormal or empirical times by which attempts begin later than they are due")
				}
			},
			"correlation": func(n *yaml.Node) {
				r.fields(n, "correlation", map[string]func(*yaml.Node){"items": func(n *yaml.Node) { m.Correlation = r.number(n, 0, 1) }})
			},
			"items": func(n *yaml.Node) { m.Items, m.Guessed = r.whole(n, 0, 1e7), false },
		})
	}
	r.list.Sort()
	if r.list.HasErrors() {
		return nil, r.list
	}
	return m, r.list
}

// reader walks the nodes of a model file and gathers its problems.
type reader struct {
	path  string
	known []string
	list  diag.List
}

func (r *reader) bad(n *yaml.Node, code, format string, args ...any) *diag.Problem {
	return r.list.Errorf(diag.Pos{File: r.path, Line: n.Line, Column: n.Column}, code, format, args...)
}

// fields hands the values of a map to those who read them.
func (r *reader) fields(n *yaml.Node, what string, read map[string]func(*yaml.Node)) (seen map[string]bool) {
	seen = map[string]bool{}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	names := slices.Sorted(maps.Keys(read))
	if n.Kind != yaml.MappingNode {
		p := r.bad(n, "type", "%s is a map with the keys %s", what, strings.Join(names, ", "))
		if _, err := strconv.ParseFloat(n.Value, 64); err == nil && read["failures"] != nil {
			p.Suggest("where it is a probability of failure, write {failures: {network: %s}}", exampleP)
		}
		return seen
	}
	for i := 0; i < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		f := read[k.Value]
		switch {
		case f == nil:
			p := r.bad(k, "unknown-key", "%s has no key %q", what, k.Value)
			if read["steps"] != nil && slices.Contains([]string{"failures", "latency", "outages"}, k.Value) {
				p.Suggest("it stands with a step: steps: {\"*\": {%s: …}}, where \"*\" is every step", k.Value)
				continue
			}
			if form := latencyWords[k.Value]; form != "" && read["lognormal"] != nil {
				p.Suggest("write latency: %s", form)
				continue
			}
			switch ours := modelWords[k.Value]; {
			case ours != "" && ours != "failures" && read[ours] != nil:
				p.Suggest("did you mean %q?", ours)
				continue
			case ours != "" && read[ours] != nil:
				p.Suggest("did you mean %q, as in failures: {network: 0.1}?", ours)
				continue
			case read["steps"] != nil && v.Kind == yaml.MappingNode && diag.Nearest(k.Value, names) == "":
				p.Suggest("where it is a step, write it below steps:; the keys are %s", strings.Join(names, ", "))
				continue
			}
			p.Near(k.Value, names).Or("its keys are %s", strings.Join(names, ", "))
		case seen[k.Value]:
			r.bad(k, "duplicate-key", "%q is there twice", k.Value)
		default:
			seen[k.Value] = true
			if v.Kind == yaml.AliasNode {
				v = v.Alias
			}
			f(v)
		}
	}
	return seen
}

func (r *reader) steps(n *yaml.Node, m *Model) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, "type", "steps is a map of steps, by name, id or path; \"*\" is for all others")
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if v.Kind == yaml.AliasNode {
			v = v.Alias
		}
		if r.known != nil && k.Value != "*" && !slices.Contains(r.known, k.Value) {
			p := r.bad(k, "unknown-step", "the file has no step %q", k.Value)
			p.Near(k.Value, r.known).Or("name a step by its name, its id or its path, or use \"*\" for all")
		}
		if m.Steps[k.Value] != nil {
			r.bad(k, "duplicate-key", "%q is there twice", k.Value)
		}
		m.Steps[k.Value] = r.target(v)
	}
}

func (r *reader) target(n *yaml.Node) *Target {
	t := &Target{}
	r.fields(n, "a step of the model", map[string]func(*yaml.Node){
		"failures": func(n *yaml.Node) { r.failures(n, t) },
		"latency":  func(n *yaml.Node) { r.latency(n, &t.Latency) },
		"outages":  func(n *yaml.Node) { r.outages(n, t) },
		"limit":    func(n *yaml.Node) { r.limit(n, t) },
		"cost": func(n *yaml.Node) {
			r.fields(n, "cost", map[string]func(*yaml.Node){
				"usd":    func(n *yaml.Node) { t.USD = r.number(n, 0, 1e9) },
				"tokens": func(n *yaml.Node) { t.Tokens = int64(r.whole(n, 0, 1e12)) },
			})
		},
		"output": func(n *yaml.Node) {
			if n.Kind != yaml.ScalarNode || len(n.Value) > 4<<10 {
				r.bad(n, "type", "output is a text of at most 4 KiB: what an attempt prints that succeeds")
				return
			}
			t.Output = &n.Value
		},
	})
	return t
}

// Classes are the classes of errors that a model may speak of.
var Classes = []string{"auth", "error", "exit", "network", "rate_limit", "server_error", "timeout", "validation"}

// latencyWords says how a distribution is written whose figures stand alone.
var latencyWords = map[string]string{"p50": "{lognormal: {p50: 1s, p99: 5s}}", "p90": "{lognormal: {p50: 1s, p99: 5s}}", "p95": "{lognormal: {p50: 1s, p99: 5s}}", "p99": "{lognormal: {p50: 1s, p99: 5s}}",
	"median": "{lognormal: {p50: 1s, p99: 5s}}", "mean": "2s, or {lognormal: {p50: 1s, p99: 5s}}", "avg": "2s, or {lognormal: {p50: 1s, p99: 5s}}", "stddev": "2s, or {lognormal: {p50: 1s, p99: 5s}}",
	"min": "{uniform: [1s, 5s]}", "max": "{uniform: [1s, 5s]}", "fixed": "2s"}

// classWords maps what others call an error to its class.
var classWords = map[string]string{"http_500": "server_error", "http_502": "server_error", "http_503": "server_error", "500": "server_error", "502": "server_error", "503": "server_error", "5xx": "server_error",
	"http_429": "rate_limit", "429": "rate_limit", "throttled": "rate_limit", "quota": "rate_limit", "connection": "network", "refused": "network", "dns": "network", "crash": "exit", "failure": "exit"}

func (r *reader) class(n *yaml.Node) string {
	if !slices.Contains(Classes, n.Value) {
		p := r.bad(n, "unknown-class", "%q is no class of errors", n.Value)
		if ours := classWords[n.Value]; ours != "" {
			p.Suggest("did you mean %q?", ours)
			return n.Value
		}
		p.Near(n.Value, Classes).Or("the classes are %s", strings.Join(Classes, ", "))
	}
	return n.Value
}

func (r *reader) failures(n *yaml.Node, t *Target) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, "type", "failures is a map: a class of errors, and its probability an attempt").Suggest("write failures: {network: %s}", exampleP)
		return
	}
	sum := 0.0
	for i := 0; i < len(n.Content); i += 2 {
		if slices.ContainsFunc(t.Failures, func(f Failure) bool { return f.Class == n.Content[i].Value }) {
			r.bad(n.Content[i], "duplicate-key", "%q is there twice", n.Content[i].Value)
		}
		f := Failure{r.class(n.Content[i]), r.number(n.Content[i+1], 0, 1)}
		t.Failures = append(t.Failures, f)
		sum += f.P
	}
	if sum > 1+1e-9 {
		r.bad(n, "range", "the probabilities add up to %.4g; the sum may be at most 1", sum)
	}
	sortFailures(t.Failures)
}

func (r *reader) latency(n *yaml.Node, l *Latency) {
	if n.Kind == yaml.ScalarNode {
		l.Constant = r.span(n)
		return
	}
	seen := r.fields(n, "latency", map[string]func(*yaml.Node){
		"constant": func(n *yaml.Node) { l.Constant = r.span(n) },
		"uniform": func(n *yaml.Node) {
			if list := r.spans(n); len(list) == 2 && list[0] <= list[1] {
				l.Uniform = [2]time.Duration(list)
			} else {
				r.bad(n, "range", "uniform is a list of two spans, the lesser one first, such as [50ms, 2s]")
			}
		},
		"lognormal": func(n *yaml.Node) {
			seen := r.fields(n, "lognormal", map[string]func(*yaml.Node){
				"p50": func(n *yaml.Node) { l.LogNormal[0] = r.span(n) },
				"p99": func(n *yaml.Node) { l.LogNormal[1] = r.span(n) },
			})
			if !seen["p50"] || !seen["p99"] || l.LogNormal[0] <= 0 || l.LogNormal[1] < l.LogNormal[0] {
				r.bad(n, "range", "lognormal has the median and the 99th percentile: {p50: 100ms, p99: 1s}")
			}
		},
		"empirical": func(n *yaml.Node) {
			if l.Empirical = r.spans(n); len(l.Empirical) == 0 {
				r.bad(n, "range", "empirical is a list of spans that were measured")
			}
			slices.Sort(l.Empirical)
		},
		"queue": func(n *yaml.Node) {
			r.fields(n, "queue", map[string]func(*yaml.Node){
				"capacity": func(n *yaml.Node) { l.Capacity = r.whole(n, 1, 1e5) },
				"service":  func(n *yaml.Node) { l.Service = r.span(n) },
			})
			if l.Capacity < 1 || l.Service <= 0 {
				r.bad(n, "range", "a queue has a capacity and a mean time of service: {capacity: 8, service: 50ms}")
			}
		},
	})
	if len(seen) > 1 {
		r.bad(n, "conflict", "latency has one of its kinds, and here are %d", len(seen))
	}
}

func (r *reader) outages(n *yaml.Node, t *Target) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = n.Content
	}
	for _, n := range list {
		o := Outage{Class: "network"}
		seen := r.fields(n, "an outage", map[string]func(*yaml.Node){
			"from":      func(n *yaml.Node) { o.From = r.span(n) },
			"for":       func(n *yaml.Node) { o.For = r.span(n) },
			"mean_up":   func(n *yaml.Node) { o.MeanUp = r.span(n) },
			"mean_down": func(n *yaml.Node) { o.MeanDown = r.span(n) },
			"class":     func(n *yaml.Node) { o.Class = r.class(n) },
		})
		fixed, random := seen["from"] || seen["for"], seen["mean_up"] || seen["mean_down"]
		if fixed == random || fixed && o.For <= 0 || random && (o.MeanUp <= 0 || o.MeanDown <= 0) {
			r.bad(n, "range", "an outage is {from: 10s, for: 30s}, or {mean_up: 1h, mean_down: 2m} for many")
		} else if random && min(o.MeanUp, o.MeanDown) < leastMean {
			r.bad(n, "range", "mean_up and mean_down are at least %s", duration.Format(leastMean))
		}
		t.Outages = append(t.Outages, o)
	}
}

func (r *reader) limit(n *yaml.Node, t *Target) {
	l := &Limited{}
	r.fields(n, "limit", map[string]func(*yaml.Node){
		"rate": func(n *yaml.Node) {
			count, per, ok := strings.Cut(n.Value, "/")
			c, err := strconv.Atoi(strings.TrimSpace(count))
			d, derr := duration.Parse(strings.TrimSpace(per))
			if !ok || errors.Join(err, derr) != nil || c < 1 || d <= 0 {
				r.bad(n, "range", "the rate %q is no number of answers in a time", n.Value).Suggest("write it as 10/1s")
				return
			}
			l.Count, l.Per = c, d
		},
		"burst": func(n *yaml.Node) { l.Burst = r.whole(n, 1, 1e9) },
		"retry_after": func(n *yaml.Node) {
			if l.RetryAfter = -1; n.Value != "none" {
				l.RetryAfter = r.span(n)
			}
		},
		"taken": func(n *yaml.Node) {
			if l.AtAnswer = n.Value == "answer"; !l.AtAnswer && n.Value != "arrival" {
				p := r.bad(n, "range", "taken is %q, and a token is taken at the arrival of a request or at its answer", n.Value)
				p.Near(n.Value, []string{"arrival", "answer"}).Or("write arrival or answer")
			}
		},
	})
	if l.Count == 0 {
		r.bad(n, "range", "a limit has a rate, such as 10/1s")
	}
	t.Limit = l
}

func (r *reader) span(n *yaml.Node) time.Duration {
	d, err := duration.Parse(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil || d < 0:
		r.bad(n, "range", "%q is no span of time", n.Value).Suggest("write it as 250ms, 30s, 5m")
	case d > mostSpan:
		r.bad(n, "range", "%q is too long: a span of a model is at most %s", n.Value, duration.Format(mostSpan))
	}
	return d
}

// mostSpan is the longest span that a model may speak of, so that what is drawn
// around it can still be added up; leastMean the least mean time of an outage or
// between two.
const (
	mostSpan  = 3650 * 24 * time.Hour
	leastMean = time.Millisecond
)

func (r *reader) spans(n *yaml.Node) (list []time.Duration) {
	if n.Kind != yaml.SequenceNode {
		r.bad(n, "type", "this is a list of spans of time")
		return nil
	}
	for _, n := range n.Content {
		list = append(list, r.span(n))
	}
	return list
}

func (r *reader) number(n *yaml.Node, least, greatest float64) float64 {
	f, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || !(f >= least && f <= greatest) {
		p := r.bad(n, "range", "%q is no number from %v to %v", n.Value, least, greatest)
		if percent, is := strings.CutSuffix(n.Value, "%"); is && greatest == 1 {
			if f, err := strconv.ParseFloat(percent, 64); err == nil && f >= 0 && f <= 100 {
				p.Suggest("write %v", f/100)
			}
		}
		return least
	}
	return f
}

// whole is a number without a fraction.
func (r *reader) whole(n *yaml.Node, least, greatest float64) int {
	f := r.number(n, least, greatest)
	if f != math.Trunc(f) {
		r.bad(n, "range", "%q is no whole number", n.Value)
	}
	return int(f)
}

// modelWords maps words that a newcomer writes for the failures of a step to the key.
var modelWords = map[string]string{
	"fail": "failures", "fails": "failures", "failure": "failures", "failure_rate": "failures", "fail_rate": "failures",
	"error": "failures", "errors": "failures", "error_rate": "failures", "probability": "failures",
	"duration": "latency", "time": "latency", "takes": "latency",
}

// exampleP is the probability in examples of a model.
const exampleP = "0.1"
