package limits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/notyaml"
)

// FileName is the file of the limits, in the home directory.
const FileName = "limits.yml"

// MaxSlots bounds the slots of a limit. The companion is given a descriptor of each
// that a run takes, and the kernel keeps no more than some 250 for it.
const MaxSlots = 128

// maxFile bounds the file.
const maxFile = 1 << 20

// Limit is a limit as the file has it. At least one of Slots and Rate is set, or
// Shared.
type Limit struct {
	Name string
	Pos  diag.Pos
	// Slots is how many attempts run at once; 0 means any number.
	Slots int
	// Rate is how many attempts begin in each Per, evenly; 0 means any number.
	Rate int
	Per  time.Duration
	// Shared: when one run is told to wait, all runs wait.
	Shared bool
}

// Config is what the file says.
type Config struct {
	Path   string
	Limits map[string]Limit
}

// Names gives the names in order.
func (c *Config) Names() []string {
	names := make([]string, 0, len(c.Limits))
	for name := range c.Limits {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Unknown says of a name that the file does not have it, and what to do.
func (c *Config) Unknown(problems *diag.List, pos diag.Pos, name string) {
	if !ValidName(name) {
		problems.Errorf(pos, "bad-name", "a limit cannot be called %q", name).Suggest("write the name of a limit of %s: letters, digits, -, _ and ., 64 at most", FileName)
		return
	}
	p := problems.Errorf(pos, "unknown-limit", "there is no limit %q in %s", name, c.Path)
	if near := diag.Nearest(name, c.Names()); near != "" {
		p.Suggest("did you mean %q? (or add to %s: %s)", near, FileName, exampleLine(name))
		return
	}
	if len(c.Limits) == 0 {
		p.Suggest("write into %s: limits: {%s}", c.Path, exampleLine(name))
		return
	}
	p.Suggest("add under limits: in %s: %s", c.Path, exampleLine(name))
}

func exampleLine(name string) string { return name + ": {slots: 4}" }

// Read reads the file of a home directory. Where there is none, there are no limits.
// The error lists every problem of the file with its place.
func Read(home string) (*Config, error) {
	c := &Config{Path: filepath.Join(home, FileName), Limits: map[string]Limit{}}
	f, err := os.Open(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the limits of this machine: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("the limits of this machine: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %s", c.Path, diag.Bytes(maxFile))
	}
	if problems := c.parse(text); problems.HasErrors() {
		problems.Sort()
		return nil, problems
	}
	return c, nil
}

// parse reads the text of the file.
func (c *Config) parse(text []byte) (problems diag.List) {
	p := parser{path: c.Path, problems: &problems}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) {
			notyaml.Problem(&problems, c.Path, text, err)
		}
		return problems
	}
	for key, val := range p.pairs(doc.Content[0], "the file", "limits: {anthropic: {slots: 6}}") {
		if key.Value != "limits" {
			p.errorf(key, "unknown-key", "unknown key %q", key.Value).Suggest("the file has one key: limits")
			continue
		}
		for name, settings := range p.pairs(val, "limits", "limits: {anthropic: {slots: 6}}") {
			if l, ok := p.limit(name, settings); ok {
				c.Limits[l.Name] = l
			}
		}
	}
	return problems
}

// ValidName reports whether a limit can have a name: it is one of a directory, too.
func ValidName(name string) bool {
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

type parser struct {
	path     string
	problems *diag.List
}

func (p *parser) errorf(n *yaml.Node, code, format string, args ...any) *diag.Problem {
	return p.problems.Errorf(diag.Pos{File: p.path, Line: n.Line, Column: n.Column}, code, format, args...)
}

// pairs gives the keys and values of a map.
func (p *parser) pairs(n *yaml.Node, what, example string) func(func(key, val *yaml.Node) bool) {
	return func(yield func(key, val *yaml.Node) bool) {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
			return
		}
		if n.Kind != yaml.MappingNode {
			p.errorf(n, "wrong-type", "%s must be a map", what).Suggest("for example: %s", example)
			return
		}
		seen := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if at, again := seen[key.Value]; again {
				p.errorf(key, "duplicate-key", "the key %q is here for the second time; the first is in line %d", key.Value, at).Suggest("remove one of the two")
				continue
			}
			seen[key.Value] = key.Line
			if !yield(key, n.Content[i+1]) {
				return
			}
		}
	}
}

