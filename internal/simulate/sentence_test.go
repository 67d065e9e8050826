package simulate

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/workflow"
)

func TestRoughly(t *testing.T) {
	for f, want := range map[float64]string{2: "2", 2.44: "2.4", 19.2: "19", 99.4: "99", 99.5: "100", 120.4: "120", 20290: "20290"} {
		if got := roughly(f); got != want {
			t.Errorf("%v is %q, want %q", f, got, want)
		}
	}
}

// The first sentence says why runs do not succeed: they may come to their end.
func TestSentenceSaysWhyRunsDoNotSucceed(t *testing.T) {
	one := func(status, cause string, letters int) *Sample {
		return &Sample{Status: status, Cause: cause, Letters: letters, width: Bucket, Steps: map[string]*StepSample{}}
	}
	good := one(event.Succeeded, "", 0)
	letters, fails := one(event.CompletedWithFailures, withLetters, 3), one(event.Failed, "fail at fetch (network)", 0)
	for want, list := range map[string][]*Sample{
		"with these failures 2 of 2 runs succeed, within 0s":                                                                  {good, good},
		"with these failures 0 of 2 runs succeed, because all end with dead letters (3 in the mean), within 0s":               {letters, letters},
		"with these failures 0 of 3 runs succeed, because 2 of 3 fail at fetch (network), 1 of 3 ends with dead letters, wit": {letters, fails, fails},
		"with these failures 1 of 2 runs succeed, 1 of 2 ends with dead letters, within 0s":                                   {good, letters},
	} {
		if got := Summarize(list, false).Sentence(); !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// Why a run did not succeed is what the executor says of it.
func TestCauseOfSimulatedRuns(t *testing.T) {
	m, problems := Parse("m.yml", []byte("steps: {'*': {failures: {network: 1}}}"), nil)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	const each = "\nmap:\n  input: [1, 2]\n  agent_template: [{shell: x, name: fetch}]\n"
	for text, want := range map[string]string{
		"name: a\ncommands: [{shell: x, name: get}]": "fail at get (network)",
		"name: a" + each: withLetters,
		"name: a" + each + "setup: [{shell: y, name: up}]":         "fail at up (network)",
		"name: a" + each + "error_policy: {on_item_failure: stop}": "are stopped by failed items",
	} {
		f, problems := workflow.Parse("w.yml", []byte(text), workflow.Options{})
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		list, err := Run(t.Context(), Options{File: f, Model: m, Seeds: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.Cause != want {
				t.Errorf("%s:\n%s, want %s", text, s.Cause, want)
			}
		}
	}
}

// A run of which few simulated ones are asked tells no bounds of the median, and one
// attempt says nothing of others.
func TestOneRunDoesNotTellTheMedian(t *testing.T) {
	a, b := &Sample{Status: event.Succeeded, draws: 26, width: Bucket}, &Sample{Status: event.Succeeded, draws: 26, draw: 1, width: Bucket}
	if r := Summarize([]*Sample{a, b}, false); r.Sure() || !strings.Contains(r.Sentence(), "one run does not tell the median") {
		t.Errorf("%s", r.Sentence())
	}
	e := &evidence{list: make([]*recorded, 1)}
	if got := e.assumes("one"); len(got) != 1 || got[0] != "other attempts at one are as its only one in the recorded run" {
		t.Errorf("%q", got)
	}
}
