package engine

import "github.com/bide-dev/bide/internal/step"

// LeaveOutCompanion starts the runs of this process without a companion.
func LeaveOutCompanion() { noCompanion = true }

// WhenComposed has f see the executor of a run before its first step runs.
func (o *Options) WhenComposed(f func(*step.Executor)) { o.composed = f }
