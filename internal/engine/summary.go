package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// Summary is how a run ended: the data of run_finished.
type Summary struct {
	Run        string           `json:"run"`
	Name       string           `json:"name,omitempty"`
	Status     string           `json:"status"`
	DurationMS int64            `json:"duration_ms"`
	Steps      event.Counts     `json:"steps"`
	Items      event.ItemCounts `json:"items"`
	Outputs    map[string]any   `json:"outputs"`
	Class      string           `json:"class,omitempty"`
	Message    string           `json:"message,omitempty"`
	Errors     []journal.Cause  `json:"errors,omitempty"`
	Usage      *step.Usage      `json:"usage,omitempty"`
	Notes      []string         `json:"notes,omitempty"`
	MapReduce  bool             `json:"-"`
	Pipeline   bool             `json:"-"`
	Dir        string           `json:"-"` // of the run's journal
	Err        error            `json:"-"`
	// MergeWith is the command that merges what the run left in branches; "" for nothing.
	// OnceMerged is how the run has ended once that is merged; "" where nothing is left,
	// or more than a merge is missing.
	MergeWith  string `json:"merge_with,omitempty"`
	OnceMerged string `json:"once_merged,omitempty"`
	// Letters are the items that are dead letters: those of the failed that can be run again.
	Letters int `json:"-"`
	// Repeated is what kept failing while the map was running; nil for nothing.
	Repeated *policy.Repeated `json:"-"`
	// Limited is until when a rate limit holds back the agents of a run that can continue;
	// zero for none.
	Limited time.Time `json:"-"`
	// AllowFailedItems and FailOn are those of the run, its file's included.
	AllowFailedItems bool     `json:"-"`
	FailOn           []string `json:"-"`
}

// ExitStatus is the exit status of the process.
func (s *Summary) ExitStatus() int {
	switch s.Status {
	case event.Succeeded, event.CompletedWithFailures:
		if s.Status == event.CompletedWithFailures && (!s.AllowFailedItems || s.MergeWith != "") {
			return 3
		}
		if slices.ContainsFunc(s.FailOn, s.has) {
			return 3
		}
		return 0
	case event.Interrupted:
		return 130
	}
	return 1
}

// has reports whether a step or an item ended in a way of event.Kinds.
func (s *Summary) has(kind string) bool {
	steps, n := s.Steps.Of(kind), s.Items.Of(kind)
	return steps != nil && *steps > 0 || n != nil && *n > 0 || kind == event.Skipped && s.Items.Skipped > 0
}

// summaryOf is the summary that a run_finished tells.
func summaryOf(ctx context.Context, opt Options, r *journal.Reader, e event.Event) (*Summary, error) {
	id := r.Run()
	s := &Summary{}
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, s); err != nil {
			return nil, fmt.Errorf("the summary of run %s: %w", id, err)
		}
	}
	s.Run, s.Status, s.DurationMS, s.Class, s.Message = id, e.Status, e.DurationMS, e.Class, e.Message
	var began Settings
	if err := json.Unmarshal(r.Header().Options, &began); err != nil {
		return nil, fmt.Errorf("the recorded options of run %s: %w", id, err)
	}
	s.AllowFailedItems = began.AllowFailedItems || opt.AllowFailedItems
	if s.FailOn = began.FailOn; len(opt.FailOn) > 0 {
		s.FailOn = opt.FailOn
	}
	s.MapReduce, s.Pipeline, s.Dir = r.Header().Kind == workflow.MapReduce.String(), r.Header().Kind == workflow.Dataflow.String(), r.Dir()
	if s.Items.Failed > 0 { // some may have been given up since
		now, err := r.Summary(ctx)
		if err != nil {
			return nil, err
		}
		s.Letters = now.Items.DeadLettered
	}
	return s, nil
}
