package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/bide-dev/bide/internal/journal"
)

// Plan is what a run that others go through has to know before its first event.
func Plan(opt Options) (h journal.Header, err error) {
	if opt.Pipeline != nil {
		opt.File = opt.Pipeline.AsFile()
	}
	if err := fill(&opt); err != nil {
		return h, err
	}
	if held := opt.recorded(opt.File).Withheld; len(held) > 0 {
		return h, fmt.Errorf("the parameter %s is a secret, whose value is not recorded for the machines that share the run: let the file read it out of their environment (${env:NAME})", held[0])
	}
	if h, err = opt.header(); err != nil {
		return h, err
	}
	h.Run, err = journal.NewID()
	return h, err
}

// Unchanged is a *ChangedError where a file of a run is no longer what it was when
// the run began.
func Unchanged(h journal.Header) error {
	var opt Options
	if err := json.Unmarshal(h.Options, &opt.Settings); err != nil {
		return fmt.Errorf("the recorded options of run %s: %w", h.Run, err)
	}
	_, err := sources(h, opt)
	return err
}

// SummaryOf is how a run ended, as it is recorded; nil where it has not ended.
func SummaryOf(ctx context.Context, opt Options, r *journal.Reader) (*Summary, error) {
	st, err := r.State(ctx)
	if err != nil || st.Finished.IsZero() {
		return nil, err
	}
	opt.Sinks = nil // who followed it has seen its end
	return lastSummary(ctx, opt, r)
}
