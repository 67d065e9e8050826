package cluster

import (
	"os"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
)

// seen counts what it is shown.
type seen int

func (n *seen) Emit(event.Event) { *n++ }

// TestSummaryShowsNothing: who has followed a run asks for its summary, and has seen its end.
func TestSummaryShowsNothing(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submit(s.options("name: one\ncommands: [{shell: 'true'}]\n"))
	equal(t, "status", s.drive(run), event.Succeeded)
	r, err := s.home.Read(run)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := new(seen)
	sum, err := engine.SummaryOf(t.Context(), engine.Options{Store: s.home, Sinks: []event.Sink{n}}, r)
	if err != nil || sum.Status != event.Succeeded || *n != 0 {
		t.Errorf("%+v, %v, %d events are shown", sum, err, *n)
	}
}

// TestSaidOnce: the parts of a run are one run for who reads it: that there are no work items
// is told once.
func TestSaidOnce(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submit(s.options("name: none\nmode: mapreduce\nmap:\n  input: []\n  agent_template: [{shell: 'true'}]\nreduce: [{shell: 'true'}]\n"))
	equal(t, "status", s.drive(run), event.Succeeded)
	told := 0
	for _, e := range s.events(run) {
		if strings.Contains(e.Message, "there are no work items") {
			told++
		}
	}
	equal(t, "told", told, 1)
}

// TestSecretOfAWorker: a secret that a worker does not have may be there where the run was
// started, so the message names the worker.
func TestSecretOfAWorker(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	run := s.submit(s.options("name: secret\nsecrets: {T: '${env:BIDE_TEST_NOT_THERE}'}\ncommands: [{shell: 'true'}]\n"))
	equal(t, "status", s.drive(run), event.Failed)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := "on the worker " + host + ": "
	list := s.events(run)
	if e := list[len(list)-1]; !strings.Contains(e.Message, want) || !strings.Contains(e.Message, "BIDE_TEST_NOT_THERE is not set") {
		t.Errorf("%q; want %q in it", e.Message, want)
	}
}
