package action

import (
	"errors"
	"strings"
	"testing"
)

// TestStreamThatWasGivenUp: what comes after a stream was given up, as it took too long, is
// not taken, and an agent without a result is told why it has none.
func TestStreamThatWasGivenUp(t *testing.T) {
	s := &stream{}
	if _, err := s.Write([]byte(`{"type":"system","subtype":"init","session_id":"s1"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	s.Close(errors.New("it did not take the output in time"))
	if n, err := s.Write([]byte(`{"type":"result","subtype":"success","result":"late"}` + "\n")); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	if s.session != "s1" || s.result != nil || !strings.Contains(s.failure(), "did not take the output in time") {
		t.Errorf("%q, %v, %q", s.session, s.result, s.failure())
	}
}
