package simulate

import (
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
)

// Bucket is the width of a bucket of load, as peaks are counted.
const Bucket = 100 * time.Millisecond

// shownBuckets is how many buckets a load over time has at most; with more, two
// become one.
const shownBuckets = 512

// Sample is what one simulated run was like.
type Sample struct {
	Status   string
	Cause    string // why the run did not succeed, with "run" as its subject left out; "" where it did
	Makespan time.Duration
	Attempts int
	Retries  int           // attempts after the first of an operation
	Waits    time.Duration // between attempts, in all
	Letters  int           // items that failed for good
	USD      float64
	Tokens   int64
	Peak     int // most attempts that began in one Bucket
	PeakAt   time.Duration
	// Recovered: after the last outage an attempt succeeded, and the run ended
	// well or continued.
	Recovered bool
	Steps     map[string]*StepSample // by static path
	// Assumed is what the run rests on and nobody knows, each as a clause.
	Assumed []string

	seed        uint64
	draw        int       // which of the models that a run could be fitted to it has met
	draws       int       // how many of them there are
	failed      string    // the step outside items that failed last
	load, first []float64 // attempts that began, and those that were no retries, by width
	width       time.Duration
}

// StepSample counts one step in one run.
type StepSample struct {
	Ended, Succeeded, Attempts, Retries int

	beyond int // attempts after as many as the run has shown that the model is fitted to
}

// good reports whether the run ended well.
func (s *Sample) good() bool { return s.Status == event.Succeeded }

// watch makes a sample of what it is told.
type watch struct {
	Sample
	outageEnd time.Duration
	bucket    time.Duration // the present one of Bucket
	inBucket  int
	static    func(path string) string // the path of a step or a call in its file
	facts     func(event.Event)        // nil: nobody
}

func newWatch() *watch {
	return &watch{Sample: Sample{Steps: map[string]*StepSample{}, width: Bucket}, static: static}
}

func (w *watch) step(path string) *StepSample {
	s := w.Steps[path]
	if s == nil {
		s = &StepSample{}
		w.Steps[path] = s
	}
	return s
}

// assume notes what the run rests on.
func (w *watch) assume(clause string) {
	if !slices.Contains(w.Assumed, clause) {
		w.Assumed = append(w.Assumed, clause)
	}
}

// cost counts what an attempt or a fallback costs.
func (w *watch) cost(usd float64, tokens int64) {
	w.USD += usd
	w.Tokens += tokens
}

// attempt counts an attempt that begins.
func (w *watch) attempt(path string, c *step.Call, now time.Duration, usd float64, tokens int64) {
	again := c.Number > 1 || c.Attempt > 1
	w.Attempts++
	s := w.step(path)
	s.Attempts++
	if again {
		w.Retries++
		s.Retries++
	}
	w.cost(usd, tokens)
	if at := now / Bucket; at != w.bucket {
		w.bucket, w.inBucket = at, 0
	}
	if w.inBucket++; w.inBucket > w.Peak {
		w.Peak, w.PeakAt = w.inBucket, now
	}
	i := int(now / w.width)
	for i >= shownBuckets {
		w.load, w.first, w.width = halved(w.load), halved(w.first), 2*w.width
		i = int(now / w.width)
	}
	for len(w.load) <= i {
		w.load, w.first = append(w.load, 0), append(w.first, 0)
	}
	w.load[i]++
	if !again {
		w.first[i]++
	}
}

// halved makes one of each two buckets.
func halved(list []float64) []float64 {
	out := list[:0]
	for i := 0; i < len(list); i += 2 {
		v := list[i]
		if i+1 < len(list) {
			v += list[i+1]
		}
		out = append(out, v)
	}
	return out
}

// after takes a success, which may be one after the last outage.
func (w *watch) after(e *event.Event, began time.Time) {
	if w.outageEnd > 0 && e.Time.Sub(began) >= w.outageEnd {
		w.Recovered = true
	}
}

// fact takes a fact of the run.
func (w *watch) fact(e *event.Event, began time.Time) {
	switch e.Type {
	case event.RetryScheduled, event.ItemRetry:
		w.Waits += time.Duration(e.DelayMS) * time.Millisecond
	case event.StepFinished:
		s := w.step(w.static(e.Step))
		s.Ended++
		if e.Status == event.Succeeded || e.Status == event.Degraded || e.Status == event.Skipped {
			s.Succeeded++
		}
		if e.Status == event.Succeeded {
			w.after(e, began)
		}
		if e.Status == event.Failed && e.Item == "" {
			w.failed = w.static(e.Step)
		}
	case event.ItemFinished:
		if e.Status == event.DeadLettered || e.Status == event.Failed {
			w.Letters++
		}
	case event.AttemptFinished:
		w.after(e, began)
	}
	if w.facts != nil {
		w.facts(*e)
	}
}
