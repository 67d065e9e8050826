package mapper

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/step"
)

// TestFailureOfALetter: what the next attempt at an item reads of a failed check is after a
// resume what it was, whatever the check printed.
func TestFailureOfALetter(t *testing.T) {
	t.Parallel()
	for _, printed := range []string{"plain", "Latin-1 \xe9\xff", strings.Repeat("\x00", 4096), "\x00\xff" + strings.Repeat("\x01", 4096), ""} {
		l := Letter{Failure: failure.Failure{Class: ClassEvidence, Message: "the check failed", Stdout: printed, Stderr: "e" + printed}}
		l.Output = l.Raw.Take("/output", printed)
		got, err := FailureOf(&event.Event{Class: ClassEvidence, Message: l.Message, Data: step.Data(l.beside())})
		if err != nil || got.Stdout != printed || got.Stderr != "e"+printed {
			t.Errorf("%.20q, %.20q, %v; want %.20q", got.Stdout, got.Stderr, err, printed)
		}
		if l.Raw["/stdout"] != nil {
			t.Error("the letter itself was changed")
		}
	}
}
