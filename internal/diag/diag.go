// Package diag is the one form of a problem that a person reads: where it is,
// what is wrong, why, and what to do about it.
//
// Parsers and checkers gather problems into a [List] instead of stopping at
// the first one. A List prints itself as
//
//	deploy.yml:12:7: error: unknown key "timout" [unknown-key]
//	    timout: 30s
//	    ^
//	  did you mean "timeout"?
//
// and marshals to the objects of `bide check --json`.
package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/value"
)

// Severity says whether a problem forbids running.
type Severity uint8

// The severities. The zero value is Error.
const (
	Error Severity = iota
	Warning
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// MarshalText gives "error" or "warning".
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (s *Severity) UnmarshalText(b []byte) error {
	switch string(b) {
	case "error":
		*s = Error
	case "warning":
		*s = Warning
	default:
		return fmt.Errorf("unknown severity %q", b)
	}
	return nil
}

// Pos is a place in a file. Line and Column count from 1, Column in
// characters. The zero Pos means "the file as a whole" or "unknown".
type Pos struct {
	File   string `json:"-"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// IsValid reports whether the position names a line.
func (p Pos) IsValid() bool { return p.Line > 0 }

// String gives "file:line:col", leaving out what is unknown.
func (p Pos) String() string {
	s := p.File
	if p.Line > 0 {
		if s != "" {
			s += ":"
		}
		s += fmt.Sprintf("%d:%d", p.Line, max(p.Column, 1))
	}
	return s
}

// Problem is one thing that is wrong with a file.
type Problem struct {
	Pos
	// EndColumn is the column after the last character concerned, on the
	// same line; 0 means unknown, and the caret marks one character.
	EndColumn  int      `json:"end_column,omitempty"`
	Severity   Severity `json:"severity"`
	Code       string   `json:"code"`       // stable, kebab-case or E001
	Message    string   `json:"message"`    // what and why, no full stop at the end
	Suggestion string   `json:"suggestion"` // what to do; "" if there is nothing to say
}

// Error gives the problem on one line, without the source.
func (p Problem) Error() string {
	var b strings.Builder
	if s := p.Pos.String(); s != "" {
		b.WriteString(s)
		b.WriteString(": ")
	}
	b.WriteString(p.Severity.String())
	b.WriteString(": ")
	b.WriteString(p.Message)
	if p.Code != "" {
		fmt.Fprintf(&b, " [%s]", p.Code)
	}
	if p.Suggestion != "" {
		b.WriteString("; ")
		b.WriteString(p.Suggestion)
	}
	return b.String()
}

// List gathers problems. The zero List is empty and ready to use. It is not
// safe for concurrent use. As an error it lists every problem.
type List []Problem

// Errorf adds an error at pos.
func (l *List) Errorf(pos Pos, code, format string, args ...any) *Problem {
	return l.add(Problem{Pos: pos, Severity: Error, Code: code, Message: fmt.Sprintf(format, args...)})
}

// Warnf adds a warning at pos.
func (l *List) Warnf(pos Pos, code, format string, args ...any) *Problem {
	return l.add(Problem{Pos: pos, Severity: Warning, Code: code, Message: fmt.Sprintf(format, args...)})
}

func (l *List) add(p Problem) *Problem {
	*l = append(*l, p)
	return &(*l)[len(*l)-1]
}

// Suggest sets the suggestion of a problem that was just added.
func (p *Problem) Suggest(format string, args ...any) *Problem {
	p.Suggestion = fmt.Sprintf(format, args...)
	return p
}

// Near suggests the one of some names that a word was probably meant to be, and
// nothing where none is near.
func (p *Problem) Near(word string, names []string) *Problem {
	p.Suggestion = DidYouMean(word, names)
	return p
}

// Or is Suggest for a problem that has no suggestion yet.
func (p *Problem) Or(format string, args ...any) *Problem {
	if p.Suggestion != "" {
		return p
	}
	return p.Suggest(format, args...)
}

// To sets the column after the last character concerned.
func (p *Problem) To(endColumn int) *Problem {
	p.EndColumn = endColumn
	return p
}

// Count returns the number of errors and of warnings.
func (l List) Count() (errors, warnings int) {
	for _, p := range l {
		if p.Severity == Error {
			errors++
		} else {
			warnings++
		}
	}
	return errors, warnings
}

// HasErrors reports whether one of the problems is an error.
func (l List) HasErrors() bool { n, _ := l.Count(); return n > 0 }

// Err gives the list as an error if it has errors, else nil.
func (l List) Err() error {
	if !l.HasErrors() {
		return nil
	}
	return l
}

// Sort orders the problems by file, line and column, keeping the order of
// those at one place, and drops exact repetitions.
func (l *List) Sort() {
	slices.SortStableFunc(*l, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	*l = slices.Compact(*l)
}

// Error lists the problems, one a line.
func (l List) Error() string {
	return strings.Join(value.Map(l, Problem.Error), "\n")
}
