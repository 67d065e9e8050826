package simulate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/workflow"
)

// TestShareInWords: the sentence counts the runs that there were, as the table does; what
// is not all is not said to be all.
func TestShareInWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		good, seeds int
		want        string
	}{
		{12, 20, "12 of 20 runs"},
		{1, 1, "1 of 1 runs"},
		{94, 100, "94 of 100 runs"},
		{996, 1000, "996 of 1000 runs"},
		{999_999, 1_000_000, "999999 of 1000000 runs"},
		{1, 1000, "1 of 1000 runs"},
		{0, 1000, "0 of 1000 runs"},
		{1000, 1000, "1000 of 1000 runs"},
	} {
		r := &simulate.Report{Seeds: c.seeds}
		r.Runs.Succeeded.P = float64(c.good) / float64(c.seeds)
		if got := r.Sentence(); !strings.Contains(got, " "+c.want+" succeed") {
			t.Errorf("%d of %d: %s", c.good, c.seeds, got)
		}
	}
}

// crowd fails together and, without jitter, comes back together.
const crowd = `
name: crowd
map:
  input: items.json
  max_parallel: 80
  agent_template:
    - http: "https://api.example.org/${item}"
      name: fetch
      retry: {attempts: 8, initial_delay: 1s, backoff: fixed, jitter: %s}
`

const crowdModel = `
steps:
  fetch: {latency: 100ms, outages: [{from: 0s, for: 3s, class: network}]}
items: 80
`

// TestAdvice: the jitter that takes most of a peak away is advised, with what it
// takes away; and none where retries are no storm.
func TestAdvice(t *testing.T) {
	t.Parallel()
	advise := func(jitter, made string) *simulate.Report {
		text := fmt.Sprintf(crowd, jitter)
		o := simulate.Options{File: parse(t, text), Model: model(t, made), Seeds: 20, First: 1}
		list := run(t, o)
		r := simulate.Summarize(list, true)
		err := r.Advise(context.Background(), o, list, func(set string) (*workflow.File, error) {
			changed, err := simulate.Set([]byte(text), []string{set})
			if err != nil {
				return nil, err
			}
			return parse(t, string(changed)), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Name(o.File)
		return r
	}
	r := advise("none", crowdModel)
	if r.Advice == nil || !strings.HasPrefix(r.Advice.Set, "fetch.retry.jitter=") || strings.HasSuffix(r.Advice.Set, "none") || r.Advice.Cut < 0.1 || r.Advice.Seeds != 20 {
		t.Fatalf("%+v: %s", r.Advice, r.Sentence())
	}
	if got := r.Sentence(); !strings.Contains(got, "; "+r.Advice.Set+" would cut the peak of retries by ") || !strings.Contains(got, "the load is retries of fetch alone") {
		t.Errorf("%s", got)
	}
	// What it advises is a storm no more.
	_, kind, _ := strings.Cut(r.Advice.Set, "=")
	if then := advise(kind, crowdModel); peak(then)/peak(r) > 1-r.Advice.Cut+1e-6 {
		t.Errorf("a cut of %v: peaks of %v and %v", r.Advice.Cut, peak(r), peak(then))
	}
	if r := advise("none", "steps: {fetch: {latency: 100ms}}\nitems: 80\n"); r.Advice != nil {
		t.Errorf("%+v: %s", r.Advice, r.Sentence())
	}
}

// peak is the most that began in a bucket after the first second.
func peak(r *simulate.Report) (most float64) {
	for i, v := range r.Load.Mean {
		if int64(i)*r.Load.BucketNS >= 1e9 {
			most = max(most, v)
		}
	}
	return most
}

// TestRetriesAlone: an amplification without first attempts is null in JSON.
func TestRetriesAlone(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal([]simulate.Ratio{0, 1.5, simulate.Ratio(math.Inf(1))})
	if err != nil || string(got) != "[0,1.5,null]" {
		t.Errorf("%s, %v", got, err)
	}
}
