package simulate

import (
	"context"
	"math"

	"github.com/bide-dev/bide/internal/workflow"
)

const (
	// advised is the least part of the peak that a change must take away to be
	// spoken of.
	advised = 0.1
	// adviceAttempts bounds what an advice costs: so many attempts, and so many
	// seeds, for each change that is tried.
	adviceAttempts, adviceSeeds = 200_000, 50
)

// Advise tries other jitters on the step of a workflow whose retries drive the load
// up, under the luck that the samples of r met, and notes the one that lowers the
// peak of its retries most. load gives the file with a change made to it.
func (r *Report) Advise(ctx context.Context, o Options, samples []*Sample, load func(set string) (*workflow.File, error)) error {
	var step *workflow.Step
	workflow.Walk(o.File, func(s *workflow.Step) {
		if s.Path == r.Busiest && s.Retry != nil {
			step = s
		}
	})
	if !r.Stormy() || step == nil {
		return nil
	}
	o.Seeds = min(adviceSeeds, len(samples), int(adviceAttempts/r.Attempts.Mean))
	if o.Seeds < 1 {
		return nil
	}
	now := Summarize(samples[:o.Seeds], false)
	at := settable(o.File, step)
	for _, jitter := range jitters {
		change := at + ".retry.jitter=" + jitter
		file, err := load(change)
		if err != nil {
			continue // which the file refuses
		}
		o.File = file
		tried, err := Run(ctx, o)
		if err != nil || len(tried) < o.Seeds {
			return err
		}
		then := Summarize(tried, false)
		if now.Load.BucketNS != then.Load.BucketNS {
			continue // so much longer that the peaks of the two cannot be compared
		}
		cut := 1 - then.Load.retries()/now.Load.retries()
		if cut >= advised && (r.Advice == nil || cut > r.Advice.Cut) {
			fewer := math.Round((now.Runs.Succeeded.P - then.Runs.Succeeded.P) * float64(o.Seeds))
			r.Advice = &Advice{Set: change, Cut: round(cut), Seeds: o.Seeds, Fewer: max(int(fewer), 0)}
		}
	}
	return nil
}

// retries is the most retries of a bucket, in the mean of all runs.
func (l *LoadReport) retries() (most float64) {
	for i, v := range l.Mean {
		if a := float64(l.Amplification[i]); a > 1 {
			most = math.Max(most, v*(1-1/a))
		}
	}
	return most
}