// limitWords maps words that others have for the keys of a limit to ours.
var limitWords = map[string]string{"concurrency": "slots", "max_parallel": "slots", "parallel": "slots", "max": "slots", "jobs": "slots", "workers": "slots", "size": "slots",
	"rps": "rate", "rpm": "rate", "throttle": "rate", "rate_limit": "rate", "cooldown": "pause"}

// limitKeys are the keys of a limit.
var limitKeys = []string{"slots", "rate", "pause", "queue"}

// limit reads one limit.
func (p *parser) limit(name, settings *yaml.Node) (Limit, bool) {
	l := Limit{Name: name.Value, Pos: diag.Pos{File: p.path, Line: name.Line, Column: name.Column}}
	before := len(*p.problems)
	if !ValidName(l.Name) {
		p.errorf(name, "bad-name", "a limit cannot be called %q", l.Name).Suggest("begin with a letter, and use letters, digits, -, _ and ., 64 at most")
	}
	for key, val := range p.pairs(settings, "the limit "+strconv.Quote(l.Name), exampleLine(l.Name)) {
		switch key.Value {
		case "slots":
			n, err := strconv.Atoi(val.Value)
			if err != nil || n < 1 || n > MaxSlots {
				p.errorf(val, "out-of-range", "slots is %q; it must be a whole number from 1 to %d", val.Value, MaxSlots).Suggest("for example: slots: 4; for any number, leave slots out")
			}
			l.Slots = n
		case "rate":
			var err error
			if l.Rate, l.Per, err = ParseRate(val.Value); err != nil {
				p.errorf(val, "bad-value", "rate: %s", err).Suggest("for example: rate: 50/1m")
			}
		case "pause":
			if l.Shared = val.Value == "shared"; !l.Shared {
				p.errorf(val, "bad-value", "pause is %q; the only value is shared", val.Value).Suggest("write pause: shared, or leave it out: then each run waits alone")
			}
		case "queue":
			if val.Value != "fifo" {
				p.errorf(val, "bad-value", "queue is %q; the only order is fifo: the longest wait goes first, and priority counts as extra waiting time", val.Value).Suggest("write queue: fifo, or leave it out")
			}
		default:
			problem := p.errorf(key, "unknown-key", "unknown key %q", key.Value)
			if ours := limitWords[key.Value]; ours != "" {
				problem.Suggest("did you mean %q?", ours)
				continue
			}
			problem.Near(key.Value, limitKeys).Or("a limit has %s", strings.Join(limitKeys, ", "))
		}
	}
	if len(*p.problems) == before && l.Slots == 0 && l.Rate == 0 && !l.Shared {
		p.errorf(name, "missing-key", "the limit %q bounds nothing", l.Name).Suggest("write slots, rate or pause, for example: %s", exampleLine(l.Name))
	}
	return l, len(*p.problems) == before
}

// ParseRate reads a rate as the file has it: 50/1m, or 50/m.
func ParseRate(text string) (n int, per time.Duration, err error) {
	count, span, ok := strings.Cut(text, "/")
	n, nerr := strconv.Atoi(strings.TrimSpace(count))
	if span = strings.TrimSpace(span); span != "" && (span[0] < '0' || span[0] > '9') {
		span = "1" + span
	}
	per, perr := duration.Parse(span)
	switch {
	case !ok, nerr != nil, perr != nil:
		return 0, 0, fmt.Errorf("%q is no rate; write a number, a slash and a span of time", text)
	case n < 1 || n > 1_000_000:
		return 0, 0, fmt.Errorf("%q begins with %d; it must be from 1 to 1000000", text, n)
	case per < time.Millisecond || per > 31*24*time.Hour:
		return 0, 0, fmt.Errorf("%q is over %s; it must be from 1ms to 31d", text, duration.Format(per))
	}
	return n, per, nil
}

// RateText is a rate as ParseRate reads it.
func (l Limit) RateText() string { return fmt.Sprintf("%d/%s", l.Rate, duration.Format(l.Per)) }
