package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// TraceID and SpanID are as W3C Trace Context has them. Zero stands for none.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

func (t TraceID) String() string { return hex.EncodeToString(t[:]) }
func (s SpanID) String() string  { return hex.EncodeToString(s[:]) }

// IsZero reports whether there is no id.
func (t TraceID) IsZero() bool { return t == TraceID{} }

// IsZero reports whether there is no id.
func (s SpanID) IsZero() bool { return s == SpanID{} }

// Parent is the span of somebody else in which a run was started.
type Parent struct {
	Trace   TraceID
	Span    SpanID
	Sampled bool
}

// ParseParent reads a traceparent; ok is false where there is none that is
// valid, which then counts as none.
func ParseParent(text string) (p Parent, ok bool) {
	f := strings.Split(strings.TrimSpace(text), "-")
	if len(f) < 4 || len(f[0]) != 2 || f[0] == "ff" || f[0] == "00" && len(f) > 4 || len(f[1]) != 32 || len(f[2]) != 16 || len(f[3]) != 2 {
		return Parent{}, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{version[:], f[0]}, {p.Trace[:], f[1]}, {p.Span[:], f[2]}, {flags[:], f[3]}} {
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil || part.text != strings.ToLower(part.text) {
			return Parent{}, false
		}
	}
	p.Sampled = flags[0]&1 == 1
	return p, !p.Trace.IsZero() && !p.Span.IsZero()
}

// Trace is the trace of one life of a run: enough to name each span in it.
type Trace struct {
	Run  string
	Life int // from 1
	ID   TraceID
	// Parent is the span that the run's is a child of; zero: none.
	Parent  SpanID
	Sampled bool
}

// NewTrace is the trace of a life of a run: within the parent's if there is one,
// else one of its own.
func NewTrace(run string, life int, parent Parent) Trace {
	t := Trace{Run: run, Life: life, ID: parent.Trace, Parent: parent.Span, Sampled: true}
	if parent.Trace.IsZero() {
		t.Parent = SpanID{}
		sum := digest("trace", run, life)
		copy(t.ID[:], sum[:])
	}
	return t
}

// Place says where in a run a span stands. Index and Attempt are those of the
// work item, 0 outside of a map.
type Place struct {
	Index, Attempt int
	Step           string
}

// Root is the span of the run itself.
func (t Trace) Root() SpanID { return t.span("run", Place{}, 0) }

// Item is the span of an attempt at a work item.
func (t Trace) Item(index, attempt int) SpanID {
	return t.span("item", Place{Index: index, Attempt: attempt}, 0)
}

// Step is the span of a step.
func (t Trace) Step(p Place) SpanID { return t.span("step", p, 0) }

// Attempt is the span of attempt n of a step.
func (t Trace) Attempt(p Place, n int) SpanID { return t.span("attempt", p, n) }

// Parent gives what a process is told of the span in which it runs.
func (t Trace) Traceparent(id SpanID) string {
	flags := "00"
	if t.Sampled {
		flags = "01"
	}
	return "00-" + t.ID.String() + "-" + id.String() + "-" + flags
}

func (t Trace) span(kind string, p Place, n int) (id SpanID) {
	sum := digest(kind, t.Run, t.Life, p.Index, p.Attempt, p.Step, n)
	copy(id[:], sum[:])
	return id
}

// digest is never zero in its first eight bytes, as an id must not be.
func digest(parts ...any) [sha256.Size]byte {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%v\x00", p)
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	sum[0] |= 1
	return sum
}
