package telemetry

import "time"

// Attr is an attribute. Value is a string, an int64, a float64 or a bool.
type Attr struct {
	Key   string
	Value any
}

// Kind is a span's, as the protocol numbers it.
type Kind int

// The kinds of span that there are here.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// Span is one that has ended.
type Span struct {
	Trace      TraceID
	ID, Parent SpanID
	Name       string
	Kind       Kind
	Start, End time.Time
	Attrs      []Attr
	Events     []SpanEvent
	// Link is the run span of the first life, of a later one's.
	Link *SpanLink
	// Failed is the class of the error that it ended with, "" of none; Message
	// says more.
	Failed, Message string
}

// SpanEvent is something that happened in a span.
type SpanEvent struct {
	Time  time.Time
	Name  string
	Attrs []Attr
}

// SpanLink is another span, in another trace.
type SpanLink struct {
	Trace TraceID
	Span  SpanID
}

// Severity is a log record's, as the protocol numbers it.
type Severity int

// The severities that there are here.
const (
	Warn  Severity = 13
	Error Severity = 17
)

// Record is a log record.
type Record struct {
	Time     time.Time
	Severity Severity
	Event    string // its type
	Body     string
	Attrs    []Attr
	Trace    TraceID
	Span     SpanID
}
